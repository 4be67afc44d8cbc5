"""The Gymnasium counterpart of `functional.py`: `make(**factors)` is the only thing known about a domain.

In: points of factors, actions. Out: steps of many environments (`Vector`) or `Episodes` (`Host.record`).
The environments come from outside, so all they answer is checked here, once, and nowhere further right.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from jaxtyping import Array, Bool, Float, Int

from adarl.types import AdarlError, Episodes

Point = Mapping[str, float]
"""The factors of one domain, as in `family.py`, which imports this module."""

HostBehaviour = Callable[[np.random.Generator, Float[np.ndarray, "env state"]], Int[np.ndarray, " env"]]

COPIES = 16
"""Environments of one domain that a recording steps side by side: the policy is asked for many at once."""


class HostStep(NamedTuple):
    """What the environments answer to one action each."""

    s: Float[np.ndarray, "env state"]
    """Where the action led: the last state of an episode where one was over."""
    r: Float[np.ndarray, " env"]
    ended: Bool[np.ndarray, " env"]
    """A failure or a goal, as in `Step`."""
    truncated: Bool[np.ndarray, " env"]
    """A time limit: more could have been earned."""
    start: Float[np.ndarray, "env state"]
    """Where to act next: the first state of the next episode where one was over, `s` elsewhere."""


@dataclass(frozen=True)
class Host:
    """Gymnasium environments with vector observations and discrete actions, one for every point."""

    make: Callable[..., gym.Env]
    state_names: tuple[str, ...]
    n_actions: int

    @classmethod
    def of(cls, make: Callable[..., gym.Env], points: Sequence[Point]) -> "Host":
        """Try `make` at every point: it must accept the factors and give the same spaces everywhere."""
        if not points:
            raise AdarlError("No domain was given; the first one says what is observed and which actions exist.")
        spaces = []
        for point in points:
            with _made(make, point) as env:
                _check_spaces(env.action_space, env.observation_space, point)
                _Watched(env, point).reset(seed=0)
                spaces.append({"action": env.action_space, "observation": env.observation_space})
            for kind, space in spaces[-1].items():
                if space != spaces[0][kind]:
                    raise AdarlError(
                        f"The {kind} space is {spaces[0][kind]} with {told(points[0])} but {space} with"
                        f" {told(point)}; all domains of a family must share it."
                    )
        n_state, n_actions = spaces[0]["observation"].shape[0], spaces[0]["action"].n
        return cls(make, tuple(f"o_{i}" for i in range(n_state)), int(n_actions))

    def open(self, points: Sequence[Point], copies: int) -> "Vector":
        """`copies` environments of every point, those of one point side by side."""
        return Vector(self.make, points, copies)

    def record(
        self,
        points: Sequence[Point],
        behave: HostBehaviour,
        seed: int,
        trials: int,
        steps: int,
        persist: float = 0.0,
    ) -> Episodes:
        """`trials` trials of up to `steps` steps in each domain; a trial also ends where its episode does.

        `persist` is the chance that an action is repeated.
        """
        if trials < 1 or steps < 1:
            raise AdarlError(f"{trials} trials of {steps} steps cannot be recorded; both must be at least 1.")
        seed_starts, seed_behave = np.random.SeedSequence(seed).spawn(2)
        starts = seed_starts.generate_state(trials * len(points)).tolist()
        rng = np.random.default_rng(seed_behave)
        with ExitStack() as stack:
            envs = [
                stack.enter_context(_Watched(_made(self.make, point), point))
                for _ in range(min(trials, COPIES))
                for point in points
            ]
            rounds = [
                _record_round(envs, behave, rng, starts[first : first + len(envs)], steps, persist)
                for first in range(0, len(starts), len(envs))
            ]

        def by_domain(*parts: np.ndarray) -> Array:
            rows = np.concatenate(parts)  # trial by trial, and within a trial domain by domain
            return jnp.asarray(rows.reshape(trials, len(points), *rows.shape[1:]).swapaxes(0, 1))

        return Episodes(*map(by_domain, *rounds))


class Vector:
    """Environments in lockstep. An episode that is over is followed by the next one; a context manager."""

    def __init__(self, make: Callable[..., gym.Env], points: Sequence[Point], copies: int):
        def watched(point: Point) -> gym.Env:
            return _Watched(_made(make, point), point)

        makers = [partial(watched, point) for point in points for _ in range(copies)]
        self._envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)

    def __enter__(self) -> "Vector":
        return self

    def __exit__(self, *_: object) -> None:
        self._envs.close()

    def reset(self, seed: int) -> Float[np.ndarray, "env state"]:
        """Start an episode in every environment. What follows is a function of the seed and the actions."""
        # Gymnasium would count up from the seed, and neighbouring seeds would share most of their episodes.
        seeds = np.random.SeedSequence(seed).generate_state(self._envs.num_envs).tolist()
        return self._envs.reset(seed=seeds)[0]

    def step(self, actions: Int[np.ndarray, " env"]) -> HostStep:
        """One action in every environment."""
        start, r, ended, truncated, infos = self._envs.step(np.asarray(actions, np.int64))
        s = start.copy()
        for i in np.flatnonzero(ended | truncated):
            s[i] = infos["final_obs"][i]
        return HostStep(s, r.astype(np.float32), ended, truncated, start)


class _Watched(gym.Wrapper):
    """One environment that answers with fresh, finite float32 arrays or an error naming domain and step.

    Infos are dropped: adarl reads none, and Gymnasium cannot batch every kind of them.
    """

    def __init__(self, env: gym.Env, point: Point):
        super().__init__(env)
        self.observation_space = Box(-np.inf, np.inf, env.observation_space.shape, np.float32)
        self._point = point
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, " state"], dict[str, Any]]:
        """As Gymnasium's, checked."""
        self._steps = 0
        with self._blamed():
            observation, _ = self.env.reset(seed=seed, options=options)
            return self._checked(observation), {}

    def step(self, action: int) -> tuple[Float[np.ndarray, " state"], float, bool, bool, dict[str, Any]]:
        """As Gymnasium's, checked."""
        self._steps += 1
        with self._blamed():
            observation, reward, ended, truncated, _ = self.env.step(action)
            r = _float32(reward).item()
            if not np.isfinite(r):
                raise self._error(f"gave the reward {r}, which is not finite,")
            return self._checked(observation), r, bool(ended), bool(truncated), {}

    def _checked(self, observation: Any) -> Float[np.ndarray, " state"]:
        s, shape = _float32(observation), self.observation_space.shape
        if s.shape != shape:
            raise self._error(f"gave an observation of shape {s.shape} instead of {shape}")
        for i in np.flatnonzero(~np.isfinite(s)):
            raise self._error(f"gave an observation whose o_{i} is {s[i]}, which is not finite,")
        return s

    def _error(self, what: str) -> AdarlError:
        moment = f"step {self._steps}" if self._steps else "the start"
        return AdarlError(f"The environment with {told(self._point)} {what} at {moment} of an episode.")

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except AdarlError:
            raise
        except Exception as error:
            raise self._error(f"raised {_raised(error)}") from error


def _record_round(
    envs: Sequence[_Watched],
    behave: HostBehaviour,
    rng: np.random.Generator,
    seeds: Sequence[int],
    steps: int,
    persist: float,
) -> tuple[np.ndarray, ...]:
    """One trial for every seed: the fields of `Episodes`, with one axis `env` for (domain, trial)."""
    start = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=False)])
    s = np.repeat(start[:, None], steps + 1, axis=1)
    a, r = (np.zeros((len(seeds), steps), kind) for kind in (np.int32, np.float32))
    ended, valid = (np.zeros((len(seeds), steps), np.bool_) for _ in range(2))
    running = list(range(len(seeds)))
    for t in range(steps):
        if not running:
            break
        a[:, t] = behave(rng, s[:, t])
        if persist and t:
            a[:, t] = np.where(rng.random(len(seeds)) < persist, a[:, t - 1], a[:, t])
        valid[running, t] = True
        for i in tuple(running):
            s[i, t + 1], r[i, t], ended[i, t], truncated, _ = envs[i].step(int(a[i, t]))
            if ended[i, t] or truncated:
                s[i, t + 1 :] = s[i, t + 1]
                running.remove(i)
    return s, a, r, ended, valid


def _made(make: Callable[..., gym.Env], point: Point) -> gym.Env:
    try:
        env = make(**point)
    except AdarlError:
        raise
    except Exception as error:
        raise AdarlError(
            f"make({told(point)}) raised {_raised(error)}; it must accept the factors {list(point)} as keywords."
        ) from error
    if not isinstance(env, gym.Env):
        raise AdarlError(f"make({told(point)}) returned {env!r}; a gymnasium.Env is accepted.")
    return env


def _check_spaces(actions: gym.Space, observations: gym.Space, point: Point) -> None:
    if not (isinstance(actions, Discrete) and actions.start == 0):
        raise AdarlError(
            f"The environment with {told(point)} has the action space {actions}; continuous and other"
            " actions are not supported yet, only Discrete ones that start at 0."
        )
    if not (isinstance(observations, Box) and len(observations.shape) == 1):
        raise AdarlError(
            f"The environment with {told(point)} has the observation space {observations}; images and other"
            " observations are not supported yet, only a Box with one axis."
        )


def _float32(value: Any) -> np.ndarray:
    """A copy. What float32 cannot hold becomes infinite, and is then reported as such."""
    with np.errstate(over="ignore"):
        return np.array(value, np.float32)


def told(point: Point) -> str:
    """The factors of a domain in words."""
    return ", ".join(f"{factor}={value:g}" for factor, value in point.items())


def _raised(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).rstrip('.')}"
