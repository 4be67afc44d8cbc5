from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.policy import replay
from adarl.policy.replay import Experience

BLOCK, CAPACITY = 2, 6


def numbered(first: int) -> Experience:
    """A block whose every field tells its number, counted from one: zeros were never written. Even steps are ends."""
    n = jnp.arange(first, first + BLOCK)
    x = n[:, None] * jnp.array([1.0, 10.0])
    return Experience(x, n, n.astype(jnp.float32), x + 0.5, jnp.where(n % 2, 0.5, 0.0), n % 2 == 1)


JITTED = jax.jit(replay.add)


def written(blocks: int, add: Callable[..., Experience] = JITTED) -> Experience:
    ring = replay.empty(CAPACITY, 2)
    for count in range(blocks):
        ring = add(ring, numbered(1 + count * BLOCK), jnp.int32(count))
    return ring


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (0, [0, 0, 0, 0, 0, 0]),
        (2, [1, 2, 3, 4, 0, 0]),
        (3, [1, 2, 3, 4, 5, 6]),
        (4, [7, 8, 3, 4, 5, 6]),
        (8, [13, 14, 15, 16, 11, 12]),
    ],
)
def test_the_oldest_is_overwritten(blocks: int, expected: list[int]):
    np.testing.assert_array_equal(written(blocks).a_tm1, expected)


def test_without_jit():
    jax.tree.map(np.testing.assert_array_equal, written(4, replay.add), written(4))


def test_the_fields_of_a_step_stay_together():
    batch = jax.tree.map(np.asarray, replay.sample(jr.key(0), written(5), jnp.int32(5), BLOCK, 100))
    n = batch.a_tm1
    np.testing.assert_array_equal(batch.r_t, n)
    np.testing.assert_array_equal(batch.x_tm1, n[:, None] * np.array([1.0, 10.0]))
    np.testing.assert_array_equal(batch.x_t, batch.x_tm1 + 0.5)
    np.testing.assert_array_equal(batch.left, np.where(n % 2, 0.5, 0.0))
    np.testing.assert_array_equal(batch.goes_on[n <= 8], n[n <= 8] % 2 == 1)
    assert not batch.goes_on[n > 8].any()  # nothing stands behind the newest


@pytest.mark.parametrize("blocks", [3, 4, 5])
def test_steps_ahead_by_hand(blocks: int):
    """Odd steps follow each other, gamma is 0.5: 5 + 7 / 2 + 9 / 4, as far as they go, wherever in the ring they stand."""
    first = 2 * blocks - 5  # odd, of the oldest block
    index = jnp.flatnonzero(written(blocks).a_tm1 == first)
    got = jax.jit(replay.ahead, static_argnums=(3, 4))(written(blocks), index, jnp.int32(blocks), BLOCK, 2)
    np.testing.assert_array_equal(got.r_t, [first + (first + 2) / 2])
    np.testing.assert_array_equal(
        (got.left, got.goes_on, got.x_tm1[:, 0], got.x_t[:, 0]), [[0.25], [1], [first], [first + 2.5]]
    )
    for n_step in (3, 7):  # the newest has been reached after three
        got = replay.ahead(written(blocks), index, jnp.int32(blocks), BLOCK, n_step)
        np.testing.assert_array_equal(got.r_t, [first + (first + 2) / 2 + (first + 4) / 4])
        np.testing.assert_array_equal((got.left, got.goes_on, got.x_t[:, 0]), [[0.125], [0], [first + 4.5]])


def test_nothing_is_counted_after_an_end():
    """Even steps are ends, and have nothing after them, however many steps are asked for."""
    ring = written(3)
    index = jnp.flatnonzero(ring.a_tm1 == 2)
    one, many = (replay.ahead(ring, index, jnp.int32(3), BLOCK, n) for n in (1, 5))
    jax.tree.map(np.testing.assert_array_equal, one, many)
    np.testing.assert_array_equal((many.r_t, many.left), [[2.0], [0.0]])


@pytest.mark.parametrize(("blocks", "kept"), [(1, [1, 2]), (2, [1, 2, 3, 4]), (5, [5, 6, 7, 8, 9, 10])])
def test_samples_come_from_what_was_written_alone_and_equally_often(blocks: int, kept: list[int]):
    sample = jax.jit(replay.sample, static_argnums=(3, 4))
    batch = sample(jr.key(1), written(blocks), jnp.int32(blocks), BLOCK, 6000)
    numbers, often = np.unique(batch.a_tm1, return_counts=True)
    np.testing.assert_array_equal(numbers, kept)
    np.testing.assert_allclose(often / 6000, 1 / len(kept), atol=0.03)


def test_the_key_decides_the_sample():
    ring = written(3)
    first, again, other = (replay.sample(jr.key(s), ring, jnp.int32(3), BLOCK, 20).a_tm1 for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_seeds_have_rings_of_their_own():
    both = jax.tree.map(lambda x, y: jnp.stack([x, y]), written(1), written(3))
    got = jax.vmap(replay.add, in_axes=(0, None, 0))(both, numbered(101), jnp.array([1, 3]))
    np.testing.assert_array_equal(got.a_tm1, [[1, 2, 101, 102, 0, 0], [101, 102, 3, 4, 5, 6]])
