"""The interface of every method, and what all of them share: recordings, networks, loop, budget.

In: `Lesson`, the sources and their recordings. Out: `Policy`, what acts in a target: Q and what it is told of the target.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.adapt.images import thinned
from adarl.adapt.states import Estimate
from adarl.domains.family import Family
from adarl.domains.functional import Factors, Functional
from adarl.domains.host import Host, Point
from adarl.model.eye import Seen
from adarl.model.rows import measure, pack
from adarl.model.sight import believe
from adarl.model.world import Scale, WorldModel
from adarl.policy import learn
from adarl.policy.learn import Algorithm, LearnState, PolicyConfig
from adarl.policy.perceived import THETA
from adarl.policy.replay import Experience
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import AdarlError, Episodes, Step, Theta, Transition

Sample = Episodes | Seen
"""What a seed may see of a target."""
ENOUGH = 400
"""Trials of a target that are looked at, where images are seen: they have more steps than any method keeps."""
Bar = Callable[[int], None]
"""Told how many updates are done."""


class Resume(Protocol):
    """The last checkpoint of a training that may have been killed."""

    def load(self, like: Any) -> Any:
        """What was saved last, or None."""
        ...

    def save(self, tree: Any, *, force: bool = False) -> bool:
        """Keep this, unless something was kept a moment ago."""
        ...

    def part(self, name: str) -> "Resume":
        """For one of several trainings; what it keeps stays until all are done."""
        ...


@dataclass(frozen=True)
class Lesson:
    """What every method is given."""

    family: Family
    episodes: Episodes
    """Recordings of every source."""
    n_wide: int
    """So many trials of every source started anywhere; the others, as usual."""
    policy: PolicyConfig
    persist: float = 0.0
    """Chance that a random action is repeated, where practice is in Gymnasium environments."""
    seen_by: WorldModel | None = None
    """The model whose eye sees the images, where states are not seen. Then states are what it believes."""

    @property
    def functional(self) -> Functional:
        """The simulator, for methods that need one."""
        assert not isinstance(self.family.domain, Host)
        return self.family.domain

    @cached_property
    def scale(self) -> Scale:
        """Units of states and rewards, from the recordings."""
        return measure(pack(self.episodes))

    @cached_property
    def best(self) -> Float[Array, ""]:
        """The largest reward in the recordings."""
        return jnp.where(self.episodes.valid, self.episodes.r, -jnp.inf).max()

    def view(self, n_told: int) -> View:
        """All states, and `n_told` numbers that the policy is told of the domain."""
        scale = self.scale
        return View(scale.s_mean, scale.s_scale, tuple(range(len(scale.s_mean))), tuple(range(n_told)), ())

    def factors(self, points: Sequence[Point], told: Float[Array, "domain theta"] | None = None) -> Factors:
        """Of every point; where images are seen, also what the encoder is told of it."""
        found = self.family.stack(points)
        if self.seen_by is None:
            return found
        return {**found, THETA: jnp.zeros((len(points), 0)) if told is None else told}

    def sources(self) -> Sources:
        """The sources as environments to practise in."""
        factors = self.factors(self.family.sources)
        return Sources(self.functional, factors, len(self.family.sources), None, self.best)

    def believed(self, sample: Sample) -> Episodes:
        """Samples with their states, or what is believed of them."""
        if isinstance(sample, Episodes):
            return sample
        assert self.seen_by is not None
        return believe(self.seen_by, thinned(sample, ENOUGH), jax.tree.map(lambda t: t[:1], self.seen_by.theta))


class Trained(eqx.Module):
    """What training leaves, one row a seed."""

    q: Any
    merit: Float[Array, "seed evaluation"]
    """What networks are chosen by."""
    curve: Float[Array, "seed evaluation"]
    """The scores on the sources."""


class Policy(eqx.Module):
    """What acts in one target, one row a seed: greedy in Q, which sees the state and what it is told."""

    q: Any
    known: Estimate
    """Of the target."""
    told: Theta
    """What is known, unless the method has a reason to tell something else."""
    seen_as: Float[Array, "seed theta"] | None = None
    """What an encoder is told of the target, where it is told anything."""


class Method(Protocol):
    """One way to learn from sources and to adapt to a target."""

    lesson: Lesson
    view: View

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> Any:
        """One training a key; what it returns is kept on disk."""
        ...

    def trained_like(self, n_seeds: int) -> Any:
        """The shape of `train`'s answer."""
        ...

    def curve(self, trained: Any) -> Float[Array, "seed evaluation"]:
        """The scores on the sources while it learned."""
        ...

    def adapt(self, trained: Any, target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """What acts in the target. `samples` holds what each seed may see of it; `keys` are those of the training."""
        ...

    def policy_like(self, n_seeds: int) -> Policy:
        """The shape of `adapt`'s answer."""
        ...


def act(policy: Policy, view: View, s: Float[Array, "seed state"]) -> Int[Array, " seed"]:
    """The greedy action of every seed."""
    one = lambda q, theta, s: jnp.argmax(q(view(s, theta)))  # noqa: E731
    return eqx.filter_vmap(one)(policy.q, policy.told, s)


def practise(
    lesson: Lesson,
    sources: Sources,
    algorithm: Algorithm,
    view: View,
    keys: PRNGKeyArray,
    resume: Resume,
    bar: Bar,
    until: int | None = None,
    given: dict[str, Any] | None = None,
    begin: tuple[LearnState, int] | None = None,
) -> LearnState:
    """`learn.learn`, continued from its last checkpoint, or from where it is to `begin`."""
    n_actions, total = lesson.family.domain.n_actions, until or lesson.policy.learner.updates

    def each(states: LearnState, updates: int) -> None:
        resume.save((states, updates), force=updates == total)
        bar(updates)

    like = lambda: (learn.with_given(states_like(lesson, sources, algorithm, view, len(keys)), given), 0)  # noqa: E731
    begun: Any = {"resumed": resume.load(like) or begin, "given": given}
    return learn.learn(sources, algorithm, view, n_actions, lesson.policy, keys, **begun, until=until, each=each)


def states_like(lesson: Lesson, sources: Sources, algorithm: Algorithm, view: View, n_seeds: int) -> LearnState:
    """The shape of `practise`'s answer."""
    one = lambda k: learn.start(sources, algorithm, view, lesson.family.domain.n_actions, lesson.policy, k)  # noqa: E731
    return eqx.filter_eval_shape(eqx.filter_vmap(one), jr.split(jr.key(0), n_seeds))


def chosen(states: LearnState, lesson: Lesson) -> Any:
    """What acts for every seed: its network with the most merit, or a council; or the shape, if that is all there is."""
    best = jax.vmap(lambda state: learn.chosen(state, lesson.policy.council))
    is_shape = isinstance(states.merit, jax.ShapeDtypeStruct)
    return eqx.filter_eval_shape(best, states) if is_shape else best(states)


class OneQ:
    """What methods share that practise in environments and, unless they say otherwise, keep each seed's best network."""

    lesson: Lesson
    view: View
    sources: Sources
    algorithm: Any
    """An `Algorithm`."""

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> Trained:
        """Q over all sources."""
        states = practise(self.lesson, self.sources, self.algorithm, self.view, keys, resume, bar)
        return Trained(self.kept(states), states.merit, states.curve)

    def trained_like(self, n_seeds: int) -> Trained:
        """The shape of `train`'s answer."""
        states = states_like(self.lesson, self.sources, self.algorithm, self.view, n_seeds)
        return Trained(self.kept(states), states.merit, states.curve)

    def kept(self, states: LearnState) -> Any:
        """What of the loop is needed later."""
        return chosen(states, self.lesson)

    def curve(self, trained: Trained) -> Float[Array, "seed evaluation"]:
        """The scores on the sources while it learned."""
        return trained.curve

    def policy_like(self, n_seeds: int) -> Policy:
        """The shape of `adapt`'s answer."""
        states = states_like(self.lesson, self.sources, self.algorithm, self.view, n_seeds)
        width = lambda told: jnp.zeros((n_seeds, told.shape[-1]))  # noqa: E731
        told = jax.tree.map(width, states.learner.told)
        return Policy(chosen(states, self.lesson), certain(told), told)


def nothing_told(n_rows: int) -> Theta:
    """For policies that are told nothing of their domain."""
    return Theta(jnp.zeros((n_rows, 0)), jnp.zeros((n_rows, 0)))


def certain(theta: Theta) -> Estimate:
    """What is known without a notion of how sure it is."""
    return Estimate(theta, jax.tree.map(jnp.zeros_like, theta))


def stack(trees: Sequence[Any]) -> Any:
    """A list of trees -> a tree with one more axis."""
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def rows(episodes: Episodes, n: int) -> Transition:
    """Exactly `n` of the valid steps, evenly spread over them, repeated in turn where there are fewer."""
    kept = np.flatnonzero(np.asarray(episodes.valid).reshape(-1))
    if kept.size == 0:
        raise AdarlError("0 samples were given; at least 1 is needed.")
    index = kept[np.arange(n) % kept.size if kept.size < n else np.arange(n) * kept.size // n]
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:])[index], episodes.transitions())


def usual(lesson: Lesson, n: int) -> Transition:
    """`n` random steps of every source as a target would give them: from usual starts only."""
    usual_starts = jax.tree.map(lambda x: x[:, lesson.n_wide :], lesson.episodes)
    each = range(len(lesson.family.sources))
    return stack([rows(jax.tree.map(lambda x, k=k: x[k : k + 1], usual_starts), n) for k in each])


def experiences(steps: Transition, lesson: Lesson, view: View, told: Theta) -> Experience:
    """Steps as the learner sees them, whatever their leading axes."""
    best = lesson.best

    def one(s: Transition) -> Experience:
        return learn.experienced(view, s.s_tm1, s.a_tm1, Step(s.s_t, s.r_t, s.ended), told, best, lesson.policy)

    for _ in range(steps.r_t.ndim):
        one = jax.vmap(one)
    return one(steps)
