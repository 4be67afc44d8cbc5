"""What an edge is worth, and L_reg's proximal step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model import losses
from adarl.model.fit import start
from adarl.model.plan import ModelConfig
from adarl.model.world import Scale
from adarl.types import Theta, Transition


def heads(seed: int = 0):
    return start(3, 2, 4, ModelConfig(theta_s=1, theta_r=1, hidden=8), jr.key(seed)).parameters.heads


def lengths(of) -> tuple[np.ndarray, np.ndarray]:
    join = lambda *w: np.linalg.norm(np.concatenate([np.asarray(x) for x in w], axis=-2), axis=-2)  # noqa: E731
    return (
        join(of.transition.linear.weight, of.transition.body.layers[0].weight),
        join(of.reward.pay.layers[0].weight, of.reward.end.layers[0].weight),
    )


@pytest.mark.parametrize("amount", [0.0, 0.1, 1.0])
def test_shrink_shortens_every_edge_by_the_amount(amount: float):
    before, after = lengths(heads()), lengths(losses.shrink(heads(), jnp.float32(amount)))
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new, np.maximum(old - amount, 0.0), rtol=1e-4, atol=1e-6)


def test_shrink_ends_at_exactly_zero_and_stays_finite():
    gone = losses.shrink(losses.shrink(heads(), jnp.float32(100.0)), jnp.float32(0.1))
    assert all((x == 0).all() for x in lengths(gone))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gone))


def test_shrink_leaves_all_else_alone():
    old, new = heads(), losses.shrink(heads(), jnp.float32(0.1))
    for pick in (
        lambda h: h.transition.out.weight,
        lambda h: h.transition.slope.weight,
        lambda h: h.transition.body.layers[0].bias,
        lambda h: h.reward.place.weight,
        lambda h: h.reward.pay.layers[1].weight,
    ):
        np.testing.assert_array_equal(pick(old), pick(new))


@pytest.mark.parametrize(("p", "nats"), [(0.0, 0.0), (1.0, 0.0), (0.5, np.log(2)), (0.1, 0.3250830)])
def test_surprise_by_hand(p: float, nats: float):
    np.testing.assert_allclose(losses.surprise(jnp.float32(p)), nats, rtol=1e-5)


def test_a_rare_end_speaks_for_an_edge_that_the_reward_ignores():
    """r is constant and the end comes with s_0 > 2: to r the edge is worth nothing, to `ended` all there is."""
    s = jr.normal(jr.key(0), (4, 500, 3))
    ended = s[..., 0] > 2.0
    zeros = jnp.zeros((4, 500))
    batch = Transition(s, zeros.astype(int), zeros, s, ended)
    scale = Scale(jnp.zeros(3), jnp.ones(3), jnp.ones(3), jnp.zeros(()), jnp.ones(()))
    plain = heads()
    end = lambda h: (h.reward.end.layers[0].weight, h.reward.end.layers[1].weight, h.reward.end.layers[2].weight)  # noqa: E731
    bias = lambda h: [layer.bias for layer in h.reward.end.layers]  # noqa: E731
    first = jnp.zeros((8, 5)).at[0, 0].set(20.0)
    first_bias = jnp.zeros(8).at[0].set(-40.0)  # relu(20 (s_0 - 2)): nothing below the edge, much above it
    knows = eqx.tree_at(end, plain, (first, jnp.zeros((8, 8)).at[0, 0].set(1.0), jnp.zeros((1, 8)).at[0, 0].set(3.0)))
    knows = eqx.tree_at(bias, knows, [first_bias, jnp.zeros(8), jnp.full((1,), -4.0)])
    knows = eqx.tree_at(lambda h: [layer.weight for layer in h.reward.pay.layers], knows, replace_fn=jnp.zeros_like)
    theta = Theta(jnp.zeros((4, 1)), jnp.zeros((4, 1)))
    got = losses.worth(knows, scale, 2, losses.Believed(batch), theta, ended.mean())
    assert got.c_s_to_r[0] > 0.3
    np.testing.assert_allclose(got.c_s_to_r[1:], 0.0, atol=1e-6)
    np.testing.assert_allclose(got.c_a_to_r, 0.0, atol=1e-6)
