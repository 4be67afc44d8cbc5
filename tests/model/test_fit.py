"""A synthetic system with a known graph."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.graph import compact
from adarl.model import fit as fitting
from adarl.model import masks as gates
from adarl.model.fit import FitState, fit
from adarl.model.losses import Sparsity
from adarl.model.plan import ModelConfig
from adarl.model.rows import Rows, measure, pack
from adarl.model.world import WorldModel
from adarl.types import AdarlError, Episodes, Step, Theta, Transition

TRUTH = np.array([-1.0, 0.4, 1.0])  # theta_s of the three domains, unevenly spaced
UNSEEN = -0.3  # theta_s of no domain
LIMIT, NOISE = 1.0, 0.2
N_ACTIONS, TRIALS, STEPS = 2, 1500, 4
CONFIG = ModelConfig(
    theta_s=1,
    theta_r=1,
    hidden=24,
    open_steps=500,
    search_steps=1000,
    binary_steps=500,
    batch=240,
    # A fit as short as this cannot tell a worth of 0.5% from none.
    sparsity=Sparsity(lambda_2=0.05, lambda_3=0.05),
)


def increment(s: np.ndarray, a: np.ndarray, theta: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """s_0 follows s_1; s_1 follows itself, the action and theta; s_2 follows s_1 and itself, with noise."""
    return np.stack(
        [0.2 * s[..., 1], -0.2 * s[..., 1] + 0.3 * (2 * a - 1) + 0.2 * theta, 0.4 * s[..., 1] - 0.5 * s[..., 2] + noise],
        axis=-1,
    )


def record() -> Episodes:
    """Trials that last two to four steps. The first state decides reward and failure: nobody reads s_2."""
    draw = np.random.default_rng(0)
    shape = (TRUTH.size, TRIALS)
    s = [draw.uniform(-1.5, 1.5, (*shape, 3))]
    a = draw.integers(0, N_ACTIONS, (*shape, STEPS))
    for t in range(STEPS):
        s.append(s[-1] + increment(s[-1], a[..., t], TRUTH[:, None], NOISE * draw.normal(size=shape)))
    ended = np.abs(np.stack(s[:-1], axis=2)[..., 0]) > LIMIT
    valid = np.arange(STEPS) < draw.integers(2, STEPS + 1, (*shape, 1))
    states = np.stack(s, axis=2)
    states[:, :, 1:][~valid] = 1e3  # must never be seen
    return Episodes(
        jnp.asarray(states, jnp.float32),
        jnp.asarray(a, jnp.int32),
        jnp.asarray(~ended, jnp.float32),
        jnp.asarray(ended),
        jnp.asarray(valid),
    )


class Fitted(NamedTuple):
    model: WorldModel
    states: list[FitState]


@functools.cache
def fitted(seed: int = 0) -> Fitted:
    states = []
    model = fit(record(), N_ACTIONS, CONFIG, jr.key(seed), each=lambda state, terms: states.append(state))
    return Fitted(model, states)


def equal(first, second) -> None:
    jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_graph_is_found(seed: int):
    masks = fitted(seed).model.masks
    #                                                           s_0 s_1 s_2  a  theta
    np.testing.assert_array_equal(gates.into_states(masks), [[1, 1, 0, 0, 0], [0, 1, 0, 1, 1], [0, 1, 1, 0, 0]])
    np.testing.assert_array_equal(gates.into_reward(masks), [1, 0, 0, 0, 0])
    kept = compact(masks)
    np.testing.assert_array_equal(kept.s_min, [True, True, False])
    np.testing.assert_array_equal(kept.theta_s_min, [True])
    np.testing.assert_array_equal(kept.theta_r_min, [False])


@pytest.mark.parametrize("seed", [0, 1])
def test_theta_is_affine_in_the_truth(seed: int):
    theta = fitted(seed).model.theta
    assert abs(np.corrcoef(theta.theta_s[:, 0], TRUTH)[0, 1]) > 0.999
    np.testing.assert_allclose([theta.theta_s.mean(), theta.theta_s.std()], [0, 1], atol=1e-5)
    np.testing.assert_array_equal(theta.theta_r, 0.0)  # no edge needs it


def imagine(model: WorldModel, n: int = 4000) -> tuple[np.ndarray, np.ndarray, Step]:
    """States, actions and the model's answers at a theta that no source had; standardised, it lies where the truth does."""
    draw = np.random.default_rng(1)
    s, a = draw.uniform(-1.2, 1.2, (n, 3)).astype(np.float32), draw.integers(0, N_ACTIONS, n)
    sign = np.sign(np.corrcoef(model.theta.theta_s[:, 0], TRUTH)[0, 1])
    theta = Theta(jnp.array([sign * (UNSEEN - TRUTH.mean()) / TRUTH.std()], jnp.float32), jnp.zeros(1))
    step = eqx.filter_jit(jax.vmap(type(model).draw, in_axes=(None, 0, 0, 0, None)))
    return s, a, step(model, jr.split(jr.key(0), n), jnp.asarray(s), jnp.asarray(a), theta)


def test_the_model_steps_like_the_system():
    s, a, step = imagine(fitted().model)
    error = np.asarray(step.s) - s - increment(s, a, np.full(len(a), UNSEEN), np.zeros(len(a)))
    np.testing.assert_allclose(np.median(np.abs(error[:, :2]), axis=0), 0, atol=0.02)
    np.testing.assert_allclose([error[:, 2].mean(), error[:, 2].std()], [0, NOISE], atol=0.03)
    assert (np.asarray(step.ended) == (np.abs(s[:, 0]) > LIMIT)).mean() > 0.98


def test_the_true_theta_is_the_likeliest():
    model, episodes = fitted().model, record()
    steps = jax.tree.map(lambda x: x[:, :20, 0], episodes.transitions())
    likely = jax.vmap(jax.vmap(model.log_likelihood, in_axes=(0, None)), in_axes=(0, None))
    per_theta = jax.jit(jax.vmap(lambda theta: likely(steps, theta).sum(1)))(model.theta)
    np.testing.assert_array_equal(np.argmax(per_theta, axis=0), [0, 1, 2])


def test_same_seed_equal_other_seed_different():
    first = fitted().model
    again = fit(record(), N_ACTIONS, CONFIG, jr.key(0))
    equal(first, again)
    assert (first.theta.theta_s != fitted(1).model.theta.theta_s).any()


@pytest.mark.parametrize("stopped", [0, 2, 3])
def test_what_each_was_given_continues_the_work(stopped: int):
    """From before the search, from within it, and from the end."""
    whole = fitted()
    assert [int(s.step) for s in whole.states] == [500, 1000, 1500, 2000]
    rest = []
    model = fit(
        record(),
        N_ACTIONS,
        CONFIG,
        jr.key(0),
        state=whole.states[stopped],
        each=lambda state, terms: rest.append(state),
    )
    equal(whole.model, model)
    equal(whole.states[stopped + 1 :], rest)


def test_masks_stay_within_their_bounds():
    """What must be there is, what may not be is not, and the rest is decided by worth."""
    state, scale = fitted().states[-1], fitted().model.scale
    learned = fitted().model.masks
    none, every = (gates.every_edge(3, 1, 1, value) for value in (0.0, 1.0))
    within = lambda least, most: fitting.finish(state, scale, N_ACTIONS, CONFIG, fitting.Bounds(least, most)).masks  # noqa: E731
    assert eqx.tree_equal(within(none, every), learned)
    assert eqx.tree_equal(within(every, every), every) and eqx.tree_equal(within(none, none), none)
    assert not eqx.tree_equal(learned, every) and not eqx.tree_equal(learned, none)


@pytest.mark.parametrize("bad", [jnp.inf, jnp.nan])
def test_a_step_that_overflows_is_not_taken(bad: float):
    """Neither in functions and theta nor in the worth of edges; the steps between are."""
    data, before = pack(record()), fitted().states[0]
    some = lambda r: r.at[0, :50].set(bad)  # noqa: E731 (of them more than half of all batches hold one)
    spoilt = eqx.tree_at(lambda d: d.transition.r_t, data, replace_fn=some)
    after, terms = fitting.advance(before, spoilt, measure(data), N_ACTIONS, CONFIG, jr.key(1), None)
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((after.parameters, after.worth, terms)))
    assert (after.parameters.theta.theta_s != before.parameters.theta.theta_s).all()
    assert not eqx.tree_equal(after.worth, before.worth)


def test_losses_that_are_never_finite_are_told():
    spoilt = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan) if eqx.is_inexact_array(x) else x, fitted().states[0])
    with pytest.raises(AdarlError, match="no longer finite after 1000 of 2000 steps"):
        fit(record(), N_ACTIONS, CONFIG, jr.key(0), state=spoilt)


def test_phases():
    names = [
        [name for name, now in fitting.phase(jnp.int32(s), CONFIG)._asdict().items() if now]
        for s in (0, 499, 500, 1499, 1500)
    ]
    assert names == [["open"], ["open"], ["search"], ["search"], ["binary"]]


def test_packed_rows_are_the_valid_ones_in_order():
    s = jnp.arange(2 * 2 * 3.0).reshape(2, 2, 3, 1)
    zeros, valid = jnp.zeros((2, 2, 2)), jnp.array([[[1, 0], [1, 1]], [[0, 0], [1, 0]]], bool)
    rows = pack(Episodes(s, zeros.astype(int), zeros, zeros > 0, valid))
    np.testing.assert_array_equal(rows.count, [3, 1])
    np.testing.assert_array_equal(rows.transition.s_tm1[0, :3, 0], [0, 3, 4])
    np.testing.assert_array_equal(rows.transition.s_t[1, :1, 0], [10])


def test_scales_by_hand():
    """Two domains with one and three valid rows weigh the same, all other rows nothing; a constant keeps its unit."""
    s_tm1 = jnp.array([[[4.0], [99.0], [99.0]], [[0.0], [0.0], [0.0]]])
    r_t = jnp.array([[1.0, 99.0, 99.0], [1.0, 1.0, 1.0]])
    step = Transition(s_tm1, jnp.zeros((2, 3), int), r_t, s_tm1 + jnp.array([1.0, 3.0])[:, None, None], r_t > 2)
    scale = measure(Rows(step, jnp.array([1, 3])))
    np.testing.assert_allclose([scale.s_mean[0], scale.s_scale[0]], [2.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(scale.increment_scale, [1.0], rtol=1e-6)
    np.testing.assert_allclose([scale.r_mean, scale.r_scale], [1.0, 1.0], rtol=1e-6)
