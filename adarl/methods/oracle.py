"""Oracle: trained in the target itself, with all the steps and updates that the others have in the sources."""

from collections.abc import Sequence

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
from adarl.policy.double_dqn import DoubleDQN
from adarl.policy.learn import Sources


class Oracle(OneQ):
    """A policy for each target: how well the learner does where nothing has changed."""

    def __init__(self, lesson: Lesson):
        self.lesson, self.sources = lesson, lesson.sources()
        self.view = lesson.view(0)
        self.algorithm = DoubleDQN(lesson.policy.learner, nothing_told(1))

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> dict[str, Trained]:
        """One target after the other."""
        targets = list(self.lesson.family.targets)
        learned = {}
        for t, target in enumerate(targets):
            part = lambda updates, t=t: bar((t * self.lesson.policy.learner.updates + updates) // len(targets))  # noqa: E731
            here = self._only(target)
            states = practise(self.lesson, here, self.algorithm, self.view, keys, resume.part(str(t)), part)
            learned[target] = Trained(chosen(states), states.merit, states.curve)
        return learned

    def _only(self, target: str) -> Sources:
        """The target as the only source."""
        factors = self.lesson.factors((self.lesson.family.targets[target],))
        return Sources(self.lesson.functional, factors, 1, None, self.lesson.best)

    def trained_like(self, n_seeds: int) -> dict[str, Trained]:
        """The shape of `train`'s answer."""
        shape = lambda target: states_like(self.lesson, self._only(target), self.algorithm, self.view, n_seeds)  # noqa: E731
        each = {target: shape(target) for target in self.lesson.family.targets}
        return {target: Trained(chosen(states), states.merit, states.curve) for target, states in each.items()}

    def curve(self, trained: dict[str, Trained]) -> Float[Array, "seed evaluation"]:
        """The mean over the targets, for it never sees a source."""
        return jnp.stack([one.curve for one in trained.values()]).mean(0)

    def adapt(self, trained: dict[str, Trained], target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """The policy of this target; samples are of no use to it."""
        nothing = nothing_told(len(samples))
        return Policy(trained[target].q, certain(nothing), nothing)
