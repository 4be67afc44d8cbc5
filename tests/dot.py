"""A small world that is seen through a camera."""

from dataclasses import dataclass
from types import MappingProxyType

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array

from adarl.types import Step


@dataclass(frozen=True)
class Dot:
    """A light that is pushed to and fro along a line, seen in pictures of eight by eight pixels."""

    state_names = ("x",)
    n_actions = 2
    defaults = MappingProxyType({"noise": 0.0})
    image = (8, 8, 1)

    def reset(self, key, factors, wide) -> Array:
        return jr.uniform(key, (1,), minval=-1.0, maxval=1.0)

    def step(self, key, s_tm1, a_tm1, factors) -> Step:
        s = s_tm1 + 0.3 * (2 * a_tm1 - 1)
        return Step(s, jnp.float32(1.0), jnp.abs(s[0]) > 2.0)

    def recordable(self, s) -> Array:
        return jnp.bool_(True)

    def observe(self, key, s, factors) -> Array:
        across = jnp.exp(-((jnp.linspace(-2, 2, 8) - s[0]) ** 2))
        clean = jnp.broadcast_to(2 * across - 1, (8, 8))[..., None]
        return clean + jnp.sqrt(factors["noise"]) * jr.normal(key, clean.shape)
