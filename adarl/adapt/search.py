"""The maximum of a posterior over a few dimensions: look at thetas spread over a box around the sources, then climb.

In: the log-likelihood of one row at a theta, and rows. Out: the theta with the most posterior, and its deviations.

Departs from the paper: the maximum is found by Newton's method instead of stochastic gradients on the losses of Sec. 3.1,
because theta has a handful of dimensions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from adarl.policy.imagine import box

PRIOR = 3.0  # standard deviation of theta, which is standardised over the sources
BEYOND = 2.0  # how far the search goes past the outermost source, see `imagine.box`
CANDIDATES = (512, 2048)  # thetas looked at: in one dimension, in more
STARTS = 8  # of the climb
APART = 0.05  # distance of two starts in some dimension, as a share of the box
FEW, SOME = 256, 1024  # rows on which candidates are compared, and from which the climb starts
BLOCK = 4096  # rows in memory at once
CLIMB, POLISH = 15, 6  # steps of Newton's method, at most, on some rows and on all
SETTLED = 1e-4  # squared distance to the maximum, in posterior standard deviations, at which the climb is over
ROUNDING = 1e-6  # relative, of a sum of float32

Rows = Any
"""A tree of arrays with one row an observation."""
LogP = Callable[[Any, Float[Array, " theta"]], Float[Array, ""]]


def search(
    log_p: LogP, sources: Float[Array, "domain theta"], rows: Rows, count: Int[Array, ""]
) -> tuple[Float[Array, " theta"], Float[Array, " theta"]]:
    """The maximum of log N(theta; 0, PRIOR^2) + sum of log_p over `count` rows, and its deviations."""
    low, high = box(sources, BEYOND)
    n_theta = sources.shape[1]
    spread = low + (high - low) * jnp.asarray(evenly(CANDIDATES[n_theta > 1], n_theta), jnp.float32)
    candidates = jnp.concatenate([sources, spread])

    few, n_few = _pick(rows, count, FEW)
    losses = jax.vmap(lambda theta: _loss(log_p, theta, few, n_few))(candidates)
    starts = candidates[_distinct((candidates - low) / (high - low), losses)]

    some, n_some = _pick(rows, count, SOME)
    climbed = jax.vmap(lambda theta: newton(lambda t: _surface(log_p, t, some, n_some), theta, CLIMB))(starts)
    best = climbed.theta[jnp.argmin(climbed.here.loss)]
    last = newton(lambda t: _surface(log_p, t, rows, count), best, POLISH)
    return last.theta, _deviations(last.here)


class Surface(NamedTuple):
    """What a pass over the rows says of the negative log posterior at one theta."""

    loss: Float[Array, ""]
    gradient: Float[Array, " theta"]
    hessian: Float[Array, "theta theta"]
    scatter: Float[Array, "theta theta"]
    """Sum over rows of the outer products of their gradients."""


class Climb(NamedTuple):
    """Newton's method under way."""

    theta: Float[Array, " theta"]
    here: Surface
    damping: Float[Array, ""]
    steps: Int[Array, ""]


def newton(surface: Callable[[Array], Surface], theta: Float[Array, " theta"], steps: int) -> Climb:
    """Levenberg's damped Newton method: a step that does not lead down is taken back and made shorter."""

    def settled(climb: Climb) -> Bool[Array, ""]:
        return climb.here.gradient @ _solve(climb.here.hessian, climb.here.gradient, 0.0) < SETTLED

    def move(climb: Climb) -> Climb:
        theta = climb.theta - _solve(climb.here.hessian, climb.here.gradient, climb.damping)
        there = surface(theta)
        better = there.loss <= climb.here.loss + ROUNDING * jnp.abs(climb.here.loss)
        pick = lambda new, old: jnp.where(better, new, old)  # noqa: E731
        return Climb(
            pick(theta, climb.theta),
            jax.tree.map(pick, there, climb.here),
            climb.damping * pick(0.1, 10.0),
            climb.steps + 1,
        )

    # At first anything is better, and the first step goes nowhere: one surface to compile, not two.
    eye = jnp.eye(theta.shape[0])
    unseen = Surface(jnp.float32(jnp.inf), jnp.zeros_like(theta), eye, eye)
    start = Climb(theta, unseen, jnp.float32(0.1), jnp.int32(-1))
    return jax.lax.while_loop(lambda c: (c.steps < steps) & ((c.steps < 0) | ~settled(c)), move, start)


def _solve(hessian: Array, gradient: Array, damping: float | Array) -> Float[Array, " theta"]:
    """Hessian^-1 gradient with eigenvalues made positive, none below the prior's."""
    values, vectors = jnp.linalg.eigh(hessian)
    values = jnp.maximum(jnp.abs(values), PRIOR**-2) * (1 + damping)
    return vectors @ ((vectors.T @ gradient) / values)


def _deviations(here: Surface) -> Float[Array, " theta"]:
    """The larger of Laplace's H^-1 and the sandwich H^-1 J H^-1, for noise unlike the model's."""
    values, vectors = jnp.linalg.eigh(here.hessian)
    inverse = vectors / jnp.maximum(jnp.abs(values), PRIOR**-2) @ vectors.T
    sandwich = inverse @ here.scatter @ inverse
    return jnp.sqrt(jnp.maximum(jnp.diag(inverse), jnp.diag(sandwich)))


def _loss(log_p: LogP, theta: Array, rows: Rows, count: Int[Array, ""]) -> Float[Array, ""]:
    """-log posterior without its constant, for rows that fit into memory."""
    each = jax.vmap(log_p, in_axes=(0, None))(rows, theta)
    return 0.5 * (theta**2).sum() / PRIOR**2 - _weight(each.shape[0], count) @ each


def _surface(log_p: LogP, theta: Array, rows: Rows, count: Int[Array, ""]) -> Surface:
    """The same with derivatives, for any number of rows: one block after the other."""
    size = min(n_rows(rows), BLOCK)

    def row(step: Any, weight: Array) -> Surface:
        cost = lambda t: -weight * log_p(step, t)  # noqa: E731
        slope = jax.jacfwd(cost)  # forward: theta is small
        gradient = slope(theta)
        return Surface(cost(theta), gradient, jax.jacfwd(slope)(theta), jnp.outer(gradient, gradient))

    def add(i: Int[Array, ""], total: Surface) -> Surface:
        block = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, i * size, size), rows)
        each = jax.vmap(row)(block, _weight(size, count - i * size))
        return jax.tree.map(lambda t, x: t + x.sum(0), total, each)

    eye = jnp.eye(theta.shape[0])
    prior = Surface(0.5 * (theta**2).sum() / PRIOR**2, theta / PRIOR**2, eye / PRIOR**2, 0.0 * eye)
    return jax.lax.fori_loop(0, (count + size - 1) // size, add, prior)


def n_rows(rows: Rows) -> int:
    """How many there are."""
    return jax.tree.leaves(rows)[0].shape[0]


def _weight(n: int, count: Int[Array, ""]) -> Float[Array, " row"]:
    return (jnp.arange(n) < count).astype(jnp.float32)


def _pick(rows: Rows, count: Int[Array, ""], n: int) -> tuple[Rows, Int[Array, ""]]:
    """At most n of the first `count` rows, evenly spread over them."""
    n = min(n, n_rows(rows))
    i = jnp.arange(n)
    # i * count // n, in two parts that do not overflow
    index = jnp.where(count >= n, i * (count // n) + i * (count % n) // n, i)
    return jax.tree.map(lambda x: x[index], rows), jnp.minimum(count, n)


def _distinct(places: Float[Array, "candidate theta"], losses: Float[Array, " candidate"]) -> Int[Array, " start"]:
    """The best candidates, none near a better one: neighbours would climb the same hill."""

    def choose(losses: Array, _: None) -> tuple[Array, Array]:
        best = jnp.argmin(losses)
        near = (jnp.abs(places - places[best]) < APART).all(1)
        return jnp.where(near, jnp.inf, losses), best

    return jax.lax.scan(choose, losses, None, length=STARTS)[1]


def evenly(n: int, n_theta: int) -> Float[np.ndarray, "point theta"]:
    """Points spread evenly over the unit cube: the Kronecker sequence of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(50):
        ratio = (1 + ratio) ** (1 / (n_theta + 1))  # ratio^(n_theta + 1) = ratio + 1
    return (0.5 + np.outer(np.arange(n), ratio ** -np.arange(1.0, n_theta + 1))) % 1.0
