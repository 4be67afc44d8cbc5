"""HOW: theta of a target from N samples, everything else frozen (Algorithm 1, lines 20 and 21).

In: the world model and a few steps of the target. Out: `Estimate`, theta with standard deviations.

theta_s speaks through the states only and theta_r through the reward only, so they are two small searches.
Each looks at thetas spread over a box around the sources, then climbs from the best of them.

Departs from the paper: the posterior's maximum is found by Newton's method instead of stochastic gradients on
the losses of Sec. 3.1, because theta has a handful of dimensions.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from adarl.model.masks import into_reward, into_states
from adarl.model.world import WorldModel, log_p_reward, log_p_state
from adarl.policy.imagine import box
from adarl.types import AdarlError, Episodes, Theta, Transition

PRIOR = 3.0  # standard deviation of theta, which is standardised over the sources
BEYOND = 2.0  # how far the search goes past the outermost source, see `imagine.box`
CANDIDATES = (512, 2048)  # thetas looked at: in one dimension, in more
STARTS = 8  # of the climb
APART = 0.05  # distance of two starts in some dimension, as a share of the box
FEW, SOME = 256, 1024  # rows on which candidates are compared, and from which the climb starts
MOST = 8192  # rows that are looked at, spread evenly: the model's bias outweighs what more of them could tell
BLOCK = 4096  # rows in memory at once
CLIMB, POLISH = 15, 6  # steps of Newton's method, at most, on some rows and on all
SETTLED = 1e-4  # squared distance to the maximum, in posterior standard deviations, at which the climb is over
ROUNDING = 1e-6  # relative, of a sum of float32

LogP = Callable[[Transition, Float[Array, " theta"]], Float[Array, ""]]


class Estimate(eqx.Module):
    """What is known of a target."""

    theta: Theta
    """Without a domain axis. A dimension that no mask lets through is 0."""
    sd: Theta
    """Posterior standard deviations. They tell noise, not the model's own bias, which stays."""


def adapt(model: WorldModel, episodes: Episodes) -> Estimate:
    """The theta of the domain that the episodes come from; of all together, should there be several."""
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), episodes.transitions())
    return estimate(model, rows, episodes.valid.reshape(-1))


def first_steps(episodes: Episodes, n: int) -> Episodes:
    """Only the first `n` steps of every domain, in the order of the trials; all if there are fewer."""
    shape = episodes.valid.shape
    count = jnp.cumsum(episodes.valid.reshape(shape[0], -1), axis=1).reshape(shape)
    return eqx.tree_at(lambda e: e.valid, episodes, episodes.valid & (count <= n))


def estimate(model: WorldModel, rows: Transition, valid: Bool[Array, " row"]) -> Estimate:
    """The posterior's maximum and its width. Deterministic; time grows with the rows up to MOST of them."""
    kept = np.flatnonzero(np.asarray(valid))
    if kept.size == 0:
        raise AdarlError("0 samples were given; at least 1 is needed.")
    kept = kept[np.arange(min(kept.size, MOST)) * kept.size // min(kept.size, MOST)]
    # A power of two, so that different N share a compiled program.
    padded = np.zeros(max(64, 1 << (kept.size - 1).bit_length()), np.int32)
    padded[: kept.size] = kept
    rows = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[padded]), rows)
    open_s = np.flatnonzero(np.asarray(model.masks.c_theta_to_s).any(0))
    open_r = np.flatnonzero(np.asarray(model.masks.c_theta_to_r))
    return _estimate(model, rows, jnp.int32(kept.size), tuple(open_s.tolist()), tuple(open_r.tolist()))


@eqx.filter_jit
def _estimate(
    model: WorldModel,
    rows: Transition,
    count: Int[Array, ""],
    open_s: tuple[int, ...],
    open_r: tuple[int, ...],
) -> Estimate:
    shared = (model.scale, model.n_actions)

    def of_states(step: Transition, raw: Float[Array, " theta_s"]) -> Float[Array, ""]:
        return log_p_state(model.heads, into_states(model.masks), *shared, step, raw).sum()

    def of_reward(step: Transition, raw: Float[Array, " theta_r"]) -> Float[Array, ""]:
        return log_p_reward(model.heads, into_reward(model.masks), *shared, step, raw).sum()

    theta_s, sd_s = _open_only(
        of_states,
        model.theta.theta_s,
        model.theta_mean.theta_s,
        model.theta_scale.theta_s,
        open_s,
        rows,
        count,
    )
    theta_r, sd_r = _open_only(
        of_reward,
        model.theta.theta_r,
        model.theta_mean.theta_r,
        model.theta_scale.theta_r,
        open_r,
        rows,
        count,
    )
    return Estimate(Theta(theta_s, theta_r), Theta(sd_s, sd_r))


def _open_only(
    log_p_raw: LogP,
    sources: Float[Array, "domain theta"],
    mean: Float[Array, " theta"],
    scale: Float[Array, " theta"],
    opened: tuple[int, ...],
    rows: Transition,
    count: Int[Array, ""],
) -> tuple[Float[Array, " theta"], Float[Array, " theta"]]:
    """`search` over the dimensions that a mask lets through; the others are 0."""
    zero = jnp.zeros(sources.shape[1])
    if not opened:
        return zero, zero
    index = np.asarray(opened)

    def log_p(step: Transition, theta: Float[Array, " open"]) -> Float[Array, ""]:
        return log_p_raw(step, mean + scale * zero.at[index].set(theta))

    theta, sd = search(log_p, sources[:, index], rows, count)
    return zero.at[index].set(theta), zero.at[index].set(sd)


def search(
    log_p: LogP, sources: Float[Array, "domain theta"], rows: Transition, count: Int[Array, ""]
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


def _loss(log_p: LogP, theta: Array, rows: Transition, count: Int[Array, ""]) -> Float[Array, ""]:
    """-log posterior without its constant, for rows that fit into memory."""
    each = jax.vmap(log_p, in_axes=(0, None))(rows, theta)
    return 0.5 * (theta**2).sum() / PRIOR**2 - _weight(each.shape[0], count) @ each


def _surface(log_p: LogP, theta: Array, rows: Transition, count: Int[Array, ""]) -> Surface:
    """The same with derivatives, for any number of rows: one block after the other."""
    size = min(rows.r_t.shape[0], BLOCK)

    def row(step: Transition, weight: Array) -> Surface:
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


def _weight(n_rows: int, count: Int[Array, ""]) -> Float[Array, " row"]:
    return (jnp.arange(n_rows) < count).astype(jnp.float32)


def _pick(rows: Transition, count: Int[Array, ""], n: int) -> tuple[Transition, Int[Array, ""]]:
    """At most n of the first `count` rows, evenly spread over them."""
    n = min(n, rows.r_t.shape[0])
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


def implied_factor(
    theta_sources: ArrayLike,
    factor_values: ArrayLike,
    theta_target: ArrayLike,
) -> float:
    """The value of the factor that a one-dimensional theta stands for, by a calibration on the sources.

    Of a few curves from theta to the factor, the one that best tells each source from the others is taken.
    Only to judge an estimate: the learner never sees a factor.
    """
    theta = np.asarray(theta_sources, np.float64)
    values = np.asarray(factor_values, np.float64)
    target = np.asarray(theta_target, np.float64).item()
    if theta.shape != values.shape or theta.ndim != 1 or theta.size < 2:
        raise AdarlError(
            f"theta has the shape {theta.shape} and the factor {values.shape}; both need one number for"
            " each of at least 2 sources."
        )
    curves = [_line(lambda f: f, lambda y: y)]
    if (values > 0).all():
        curves.append(_line(np.log, np.exp))
    if (values > 0).all() or (values < 0).all():
        curves.append(_line(np.reciprocal, np.reciprocal))
    if theta.size >= 5:
        curves += [_quadratic, _mobius]

    def left_out(curve: Curve) -> float:
        rest = ~np.eye(theta.size, dtype=bool)
        error = [curve(theta[r], values[r], t) - f for r, t, f in zip(rest, theta, values, strict=True)]
        return float(np.square(error).sum())

    with np.errstate(all="ignore"):  # a curve with a pole at a source has an infinite error and is not taken
        errors = [left_out(curve) if theta.size > 2 else 0.0 for curve in curves]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        return float(curves[best](theta, values, target))


Curve = Callable[[np.ndarray, np.ndarray, float], float]
"""(theta of the sources, their factors, another theta) -> its factor."""


def _line(link: Callable[[np.ndarray], np.ndarray], back: Callable[[np.ndarray], np.ndarray]) -> Curve:
    """link(factor) = a + b theta."""
    return lambda theta, values, t: back(np.polyval(np.polyfit(theta, link(values), 1), t)).item()


def _quadratic(theta: np.ndarray, values: np.ndarray, t: float) -> float:
    """The curve factor = a + b theta + c theta^2."""
    return np.polyval(np.polyfit(theta, values, 2), t).item()


def _mobius(theta: np.ndarray, values: np.ndarray, t: float) -> float:
    """The curve factor = (a + b theta) / (1 + c theta): theta is linear in 1 / (factor + d)."""
    a, b, c = np.linalg.lstsq(np.stack([np.ones_like(theta), theta, -theta * values], 1), values)[0]
    return ((a + b * t) / (1 + c * t)).item()
