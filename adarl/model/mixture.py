"""Mixtures of Gaussians: what every factor of the model answers (paper, Sec. 3.1)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray


class Mixture(NamedTuple):
    """A one-dimensional mixture of Gaussians."""

    logits: Float[Array, " component"]
    mean: Float[Array, " component"]
    scale: Float[Array, " component"]


def log_prob(mixture: Mixture, value: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """log sum_m pi_m N(value; mean_m, scale_m), of one value or of many with a mixture each."""
    z = (value[..., None] - mixture.mean) / mixture.scale
    log_normal = -0.5 * z**2 - jnp.log(mixture.scale) - 0.5 * jnp.log(2 * jnp.pi)
    return jax.nn.logsumexp(jax.nn.log_softmax(mixture.logits) + log_normal, axis=-1)


def draw(key: PRNGKeyArray, mixture: Mixture) -> Float[Array, ""]:
    """One sample."""
    key_component, key_noise = jr.split(key)
    m = jr.categorical(key_component, mixture.logits)
    return mixture.mean[m] + mixture.scale[m] * jr.normal(key_noise)


def mean_of(mixture: Mixture) -> Float[Array, "*batch"]:
    """The mean, of one mixture or of many."""
    return (jax.nn.softmax(mixture.logits) * mixture.mean).sum(-1)


def without_rare(mixture: Mixture) -> Mixture:
    """Only components at least half as likely as the likeliest: a rare one is the model's doubt, not the plant's chance."""
    doubtful = mixture.logits < mixture.logits.max(-1, keepdims=True) - jnp.log(2.0)
    return mixture._replace(logits=jnp.where(doubtful, -jnp.inf, mixture.logits))


def from_raw(
    raw: Float[Array, " three_components"], shift: Float[Array, " component"], floor: float, apart: float | Array
) -> Mixture:
    """A mixture from the last layer's numbers.

    `shift` is added to the means; no scale falls below `floor`; `apart` in [0, 1] lets the means differ.
    """
    logits, mean, scale = jnp.split(raw, 3)
    return spread_out(Mixture(logits, mean + shift, floor + jax.nn.softplus(scale - 3.0)), apart)


def spread_out(mixture: Mixture, apart: float | Array) -> Mixture:
    """The same with means as far from their centre as `apart` allows: 0 makes one of them, 1 leaves them where they are."""
    centre = mixture.mean.mean(-1, keepdims=True)
    return mixture._replace(mean=centre + apart * (mixture.mean - centre))
