"""h of Eq. 1: the reward, and with it the failure.

In: (s_tm1, a_tm1, theta_r), standardised and masked. Out: a mixture of Gaussians over r_t and the log-odds that the
episode ended with it. Both share one set of masks: failure is part of the reward.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.model.mixture import Mixture, from_raw
from adarl.network import Network, silence


class RewardHead(eqx.Module):
    """A network of everything that may influence the reward. theta_r enters like a state, so that it can be a place."""

    reward: Network
    ended: Network
    floor: float = eqx.field(static=True)

    def __init__(
        self,
        n_state: int,
        n_actions: int,
        n_theta: int,
        hidden: int,
        mixture: int,
        floor: float,
        *,
        key: PRNGKeyArray,
    ):
        def network(n_out: int, key: PRNGKeyArray) -> Network:
            net = Network((n_state + n_actions + n_theta, hidden, hidden, n_out), "silu", key=key)
            return eqx.tree_at(lambda n: n.layers[0], net, silence(net.layers[0], n_state, n_state + n_actions))

        key_reward, key_ended = jr.split(key)
        self.reward = network(3 * mixture, key_reward)
        self.ended = network(1, key_ended)
        self.floor = floor

    def __call__(
        self, inputs: Float[Array, " parent"], theta_r: Float[Array, " theta_r"]
    ) -> tuple[Mixture, Float[Array, ""]]:
        """Inputs and theta are masked by the caller."""
        both = jnp.concatenate([inputs, theta_r])
        raw = self.reward(both)
        return from_raw(raw, jnp.zeros(raw.shape[0] // 3), self.floor), self.ended(both)[0]
