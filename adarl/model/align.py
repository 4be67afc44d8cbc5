"""Axes for theta_s: one dimension is one change (paper, Sec. 3.1, the minimal change principle).

In: heads and theta, fitted with every edge. Out: the same model in other coordinates of theta_s, in which
each dimension moves as few states as possible.

The heads are affine in theta_s, so the likelihood does not see an invertible map theta' = A (theta - m) that
the slopes undo. But the masks do: c_theta_to_s is sparse, and theta_min of Definition 1 can drop a dimension,
only where each dimension of theta_s is one change and no mixture of two.
"""

from collections.abc import Callable
from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.model.rows import Rows
from adarl.model.transition import TransitionHead
from adarl.model.world import Heads, Scale, encode
from adarl.types import Theta

STEPS = 4096
"""Over which the effects of theta_s are averaged, all domains together."""
FAINT = 1e-4
"""Variance over the sources, relative to the largest direction's: with less, they do not differ."""
NEGLIGIBLE = 1e-4
"""Mean square of what theta_s moves, in units of the standardised increment: less is no effect."""
SWEEPS = 50
"""At most, over all pairs of dimensions."""
GAIN = 0.02
"""Share of `spread` that a shear must save: otherwise the axes stay uncorrelated over the sources."""
GRID = np.concatenate([[0.0], *([x, -x] for x in np.geomspace(1.0, 1e-4, 49))])
"""Angles and shears that are tried for a pair. Zero is first: without a gain nothing moves."""


def align(heads: Heads, theta: Theta, rows: Rows, scale: Scale, n_actions: int, key: PRNGKeyArray) -> tuple[Heads, Theta]:
    """The same predictions for every source, with a theta_s of unit variance and one change a dimension."""
    gram = np.asarray(effects(heads.transition, rows, scale, n_actions, key), np.float64)
    m, a = axes(np.asarray(theta.theta_s, np.float64), gram)
    moved = reparametrise(heads.transition, jnp.asarray(m, jnp.float32), jnp.asarray(np.linalg.inv(a), jnp.float32))
    theta_s = jnp.asarray((np.asarray(theta.theta_s, np.float64) - m) @ a.T, jnp.float32)
    return Heads(moved, heads.reward), Theta(theta_s, theta.theta_r)


@eqx.filter_jit
def effects(
    heads: TransitionHead, rows: Rows, scale: Scale, n_actions: int, key: PRNGKeyArray
) -> Float[Array, "state theta_s theta_s"]:
    """G_i = E[slope_i slope_i^T]: how theta_s moves the mean of s_i, every parent in place."""
    n_domains = rows.count.shape[0]
    index = jr.randint(key, (n_domains, -(-STEPS // n_domains)), 0, rows.count[:, None])
    take = jax.vmap(lambda x, i: x[i])
    s_tm1, a_tm1 = take(rows.transition.s_tm1, index), take(rows.transition.a_tm1, index)

    def row(head: TransitionHead, s_tm1: Array, a_tm1: Array) -> Float[Array, " theta_s"]:
        features = head.features(jnp.concatenate(encode(scale, n_actions, s_tm1, a_tm1)))
        return head.slopes(features).mean(0)  # the open phase fits one mode, the plain mean of the components

    def one(head: TransitionHead) -> Float[Array, "theta_s theta_s"]:
        slopes = jax.vmap(jax.vmap(lambda s, a: row(head, s, a)))(s_tm1, a_tm1)
        return jnp.einsum("krj,krl->jl", slopes, slopes) / (slopes.shape[0] * slopes.shape[1])

    return eqx.filter_vmap(one)(heads)


def axes(
    theta_s: Float[np.ndarray, "domain theta_s"], gram: Float[np.ndarray, "state theta_s theta_s"]
) -> tuple[Float[np.ndarray, " theta_s"], Float[np.ndarray, "theta_s theta_s"]]:
    """The m and A of theta' = A (theta - m).

    Directions in which the sources do not differ come last; they are neither amplified nor turned.
    """
    m = theta_s.mean(0)
    variance, directions = np.linalg.eigh(np.cov(theta_s, rowvar=False, bias=True).reshape(m.size, m.size))
    variance, directions = variance[::-1], directions[:, ::-1]
    if variance[0] < 1e-12:  # theta never moved
        return m, np.eye(m.size)
    live = variance > FAINT * variance[0]
    whiten = directions.T / np.sqrt(np.where(live, variance, variance[0]))[:, None]
    back = np.linalg.inv(whiten)[:, live]
    seen = back.T @ gram @ back
    size = np.trace(seen, axis1=1, axis2=2)
    kept = size > NEGLIGIBLE
    # A large effect must not drown a small one: which states a dimension moves counts, not how far.
    turn = np.eye(m.size)
    turn[: live.sum(), : live.sum()] = sparse_axes(seen[kept] / size[kept, None, None])
    return m, turn @ whiten


def spread(gram: Float[np.ndarray, "... state theta_s theta_s"]) -> Float[np.ndarray, "..."]:
    """Sum over i, j of sqrt(G_i,jj): small where each dimension moves few states, as in varimax."""
    return np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0.0)).sum((-2, -1))


def sparse_axes(gram: Float[np.ndarray, "state theta_s theta_s"]) -> Float[np.ndarray, "theta_s theta_s"]:
    """The T of theta' = T theta that minimises `spread`; theta is white, theta' has unit variances.

    First over rotations, by Jacobi sweeps: exact if the changes are uncorrelated over the sources. Then over
    shears of one axis towards another, for those that are not.
    """
    rotated = _sweep(gram, np.eye(gram.shape[-1]), _rotations)
    sheared = _sweep(gram, rotated, _shears)
    return sheared if _spread_after(sheared, gram) < (1 - GAIN) * _spread_after(rotated, gram) else rotated


def _sweep(gram: np.ndarray, turn: np.ndarray, candidates: Callable[[int, int, int], np.ndarray]) -> np.ndarray:
    """Take the best candidate for one pair of dimensions after the other, until none is better."""
    n = gram.shape[-1]
    for _ in range(SWEEPS):
        before = turn
        for one, other in permutations(range(n), 2):
            tried = candidates(n, one, other) @ turn
            tried /= np.linalg.norm(tried, axis=-1, keepdims=True)
            turn = tried[np.argmin(_spread_after(tried[:, None], gram))]
        if np.array_equal(turn, before):
            break
    return turn


def _spread_after(turn: np.ndarray, gram: np.ndarray) -> np.ndarray:
    back = np.linalg.inv(turn)
    return spread(back.swapaxes(-1, -2) @ gram @ back)


def _rotations(n: int, one: int, other: int) -> Float[np.ndarray, "candidate theta_s theta_s"]:
    """Up to 45 degrees: beyond, two axes change places."""
    angle = np.pi / 4 * GRID
    moves = np.tile(np.eye(n), (GRID.size, 1, 1))
    moves[:, one, one] = moves[:, other, other] = np.cos(angle)
    moves[:, one, other], moves[:, other, one] = np.sin(angle), -np.sin(angle)
    return moves


def _shears(n: int, one: int, other: int) -> Float[np.ndarray, "candidate theta_s theta_s"]:
    """One axis moves towards the other."""
    moves = np.tile(np.eye(n), (GRID.size, 1, 1))
    moves[:, one, other] = GRID
    return moves


def reparametrise(
    heads: TransitionHead, m: Float[Array, " theta_s"], back: Float[Array, "theta_s theta_s"]
) -> TransitionHead:
    """The heads for theta' where theta = m + back @ theta'. Exact: slopes and base share their features."""
    n_state, _, hidden = heads.slope.weight.shape
    components = heads.linear.out_features
    weight = heads.slope.weight.reshape(n_state, components, m.size, hidden)
    assert heads.slope.bias is not None and heads.out.bias is not None
    bias = heads.slope.bias.reshape(n_state, components, m.size)
    means = slice(components, 2 * components)  # the middle third of `out`, see `mixture.from_raw`
    return eqx.tree_at(
        lambda h: (h.slope.weight, h.slope.bias, h.out.weight, h.out.bias),
        heads,
        (
            jnp.einsum("icth,tu->icuh", weight, back).reshape(heads.slope.weight.shape),
            jnp.einsum("ict,tu->icu", bias, back).reshape(heads.slope.bias.shape),
            heads.out.weight.at[:, means].add(jnp.einsum("icth,t->ich", weight, m)),
            heads.out.bias.at[:, means].add(jnp.einsum("ict,t->ic", bias, m)),
        ),
    )
