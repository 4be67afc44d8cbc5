"""Masks as Bernoulli gates: soft while the graph is searched, binary afterwards.

In: one logit an edge. Out: `Masks` of probabilities, of samples, or of hard zeros and ones.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.types import Masks

START_LOGIT = 2.0


def open_logits(n_state: int, n_theta_s: int, n_theta_r: int) -> Masks:
    """Every edge that Eq. 1 allows, likely at first."""
    return jax.tree.map(
        lambda shape: jnp.full(shape, START_LOGIT),
        Masks(
            c_s_to_s=(n_state, n_state),  # pyright: ignore[reportArgumentType]
            c_a_to_s=(n_state,),  # pyright: ignore[reportArgumentType]
            c_theta_to_s=(n_state, n_theta_s),  # pyright: ignore[reportArgumentType]
            c_s_to_r=(n_state,),  # pyright: ignore[reportArgumentType]
            c_a_to_r=(),  # pyright: ignore[reportArgumentType]
            c_theta_to_r=(n_theta_r,),  # pyright: ignore[reportArgumentType]
        ),
        is_leaf=lambda x: isinstance(x, tuple),
    )


def probabilities(logits: Masks) -> Masks:
    """The probability of every edge. A state always influences its own next value: the heads predict increments."""
    prob = jax.tree.map(jax.nn.sigmoid, logits)
    own = jnp.eye(prob.c_s_to_s.shape[0], dtype=bool)
    return Masks(**{**vars(prob), "c_s_to_s": jnp.where(own, 1.0, prob.c_s_to_s)})


def sample(key: PRNGKeyArray, prob: Masks) -> Masks:
    """Zeros and ones drawn edge by edge."""
    leaves, treedef = jax.tree.flatten(prob)
    keys = jr.split(key, len(leaves))
    drawn = [jr.bernoulli(k, p).astype(p.dtype) for k, p in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(treedef, drawn)


def harden(prob: Masks, threshold: float) -> Masks:
    """Zeros and ones by a threshold."""
    return jax.tree.map(lambda p: (p > threshold).astype(p.dtype), prob)


def into_states(masks: Masks) -> Float[Array, "state parent"]:
    """The parents of every s_i,t as one row: (s_tm1, a_tm1, theta_s)."""
    return jnp.concatenate([masks.c_s_to_s, masks.c_a_to_s[:, None], masks.c_theta_to_s], axis=1)


def into_reward(masks: Masks) -> Float[Array, " parent"]:
    """The parents of r_t: (s_tm1, a_tm1, theta_r)."""
    return jnp.concatenate([masks.c_s_to_r, masks.c_a_to_r[None], masks.c_theta_to_r])
