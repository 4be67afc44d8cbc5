"""Of the networks that training passed through, which one suits a theta."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from probes import N_ACTIONS, Dream, view

from adarl.network import Network
from adarl.policy.foresee import foresee, suited
from adarl.types import Theta


def constant(first: float, second: float) -> Network:
    """Q that sees nothing."""
    n = view().size
    q = Network((n, N_ACTIONS), "relu", key=jr.key(0))
    new = (jnp.zeros((N_ACTIONS, n)), jnp.array([first, second]))
    return eqx.tree_at(lambda q: (q.layers[0].weight, q.layers[0].bias), q, new)


@pytest.mark.parametrize(("theta_s", "expected"), [(-0.5, 1), (0.5, 0)])
def test_the_network_that_suits_a_theta_is_found_by_imagination(theta_s: float, expected: int):
    """Of `Dream`'s levers the second pays below zero; the first network, which pulls it, scored worst in training."""
    networks = jax.tree.map(lambda *x: jnp.stack(x), constant(0.0, 1.0), constant(1.0, 0.0), constant(1.0, 0.0))
    theta = Theta(jnp.array([theta_s]), jnp.zeros(1))
    curve = jnp.array([0.1, 0.5, 0.9])
    world: Any = Dream()
    returns = foresee(world, networks, view(), theta, theta, jr.key(0))
    np.testing.assert_array_equal(returns, [1, 0, 0] if expected else [0, 1, 1])
    q, told = suited(world, networks, curve, view(), theta, jr.key(0))
    np.testing.assert_array_equal(told.theta_s, theta.theta_s)
    assert int(jnp.argmax(q(jnp.zeros(view().size)))) == expected


def test_a_network_may_be_told_a_kinder_theta():
    """At -0.5 the second lever pays; this network pulls it only where it is told more than -0.45."""
    n = view().size
    weight = jnp.zeros((N_ACTIONS, n)).at[1, n - 1].set(1.0)  # theta_s stands last
    q = eqx.tree_at(lambda q: (q.layers[0].weight, q.layers[0].bias), constant(0.0, 0.0), (weight, jnp.array([0.0, 0.45])))
    theta = Theta(jnp.array([-0.5]), jnp.zeros(1))
    world: Any = Dream()
    one = jax.tree.map(lambda x: x[None], q)
    _, told = suited(world, one, jnp.array([0.0]), view(), theta, jr.key(0))
    np.testing.assert_allclose(told.theta_s, [-0.4])


def test_of_networks_alike_the_one_that_scored_best_is_taken():
    marked = [eqx.tree_at(lambda q: q.layers[0].bias, constant(1.0, 0.0), jnp.array([float(i + 1), 0.0])) for i in range(3)]
    networks = jax.tree.map(lambda *x: jnp.stack(x), *marked)
    theta = Theta(jnp.array([0.5]), jnp.zeros(1))
    world: Any = Dream()
    q, _ = suited(world, networks, jnp.array([0.1, 0.7, 0.4]), view(), theta, jr.key(0))
    assert float(q.layers[0].bias[0]) == 2.0
