import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model import losses
from adarl.model import masks as gates
from adarl.types import Masks

SIZES = (2, 2, 1)  # states, theta_s, theta_r
KEYS = jr.split(jr.key(0), 4000)
WORTH = Masks(
    **{
        **vars(gates.every_edge(*SIZES, 0.5 * gates.STRONG)),
        "c_a_to_s": jnp.array([-1.0, 1.01 * gates.STRONG]),
    }
)
draw_many = jax.jit(jax.vmap(gates.draw, in_axes=(0, None)))


def numbered(n_state: int, n_theta_s: int, n_theta_r: int) -> Masks:
    """Every edge with its own number."""
    empty = gates.every_edge(n_state, n_theta_s, n_theta_r, 0.0)
    leaves, treedef = jax.tree.flatten(empty)
    ends = np.cumsum([x.size for x in leaves])
    numbers = [np.arange(e - x.size, e, dtype=np.float32).reshape(x.shape) for e, x in zip(ends, leaves, strict=True)]
    filled = [jnp.asarray(n) for n in numbers]
    return jax.tree.unflatten(treedef, filled)


def equal(got: Masks, expected: Masks) -> None:
    jax.tree.map(np.testing.assert_array_equal, got, expected)


def test_every_edge():
    masks = gates.every_edge(3, 2, 1, 0.5)
    shapes = {name: leaf.shape for name, leaf in vars(masks).items()}
    assert shapes == {
        "c_s_to_s": (3, 3),
        "c_a_to_s": (3,),
        "c_theta_to_s": (3, 2),
        "c_s_to_r": (3,),
        "c_a_to_r": (),
        "c_theta_to_r": (1,),
        "c_s_to_o": (0,),
        "c_theta_to_o": (0,),
    }
    seen = gates.every_edge(3, 2, 1, 0.5, n_theta_o=2)
    assert seen.c_s_to_o.shape == (3,) and seen.c_theta_to_o.shape == (2,)
    assert all((leaf == 0.5).all() for masks in (masks, seen) for leaf in jax.tree.leaves(masks))


def test_rows_of_parents_by_hand():
    """A row: s_tm1, then a_tm1, then theta."""
    masks = numbered(*SIZES)  # c_s_to_s 0..3, c_a_to_s 4 5, c_theta_to_s 6..9, c_s_to_r 10 11, c_a_to_r 12, c_theta_to_r 13
    np.testing.assert_array_equal(gates.into_states(masks), [[0, 1, 4, 6, 7], [2, 3, 5, 8, 9]])
    np.testing.assert_array_equal(gates.into_reward(masks), [10, 11, 12, 13])


@pytest.mark.parametrize(("n_state", "n_theta_s", "n_theta_r"), [(1, 0, 0), (1, 1, 1), (4, 0, 2), (3, 2, 0)])
def test_rows_and_back(n_state: int, n_theta_s: int, n_theta_r: int):
    masks = numbered(n_state, n_theta_s, n_theta_r)
    into_s, into_r = gates.into_states(masks), gates.into_reward(masks)
    assert into_s.shape == (n_state, n_state + 1 + n_theta_s)
    assert into_r.shape == (n_state + 1 + n_theta_r,)
    equal(gates.from_rows(into_s, into_r), masks)


def test_price_by_hand():
    """lambda_2 for s -> r and theta -> r, 3 for a -> r, 4 for s -> s, 5 for a -> s, 6 for theta -> s."""
    weight = losses.Sparsity(lambda_1=0.01, lambda_2=0.02, lambda_3=0.03, lambda_4=0.4, lambda_5=0.5, lambda_6=0.6)
    price = losses.price(gates.every_edge(*SIZES, 0.0), weight)
    np.testing.assert_allclose(gates.into_states(price), [[0.4, 0.4, 0.5, 0.6, 0.6]] * 2)
    np.testing.assert_allclose(gates.into_reward(price), [0.02, 0.02, 0.03, 0.02])


@pytest.mark.parametrize("call", [gates.probabilities, jax.jit(gates.probabilities)])
def test_an_edge_worth_its_price_has_probability_one_half(call):
    price = losses.price(gates.every_edge(*SIZES, 0.0), losses.Sparsity())
    prob = call(price, price)
    off_diagonal = ~np.eye(2, dtype=bool)
    np.testing.assert_array_equal(np.asarray(prob.c_s_to_s)[off_diagonal], 0.5)
    for name in ("c_a_to_s", "c_theta_to_s", "c_s_to_r", "c_a_to_r", "c_theta_to_r"):
        np.testing.assert_array_equal(getattr(prob, name), 0.5)


@pytest.mark.parametrize("call", [gates.probabilities, jax.jit(gates.probabilities)])
def test_probabilities_by_hand(call):
    """sigmoid((worth - price) / price): of nothing 1 / (1 + e), of twice the price e / (1 + e)."""
    price = losses.price(gates.every_edge(*SIZES, 0.0), losses.Sparsity())
    nothing = call(jax.tree.map(jnp.zeros_like, price), price)
    double = call(jax.tree.map(lambda c: 2 * c, price), price)
    np.testing.assert_allclose(nothing.c_a_to_s, 0.2689414, rtol=1e-6)
    np.testing.assert_allclose(double.c_a_to_s, 0.7310586, rtol=1e-6)
    np.testing.assert_allclose(double.c_a_to_r, 0.7310586, rtol=1e-6)


def test_a_state_always_keeps_its_own_past():
    price = losses.price(gates.every_edge(*SIZES, 0.0), losses.Sparsity())
    prob = gates.probabilities(jax.tree.map(lambda c: -c, price), price)
    np.testing.assert_array_equal(np.diag(prob.c_s_to_s), 1.0)
    assert (np.asarray(prob.c_s_to_s)[~np.eye(2, dtype=bool)] < 0.5).all()


def test_free_edges_have_finite_probabilities():
    """A price of zero: whatever is worth anything stays, whatever costs accuracy goes."""
    free = jax.tree.map(jnp.zeros_like, losses.price(gates.every_edge(*SIZES, 0.0), losses.Sparsity()))
    for worth, expected in ((0.1, 1.0), (-0.1, 0.0)):
        prob = gates.probabilities(gates.every_edge(*SIZES, worth), free)
        np.testing.assert_array_equal(prob.c_theta_to_s, expected)


def test_strong_edges_are_always_drawn_and_others_mostly():
    draws = draw_many(KEYS, WORTH)
    for leaf in jax.tree.leaves(draws):
        assert np.isin(leaf, (0.0, 1.0)).all()
    share = jax.tree.map(lambda x: np.asarray(x).mean(0), draws)
    denied = 1 - gates.DENIED
    np.testing.assert_array_equal(share.c_s_to_s, 1.0)
    np.testing.assert_allclose(share.c_a_to_s[0], denied, atol=0.03)
    assert share.c_a_to_s[1] == 1.0
    for name in ("c_theta_to_s", "c_s_to_r", "c_a_to_r", "c_theta_to_r"):
        np.testing.assert_allclose(getattr(share, name), denied, atol=0.03)
    weak = np.concatenate([np.asarray(x).reshape(4000, -1) for x in jax.tree.leaves(draws)], axis=1)
    weak = weak[:, weak.std(0) > 0]
    assert np.abs(np.corrcoef(weak, rowvar=False) - np.eye(weak.shape[1])).max() < 0.08  # denied independently


def test_open_draws_deny_no_state():
    draws = jax.jit(jax.vmap(lambda k: gates.draw_open(k, gates.every_edge(*SIZES, 0.0))))(KEYS)
    share = jax.tree.map(lambda x: np.asarray(x).mean(0), draws)
    for name in ("c_s_to_s", "c_s_to_r"):
        np.testing.assert_array_equal(getattr(share, name), 1.0)
    for name in ("c_a_to_s", "c_theta_to_s", "c_a_to_r", "c_theta_to_r"):
        np.testing.assert_allclose(getattr(share, name), 1 - gates.DENIED, atol=0.03)


def test_the_key_decides_the_draw():
    first, again = draw_many(KEYS, WORTH), draw_many(KEYS, WORTH)
    equal(first, again)
    assert (first.c_a_to_s[0] != first.c_a_to_s[1:]).any()


@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_harden(threshold: float):
    """Above the threshold, not on it."""
    prob = gates.from_rows(jnp.array([[1.0, threshold, 0.0, 0.1, 0.6]] * 2), jnp.array([0.9, threshold, 0.2, 0.51]))
    hard = gates.harden(prob, threshold)
    np.testing.assert_array_equal(gates.into_states(hard), [[1, 0, 0, 0, 1]] * 2)
    np.testing.assert_array_equal(gates.into_reward(hard), [1, 0, 0, 1])
    equal(
        jax.vmap(lambda p: gates.harden(p, threshold))(jax.tree.map(lambda x: x[None], prob)),
        jax.tree.map(lambda x: x[None], hard),
    )
