"""Networks that answer together."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.network import Council, Network, each_of


def networks(n: int) -> Network:
    return eqx.filter_vmap(lambda key: Network((3, 4, 2), "relu", key=key))(jr.split(jr.key(0), n))


def test_a_council_says_what_its_networks_say_on_average():
    several, x = networks(5), jr.normal(jr.key(1), (7, 3))
    alone = [jax.tree.map(lambda w, i=i: w[i], several)(x) for i in range(5)]
    np.testing.assert_allclose(Council(several)(x), np.mean(alone, axis=0), atol=1e-6)
    assert Council(several)(x[0]).shape == (2,)


def test_what_changes_a_network_changes_each_of_a_council():
    several, x = networks(3), jr.normal(jr.key(1), (3,))
    negated = lambda q: jax.tree.map(jnp.negative, q)  # noqa: E731
    one = jax.tree.map(lambda w: w[0], several)
    np.testing.assert_array_equal(each_of(one, negated)(x), negated(one)(x))
    np.testing.assert_array_equal(each_of(Council(several), negated)(x), Council(negated(several))(x))
