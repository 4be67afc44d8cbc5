"""L_reg's proximal step."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model import losses
from adarl.model.fit import ModelConfig, start


def heads(seed: int = 0):
    return start(3, 2, 4, ModelConfig(theta_s=1, hidden=8), jr.key(seed)).parameters.heads


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
