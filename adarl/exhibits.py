"""What a report shows beside scores: episodes to watch, what a model of images knows, and Theorem 2 in words.

In: a family, an agent or its model, what is known of the targets. Out: plain lists and dicts, as a page holds them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.adapt.states import Estimate
from adarl.agent import Agent
from adarl.config import Config, n_samples
from adarl.domains.cartpole import CartPole
from adarl.domains.family import Family, Point
from adarl.domains.functional import Camera
from adarl.domains.host import Host
from adarl.evaluate import bound, insight
from adarl.evaluate.returns import trajectory
from adarl.methods.method import Lesson
from adarl.model.encoder import joined
from adarl.model.eye import Film
from adarl.model.world import WorldModel
from adarl.network import Network
from adarl.policy.perceived import THETA, Perceived
from adarl.policy.view import View
from adarl.progress import Progress
from adarl.stages import film_of, record
from adarl.types import AdarlError

CLIP = 300
"""Steps of an episode that are kept to be watched."""


def animate(
    family: Family,
    agent: Agent,
    known: dict[str, Estimate],
    config: Config,
    key,
    oracle: Mapping[str, tuple[Network, View]] | None = None,
) -> list[dict[str, Any]]:
    """Episodes to watch: in every target from one start, told the theta that was estimated and the mean one of the sources.

    The estimate is the first seed's, from the fewest samples. `oracle` has for a target a policy trained there, which needs
    no theta. Only CartPole can be drawn.
    """
    domain = family.domain
    if isinstance(domain, Host) or domain.state_names[:4] != CartPole().state_names:
        return []
    domain = Perceived.by(agent.model, domain) if isinstance(domain, Camera) else domain
    number, single = zip(*map(n_samples, config.samples), strict=True)
    sizes = [n * (1 if one else config.collect.steps) for n, one in zip(number, single, strict=True)]
    samples = config.samples[int(np.argmin(sizes))]
    mean = jax.tree.map(lambda x: x.mean(0), agent.model.theta)
    found = []
    for t, (target, point) in enumerate(family.targets.items()):
        theta = jax.tree.map(lambda x: x[0], known[f"{target}/{samples}"].theta)
        q, told = agent.suited(theta)
        actors = {"adapted": (q, agent.view, told), "not adapted": (q, agent.view, mean)}
        if oracle is not None:
            actors["oracle"] = (*oracle[target], jax.tree.map(jnp.zeros_like, mean))
        factors = {name: value[0] for name, value in family.stack((point,)).items()}
        agents = []
        for name, (q, view, told) in actors.items():
            if isinstance(domain, Perceived):
                factors[THETA] = joined(agent.model.raw(mean if name == "not adapted" else theta))
            s, over = trajectory(domain, factors, q, view, told, jr.fold_in(key, t), steps=config.steps)
            s = domain.hidden(s) if isinstance(domain, Perceived) else s
            ended_at = int(np.argmax(over)) + 1 if bool(over.any()) else None
            shown = np.asarray(s)[: min(CLIP, ended_at or CLIP) + 1, :4]
            agents.append({"name": name, "states": shown.astype(float).round(4).tolist(), "ended_at": ended_at})
        found.append({"target": target, "samples": samples, "steps": config.steps, "agents": agents})
    return found


AHEAD = 45
"""Steps of the trials that a model of images is judged by."""


def insight_of(family: Family, model: WorldModel, known: dict[str, Estimate], config: Config, key) -> dict[str, Any]:
    """What a model of images knows of states that nobody saw, by recordings kept aside; pictures of a target.

    They start as usual, as those of a target do; what a line reads out where they start `anywhere` stands beside it.
    """
    if not isinstance(family.domain, Camera):
        return {}
    key_sources, key_target, key_film = jr.split(key, 3)
    plan = dataclasses.replace(config.collect, trials=max(20, config.collect.trials // 10), steps=AHEAD)

    def filmed(points: tuple[Point, ...], key, wide: float = 0.0) -> Film:
        aside = dataclasses.replace(config, collect=dataclasses.replace(plan, wide=wide))
        return film_of(family, points, record(family, points, aside, key, Progress(quiet=True)), key_film)

    names, rng = family.domain.state_names, np.random.default_rng(config.seed)
    found = insight.judged(model, filmed(family.sources, key_sources), model.theta, names, rng)
    line = insight.readout(*insight.seen_rows(model, filmed(family.sources, key_sources, 1.0), model.theta), rng)
    found["anywhere"] = dict(zip(names, line.explained.tolist(), strict=True))
    for name, estimate in known.items():
        target = name.rpartition("/")[0]
        theta = jax.tree.map(lambda t: jnp.median(t, axis=0), estimate.theta)
        there = filmed((family.targets[target],), key_target)
        return {**found, "pictures": {"target": target, **insight.pictures(model, there, theta)}}
    return found


def promise(family: Family, agent: Agent, lesson: Lesson, config: Config, key) -> str:
    """Theorem 2 for the agent in its sources, in words; or why it says nothing of them."""
    if isinstance(family.domain, Host | Camera):
        return ""
    about = {"best": float(lesson.best), "discount": config.policy.learner.discount, "episodes": 100}
    try:
        factors = family.stack(family.sources)
        return bound.words(bound.of_agent(agent, family.domain, factors, agent.model.theta, key, **about))
    except AdarlError as error:
        return f"Theorem 2 does not apply: {error}"
