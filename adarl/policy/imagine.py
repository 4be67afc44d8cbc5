"""Imagined domains: the learned model stepped at thetas between and beyond those of the sources.

In: a world model and the recorded starts. Out: an environment with the functional protocol whose only factor is theta.
A policy that saw five thetas knows nothing of a sixth; the model provides it for free.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.model.world import WorldModel
from adarl.types import Step, Theta


class Imagined(eqx.Module):
    """The learned model as an environment."""

    model: WorldModel
    narrow: Float[Array, "start state"]
    """First states of recorded trials that began where episodes usually do."""
    wide: Float[Array, "other_start state"]
    """First states of the others."""
    beyond: float = eqx.field(static=True)

    def draw_theta(self, key: PRNGKeyArray) -> Theta:
        """A theta from the box around the sources."""
        key_s, key_r = jr.split(key)
        return Theta(
            _from_box(key_s, self.model.theta.theta_s, self.beyond),
            _from_box(key_r, self.model.theta.theta_r, self.beyond),
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


def _from_box(key: PRNGKeyArray, theta: Float[Array, "domain theta"], beyond: float) -> Float[Array, " theta"]:
    low, high = box(theta, beyond)
    return jr.uniform(key, low.shape, minval=low, maxval=high)
