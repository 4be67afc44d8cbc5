"""The terms of the objective (paper, Sec. 3.1), each a named function; `terms` joins them in a dict.

With observed states the reconstruction of o and the KL term vanish: the transition prior is fitted to the states
themselves, so what is left is its likelihood, that of the reward, and L_reg.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from adarl.model import masks as gates
from adarl.model.world import Heads, Scale, log_p_reward, log_p_state
from adarl.types import Masks, Theta, Transition


@dataclass(frozen=True)
class Sparsity:
    """The weights lambda_1 .. lambda_7 of L_reg, in nats a step for each edge."""

    lambda_1: float = 0.02
    """s -> o. Without effect while states are observed."""
    lambda_2: float = 0.02
    """s -> r."""
    lambda_3: float = 0.02
    """a -> r."""
    lambda_4: float = 0.02
    """s -> s."""
    lambda_5: float = 0.02
    """a -> s."""
    lambda_6: float = 0.02
    """theta -> s; also theta -> r, which the paper leaves unpenalised."""
    lambda_7: float = 0.001
    """|theta_j - theta_k| between domains."""


def transition(heads: Heads, parents, scale: Scale, n_actions: int, batch: Transition, theta_s) -> Array:
    """-log p(s_t | s_tm1, a_tm1; theta_s) of every dimension, averaged over a batch with the axes (domain, row)."""
    row = lambda step, th: log_p_state(heads, parents, scale, n_actions, step, th)  # noqa: E731
    return -jax.vmap(jax.vmap(row, in_axes=(0, None)))(batch, theta_s).mean((0, 1))


def reward(heads: Heads, parents, scale: Scale, n_actions: int, batch: Transition, theta_r) -> Array:
    """-log p(r_t, ended | s_tm1, a_tm1; theta_r), averaged over a batch with the axes (domain, row)."""
    row = lambda step, th: log_p_reward(heads, parents, scale, n_actions, step, th)  # noqa: E731
    return -jax.vmap(jax.vmap(row, in_axes=(0, None)))(batch, theta_r).mean()


def edges(prob: Masks, weight: Sparsity) -> Array:
    """L_reg, lambda_2 to lambda_6: the expected number of edges of each kind."""
    return (
        weight.lambda_2 * prob.c_s_to_r.sum()
        + weight.lambda_3 * prob.c_a_to_r
        + weight.lambda_4 * prob.c_s_to_s.sum()
        + weight.lambda_5 * prob.c_a_to_s.sum()
        + weight.lambda_6 * (prob.c_theta_to_s.sum() + prob.c_theta_to_r.sum())
    )


def distances(theta: Theta, weight: Sparsity) -> Array:
    """L_reg, lambda_7: the mean distance between the thetas of two domains."""
    both = jnp.concatenate([theta.theta_s, theta.theta_r], axis=1)
    return weight.lambda_7 * jnp.abs(both[:, None] - both[None]).sum(-1).mean()


def evidence(heads: Heads, drawn: Masks, prob: Masks, scale: Scale, n_actions: int, batch, theta: Theta) -> Array:
    """A term whose gradient in `prob` is the exact gain of every edge; its value means nothing.

    The expected loss is linear in the probability of one edge, with slope L(edge) - L(no edge). Both are measured on
    the batch, edge by edge. Straight-through gradients would see no gain of an edge that is already open.
    """
    prob_s, prob_r = gates.into_states(prob), gates.into_reward(prob)
    drawn_s, drawn_r = gates.into_states(drawn), gates.into_reward(drawn)

    def gain_s(j) -> Float[Array, " state"]:
        loss = lambda on: transition(  # noqa: E731
            heads, drawn_s.at[:, j].set(on), scale, n_actions, batch, theta.theta_s
        )
        return loss(1.0) - loss(0.0)

    def gain_r(j) -> Float[Array, ""]:
        loss = lambda on: reward(heads, drawn_r.at[j].set(on), scale, n_actions, batch, theta.theta_r)  # noqa: E731
        return loss(1.0) - loss(0.0)

    gains_s = jax.lax.stop_gradient(jax.lax.map(gain_s, jnp.arange(prob_s.shape[1])))
    gains_r = jax.lax.stop_gradient(jax.lax.map(gain_r, jnp.arange(prob_r.shape[0])))
    return (prob_s * gains_s.T).sum() + (prob_r * gains_r).sum()


def terms(
    heads: Heads,
    prob: Masks,
    drawn: Masks,
    theta: Theta,
    scale: Scale,
    n_actions: int,
    batch: Transition,
    weight: Sparsity,
) -> dict[str, Array]:
    """Every term of the objective but `evidence`, by name."""
    return {
        "transition": transition(heads, gates.into_states(drawn), scale, n_actions, batch, theta.theta_s).sum(),
        "reward": reward(heads, gates.into_reward(drawn), scale, n_actions, batch, theta.theta_r),
        "edges": edges(prob, weight),
        "distances": distances(theta, weight),
    }
