"""What a summary says, before it is drawn: theta beside each factor, and scores row by row.

In: `summary`, the JSON-able dict of one run. Out: `Panel`s and `Row`s for the figures, the table and the text.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from adarl.report.words import amount

Summary = dict[str, Any]


class Panel(NamedTuple):
    """One factor, the dimension of theta_min that follows it best, and how closely over all domains."""

    factor: str
    theta: str
    points: list[tuple[dict, Any, Any]]
    """Domain, value of the factor, value of theta. A target stands here once for every number of samples."""
    domains: int
    """Domains that the correlations are over: each once, a target with the fewest samples it had."""
    pearson: float
    spearman: float


class Row(NamedTuple):
    """A target after some samples, with the scores of every seed by method."""

    target: str
    factors: dict[str, float]
    samples: Any
    cells: dict[str, list[float]]
    """Scores that are finite numbers."""
    lost: dict[str, int]
    """How many were not."""


def is_finite(value: float | None) -> bool:
    """Whether this is a number that can be drawn."""
    return value is not None and bool(np.isfinite(value))


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """|r|, or NaN for fewer than two points or a constant side."""
    flat = len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0
    return float("nan") if flat else min(1.0, float(abs(np.corrcoef(x, y)[0, 1])))


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """|Spearman's rank correlation|: Pearson's on the ranks, ties at their mean rank."""
    return pearson(_ranks(x), _ranks(y))


def panels(summary: Summary) -> list[Panel]:
    """For each factor the dimension of theta_min, or of theta_o, with the highest rank correlation."""
    names = [name for name, kept in summary["theta_min"].items() if kept or name.startswith("theta_o")]
    found = []
    for factor in summary["factors"]:
        options = [option for name in names if (option := _panel(summary["domains"], factor, name)).points]
        if options:
            found.append(max(options, key=lambda option: np.nan_to_num(option.spearman, nan=-1.0)))
    return found


def rows(summary: Summary) -> list[Row]:
    """The scores by target and samples, the fewest first. A method without samples stands in every row of its target."""
    found: dict[tuple, Row] = {}
    for entry in summary["scores"]:
        factors, samples = entry.get("factors") or {}, entry.get("samples")
        key = (entry["target"], tuple(factors.items()), samples)
        row = found.setdefault(key, Row(entry["target"], factors, samples, {}, {}))
        finite = [score for score in entry["scores"] if is_finite(score)]
        row.cells.setdefault(entry["method"], []).extend(finite)
        row.lost[entry["method"]] = row.lost.get(entry["method"], 0) + len(entry["scores"]) - len(finite)
    targets = list(dict.fromkeys(row.target for row in found.values()))
    ordered = sorted(found.values(), key=lambda row: (targets.index(row.target), amount(row.samples)))
    return _joined(ordered)


def few(rows: Iterable[Row]) -> list[Row]:
    """Of every target the row with the fewest samples: where adapting is hardest."""
    found: dict[str, Row] = {}
    for row in rows:
        found.setdefault(row.target, row)
    return list(found.values())


def _joined(ordered: list[Row]) -> list[Row]:
    """Without rows of no samples (the oracle's) where the same target has others: they are a part of those."""
    sampled = [row for row in ordered if amount(row.samples) > 0]
    for row in (row for row in ordered if row not in sampled):
        others = [other for other in sampled if other.target == row.target]
        for other in others:
            for method in row.cells:
                other.cells.setdefault(method, row.cells[method])
                other.lost.setdefault(method, row.lost[method])
    targets = {row.target for row in sampled}
    return [row for row in ordered if row in sampled or row.target not in targets]


def _ranks(values: Sequence[float]) -> list[float]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse].tolist()


def _panel(domains: Sequence[dict], factor: str, name: str) -> Panel:
    every: list[tuple[dict, Any, Any]] = [(d, d["factors"].get(factor), d["theta"].get(name)) for d in domains]
    points = [point for point in every if is_finite(point[1]) and is_finite(point[2])]
    fewest: dict[str, float] = {}
    for domain, _, _ in points:
        fewest[domain["name"]] = min(amount(domain.get("samples")), fewest.get(domain["name"], inf))
    once = [point for point in points if amount(point[0].get("samples")) == fewest[point[0]["name"]]]
    x, y = [x for _, x, _ in once], [y for _, _, y in once]
    return Panel(factor, name, points, len(once), pearson(x, y), spearman(x, y))
