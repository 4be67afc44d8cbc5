"""A small world that is seen through a camera, a family of it, and little of everything."""

from dataclasses import dataclass
from types import MappingProxyType

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array

from adarl import Config, Family
from adarl.collect import CollectConfig
from adarl.model.plan import MissVAEConfig
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
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


FAMILY = Family(
    "dot",
    Dot(),
    ("noise",),
    sources=({"noise": 0.05}, {"noise": 0.2}, {"noise": 0.5}),
    targets={"in": {"noise": 0.3}, "out": {"noise": 0.8}},
    discount=0.9,
)
CONFIG = Config(
    seeds=2,
    samples=("3",),
    episodes=2,
    steps=20,
    collect=CollectConfig(trials=40, steps=10),
    vae=MissVAEConfig(
        latents=3, features=16, memory=8, hidden=8, frames=3, open_steps=0, search_steps=0, binary_steps=100, batch=9
    ),
    policy=PolicyConfig(
        DoubleDQNConfig(hidden=8, updates=60, batch=16),
        environments=6,
        capacity=300,
        evaluate_every=10,
        evaluate_steps=10,
        council=0.5,
    ),
)
