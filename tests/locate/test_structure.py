"""Edges and changes of systems whose graph is known."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl import family
from adarl.collect import collect, random_policy
from adarl.locate.structure import LocateConfig, Steps, decided, find, steps_of, thinned
from adarl.types import AdarlError, Episodes

PLAIN = LocateConfig(halves=0)


def recorded(seed: int = 0, n: int = 900, shift: float = 0.8) -> Steps:
    """s_1 follows itself, the action and k; s_2 follows the square of s_1; r follows s_2."""
    rng = np.random.default_rng(seed)
    k, a = np.arange(n) % 3, rng.integers(0, 2, n)
    s, e = rng.normal(size=(n, 2)), 0.5 * rng.normal(size=(3, n))
    s_t = np.column_stack([0.6 * s[:, 0] + 0.5 * a + shift * k / 2 + e[0], 0.5 * s[:, 0] ** 2 + e[1]])
    return Steps(s, a, 0.7 * s[:, 1] + e[2], s_t, k, np.arange(n))


TRUTH = np.array([[1, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0]], bool)


def test_the_graph_of_a_known_system():
    found = find(recorded(n=1200), LocateConfig(halves=4))
    np.testing.assert_array_equal(found.found, TRUTH)
    np.testing.assert_array_equal(found.changes, [True, False, False])
    assert (found.stability[TRUTH] == 1.0).all() and (found.stability[~TRUTH] < 0.75).all()


def test_where_nothing_changes_a_change_is_seldom_reported():
    reported = sum(find(recorded(seed, 300, shift=0.0), PLAIN, seed).changes.any() for seed in range(40))
    assert reported <= 6  # 2 are expected, 7 or more come once in two hundred


def test_masks_are_those_of_the_model():
    masks = find(recorded(), PLAIN).masks(2, 1)
    np.testing.assert_array_equal(masks.c_s_to_s, [[1, 0], [1, 0]])
    np.testing.assert_array_equal(masks.c_a_to_s, [1, 0])
    np.testing.assert_array_equal(masks.c_theta_to_s, [[1, 1], [0, 0]])
    np.testing.assert_array_equal(masks.c_s_to_r, [0, 1])
    assert masks.c_a_to_r == 0 and masks.c_theta_to_r.tolist() == [0]


@pytest.mark.parametrize(
    ("name", "changed"),
    [("mass", ["x_dot", "angle_dot"]), ("motor", ["x_dot", "angle_dot"]), ("target", ["reward"])],
)
def test_cartpole(name: str, changed: list[str]):
    chosen = family(f"cartpole-{name}")
    shape = {"trials": 200, "steps": 20, "wide": 0.8}
    episodes = collect(chosen.domain, chosen.stack(chosen.sources), random_policy(2), jr.key(0), **shape)  # pyright: ignore
    found = find(steps_of(episodes), LocateConfig(rows=4000, halves=0))
    names = np.array([*chosen.domain.state_names, "reward"])
    assert names[found.changes].tolist() == changed


def test_steps_that_never_happened_are_left_out():
    s = jnp.arange(2 * 1 * 3).reshape(2, 1, 3, 1).astype(float)
    valid = jnp.array([[[True, True]], [[True, False]]])
    shape = (2, 1, 2)
    steps = steps_of(Episodes(s, jnp.ones(shape, int), jnp.zeros(shape), jnp.zeros(shape, bool), valid))
    assert steps.s_tm1[:, 0].tolist() == [0, 1, 3] and steps.s_t[:, 0].tolist() == [1, 2, 4]
    assert steps.k.tolist() == [0, 0, 1] and steps.trial.tolist() == [0, 0, 1]


def test_rows_are_shared_out_over_domains_and_trajectories():
    n = 100
    k, trial = np.r_[np.zeros(60, int), np.ones(40, int)], np.r_[np.repeat(np.arange(6), 10), np.repeat(np.arange(6, 8), 20)]
    steps = Steps(np.zeros((n, 1)), np.zeros(n, int), np.zeros(n), np.zeros((n, 1)), k, trial)
    few = thinned(steps, 16, seed=0)
    assert np.bincount(few.k).tolist() == [8, 8]
    assert max(np.bincount(few.trial[few.k == 0])) == 2 and np.bincount(few.trial)[6:].tolist() == [4, 4]
    assert len(thinned(steps, 1000, seed=0).k) == n


def test_a_change_must_pass_both_corrections():
    p = np.full((3, 4), 1e-6)
    p[0, -1], p[1, -1], p[2, -1] = 0.02, 0.03, 0.9
    assert decided(p, 0.05)[:, :-1].all() and not decided(p, 0.05)[:, -1].any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": np.zeros(900, int)}, "one domain"),
        ({"r_t": np.full(900, np.nan)}, "r_t contains NaN"),
        ({"a_tm1": np.zeros(899, int)}, "Columns of different lengths"),
    ],
)
def test_what_is_wrong_with_steps_is_said(change: dict, said: str):
    with pytest.raises(AdarlError, match=said):
        Steps(**{**vars(recorded()), **change})
