"""Tests of independence: they reject as often as they say where nothing depends, and see what does."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from adarl.locate.independence import (
    above,
    continuous,
    discrete,
    exact,
    p_value,
    p_values,
    standardised,
    without,
)
from adarl.types import AdarlError

N = 300


def triple(seed: int, n: int = N, effect: float = 0.0):
    """x and y depend on z, y perhaps on x."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    x = np.sin(2 * z[:, 0]) + z[:, 1] + 0.7 * rng.normal(size=n)
    y = z[:, 0] ** 2 + np.tanh(z[:, 1]) + effect * x + 0.7 * rng.normal(size=n)
    return continuous(x), continuous(y), [continuous(column) for column in z.T]


def rejected(test, seeds: int, rate: float = 0.05) -> int:
    return sum(test(seed) <= rate for seed in range(seeds))


def most(seeds: int, rate: float = 0.05) -> int:
    """So often chance exceeds only once in a thousand tries."""
    return int(stats.binom.isf(0.001, seeds, rate))


def test_a_common_cause_makes_no_dependence_once_it_is_known():
    assert rejected(lambda seed: p_value(*triple(seed), seed=seed), 100) <= most(100)
    assert rejected(lambda seed: p_value(*triple(seed)[:2], seed=seed), 20) >= 19


def test_an_effect_is_seen_beside_a_common_cause():
    assert rejected(lambda seed: p_value(*triple(seed, effect=0.4), seed=seed), 20) == 20


def failing(seed: int, moved: float = 0.0) -> tuple[float, float]:
    """p-values, plain and sharp, of a domain against a failure beyond an edge that it moves; some domains go further out."""
    rng = np.random.default_rng(seed)
    k, z = rng.integers(0, 5, 4000), rng.normal(size=(4000, 4))
    z[:, :2] *= (0.3 + 0.4 * k)[:, None]
    y = (np.abs(z[:, 0] + 0.5 * z[:, 1]) > 1 + moved * k) + 0.05 * rng.normal(size=4000)
    tested = discrete(k), [continuous(y)], [continuous(column) for column in z.T]
    return p_values(*tested, seed=seed)[0], p_values(*tested, seed=seed, sharp=True)[0]


def test_an_edge_is_not_taken_for_a_change():
    plain, sharp = np.array([failing(seed) for seed in range(8)]).T
    assert (plain <= 0.05).sum() >= 7 and (sharp <= 0.05).sum() <= most(8)
    assert failing(0, moved=0.05)[1] < 0.01


def test_kernel_matrices_agree_with_features():
    seeds = [(seed, effect) for seed, effect in product(range(10), (0.0, 0.5))]
    pairs = [
        (p_value(*triple(s, 150, e), seed=s), exact(*triple(s, 150, e)[:2], [continuous(_columns(s))])) for s, e in seeds
    ]
    agree = [(one <= 0.05) == (other <= 0.05) for one, other in pairs]
    assert sum(agree) >= 18


def _columns(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(150, 2))


@pytest.mark.parametrize(
    "effect",
    [
        lambda x, z, e: x**2 + e,  # bends
        lambda x, z, e: x * z + e,  # an effect whose sign depends on z
        lambda x, z, e: np.exp(0.7 * x) * e,  # only the spread
    ],
)
def test_effects_without_a_slope_are_seen(effect):
    rng = np.random.default_rng(0)
    x, z, e = rng.normal(size=(3, 600))
    assert p_value(continuous(x), continuous(effect(x, z, e)), [continuous(z)]) < 1e-4
    assert p_value(continuous(rng.normal(size=600)), continuous(effect(x, z, e)), [continuous(z), continuous(x)]) > 0.01


def test_labels_vectors_and_a_vector_against_labels():
    rng = np.random.default_rng(1)
    k = rng.integers(0, 5, 500)
    vector = rng.normal(size=(500, 6))
    assert p_value(discrete(k), continuous(vector)) > 0.01
    assert p_value(discrete(k), continuous(vector + 0.3 * np.eye(6)[k])) < 1e-3
    assert p_value(continuous(vector), discrete(k), [continuous(vector[:, :1])]) > 0.01


def test_an_order_of_the_domains_that_is_told_helps():
    def found(seed: int, kind) -> float:
        rng = np.random.default_rng(seed)
        k = rng.integers(0, 7, 200)
        return p_value(kind(k), continuous(0.09 * k + rng.normal(size=200)))

    assert rejected(lambda s: found(s, continuous), 40) > rejected(lambda s: found(s, discrete), 40)


def walk(seed: int, n_trials: int = 60, length: int = 15):
    """Every trajectory drifts in its own way and belongs to a domain that means nothing."""
    rng = np.random.default_rng(seed)
    trial = np.repeat(np.arange(n_trials), length)
    return continuous(rng.normal(size=n_trials)[trial] + 0.1 * rng.normal(size=len(trial))), discrete(trial % 3), trial


def test_rows_of_a_trajectory_count_once():
    def told(seed: int) -> float:
        values, k, trial = walk(seed)
        return p_value(k, values, trial=trial)

    def untold(seed: int) -> float:
        values, k, _ = walk(seed)
        return p_value(k, values)

    assert rejected(told, 60) <= most(60)
    assert rejected(untold, 20) >= 15


def test_all_targets_at_once_are_as_one_by_one():
    x, y, z = triple(3, effect=0.2)
    other = continuous(np.random.default_rng(5).normal(size=N))
    together = p_values(x, [y, other], z, seed=2)
    np.testing.assert_allclose(together, [p_value(x, y, z, seed=2), p_value(x, other, z, seed=2)], rtol=1e-9)
    assert p_value(x, y, z, seed=2) == p_value(x, y, z, seed=2) != p_value(x, y, z, seed=3)


def test_what_says_nothing_is_independent_of_all():
    x, y, z = triple(0)
    still = continuous(np.ones(N))
    assert still.is_constant
    assert p_value(still, y, z) == p_value(x, still, z) == exact(still, y) == 1.0
    assert p_value(x, y, [*z, still]) > 0
    assert p_value(z[0], y, z) > 0.05, "Known from z: all that is left of it is what features round off."


def test_a_sum_of_chi_squares_by_hand():
    for weights, value in (([1.0], 3.84), ([2.0, 2.0], 9.0), ([1.0] * 5, 11.07)):
        scale = weights[0]
        assert above(value, np.array(weights)) == pytest.approx(stats.chi2.sf(value / scale, len(weights)), rel=1e-6)
    rng = np.random.default_rng(0)
    weights = np.array([5.0, 2.0, 1.0, 0.1])
    drawn = (rng.chisquare(1, (400_000, 4)) * weights).sum(1)
    for value in (20.0, 40.0):
        assert above(value, weights) == pytest.approx((drawn > value).mean(), rel=0.1)


def test_ridge_leaves_a_row_out_of_its_own_prediction():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 1))
    left = without(z, y)[7, 0]
    others = np.arange(40) != 7
    errors = []
    for ridge in 10.0 ** np.arange(-1, 5):
        w = np.linalg.solve(z[others].T @ z[others] + ridge * np.eye(3), z[others].T @ y[others])
        errors.append(y[7, 0] - (z[7] @ w)[0])
    assert min(abs(left - error) for error in errors) < 1e-9


def test_standardised_columns():
    columns = np.array([[1.0, 5.0], [3.0, 5.0]])
    np.testing.assert_allclose(standardised(columns), [[-1.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: p_value(*triple(0, 20)), "20 rows; a test of independence needs at least 30"),
        (lambda: p_value(*triple(0), trial=np.arange(N) % 7), "7 trajectories"),
        (lambda: continuous(np.array([1.0, np.nan])), "NaN"),
        (lambda: exact(*triple(0, 3000)[:2]), "3000 rows; kernel matrices are for 2000 at most"),
    ],
)
def test_what_cannot_be_tested_is_said(call, said: str):
    with pytest.raises(AdarlError, match=said):
        call()
