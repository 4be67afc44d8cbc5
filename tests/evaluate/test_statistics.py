"""Every statistic against numbers worked out by hand, and the test against its own promise."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adarl.evaluate import statistics

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


def test_same_generator_same_interval():
    once, again = (statistics.interval(statistics.median, SCORES, rng=np.random.default_rng(3)) for _ in range(2))
    assert once == again


def enumerated(gap: np.ndarray) -> float:
    """The two-sided p by trying all signs: ranks of all pairs, zeros included, then zeros dropped (Pratt)."""
    ranks = np.argsort(np.argsort(np.abs(gap))) + 1.0
    signed = ranks[gap != 0]
    observed = abs((np.sign(gap[gap != 0]) * signed).sum())
    sums = [abs(np.dot(signs, signed)) for signs in itertools.product([-1, 1], repeat=len(signed))]
    return float(np.mean(np.asarray(sums) >= observed))


@pytest.mark.parametrize("shift", [0.0, 0.4, 0.8])
def test_signed_rank_is_near_the_enumeration(shift: float):
    gap = np.random.default_rng(1).normal(size=14) + shift
    assert statistics.signed_rank(gap, np.zeros(14)) == pytest.approx(enumerated(gap), abs=0.02)


def test_all_ties_decide_nothing():
    assert statistics.signed_rank(np.full(30, 10_000.0), np.full(30, 10_000.0)) == 1.0


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng: rng.normal(size=30), id="continuous"),
        pytest.param(lambda rng: np.minimum(rng.normal(10_000, 500, 30), 10_000), id="cut at a ceiling"),
        pytest.param(lambda rng: np.where(rng.random(30) < 0.9, 10_000.0, 100.0), id="nearly all at the ceiling"),
    ],
)
def test_equal_methods_are_told_apart_in_at_most_five_of_a_hundred(draw):
    rng = np.random.default_rng(0)
    n = 1500
    rejected = np.mean([statistics.signed_rank(draw(rng), draw(rng)) < statistics.LEVEL for _ in range(n)])
    assert rejected <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_holm_by_hand():
    np.testing.assert_allclose(statistics.holm(np.asarray([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(statistics.holm(np.asarray([0.9, 0.8])), [1.0, 1.0])


def test_holm_keeps_the_error_of_a_whole_row_of_tests():
    rng = np.random.default_rng(0)
    wrong = [(statistics.holm(rng.uniform(size=6)) < statistics.LEVEL).any() for _ in range(4000)]
    assert np.mean(wrong) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)


def test_clear_differences_need_few_seeds_and_none_need_more_than_there_are():
    rng = np.random.default_rng(0)
    clear = statistics.seeds_to_decide(rng.normal(3.0, 1.0, 30), rng.normal(size=30), rng=rng)
    faint = statistics.seeds_to_decide(rng.normal(0.6, 1.0, 30), rng.normal(size=30), rng=rng)
    assert clear is not None and faint is not None and clear < 12 < faint
    assert statistics.seeds_to_decide(np.ones(30), np.ones(30), rng=rng, most=50) is None
