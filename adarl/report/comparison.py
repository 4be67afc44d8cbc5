"""One method against the others: the cells of the table with their marks, and what they mean in words.

In: `summary`, the JSON-able dict of one run. Out: cells, tests and sentences. The test is the paper's (Sec. 5): Wilcoxon's
signed rank of pairs with the same seed. Departs from the paper: two-sided, and also with Holm's correction for all tests of
the table, because a table of many methods and rows finds some difference by chance.
"""

from typing import NamedTuple

import numpy as np

from adarl.evaluate import statistics
from adarl.evaluate.statistics import LEVEL
from adarl.locate.corrections import holm
from adarl.report.reading import Row, Summary, few, rows
from adarl.report.words import method_name, number, place, samples_name

FEWEST = 6
"""Pairs below which no outcome of the test reaches 5%."""
NEAR = 0.95
"""The share of what can be reached from which little is left to gain."""
BOUNDS = ("oracle",)
"""Methods that saw what the others do not: shown beside them, never the best."""


class Cell(NamedTuple):
    """One method on one row of the table."""

    mean: str
    spread: str
    """± one standard deviation, where there are several seeds."""
    best: bool
    seeds: int
    mark: str
    """Filled circles where ours is better, open ones where it is worse; two of them if that survives Holm's correction."""


class Versus(NamedTuple):
    """Ours against another method on one row."""

    row: Row
    method: str
    p: float
    corrected: float
    """By Holm over all tests of the table."""
    better: bool
    """Whether the mean of ours is higher."""

    @property
    def mark(self) -> str:
        """As in `Cell`."""
        sign = "•" if self.better else "◦"
        return sign * ((self.p < LEVEL) + (self.corrected < LEVEL))


def scored(summary: Summary) -> list[str]:
    """The methods of the table, in the order of the summary."""
    return list(dict.fromkeys(entry["method"] for entry in summary["scores"]))


def ours(summary: Summary) -> str | None:
    """AdaRL+, or else the first variant of AdaRL with a score, or else the first method with one."""
    found = [method for method in scored(summary) if any(row.cells.get(method) for row in rows(summary))]
    for wanted in ("adarl_plus", "adarl"):
        if wanted in found:
            return wanted
    return found[0] if found else None


def tests(summary: Summary) -> list[Versus]:
    """Ours against every other method on every row where each seed of both has a score."""
    us = ours(summary)
    if us is None:
        return []
    others = [method for method in scored(summary) if method != us]
    pairs = [(row, method) for row in rows(summary) for method in others if paired(row, us, method)]
    p = np.asarray([statistics.signed_rank(np.asarray(row.cells[us]), np.asarray(row.cells[m])) for row, m in pairs])
    better = [float(np.mean(row.cells[us])) > float(np.mean(row.cells[m])) for row, m in pairs]
    corrected = holm(p) if len(p) else p
    return [Versus(*pair, float(a), float(b), c) for pair, a, b, c in zip(pairs, p, corrected, better, strict=True)]


def paired(row: Row, method: str, other: str) -> bool:
    """Whether the seeds of two methods can be compared one by one, and are enough for the test to say anything."""
    mine, theirs = row.cells.get(method, []), row.cells.get(other, [])
    return len(mine) == len(theirs) >= FEWEST and not row.lost[method] and not row.lost[other]


def cells(row: Row, summary: Summary, tested: list[Versus]) -> list[Cell]:
    """Mean ± standard deviation over the seeds for every method; the best mean of several is marked."""
    averages = means(row)
    rivals = [value for method, value in averages.items() if method not in BOUNDS]
    marks = {test.method: test.mark for test in tested if test.row == row}
    found = []
    for method in scored(summary):
        values, mean = row.cells.get(method, []), averages.get(method)
        text = number(mean, summary["score_cap"])
        spread = f"± {_deviation(float(np.std(values, ddof=1)), text)}" if len(values) > 1 else ""
        best = len(rivals) > 1 and method not in BOUNDS and mean == max(rivals)
        found.append(Cell(text, spread, best, len(values), marks.get(method, "")))
    return found


def verdicts(summary: Summary, tested: list[Versus]) -> list[str]:
    """How far adapting helped in every target after the fewest samples, beside a policy that does not, and the oracle."""
    us, cap = ours(summary), summary["score_cap"]
    said = []
    for row in few(rows(summary)):
        averages = means(row)
        parts = []
        if us in averages and "non_t" in averages and us != "non_t":
            test = next((test for test in tested if test.row == row and test.method == "non_t"), None)
            top = averages.get("oracle", cap)
            spare = top is not None and top > 0 and averages["non_t"] >= NEAR * top
            parts.append(f"{number(averages['non_t'], cap)} for Non-t, one policy for all domains ({_told(test, spare)})")
        if us in averages and "oracle" in averages and us != "oracle":
            top = averages["oracle"]
            share = f", of which this is {averages[us] / top:.0%}" if top > 0 else ""
            parts.append(f"{number(top, cap)} for a policy trained there{share}")
        if us and parts:
            where = f"At {place(row.factors)}" if row.factors else f"On {row.target}"
            after = f" after {samples_name(row.samples)}" if samples_name(row.samples) else ""
            mean = number(averages[us], cap)
            said.append(f"{where}{after} {method_name(us)} reaches {mean}, against {'; and '.join(parts)}.")
    return said


def means(row: Row) -> dict[str, float]:
    """The mean score of every method that has one."""
    return {method: float(np.mean(values)) for method, values in row.cells.items() if values}


def chance(p: float) -> str:
    """`p = 0.03`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _told(test: Versus | None, spare: bool) -> str:
    """What a difference from the policy that does not adapt amounts to."""
    if test is None:
        said = "too few pairs of seeds for a test"
    elif test.p >= LEVEL:
        said = f"no difference that the seeds can tell, {chance(test.p)}"
    else:
        corrected = chance(test.corrected).removeprefix("p ").removeprefix("= ")
        said = f"{chance(test.p)}, {corrected} after Holm's correction: adapting {'helps' if test.better else 'hurts'}"
    return f"{said}; it is hardly needed here" if spare else said


def _deviation(value: float, mean: str) -> str:
    """As many decimals as the mean shows: 9,569 ± 95, not ± 94.6. A short whole mean says nothing of them."""
    whole, _, decimals = mean.partition(".")
    return f"{value:,.{len(decimals)}f}" if decimals or len(whole) > 2 else number(value)
