"""h of Eq. 1: the reward, and with it the failure.

In: (s_tm1, a_tm1, theta_r), standardised and masked. Out: a mixture of Gaussians over r_t and the log-odds that the
episode ended with it. Both share one set of masks: failure is part of the reward.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.model.mixture import Mixture, from_raw
from adarl.network import Network


class RewardHead(eqx.Module):
    """A network of everything that may influence the reward. theta_r enters like a state, so that it can be a place."""

    reward: Network
    ended: Network
    floor: float = eqx.field(static=True)

    def __init__(self, n_in: int, n_theta: int, hidden: int, mixture: int, floor: float, *, key: PRNGKeyArray):
        key_reward, key_ended = jr.split(key)
        inner = (n_in + n_theta, hidden, hidden)
        self.reward = Network((*inner, 3 * mixture), "silu", key=key_reward)
        self.ended = Network((*inner, 1), "silu", key=key_ended)
        self.floor = floor

    def __call__(
        self, inputs: Float[Array, " parent"], theta_r: Float[Array, " theta_r"]
    ) -> tuple[Mixture, Float[Array, ""]]:
        """Inputs and theta are masked by the caller."""
        both = jnp.concatenate([inputs, theta_r])
        raw = self.reward(both)
        return from_raw(raw, jnp.zeros(raw.shape[0] // 3), self.floor, 1.0), self.ended(both)[0]
