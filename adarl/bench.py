"""The bench: every method on every family of a table, from raw scores to the published files.

In: the name of a table, which samples, how many seeds. Out: raw scores, learning curves, times, and the tables drawn from
them. Each pair of a family and a method is an ordinary run in a directory of its own: what is finished is reused, what was
killed continues, and as many work at once as there are cores.
"""

import csv
import io
import json
import resource
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adarl import experiment
from adarl.config import Config, Method, resolve
from adarl.domains.family import family, unknown
from adarl.evaluate.scores import CARTPOLE_MDP, COLUMNS, DISTRACTED, read
from adarl.report import results
from adarl.report.summary import summarise
from adarl.run.directory import RunDirectory
from adarl.run.sweep import Told, sweep
from adarl.types import AdarlError

WORK = {"oracle": 2.0, "non_t": 2.0, "cavia": 3.0, "pearl": 3.0, "adarl_star": 1.0, "adarl": 1.0, "adarl_plus": 2.0}
"""What a method costs, roughly, to start the longest jobs first and to guess the time that remains."""


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
    "distracted": (Entry("cartpole-distracted-16", "distracted", {}, {}),),
}
GRIDS = {"cartpole-mdp": CARTPOLE_MDP, "distracted": DISTRACTED}


@dataclass(frozen=True)
class Job:
    """One method on one family."""

    entry: Entry
    method: Method
    config: Config
    directory: Path

    @property
    def work(self) -> float:
        """Roughly, in arbitrary units."""
        return WORK[self.method] * self.entry.work


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
    if table not in ENTRIES:
        raise AdarlError(unknown("table", table, ENTRIES))
    known = {entry.family: entry for entry in ENTRIES[table]}
    for name in families:
        if name not in known:
            raise AdarlError(unknown("family", name, known))
    jobs = []
    for entry in map(known.__getitem__, families or known):
        base = config_of(entry, samples, seeds, updates)
        for method in methods:
            config = resolve(family(entry.family), replace(base, methods=(method,)))
            jobs.append(Job(entry, method, config, runs / entry.family / method))
    return sorted(jobs, key=lambda job: -job.work)


def config_of(entry: Entry, samples: tuple[str, ...], seeds: int, updates: float = 1.0) -> Config:
    """What all methods share in one family. Every model has both thetas, whatever tests would say."""
    config = Config(seeds=seeds, samples=samples, episodes=10, locate="off")
    learner = replace(config.policy.learner, **entry.learner)
    every = config.policy.evaluate_every
    learner = replace(learner, updates=max(2, int(updates * learner.updates / every)) * every)
    return replace(config, policy=replace(config.policy, **entry.policy, learner=learner))


def work(job: Job, teller: Any) -> dict[str, Any]:
    """One job, in its own process: raw scores, the learning curve, seconds and memory, and what AdaRL+ found."""
    chosen = family(job.entry.family)
    with RunDirectory(job.directory, experiment.described(chosen, job.config)) as run:
        found = experiment.compare(chosen, job.config, run, teller)
        seconds = sum(run.manifest(name)["seconds"] for name in run.finished)
        about = None
        if job.method == "adarl_plus":
            method: Any = found.methods[job.method]
            extra = {"score_name": chosen.score, "score_cap": job.config.steps, "animations": []}
            known = found.known(job.method)
            about = summarise(chosen, method.model, method.minimal, known, {}, found.scores, **extra)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cost = {"minutes": round(seconds / 60, 1), "peak_megabytes": round(megabytes)}
    return {"cells": cells_of(job, found.scores), "curve": found.curves[job.method], "cost": cost, "summary": about}


def cells_of(job: Job, scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of scores.csv. A row with two targets holds the mean of both a seed; an oracle needs no samples."""
    found: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for score in scores:
        if job.method == "oracle" and score["samples"] != job.config.samples[0]:
            continue
        samples = "0" if job.method == "oracle" else score["samples"]
        found[f"{job.entry.row}_{score['target'].split('_')[0]}", samples].append(score["scores"])
    return [
        dict(zip(COLUMNS, (row, samples, job.method, seed, round(float(mean), 3)), strict=True))
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
            failed.append(f"{job.entry.family} {job.method}: {end.error}")
        else:
            keep(out, job, end.answer)
        finished(job, done, len(jobs))
    return failed


def keep(out: Path, job: Job, answer: dict[str, Any]) -> None:
    """Put a job's results beside those that are there; what it replaces is its own."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "scores.csv"
    old = list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []
    mine = {(cell["row"], job.method) for cell in answer["cells"]}
    rows = [row for row in old if (row["row"], row["method"]) not in mine] + answer["cells"]
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda r: (r["row"], r["samples"], r["method"], int(r["seed"]))))
    results.whole(path, text.getvalue().encode())
    curve = {**answer["curve"], "score": np.round(answer["curve"]["score"], 1).tolist()}
    _merge_json(out / "curves.json", job, curve)
    _merge_json(out / "cost.json", job, answer["cost"])
    if answer["summary"] is not None:
        _merge_json(out / "found.json", job, answer["summary"])


def _merge_json(path: Path, job: Job, value: Any) -> None:
    content = _read_json(path)
    content.setdefault(job.entry.family, {})[job.method] = value
    results.whole(path, (json.dumps(content, sort_keys=True) + "\n").encode())


def publish(table: str, out: Path, *, samples: tuple[str, ...], partial: bool) -> list[Path]:
    """Tables and figures of what stands in `out`. Unless `partial`, a cell that is missing is named and nothing is drawn."""
    grid = GRIDS[table]
    cells = read(out / "scores.csv", grid)
    found, curves = (_read_json(out / name) for name in ("found.json", "curves.json"))
    summaries = {name: {**methods["adarl_plus"], "curves": curves[name]} for name, methods in found.items()}
    return results.write(out, cells, grid=replace(grid, samples=samples), summaries=summaries, partial=partial)


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
