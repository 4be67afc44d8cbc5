"""CartPole as a pure function of its factors (paper, Sec. 4 and Appendix; frictions as in the authors' simulator).

In: key, state, action, factors. Out: the next state by an explicit Euler step of 0.02 s, the reward and whether the
pole fell. With `friction=False` and default factors it equals Gymnasium's CartPole-v1 step for step.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.domains.functional import Factors
from adarl.domains.picture import SHAPE, grain, picture
from adarl.types import Step

TAU = 0.02
FORCE = 10.0
MASS_POLE = 0.1
FRICTION_CART = 5e-4
FRICTION_POLE = 2e-6
NARROW = 0.05
WIDE = (2.4, 1.0, 0.15, 1.0)


@dataclass(frozen=True)
class CartPole:
    """Balance a pole on a cart that is pushed left (0) or right (1)."""

    friction: bool = True
    """The frictions of the authors' simulator; off for Gymnasium's dynamics."""

    angle_limit: float = 15 * jnp.pi / 180
    """Radians at which the pole counts as fallen."""

    position_limit: float = 2.4
    """Metres at which the cart leaves the track."""

    follow: bool = False
    """Whether the reward pays for standing at the factor `target` instead of 1 for every step alive."""

    distractors: int = 0
    """Extra state dimensions that walk at random, moved by the factor `drift` and read by nothing."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """The four physical dimensions, then the distractors."""
        return ("x", "x_dot", "angle", "angle_dot", *(f"walk_{i}" for i in range(self.distractors)))

    @property
    def n_actions(self) -> int:
        """Left and right."""
        return 2

    @property
    def defaults(self) -> Mapping[str, float]:
        """Gymnasium's CartPole-v1. `mass` is the cart's, `length` half the pole's, `motor` multiplies the force."""
        return {"gravity": 9.8, "mass": 1.0, "length": 0.5, "motor": 1.0, "target": 0.0, "drift": 0.0}

    def reset(self, key: PRNGKeyArray, factors: Factors, wide: Bool[Array, ""]) -> Float[Array, " state"]:
        """Near the upright centre, or spread over the states from which most poles can still be saved."""
        spread = jnp.where(wide, jnp.asarray(WIDE), NARROW)
        spread = jnp.concatenate([spread, jnp.full(self.distractors, NARROW)])
        return spread * jr.uniform(key, (4 + self.distractors,), minval=-1.0, maxval=1.0)

    def step(self, key: PRNGKeyArray, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], factors: Factors) -> Step:
        """Explicit Euler: positions move with the old velocities. All constants follow from the factors."""
        x, x_dot, angle, angle_dot = s_tm1[0], s_tm1[1], s_tm1[2], s_tm1[3]
        gravity, length = factors["gravity"], factors["length"]
        total_mass = factors["mass"] + MASS_POLE
        pole_moment = MASS_POLE * length
        force = FORCE * factors["motor"] * jnp.where(a_tm1 == 1, 1.0, -1.0)
        friction_cart = FRICTION_CART * jnp.sign(x_dot) if self.friction else 0.0
        friction_pole = FRICTION_POLE * angle_dot / pole_moment if self.friction else 0.0

        sin, cos = jnp.sin(angle), jnp.cos(angle)
        push = (force + pole_moment * angle_dot**2 * sin - friction_cart) / total_mass
        inertia = length * (4.0 / 3.0 - MASS_POLE * cos**2 / total_mass)
        angle_acc = (gravity * sin - cos * push - friction_pole) / inertia
        x_acc = push - pole_moment * angle_acc * cos / total_mass

        moved = jnp.stack([x + TAU * x_dot, x_dot + TAU * x_acc, angle + TAU * angle_dot, angle_dot + TAU * angle_acc])
        walks = s_tm1[4:] + TAU * (factors["drift"] + jr.normal(key, (self.distractors,)))
        ended = (jnp.abs(moved[0]) > self.position_limit) | (jnp.abs(moved[2]) > self.angle_limit)
        alive = jnp.exp(-jnp.abs(moved[0] - factors["target"])) if self.follow else 1.0
        return Step(jnp.concatenate([moved, walks]), jnp.where(ended, 0.0, alive), ended)

    def recordable(self, s: Float[Array, " state"]) -> Bool[Array, ""]:
        """The wider limits of the paper's recordings: 5 m and 45 degrees."""
        return (jnp.abs(s[0]) <= 5.0) & (jnp.abs(s[2]) <= jnp.pi / 4)


@dataclass(frozen=True)
class CartPoleImages(CartPole):
    """CartPole of which single images are seen: positions, but no velocities."""

    noisy: bool = True
    """Whether `noise` is a factor. To draw it costs as much as to draw the picture, so it is off where no domain has any."""

    @property
    def defaults(self) -> Mapping[str, float]:
        """As in CartPole; `noise` is the variance of what is added to every pixel."""
        return {**super().defaults, **({"noise": 0.0} if self.noisy else {})}

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and one channel."""
        return *SHAPE, 1

    def observe(
        self, key: PRNGKeyArray, s: Float[Array, " state"], factors: Factors
    ) -> Float[Array, "height width channel"]:
        """A picture in [-1, 1], and Gaussian noise, which is not clipped."""
        clean = picture(s[0], s[2], factors["length"])[..., None]
        return clean + jnp.sqrt(factors["noise"]) * grain(key, clean.shape) if self.noisy else clean
