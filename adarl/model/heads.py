"""h of Eq. 1: the reward, and with it the failure.

In: (s_tm1, a_tm1, theta_r), standardised, and the masks. Out: the log-odds that the episode ended, and a mixture of
Gaussians over r_t for either case. All share one set of masks: failure is part of the reward.

Departs from the paper: theta_r moves the states that h sees, and scales and shifts what h pays, because a network of
theta_r knows little between the few thetas it saw and nothing beyond. A reward paid elsewhere and a reward paid more
generously are both within reach of a line through the sources.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.model.mixture import Mixture, from_raw
from adarl.model.transition import head_inputs
from adarl.network import Network

SHARP = 10.0
"""Log-odds in a unit of the network that says where episodes end: they end at an edge, not in a zone."""


class RewardHead(eqx.Module):
    """Where the reward is earned and how much of it, where the episode ends: theta_r may move all three.

    Rewards have edges, so these networks do: a smooth one passes what it cannot follow off as noise.
    """

    place: eqx.nn.Linear
    pay: Network
    gain: Float[Array, " theta_r"]
    bonus: Float[Array, " theta_r"]
    end_place: eqx.nn.Linear
    end: Network
    floor: float = eqx.field(static=True)

    def __init__(
        self, n_state: int, n_actions: int, n_theta: int, hidden: int, mixture: int, floor: float, *, key: PRNGKeyArray
    ):
        key_place, key_pay, key_end_place, key_end = jr.split(key, 4)
        inner = (n_state + n_actions, hidden, hidden)
        self.place = eqx.nn.Linear(n_theta, n_state, use_bias=False, key=key_place)
        self.pay = Network((*inner, 2 * 3 * mixture), "relu", key=key_pay)
        self.gain = jnp.zeros(n_theta)
        self.bonus = jnp.zeros(n_theta)
        self.end_place = eqx.nn.Linear(n_theta, n_state, use_bias=False, key=key_end_place)
        self.end = Network((*inner, 1), "relu", key=key_end)
        self.floor = floor

    def __call__(
        self,
        s: Float[Array, " state"],
        a: Float[Array, " action"],
        theta_r: Float[Array, " theta_r"],
        parents: Float[Array, " parent"],
        apart: float | Array = 1.0,
    ) -> tuple[Mixture, Float[Array, ""]]:
        """(r_t if the episode goes on and if it ended, log-odds of the end), as far as the `parents` know.

        `apart` lets the means of a mixture differ.
        """
        theta_r = theta_r * parents[s.shape[0] + 1 :]
        inputs = lambda place: head_inputs(s + place(theta_r), a, parents)[0]  # noqa: E731
        raw = self.pay(inputs(self.place)).reshape(2, -1)
        r = jax.vmap(lambda x: from_raw(x, jnp.zeros(()), self.floor, apart))(raw)
        mean = (1 + self.gain @ theta_r) * r.mean + self.bonus @ theta_r
        return r._replace(mean=mean), SHARP * self.end(inputs(self.end_place))[0]
