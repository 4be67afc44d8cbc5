"""Imagined domains: the learned model stepped at thetas between and beyond those of the sources.

In: a world model and the recorded starts. Out: an environment with the functional protocol whose only factor is theta.
A policy that saw five thetas knows nothing of a sixth; the model provides it for free.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.model.world import WorldModel
from adarl.types import Step, Theta

POINTS = 4096  # thetas drawn around the sources


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

    @property
    def outermost(self) -> Theta:
        """The thetas of the sources, stretched to where imagination ends: the hardest domains are among them."""
        return jax.tree.map(lambda theta: stretched(theta, self.beyond), self.model.theta)

    def draw_theta(self, key: PRNGKeyArray) -> Theta:
        """A theta between or beyond the sources."""
        return drawn(key, self.model.theta, self.around_s, self.around_r, self.beyond)

    def nearer(self, theta: Theta, share: Float[Array, ""]) -> Theta:
        """A theta at `share` of its distance from the median of the sources."""

        def one(sources: Array, theta: Array) -> Array:
            middle = jnp.median(sources, axis=0)
            return middle + share * (theta - middle)

        return jax.tree.map(one, self.model.theta, theta)

    def reset(self, key: PRNGKeyArray, theta: Theta, wide: Bool[Array, ""]) -> Float[Array, " state"]:
        """Where a recorded trial began."""
        pick = lambda starts: starts[jr.randint(key, (), 0, starts.shape[0])]  # noqa: E731
        return jnp.where(wide, pick(self.wide), pick(self.narrow))

    def step(self, key: PRNGKeyArray, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], theta: Theta) -> Step:
        """One step of the model."""
        return self.model.draw(key, s_tm1, a_tm1, theta)


def stretched(theta: Float[Array, "domain theta"], beyond: float) -> Float[Array, "domain theta"]:
    """The sources moved away from their median by 1 + `beyond`.

    The two sides differ, because sources that crowd on one side say that little changes there.
    """
    middle = jnp.median(theta, axis=0)
    return middle + (1 + beyond) * (theta - middle)


def box(theta: Float[Array, "domain theta"], beyond: float) -> tuple[Array, Array]:
    """How far imagination goes in every dimension."""
    outer = stretched(theta, beyond)
    return outer.min(0), outer.max(0)


def around(theta: Float[Array, "domain theta"], beyond: float) -> Float[Array, "point theta"] | None:
    """Thetas around the sources: between two of them, and up to 1 + `beyond` times as far from the median.

    They are as dense as the sources are, for theta is known up to a linear map only: where sources crowd, little of it
    means much. None where theta has one dimension that changes, which is better filled evenly.
    """
    points = np.asarray(theta, np.float64)
    if (np.ptp(points, axis=0) > 1e-6).sum() < 2:
        return None
    rng = np.random.default_rng(0)
    one, other = points[rng.integers(len(points), size=(2, POINTS))]
    share, reach = rng.uniform(size=(POINTS, 1)), (1 + beyond) * np.sqrt(rng.uniform(size=(POINTS, 1)))
    middle = np.median(points, axis=0)
    return jnp.asarray(middle + reach * (share * one + (1 - share) * other - middle), jnp.float32)


def drawn(key: PRNGKeyArray, sources: Theta, around_s: Array | None, around_r: Array | None, beyond: float) -> Theta:
    """A theta of the points `around` the sources, or of the box where there are none."""
    key_s, key_r = jr.split(key)

    def one(key: PRNGKeyArray, theta: Float[Array, "domain theta"], points: Array | None) -> Array:
        if points is not None:
            return points[jr.randint(key, (), 0, points.shape[0])]
        low, high = box(theta, beyond)
        return jr.uniform(key, low.shape, minval=low, maxval=high)

    theta_o = sources.theta_o.mean(0)  # of no use to a policy, which never sees it
    return Theta(one(key_s, sources.theta_s, around_s), one(key_r, sources.theta_r, around_r), theta_o)
