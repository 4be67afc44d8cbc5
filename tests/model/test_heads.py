"""The reward head: only its parents speak, and theta_r moves what it sees."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model.heads import RewardHead

N_STATE, N_ACTIONS, N_THETA = 3, 2, 2


def head() -> RewardHead:
    return RewardHead(N_STATE, N_ACTIONS, N_THETA, hidden=8, mixture=2, floor=0.02, key=jr.key(0))


def answer(s, a, theta, parents, of: RewardHead | None = None) -> np.ndarray:
    r, ended = (of or head())(jnp.asarray(s), jnp.asarray(a), jnp.asarray(theta), jnp.asarray(parents))
    return np.concatenate([*(np.ravel(x) for x in r), np.asarray(ended)[None]])


S, A, THETA = [0.3, -0.7, 1.1], [1.0, -1.0], [0.4, -0.2]
CHANGED = {
    0: ([0.9, -0.7, 1.1], A, THETA),
    1: ([0.3, 0.2, 1.1], A, THETA),
    2: ([0.3, -0.7, -1.0], A, THETA),
    3: (S, [-1.0, 1.0], THETA),
    4: (S, A, [1.0, -0.2]),
    5: (S, A, [0.4, 0.9]),
}


@pytest.mark.parametrize("parent", sorted(CHANGED))
def test_only_parents_speak(parent):
    every = np.ones(6, np.float32)
    without = every.copy()
    without[parent] = 0.0
    assert not np.allclose(answer(S, A, THETA, every), answer(*CHANGED[parent], every))
    np.testing.assert_array_equal(answer(S, A, THETA, without), answer(*CHANGED[parent], without))


def test_theta_moves_the_place_where_the_reward_is_earned():
    """A theta is a shift of the states, beyond any theta that it was fitted to."""
    far = jnp.asarray([7.0, -3.0])
    shifted = np.asarray(S, np.float32) + np.asarray(head().place(far))
    there = answer(S, A, far, np.ones(6))[:-1]
    np.testing.assert_allclose(there, answer(shifted, A, [0.0, 0.0], np.ones(6))[:-1], rtol=1e-5)


def test_theta_scales_what_is_paid():
    generous = eqx.tree_at(
        lambda h: (h.place.weight, h.gain, h.bonus), head(), (jnp.zeros((3, 2)), jnp.ones(2), 2 * jnp.ones(2))
    )
    mean = slice(4, 8)
    base = answer(S, A, [0.0, 0.0], np.ones(6), generous)[mean]
    np.testing.assert_allclose(answer(S, A, [1.0, 0.5], np.ones(6), generous)[mean], 2.5 * base + 3.0, rtol=1e-5)
