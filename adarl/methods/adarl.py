"""AdaRL: the model tells theta, the policy sees (s_min, theta_min) and is never trained again (the paper, Algorithm 1).

In: the world model of the sources. Out: policies told the theta that a target's samples imply.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.adapt import images
from adarl.adapt.states import Estimate, adapt
from adarl.agent import Agent
from adarl.domains.host import Host
from adarl.graph import compact
from adarl.methods.method import Bar, Lesson, OneQ, Policy, Resume, Sample, Trained, stack
from adarl.model.encoder import joined
from adarl.model.world import WorldModel
from adarl.network import Council
from adarl.policy import host as host_policy
from adarl.policy import learn
from adarl.policy.double_dqn import DoubleDQN
from adarl.policy.elsewhere import Elsewhere
from adarl.policy.imagine import Imagined
from adarl.policy.learn import LearnState
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import Compact, Episodes, Theta


class AdaRL(OneQ):
    """Algorithm 1 from line 4 on."""

    def __init__(self, lesson: Lesson, model: WorldModel, *, imagined: bool = False):
        self.lesson, self.model = lesson, model
        self.minimal = sufficient(compact(model.masks))
        self.view = View.of(self.minimal, lesson.scale.s_mean, lesson.scale.s_scale)
        # Seen by a policy that need not know theta, a step is the same elsewhere.
        told = bool(self.minimal.theta_s_min.any() | self.minimal.theta_r_min.any())
        self.sources = sources_of(lesson, model, imagined=imagined and (told or model.eye is None))
        self.algorithm = DoubleDQN(lesson.policy.learner, model.theta)

    def train(self, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> Trained:
        """Lines 4 to 19, for every seed."""
        if isinstance(self.lesson.family.domain, Host):
            return self._train_on_host(self.lesson.family.domain, keys, resume, bar)
        return super().train(keys, resume, bar)

    def adapt(self, trained: Trained, target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """Lines 20 and 21: theta of the target, from every seed's own samples; the policy stays as it is."""
        return self.knowing(trained, stack([self._estimate(seen) for seen in samples]))

    def knowing(self, trained: Trained, known: Estimate) -> Policy:
        """What acts where every seed knows theta."""
        return Policy(trained.q, known, known.theta, self.seen_as(known.theta))

    def _estimate(self, seen: Sample) -> Estimate:
        return adapt(self.model, seen) if isinstance(seen, Episodes) else images.adapt(self.model, seen)

    def seen_as(self, theta: Theta) -> Float[Array, "row theta"] | None:
        """What the encoder is told, where there is one."""
        return None if self.model.eye is None else joined(jax.vmap(self.model.raw)(theta))

    def policy_like(self, n_seeds: int) -> Policy:
        """The shape of `adapt`'s answer."""
        like = super().policy_like(n_seeds)
        return Policy(like.q, like.known, like.told, self.seen_as(like.told))

    def agent(self, trained: Trained) -> Agent:
        """The policy of the seed that did best on the sources."""
        best = int(trained.merit.max(1).argmax())
        q, nowhere = jax.tree.map(lambda x: x[best], trained.q), jnp.zeros((1, len(self.view.mean)))
        if isinstance(q, Council):
            n = len(jax.tree.leaves(q)[0])
            return Agent(self.model, q.networks, trained.merit[best][-n:], nowhere, self.view, together=True)
        alone = jax.tree.map(lambda x: x[None], q)
        return Agent(self.model, alone, trained.merit[best].max()[None], nowhere, self.view)

    def _train_on_host(self, host: Host, keys: PRNGKeyArray, resume: Resume, bar: Bar) -> Trained:
        """One seed after the other: Gymnasium environments cannot be vmapped."""
        lesson, shared = self.lesson, (self.sources, self.algorithm, self.view)
        total = lesson.policy.learner.updates
        like = lambda: (learn.start(*shared, host.n_actions, lesson.policy, keys[0]), 0)  # noqa: E731
        learned = []
        for i, key in enumerate(keys):
            kept = resume.part(str(i))

            def each(state: LearnState, updates: int, i=i, kept=kept) -> None:
                kept.save((state, updates), force=updates == total)
                bar((i * total + updates) // len(keys))

            begun = kept.load(like)
            chances = {"persist": lesson.persist, "resumed": begun, "each": each}
            last = host_policy.learn(host, lesson.family.sources, *shared, lesson.policy, key, **chances)
            learned.append(last)
        states = stack(learned)
        return Trained(self.kept(states), states.merit, states.curve)


def sufficient(minimal: Compact) -> Compact:
    """Definition 1; all states where the recordings show no reward that depends on one, for nothing can then be left out."""
    if bool(minimal.s_min.any()):
        return minimal
    return Compact(jnp.ones_like(minimal.s_min), jnp.ones_like(minimal.theta_s_min), minimal.theta_r_min)


def sources_of(lesson: Lesson, model: WorldModel, *, imagined: bool) -> Sources:
    """Where the policy practises: the sources, and for AdaRL+ imagined domains."""
    family, episodes = lesson.family, lesson.episodes
    domain = None if isinstance(family.domain, Host) else family.domain
    if model.eye is not None:
        factors = lesson.factors(family.sources, joined(jax.vmap(model.raw)(model.theta)))
        elsewhere = Elsewhere.of(model, lesson.policy.beyond) if imagined else None
        return Sources(domain, factors, len(family.sources), None, lesson.best, elsewhere)
    factors = {} if domain is None else lesson.factors(family.sources)
    flat = lambda s: s.reshape(-1, s.shape[-1])  # noqa: E731
    if domain is None:  # A Gymnasium environment starts only as usual, but imagination can start wherever it was seen.
        narrow, wide = flat(episodes.s[:, :, 0]), episodes.s[:, :, :-1][episodes.valid]
    else:
        narrow, wide = flat(episodes.s[:, lesson.n_wide :, 0]), flat(episodes.s[:, : lesson.n_wide, 0])
        narrow, wide = (narrow if narrow.size else wide), (wide if wide.size else narrow)
    world = Imagined.of(model, narrow, wide, lesson.policy.beyond) if imagined else None
    return Sources(domain, factors, len(family.sources), world, lesson.best)
