"""Imagined domains: the learned model stepped at thetas between and beyond those of the sources.

In: a world model and the recorded starts. Out: an environment with the functional protocol whose only factor is theta.
A policy that saw five thetas knows nothing of a sixth; the model provides it for free.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from scipy.spatial import Delaunay, QhullError

from adarl.model.world import WorldModel
from adarl.types import Step, Theta

POINTS = 4096  # thetas that stand for a hull


class Imagined(eqx.Module):
    """The learned model as an environment."""

    model: WorldModel
    narrow: Float[Array, "start state"]
    """First states of recorded trials that began where episodes usually do."""
    wide: Float[Array, "other_start state"]
    """First states of the others."""
    around_s: Float[Array, "point theta_s"] | None
    around_r: Float[Array, "point theta_r"] | None
    """Thetas around the sources, see `around`."""
    beyond: float = eqx.field(static=True)

    @classmethod
    def of(cls, model: WorldModel, narrow: Array, wide: Array, beyond: float) -> "Imagined":
        """Imagination that starts where trials began."""
        theta = model.theta
        return cls(model, narrow, wide, around(theta.theta_s, beyond), around(theta.theta_r, beyond), beyond)

    def draw_theta(self, key: PRNGKeyArray) -> Theta:
        """A theta between or beyond the sources."""
        key_s, key_r = jr.split(key)
        return Theta(
            _drawn(key_s, self.model.theta.theta_s, self.around_s, self.beyond),
            _drawn(key_r, self.model.theta.theta_r, self.around_r, self.beyond),
        )

    def reset(self, key: PRNGKeyArray, theta: Theta, wide: Bool[Array, ""]) -> Float[Array, " state"]:
        """Where a recorded trial began."""
        pick = lambda starts: starts[jr.randint(key, (), 0, starts.shape[0])]  # noqa: E731
        return jnp.where(wide, pick(self.wide), pick(self.narrow))

    def step(self, key: PRNGKeyArray, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], theta: Theta) -> Step:
        """One step of the model."""
        return self.model.draw(key, s_tm1, a_tm1, theta)


def box(theta: Float[Array, "domain theta"], beyond: float) -> tuple[Array, Array]:
    """How far imagination goes: past the outermost source, by `beyond` times its distance from the median source.

    The two sides differ, because sources that crowd on one side say that little changes there.
    """
    middle = jnp.median(theta, axis=0)
    low, high = theta.min(0), theta.max(0)
    return low - beyond * (middle - low), high + beyond * (high - middle)


def around(theta: Float[Array, "domain theta"], beyond: float) -> Float[Array, "point theta"] | None:
    """Thetas spread evenly over the hull of the sources, stretched about their median by 1 + `beyond`.

    theta is known up to a linear map only; a hull does not care, while the corners of a box may hold what no plant does.
    None where the hull is the box: where the sources differ along one dimension or fill none.
    """
    points = np.asarray(theta, np.float64)
    moving = np.flatnonzero(np.ptp(points, axis=0) > 1e-6)
    if len(moving) < 2:
        return None
    middle = np.median(points, axis=0)
    stretched = middle + (1 + beyond) * (points - middle)
    try:
        hull = Delaunay(stretched[:, moving])
    except QhullError:  # the sources lie on a line
        return None
    rng = np.random.default_rng(0)
    kept = np.zeros((0, points.shape[1]))
    while len(kept) < POINTS:
        drawn = rng.uniform(stretched.min(0), stretched.max(0), (POINTS, points.shape[1]))
        kept = np.concatenate([kept, drawn[hull.find_simplex(drawn[:, moving]) >= 0]])
    return jnp.asarray(kept[:POINTS], jnp.float32)


def _drawn(key: PRNGKeyArray, theta: Float[Array, "domain theta"], points: Array | None, beyond: float) -> Array:
    if points is not None:
        return points[jr.randint(key, (), 0, points.shape[0])]
    low, high = box(theta, beyond)
    return jr.uniform(key, low.shape, minval=low, maxval=high)
