"""Recordings as rows: single steps of every domain, from which batches are drawn, and the units they come in."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from adarl.model.world import Scale
from adarl.types import Episodes, Transition


class Rows(eqx.Module):
    """The valid steps of every domain, first rows first; the rest of the axis is never drawn."""

    transition: Transition
    count: Int[Array, " domain"]


def pack(episodes: Episodes) -> Rows:
    """Episodes -> Rows."""
    n_domains = episodes.valid.shape[0]
    flat = jax.tree.map(lambda x: x.reshape(n_domains, -1, *x.shape[3:]), episodes.transitions())
    valid = episodes.valid.reshape(n_domains, -1)
    order = jnp.argsort(~valid, axis=1, stable=True)
    take = jax.vmap(lambda x, i: x[i])
    return Rows(jax.tree.map(lambda x: take(x, order), flat), valid.sum(1))


def measure(rows: Rows) -> Scale:
    """Means and standard deviations over the valid rows of all domains, each domain with equal weight."""
    steps = rows.transition
    count = rows.count.astype(jnp.float32)[:, None]
    weight = (jnp.arange(steps.r_t.shape[1]) < rows.count[:, None]).astype(jnp.float32) / count / count.shape[0]

    def moments(x):
        w = weight.reshape(weight.shape + (1,) * (x.ndim - 2))
        mean = (w * x).sum((0, 1))
        deviation = jnp.sqrt((w * (x - mean) ** 2).sum((0, 1)))
        return mean, jnp.where(deviation > 1e-6, deviation, 1.0)  # a constant column keeps its unit

    s_mean, s_scale = moments(steps.s_tm1)
    r_mean, r_scale = moments(steps.r_t)
    return Scale(s_mean, s_scale, moments(steps.s_t - steps.s_tm1)[1], r_mean, r_scale)


def unscaled(n_state: int, scale: Scale) -> Scale:
    """For believed states, whose unit is the belief's own: only rewards keep theirs."""
    ones = jnp.ones(n_state)
    return Scale(0.0 * ones, ones, ones, scale.r_mean, scale.r_scale)
