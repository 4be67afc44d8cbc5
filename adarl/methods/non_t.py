"""Non-t: one policy for all domains, told nothing of them. Samples of the target join the pool of what it learns from.

Decided where the paper is silent: the pool is the sources alone until the last tenth of the updates; from then on every
target and every number of samples has a training of its own, in which the target has the same share of a batch as a source.
"""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.methods.method import (
    Bar,
    Lesson,
    OneQ,
    Policy,
    Resume,
    Sample,
    certain,
    chosen,
    experiences,
    nothing_told,
    practise,
    rows,
    stack,
    states_like,
)
from adarl.policy import learn, replay
from adarl.policy.double_dqn import DoubleDQN, Learner
from adarl.policy.learn import LearnState
from adarl.policy.replay import Experience

POOL = 4096  # steps of a target that are kept; more are thinned out evenly


class Pooling(DoubleDQN):
    """Double DQN whose batches hold steps of the target too, which the learner is given as `pool`."""

    n_target: int = eqx.field(static=True)
    """Of a batch."""

    def batch(self, learner: Learner, ring: Experience, count: Int[Array, ""], block: int, key: PRNGKeyArray) -> Experience:
        """Old steps and new ones."""
        key_ring, key_pool = jr.split(key)
        old = replay.sample(key_ring, ring, count, block, self.config.batch - self.n_target, self.config.n_step)
        new = replay.sample(key_pool, learner.given["pool"], jnp.int32(1), POOL, self.n_target)
        return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), old, new)


class NonT(OneQ):
    """Pooled training without theta."""

    def __init__(self, lesson: Lesson):
        self.lesson, self.sources = lesson, lesson.sources()
        self.view = lesson.view(0)
        n_sources, every = len(lesson.family.sources), lesson.policy.evaluate_every
        self.algorithm = DoubleDQN(lesson.policy.learner, nothing_told(n_sources))
        n_target = lesson.policy.learner.batch // (n_sources + 1)
        self.pooling = Pooling(lesson.policy.learner, nothing_told(n_sources), n_target)
        last = every * max(1, round(0.1 * lesson.policy.learner.updates / every))
        self.alone = lesson.policy.learner.updates - last

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> LearnState:
        """On the sources, up to the last tenth; the whole loop is kept, because it goes on."""
        return practise(self.lesson, self.sources, self.algorithm, self.view, keys, resume, bar, until=self.alone)

    def trained_like(self, n_seeds: int) -> LearnState:
        """The shape of `train`'s answer."""
        return states_like(self.lesson, self.sources, self.algorithm, self.view, n_seeds)

    def curve(self, trained: LearnState) -> Float[Array, "seed evaluation"]:
        """The scores on the sources while it learned from them alone."""
        return trained.curve[:, : self.alone // self.lesson.policy.evaluate_every]

    def adapt(self, trained: LearnState, target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """The last tenth, with the target's samples in the pool."""
        nothing = jax.tree.map(lambda x: x[0], nothing_told(1))
        steps = [rows(self.lesson.believed(seen), POOL) for seen in samples]
        seen = stack([experiences(each, self.lesson, self.view, nothing) for each in steps])
        learner = replace(trained.learner, given={**trained.learner.given, "pool": seen})
        states = jax.tree.map(jnp.copy, replace(trained, learner=learner))  # of which every target needs one
        shared = (self.sources, self.pooling, self.view, self.lesson.functional.n_actions, self.lesson.policy)
        finished = learn.learn(*shared, keys, resumed=(states, self.alone))
        nothing = nothing_told(len(samples))
        return Policy(chosen(finished, self.lesson), certain(nothing), nothing)
