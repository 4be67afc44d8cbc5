"""Recordings by a policy, where random actions do not reach what a policy meets: the model is then estimated from both.

In: recordings of the sources. Out: as many more, by the policy that Algorithm 1 makes of them; or, where images are seen and
a model takes long, the model that goes on from one of the recordings alone.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from adarl.collect import collect
from adarl.config import Config
from adarl.domains.family import Family
from adarl.domains.host import Host
from adarl.methods.adarl import AdaRL
from adarl.methods.method import Resume
from adarl.model import fit
from adarl.model.eye import Film
from adarl.model.plan import MissVAEConfig
from adarl.model.world import WorldModel
from adarl.policy import double_dqn
from adarl.policy import host as host_policy
from adarl.policy.perceived import Perceived
from adarl.policy.view import View
from adarl.progress import Progress
from adarl.stages import estimate_model, film_of, lesson_of, sized
from adarl.types import Episodes, Theta

GUESSES = 0.3
"""Share of random actions when a policy records."""
SOON = 3
"""A policy that only records where images are seen has so many times fewer updates."""


def record_again(family: Family, episodes: Episodes, config: Config, key, resume: Resume, progress: Progress) -> Episodes:
    """The recordings, and as many more by the policy that Algorithm 1 makes of them; some of its actions are random."""
    key_model, key_policy, key_record = jr.split(key, 3)
    plan = sized(config.model, family, None)
    model = estimate_model(family, episodes, plan, None, key_model, resume.part("model"), progress)
    more = recorded(AdaRL(lesson_of(family, episodes, config), model), config, key_policy, key_record, resume, progress)
    return _beside(episodes, more)


def estimate_again(
    family: Family, film: Film, model: WorldModel, config: Config, key, resume: Resume, progress: Progress
) -> WorldModel:
    """A model of images that goes on from one of random actions, with what a policy on it recorded beside them.

    Which edges there are was decided; functions, beliefs and theta move on.
    """
    key_model, key_policy, key_record = jr.split(key, 3)
    learner, every = config.policy.learner, config.policy.evaluate_every
    learner = dataclasses.replace(learner, updates=max(2, learner.updates // (SOON * every)) * every)
    config = dataclasses.replace(config, policy=dataclasses.replace(config.policy, learner=learner))
    method = AdaRL(lesson_of(family, film, config, model), model)
    more = recorded(method, config, key_policy, key_record, resume, progress)
    both = film_of(family, family.sources, _beside(film.episodes, more), key_record)
    plan: MissVAEConfig = dataclasses.replace(config.vae, open_steps=0, search_steps=0, binary_steps=config.vae.again_steps)
    begin = lambda: fit.known(model, plan)  # noqa: E731
    same = fit.Bounds(model.masks, model.masks)
    further = estimate_model(family, both, plan, same, key_model, resume.part("model"), progress, begin)
    return dataclasses.replace(further, masks_prob=model.masks_prob)


def recorded(method: AdaRL, config: Config, key_policy, key_record, resume: Resume, progress: Progress) -> Episodes:
    """Of the policy that a method learns."""
    bar = progress.stage("policy (to record)", config.policy.learner.updates)
    trained = method.train(key_policy[None], resume.part("policy"), bar)
    q = jax.tree.map(lambda x: x[0], trained.q)
    by = by_policy_on_host if isinstance(method.lesson.family.domain, Host) else by_policy
    return by(method, q, config, key_record)


def _beside(episodes: Episodes, more: Episodes) -> Episodes:
    return jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), episodes, more)


def by_policy_on_host(method: AdaRL, q: Any, config: Config, key) -> Episodes:
    """Of a policy in the Gymnasium environments that it learned in."""
    family, host, n = method.lesson.family, method.lesson.family.domain, len(method.lesson.family.sources)
    assert isinstance(host, Host)

    def behave(rng: np.random.Generator, s: np.ndarray) -> np.ndarray:
        theta = jax.tree.map(lambda t: t[np.arange(len(s)) % n], method.model.theta)  # domains take turns
        greedy = host_policy.act(q, method.view, jnp.asarray(s), theta, jnp.float32(0.0), jr.key(0))
        return np.where(rng.random(len(s)) < GUESSES, rng.integers(host.n_actions, size=len(s)), greedy)

    seed, plan = int(jr.randint(key, (), 0, 2**31 - 1)), config.collect
    return host.record(family.sources, behave, seed, plan.trials, plan.steps)


class Greedy(eqx.Module):
    """A policy that knows theta of the domain it is in, and guesses now and then."""

    q: Any
    view: View
    theta: Theta
    guesses: float

    def __call__(self, key, s: Float[Array, " state"]) -> Int[Array, ""]:
        """An action."""
        return double_dqn.act(key, self.q, self.view(s, self.theta), jnp.float32(self.guesses))


def by_policy(method: AdaRL, q: Any, config: Config, key, guesses: float = GUESSES) -> Episodes:
    """Of a policy in the simulators that it learned in; of one that is seen, the states that nobody saw."""
    domain, plan = method.lesson.functional, config.collect
    shape = {"trials": plan.trials, "steps": plan.steps, "wide": plan.wide}
    found = []
    for k in range(method.sources.n_domains):
        theta, factors = jax.tree.map(lambda x, k=k: x[k], method.model.theta), method.sources.factors
        here = {name: value[k : k + 1] for name, value in factors.items()}
        found.append(collect(domain, here, Greedy(q, method.view, theta, guesses), jr.fold_in(key, k), **shape))
    episodes = jax.tree.map(lambda *x: jnp.concatenate(x), *found)
    return dataclasses.replace(episodes, s=domain.hidden(episodes.s)) if isinstance(domain, Perceived) else episodes
