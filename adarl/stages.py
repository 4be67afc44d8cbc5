"""The stages of Algorithm 1, one function each: what `experiment.run` keeps in a run directory.

In: a family, the results of earlier stages, the configuration, a key. Out: arrays that a checkpoint can hold.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.adapt import Estimate, adapt, first_steps
from adarl.agent import Agent
from adarl.collect import collect, random_policy
from adarl.config import Config, Method, n_samples
from adarl.domains.cartpole import CartPole
from adarl.domains.family import Family, Point
from adarl.domains.host import Host
from adarl.evaluate.returns import returns_over_seeds, trajectory
from adarl.model import fit
from adarl.model.world import WorldModel
from adarl.network import Network
from adarl.policy import host as host_policy
from adarl.policy import learn
from adarl.policy.imagine import Imagined
from adarl.policy.learn import Sources
from adarl.policy.view import View
from adarl.progress import Progress
from adarl.run.directory import Resume
from adarl.types import Compact, Episodes, Theta


def record(family: Family, points: tuple[Point, ...], config: Config, key, progress: Progress) -> Episodes:
    """Algorithm 1, line 2, first half: rollouts of the random policy in every source."""
    bar = progress.stage("collect", 1)
    domain, plan = family.domain, config.collect
    if isinstance(domain, Host):
        seed = int(jr.randint(key, (), 0, 2**31 - 1))
        behave = lambda rng, s: rng.integers(domain.n_actions, size=len(s))  # noqa: E731
        episodes = domain.record(points, behave, seed, plan.trials, plan.steps, plan.persist)
    else:
        behave = random_policy(domain.n_actions)
        shape = {"trials": plan.trials, "steps": plan.steps, "wide": plan.wide, "persist": plan.persist}
        episodes = collect(domain, family.stack(points), behave, key, **shape)
    bar(1)
    return episodes


def estimate_model(
    family: Family, episodes: Episodes, config: Config, key, resume: Resume, progress: Progress
) -> WorldModel:
    """Algorithm 1, line 2, second half: Eq. 1 from the recordings."""
    bar = progress.stage("model", config.model.steps)
    sizes = (len(family.domain.state_names), family.domain.n_actions, len(family.sources), config.model)
    state = resume.load(lambda: fit.start(*sizes, jr.key(0)))

    def each(state: fit.FitState, terms) -> None:
        resume.save(state)
        bar(int(state.step))

    return fit.fit(episodes, family.domain.n_actions, config.model, key, state=state, each=each)


def sufficient(minimal: Compact) -> Compact:
    """Definition 1; all states where the recordings show no reward that depends on one, for nothing can then be left out."""
    if bool(minimal.s_min.any()):
        return minimal
    return Compact(jnp.ones_like(minimal.s_min), jnp.ones_like(minimal.theta_s_min), minimal.theta_r_min)


def sources_of(family: Family, episodes: Episodes, model: WorldModel, method: Method, config: Config) -> Sources:
    """Where the policy practises: the sources, and for AdaRL+ imagined domains."""
    domain = None if isinstance(family.domain, Host) else family.domain
    factors = {} if domain is None else family.stack(family.sources)
    flat = lambda s: s.reshape(-1, s.shape[-1])  # noqa: E731
    if domain is None:  # A Gymnasium environment starts only as usual, but imagination can start wherever it was seen.
        narrow, wide = flat(episodes.s[:, :, 0]), episodes.s[:, :, :-1][episodes.valid]
    else:
        n_wide = round(config.collect.wide * config.collect.trials)
        narrow, wide = flat(episodes.s[:, n_wide:, 0]), flat(episodes.s[:, :n_wide, 0])
        narrow, wide = (narrow if narrow.size else wide), (wide if wide.size else narrow)
    imagined = Imagined.of(model, narrow, wide, config.policy.beyond) if method == "adarl_plus" else None
    return Sources(domain, factors, model.theta, imagined, jnp.where(episodes.valid, episodes.r, -jnp.inf).max())


def learn_policies(
    family: Family,
    episodes: Episodes,
    model: WorldModel,
    view: View,
    method: Method,
    config: Config,
    key,
    resume: Resume,
    progress: Progress,
) -> tuple[Network, jax.Array]:
    """Algorithm 1, lines 4 to 19, for every seed."""
    sources = sources_of(family, episodes, model, method, config)
    keys, n_actions, domain = jr.split(key, config.seeds), family.domain.n_actions, family.domain
    total = config.policy.learner.updates
    if not isinstance(domain, Host):
        bar = progress.stage(f"policy ({method})", total)
        fresh = lambda: eqx.filter_vmap(lambda k: learn.start(sources, view, n_actions, config.policy, k))(keys)  # noqa: E731

        def each(states, updates: int) -> None:
            resume.save((states, updates))
            bar(updates)

        resumed = resume.load(lambda: (fresh(), 0))
        return learn.learn(sources, view, n_actions, config.policy, keys, resumed=resumed, each=each)

    bar = progress.stage(f"policy ({method})", total * config.seeds)
    one = lambda: learn.start(sources, view, n_actions, config.policy, keys[0])  # noqa: E731
    resumed = resume.load(lambda: (policies_like(family, view, config), one(), 0, 0))
    done, state, first, updates = resumed if resumed is not None else (None, None, 0, 0)
    learned = [] if done is None else [jax.tree.map(lambda x, i=i: x[i], done) for i in range(first)]
    for i in range(first, config.seeds):

        def each_host(state, updates: int, i=i) -> None:
            filled = [*learned, *[(state.chosen, state.curve)] * (config.seeds - len(learned))]
            resume.save((_stack(filled), state, i, updates))
            bar(i * total + updates)

        begun = (state, updates) if state is not None and i == first else None
        learned.append(
            host_policy.learn(domain, family.sources, sources, view, config.policy, keys[i], resumed=begun, each=each_host)
        )
    return _stack(learned)


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def adapt_all(family: Family, model: WorldModel, config: Config, key, progress: Progress) -> dict[str, Estimate]:
    """Algorithm 1, lines 20 and 21: theta of every target, for every seed from its own samples."""
    known: dict[str, Estimate] = {}
    bar = progress.stage("adapt", len(family.targets) * len(config.samples) * config.seeds)
    done = 0
    for t, (target, point) in enumerate(family.targets.items()):
        for samples in config.samples:
            estimates = []
            for i in range(config.seeds):
                key_samples = jr.fold_in(jr.fold_in(key, t), i)
                estimates.append(adapt(model, target_samples(family, point, samples, config, key_samples)))
                done += 1
                bar(done)
            known[f"{target}/{samples}"] = _stack(estimates)
    return known


def target_samples(family: Family, point: Point, samples: str, config: Config, key) -> Episodes:
    """What a target gives: trajectories of the random policy from usual starts, or the first single steps of them."""
    number, single = n_samples(samples)
    plan = dataclasses.replace(config.collect, trials=number, wide=0.0)
    quiet = Progress(quiet=True)
    episodes = record(family, (point,), dataclasses.replace(config, collect=plan), key, quiet)
    return first_steps(episodes, number) if single else episodes


def evaluate_all(
    family: Family, view: View, policies: dict, known: dict[str, Estimate], config: Config, key, progress: Progress
) -> list[dict[str, Any]]:
    """The score of every method in every target."""
    rows = []
    bar = progress.stage("evaluate", len(policies) * len(known))
    for method, (q, _) in policies.items():
        for at, (name, estimate) in enumerate(known.items()):
            target, samples = name.split("/")
            point = family.targets[target]
            scores = score(family, point, q, view, estimate.theta, config, jr.fold_in(key, at))
            rows.append(
                {
                    "target": target,
                    "factors": dict(point),
                    "method": method,
                    "samples": samples,
                    "scores": [float(s) for s in scores],
                }
            )
            bar(len(rows))
    return rows


def score(family: Family, point: Point, q: Network, view: View, theta: Theta, config: Config, key) -> np.ndarray:
    """Mean return a seed; q and theta have a leading seed axis."""
    domain = family.domain
    if not isinstance(domain, Host):
        factors = {name: value[0] for name, value in family.stack((point,)).items()}
        kinds = {"episodes": config.episodes, "steps": config.steps}
        return np.asarray(returns_over_seeds(domain, factors, q, view, theta, key, **kinds).mean(1))
    seed = int(jr.randint(key, (), 0, 2**31 - 1))
    one = lambda i, tree: jax.tree.map(lambda x: x[i], tree)  # noqa: E731
    rows = []
    for i in range(config.seeds):
        told = jax.tree.map(lambda x: x[None], one(i, theta))
        kinds = {"copies": config.episodes, "steps": config.steps, "seed": seed + i}
        rows.append(host_policy.returns(domain, (point,), one(i, q), view, told, **kinds).mean())
    return np.asarray(rows)


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
    number, single = zip(*map(n_samples, config.samples), strict=True)
    sizes = [n * (1 if one else config.collect.steps) for n, one in zip(number, single, strict=True)]
    samples = config.samples[int(np.argmin(sizes))]
    mean = jax.tree.map(lambda x: x.mean(0), agent.model.theta)
    found = []
    for t, (target, point) in enumerate(family.targets.items()):
        theta = jax.tree.map(lambda x: x[0], known[f"{target}/{samples}"].theta)
        actors = {"adapted": (agent.q, agent.view, theta), "not adapted": (agent.q, agent.view, mean)}
        if oracle is not None:
            actors["oracle"] = (*oracle[target], jax.tree.map(jnp.zeros_like, mean))
        factors = {name: value[0] for name, value in family.stack((point,)).items()}
        agents = []
        for name, (q, view, told) in actors.items():
            s, over = trajectory(domain, factors, q, view, told, jr.fold_in(key, t), steps=config.steps)
            ended_at = int(np.argmax(over)) + 1 if bool(over.any()) else None
            shown = np.asarray(s)[: min(CLIP, ended_at or CLIP) + 1, :4]
            agents.append({"name": name, "states": shown.astype(float).round(4).tolist(), "ended_at": ended_at})
        found.append({"target": target, "samples": samples, "steps": config.steps, "agents": agents})
    return found


def episodes_like(family: Family, config: Config) -> Episodes:
    """The shape of `record`'s answer."""
    shape = (len(family.sources), config.collect.trials, config.collect.steps)
    s = jnp.zeros((*shape[:2], shape[2] + 1, len(family.domain.state_names)))
    return Episodes(s, jnp.zeros(shape, jnp.int32), jnp.zeros(shape), jnp.zeros(shape, bool), jnp.zeros(shape, bool))


def policies_like(family: Family, view: View, config: Config) -> tuple[Network, jax.Array]:
    """The shape of `learn_policies`' answer."""
    hidden = config.policy.learner.hidden
    make = lambda k: Network((view.size, hidden, hidden, family.domain.n_actions), "relu", key=k)  # noqa: E731
    n_evaluations = config.policy.learner.updates // config.policy.evaluate_every
    return eqx.filter_vmap(make)(jr.split(jr.key(0), config.seeds)), jnp.zeros((config.seeds, n_evaluations))


def known_like(family: Family, config: Config) -> dict[str, Estimate]:
    """The shape of `adapt_all`'s answer."""
    theta = Theta(jnp.zeros((config.seeds, config.model.theta_s)), jnp.zeros((config.seeds, config.model.theta_r)))
    return {f"{t}/{s}": Estimate(theta, theta) for t in family.targets for s in config.samples}
