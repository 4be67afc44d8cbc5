"""The transition heads: affine in every theta, with products of two of them."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model.transition import TransitionHead, products

INPUTS = jnp.asarray([0.3, -0.7, 1.0])


def head(n_theta: int) -> TransitionHead:
    """A head whose products act."""
    plain = TransitionHead(3, n_theta, hidden=8, mixture=2, floor=0.01, key=jr.key(0))
    return eqx.tree_at(lambda h: h.joint, plain, jr.normal(jr.key(1), plain.joint.shape))


def means(of: TransitionHead, *theta: float, apart: float = 1.0) -> np.ndarray:
    return np.asarray(of(INPUTS, jnp.asarray(theta), apart).mean)


@pytest.mark.parametrize(
    ("theta", "expected"), [([3.0], []), ([2.0, 3.0], [6.0]), ([2.0, 3.0, 5.0], [6.0, 10.0, 15.0]), ([], [])]
)
def test_products_by_hand(theta: list[float], expected: list[float]):
    np.testing.assert_array_equal(products(jnp.asarray(theta, jnp.float32)), np.asarray(expected, np.float32))


def test_affine_in_each_theta_but_not_in_both():
    of = head(2)
    for line in (lambda x: (x, 0.7), lambda x: (0.7, x), lambda x: (x, 0.0)):
        two, three, four = (means(of, *line(x)) for x in (2.0, 3.0, 4.0))
        np.testing.assert_allclose(four - two, 2 * (three - two), rtol=1e-4)
    corner = means(of, 1.0, 1.0) - means(of, 1.0, 0.0) - means(of, 0.0, 1.0) + means(of, 0.0, 0.0)
    np.testing.assert_allclose(corner, np.asarray(of.joint @ of.features(INPUTS))[:, 0], rtol=1e-4)


def test_products_rest_while_the_means_are_held_together():
    """`align` turns theta_s after the open phase, which is exact for a plane only."""
    of = head(2)
    corner = lambda apart: means(of, 1.0, 1.0, apart=apart) - means(of, 1.0, 0.0, apart=apart)  # noqa: E731
    edge = lambda apart: means(of, 0.0, 1.0, apart=apart) - means(of, 0.0, 0.0, apart=apart)  # noqa: E731
    np.testing.assert_allclose(corner(0.0), edge(0.0), rtol=1e-4, atol=1e-6)
    assert not np.allclose(corner(1.0), edge(1.0), rtol=1e-2)


def test_products_of_a_fresh_head_are_silent():
    fresh = TransitionHead(3, 2, hidden=8, mixture=2, floor=0.01, key=jr.key(0))
    assert not np.asarray(fresh.joint).any()
