"""What must be said below each part of a table: units, seeds, the test, ties, and all that is missing.

In: `Table`. Out: sentences.
"""

from adarl.evaluate import statistics
from adarl.evaluate.scores import ORACLE
from adarl.evaluate.statistics import LEVEL
from adarl.report import published
from adarl.report.tables import MOST, POWER, Table, row_name
from adarl.report.words import listed, method_name, number, samples_name

ENOUGH = 0.95
"""The share of the oracle's mean that counts as solved."""


def on_scores(table: Table) -> list[str]:
    """Units, seeds, marks, the paper's lines, ties, gaps."""
    counts = sorted({entry.seeds for entry in table.entries.values()})
    seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "no"
    is_oracle = ORACLE in table.grid.methods
    who, but = ("All but the oracle", " but for the oracle's") if is_oracle else ("All", "")
    said = [
        f"{table.grid.unit} {who} had {samples_name(table.samples)} of the target.",
        f"Mean ± standard deviation over {seeds} seeds. Bold: the highest mean{but}.",
        "• AdaRL+ is better than this method, ◦ worse; ▪ AdaRL is better than this method, ▫ worse: Wilcoxon's signed-rank"
        " test of pairs with the same seed, two-sided, at 5%. A doubled mark also holds after Holm's correction for the"
        " comparisons of the row.",
    ]
    if table.grid.settings:
        said.append(table.grid.settings)
    if source := published.SOURCES.get(table.grid.paper, {}).get(table.samples):
        said.append(
            f"Lines called paper: {source} of Huang et al. (2022), 30 trials; bold its highest"
            " mean, • where it says that AdaRL improves significantly. Another learner made them: compare within its lines."
        )
    return [*said, *_solved(table), *_ties(table), *_gaps(table)]


def on_aggregates(table: Table) -> list[str]:
    """What the metrics are, and what they leave out."""
    said = [
        "Scores divided by the oracle's mean in their row, which counts as known: 1 is as good as the oracle.",
        "Median of the rows' means; IQM, the mean of the middle half of all runs; mean; optimality gap, how far runs stay"
        " below 1 on average (less is better). P: how likely a run of AdaRL+ is better than one of this method in a row"
        " drawn at random, a tie counting half. In brackets 95% intervals of"
        f" {table.draws:,} bootstrap draws of seeds within rows.",
    ]
    without = [row_name(row) for row in table.grid.rows if (row, ORACLE) not in table.entries]
    if without:
        said.append(f"Rows left out, because they have no oracle: {listed(without)}.")
    lacking = [method_name(method) for method in table.grid.methods if method not in table.normalised]
    if lacking and table.normalised:
        said.append(f"Methods left out, because they lack rows or seeds: {listed(lacking)}.")
    return said


def on_comparisons(table: Table) -> list[str]:
    """What the figures are, and which comparisons are not like the others."""
    said = [
        "The mean of the differences between seeds, in brackets its 95% interval by the bootstrap of pairs;"
        " p of the two-sided signed-rank test, zeros by Pratt's rule, counted exactly up to"
        f" {statistics.EXACT} pairs that differ. After it, where p is {LEVEL} or more: about how many more seeds would"
        f" decide with a power of {POWER:.0%} if they were like these; > {MOST:,}, where {MOST:,} seeds would not."
        " Tied: every pair is equal.",
    ]
    split = [_versus(*key) for key, found in table.comparisons.items() if found.verdict == "split"]
    if split:
        said.append(f"Not marked, because ranks and means favour different sides: {listed(split)}.")
    most = max((found.pairs for found in table.comparisons.values()), default=0)
    few = [f"{_versus(*key)} ({found.pairs})" for key, found in table.comparisons.items() if found.pairs < most]
    if few:
        said.append(f"Fewer than {most} pairs: {listed(few)}.")
    return said


def _solved(table: Table) -> list[str]:
    """Rows that ask for no adaptation."""
    pairs = {row: [table.entries.get((row, method)) for method in ("non_t", ORACLE)] for row in table.grid.rows}
    rows = [row_name(row) for row, (fixed, best) in pairs.items() if fixed and best and fixed.mean >= ENOUGH * best.mean]
    return (
        [f"Non-t, which does not adapt, has at least {ENOUGH:.0%} of the oracle's mean in {listed(rows)}."] if rows else []
    )


def _ties(table: Table) -> list[str]:
    """Rows in which no method can be told from another, by the score that all have."""
    rows: dict[float, list[str]] = {}
    for row, score in table.tied.items():
        rows.setdefault(score, []).append(row_name(row))
    ceiling = {table.grid.cap: ", the ceiling"}
    return [
        f"All tied: in {listed(names)} every seed of every method but the oracle has {number(score)}{ceiling.get(score, '')}"
        ", so nothing can be told apart there."
        for score, names in rows.items()
    ]


def _gaps(table: Table) -> list[str]:
    return ["This table is not complete; – stands for what is missing.", *table.gaps] if table.gaps else []


def _versus(row: str, ours: str, theirs: str) -> str:
    return f"{method_name(ours)} against {method_name(theirs)} in {row_name(row)}"
