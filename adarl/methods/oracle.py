"""Oracle: trained in the target itself, with all the steps and updates that the others have in the sources.

Where images are seen, it has an eye of its own, estimated on recordings of the targets.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
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
    nothing_told,
    practise,
    states_like,
)
from adarl.model.encoder import joined
from adarl.policy.double_dqn import DoubleDQN
from adarl.policy.sources import Sources


class Oracle(OneQ):
    """A policy for each target: how well the learner does where nothing has changed."""

    def __init__(self, lesson: Lesson):
        self.lesson, self.view = lesson, lesson.view(0)
        targets = list(lesson.family.targets)
        self.sources = self._only(targets[0]) if targets else lesson.sources()
        self.algorithm = DoubleDQN(lesson.policy.learner, nothing_told(1))

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> dict[str, Trained]:
        """One target after the other."""
        targets = list(self.lesson.family.targets)
        learned = {}
        for t, target in enumerate(targets):
            part = lambda updates, t=t: bar((t * self.lesson.policy.learner.updates + updates) // len(targets))  # noqa: E731
            here = self._only(target)
            states = practise(self.lesson, here, self.algorithm, self.view, keys, resume.part(str(t)), part)
            learned[target] = Trained(chosen(states, self.lesson), states.merit, states.curve)
        return learned

    def _only(self, target: str) -> Sources:
        """The target as the only source."""
        factors = self.lesson.factors((self.lesson.family.targets[target],), self._seen_as(target, 1))
        return Sources(self.lesson.functional, factors, 1, None, self.lesson.best)

    def trained_like(self, n_seeds: int) -> dict[str, Trained]:
        """The shape of `train`'s answer."""
        shape = lambda target: states_like(self.lesson, self._only(target), self.algorithm, self.view, n_seeds)  # noqa: E731
        each = {target: shape(target) for target in self.lesson.family.targets}
        return {target: Trained(chosen(states, self.lesson), states.merit, states.curve) for target, states in each.items()}

    def curve(self, trained: dict[str, Trained]) -> Float[Array, "seed evaluation"]:
        """The mean over the targets, for it never sees a source."""
        return jnp.stack([one.curve for one in trained.values()]).mean(0)

    def adapt(self, trained: dict[str, Trained], target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """The policy of this target; samples are of no use to it."""
        nothing = nothing_told(len(samples))
        return Policy(trained[target].q, certain(nothing), nothing, self._seen_as(target, len(samples)))

    def policy_like(self, n_seeds: int) -> Policy:
        """The shape of `adapt`'s answer."""
        like = super().policy_like(n_seeds)
        return Policy(like.q, like.known, like.told, self._seen_as(next(iter(self.lesson.family.targets)), n_seeds))

    def _seen_as(self, target: str, n: int) -> Float[Array, "row theta"] | None:
        """What an encoder is told of a target, where there is one: it was estimated there."""
        model = self.lesson.seen_by
        if model is None:
            return None
        at = list(self.lesson.family.targets).index(target)
        raw = model.raw(jax.tree.map(lambda t: t[at], model.theta))
        return jnp.broadcast_to(joined(raw), (n, joined(raw).shape[0]))
