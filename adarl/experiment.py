"""Algorithm 1 of the paper, from source domains to an agent that acts in a new one.

In: a family and a configuration. Out: a run directory with every stage's result, an agent, and a report. A second call
reuses finished stages; a killed one continues from its last checkpoint.
"""

import dataclasses
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np

from adarl import exhibits, stages
from adarl.adapt.states import Estimate
from adarl.again import estimate_again, record_again
from adarl.agent import Agent
from adarl.config import METHODS, WITH_MODEL, Config, command, resolve
from adarl.domains.camera import check_camera
from adarl.domains.family import Family
from adarl.domains.functional import Camera
from adarl.domains.host import Host, told
from adarl.locate.changes import Changes
from adarl.locate.structure import Structure
from adarl.methods.method import Lesson, Method, Policy
from adarl.model.eye import Film
from adarl.model.world import WorldModel
from adarl.policy.learn import n_environments
from adarl.policy.view import View
from adarl.progress import Progress
from adarl.report import page
from adarl.report.summary import Summary, summarise
from adarl.report.where import tested
from adarl.run.directory import RunDirectory
from adarl.types import AdarlError

FILMED, THERE = 1000, 1001
"""What keys are told apart by: the noise of a camera, and recordings of the targets."""


@dataclass(frozen=True)
class Result:
    """What a run leaves."""

    agent: Agent
    summary: Summary
    directory: Path
    report: Path


@dataclass(frozen=True)
class Compared:
    """What the stages of a run made, by method; policies by method, target and samples."""

    methods: dict[str, Method]
    policies: dict[tuple[str, str, str], Policy]
    scores: list[dict[str, Any]]
    curves: dict[str, Any]
    structure: Structure | Changes | None
    """What tests say of the sources."""
    why_not: str
    """Why they say nothing, where they were asked."""
    twins: dict[str, str] = field(default_factory=dict)
    """Methods that are the same as one before them here, and that one."""

    def scores_of(self, method: str) -> list[dict[str, Any]]:
        """Of one method."""
        return [
            {name: value for name, value in row.items() if name != "method"}
            for row in self.scores
            if row["method"] == method
        ]

    def known(self, method: str) -> dict[str, Estimate]:
        """What a method knows of the targets, by target and samples."""
        return {f"{target}/{samples}": p.known for (name, target, samples), p in self.policies.items() if name == method}


def compare(family: Family, config: Config, run: RunDirectory, progress: Progress) -> Compared:
    """Algorithm 1 for every method of `config`, stage by stage."""
    key_collect, key_model, *_ = jr.split(jr.key(config.seed), 5)
    images = isinstance(family.domain, Camera)
    if isinstance(family.domain, Camera):
        points = (*family.sources, *family.targets.values())
        check_camera(family.domain, family.stack(points), [told(point) for point in points])
    episodes = run.stage(
        "collect",
        lambda _: stages.record(family, family.sources, config, key_collect, progress),
        lambda: stages.episodes_like(family, config),
    )
    for i in range(0 if images else config.collect.again):
        key_again = jr.fold_in(key_collect, i + 1)
        episodes = run.stage(
            f"collect_{i + 1}",
            lambda resume, so_far=episodes, key=key_again: record_again(family, so_far, config, key, resume, progress),
            lambda i=i: stages.episodes_like(family, config, i + 2),
        )
    seen = stages.film_of(family, family.sources, episodes, jr.fold_in(key_collect, FILMED)) if images else episodes
    structure, why_not = None, ""
    if config.locate == "on" and set(config.methods) & set(WITH_MODEL):
        tests: Any = run.stage_json("locate", lambda _: stages.locate(family, seen, config, progress))
        why_not = tests.pop("why_not", "")
        if not why_not:
            structure = Changes(**tests) if images else Structure(**{name: np.array(x) for name, x in tests.items()})
    models: dict[str, WorldModel] = {}
    lessons: dict[str, Lesson] = {}
    whole = stages.sized(config.vae if images else config.model, family, structure)
    for name, plan in stages.models_of(config, whole).items():
        bounds = stages.bounds_of(structure, plan, config.structure) if name == "model" else None
        known, film = (family, seen) if name != stages.AT_TARGETS else _at_targets(family, config, run, progress)
        rest = (known, film, plan, bounds, key_model)
        models[name] = run.stage(
            name,
            lambda resume, rest=rest: stages.estimate_model(*rest, resume, progress),
            lambda plan=plan, known=known: stages.model_like(known, plan),
        )
        for i in range(config.collect.again):
            if isinstance(film, Film):
                further = (known, film, models[name], config, jr.fold_in(key_model, i + 1))
                models[name] = run.stage(
                    f"{name}_{i + 1}",
                    lambda resume, further=further: estimate_again(*further, resume, progress),
                    lambda model=models[name]: model,
                )
        lessons[name] = stages.lesson_of(known, film, config, models[name])
    found = Compared({}, {}, [], {}, structure, why_not)
    for name in config.methods:
        on = stages.model_name(name, images=images)
        lesson = lessons[on] if on else stages.lesson_of(family, seen, config)
        _follow(family, name, stages.method_of(name, lesson, models.get(on), config), config, found, run, progress)
    return found


def _follow(
    family: Family, name: str, method: Method, config: Config, found: Compared, run: RunDirectory, progress: Progress
) -> None:
    """One method, from its policies to their scores. What it trained is let go in the end: a replay may take gigabytes."""
    _, _, key_policy, key_target, key_evaluate = jr.split(jr.key(config.seed), 5)
    twin = next((other for other, known in found.methods.items() if stages.alike(known, method)), None)
    found.twins.update({name: twin} if twin else {})
    like = lambda: method.trained_like(config.seeds)  # noqa: E731
    trained = run.stage(
        f"policy_{name}",
        lambda resume: (
            run.load(f"policy_{twin}", like) if twin else stages.train(name, method, config, key_policy, resume, progress)
        ),
        like,
    )
    found.curves[name] = _curve(method.curve(trained), len(family.sources), config)
    model = lambda method: stages.model_name(method, images=isinstance(family.domain, Camera))  # noqa: E731
    known_by = next((m for m in found.methods if {m, name} <= set(WITH_MODEL) and model(m) == model(name)), None)
    cells = [(target, samples) for target in family.targets for samples in config.samples]
    bar = progress.stage(f"adapt ({name})", len(cells))
    for i, (target, samples) in enumerate(cells):
        known = found.policies[known_by, target, samples].known if known_by else None
        rest = (method, trained, target, samples, config, key_target, key_policy, known)
        found.policies[name, target, samples] = run.stage(
            f"adapt_{name}_{list(family.targets).index(target)}_{samples}",
            lambda _, rest=rest: stages.adapt(family, *rest),
            lambda: method.policy_like(config.seeds),
        )
        bar(i + 1)
    policies = {cell: found.policies[name, *cell] for cell in cells}
    scores: Any = run.stage_json(
        f"scores_{name}",
        lambda _: found.scores_of(twin) if twin else stages.evaluate(method, policies, config, key_evaluate),
    )
    found.scores.extend({**row, "method": name} for row in scores)
    found.methods[name] = method


def _at_targets(family: Family, config: Config, run: RunDirectory, progress: Progress) -> tuple[Family, Film]:
    """The targets as sources, and recordings of them."""
    there = stages.at_targets(family)
    key = jr.fold_in(jr.key(config.seed), THERE)
    episodes = run.stage(
        "collect_targets",
        lambda _: stages.record(there, there.sources, config, key, progress),
        lambda: stages.episodes_like(there, config),
    )
    return there, stages.film_of(there, there.sources, episodes, jr.fold_in(key, FILMED))


def run(family: Family, config: Config, directory: str | Path, progress: Progress | None = None) -> Result:
    """`compare`, then an agent of the first method and a report."""
    config = resolve(family, config)
    first = config.methods[0]
    if first not in WITH_MODEL:
        raise AdarlError(f"The first method is {first!r}; a report tells of a model, so it must be {', '.join(WITH_MODEL)}.")
    progress = progress or Progress(quiet=True)
    with RunDirectory(directory, described(family, config)) as run, progress:
        found = compare(family, config, run, progress)
        method: Any = found.methods[first]
        agent = method.agent(run.load(f"policy_{first}", lambda: method.trained_like(config.seeds)))
        agent.save(run.path / "agent.npz")
        known = found.known(first)
        oracle = _oracle(found) if "oracle" in found.methods else None
        key_watch = jr.split(jr.key(config.seed), 5)[4]
        animations: Any = run.stage_json(
            "animations", lambda _: exhibits.animate(family, agent, known, config, key_watch, oracle)
        )
        promise: Any = run.stage_json("promise", lambda _: exhibits.promise(family, agent, method.lesson, config, key_watch))
        insight: Any = run.stage_json(
            "insight", lambda _: exhibits.insight_of(family, method.model, known, config, jr.fold_in(key_watch, 1))
        )
        seconds = {name: run.manifest(name)["seconds"] for name in run.finished if name != "summary"}
        summary = summarise(
            method.lesson.family,
            method.model,
            method.minimal,
            known,
            found.curves,
            found.scores,
            located=tested(found.structure, method.lesson.family.domain.state_names, config.tests.rate),
            not_located=found.why_not,
            score_name=family.score,
            score_cap=config.steps if not isinstance(family.domain, Host) else None,
            animations=animations,
            promise=promise,
            insight=insight,
            seconds=seconds,
            seed=config.seed,
            version=run.versions["adarl"],
            command=command(family, config),
        )
        run.stage_json("summary", lambda _: summary)
        report = page.write(summary, run.path / "report.html")
    return Result(agent, summary, run.path, report)


def _oracle(found: Compared) -> dict[str, tuple[Any, View]]:
    """The first seed's policy for every target."""
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)  # noqa: E731
    view = found.methods["oracle"].view
    return {target: (first(policy.q), view) for (name, target, _), policy in found.policies.items() if name == "oracle"}


def fit_agent(family: Family, seed: int = 0, config: Config | None = None, directory: str | Path | None = None) -> Agent:
    """`adarl.fit`: collect, locate, model, graph, policy; no targets needed."""
    config = dataclasses.replace(config or Config(seeds=1), seed=seed)
    without_targets = dataclasses.replace(family, targets={})
    if directory is not None:
        return run(without_targets, config, directory).agent
    with tempfile.TemporaryDirectory() as folder:
        return run(without_targets, config, Path(folder) / "run").agent


def _curve(curve: jax.Array, n_sources: int, config: Config) -> dict[str, Any]:
    """After so many updates, and so many steps in all sources together, each seed's score there."""
    updates = config.policy.evaluate_every * np.arange(1, curve.shape[1] + 1)
    steps = updates * n_environments(n_sources, config.policy)
    return {"updates": updates.tolist(), "steps": steps.tolist(), "score": np.asarray(curve).tolist()}


def described(family: Family, config: Config) -> dict[str, Any]:
    """All that a run directory must agree on: what only methods read that are not run is left out."""
    about = {"name": family.name, "sources": [dict(p) for p in family.sources], "targets": dict(family.targets)}
    others = set(METHODS) - set(config.methods)
    return {"family": about, **{name: value for name, value in dataclasses.asdict(config).items() if name not in others}}
