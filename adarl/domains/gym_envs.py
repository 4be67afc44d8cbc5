"""adarl's own domains as Gymnasium environments, for users who act one step at a time.

In: factors as keywords. Out: the dynamics of `cartpole.py`. Its import registers `adarl/CartPole-v0`;
then `gymnasium.make("adarl/CartPole-v0", gravity=15.0)` makes one.
"""

from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Array, Float, Int, UInt8

from adarl.domains.cartpole import CartPole
from adarl.domains.family import unknown
from adarl.domains.functional import Factors
from adarl.types import AdarlError, Step

FACTORS = ("gravity", "mass", "length", "motor", "target")


class CartPoleEnv(gym.Env[np.ndarray, np.int64]):
    """Balance a pole on a cart that is pushed left (0) or right (1), in the domain of the given factors."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        *,
        friction: bool = True,
        follow: bool | None = None,
        render_mode: str | None = None,
        **factors: float,
    ):
        """`factors` are any of FACTORS. Naming `target` pays for standing there, unless `follow` says no."""
        for name, value in factors.items():
            if name not in FACTORS:
                raise AdarlError(unknown("factor", name, FACTORS))
            if not np.isfinite(value):
                raise AdarlError(f"Factor {name!r} is {value}; it must be a finite number.")
        if render_mode not in (None, "rgb_array"):
            raise AdarlError(f"The render mode is {render_mode!r}; 'rgb_array' and None are accepted.")
        self.render_mode = render_mode
        self._domain = CartPole(friction=friction, follow="target" in factors if follow is None else follow)
        self._values = {**self._domain.defaults, **factors}
        self._factors = {name: jnp.float32(value) for name, value in self._values.items()}
        self._s: Float[np.ndarray, " state"] | None = None
        self.action_space = Discrete(2)
        # Velocities have no limit, but Gymnasium wants every bound to be finite.
        free = float(np.finfo(np.float32).max)
        high = np.array([2 * self._domain.position_limit, free, 2 * self._domain.angle_limit, free], np.float32)
        self.observation_space = Box(-high, high)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, " state"], dict[str, Any]]:
        """Near the upright centre; with `options={"wide": True}` where most poles can still be saved."""
        super().reset(seed=seed)
        wide = bool((options or {}).get("wide", False))
        self._s = np.array(_reset(self._domain, int(self.np_random.integers(2**31)), self._factors, wide))
        return self._s.copy(), {}

    def step(self, action: int | np.int64) -> tuple[Float[np.ndarray, " state"], float, bool, bool, dict[str, Any]]:
        """One step of 0.02 s. It never truncates: the time limit is the registration's."""
        if not self.action_space.contains(action):
            raise AdarlError(f"The action is {action!r}; 0 (left) and 1 (right) are accepted.")
        step = _step(self._domain, self._state(), int(action), self._factors)
        self._s, r, ended = (np.array(value) for value in step)
        return self._s.copy(), float(r), bool(ended), False, {}

    def render(self) -> UInt8[np.ndarray, "400 600 3"] | None:
        """A picture of the cart, the pole, the track and, where the reward follows one, the target."""
        if self.render_mode is None:
            return None
        target = self._values["target"] if self._domain.follow else None
        return draw(self._state(), self._values["length"], target)

    def _state(self) -> Float[np.ndarray, " state"]:
        if self._s is None:
            raise gym.error.ResetNeeded("Call reset() before step() or render().")
        return self._s


@partial(jax.jit, static_argnames="domain")
def _reset(domain: CartPole, seed: Int[Array, ""], factors: Factors, wide: Array) -> Float[Array, " state"]:
    return domain.reset(jr.key(seed), factors, wide)


@partial(jax.jit, static_argnames="domain")
def _step(domain: CartPole, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], factors: Factors) -> Step:
    return domain.step(jr.key(0), s_tm1, a_tm1, factors)  # without distractors nothing is drawn from the key


PIXELS_PER_METRE = 120.0
WHITE, BLACK, BROWN, RED = (255, 255, 255), (0, 0, 0), (202, 152, 101), (200, 40, 40)


def draw(s: Float[np.ndarray, " state"], length: float, target: float | None) -> UInt8[np.ndarray, "400 600 3"]:
    """The scene from the side. `length` is half the pole's, as in `CartPole.defaults`."""
    picture = np.full((400, 600, 3), WHITE, np.uint8)
    cart = 300 + PIXELS_PER_METRE * s[0]
    pole = 2 * length * PIXELS_PER_METRE
    _line(picture, (0, 300), (600, 300), 1, BLACK)
    if target is not None:
        mark = 300 + PIXELS_PER_METRE * target
        _line(picture, (mark, 320), (mark, 350), 4, RED)
    _line(picture, (cart - 20, 300), (cart + 20, 300), 15, BLACK)
    _line(picture, (cart, 300), (cart + pole * np.sin(s[2]), 300 - pole * np.cos(s[2])), 5, BROWN)
    return picture


def _line(
    picture: np.ndarray,
    start: tuple[float, float],
    end: tuple[float, float],
    radius: float,
    colour: tuple[int, int, int],
) -> None:
    """Paint every pixel within `radius` of the segment from `start` to `end`, both (x, y)."""
    rows, columns = np.ogrid[: picture.shape[0], : picture.shape[1]]
    x, y = columns - start[0], rows - start[1]
    width, height = end[0] - start[0], end[1] - start[1]
    share = np.clip((x * width + y * height) / (width**2 + height**2), 0.0, 1.0)
    picture[(x - share * width) ** 2 + (y - share * height) ** 2 <= radius**2] = colour


if "adarl/CartPole-v0" not in gym.registry:
    gym.register("adarl/CartPole-v0", "adarl.domains.gym_envs:CartPoleEnv", max_episode_steps=10_000)
