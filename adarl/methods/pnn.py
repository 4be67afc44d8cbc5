"""PNN (Rusu et al., 2016) on Double DQN: a column of the sources that stays as it is, and one beside it for each target.

In: the sources. Out: Q, trained on all of them together: the first column. In a target a second column is trained on the
target's samples alone, off-line; every layer of it also reads what the first column's layer before made of the state.

Departs from its paper: one column for all sources instead of one each, because what is learned in a fifth of the updates is
worse than what is learned in all; the second column starts as a copy of the first, because a few random steps teach a fresh
one nothing; it is the one, of those it passed through, that erred least on a fifth of the samples set aside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.methods.method import (
    Lesson,
    OneQ,
    Policy,
    Sample,
    Trained,
    certain,
    experiences,
    nothing_told,
    rows,
    stack,
)
from adarl.network import Network, each_of, linear
from adarl.policy import double_dqn
from adarl.policy.double_dqn import DoubleDQN, DoubleDQNConfig
from adarl.policy.replay import Experience


@dataclass(frozen=True)
class PnnConfig:
    """The second column."""

    lateral: int = 16
    """Width of what one column tells the other: a quarter of a layer."""
    strength: float = 0.1
    """What the first column's features are multiplied by at first."""
    updates: int = 500
    """In a target."""
    rate: float = 1e-3
    """Of Adam, in a target."""


POOL = 4096  # steps of a target that are used; more are thinned out evenly
EVERY = 100  # updates between two looks at the steps set aside
ASIDE = 5  # one step of so many is set aside


class Lateral(eqx.Module):
    """What a layer of the second column reads of the first: U relu(V alpha h)."""

    alpha: Float[Array, ""]
    narrow: eqx.nn.Linear
    widen: eqx.nn.Linear

    def __init__(self, n_in: int, n_out: int, config: PnnConfig, key: PRNGKeyArray):
        key_narrow, key_widen = jr.split(key)
        self.alpha = jnp.float32(config.strength)
        self.narrow = eqx.nn.Linear(n_in, config.lateral, key=key_narrow)
        widen = eqx.nn.Linear(config.lateral, n_out, key=key_widen)
        # The second column starts as it would without the first, so that it is a copy of it.
        self.widen = jax.tree.map(jnp.zeros_like, widen)

    def __call__(self, h: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        """Any number of rows."""
        return linear(self.widen, jax.nn.relu(linear(self.narrow, self.alpha * h)))


class Columns(eqx.Module):
    """Two columns, of which the second acts."""

    first: Network
    second: Network
    laterals: tuple[Lateral, ...]

    @classmethod
    def beside(cls, first: Network, config: PnnConfig, key: PRNGKeyArray) -> "Columns":
        """A second column beside a trained one."""
        later = first.layers[1:]
        keys = jr.split(key, len(later))
        size = lambda layer: (layer.weight.shape[1], layer.weight.shape[0])  # noqa: E731
        return cls(first, first, tuple(Lateral(*size(layer), config, k) for layer, k in zip(later, keys, strict=True)))

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch action"]:
        """Q of the second column."""
        told = jax.lax.stop_gradient(self.first).features(x)
        h = linear(self.second.layers[0], x)
        for layer, lateral, other in zip(self.second.layers[1:], self.laterals, told, strict=True):
            h = linear(layer, jax.nn.relu(h)) + lateral(other)
        return h


class PNN(OneQ):
    """A column for the sources, and one for each target."""

    def __init__(self, lesson: Lesson, config: PnnConfig):
        self.lesson, self.config, self.sources = lesson, config, lesson.sources()
        self.view = lesson.view(0)
        self.algorithm = DoubleDQN(lesson.policy.learner, nothing_told(len(lesson.family.sources)))

    def adapt(self, trained: Trained, target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """A second column, from every seed's own samples."""
        nothing = jax.tree.map(lambda x: x[0], nothing_told(1))
        seen = [self.lesson.believed(each) for each in samples]
        new = stack([experiences(rows(each, POOL), self.lesson, self.view, nothing) for each in seen])
        counts = jnp.asarray([min(POOL, int(each.valid.sum())) for each in seen])
        learner = self.lesson.policy.learner

        def one(q: Any, new: Experience, count: Array, key: PRNGKeyArray) -> Any:
            rest = (new, count, self.config, learner, key)
            return each_of(q, lambda first: grown(Columns.beside(first, self.config, key), *rest))

        q = eqx.filter_jit(eqx.filter_vmap(one))(trained.q, new, counts, keys)
        told = nothing_told(len(samples))
        return Policy(q, certain(told), told)

    def policy_like(self, n_seeds: int) -> Policy:
        """The shape of `adapt`'s answer."""
        like = super().policy_like(n_seeds)
        beside = eqx.filter_vmap(lambda q, key: each_of(q, lambda first: Columns.beside(first, self.config, key)))
        return Policy(eqx.filter_eval_shape(beside, like.q, jr.split(jr.key(0), n_seeds)), like.known, like.told)


def grown(
    columns: Columns, new: Experience, count: Array, config: PnnConfig, learner: DoubleDQNConfig, key: PRNGKeyArray
) -> Columns:
    """The second column after training on `count` steps, of which `new` holds repetitions."""
    adam = optax.adam(config.rate)
    few = count < ASIDE  # too few to set any aside
    place = jnp.arange(new.r_t.shape[0])
    judged = ((place < count) & (few | (place % ASIDE == ASIDE - 1))).astype(jnp.float32)

    def drawn(key: PRNGKeyArray) -> Experience:
        """Of those that are not set aside."""
        i = jr.randint(key, (learner.batch,), 0, jnp.where(few, count, count - count // ASIDE))
        return jax.tree.map(lambda x: x[jnp.where(few, i, i + i // (ASIDE - 1))], new)

    def judge(q: Any) -> Array:
        return (judged * double_dqn.errors(q, q, new)).sum() / judged.sum()

    def move(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        q, target, memory = carry
        change, memory = adam.update(jax.grad(double_dqn.loss)(q, target, drawn(key)), memory, q)
        q = eqx.tree_at(lambda c: c.first, optax.apply_updates(q, change), columns.first)
        return (q, optax.incremental_update(q, target, 1 - learner.discount), memory), None

    def some(carry: Any, keys: PRNGKeyArray) -> tuple[Any, None]:
        now, best, least = carry
        now, _ = jax.lax.scan(move, now, keys)
        error = judge(now[0])
        pick = lambda x, y: jnp.where(error < least, x, y)  # noqa: E731
        return (now, jax.tree.map(pick, now[0], best), jnp.minimum(error, least)), None

    fresh: Any = columns
    begin: Any = ((fresh, fresh, adam.init(fresh)), fresh, judge(fresh))
    keys = jr.split(key, (max(1, config.updates // EVERY), min(EVERY, config.updates)))
    return jax.lax.scan(some, begin, keys)[0][1]
