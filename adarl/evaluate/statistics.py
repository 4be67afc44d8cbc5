"""Statistics of scores: each a pure function of a matrix with the axes (run, row), one row a target.

In: scores of methods, seed by seed. Out: figures, intervals, and whether a difference could be chance.

The aggregates follow Agarwal et al. (2021); the test is the paper's, Wilcoxon's signed-rank test of pairs (Sec. 5), and
Holm's correction for making it many times.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

Scores = Float[np.ndarray, "run row"]
LEVEL = 0.05


def mean(scores: Scores) -> float:
    """Over all runs and rows."""
    return float(scores.mean())


def median(scores: Scores) -> float:
    """Over rows, of the means over runs."""
    return float(np.median(scores.mean(0)))


def interquartile_mean(scores: Scores) -> float:
    """The mean of the middle half of all runs and rows."""
    return float(stats.trim_mean(scores.ravel(), 0.25))


def optimality_gap(scores: Scores, best: float = 1.0) -> float:
    """How far runs stay below `best` on average; what is above it makes up for nothing."""
    return float(best - np.minimum(scores, best).mean())


def probability_of_improvement(scores: Scores, others: Scores) -> float:
    """How likely a run is better than a run of the others in a row drawn at random; a tie counts half."""
    one, other = scores[:, None], others[None]
    return float(((one > other) + 0.5 * (one == other)).mean())


def profile(scores: Scores, thresholds: Float[np.ndarray, " threshold"]) -> Float[np.ndarray, " threshold"]:
    """The share of runs and rows above each threshold."""
    return (scores[..., None] > thresholds).mean((0, 1))


def interval(
    statistic: Callable[..., float],
    *scores: Scores,
    rng: np.random.Generator,
    draws: int = 2000,
    level: float = LEVEL,
) -> tuple[float, float]:
    """A percentile interval of the stratified bootstrap: runs are drawn anew within every row, rows stay."""
    values = [statistic(*(_resampled(x, rng) for x in scores)) for _ in range(draws)]
    low, high = np.quantile(values, [level / 2, 1 - level / 2])
    return float(low), float(high)


def _resampled(scores: Scores, rng: np.random.Generator) -> Scores:
    return np.take_along_axis(scores, rng.integers(len(scores), size=scores.shape), axis=0)


def signed_rank(ours: Float[np.ndarray, " run"], theirs: Float[np.ndarray, " run"]) -> float:
    """Wilcoxon's two-sided p for pairs with the same seed; 1 where every pair is a tie.

    Scores that are cut at the ceiling tie often: zeros count by Pratt's rule, and p is the normal approximation with the
    variance corrected for ties, because exact tables know none.
    """
    gap = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    if not gap.any():
        return 1.0
    result: Any = stats.wilcoxon(gap, zero_method="pratt", method="approx", correction=True)
    return float(result.pvalue)


def holm(p: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """p corrected for as many tests: the smallest times n, the next times n - 1, never falling."""
    order = np.argsort(p)
    stepped = np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def seeds_to_decide(
    ours: Float[np.ndarray, " run"],
    theirs: Float[np.ndarray, " run"],
    *,
    rng: np.random.Generator,
    power: float = 0.8,
    most: int = 1000,
    draws: int = 200,
) -> int | None:
    """How many pairs of seeds like these the test needs to tell the methods apart `power` of the time."""
    gap = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    zero = np.zeros(1)
    n = 5
    while n <= most:
        decided = np.mean([signed_rank(rng.choice(gap, n), zero.repeat(n)) < LEVEL for _ in range(draws)])
        if decided >= power:
            return n
        n = int(np.ceil(n * 1.25))
    return None
