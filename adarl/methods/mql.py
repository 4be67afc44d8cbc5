"""MQL (Fakoor et al., 2020) on Double DQN: Q reads the last steps, and in a target old experience is weighed anew.

In: the sources, each step with those before it. Out: Q(s, c), where c is what a recurrent network makes of the last steps,
trained on all sources together. In a target a few updates on its samples, then some on old experience, each step by how
much it looks like one of the target's, held near the trained network the more the fewer of them do.

Departs from its paper: Double DQN instead of TD3; a target's samples come from the random policy, as for every method.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.methods.method import (
    Bar,
    Lesson,
    OneQ,
    Policy,
    Resume,
    Sample,
    Trained,
    certain,
    chosen,
    experiences,
    nothing_told,
    practise,
    rows,
    stack,
    states_like,
)
from adarl.network import Network, each_of
from adarl.policy import double_dqn
from adarl.policy.double_dqn import DoubleDQN, DoubleDQNConfig, Learner
from adarl.policy.learn import LearnState
from adarl.policy.remembered import Remembered
from adarl.policy.replay import Experience


@dataclass(frozen=True)
class MqlConfig:
    """The context and how it adapts."""

    last: int = 10
    """Steps that the context reads."""
    context: int = 16
    """Width of the recurrent network."""
    first_updates: int = 10
    """In a target, on its own samples."""
    updates: int = 100
    """In a target, on old experience."""
    rate: float = 3e-4
    """Of Adam, in a target."""
    ridge: float = 10.0
    """Price of the weights by which old steps are told from new ones: 1 / C of the logistic regression."""
    clip: float = 1.0
    """Log of the largest weight of an old step."""


KEPT = 4096  # steps of the sources that are remembered for the targets
POOL = 2048  # steps of a target that are used; more are thinned out evenly
NEGLIGIBLE = 0.1  # weight below which an old step is left out


class QWithHistory(eqx.Module):
    """Q of the state and of what the last steps say."""

    gru: eqx.nn.GRUCell
    q: Network
    n_state: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch action"]:
        """One row or many."""
        return self.q(jnp.concatenate([x[..., : self.n_state], self.context(x)], axis=-1))

    def context(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch context"]:
        """What the last steps say."""
        steps = x[..., self.n_state :].reshape(-1, (x.shape[-1] - self.n_state) // self.gru.input_size, self.gru.input_size)
        read = jax.vmap(lambda step, memory: self.gru(step, memory))
        memory = jnp.zeros((steps.shape[0], self.gru.hidden_size))
        for t in range(steps.shape[1]):
            memory = read(steps[:, t], memory)
        return memory.reshape(*x.shape[:-1], -1)


class HistoryDQN(DoubleDQN):
    """Double DQN of a `QWithHistory`."""

    width: int = eqx.field(static=True)
    """Numbers of one remembered step."""
    last: int = eqx.field(static=True)
    context: int = eqx.field(static=True)

    def start(self, n_inputs: int, n_actions: int, key: PRNGKeyArray) -> Learner:
        """A fresh learner."""
        key_gru, key_q = jr.split(key)
        n_state = n_inputs - self.last * self.width
        q = double_dqn.network(n_state + self.context, n_actions, self.config, key_q)
        both = QWithHistory(eqx.nn.GRUCell(self.width, self.context, key=key_gru), q, n_state)
        return double_dqn.fresh(both, self.theta, self.config)


class WithOld(Trained):
    """A trained network and some of what it was trained on."""

    old: Experience


class MQL(OneQ):
    """A context that is read off the last steps."""

    def __init__(self, lesson: Lesson, config: MqlConfig):
        self.config = config
        domain = Remembered(lesson.functional, lesson.scale, config.last)
        self.seen, self.remembered = lesson, domain
        self.lesson = replace(lesson, family=replace(lesson.family, domain=domain), episodes=domain.recall(lesson.episodes))
        self.view, self.sources = domain.view(), self.lesson.sources()
        told = nothing_told(len(lesson.family.sources))
        self.algorithm = HistoryDQN(lesson.policy.learner, told, domain.width, config.last, config.context)

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> WithOld:
        """Q over all sources, and some of the last experience."""
        return self._kept(practise(self.lesson, self.sources, self.algorithm, self.view, keys, resume, bar))

    def trained_like(self, n_seeds: int) -> WithOld:
        """The shape of `train`'s answer."""
        states = states_like(self.lesson, self.sources, self.algorithm, self.view, n_seeds)
        return eqx.filter_eval_shape(self._kept, states)

    def _kept(self, states: LearnState) -> WithOld:
        """What acts for every seed, and `KEPT` of its last steps."""
        n = states.ring.r_t.shape[1]
        index = jnp.arange(min(KEPT, n)) * (n // min(KEPT, n))
        old = jax.tree.map(lambda x: x[:, index], states.ring)
        return WithOld(chosen(states, self.lesson), states.merit, states.curve, old)

    def adapt(self, trained: WithOld, target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """A few updates on the samples, then on old steps like them."""
        nothing = jax.tree.map(lambda x: x[0], nothing_told(1))
        steps = [rows(self.remembered.recall(self.seen.believed(seen)), POOL) for seen in samples]
        new = stack([experiences(each, self.lesson, self.view, nothing) for each in steps])
        learner = self.lesson.policy.learner

        def one(q: Any, old: Experience, new: Experience, key: PRNGKeyArray) -> Any:
            rest = (old, new, self.config, learner, key)
            return each_of(q, lambda one: adapted(one, *rest))

        q = eqx.filter_jit(eqx.filter_vmap(one))(trained.q, trained.old, new, keys)
        told = nothing_told(len(samples))
        return Policy(q, certain(told), told)


def adapted(q: Any, old: Experience, new: Experience, config: MqlConfig, learner: DoubleDQNConfig, key: PRNGKeyArray) -> Any:
    """Q of one seed in a target that gave `new` steps."""
    weight = likeness(q.context(old.x_tm1), q.context(new.x_tm1), config)
    alike = weight.sum() ** 2 / jnp.maximum((weight**2).sum(), 1e-9) / weight.shape[0]  # effective share of old steps
    adam = optax.adam(config.rate)

    def move(carry, now):
        q, target, memory = carry
        i, key = now
        on_new = i < config.first_updates
        index = jr.randint(key, (2, learner.batch), 0, jnp.array([[new.r_t.shape[0]], [old.r_t.shape[0]]]))
        pick = lambda x, y: jnp.where(on_new, x[index[0]].T, y[index[1]].T).T  # noqa: E731
        steps = jax.tree.map(pick, new, old)
        weights = jnp.where(on_new, 1.0, weight[index[1]])

        def loss(now: Any) -> Array:
            near = sum(((x - y) ** 2).sum() for x, y in zip(jax.tree.leaves(now), jax.tree.leaves(trained), strict=True))
            held = jnp.where(on_new, 0.0, 1 - alike)
            return (weights * double_dqn.errors(now, target, steps)).mean() + held * near

        change, memory = adam.update(jax.grad(loss)(q), memory, q)
        q = optax.apply_updates(q, change)
        return (q, optax.incremental_update(q, target, 1 - learner.discount), memory), None

    trained: Any = q
    n = config.first_updates + config.updates
    return jax.lax.scan(move, (q, q, adam.init(q)), (jnp.arange(n), jr.split(key, n)))[0][0]


def likeness(old: Float[Array, "old context"], new: Float[Array, "new context"], config: MqlConfig) -> Float[Array, " old"]:
    """How much each old step looks like a new one: the odds of a logistic regression, both sides with equal weight."""
    both = jnp.concatenate([old, new])
    both = (both - both.mean(0)) / (both.std(0) + 1e-6)
    x = jnp.concatenate([both, jnp.ones((both.shape[0], 1))], axis=1)
    is_new = jnp.arange(x.shape[0]) >= old.shape[0]
    n = min(old.shape[0], new.shape[0])
    share = jnp.where(is_new, n / new.shape[0], n / old.shape[0])
    price = config.ridge * jnp.ones(x.shape[1]).at[-1].set(0.0)

    def newton(w: Array, _: None) -> tuple[Array, None]:
        p = jax.nn.sigmoid(x @ w)
        slope = x.T @ (share * (p - is_new)) + price * w
        curve = (x.T * (share * p * (1 - p))) @ x + jnp.diag(price + 1e-3)
        return w - jnp.linalg.solve(curve, slope), None

    w, _ = jax.lax.scan(newton, jnp.zeros(x.shape[1]), None, length=15)
    weight = jnp.exp(jnp.minimum(x[: old.shape[0]] @ w, config.clip))
    return jnp.where(weight < NEGLIGIBLE, 0.0, weight)
