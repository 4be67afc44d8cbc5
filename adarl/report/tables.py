"""Cells of scores.csv -> one table for each number of samples, as plain data: who scores what, who is better, how surely.

`notes` says what must be said below it, `typeset` makes Markdown, LaTeX and CSV of it, `plots` figures.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from adarl.evaluate import statistics
from adarl.evaluate.scores import CARTPOLE_MDP, NONE, ORACLE, Cell, Grid, Place, check, gaps, index, matrix, ties
from adarl.evaluate.statistics import LEVEL, Scores
from adarl.locate.corrections import holm
from adarl.types import AdarlError

PLUS = "adarl_plus"
METRICS: dict[str, Callable[[Scores], float]] = {
    "median": statistics.median,
    "IQM": statistics.interquartile_mean,
    "mean": statistics.mean,
    "optimality gap": statistics.optimality_gap,
}
POWER, MOST = 0.8, 1000
"""How surely, and with how many seeds at most, a comparison is to be decided."""

Verdict = Literal["better", "worse", "split", "undecided", "tied"]
"""Of ours against a baseline. Split: the ranks differ significantly, but one way, and the means the other."""


def row_name(row: str) -> str:
    """`GM_in` is written as in the paper, `G_in & M_in`; every other row as it is called."""
    return f"G{row[2:]} & M{row[2:]}" if row.startswith("GM_") else row


class Entry(NamedTuple):
    """One method in one row."""

    mean: float
    sd: float
    """Over seeds, n - 1 in the denominator; NaN for a single seed."""
    seeds: int
    best: bool
    """The highest mean of the row but for the oracle's. Where all scores are equal there is none."""


class Estimate(NamedTuple):
    """A statistic with its 95% interval."""

    value: float
    low: float
    high: float


class Comparison(NamedTuple):
    """One of our methods against a baseline in one row."""

    p: float
    holm: float
    """p corrected for all comparisons of our method in this row."""
    verdict: Verdict
    pairs: int
    """Seeds that both have."""
    more: int | None
    """About how many more seeds would decide it, where it is undecided. None: more than `MOST` in all."""
    gain: Estimate
    """Mean of our score less theirs, pair by pair."""


@dataclass(frozen=True)
class Table:
    """All there is to say of one number of samples."""

    samples: str
    grid: Grid
    """Rows and methods in their order, whether there are scores or not."""
    entries: dict[tuple[str, str], Entry]
    """By row and method. What has no scores has no entry."""
    comparisons: dict[tuple[str, str, str], Comparison]
    """By row, our method and baseline."""
    normalised: dict[str, Scores]
    """By method: scores divided by the oracle's mean in their row, for the rows in which there is an oracle."""
    aggregates: dict[str, dict[str, Estimate]]
    """By method, then by metric."""
    improvement: dict[str, Estimate]
    """By method: how likely a run of AdaRL+ is better than one of it."""
    draws: int
    """Of the bootstrap."""
    tied: dict[str, float]
    """The rows in which every seed of every method but the oracle has the same score, and it."""
    gaps: list[str]
    """What is missing, a sentence each."""


def table(
    cells: list[Cell],
    samples: str,
    *,
    rng: np.random.Generator,
    grid: Grid = CARTPOLE_MDP,
    partial: bool = False,
    draws: int = 2000,
) -> Table:
    """The table of one number of samples. Unless `partial`, it is complete or refused.

    In a partial table what has no scores has no entry, and pairs are of the seeds that both methods have: `notes` says so.
    """
    grid = replace(grid, samples=(samples,))
    places = set(grid.places())
    cells = [cell for cell in cells if Place(cell.row, cell.samples, cell.method) in places]
    if not partial:
        check(cells, grid)
    found = {(place.row, place.method): scores for place, scores in index(cells).items()}
    normalised = _normalised(cells, samples, grid)
    ours = normalised.get(PLUS)

    def estimate(metric: Callable[..., float], *scores: Scores) -> Estimate:
        return Estimate(metric(*scores), *statistics.interval(metric, *scores, rng=rng, draws=draws))

    return Table(
        samples=samples,
        grid=grid,
        entries=_entries(found, grid),
        comparisons=_comparisons(found, grid, rng),
        normalised=normalised,
        aggregates={m: {name: estimate(f, scores) for name, f in METRICS.items()} for m, scores in normalised.items()},
        improvement={
            method: estimate(statistics.probability_of_improvement, ours, scores)
            for method, scores in normalised.items()
            if ours is not None and method != PLUS
        },
        draws=draws,
        tied={row: score for (row, _), score in ties(cells, grid).items()},
        gaps=gaps(cells, grid),
    )


def _entries(found: dict[tuple[str, str], dict[int, float]], grid: Grid) -> dict[tuple[str, str], Entry]:
    entries = {}
    for row in grid.rows:
        values = {m: np.asarray(list(found[row, m].values())) for m in grid.methods if (row, m) in found}
        means = {method: float(scores.mean()) for method, scores in values.items()}
        rivals = [mean for method, mean in means.items() if method != ORACLE]
        best = max(rivals) if len(set(rivals)) > 1 else None
        for method, scores in values.items():
            sd = float(scores.std(ddof=1)) if len(scores) > 1 else float("nan")
            entries[row, method] = Entry(means[method], sd, len(scores), method != ORACLE and means[method] == best)
    return entries


def baselines(grid: Grid) -> dict[str, tuple[str, ...]]:
    """Whom each of our methods is tested against, in every row."""
    ours = ("adarl", PLUS)
    others = tuple(method for method in grid.methods if method not in (ORACLE, *ours))
    found = {PLUS: (*others, "adarl"), "adarl": others}
    return {one: them for one, them in found.items() if one in grid.methods}


def _comparisons(
    found: dict[tuple[str, str], dict[int, float]], grid: Grid, rng: np.random.Generator
) -> dict[tuple[str, str, str], Comparison]:
    comparisons = {}
    rng_gain = rng.spawn(1)[0]
    for row in grid.rows:
        for ours, rivals in baselines(grid).items():
            pairs = {theirs: _paired(found.get((row, ours), {}), found.get((row, theirs), {})) for theirs in rivals}
            pairs = {theirs: pair for theirs, pair in pairs.items() if pair.size}
            p = np.asarray([statistics.signed_rank(*pair) for pair in pairs.values()])
            for (theirs, pair), one, corrected in zip(pairs.items(), p, holm(p), strict=True):
                verdict = _verdict(pair, one)
                more = _more(pair, rng) if verdict == "undecided" else 0
                gain = _gain(pair, rng_gain)
                compared = Comparison(float(one), float(corrected), verdict, pair.shape[1], more, gain)
                comparisons[row, ours, theirs] = compared
    return comparisons


def _paired(ours: dict[int, float], theirs: dict[int, float]) -> np.ndarray:
    """The scores of both for the seeds that both have, with the axes (method, seed)."""
    seeds = sorted(ours.keys() & theirs.keys())
    return np.asarray([[scores[seed] for seed in seeds] for scores in (ours, theirs)])


def _verdict(pair: np.ndarray, p: float) -> Verdict:
    ours, theirs = pair
    if (ours == theirs).all():
        return "tied"
    if p >= LEVEL:
        return "undecided"
    ways = {statistics.direction(ours, theirs), int(np.sign(ours.mean() - theirs.mean()))}
    return "better" if ways == {1} else "worse" if ways == {-1} else "split"


def _gain(pair: np.ndarray, rng: np.random.Generator, draws: int = 2000) -> Estimate:
    """The mean difference, with a percentile interval of pairs drawn anew."""
    each = pair[0] - pair[1]
    drawn = each[rng.integers(each.size, size=(draws, each.size))].mean(1)
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return Estimate(float(each.mean()), float(low), float(high))


def _more(pair: np.ndarray, rng: np.random.Generator) -> int | None:
    needed = statistics.seeds_to_decide(*pair, rng=rng, power=POWER, most=MOST)
    return None if needed is None else max(1, needed - pair.shape[1])


def _normalised(cells: list[Cell], samples: str, grid: Grid) -> dict[str, Scores]:
    """Scores divided by the oracle's mean in their row, by method; a method that lacks rows or seeds is left out."""
    found = index(cells)
    means = {row: float(np.mean(list(of.values()))) for row in grid.rows if (of := found.get(Place(row, NONE, ORACLE)))}
    for row, mean in means.items():
        if mean <= 0:
            raise AdarlError(f"The oracle's mean in {row} is {mean:g}; scores can only be divided by a positive one.")
    normalised = {}
    for method in grid.methods:
        rows = [(row, NONE if method == ORACLE else samples) for row in means]
        seeds = {frozenset(found.get(Place(*row, method), {})) for row in rows}
        if len(seeds) == 1 and all(seeds):
            normalised[method] = matrix(cells, method, rows) / np.asarray(list(means.values()))
    return normalised
