import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.collect import collect, random_policy
from adarl.domains.cartpole import CartPole
from adarl.domains.family import family
from adarl.types import Episodes

GRAVITY = family("cartpole-gravity")
RANDOM = random_policy(2)


def record(seed: int = 0, behave=RANDOM, steps: int = 40, wide: float = 0.5, persist: float = 0.0) -> Episodes:
    factors = GRAVITY.stack(GRAVITY.sources)
    episodes = collect(CartPole(), factors, behave, jr.key(seed), trials=20, steps=steps, wide=wide, persist=persist)
    return jax.tree.map(np.asarray, episodes)


def push_right(key, s):
    return jnp.asarray(1)


@pytest.fixture(scope="module")
def pushed() -> Episodes:
    """The pole is pushed over in every trial."""
    return record(behave=push_right, steps=100, wide=0.0)


def test_shapes():
    got = record()
    assert got.s.shape == (5, 20, 41, 4)
    assert got.a.shape == got.r.shape == got.ended.shape == got.valid.shape == (5, 20, 40)


def test_the_seed_decides():
    first, again, other = record(0), record(0), record(1)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert (first.s != other.s).any() and (first.a != other.a).any()


@pytest.mark.parametrize(("persist", "repeated"), [(0.0, 0.5), (0.9, 0.95), (1.0, 1.0)])
def test_actions_persist(persist: float, repeated: float):
    """A repeated action equals the last one; a fresh one does in half of the cases."""
    a = record(persist=persist).a
    assert abs((a[..., 1:] == a[..., :-1]).mean() - repeated) < 0.02
    assert 0.3 < a[..., 0].mean() < 0.7


def test_trials_differ_within_and_between_domains():
    starts = np.asarray(record().s[:, :, 0]).reshape(100, 4)
    assert len(np.unique(starts, axis=0)) == 100


def test_early_endings_are_kept_and_masked(pushed: Episodes):
    lengths = pushed.valid.sum(axis=-1)
    assert (lengths > 0).all() and (lengths < 100).all()
    np.testing.assert_array_equal(pushed.valid, np.arange(100) < lengths[..., None])
    assert not pushed.r[~pushed.valid].any()
    assert not pushed.ended[~pushed.valid].any()


def test_the_last_state_repeats_after_the_end(pushed: Episodes):
    before, after = pushed.s[:, :, :-1], pushed.s[:, :, 1:]
    np.testing.assert_array_equal(before[~pushed.valid], after[~pushed.valid])
    assert (before[pushed.valid] != after[pushed.valid]).any(axis=-1).all()


def test_recording_goes_on_after_a_failure_up_to_45_degrees(pushed: Episodes):
    angle = np.abs(pushed.s[:, :, 1:, 2])
    np.testing.assert_array_equal(pushed.ended, pushed.valid & (angle > np.deg2rad(15)))
    assert (angle[:, :, -1] > np.pi / 4).all()
    assert (angle[:, :, :-1][pushed.valid[:, :, 1:]] <= np.pi / 4).all()
    assert (pushed.ended.sum(axis=-1) > 1).all()
    np.testing.assert_array_equal(pushed.r, pushed.valid & ~pushed.ended)


def test_steps_are_those_of_the_domain():
    got = record()
    factors = GRAVITY.stack(GRAVITY.sources)
    step = CartPole().step
    for axes in ((None, 0, 0, None), (None, 0, 0, None), (None, 0, 0, 0)):  # over time, trials, domains
        step = jax.vmap(step, in_axes=axes)
    expected = step(jr.key(0), jnp.asarray(got.s[:, :, :-1]), jnp.asarray(got.a), factors)
    np.testing.assert_allclose(got.s[:, :, 1:][got.valid], expected.s[got.valid], rtol=1e-4, atol=1e-5)


def test_a_share_of_the_starts_is_wide():
    starts = np.abs(record(wide=0.25).s[:, :, 0]).max(axis=-1) > 0.05
    np.testing.assert_array_equal(starts, np.broadcast_to(np.arange(20) < 5, (5, 20)))


@pytest.mark.parametrize("n_actions", [2, 3])
def test_random_policy_takes_every_action_equally_often(n_actions: int):
    draw = jax.vmap(random_policy(n_actions), in_axes=(0, None))
    actions = np.asarray(draw(jr.split(jr.key(0), 9000), jnp.zeros(4)))
    share = np.bincount(actions, minlength=n_actions) / 9000
    np.testing.assert_allclose(share, 1 / n_actions, atol=0.02)
