"""The terms of the objective (paper, Sec. 3.1), each a named function; `terms` joins them in a dict.

With observed states there is no o to reconstruct, and of the KL term only the prior's likelihood of the states themselves is
left. With images, states are drawn from what the encoder believes of them: `believe` makes such rows of trials.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from adarl.model import masks as gates
from adarl.model.world import Heads, Scale, log_p_reward, log_p_state
from adarl.types import Masks, Theta, Transition


@dataclass(frozen=True)
class Sparsity:
    """The weights lambda_1 .. lambda_7 of L_reg.

    Those of edges are shares: what an edge must explain of its target to stay, relative to what all parents explain.
    """

    lambda_1: float = 0.1
    """s -> o; also theta -> o, which the paper leaves unpenalised. Without effect while states are observed."""
    lambda_2: float = 0.005
    """s -> r; also theta -> r, which the paper leaves unpenalised. Failures are rare, so these edges are cheap."""
    lambda_3: float = 0.005
    """a -> r."""
    lambda_4: float = 0.1
    """s -> s."""
    lambda_5: float = 0.1
    """a -> s."""
    lambda_6: float = 0.1
    """theta -> s."""
    lambda_7: float = 0.001
    """|theta_j - theta_k| between domains."""


class Believed(NamedTuple):
    """Rows with the axes (domain, row), as the functions of Eq. 1 are fitted to."""

    steps: Transition
    weight: Float[Array, "domain row"] | None = None
    """One where a step happened, zero elsewhere; None where all did."""
    log_q: Float[Array, "domain row state"] | float = 0.0
    """Of s_t, where it is only believed."""


def transition(
    heads: Heads, parents, scale: Scale, n_actions: int, rows: Believed, theta_s, apart: float | Array = 1.0
) -> Array:
    """-log p(s_t | s_tm1, a_tm1; theta_s) of every dimension, averaged over rows."""
    row = lambda step, th: log_p_state(heads, parents, scale, n_actions, step, th, apart)  # noqa: E731
    return -_mean(jax.vmap(jax.vmap(row, in_axes=(0, None)))(rows.steps, theta_s), rows.weight)


def reward(
    heads: Heads, parents, scale: Scale, n_actions: int, rows: Believed, theta_r, apart: float | Array = 1.0
) -> Array:
    """-log p of r_t and of `ended`, given (s_tm1, a_tm1; theta_r), averaged over rows."""
    row = lambda step, th: log_p_reward(heads, parents, scale, n_actions, step, th, apart)  # noqa: E731
    return -_mean(jax.vmap(jax.vmap(row, in_axes=(0, None)))(rows.steps, theta_r), rows.weight)


def _mean(x: Float[Array, "domain row value"], weight: Float[Array, "domain row"] | None) -> Float[Array, " value"]:
    return x.mean((0, 1)) if weight is None else jnp.einsum("krv,kr->v", x, weight) / weight.sum()


def price(like: Masks, weight: Sparsity) -> Masks:
    """L_reg, lambda_1 to lambda_6: what an edge of each kind must be worth to stay.

    Departs from the paper: an L1 norm of masks that multiply inputs can be evaded by larger weights behind them. Here the
    norm counts edges: an edge stays if its worth exceeds lambda.
    """
    each: dict[str, Any] = {
        "c_s_to_s": weight.lambda_4,
        "c_a_to_s": weight.lambda_5,
        "c_theta_to_s": weight.lambda_6,
        "c_s_to_r": weight.lambda_2,
        "c_a_to_r": weight.lambda_3,
        "c_theta_to_r": weight.lambda_2,
        "c_s_to_o": weight.lambda_1,
        "c_theta_to_o": weight.lambda_1,
    }
    return Masks(**{name: jnp.full(mask.shape, each[name]) for name, mask in vars(like).items()})


def distances(theta: Theta, weight: Sparsity) -> Array:
    """L_reg, lambda_7: the mean distance between the thetas of two domains."""
    both = jnp.concatenate([theta.theta_s, theta.theta_r, theta.theta_o], axis=1)
    return weight.lambda_7 * jnp.abs(both[:, None] - both[None]).sum(-1).mean()


def shrink(heads: Heads, amount: Array) -> Heads:
    """Shorten the weights by which every function reads every input: those that nothing holds on to end at exactly zero.

    L_reg where it acts on functions: the proximal step of a group lasso, one group an edge.
    """

    def shorter(*weights: Array) -> tuple[Array, ...]:
        length = jnp.sqrt(sum((w**2).sum(-2, keepdims=True) for w in weights))
        left = jnp.maximum(1 - amount / jnp.maximum(length, 1e-9), 0.0)
        return tuple(left * w for w in weights)

    into_s = lambda h: (h.transition.linear.weight, h.transition.body.layers[0].weight)  # noqa: E731
    into_r = lambda h: (h.reward.pay.layers[0].weight, h.reward.end.layers[0].weight)  # noqa: E731
    heads = eqx.tree_at(into_s, heads, shorter(*into_s(heads)))
    return eqx.tree_at(into_r, heads, shorter(*into_r(heads)))


UNEXPLAINED = 0.5 * math.log(2 * math.pi * math.e)
"""Nats: the entropy of a standardised variable of which nothing is known."""


def surprise(p: Array) -> Array:
    """Nats: the entropy of an event of this probability."""
    return jax.scipy.special.entr(p) + jax.scipy.special.entr(1 - p)


def worth(heads: Heads, scale: Scale, n_actions: int, rows: Believed, theta: Theta, p_ended: Array) -> Masks:
    """For every edge, L(without it) - L(with it), relative to all that is explained; the other edges in place.

    Relative, because one nat is nothing to a deterministic increment and everything to a noisy one. An edge into the reward
    is worth what it is worth to r or to `ended`, whichever is more: an end is rare, and all the more telling.
    """
    n_state, n_s, n_r = rows.steps.s_tm1.shape[-1], theta.theta_s.shape[1], theta.theta_r.shape[1]
    ones = gates.every_edge(n_state, n_s, n_r, 1.0)
    rows_s, row_r = gates.into_states(ones), gates.into_reward(ones)
    shared = (scale, n_actions, rows)
    with_s = transition(heads, rows_s, *shared, theta.theta_s)
    with_r = reward(heads, row_r, *shared, theta.theta_r)
    without_s = lambda j: transition(heads, rows_s.at[:, j].set(0.0), *shared, theta.theta_s)  # noqa: E731
    without_r = lambda j: reward(heads, row_r.at[j].set(0.0), *shared, theta.theta_r)  # noqa: E731
    into_s = jax.lax.map(without_s, jnp.arange(rows_s.shape[1])).T - with_s[:, None]
    into_r = jax.lax.map(without_r, jnp.arange(row_r.shape[0])) - with_r
    unexplained_s = UNEXPLAINED if rows.weight is None else UNEXPLAINED + jnp.log(_spread(rows))
    explained_s = jnp.maximum(unexplained_s - with_s, 0.1)
    explained_r = jnp.stack([jnp.maximum(UNEXPLAINED - with_r[0], 0.1), jnp.maximum(surprise(p_ended), 1e-3)])
    return gates.from_rows(into_s / explained_s[:, None], (into_r / explained_r).max(1))


def _spread(rows: Believed) -> Float[Array, " state"]:
    """Standard deviation of the increments: those of believed states have no unit of their own."""
    increment = rows.steps.s_t - rows.steps.s_tm1
    centred = increment - _mean(increment, rows.weight)
    return jnp.sqrt(_mean(centred**2, rows.weight) + 1e-6)


def terms(
    heads: Heads,
    masks: Masks,
    theta: Theta,
    scale: Scale,
    n_actions: int,
    rows: Believed,
    weight: Sparsity,
    apart: float | Array,
    free: float = -jnp.inf,
) -> dict[str, Array]:
    """The terms that functions and theta are fitted to, by name. A dimension's divergence costs nothing below `free`."""
    data = (scale, n_actions, rows)
    divergence = transition(heads, gates.into_states(masks), *data, theta.theta_s, apart)
    if rows.weight is not None:
        divergence = divergence + _mean(jnp.asarray(rows.log_q), rows.weight)
    return {
        "transition": jnp.maximum(divergence, free).sum(),
        "reward": reward(heads, gates.into_reward(masks), *data, theta.theta_r, apart).sum(),
        "distances": distances(theta, weight),
    }
