"""Corrections for many tests, by hand. That of Holm is checked by simulation in the tests of the statistics."""

import numpy as np

from adarl.locate.corrections import benjamini_hochberg, holm

P = np.array([0.9, 0.012, 0.02, 0.04, 0.001])


def test_corrected_p_values_by_hand():
    np.testing.assert_allclose(benjamini_hochberg(P), [0.9, 0.03, 0.1 / 3, 0.05, 0.005])
    np.testing.assert_allclose(holm(P), [0.9, 0.048, 0.06, 0.08, 0.005])


def test_a_larger_rank_may_lower_a_smaller_one_but_never_the_order():
    np.testing.assert_allclose(benjamini_hochberg(np.array([0.03, 0.031, 0.032])), [0.032] * 3)


def test_a_matrix_is_corrected_as_a_whole():
    np.testing.assert_allclose(benjamini_hochberg(np.array([[0.01, 0.02], [0.03, 0.04]])), np.full((2, 2), 0.04))
    assert (benjamini_hochberg(np.ones((2, 3))) == 1.0).all()


def test_the_share_of_wrong_discoveries_is_kept():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(2000):
        p = np.r_[rng.uniform(size=15), rng.uniform(size=5) * 1e-3]
        found = benjamini_hochberg(p) <= 0.05
        shares.append(found[:15].sum() / max(found.sum(), 1))
    assert np.mean(shares) <= 0.05
