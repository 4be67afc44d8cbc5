"""f_i of Eq. 1: one head a state dimension, each behind its own masks.

In: (s_tm1, a_tm1, theta_s), standardised and masked. Out: a mixture of Gaussians over the increment of s_i.

Departs from the paper: f_i is affine in every dimension of theta_s, with coefficients that are networks of (s, a), because
a network of theta knows nothing beyond the few thetas it saw, while a plane through five domains reaches a sixth. Two
dimensions may also act through their product, as gravity and mass do. A change that is still not met takes more dimensions
of theta_s: any smooth change is a sum of a few products.
"""

from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.model.mixture import Mixture, from_raw
from adarl.network import Network


class TransitionHead(eqx.Module):
    """One f_i: a linear map plus a network of (s, a), plus theta_s and its products times networks of (s, a)."""

    linear: eqx.nn.Linear
    body: Network
    out: eqx.nn.Linear
    slope: eqx.nn.Linear
    joint: Float[Array, "component pair hidden"]
    floor: float = eqx.field(static=True)

    def __init__(self, n_in: int, n_theta: int, hidden: int, mixture: int, floor: float, *, key: PRNGKeyArray):
        key_linear, key_body, key_out, key_slope = jr.split(key, 4)
        self.linear = eqx.nn.Linear(n_in, mixture, use_bias=False, key=key_linear)
        self.body = Network((n_in, hidden, hidden), "silu", key=key_body)
        self.out = eqx.nn.Linear(hidden, 3 * mixture, key=key_out)
        self.slope = eqx.nn.Linear(hidden, mixture * n_theta, key=key_slope)
        self.joint = jnp.zeros((mixture, n_theta * (n_theta - 1) // 2, hidden))
        self.floor = floor

    def __call__(
        self, inputs: Float[Array, " parent"], theta_s: Float[Array, " theta_s"], apart: float | Array = 1.0
    ) -> Mixture:
        """Inputs and theta are masked by the caller. `apart` lets the means of a mixture differ and products act."""
        features = self.features(inputs)
        shift = self.linear(inputs) + self.slopes(features) @ theta_s + self.joint @ features @ (apart * products(theta_s))
        return from_raw(self.out(features), shift, self.floor, apart)

    def features(self, inputs: Float[Array, " parent"]) -> Float[Array, " hidden"]:
        """What the network makes of (s, a)."""
        return jax.nn.silu(self.body(inputs))

    def slopes(self, features: Float[Array, " hidden"]) -> Float[Array, "component theta_s"]:
        """How much each dimension of theta_s moves the means."""
        return self.slope(features).reshape(self.linear.out_features, -1)


def products(theta_s: Float[Array, " theta_s"]) -> Float[Array, " pair"]:
    """theta_j theta_k of every pair."""
    pairs = list(combinations(range(theta_s.shape[0]), 2))
    return jnp.stack([theta_s[j] * theta_s[k] for j, k in pairs]) if pairs else jnp.zeros(0)


def stack_heads(
    n_state: int, n_actions: int, n_theta: int, hidden: int, mixture: int, floor: float, *, key: PRNGKeyArray
) -> TransitionHead:
    """The heads of all state dimensions, stacked on a leading axis."""
    make = lambda k: TransitionHead(n_state + n_actions, n_theta, hidden, mixture, floor, key=k)  # noqa: E731
    return eqx.filter_vmap(make)(jr.split(key, n_state))


def head_inputs(
    s: Float[Array, " state"], a: Float[Array, " action"], parents: Float[Array, " parent"]
) -> tuple[Float[Array, " input"], Float[Array, " theta"]]:
    """Masked network inputs, and the mask of theta, from one row of parents (s, a, theta)."""
    n_state = s.shape[0]
    return jnp.concatenate([s * parents[:n_state], a * parents[n_state]]), parents[n_state + 1 :]
