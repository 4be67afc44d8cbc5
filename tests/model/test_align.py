"""Other coordinates of theta_s: the same predictions, one change a dimension."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model import fit as fitting
from adarl.model.align import align, axes, reparametrise
from adarl.model.fit import FitState, fit, start
from adarl.model.plan import ModelConfig
from adarl.model.rows import Rows, measure
from adarl.model.transition import TransitionHead
from adarl.model.world import Heads
from adarl.types import Episodes, Theta, Transition

N_STATE, N_ACTIONS, N_DOMAINS, N_ROWS = 6, 2, 12, 300


def make_rows(key) -> Rows:
    key_s, key_a, key_r = jr.split(key, 3)
    s = jr.normal(key_s, (N_DOMAINS, N_ROWS, N_STATE))
    a = jr.randint(key_a, (N_DOMAINS, N_ROWS), 0, N_ACTIONS)
    r = jr.normal(key_r, (N_DOMAINS, N_ROWS))
    return Rows(Transition(s, a, r, s + 1.0, r > 9), jnp.full(N_DOMAINS, N_ROWS))


def make_heads(n_theta, key) -> Heads:
    config = ModelConfig(theta_s=n_theta, theta_r=1, hidden=8)
    return start(N_STATE, N_ACTIONS, N_DOMAINS, config, key).parameters.heads


def grid(n_theta, correlation=0.0):
    """Standardised changes of the domains, every pair with this correlation."""
    changes = np.random.default_rng(n_theta).normal(size=(N_DOMAINS, n_theta))
    white = np.linalg.qr(changes - changes.mean(0))[0] * np.sqrt(N_DOMAINS)
    return white @ np.linalg.cholesky((1 - correlation) * np.eye(n_theta) + correlation).T


def mixed(n_theta, key, correlation):
    """Heads in which state i is moved by change i % n_theta alone, hidden behind a linear map of theta_s."""
    changes = grid(n_theta, correlation)
    heads = make_heads(n_theta, key)
    size = 2.0 ** -jnp.arange(N_STATE)[:, None]  # a large effect must not drown a small one
    own = size * jnp.eye(n_theta)[jnp.arange(N_STATE) % n_theta]
    one_change_a_state = jnp.tile(own, (1, 2))  # slope's rows: component, theta
    slope = jax.tree.map(lambda x: x * one_change_a_state.reshape(x.shape[:2] + (1,) * (x.ndim - 2)), heads.transition.slope)
    plain = eqx.tree_at(lambda h: h.slope, heads.transition, slope)
    mix = np.random.default_rng(7).normal(size=(n_theta, n_theta))  # theta_s = mix changes + 0.7
    hidden = reparametrise(plain, jnp.zeros(n_theta), jnp.asarray(np.linalg.inv(mix), jnp.float32))
    theta = Theta(jnp.asarray(changes @ mix.T + 0.7, jnp.float32), jnp.zeros((N_DOMAINS, 1)))
    return Heads(hidden, heads.reward), theta, changes


@eqx.filter_jit
def predict(heads: TransitionHead, inputs, theta_s):
    """The mixtures of every state, row and domain."""
    over_domains = lambda head, x: jax.vmap(head, in_axes=(None, 0))(x, theta_s)  # noqa: E731
    return eqx.filter_vmap(lambda head: jax.vmap(lambda x: over_domains(head, x))(inputs))(heads)


def test_reparametrise_by_hand():
    """theta = 2 + theta' / 2: half the slope, and twice the old slope joins the mean (row 2 of `out`)."""
    head = start(1, 1, 1, ModelConfig(theta_s=0, theta_r=1, hidden=1, mixture=1), jr.key(0)).parameters.heads.transition
    head = eqx.tree_at(
        lambda h: (h.slope.weight, h.slope.bias, h.out.weight, h.out.bias),
        head,
        (jnp.full((1, 1, 1), 4.0), jnp.full((1, 1), 6.0), jnp.ones((1, 3, 1)), jnp.zeros((1, 3))),
    )
    moved = reparametrise(head, jnp.array([2.0]), jnp.array([[0.5]]))
    np.testing.assert_array_equal(moved.slope.weight, [[[2.0]]])
    np.testing.assert_array_equal(moved.slope.bias, [[3.0]])
    np.testing.assert_array_equal(moved.out.weight, [[[1.0], [9.0], [1.0]]])
    np.testing.assert_array_equal(moved.out.bias, [[0.0, 12.0, 0.0]])


@pytest.mark.parametrize("n_theta", [1, 2, 3])
def test_predictions_stay(n_theta):
    key_heads, key_rows, key_theta, key_align, key_inputs = jr.split(jr.key(0), 5)
    heads, rows = make_heads(n_theta, key_heads), make_rows(key_rows)
    mix = jr.normal(key_theta, (n_theta, n_theta)) + jnp.eye(n_theta)
    theta = Theta(1.0 + jr.normal(key_theta, (N_DOMAINS, n_theta)) @ mix, jnp.ones((N_DOMAINS, 1)))
    moved, theta_moved = align(heads, theta, rows, measure(rows), N_ACTIONS, key_align)

    inputs = jr.normal(key_inputs, (20, N_STATE + N_ACTIONS))
    before = predict(heads.transition, inputs, theta.theta_s)
    after = predict(moved.transition, inputs, theta_moved.theta_s)
    for x, y in zip(before, after, strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5)
    assert eqx.tree_equal(moved.reward, heads.reward)
    assert eqx.tree_equal(theta_moved.theta_r, theta.theta_r)
    np.testing.assert_allclose(theta_moved.theta_s.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(theta_moved.theta_s.std(0), 1.0, atol=1e-5)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize("n_theta", [2, 3])
def test_one_dimension_is_one_change(n_theta, correlation):
    heads, theta, changes = mixed(n_theta, jr.key(1), correlation)
    rows = make_rows(jr.key(2))
    _, moved = align(heads, theta, rows, measure(rows), N_ACTIONS, jr.key(3))
    between = np.corrcoef(np.asarray(moved.theta_s).T, changes.T)[:n_theta, n_theta:]
    owner = np.abs(between).argmax(1)
    assert sorted(owner) == list(range(n_theta))
    assert np.abs(between[np.arange(n_theta), owner]).min() > 0.999


def test_a_large_effect_does_not_drown_small_ones():
    """One state is moved far by the sum of both changes, four states a little by one change each."""
    both, first, second = np.full((2, 2), 0.5), np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    _, a = axes(grid(2), np.stack([1e4 * both, first, first, second, second]))
    np.testing.assert_allclose(np.sort(np.abs(a), axis=1), [[0.0, 1.0], [0.0, 1.0]], atol=1e-3)


def test_a_faint_direction_is_not_amplified():
    changes = grid(2) * np.array([1.0, 1e-3])
    _, a = axes(changes, np.tile(np.eye(2), (N_STATE, 1, 1)))
    np.testing.assert_allclose(np.abs(a), np.eye(2), atol=1e-6)


def test_a_theta_that_never_moved_stays():
    rows, heads = make_rows(jr.key(0)), make_heads(2, jr.key(1))
    theta = Theta(jnp.zeros((N_DOMAINS, 2)), jnp.zeros((N_DOMAINS, 1)))
    moved, theta_moved = align(heads, theta, rows, measure(rows), N_ACTIONS, jr.key(2))
    assert eqx.tree_equal(moved, heads) and eqx.tree_equal(theta_moved, theta)


def test_slopes_of_nothing_leave_a_white_theta_alone():
    m, a = axes(grid(2) * np.array([2.0, 1.0]), np.zeros((N_STATE, 2, 2)))
    np.testing.assert_allclose(m, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.abs(a), np.diag([0.5, 1.0]), atol=1e-12)


@pytest.mark.parametrize("open_steps", [4, 3])
def test_fit_aligns_once_also_when_resumed(monkeypatch, open_steps):
    aligned_at = []

    def advance(state, rows, scale, n_actions, config, key, bounds):
        """Instead of Adam: theta_s moves at random."""
        noise = jr.normal(jr.fold_in(key, state.step), state.parameters.theta.theta_s.shape)
        state = eqx.tree_at(lambda s: s.parameters.theta.theta_s, state, replace_fn=lambda x: x + noise)
        return eqx.tree_at(lambda s: s.step, state, state.step + config.chunk), {}

    def watched(heads, theta, *rest):
        aligned_at.append(max(seen, default=0))
        return align(heads, theta, *rest)

    monkeypatch.setattr(ModelConfig, "chunk", property(lambda config: 2))
    monkeypatch.setattr(fitting, "advance", advance)
    monkeypatch.setattr(fitting, "align", watched)
    config = ModelConfig(theta_s=2, theta_r=1, hidden=4, open_steps=open_steps, search_steps=4, binary_steps=2)
    s = jr.normal(jr.key(0), (3, 3, 6, 2))
    nothing = jnp.zeros((3, 3, 5), bool)
    episodes = Episodes(s, nothing.astype(int), s[:, :, 1:, 0], nothing, ~nothing)
    seen: dict[int, FitState] = {}
    keep = lambda state, _: seen.__setitem__(int(state.step), state)  # noqa: E731
    model = fit(episodes, 1, config, jr.key(1), each=keep)
    assert aligned_at == [4]

    assert eqx.tree_equal(fit(episodes, 1, config, jr.key(1), state=seen[4]), model)
    assert len(aligned_at) == 2
    assert eqx.tree_equal(fit(episodes, 1, config, jr.key(1), state=seen[6]), model)
    assert len(aligned_at) == 2
