"""Algorithm 1 of the paper, from source domains to an agent that acts in a new one.

In: a family and a configuration. Out: a run directory with every stage's result, an agent, and a report. A second call
reuses finished stages; a killed one continues from its last checkpoint.
"""

import dataclasses
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.adapt import Estimate, adapt, first_steps
from adarl.agent import Agent, model_like
from adarl.collect import CollectConfig, collect, random_policy
from adarl.domains.family import Family, Point, unknown
from adarl.domains.host import Host
from adarl.evaluate.returns import returns_over_seeds
from adarl.graph import compact
from adarl.model import fit
from adarl.model.world import WorldModel
from adarl.network import Network
from adarl.policy import host as host_policy
from adarl.policy import learn
from adarl.policy.imagine import Imagined
from adarl.policy.learn import PolicyConfig, Sources
from adarl.policy.view import View
from adarl.progress import Progress
from adarl.report import page
from adarl.report.summary import Summary, summarise
from adarl.run.directory import Resume, RunDirectory
from adarl.types import AdarlError, Compact, Episodes, Theta

Method = Literal["adarl_plus", "adarl"]
METHODS: tuple[Method, ...] = ("adarl_plus", "adarl")


@dataclass(frozen=True)
class Config:
    """A whole experiment."""

    seed: int = 0
    """Of everything random: data, model, policies, target samples."""
    seeds: int = 4
    """Policies learned beside each other, each with its own target samples."""
    methods: tuple[Method, ...] = ("adarl_plus",)
    """adarl_plus trains in imagined domains too; adarl is Algorithm 1 as printed."""
    samples: tuple[str, ...] = ("50steps",)
    """What each target gives: `50steps` single steps, or `20`, `50`, `10000` trajectories of up to 40 steps."""
    episodes: int = 5
    """Episodes a policy is evaluated by in each target."""
    steps: int = 10_000
    """Steps at which an evaluation episode is cut."""
    collect: CollectConfig = field(default_factory=CollectConfig)
    """Recordings of the sources."""
    model: fit.ModelConfig = field(default_factory=fit.ModelConfig)
    """The world model."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    """The policy."""


@dataclass(frozen=True)
class Result:
    """What a run leaves."""

    agent: Agent
    summary: Summary
    directory: Path
    report: Path


def n_samples(samples: str) -> tuple[int, bool]:
    """How many, and whether they are single steps: `50steps` -> (50, True), `20` -> (20, False)."""
    number = samples.removesuffix("steps")
    if not number.isdigit() or int(number) == 0:
        raise AdarlError(
            f"Samples are {samples!r}; a positive number of trajectories (`20`) or of steps (`50steps`) is expected."
        )
    return int(number), samples.endswith("steps")


def resolve(family: Family, config: Config) -> Config:
    """The configuration with all that follows from the family filled in, checked before any work is done."""
    for samples in config.samples:
        n_samples(samples)
    for method in config.methods:
        if method not in METHODS:
            raise AdarlError(unknown("method", method, METHODS))
    for name, value in (("seeds", config.seeds), ("episodes", config.episodes), ("trials", config.collect.trials)):
        if value < 1:
            raise AdarlError(f"{name} is {value}; at least 1 is needed.")
    if config.policy.capacity < 2 * max(config.policy.environments, len(family.sources)):
        raise AdarlError(f"capacity is {config.policy.capacity}; room for two transitions an environment is needed.")
    if config.policy.learner.updates % config.policy.evaluate_every:
        every = config.policy.evaluate_every
        raise AdarlError(f"updates is {config.policy.learner.updates}; a multiple of evaluate_every ({every}) is expected.")
    replace = dataclasses.replace
    if config.model.theta_s == 0:
        config = replace(config, model=replace(config.model, theta_s=len(family.factors)))
    if config.policy.learner.discount == 0:
        learner = replace(config.policy.learner, discount=family.discount)
        config = replace(config, policy=replace(config.policy, learner=learner))
    return config


def run(family: Family, config: Config, directory: str | Path, progress: Progress | None = None) -> Result:
    """Algorithm 1."""
    config = resolve(family, config)
    progress = progress or Progress(quiet=True)
    described = {"family": _describe(family), **dataclasses.asdict(config)}
    key_collect, key_model, key_policy, key_target, key_evaluate = jr.split(jr.key(config.seed), 5)
    with RunDirectory(directory, described) as run, progress:
        episodes = run.stage(
            "collect",
            lambda _: record(family, family.sources, config, key_collect, progress),
            lambda: _episodes_like(family, config),
        )
        model = run.stage(
            "model",
            lambda resume: estimate_model(family, episodes, config, key_model, resume, progress),
            lambda: model_like(len(family.domain.state_names), family.domain.n_actions, len(family.sources), config.model),
        )
        minimal = sufficient(compact(model.masks))
        view = View.of(minimal, model.scale.s_mean, model.scale.s_scale)
        policies: dict[str, tuple[Network, jax.Array]] = {}
        for method in config.methods:
            policies[method] = run.stage(
                f"policy_{method}",
                lambda resume, method=method: learn_policies(
                    family, episodes, model, view, method, config, key_policy, resume, progress
                ),
                lambda: _policies_like(family, view, config),
            )
        known = run.stage(
            "adapt", lambda _: adapt_all(family, model, config, key_target, progress), lambda: _known_like(family, config)
        )
        scores: Any = run.stage_json(
            "scores", lambda _: evaluate_all(family, view, policies, known, config, key_evaluate, progress)
        )
        seconds = {name: run.manifest(name)["seconds"] for name in run.finished}
        agent = best_agent(model, view, *policies[config.methods[0]])
        agent.save(run.path / "agent.npz")
        curves = {method: _curve(curve, config) for method, (_, curve) in policies.items()}
        summary = summarise(
            family,
            model,
            minimal,
            known,
            curves,
            scores,
            score_name=family.score,
            score_cap=config.steps if not isinstance(family.domain, Host) else None,
            seconds=seconds,
            seed=config.seed,
            version=run.versions["adarl"],
        )
        run.stage_json("summary", lambda _: summary)
        report = page.write(summary, run.path / "report.html")
    return Result(agent, summary, run.path, report)


def fit_agent(family: Family, seed: int = 0, config: Config | None = None, directory: str | Path | None = None) -> Agent:
    """`adarl.fit`: collect, locate, model, graph, policy; no targets needed."""
    config = dataclasses.replace(config or Config(seeds=1), seed=seed)
    without_targets = dataclasses.replace(family, targets={})
    if directory is not None:
        return run(without_targets, config, directory).agent
    with tempfile.TemporaryDirectory() as folder:
        return run(without_targets, config, Path(folder) / "run").agent


def record(family: Family, points: tuple[Point, ...], config: Config, key, progress: Progress) -> Episodes:
    """Algorithm 1, line 2, first half: rollouts of the random policy in every source."""
    bar = progress.stage("collect", 1)
    domain, plan = family.domain, config.collect
    if isinstance(domain, Host):
        seed = int(jr.randint(key, (), 0, 2**31 - 1))
        behave = lambda rng, s: rng.integers(domain.n_actions, size=len(s))  # noqa: E731
        episodes = domain.record(points, behave, seed, plan.trials, plan.steps)
    else:
        behave = random_policy(domain.n_actions)
        shape = {"trials": plan.trials, "steps": plan.steps, "wide": plan.wide}
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
    n_wide = 0 if domain is None else round(config.collect.wide * config.collect.trials)
    first = episodes.s[:, :, 0]
    flat = lambda s: s.reshape(-1, s.shape[-1])  # noqa: E731
    narrow, wide = flat(first[:, n_wide:]), flat(first[:, :n_wide])
    narrow, wide = (narrow if narrow.size else wide), (wide if wide.size else narrow)
    imagined = Imagined(model, narrow, wide, config.policy.beyond) if method == "adarl_plus" else None
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
    resumed = resume.load(lambda: (_policies_like(family, view, config), one(), 0, 0))
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


def best_agent(model: WorldModel, view: View, q: Network, curve: jax.Array) -> Agent:
    """The policy that did best on the sources."""
    best = int(curve.max(1).argmax())
    return Agent(model, jax.tree.map(lambda x: x[best], q), view)


def _curve(curve: jax.Array, config: Config) -> dict[str, Any]:
    every = config.policy.evaluate_every
    return {"updates": [every * (i + 1) for i in range(curve.shape[1])], "score": np.asarray(curve).tolist()}


def _describe(family: Family) -> dict[str, Any]:
    return {"name": family.name, "sources": [dict(p) for p in family.sources], "targets": dict(family.targets)}


def _episodes_like(family: Family, config: Config) -> Episodes:
    shape = (len(family.sources), config.collect.trials, config.collect.steps)
    s = jnp.zeros((*shape[:2], shape[2] + 1, len(family.domain.state_names)))
    return Episodes(s, jnp.zeros(shape, jnp.int32), jnp.zeros(shape), jnp.zeros(shape, bool), jnp.zeros(shape, bool))


def _policies_like(family: Family, view: View, config: Config) -> tuple[Network, jax.Array]:
    hidden = config.policy.learner.hidden
    make = lambda k: Network((view.size, hidden, hidden, family.domain.n_actions), "relu", key=k)  # noqa: E731
    n_evaluations = config.policy.learner.updates // config.policy.evaluate_every
    return eqx.filter_vmap(make)(jr.split(jr.key(0), config.seeds)), jnp.zeros((config.seeds, n_evaluations))


def _known_like(family: Family, config: Config) -> dict[str, Estimate]:
    theta = Theta(jnp.zeros((config.seeds, config.model.theta_s)), jnp.zeros((config.seeds, config.model.theta_r)))
    return {f"{t}/{s}": Estimate(theta, theta) for t in family.targets for s in config.samples}
