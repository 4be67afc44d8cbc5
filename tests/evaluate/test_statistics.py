"""Every statistic against numbers worked out by hand, and the test against its own promise."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adarl.evaluate import statistics
from adarl.locate.corrections import holm

SCORES = np.asarray([[0.0, 4.0], [1.0, 5.0], [2.0, 6.0], [7.0, 7.0]])


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        (statistics.mean, 4.0),
        (statistics.median, 4.0),  # of the rows' means 2.5 and 5.5
        (statistics.interquartile_mean, 4.25),  # of 2, 4, 5, 6
        (lambda s: statistics.optimality_gap(s, best=5.0), 5.0 - 27 / 8),
        (lambda s: statistics.optimality_gap(s, best=10.0), 6.0),
    ],
)
def test_aggregates_by_hand(statistic, expected: float):
    assert statistic(SCORES) == pytest.approx(expected)


def test_median_is_over_rows_of_means_over_runs():
    """Not the median of all: in one row a single run is huge."""
    scores = np.asarray([[0.0, 1.0, 2.0], [0.0, 1.0, 100.0]])
    assert statistics.median(scores) == 1.0
    assert statistics.median(scores[:, [0, 2, 2]]) == 51.0


def test_interquartile_mean_drops_whole_scores():
    """A quarter of 6 is 1.5: one score falls on either side."""
    assert statistics.interquartile_mean(np.asarray([[0.0, 1.0, 2.0], [3.0, 4.0, 50.0]])) == 2.5


def test_optimality_gap_counts_no_surplus():
    assert statistics.optimality_gap(np.asarray([[0.5, 3.0], [1.0, 0.9]])) == pytest.approx((0.5 + 0 + 0 + 0.1) / 4)


def test_probability_of_improvement_is_a_mean_over_rows():
    """Row by row 1 and 1/8, whatever the scales."""
    ours, theirs = np.asarray([[1.0, 10.0], [2.0, 30.0]]), np.asarray([[0.0, 30.0], [0.5, 40.0]])
    assert statistics.probability_of_improvement(ours, theirs) == pytest.approx((1 + 0.5 / 4) / 2)


def test_probability_of_improvement_by_hand():
    ours, theirs = np.asarray([[1.0], [3.0]]), np.asarray([[1.0], [2.0]])
    assert statistics.probability_of_improvement(ours, theirs) == pytest.approx((0.5 + 0 + 1 + 1) / 4)
    assert statistics.probability_of_improvement(ours, ours) == 0.5


@given(st.integers(0, 2**32 - 1))
def test_probabilities_of_improvement_of_both_sides_add_up_to_one(seed: int):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 4, (5, 3)).astype(float), rng.integers(0, 4, (7, 3)).astype(float)
    both = statistics.probability_of_improvement(one, other) + statistics.probability_of_improvement(other, one)
    assert both == pytest.approx(1.0)


def test_profile_by_hand():
    np.testing.assert_allclose(statistics.profile(SCORES, np.asarray([-1.0, 4.0, 6.5, 7.0])), [1.0, 0.5, 0.25, 0.0])


def test_interval_of_a_constant_is_a_point():
    got = statistics.interval(statistics.mean, np.full((5, 2), 3.0), rng=np.random.default_rng(0), draws=50)
    assert got == (3.0, 3.0)


def test_interval_covers_the_mean_as_often_as_it_says():
    """Rows far apart: a bootstrap that mixed them up would be far too wide."""
    rng = np.random.default_rng(0)
    truth = np.asarray([0.0, 100.0])
    hits, widths = [], []
    for _ in range(200):
        low, high = statistics.interval(statistics.mean, truth + rng.normal(size=(30, 2)), rng=rng, draws=300)
        hits.append(low <= truth.mean() <= high)
        widths.append(high - low)
    assert 0.88 <= np.mean(hits) <= 0.99
    assert np.mean(widths) == pytest.approx(2 * 1.96 / np.sqrt(60), rel=0.15)


@pytest.mark.parametrize(
    ("statistic", "truth", "count"),
    [
        (statistics.median, 0.0, 1),
        (statistics.interquartile_mean, 0.0, 1),
        (lambda s: statistics.optimality_gap(s, best=0.0), 1 / np.sqrt(2 * np.pi), 1),
        (statistics.probability_of_improvement, 0.5, 2),
    ],
)
def test_intervals_cover_the_truth(statistic, truth: float, count: int):
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(100):
        low, high = statistics.interval(statistic, *rng.normal(size=(count, 30, 3)), rng=rng, draws=150)
        hits.append(low <= truth <= high)
    assert np.mean(hits) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 100)


def test_same_generator_same_interval():
    once, again = (statistics.interval(statistics.median, SCORES, rng=np.random.default_rng(3)) for _ in range(2))
    assert once == again


def enumerated(gap: np.ndarray) -> float:
    """The two-sided p by trying all signs: ranks of all pairs, zeros included, then zeros dropped (Pratt)."""
    size = np.abs(gap)
    ranks = np.asarray([(size < x).sum() + ((size == x).sum() + 1) / 2 for x in size])[gap != 0]
    observed = abs(np.sign(gap[gap != 0]) @ ranks)
    sums = [abs(np.dot(signs, ranks)) for signs in itertools.product([-1, 1], repeat=len(ranks))]
    return float(np.mean(np.asarray(sums) >= observed))


def approximate(gap: np.ndarray) -> float:
    result: Any = stats.wilcoxon(gap, zero_method="pratt", method="approx", correction=True)
    return float(result.pvalue)


@pytest.mark.parametrize("shift", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("decimals", [0, 8])
def test_signed_rank_is_the_enumeration(shift: float, decimals: int):
    """Rounded, the differences have ties and zeros."""
    gap = np.round(np.random.default_rng(1).normal(size=12) + shift, decimals)
    assert statistics.signed_rank(gap, np.zeros(12)) == pytest.approx(enumerated(gap))


def test_signed_rank_by_hand():
    """Ranks 1, 2.5, 2.5, 4 with the first negative: of 16 signs 4 are as far from the middle, 2 on either side."""
    assert statistics.signed_rank(np.asarray([-1.0, 2.0, 2.0, 3.0]), np.zeros(4)) == pytest.approx(4 / 16)
    assert statistics.direction(np.asarray([-1.0, 2.0, 2.0, 3.0]), np.zeros(4)) == 1
    assert statistics.direction(np.asarray([2.0, -3.0]), np.zeros(2)) == -1
    assert statistics.direction(np.ones(3), np.ones(3)) == statistics.direction(np.asarray([1.0, -1.0]), np.zeros(2)) == 0


def test_many_pairs_have_nearly_the_same_p_either_way():
    """Where counting ends, the normal approximation takes over."""
    gap = np.round(np.random.default_rng(2).normal(0.35, 1.0, statistics.EXACT), 1)
    gap[gap == 0] = 0.1
    assert statistics.signed_rank(gap, np.zeros(len(gap))) == pytest.approx(approximate(gap), rel=0.05)
    more = np.append(gap, 0.2)
    assert statistics.signed_rank(more, np.zeros(len(more))) == pytest.approx(approximate(more))


def test_four_falls_among_thirty_are_no_proof():
    """Whatever the ranks, 4 coins fall alike in 2 of 16 throws."""
    ours, theirs = np.full(30, 10_000.0), np.full(30, 10_000.0)
    theirs[:4] = 100.0, 200.0, 300.0, 400.0
    assert approximate(ours - theirs) < statistics.LEVEL
    assert statistics.signed_rank(ours, theirs) == pytest.approx(0.125)


def test_all_ties_decide_nothing():
    assert statistics.signed_rank(np.full(30, 10_000.0), np.full(30, 10_000.0)) == 1.0


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng: rng.normal(size=30), id="continuous"),
        pytest.param(lambda rng: np.minimum(rng.normal(10_000, 500, 30), 10_000), id="cut at a ceiling"),
        pytest.param(lambda rng: np.where(rng.random(30) < 0.9, 10_000.0, 100.0), id="nearly all at the ceiling"),
        pytest.param(lambda rng: np.where(rng.random(30) < 0.93, 10_000.0, rng.uniform(0, 1e4, 30)), id="few falls"),
    ],
)
def test_equal_methods_are_told_apart_in_at_most_five_of_a_hundred(draw):
    rng = np.random.default_rng(0)
    n = 1500
    rejected = np.mean([statistics.signed_rank(draw(rng), draw(rng)) < statistics.LEVEL for _ in range(n)])
    assert rejected <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_holm_by_hand():
    np.testing.assert_allclose(holm(np.asarray([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm(np.asarray([0.9, 0.8])), [1.0, 1.0])


def test_holm_keeps_the_error_of_a_whole_row_of_tests():
    rng = np.random.default_rng(0)
    wrong = [(holm(rng.uniform(size=6)) < statistics.LEVEL).any() for _ in range(4000)]
    assert np.mean(wrong) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)


def test_no_method_of_a_row_stands_out_where_all_are_equal():
    """The whole machinery of a row: one method against five with the same seeds, cut at a ceiling, Holm at the end."""
    rng = np.random.default_rng(0)
    n = 600
    wrong = []
    for _ in range(n):
        luck = rng.normal(size=30)  # of a seed, shared by the methods
        ours, *theirs = np.minimum(luck + rng.normal(size=(6, 30)), 0.7)
        p = np.asarray([statistics.signed_rank(ours, other) for other in theirs])
        wrong.append((holm(p) < statistics.LEVEL).any())
    assert np.mean(wrong) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_clear_differences_need_few_seeds_and_none_need_more_than_there_are():
    rng = np.random.default_rng(0)
    clear = statistics.seeds_to_decide(rng.normal(3.0, 1.0, 30), rng.normal(size=30), rng=rng)
    faint = statistics.seeds_to_decide(rng.normal(0.6, 1.0, 30), rng.normal(size=30), rng=rng)
    assert clear is not None and faint is not None and clear < 12 < faint
    assert statistics.seeds_to_decide(np.ones(30), np.ones(30), rng=rng, most=50) is None
