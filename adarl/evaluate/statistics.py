"""Statistics of scores: each a pure function of a matrix with the axes (run, row), one row a target.

In: scores of methods, seed by seed. Out: figures, intervals, and whether a difference could be chance.

The aggregates follow Agarwal et al. (2021); the test is the paper's, Wilcoxon's signed-rank test of pairs (Sec. 5), and
Holm's correction for making it many times.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float, Int

Scores = Float[np.ndarray, "run row"]
LEVEL = 0.05
EXACT = 30
"""How many pairs that differ have their p counted out."""


def mean(scores: Scores) -> float:
    """Over all runs and rows."""
    return float(scores.mean())


def median(scores: Scores) -> float:
    """Over rows, of the means over runs."""
    return float(np.median(scores.mean(0)))


def interquartile_mean(scores: Scores) -> float:
    """The mean of the middle half of all runs and rows."""
    ordered = np.sort(scores, axis=None)
    quarter = ordered.size // 4
    return float(ordered[quarter : ordered.size - quarter].mean())


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

    Scores that are cut at the ceiling tie often: zeros count by Pratt's rule. Up to `EXACT` pairs that differ, p counts all
    signs these ranks can have, ties included; the normal approximation would call 4 differences among 30 pairs significant.
    """
    return float(_p_of_gaps(_gap(ours, theirs)[None])[0])


def direction(ours: Float[np.ndarray, " run"], theirs: Float[np.ndarray, " run"]) -> int:
    """Whom the ranks of `signed_rank` favour: 1 ours, -1 theirs, 0 neither."""
    gap = _gap(ours, theirs)
    return int(np.sign(np.sign(gap) @ scipy.stats.rankdata(np.abs(gap))))


def _gap(ours: Float[np.ndarray, " run"], theirs: Float[np.ndarray, " run"]) -> Float[np.ndarray, " run"]:
    return np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)


def _p_of_gaps(gaps: Float[np.ndarray, "test run"]) -> Float[np.ndarray, " test"]:
    """`signed_rank` of many rows of differences at once."""
    p = np.ones(len(gaps))
    differ = np.count_nonzero(gaps, axis=1)
    many = differ > EXACT
    if many.any():
        result: Any = scipy.stats.wilcoxon(gaps[many], zero_method="pratt", method="approx", correction=True, axis=1)
        p[many] = result.pvalue
    few = np.flatnonzero((differ > 0) & ~many)
    if len(few):
        twice = np.rint(2 * scipy.stats.rankdata(np.abs(gaps[few]), axis=1)).astype(int)  # half ranks come from ties
        p[few] = [_p_of_signs(ranks[gap != 0], ranks[gap > 0].sum()) for gap, ranks in zip(gaps[few], twice, strict=True)]
    return p


def _p_of_signs(ranks: Int[np.ndarray, " pair"], positive: int) -> float:
    """How often fair signs leave a sum of the positive ranks at least as far from its middle as this one."""
    chance = np.zeros(ranks.sum() + 1)  # of every sum, as one rank after the other joins
    chance[0] = 1.0
    for rank in ranks:
        half = chance / 2
        chance = half.copy()
        chance[rank:] += half[:-rank]
    tail = min(positive, ranks.sum() - positive)
    return float(min(1.0, 2 * chance[: tail + 1].sum()))


def seeds_to_decide(
    ours: Float[np.ndarray, " run"],
    theirs: Float[np.ndarray, " run"],
    *,
    rng: np.random.Generator,
    power: float = 0.8,
    most: int = 1000,
    draws: int = 200,
) -> int | None:
    """How many pairs of seeds like these the test needs to tell the methods apart `power` of the time.

    None: more than `most`. The answer takes what was seen for the truth, so it is a guide and no promise.
    """
    gap = _gap(ours, theirs)
    counts = [5]
    while counts[-1] < most:
        counts.append(min(most, int(np.ceil(counts[-1] * 1.25))))

    def decides(n: int) -> bool:
        return bool(np.mean(_p_of_gaps(rng.choice(gap, (draws, n))) < LEVEL) >= power)

    if not gap.any() or not decides(most):
        return None
    return counts[bisect_left(counts, True, hi=len(counts) - 1, key=decides)]
