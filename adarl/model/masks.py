"""Masks: every edge has a worth, a price, and so a probability; in the end it is there or not.

In: the worth of every edge: how much of what is known of its target is lost without it, all other edges in place. Out:
`Masks` of probabilities, of random draws, or of hard zeros and ones.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.types import Masks

STRONG = 0.1
"""Share: an edge worth more is never denied. Denying a strong parent would make its correlates worth an edge."""
DENIED = 0.2
"""Share of the draws in which another edge is denied, so that the functions do not come to rely on it for nothing.
Edges s -> s are never denied, `losses.shrink` does that work; nor are edges s -> o, for what is drawn without one of many
states that share a place is not what it would be if it had never been there."""


def every_edge(n_state: int, n_theta_s: int, n_theta_r: int, value: float, n_theta_o: int | None = None) -> Masks:
    """All edges that Eq. 1 allows, with one value. Where states are seen, there is no theta_o and no edge to o."""
    fill = lambda *shape: jnp.full(shape, value, jnp.float32)  # noqa: E731
    return Masks(
        c_s_to_s=fill(n_state, n_state),
        c_a_to_s=fill(n_state),
        c_theta_to_s=fill(n_state, n_theta_s),
        c_s_to_r=fill(n_state),
        c_a_to_r=fill(),
        c_theta_to_r=fill(n_theta_r),
        c_s_to_o=fill(0 if n_theta_o is None else n_state),
        c_theta_to_o=fill(n_theta_o or 0),
    )


def probabilities(worth: Masks, price: Masks) -> Masks:
    """How sure it is that an edge is worth its price: one half where both are equal.

    A state always influences its own next value: the heads predict increments.
    """
    prob = jax.tree.map(lambda w, c: jax.nn.sigmoid((w - c) / jnp.maximum(c, 1e-6)), worth, price)
    own = jnp.eye(prob.c_s_to_s.shape[0], dtype=bool)
    return Masks(**{**vars(prob), "c_s_to_s": jnp.where(own, 1.0, prob.c_s_to_s)})


def draw(key: PRNGKeyArray, worth: Masks) -> Masks:
    """Zeros and ones: s -> s, s -> o and strong edges always, the others most of the time."""
    leaves, treedef = jax.tree.flatten(worth)
    keys = jr.split(key, len(leaves))
    drawn = [
        ((w > STRONG) | jr.bernoulli(k, 1 - DENIED, w.shape)).astype(w.dtype) for k, w in zip(keys, leaves, strict=True)
    ]
    masks = jax.tree.unflatten(treedef, drawn)
    always = {name: jnp.ones_like(getattr(masks, name)) for name in ("c_s_to_s", "c_s_to_o")}
    return Masks(**{**vars(masks), **always})


def draw_open(key: PRNGKeyArray, like: Masks) -> Masks:
    """All states, and actions and thetas most of the time: no state ever looks like a denied action or theta."""
    drawn = draw(key, jax.tree.map(jnp.zeros_like, like))
    return Masks(**{**vars(drawn), "c_s_to_r": jnp.ones_like(drawn.c_s_to_r)})


def harden(prob: Masks, threshold: float) -> Masks:
    """Zeros and ones by a threshold."""
    return jax.tree.map(lambda p: (p > threshold).astype(p.dtype), prob)


def into_states(masks: Masks) -> Float[Array, "state parent"]:
    """The parents of every s_i,t as one row: (s_tm1, a_tm1, theta_s)."""
    return jnp.concatenate([masks.c_s_to_s, masks.c_a_to_s[:, None], masks.c_theta_to_s], axis=1)


def into_reward(masks: Masks) -> Float[Array, " parent"]:
    """The parents of r_t: (s_tm1, a_tm1, theta_r)."""
    return jnp.concatenate([masks.c_s_to_r, masks.c_a_to_r[None], masks.c_theta_to_r])


def from_rows(into_s: Float[Array, "state parent"], into_r: Float[Array, " parent"]) -> Masks:
    """The inverse of `into_states` and `into_reward`."""
    n = into_s.shape[0]
    return Masks(into_s[:, :n], into_s[:, n], into_s[:, n + 1 :], into_r[:n], into_r[n], into_r[n + 1 :])
