"""Greedy policy x one domain -> returns: what every method is judged by.

In: a domain with its factors, a Q network, what it sees and the theta it is told. Out: one return an episode, or the states
of one episode.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from adarl.domains.functional import Factors, Functional
from adarl.network import Network
from adarl.policy.perceived import THETA
from adarl.policy.view import View
from adarl.types import Theta

BLOCK = 250  # steps between two looks whether any episode still runs


@eqx.filter_jit
def returns(
    domain: Functional,
    factors: Factors,
    q: Network,
    view: View,
    theta: Theta,
    key: PRNGKeyArray,
    *,
    episodes: int,
    steps: int = 10_000,
) -> Float[Array, " episode"]:
    """Undiscounted returns of the greedy policy from narrow starts, cut at `steps` steps."""
    key_reset, key_steps = jr.split(key)

    def move(key: PRNGKeyArray, s: Array, running: Array, total: Array) -> tuple[Array, Array, Array]:
        answer = domain.step(key, s, jnp.argmax(q(view(s, theta))), factors)
        s = jnp.where(running, answer.s, s)
        return s, running & ~answer.ended, total + jnp.where(running, answer.r, 0.0)

    def one_step(carry, _):
        t, s, running, total = carry
        keys = jr.split(jr.fold_in(key_steps, t), episodes)
        s, running, total = jax.vmap(move)(keys, s, running, total)
        return (t + 1, s, running & (t + 1 < steps), total), None

    def block(carry):
        return jax.lax.scan(one_step, carry, None, length=min(BLOCK, steps))[0]

    s = jax.vmap(lambda k: domain.reset(k, factors, jnp.bool_(False)))(jr.split(key_reset, episodes))
    first = (jnp.int32(0), s, jnp.full(episodes, steps > 0), jnp.zeros(episodes))
    return jax.lax.while_loop(lambda carry: carry[2].any(), block, first)[3]


@eqx.filter_jit
def returns_over_seeds(
    domain: Functional,
    factors: Factors,
    q: Network,
    view: View,
    theta: Theta,
    key: PRNGKeyArray,
    *,
    episodes: int,
    steps: int = 10_000,
    seen_as: Float[Array, "seed theta"] | None = None,
) -> Float[Array, "seed episode"]:
    """`returns` of many policies at once: `q`, `theta` and `seen_as` have a leading seed axis; starts differ."""
    n_seeds = jax.tree.leaves(q)[0].shape[0]

    def one(q: Network, theta: Theta, key: PRNGKeyArray, seen_as: Array | None) -> Float[Array, " episode"]:
        here = factors if seen_as is None else {**factors, THETA: seen_as}
        return returns(domain, here, q, view, theta, key, episodes=episodes, steps=steps)

    return eqx.filter_vmap(one)(q, theta, jr.split(key, n_seeds), seen_as)


@eqx.filter_jit
def trajectory(
    domain: Functional, factors: Factors, q: Network, view: View, theta: Theta, key: PRNGKeyArray, *, steps: int
) -> tuple[Float[Array, "time_plus_1 state"], Bool[Array, " time"]]:
    """One greedy episode from a narrow start: its states, and after which steps it was over. A key is a start."""
    key_reset, key_steps = jr.split(key)

    def one_step(carry, t):
        s, over = carry
        answer = domain.step(jr.fold_in(key_steps, t), s, jnp.argmax(q(view(s, theta))), factors)
        s = jnp.where(over, s, answer.s)
        return (s, over | answer.ended), (s, over | answer.ended)

    first = domain.reset(key_reset, factors, jnp.bool_(False))
    _, (s, over) = jax.lax.scan(one_step, (first, jnp.bool_(False)), jnp.arange(steps))
    return jnp.concatenate([first[None], s]), over
