"""adarl's own domains as Gymnasium environments, for users who act one step at a time.

In: factors as keywords. Out: the dynamics of `cartpole.py`. Its import registers `adarl/CartPole-v0`;
then `gymnasium.make("adarl/CartPole-v0", gravity=15.0)` makes one.
"""

from functools import partial
from typing import Any, Literal

import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Array, Float, Int, UInt8

from adarl.domains.cartpole import CartPole, CartPoleImages
from adarl.domains.family import unknown
from adarl.domains.functional import Factors
from adarl.types import AdarlError, Step

FACTORS = ("gravity", "mass", "length", "motor", "target", "noise")
OBSERVED = ("state", "image")


class CartPoleEnv(gym.Env[np.ndarray, np.int64]):
    """Balance a pole on a cart that is pushed left (0) or right (1), in the domain of the given factors."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        *,
        friction: bool = True,
        follow: bool | None = None,
        obs: Literal["state", "image"] = "state",
        render_mode: str | None = None,
        **factors: float,
    ):
        """`factors` are any of FACTORS. Naming `target` pays for standing there, unless `follow` says no.

        With `obs="image"` an observation is the small grey picture that adarl's own agents see, in [-1, 1] but for `noise`,
        and `render` shows the same picture without it.
        """
        if obs not in OBSERVED:
            raise AdarlError(unknown("observation", obs, OBSERVED))
        accepted = FACTORS if obs == "image" else FACTORS[:-1]
        for name, value in factors.items():
            if name not in accepted:
                raise AdarlError(unknown("factor", name, accepted))
            if not np.isfinite(value):
                raise AdarlError(f"Factor {name!r} is {value}; it must be a finite number.")
        if factors.get("noise", 0.0) < 0:
            raise AdarlError(f"The noise is {factors['noise']}; a variance is at least 0.")
        if render_mode not in (None, "rgb_array"):
            raise AdarlError(f"The render mode is {render_mode!r}; 'rgb_array' and None are accepted.")
        self.render_mode = render_mode
        kind = CartPoleImages if obs == "image" else CartPole
        self._domain = kind(friction=friction, follow="target" in factors if follow is None else follow)
        self._values = {**self._domain.defaults, **factors}
        self._factors = {name: jnp.float32(value) for name, value in self._values.items()}
        self._s: Float[np.ndarray, " state"] | None = None
        self.action_space = Discrete(2)
        # Velocities have no limit, but Gymnasium wants every bound to be finite.
        free = float(np.finfo(np.float32).max)
        high = np.array([2 * self._domain.position_limit, free, 2 * self._domain.angle_limit, free], np.float32)
        if isinstance(self._domain, CartPoleImages):  # noise has no limit either
            high = np.full(self._domain.image, free if self._values["noise"] else 1.0, np.float32)
        self.observation_space = Box(-high, high)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "*seen"], dict[str, Any]]:
        """Near the upright centre; with `options={"wide": True}` where most poles can still be saved."""
        super().reset(seed=seed)
        wide = bool((options or {}).get("wide", False))
        self._s = np.array(_reset(self._domain, int(self.np_random.integers(2**31)), self._factors, wide))
        return self._seen(), {}

    def step(self, action: int | np.int64) -> tuple[Float[np.ndarray, "*seen"], float, bool, bool, dict[str, Any]]:
        """One step of 0.02 s. It never truncates: the time limit is the registration's."""
        if not self.action_space.contains(action):
            raise AdarlError(f"The action is {action!r}; 0 (left) and 1 (right) are accepted.")
        step = _step(self._domain, self._state(), int(action), self._factors)
        self._s, r, ended = (np.array(value) for value in step)
        return self._seen(), float(r), bool(ended), False, {}

    def _seen(self) -> Float[np.ndarray, "*seen"]:
        """The observation: the state, or an image of it."""
        if not isinstance(self._domain, CartPoleImages):
            return self._state().copy()
        return np.array(_observe(self._domain, int(self.np_random.integers(2**31)), self._state(), self._factors))

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """A picture of the cart, the pole, the track and, where the reward follows one, the target."""
        if self.render_mode is None:
            return None
        if isinstance(self._domain, CartPoleImages):
            clean = _observe(self._domain, 0, self._state(), {**self._factors, "noise": jnp.float32(0.0)})
            grey = np.asarray(127.5 * (clean + 1)).round().astype(np.uint8)
            return np.repeat(np.kron(grey[..., 0], np.ones((LARGER, LARGER), np.uint8))[..., None], 3, axis=-1)
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


@partial(jax.jit, static_argnames="domain")
def _observe(domain: CartPoleImages, seed: Int[Array, ""], s: Float[Array, " state"], factors: Factors) -> Array:
    return domain.observe(jr.key(seed), s, factors)


LARGER = 8
"""Pixels to a side of a pixel, where a small picture is rendered."""
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
