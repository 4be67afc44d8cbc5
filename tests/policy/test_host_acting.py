"""Actions in Gymnasium environments: random ones may persist, greedy ones do not."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from adarl.network import Network
from adarl.policy.host import act_on
from adarl.policy.view import View
from adarl.types import Theta

N = 2000
S, TOLD = jnp.zeros((N, 1)), Theta(jnp.zeros((N, 0)), jnp.zeros((N, 0)))
VIEW = View(jnp.zeros(1), jnp.ones(1), (0,), (), ())


def prefers(action: int) -> Network:
    q = Network((1, 3), "relu", key=jr.key(0))
    return eqx.tree_at(lambda n: n.layers[0].bias, q, 10.0 * jnp.eye(3)[action])


def test_random_actions_persist_as_often_as_told():
    last = jnp.full(N, 2)
    chosen = lambda eps, persist: act_on(prefers(1), VIEW, S, TOLD, jnp.float32(eps), persist, last, jr.key(1))  # noqa: E731
    assert (chosen(0.0, 0.9) == 1).all()
    assert (chosen(1.0, 1.0) == 2).all()
    assert abs((chosen(1.0, 0.7) == 2).mean() - (0.7 + 0.3 / 3)) < 0.04
    assert abs((chosen(1.0, 0.0) == 0).mean() - 1 / 3) < 0.04
    assert abs((chosen(0.5, 1.0) == 2).mean() - (0.5 + 0.25 / 3)) < 0.04
