"""PSM (Agarwal et al., 2021) on Double DQN: states after which experts act alike are made to look alike.

In: the sources. Out: as Non-t, one Q for all of them, with a second loss on its last layer of features: a state of one
source is drawn towards the state of another source from which the expert there goes on most similarly, and pushed away from
the others there. Samples of a target join the pool as in Non-t.

Departs from its paper: Double DQN instead of imitation; the expert of every source is what Q itself has become after half of
the updates, as where the paper steers robots: all methods have as many updates, and a source's share of half of them makes
no expert. How differently experts act is the total variation between softmaxes of their Q, because where two actions are
nearly as good an expert's choice tells nothing.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.methods.method import Bar, Lesson, Resume, nothing_told, practise
from adarl.methods.non_t import NonT, Pooling
from adarl.network import Network, linear
from adarl.policy import double_dqn, learn
from adarl.policy.double_dqn import DoubleDQN, Learner
from adarl.policy.learn import LearnState
from adarl.policy.replay import Experience
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import AdarlError


@dataclass(frozen=True)
class PsmConfig:
    """The loss on features."""

    weight: float = 0.1
    """Of the loss on features beside that of temporal differences, which is small: values lie in [-1, 0]."""
    kernel: float = 0.1
    """Distance at which two states count as unlike; distances lie in [0, 1]."""
    temperature: float = 0.5
    """Of the similarities."""
    discount: float = 0.9
    """Of how experts differ later on."""
    projection: int = 64
    """Width of what is compared."""


WATCHED = 5  # sources, at most; of more some are chosen, evenly spread
CLIPS, CLIP = 16, 64  # trajectories of the expert in every one, and their steps


class QWithProjection(eqx.Module):
    """Acts like a network; its features are projected to be compared."""

    q: Network
    projection: eqx.nn.Linear

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch action"]:
        """Q."""
        return self.q(x)

    def seen(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch projection"]:
        """What is compared, of length one."""
        z = linear(self.projection, self.q.features(x)[-1])
        return z / (jnp.linalg.norm(z, axis=-1, keepdims=True) + 1e-6)


class Clips(eqx.Module):
    """What experts do in some sources."""

    x: Float[Array, "expert clip time input"]
    p: Float[Array, "expert clip time action"]
    """How likely each action is."""
    d: Float[Array, "expert expert clip time time"]
    """How far moments of two experts' clips are apart."""

    @classmethod
    def of(cls, x: Array, p: Array, discount: float) -> "Clips":
        """With all distances."""
        of_clips = jax.vmap(lambda one, other: distances(one, other, discount))
        return cls(x, p, jax.vmap(lambda one: jax.vmap(lambda other: of_clips(one, other))(p))(p))


def distances(
    p: Float[Array, "time action"], other: Float[Array, "time action"], discount: float
) -> Float[Array, "time time"]:
    """d of every pair of moments of two clips: how differently the experts act now and from then on; in [0, 1].

    d[i, j] = (1 - gamma) TV(p_i, p_j) + gamma d[i + 1, j + 1]; at the end of a clip all goes on as it is.
    """
    cost = 0.5 * jnp.abs(p[:, None] - other[None]).sum(-1)

    def earlier(after: Float[Array, " time"], now: Float[Array, " time"]) -> tuple[Array, Array]:
        later = jnp.append(after[1:], now[-1])
        here = (1 - discount) * now + discount * later
        return here, here

    # the last column goes on as it is: (1 - gamma) c + gamma c = c
    _, rows = jax.lax.scan(earlier, cost[-1], cost[:-1], reverse=True)
    return jnp.concatenate([rows, cost[-1:]])


def contrast(z: Float[Array, "time d"], other: Float[Array, "time d"], d: Array, config: PsmConfig) -> Float[Array, ""]:
    """The contrastive loss of two clips: the nearest moment attracts, the others repel by how far they are."""
    near = jnp.exp(-d / config.kernel)
    similar = z @ other.T / config.temperature
    match = jax.nn.one_hot(jnp.argmin(d, axis=1), d.shape[1], dtype=bool)
    log_near = -d / config.kernel
    log_far = jnp.log(jnp.maximum(1 - near, 1e-6))
    attract = jnp.where(match, log_near + similar, -jnp.inf).max(1)
    everything = jax.nn.logsumexp(jnp.where(match, log_near + similar, log_far + similar), axis=1)
    return (everything - attract).mean()


class Similar(DoubleDQN):
    """Double DQN with the loss on features; what experts do is given to the learner as `clips`."""

    psm: PsmConfig = eqx.field(static=True)

    def start(self, n_inputs: int, n_actions: int, key: PRNGKeyArray) -> Learner:
        """A fresh learner."""
        key_q, key_projection = jr.split(key)
        q = double_dqn.network(n_inputs, n_actions, self.config, key_q)
        projection = eqx.nn.Linear(self.config.hidden, self.psm.projection, key=key_projection)
        return double_dqn.fresh(QWithProjection(q, projection), self.theta, self.config)

    def loss(self, q: Any, learner: Learner, batch: Experience, key: PRNGKeyArray) -> Float[Array, ""]:
        """Of temporal differences, and of the features of two experts, once there are any."""
        clips = learner.given["clips"]
        key_one, key_other, key_clip = jr.split(key, 3)
        one = jr.randint(key_one, (), 0, clips.x.shape[0])
        other = (one + jr.randint(key_other, (), 1, clips.x.shape[0])) % clips.x.shape[0]
        clip = jr.randint(key_clip, (), 0, CLIPS)
        apart = contrast(q.seen(clips.x[one, clip]), q.seen(clips.x[other, clip]), clips.d[one, other, clip], self.psm)
        return super().loss(q, learner, batch, key) + learner.given["weight"] * apart


class SimilarPooling(Similar, Pooling):
    """The same with steps of a target in its batches."""


class PSM(NonT):
    """Non-t with features on which the experts of the sources agree."""

    def __init__(self, lesson: Lesson, config: PsmConfig):
        super().__init__(lesson)
        n, every = len(lesson.family.sources), lesson.policy.evaluate_every
        self.watched = [i * n // min(n, WATCHED) for i in range(min(n, WATCHED))]
        self.half = every * (lesson.policy.learner.updates // (2 * every))
        if not 0 < self.half < self.alone:
            given = lesson.policy.learner.updates
            raise AdarlError(f"updates is {given}; psm, which learns experts first, needs at least {3 * every}.")
        shared = lesson.policy.learner, nothing_told(n)
        self.algorithm = Similar(*shared, psm=config)
        self.pooling = SimilarPooling(*shared, n_target=self.pooling.n_target, psm=config)
        self.config = config

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> LearnState:
        """Half of the updates; what that network does in the sources; and on, as in Non-t."""
        shared, alone = (self.lesson, self.sources, self.algorithm, self.view, keys), self._given(len(keys))
        first = practise(*shared, resume.part("expert"), bar, until=self.half, given=alone)
        seen = [_watch(self._only(i), first.learner.q_average, self.view, jr.key(i)) for i in self.watched]
        clips = eqx.filter_jit(jax.vmap(lambda x, p: Clips.of(x, p, self.config.discount)))
        clips = clips(*(jnp.stack(part, axis=1) for part in zip(*seen, strict=True)))
        given = {"clips": clips, "weight": jnp.full(len(keys), self.config.weight, jnp.float32)}
        begin = (learn.with_given(first, given), self.half)
        return practise(*shared, resume.part("similar"), bar, until=self.alone, given=given, begin=begin)

    def trained_like(self, n_seeds: int) -> LearnState:
        """The shape of `train`'s answer."""
        return learn.with_given(super().trained_like(n_seeds), self._given(n_seeds))

    def _given(self, n_seeds: int) -> dict[str, Any]:
        """Before there are experts."""
        n, n_actions = len(self.watched), self.lesson.functional.n_actions
        zeros = lambda *shape: jnp.zeros((n_seeds, n, *shape))  # noqa: E731
        clips = Clips(zeros(CLIPS, CLIP, self.view.size), zeros(CLIPS, CLIP, n_actions), zeros(n, CLIPS, CLIP, CLIP))
        return {"clips": clips, "weight": jnp.zeros(n_seeds)}

    def _only(self, i: int) -> Sources:
        """One source."""
        factors = self.lesson.factors((self.lesson.family.sources[i],))
        return Sources(self.lesson.functional, factors, 1, None, self.lesson.best)


@eqx.filter_jit
def _watch(sources: Sources, experts: Any, view: View, key: PRNGKeyArray) -> tuple[Array, Array]:
    """What the expert of every seed sees and does in a source; after an end it stays where it is."""
    domain: Any = sources.domain
    factors = {name: value[0] for name, value in sources.factors.items()}
    nothing = jax.tree.map(lambda t: t[0], nothing_told(1))

    def clip(q: Any, key: PRNGKeyArray, wide: Array) -> tuple[Array, Array]:
        key_start, key_steps = jr.split(key)

        def move(carry: tuple[Array, Array], key: PRNGKeyArray) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            s, over = carry
            x = view(s, nothing)
            values = q(x)
            answer = domain.step(key, s, jnp.argmax(values), factors)
            return (jnp.where(over, s, answer.s), over | answer.ended), (x, values)

        start = domain.reset(key_start, factors, wide)
        return jax.lax.scan(move, (start, jnp.bool_(False)), jr.split(key_steps, CLIP))[1]

    def of_seed(q: Any) -> tuple[Array, Array]:
        x, values = jax.vmap(lambda k, w: clip(q, k, w))(jr.split(key, CLIPS), jnp.arange(CLIPS) % 2 == 0)
        gap = values.max(-1) - values.min(-1)
        return x, jax.nn.softmax(values / (gap.mean() + 1e-6))

    return eqx.filter_vmap(of_seed)(experts)
