"""The bench: every method on every family of a table, from raw scores to the published files.

In: the name of a table, which samples, how many seeds. Out: raw scores, learning curves, times, and the tables drawn from
them. Each pair of a family and a method is an ordinary run in a directory of its own: what is finished is reused, what was
killed continues, and as many work at once as there are cores.
"""

import csv
import io
import json
import os
import resource
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np
from scipy.stats import spearmanr

from adarl import exhibits, experiment, stages
from adarl.collect import CollectConfig
from adarl.config import Config, Method, resolve
from adarl.domains.family import Family, family, unknown
from adarl.domains.functional import Camera
from adarl.evaluate.scores import CARTPOLE_MDP, CARTPOLE_POMDP, COLUMNS, DISTRACTED, Grid, read
from adarl.model.plan import MissVAEConfig
from adarl.report import results
from adarl.report.summary import summarise
from adarl.run.directory import RunDirectory
from adarl.run.sweep import Told, sweep
from adarl.types import AdarlError

WORK = {"oracle": 2.0, "non_t": 2.0, "cavia": 3.0, "pearl": 3.0, "psm": 2.0, "mql": 3.0, "adarl_plus": 2.0}
"""What a method costs, roughly, where it is not 1, to start the longest jobs first and to guess the time that remains."""


@dataclass(frozen=True)
class Entry:
    """One family of a table."""

    family: str
    row: str
    """What its rows are called: G for G_in and G_out."""
    policy: dict[str, Any]
    """Where its policies need other settings than the usual. The same for every method."""
    learner: dict[str, Any]
    work: float = 1.0
    rest: dict[str, Any] = field(default_factory=dict)
    """Of the configuration."""


def _seen(name: str, row: str, vae: MissVAEConfig) -> Entry:
    """A family of which images are seen. To look costs more than to think: fewer environments, shorter evaluations. Beliefs
    err, so networks act together, and many steps are counted before Q is asked; and a policy records too, for it meets what
    chance does not: poles that stand for long, and the end of the track.
    """
    learner = {"updates": 12_000, "n_step": 10}
    policy = {"environments": 20, "evaluate_every": 1000, "evaluate_steps": 300, "council": 0.5}
    rest = {"episodes": 3, "locate": "on", "collect": CollectConfig(trials=1000, wide=0.5, again=1), "vae": vae}
    return Entry(name, row, policy, learner, rest=rest)


ENTRIES = {
    "cartpole-mdp": (
        Entry("cartpole-gravity", "G", {}, {}),
        # A heavy cart answers slowly, and so do its values: some seeds need longer.
        Entry("cartpole-mass", "M", {}, {"updates": 20_000}),
        # 25 sources that differ in two ways, some of which end within 20 steps. Where most starts are lost, the average of
        # many networks saves fewer than the best of them.
        Entry(
            "cartpole-gravity-mass",
            "GM",
            {"wander": 0.02, "horizon": 150, "epsilon": 0.02},
            {"updates": 16_000, "hidden": 128, "average_rate": 1.0},
            work=3.0,
        ),
        Entry("cartpole-motor", "motor", {}, {}),
        Entry("cartpole-target", "target", {}, {}),
    ),
    "cartpole-pomdp": (
        _seen("cartpole-gravity-images", "G", MissVAEConfig()),
        _seen("cartpole-mass-images", "M", MissVAEConfig()),
        # What is drawn through noise is learned more slowly, and takes longer to settle once edges are decided. An encoder
        # that is told how much noise there is serves policies worse (benchmarks/hears.py).
        _seen("cartpole-noise", "N", MissVAEConfig(open_steps=2700, search_steps=1200, binary_steps=2400, hears="dynamics")),
    ),
    "distracted": (Entry("cartpole-distracted-16", "distracted", {}, {}),),
}
GRIDS = {"cartpole-mdp": CARTPOLE_MDP, "cartpole-pomdp": CARTPOLE_POMDP, "distracted": DISTRACTED}


@dataclass(frozen=True)
class Job:
    """Some methods on one family: one of them, or those that share a model where a model is most of the work."""

    entry: Entry
    config: Config
    directory: Path

    @property
    def name(self) -> str:
        """What a reader is told of it."""
        return f"{self.entry.family} {' '.join(self.config.methods)}"

    @property
    def work(self) -> float:
        """Roughly, in arbitrary units."""
        return sum(map(self.work_of, self.config.methods))

    def work_of(self, method: str) -> float:
        """Of one of its methods."""
        return WORK.get(method, 1.0) * self.entry.work


def jobs_of(
    table: str,
    runs: Path,
    *,
    samples: tuple[str, ...],
    seeds: int,
    methods: tuple[Method, ...],
    families: tuple[str, ...] = (),
    updates: float = 1.0,
) -> list[Job]:
    """The jobs of a table, or of some of its families, the longest first. `updates` is a share of the usual ones."""
    grid = grid_of(table)
    for method in methods:
        if method not in grid.methods:
            raise AdarlError(f"{unknown('method', method, grid.methods)} Those are what the table {table!r} has.")
    known = {entry.family: entry for entry in ENTRIES[table]}
    for name in families:
        if name not in known:
            raise AdarlError(unknown("family", name, known))
    jobs = []
    for entry in map(known.__getitem__, families or known):
        chosen, base = family(entry.family), config_of(entry, samples, seeds, updates)
        for group in together(methods, images=isinstance(chosen.domain, Camera)):
            config = resolve(chosen, replace(base, methods=group))
            jobs.append(Job(entry, config, runs / entry.family / "-".join(group)))
    return sorted(jobs, key=lambda job: -job.work)


def grid_of(table: str) -> Grid:
    """The cells that a table is to have."""
    if table not in GRIDS:
        raise AdarlError(unknown("table", table, GRIDS))
    return GRIDS[table]


def together(methods: tuple[Method, ...], *, images: bool) -> list[tuple[Method, ...]]:
    """Methods by run: where images are seen, those that share a model share a run, for it takes longer than they do.

    The longest comes first: it also remembers most, and a process keeps some of what others needed.
    """
    if not images:
        return [(method,) for method in methods]
    by_model: dict[str, list[Method]] = defaultdict(list)
    for method in methods:
        by_model[stages.model_name(method, images=True)].append(method)
    return [tuple(sorted(group, key=lambda method: -WORK.get(method, 1.0))) for group in by_model.values()]


def usual_workers(jobs: list[Job]) -> int:
    """One a core; a single one where images are seen, for two processes that remember as much as MQL may not fit."""
    images = any(isinstance(family(job.entry.family).domain, Camera) for job in jobs)
    return 1 if images else os.cpu_count() or 1


def config_of(entry: Entry, samples: tuple[str, ...], seeds: int, updates: float = 1.0) -> Config:
    """What all methods share in one family. Where states are seen, every model has both thetas, whatever tests would say."""
    rest: dict[str, Any] = {"episodes": 10, "locate": "off"} | entry.rest
    config = Config(seeds=seeds, samples=samples, **rest)
    policy = replace(config.policy, **entry.policy)
    learner, every = replace(policy.learner, **entry.learner), policy.evaluate_every
    learner = replace(learner, updates=max(2, int(updates * learner.updates / every)) * every)
    return replace(config, policy=replace(policy, learner=learner))


def work(job: Job, teller: Any) -> dict[str, Any]:
    """One job, in its own process: of every method raw scores, the learning curve and cost, and what AdaRL+ found."""
    chosen = family(job.entry.family)
    answers = {}
    with RunDirectory(job.directory, experiment.described(chosen, job.config)) as run:
        found = experiment.compare(chosen, job.config, run, teller)
        own = lambda stage, method: stage.removeprefix("policy_").removeprefix("scores_") == method  # noqa: E731
        for method in job.config.methods:
            others = set(job.config.methods) - {found.twins.get(method, method)}
            mine = [s for s in run.finished if not any(own(s, m) or s.startswith(f"adapt_{m}_") for m in others)]
            seconds = sum(run.manifest(name)["seconds"] for name in mine)
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            answers[method] = {
                "cells": cells_of(job, method, found.scores),
                "curve": found.curves[method],
                "cost": {"minutes": round(seconds / 60, 1), "peak_megabytes": round(megabytes)},
                "summary": _summary(chosen, job, found) if method == "adarl_plus" else None,
            }
    return answers


def _summary(chosen: Family, job: Job, found: experiment.Compared) -> Any:
    method: Any = found.methods["adarl_plus"]
    extra: dict[str, Any] = {"score_name": chosen.score, "score_cap": job.config.steps, "animations": []}
    scores, known = [row for row in found.scores if row["method"] == "adarl_plus"], found.known("adarl_plus")
    if isinstance(chosen.domain, Camera):
        extra["insight"] = exhibits.insight_of(chosen, method.model, known, job.config, jr.key(job.config.seed))
    return summarise(method.lesson.family, method.model, method.minimal, known, {}, scores, **extra)


def cells_of(job: Job, method: str, scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of scores.csv. A row with two targets holds the mean of both a seed; an oracle needs no samples."""
    found: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for score in scores:
        if score["method"] != method or (method == "oracle" and score["samples"] != job.config.samples[0]):
            continue
        samples = "0" if method == "oracle" else score["samples"]
        found[f"{job.entry.row}_{score['target'].split('_')[0]}", samples].append(score["scores"])
    return [
        dict(zip(COLUMNS, (row, samples, method, seed, round(float(mean), 3)), strict=True))
        for (row, samples), targets in found.items()
        for seed, mean in enumerate(np.mean(targets, axis=0))
    ]


def run_table(
    jobs: list[Job],
    *,
    out: Path,
    workers: int,
    hear: Callable[[Job, Told], None] = lambda job, told: None,
    finished: Callable[[Job, int, int], None] = lambda job, done, total: None,
) -> list[str]:
    """All jobs; files in `out` grow with each that finishes. The answer names what failed."""
    failed = []
    for done, end in enumerate(sweep(work, [(job,) for job in jobs], workers, lambda t: hear(jobs[t.job], t)), start=1):
        job = jobs[end.job]
        if end.error is not None:
            if not isinstance(end.error, AdarlError):
                raise end.error
            failed.append(f"{job.name}: {end.error}")
        else:
            for method, answer in end.answer.items():
                keep(out, job.entry.family, method, answer)
        finished(job, done, len(jobs))
    return failed


def keep(out: Path, chosen: str, method: str, answer: dict[str, Any]) -> None:
    """Put a method's results on a family beside those that are there; what they replace is their own."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "scores.csv"
    old = list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []
    mine = {(cell["row"], method) for cell in answer["cells"]}
    rows = [row for row in old if (row["row"], row["method"]) not in mine] + answer["cells"]
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda r: (r["row"], r["samples"], r["method"], int(r["seed"]))))
    results.whole(path, text.getvalue().encode())
    curve = {**answer["curve"], "score": np.round(answer["curve"]["score"], 1).tolist()}
    _merge_json(out / "curves.json", chosen, method, curve)
    old_cost = _read_json(out / "cost.json").get(chosen, {}).get(method, answer["cost"])
    peak = max(old_cost["peak_megabytes"], answer["cost"]["peak_megabytes"])  # what is only read again needs little
    _merge_json(out / "cost.json", chosen, method, {**answer["cost"], "peak_megabytes": peak})
    if answer["summary"] is not None:
        _merge_json(out / "found.json", chosen, method, answer["summary"])


def _merge_json(path: Path, chosen: str, method: str, value: Any) -> None:
    content = _read_json(path)
    content.setdefault(chosen, {})[method] = value
    results.whole(path, (json.dumps(content, sort_keys=True) + "\n").encode())


def publish(table: str, out: Path, *, samples: tuple[str, ...], partial: bool) -> list[Path]:
    """Tables and figures of what stands in `out`. Unless `partial`, a cell that is missing is named and nothing is drawn."""
    grid = grid_of(table)
    cells = read(out / "scores.csv", grid)
    found, curves = (_read_json(out / name) for name in ("found.json", "curves.json"))
    summaries = {name: {**methods["adarl_plus"], "curves": curves[name]} for name, methods in found.items()}
    if known := {name: model_figures(summary) for name, summary in summaries.items() if "insight" in summary}:
        results.whole(out / "model.json", (json.dumps(known, indent=1) + "\n").encode())
    return results.write(out, cells, grid=replace(grid, samples=samples), summaries=summaries, partial=partial)


def model_figures(summary: dict[str, Any]) -> dict[str, Any]:
    """What a model of images knows: theta beside the factor in every domain, and of the states that nobody saw."""
    found = {"theta_min": summary["theta_min"], "s_min": sum(summary["s_min"].values())}
    insight = {name: part for name, part in summary["insight"].items() if name != "pictures"}
    return {**found, **insight, "monotone": monotone(summary), "domains": summary["domains"]}


def monotone(summary: dict[str, Any]) -> dict[str, float]:
    """Of every theta that differs between domains: |Spearman's correlation| with the first factor, sources and targets."""
    factor, names = summary["factors"][0], list(summary["theta_min"])
    sources = [domain for domain in summary["domains"] if domain["kind"] == "source"]
    found = {}
    for samples in dict.fromkeys(d["samples"] for d in summary["domains"] if d["kind"] == "target"):
        domains = sources + [d for d in summary["domains"] if d.get("samples") == samples]
        for name in names:
            theta = [domain["theta"][name] for domain in domains]
            if np.ptp(theta) > 0:
                rho, _ = spearmanr([domain["factors"][factor] for domain in domains], theta)
                found[f"{name}, {samples}"] = round(abs(float(rho)), 4)  # pyright: ignore
    return found


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
