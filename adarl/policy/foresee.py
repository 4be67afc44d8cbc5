"""Looking ahead: which of several networks would do best in a domain never met, by the model, and what to tell it.

In: the model as an environment, networks, the theta of the domain. Out: one network and the theta that it is told.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.policy.imagine import Imagined
from adarl.policy.view import View
from adarl.types import Step, Theta

FORESEEN, FORESEEN_STEPS = 10, 1000  # episodes, and their steps, by which a network is chosen for one theta
ALIKE = 0.01  # share of a return by which networks must differ to be told apart in so few episodes
TELLINGS = (1.0, 0.8)  # what a network may be told: that theta, or one nearer to the middle of the sources


def episode(
    q: Any,
    view: View,
    theta: Theta,
    start: Float[Array, " state"],
    step: Callable[[PRNGKeyArray, Array, Array], Step],
    n_steps: int,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """The return of one greedy episode of a policy that is told theta, in a plant or in the model of one."""

    def move(carry, key):
        s, alive, total = carry
        answer = step(key, s, jnp.argmax(q(view(s, theta))))
        return (answer.s, alive & ~answer.ended, total + jnp.where(alive, answer.r, 0.0)), None

    carry = (start, jnp.bool_(True), jnp.float32(0.0))
    (_, _, total), _ = jax.lax.scan(move, carry, jr.split(key, n_steps))
    return total


def foresee(
    world: Imagined, networks: Any, view: View, theta: Theta, told: Theta, key: PRNGKeyArray
) -> Float[Array, " network"]:
    """Mean return by the model that each of several networks would have at `theta` if it were told `told`; usual starts."""
    key_start, key_steps = jr.split(key)

    def one(q, key_start, key_steps):
        step = lambda k, s, a: world.step(k, s, a, theta)  # noqa: E731
        start = world.reset(key_start, theta, jnp.bool_(False))
        return episode(q, view, told, start, step, FORESEEN_STEPS, key_steps)

    over_starts = jax.vmap(one, in_axes=(None, 0, 0))
    keys = jr.split(key_start, FORESEEN), jr.split(key_steps, FORESEEN)
    return eqx.filter_vmap(lambda q: over_starts(q, *keys).mean())(networks)


def suited(
    world: Imagined, networks: Any, merit: Float[Array, " network"], view: View, theta: Theta, key: PRNGKeyArray
) -> tuple[Any, Theta]:
    """The network that does best by the model where theta is known, and what to tell it.

    Where most starts are lost, one action is as bad as another and Q knows little; what it knows of a kinder domain close by
    may serve better. Of choices alike the one with the most merit in training is taken, then the frankest.
    """
    tellings = jax.vmap(lambda share: world.nearer(theta, share))(jnp.asarray(TELLINGS))
    returns = jax.vmap(lambda told: foresee(world, networks, view, theta, told, key))(tellings)
    alike = returns >= returns.max() - ALIKE * jnp.abs(returns.max())
    telling, network = jnp.divmod(jnp.argmax(jnp.where(alike, merit, -jnp.inf)), merit.shape[0])
    return jax.tree.map(lambda x: x[network], networks), jax.tree.map(lambda x: x[telling], tellings)
