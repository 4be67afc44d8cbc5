"""What a step would have been elsewhere: the step as it was lived through, moved by what the model says of another theta.

In: a world model, a step in a source. Out: the same step at a theta between or beyond the sources.

Imagination (`imagine.py`) that follows the model step by step ends in states that no one who looks at images would ever
believe in. One step does not: it starts at a belief, keeps what was unforeseen in the next one, and only the effect of
theta, which is a line in it, is the model's.
"""

import equinox as eqx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.model.world import WorldModel
from adarl.policy.imagine import around, drawn
from adarl.types import Step, Theta


class Elsewhere(eqx.Module):
    """Thetas around the sources, and what they do to a step."""

    model: WorldModel
    around_s: Float[Array, "point theta_s"] | None
    around_r: Float[Array, "point theta_r"] | None
    beyond: float = eqx.field(static=True)

    @classmethod
    def of(cls, model: WorldModel, beyond: float) -> "Elsewhere":
        """Around the sources of a model."""
        return cls(model, around(model.theta.theta_s, beyond), around(model.theta.theta_r, beyond), beyond)

    def draw_theta(self, key: PRNGKeyArray) -> Theta:
        """A theta between or beyond the sources."""
        return drawn(key, self.model.theta, self.around_s, self.around_r, self.beyond)

    def step(self, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], here: Step, theta: Theta, there: Theta) -> Step:
        """`here` is what the step came to at `theta`; this is what it would have come to `there`.

        What stands behind a believed state, such as a memory, stays as it is. By Eq. 1 an end follows from the state before
        it, not from theta_s.
        """
        n = self.model.scale.s_mean.shape[0]
        s = s_tm1[:n]
        moved = self.model.expected(s, a_tm1, there) - self.model.expected(s, a_tm1, theta)
        paid = self.model.pay(s, a_tm1, there, here.ended) - self.model.pay(s, a_tm1, theta, here.ended)
        return Step(here.s.at[:n].add(moved), here.r + paid, here.ended)
