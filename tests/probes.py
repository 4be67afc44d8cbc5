"""Probe environments: problems so small that every value is known. What fails on them names the broken part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from adarl.domains.functional import Functional
from adarl.network import Network
from adarl.policy import learn as learning
from adarl.policy.double_dqn import DoubleDQN, DoubleDQNConfig
from adarl.policy.learn import LearnState, PolicyConfig, learn
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import Compact, Step, Theta

N_STATES, N_ACTIONS, DISCOUNT = 3, 2, 0.8
CONFIG = PolicyConfig(
    learner=DoubleDQNConfig(
        hidden=24,
        discount=DISCOUNT,
        learning_rate=5e-3,
        batch=64,
        average_rate=0.05,
        updates=600,
    ),
    environments=16,
    horizon=3,  # an episode that starts anew has not ended: values know nothing of it
    capacity=4000,
    explore=0.5,
    epsilon=0.3,
    evaluate_every=200,
    evaluate_steps=4,
)
KEYS = jr.split(jr.key(0), 2)


@dataclass(frozen=True)
class Table:
    """A decision process written down as tables with the axes (state, action).

    The tables are its factors, so one compiled program learns all probes. States are one-hot. Episodes begin in
    the first state, wide ones in the second.
    """

    state_names: tuple[str, ...] = ("s_0", "s_1", "s_2")
    n_actions: int = N_ACTIONS

    @property
    def defaults(self) -> Mapping[str, float]:
        return {}

    def reset(self, key, factors, wide) -> Array:
        return jax.nn.one_hot(jnp.where(wide, 1, 0), N_STATES)

    def step(self, key, s_tm1, a_tm1, factors) -> Step:
        at = (jnp.argmax(s_tm1), a_tm1)
        follows = jax.nn.one_hot(factors["follows"][at], N_STATES)
        return Step(follows, factors["r"][at], factors["ended"][at])

    def recordable(self, s) -> Array:
        return jnp.bool_(True)


class Probe(NamedTuple):
    """One domain's tables."""

    r: list[list[float]]
    follows: list[list[int]]
    ended: list[list[bool]]


ENDS, GOES_ON = [True, True], [False, False]
BANDIT = Probe([[0.0, 1.0]] * 3, [[0, 0]] * 3, [ENDS] * 3)
OPPOSITE = Probe([[1.0, 0.0]] * 3, [[0, 0]] * 3, [ENDS] * 3)
ENDLESS = Probe([[0.0, 1.0]] * 3, [[0, 0], [1, 1], [2, 2]], [GOES_ON] * 3)
TWO_STEPS = Probe([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [[1, 1]] * 3, [GOES_ON, ENDS, ENDS])
DOORS = Probe([[0.0, 0.0], [0.0, 1.0], [0.25, 0.25]], [[2, 1]] * 3, [GOES_ON, ENDS, ENDS])


def sources(*probes: Probe, imagined: Any = None, elsewhere: Any = None) -> Sources:
    """Two domains."""
    first, second = probes if len(probes) == 2 else probes * 2
    factors = {name: jnp.stack([jnp.asarray(getattr(p, name)) for p in (first, second)]) for name in Probe._fields}
    domain: Functional = Table()
    return Sources(domain, factors, 2, imagined, jnp.float32(1.0), elsewhere)


def told(first: float = -1.0, second: float = 1.0) -> DoubleDQN:
    """The theta_s of both domains; theta_r never differs."""
    return DoubleDQN(CONFIG.learner, Theta(jnp.array([[first], [second]]), jnp.zeros((2, 1))))


def view() -> View:
    kept = Compact(jnp.ones(N_STATES, bool), jnp.array([True]), jnp.array([False]))
    return View.of(kept, jnp.zeros(N_STATES), jnp.ones(N_STATES))


class Learned(NamedTuple):
    chosen: Network
    curve: np.ndarray
    states: list[tuple[LearnState, int]]


def train(where: Sources, keys=KEYS, resumed=None, algorithm: DoubleDQN | None = None) -> Learned:
    states = []
    each = lambda s, updates: states.append((jax.tree.map(jnp.copy, s), updates))  # noqa: E731 (what it was given is used up)
    last = learn(where, algorithm or told(), view(), N_ACTIONS, CONFIG, keys, resumed=resumed, each=each)
    return Learned(jax.vmap(learning.chosen)(last), np.asarray(last.curve), states)


def values(q: Network, state: int, theta_s: float) -> np.ndarray:
    """Q of every seed in the rewards' own units: `shaped` undone, with the best reward one. Axes (seed, action)."""
    x = view()(jnp.eye(N_STATES)[state], Theta(jnp.array([theta_s]), jnp.zeros(1)))
    return (np.asarray(jax.vmap(lambda q: q(x))(q)) + 1.0) / (1 - DISCOUNT)


class Dream(eqx.Module):
    """Imagined domains with any theta_s in [-1, 1]: below zero `BANDIT`, above it `OPPOSITE`."""

    @property
    def outermost(self) -> Theta:
        return Theta(jnp.array([[-1.0], [1.0]]), jnp.zeros((2, 1)))

    def draw_theta(self, key) -> Theta:
        return Theta(jr.uniform(key, (1,), minval=-1.0), jnp.zeros(1))

    def nearer(self, theta, share) -> Theta:
        return jax.tree.map(lambda x: share * x, theta)

    def reset(self, key, theta, wide) -> Array:
        return Table().reset(key, {}, wide)

    def step(self, key, s_tm1, a_tm1, theta) -> Step:
        return Step(s_tm1, ((a_tm1 == 1) == (theta.theta_s[0] < 0)).astype(jnp.float32), jnp.bool_(True))
