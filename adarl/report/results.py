"""Cells -> everything that stands in a results folder: tables, their figures, and what the runs behind them found.

In: cells of scores.csv and, if there are, summaries of runs. Out: files, each whole or not at all.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from adarl.evaluate.scores import CARTPOLE_MDP, Cell, Grid, check
from adarl.report import learning, plots, tables, typeset
from adarl.report.figures import Summary, panels


def write(
    folder: Path,
    cells: list[Cell],
    *,
    grid: Grid = CARTPOLE_MDP,
    summaries: Mapping[str, Summary] | None = None,
    partial: bool = False,
    seed: int = 0,
    draws: int = 2000,
) -> list[Path]:
    """Tables as Markdown, LaTeX and CSV and all figures; the same cells give the same files.

    Scores that are not complete are refused before anything is written, unless `partial`. `summaries` are the runs behind
    the scores by name of the family: each adds its theta, its graph and its learning curves. `seed` is the bootstrap's.
    """
    if not partial:
        check(cells, grid)
    rngs = np.random.default_rng(seed).spawn(len(grid.samples))
    made = [
        tables.table(cells, samples, rng=rng, grid=grid, partial=partial, draws=draws)
        for samples, rng in zip(grid.samples, rngs, strict=True)
    ]
    files: dict[str, bytes] = {}
    for table in made:
        files.update(_of_table(table))
    summaries = summaries or {}
    for family, summary in summaries.items():
        files.update(_of_run(family, summary))
    files.update(_of_curves({family: summary["curves"] for family, summary in summaries.items()}, grid))
    return [whole(Path(folder) / name, content) for name, content in files.items()]


def _of_table(table: tables.Table) -> Iterator[tuple[str, bytes]]:
    name = f"table-{table.samples}"
    yield f"{name}.md", typeset.markdown(table).encode()
    yield f"{name}.tex", typeset.latex(table).encode()
    for part, text in typeset.csvs(table).items():
        yield f"{name}.csv" if part == "scores" else f"{name}-{part}.csv", text.encode()
    if table.normalised:
        yield from _images(f"intervals-{table.samples}", plots.intervals(table))
        yield from _images(f"profiles-{table.samples}", plots.profiles(table))


def _of_curves(families: Mapping[str, learning.Curves], grid: Grid) -> Iterator[tuple[str, bytes]]:
    families = {name: curves for name, curves in families.items() if learning.speeds(curves)}
    if not families:
        return
    sheets = [learning.sheet(families, grid.methods)]
    yield "learning.md", typeset.markdown_page(grid.name, sheets).encode()
    yield "learning.tex", typeset.latex_page(grid.name, "", sheets).encode()
    yield "learning.csv", typeset.as_csv("family method seed steps", learning.raw(families)).encode()


def _of_run(family: str, summary: Summary) -> Iterator[tuple[str, bytes]]:
    if panels(summary):
        yield from _images(f"theta-{family}", plots.theta(summary))
    if summary["edges"]:
        yield from _images(f"graph-{family}", plots.graph(summary))
    if curves := _curves(summary):
        yield from _images(f"curves-{family}", plots.curves(curves))


def _images(name: str, figure: plots.Figure) -> Iterator[tuple[str, bytes]]:
    for ending, content in plots.images(figure).items():
        yield f"figures/{name}.{ending}", content


def _curves(summary: Summary) -> dict[str, plots.Curve]:
    """The learning curves with a score somewhere."""
    found = {method: (curve["updates"], learning.filled(curve)) for method, curve in summary["curves"].items()}
    return {method: curve for method, curve in found.items() if np.isfinite(curve[1]).any()}


def whole(path: Path, content: bytes) -> Path:
    """The file, whole or not at all: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path
