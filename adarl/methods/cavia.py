"""CAVIA (Zintgraf et al., 2019) on Double DQN: a context phi, found by a few steps down the temporal-difference loss.

In: random steps of every source, to find phi by as in a target. Out: Q(s, phi), trained through those steps, so that phi
is quick to find; in a target phi alone moves.

Departs from its paper: a learner off the policy instead of TRPO. The loss is divided by the root of its value at phi = 0,
because temporal differences shrink as Q learns: so divided, the gradient neither vanishes with them nor drowns in noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.methods.context import RECORDED, as_theta, drawn, tasks, tell, told_anew
from adarl.methods.method import Lesson, OneQ, Policy, Sample, Trained, certain, experiences, rows, stack, usual
from adarl.policy import double_dqn, replay
from adarl.policy.double_dqn import DoubleDQNConfig, Learner
from adarl.policy.replay import Experience
from adarl.types import Theta, Transition


@dataclass(frozen=True)
class CaviaConfig:
    """How phi is found."""

    context: int = 5
    """Dimensions of phi."""
    steps: int = 1
    """Down the loss."""
    rate: float = 3.0
    """Of such a step."""
    batch: int = 64
    """Random steps of a source by which phi is found in training."""


GIVEN = 4096  # steps of a target that phi is found by; more are thinned out evenly


class Cavia(eqx.Module):
    """The algorithm: an update of Q after phi was found for every source."""

    learner: DoubleDQNConfig = eqx.field(static=True)
    config: CaviaConfig = eqx.field(static=True)
    recorded: Experience
    """With the axes (domain, row)."""

    @property
    def n_domains(self) -> int:
        """Sources."""
        return self.recorded.r_t.shape[0]

    def start(self, n_inputs: int, n_actions: int, key: PRNGKeyArray) -> Learner:
        """A fresh learner."""
        told = as_theta(jnp.zeros((self.n_domains, self.config.context)))
        return double_dqn.fresh(double_dqn.network(n_inputs, n_actions, self.learner, key), told, self.learner)

    def update(self, learner: Learner, ring: Experience, count: Int[Array, ""], block: int, key: PRNGKeyArray) -> Learner:
        """Down the mean loss over some sources, each with its own phi, and through the steps that found phi."""
        key_tasks, key_ring, key_found = jr.split(key, 3)
        domains = tasks(key_tasks, self.n_domains)
        each = max(1, self.learner.batch // domains.shape[0])
        batch = replay.sample_by_domain(key_ring, ring, count, block, self.n_domains, domains, each, self.learner.n_step)
        found = drawn(key_found, self.recorded, domains, self.config.batch)

        # The target network is told what it finds itself: told what the network finds that runs ahead of it, its values
        # would be of a context that it never knew, and phi would run away with them.
        phi_target = jax.vmap(lambda steps: self.find(learner.q_target, learner.q_target, steps))(found)

        def loss_of(q: Any) -> tuple[Array, Theta]:
            phi = jax.vmap(lambda steps: self.find(q, learner.q_target, steps))(found)
            loss = lambda steps, phi, old: self._loss(q, learner.q_target, steps, phi, old)  # noqa: E731
            return jax.vmap(loss)(batch, phi, phi_target).mean(), told_anew(learner.told, domains, phi)

        return double_dqn.step(learner, loss_of, self.learner)

    def told(self, q: Any, key: PRNGKeyArray) -> Theta:
        """phi of every source."""
        return as_theta(jax.vmap(lambda steps: self.find(q, q, steps))(self.recorded))

    def find(self, q: Any, q_target: Any, steps: Experience) -> Float[Array, " context"]:
        """phi by some steps of one domain, from 0."""
        phi = jnp.zeros(self.config.context)
        unit = jnp.sqrt(jax.lax.stop_gradient(self._loss(q, q_target, steps, phi)) + 1e-8)
        for _ in range(self.config.steps):
            phi = phi - self.config.rate * jax.grad(lambda p: self._loss(q, q_target, steps, p) / unit)(phi)
        return phi

    def _loss(
        self, q: Any, q_target: Any, steps: Experience, phi: Array, phi_target: Array | None = None
    ) -> Float[Array, ""]:
        """Of temporal differences, where Q is told phi and its target the same unless it has its own."""
        told = None if phi_target is None else tell(steps, phi_target)
        return double_dqn.errors(q, q_target, tell(steps, phi), told).mean()


class CAVIA(OneQ):
    """phi instead of theta."""

    def __init__(self, lesson: Lesson, config: CaviaConfig):
        self.lesson, self.config = lesson, config
        self.view = lesson.view(config.context)
        self.sources = lesson.sources()
        self.algorithm = Cavia(lesson.policy.learner, config, self._seen(usual(lesson, RECORDED)))

    def _seen(self, steps: Transition) -> Experience:
        return experiences(steps, self.lesson, self.view, as_theta(jnp.zeros(self.config.context)))

    def adapt(self, trained: Trained, target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """phi of the target, from every seed's own samples."""
        steps = stack([self._seen(rows(self.lesson.believed(seen), GIVEN)) for seen in samples])
        find = eqx.filter_jit(eqx.filter_vmap(lambda q, steps: self.algorithm.find(q, q, steps)))
        phi = as_theta(find(trained.q, steps))
        return Policy(trained.q, certain(phi), phi)
