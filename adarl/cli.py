"""The command line: one function call a command."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import gymnasium as gym
import jax.random as jr
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

import adarl
from adarl import stages
from adarl.config import Config, Method
from adarl.domains.family import families, family, unknown
from adarl.experiment import run
from adarl.locate import changes, logs, structure
from adarl.locate.structure import LocateConfig
from adarl.progress import Progress
from adarl.report import page, where
from adarl.report.words import listed, method_name, samples_name
from adarl.run.directory import RunDirectory
from adarl.run.sweep import Told
from adarl.types import AdarlError

console = Console()


@dataclass(frozen=True)
class Run:
    """Learn from a family's sources, adapt to its targets, evaluate, and write a report. A second call continues."""

    family: Annotated[str, tyro.conf.Positional]
    """A name from `adarl families`."""
    out: Path | None = None
    """The run directory; runs/FAMILY-SEED unless given."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


@dataclass(frozen=True)
class Families:
    """List the families with their sources and targets."""


@dataclass(frozen=True)
class Locate:
    """Tell from data alone what changed between domains: which dynamics, the reward, or what is observed."""

    family: Annotated[str, tyro.conf.Positional] = ""
    """A name from `adarl families`: its sources are recorded with random actions. Not needed with --data."""
    data: tuple[str, ...] = ()
    """Logged steps instead: one npz file (layout: `adarl.locate.logs`), or Minari datasets, one a domain."""
    out: Path | None = None
    """Folder of locate.json and the figure; runs/locate-FAMILY unless given."""
    seed: int = 0
    """Of the recordings, of which rows are looked at, and of random features."""
    tests: LocateConfig = field(default_factory=LocateConfig)


@dataclass(frozen=True)
class Adapt:
    """Adapt a run's agent to an environment with the given factors, and act there."""

    run: Annotated[Path, tyro.conf.Positional]
    """A run directory."""
    factors: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Factors of the environment, as gravity=15."""
    samples: int = 50
    """Random steps that the agent may look at."""
    episodes: int = 3
    """Episodes to act in afterwards."""
    seed: int = 0
    """Of samples and episodes."""


@dataclass(frozen=True)
class Report:
    """Make the report of a finished run anew: one HTML file that needs nothing else."""

    run: Annotated[Path, tyro.conf.Positional]
    """A run directory."""
    out: Path | None = None
    """The file; RUN/report.html unless given."""


@dataclass(frozen=True)
class Show:
    """Print what a finished run found."""

    run: Annotated[Path, tyro.conf.Positional]
    """A run directory."""


@dataclass(frozen=True)
class Bench:
    """Every method on every family of a table; writes raw scores, tables and figures. A second call continues."""

    table: Annotated[str, tyro.conf.Positional]
    """cartpole-mdp, cartpole-pomdp, or distracted."""
    samples: tuple[str, ...] = ()
    """What each target gives: `50steps` single steps, or `20`, `50`, `10000` trajectories of up to 40 steps. All that the
    table has unless given."""
    seeds: int = 30
    """Policies of every method, each with its own target samples."""
    methods: tuple[Method, ...] = ()
    """Which methods; all of the table unless given."""
    families: tuple[str, ...] = ()
    """Only these families of the table."""
    out: Path | None = None
    """Where scores and tables go; results/TABLE unless given."""
    runs: Path | None = None
    """Where work is kept; runs/TABLE unless given."""
    workers: int = 0
    """Processes at once, which share the cores. 0: one a core, but a single one where images are seen, which takes 10 GB."""
    updates: float = 1.0
    """Share of the usual updates that a policy gets."""
    quick: bool = False
    """3 seeds and a third of the updates: the same table in minutes, in folders of its own."""


def do_run(command: Run) -> None:
    """`adarl run`."""
    chosen = family(command.family)
    out = command.out or Path("runs") / f"{chosen.name}-{command.config.seed}"
    result = run(chosen, command.config, out, Progress(quiet=not console.is_terminal))
    print_summary(result.summary)
    console.print(f"\nReport: {result.report}", soft_wrap=True)


def do_table(command: Bench) -> None:
    """`adarl table`."""
    from adarl import bench  # to draw with matplotlib takes a second to load, which no other command need wait

    name = f"{command.table}-quick" if command.quick else command.table
    out, runs = command.out or Path("results") / name, command.runs or Path("runs") / name
    seeds, updates = (3, 1 / 3) if command.quick else (command.seeds, command.updates)
    grid = bench.grid_of(command.table)
    if command.workers < 0:
        raise AdarlError(f"workers is {command.workers}; a number of processes is expected, or 0 for the usual.")
    samples, methods = command.samples or grid.samples, command.methods or cast(tuple[Method, ...], grid.methods)
    asked = {"samples": samples, "seeds": seeds, "updates": updates}
    jobs = bench.jobs_of(command.table, runs, methods=methods, families=command.families, **asked)
    with Progress(quiet=not console.is_terminal) as progress:
        bar, shares = progress.stage(f"{name} (all)", round(100 * sum(job.work for job in jobs))), {}

        def share(job: bench.Job, method: str, done: float) -> None:
            shares[job.directory, method] = 100 * job.work_of(method) * done
            bar(round(sum(shares.values())))

        def hear(job: bench.Job, told: Told) -> None:
            if told.stage.startswith("policy ("):
                share(job, told.stage.removeprefix("policy (").removesuffix(")"), min(told.share, 1.0))

        def finished(job: bench.Job, done: int, total: int) -> None:
            for method in job.config.methods:
                share(job, method, 1.0)
            console.print(f"{done} of {total}: {job.name}")

        workers = command.workers or bench.usual_workers(jobs)
        failed = bench.run_table(jobs, out=out, workers=workers, hear=hear, finished=finished)
    if failed:
        raise AdarlError(" ".join(failed))
    whole = set(methods) >= set(grid.methods) and not command.families
    made = bench.publish(command.table, out, samples=samples, partial=not whole)
    console.print(f"\n{len(made)} tables and figures beside {out / 'scores.csv'}", soft_wrap=True)


def do_families(command: Families) -> None:
    """`adarl families`."""
    table = Table(box=None)
    table.add_column("family", no_wrap=True)
    for name in ("factors", "sources", "targets"):
        table.add_column(name)
    for one in families().values():
        sources = ", ".join(_short(p) for p in one.sources[:7]) + (", ..." if len(one.sources) > 7 else "")
        targets = ", ".join(f"{name}: {_short(p)}" for name, p in one.targets.items())
        table.add_row(one.name, " ".join(one.factors), sources, targets)
    console.print(table)


def do_locate(command: Locate) -> None:
    """`adarl locate`."""
    if bool(command.family) == bool(command.data):
        raise AdarlError("Name a family, or give files with --data: one of the two.")
    log = logs.read(command.data) if command.data else None
    for note in log.notes() if log else ():
        console.print(note)
    if log is not None and log.is_seen_as_images:
        found = where.seen(changes.locate(log.o, log.a, log.r, log.k, log.trial, seed=command.seed))
    else:
        steps, names = (log.steps(), log.names) if log else _recorded(command)
        found = where.located(structure.find(steps, command.tests, command.seed), names, command.tests.rate)
    out = command.out or Path("runs") / f"locate-{command.family or Path(command.data[0]).stem}"
    try:
        made = where.write(found, out)
    except OSError as error:
        raise AdarlError(f"Cannot write to {out}: {error.strerror}.") from error
    _print_located(found)
    console.print(f"\n{listed([str(path) for path in made])}", soft_wrap=True)


def _recorded(command: Locate) -> tuple[structure.Steps, tuple[str, ...]]:
    chosen = family(command.family)
    config = Config(seed=command.seed)
    progress = Progress(quiet=not console.is_terminal)
    with progress:
        episodes = stages.record(chosen, chosen.sources, config, jr.key(command.seed), progress)
    return structure.steps_of(episodes), chosen.domain.state_names


def _print_located(found: dict[str, Any]) -> None:
    console.print(f"\n[bold]{found['words']}[/bold]\n")
    if "case" in found:
        console.print(f"Case {found['case']}; the model must carry {listed(found['theta']) or 'no theta'}.")
        table = Table("tested", "p", box=None)
        for name, p in found["p_observation"].items():
            table.add_row(f"{name} against the domain", f"{p:.2g}")
        p = found["p_action"]
        table.add_row("action against the domain, given the reward", "–" if p is None else f"{p:.2g}")
    else:
        table = Table("from", "to", "p", "edge", "in half the data", box=None)
        for edge in found["edges"]:
            stable = f"{edge['prob']:.0%}"
            table.add_row(edge["source"], edge["target"], f"{edge['p']:.2g}", "yes" if edge["hard"] else "", stable)
    console.print(table)


def do_adapt(command: Adapt) -> None:
    """`adarl adapt`."""
    source = RunDirectory.open_existing(command.run)
    factors = {name: _number(value) for name, _, value in (text.partition("=") for text in command.factors)}
    described: Any = source.config["family"]
    chosen = family(described["name"])
    for name in factors:
        if name not in chosen.factors:
            raise AdarlError(unknown("factor", name, chosen.factors))
    path = command.run / "agent.npz"
    if not path.exists():
        raise AdarlError(f"{command.run} holds no agent yet; `adarl run {chosen.name}` finishes it.")
    agent = adarl.load(path)
    kind: Any = {"obs": "state" if agent.model.eye is None else "image", **factors}
    env: gym.Env = gym.make("adarl/CartPole-v0", **kind)
    here = agent.adapt(env, samples=command.samples, seed=command.seed)
    for name in ("theta_s", "theta_r", "theta_o"):
        for i, (value, deviation) in enumerate(zip(getattr(here.theta, name), getattr(here.sd, name), strict=True)):
            console.print(f"{name}_{i + 1} = {float(value):.3f} ± {float(deviation):.3f}")
    for episode in range(command.episodes):
        total, steps = _episode(env, here, command.seed + 1 + episode)
        console.print(f"episode {episode + 1}: return {total:,.1f} in {steps:,} steps")


def _episode(env: gym.Env, here: adarl.Adapted, seed: int) -> tuple[float, int]:
    observation, _ = env.reset(seed=seed)
    here.reset()
    total, steps, over, last = 0.0, 0, False, None
    while not over:
        observation, r, ended, truncated, _ = env.step(here.act(observation, last))
        last = float(r)
        total, steps, over = total + last, steps + 1, ended or truncated
    return total, steps


def do_report(command: Report) -> None:
    """`adarl report`."""
    path = command.out or command.run / "report.html"
    try:
        page.write(_finished(command.run), path)
    except OSError as error:
        raise AdarlError(f"Cannot write {path}: {error.strerror}.") from error
    console.print(f"Report: {path}", soft_wrap=True)


def do_show(command: Show) -> None:
    """`adarl show`."""
    print_summary(_finished(command.run))
    console.print(f"\nReport: {command.run / 'report.html'}", soft_wrap=True)


def _finished(run: Path) -> dict[str, Any]:
    """The summary of a run that went through."""
    source = RunDirectory.open_existing(run)
    if "summary" not in source.finished:
        described: Any = source.config["family"]
        raise AdarlError(
            f"The run in {run} is not finished (done: {', '.join(source.finished) or 'nothing'});"
            f" `adarl run {described['name']} --out {run}` continues it."
        )
    return source.load_json("summary")


def print_summary(summary: dict[str, Any]) -> None:
    """A result a person can read."""
    console.print(f"\n[bold]{page.sentence(summary)}[/bold]\n")
    console.print(f"What changed:  theta_min = {_true(summary['theta_min']) or 'nothing that matters'}")
    console.print(f"Where:         {_where(summary)}")
    console.print(f"Policy sees:   s_min = {_true(summary['s_min'])}\n")
    if not summary["scores"]:
        return
    methods = list(dict.fromkeys(row["method"] for row in summary["scores"]))
    table = Table("target", "factors", "samples", *(method_name(m) for m in methods), box=None)
    cells = {(row["target"], row["samples"], row["method"]): row for row in summary["scores"]}
    for target, samples in dict.fromkeys((row["target"], row["samples"]) for row in summary["scores"]):
        rows = [cells[target, samples, method] for method in methods]
        scores = [f"{np.mean(row['scores']):,.0f} ± {np.std(row['scores']):,.0f}" for row in rows]
        table.add_row(target, _short(rows[0]["factors"]), samples_name(samples), *scores)
    console.print(table)
    n_seeds = len(summary["scores"][0]["scores"])
    console.print(f"\nMean ± standard deviation over {n_seeds} seeds of the {summary['score_name']}.")


def _where(summary: dict[str, Any]) -> str:
    moved = [
        f"{edge['source']} → {edge['target']}"
        for edge in summary["edges"]
        if edge["hard"] and edge["source"].startswith("theta_")
    ]
    return ", ".join(moved) or "no edge from theta"


def _true(flags: dict[str, bool]) -> str:
    return ", ".join(name for name, flag in flags.items() if flag)


def _short(point: Any) -> str:
    return " ".join(f"{name}={value:g}" for name, value in point.items())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AdarlError(f"The factor value {text!r} is not a number; write factors as gravity=15.") from None


COMMANDS: dict[type, Callable[[Any], None]] = {
    Run: do_run,
    Families: do_families,
    Locate: do_locate,
    Adapt: do_adapt,
    Report: do_report,
    Show: do_show,
    Bench: do_table,
}
Command = (
    Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[Families, tyro.conf.subcommand("families")]
    | Annotated[Locate, tyro.conf.subcommand("locate")]
    | Annotated[Adapt, tyro.conf.subcommand("adapt")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Bench, tyro.conf.subcommand("table")]
)


def main() -> None:
    """The entry point: mistakes of the caller end in one sentence and status 2."""
    command: Any = tyro.cli(Command, prog="adarl", description="What, where and how to adapt in transfer RL.")  # pyright: ignore
    try:
        COMMANDS[type(command)](command)
    except AdarlError as error:
        console.print(f"adarl: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("\nStopped. The same command continues from the last checkpoint.")
        sys.exit(130)


if __name__ == "__main__":
    main()
