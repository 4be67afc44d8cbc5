from collections.abc import Callable

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from adarl.domains.family import Family
from adarl.domains.host import Host
from adarl.types import AdarlError, Episodes


class Counter(gym.Env):
    """Observes (step, episode). Ends at step `end` and is cut at step `cut`; `fault` happens at step 3."""

    def __init__(self, end: float = 5, cut: float = 99, fault: Callable[[], tuple] | None = None):
        self.action_space, self.observation_space = Discrete(2), Box(0, 99, (2,), np.float64)
        self.end, self.cut, self.fault, self.closed = end, cut, fault, False
        self.s = np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s[:] = 0, self.s[1] + 1
        return self.s, {"unbatchable": object()}

    def step(self, action):
        self.s[0] += 1
        if self.fault and self.s[0] == 3:
            return (*self.fault(), False, False, {})
        return self.s, 2.0 * action, self.s[0] >= self.end, self.s[0] >= self.cut, {}

    def close(self):
        self.closed = True


def acrobot(mass: float) -> gym.Env:
    env = gym.make("Acrobot-v1")
    env.unwrapped.LINK_MASS_2 = mass  # pyright: ignore[reportAttributeAccessIssue]
    return env


def mountain_car(gravity: float) -> gym.Env:
    env = gym.make("MountainCar-v0", max_episode_steps=30)
    env.unwrapped.gravity = gravity  # pyright: ignore[reportAttributeAccessIssue]
    return env


def random_actions(n_actions: int):
    return lambda rng, s: rng.integers(n_actions, size=len(s))


def ones(rng, s):
    return np.ones(len(s), int)


def test_describes_the_environments_and_closes_them():
    made = []

    def make(end: float) -> gym.Env:
        made.append(Counter(end))
        return made[-1]

    host = Host.of(make, ({"end": 3.0}, {"end": 4.0}))
    assert host == Host(make, ("o_0", "o_1"), 2)
    assert len(made) == 2 and all(env.closed for env in made)


@pytest.mark.parametrize(
    ("make", "factor", "sources", "target", "n_state"),
    [(acrobot, "mass", (0.5, 2.0), 1.0, 6), (mountain_car, "gravity", (0.002, 0.003), 0.0025, 2)],
)
def test_families_of_gymnasium_environments(make, factor: str, sources, target: float, n_state: int):
    family = Family.from_gymnasium(make, factor, sources, {"in": target})
    host = family.domain
    assert isinstance(host, Host) and host.n_actions == 3

    def record(seed: int) -> Episodes:
        got = host.record(family.sources, random_actions(3), seed, trials=3, steps=40)
        return jax.tree.map(np.asarray, got)

    first, again, other = record(0), record(0), record(1)
    assert first.s.shape == (2, 3, 41, n_state) and first.s.dtype == np.float32
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert (first.s[:, :, 0] != other.s[:, :, 0]).any() and (first.a != other.a).any()
    assert len(np.unique(first.s[:, :, 0].reshape(6, n_state), axis=0)) == 6


def test_actions_persist():
    host = Host.of(mountain_car, ({"gravity": 0.002},))
    got = host.record(({"gravity": 0.002},), random_actions(3), seed=0, trials=20, steps=40, persist=0.9)
    a = np.asarray(got.a)
    assert abs((a[..., 1:] == a[..., :-1]).mean() - (0.9 + 0.1 / 3)) < 0.03
    assert len(np.unique(a[..., 0])) == 3


def test_a_changed_factor_changes_the_steps():
    host = Host.of(mountain_car, ({"gravity": 0.002},))
    points = ({"gravity": 0.002}, {"gravity": 0.003})
    got = host.record(points, ones, seed=0, trials=2, steps=5)
    for k, point in enumerate(points):
        s, s_t = np.asarray(got.s[k, :, :-1]), np.asarray(got.s[k, :, 1:])
        expected = s[..., 1] - np.cos(3 * s[..., 0]) * point["gravity"]  # action 1 does not push
        np.testing.assert_allclose(s_t[..., 1], expected, atol=1e-6)


def test_time_limits_mask_without_ending():
    got = Host.of(mountain_car, ({"gravity": 0.002},)).record(({"gravity": 0.002},), ones, 0, 2, 40)
    np.testing.assert_array_equal(got.valid, np.broadcast_to(np.arange(40) < 30, (1, 2, 40)))
    assert not got.ended.any()
    np.testing.assert_array_equal(got.s[:, :, 31:], np.repeat(got.s[:, :, 30:31], 10, axis=2))


@pytest.mark.parametrize("trials", [1, 16, 21])
def test_early_endings_are_masked(trials: int):
    points = ({"end": 2.0}, {"end": 4.0})
    got = Host.of(Counter, points).record(points, ones, seed=0, trials=trials, steps=6)
    for k, end in enumerate((2, 4)):
        steps = np.arange(6)
        for j in range(trials):
            np.testing.assert_array_equal(got.valid[k, j], steps < end)
            np.testing.assert_array_equal(got.ended[k, j], steps == end - 1)
            np.testing.assert_array_equal(got.r[k, j], 2.0 * (steps < end))
            np.testing.assert_array_equal(got.s[k, j, :, 0], np.minimum(np.arange(7), end))


@pytest.mark.parametrize(("trials", "steps"), [(0, 5), (5, 0)])
def test_empty_recordings_are_refused(trials: int, steps: int):
    host = Host.of(Counter, ({"end": 2.0},))
    with pytest.raises(AdarlError, match=f"{trials} trials of {steps} steps .* at least 1"):
        host.record(({"end": 2.0},), ones, 0, trials, steps)


def test_vector_steps_and_starts_anew():
    points = ({"end": 2.0}, {"end": 9.0, "cut": 3.0})
    with Host.of(Counter, points).open(points, copies=2) as vector:
        np.testing.assert_array_equal(vector.reset(seed=0), [[0, 1]] * 4)
        first, second, third = (vector.step(np.array([0, 1, 0, 1])) for _ in range(3))
    assert first.s.dtype == first.r.dtype == np.float32
    np.testing.assert_array_equal(first.r, [0, 2, 0, 2])
    np.testing.assert_array_equal(first.start, first.s)
    assert not (first.ended.any() or first.truncated.any())
    np.testing.assert_array_equal(second.ended, [True, True, False, False])
    np.testing.assert_array_equal(second.s, [[2, 1]] * 4)
    np.testing.assert_array_equal(second.start, [[0, 2], [0, 2], [2, 1], [2, 1]])
    np.testing.assert_array_equal(third.truncated, [False, False, True, True])
    np.testing.assert_array_equal(third.s, [[1, 2], [1, 2], [3, 1], [3, 1]])
    np.testing.assert_array_equal(third.start, [[1, 2], [1, 2], [0, 2], [0, 2]])


def test_vector_is_decided_by_the_seed():
    points = ({"gravity": 0.002}, {"gravity": 0.003})
    host = Host.of(mountain_car, points)

    def run(seed: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        with host.open(points, copies=2) as vector:
            start = vector.reset(seed)
            return np.stack([start, *(vector.step(rng.integers(3, size=4)).start for _ in range(70))])

    first, again, other = run(0), run(0), run(1)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(np.concatenate([first[0], other[0]]), axis=0)) == 8


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            lambda: (np.array([3.0, np.nan]), 1.0),
            "gave an observation whose o_1 is nan, which is not finite,",
        ),
        (lambda: (np.array([1e300, 1.0]), 1.0), "gave an observation whose o_0 is inf, which is not finite,"),
        (lambda: (np.zeros(3), 1.0), r"gave an observation of shape \(3,\) instead of \(2,\)"),
        (lambda: (np.zeros(2), -np.inf), "gave the reward -inf, which is not finite,"),
        (lambda: (np.zeros(2), None), "gave the reward nan, which is not finite,"),
        (lambda: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_faults_name_the_domain_and_the_step(fault, message: str):
    def make(end: float) -> gym.Env:
        return Counter(end, fault=fault if end == 7.5 else None)

    points = ({"end": 8.0}, {"end": 7.5})
    host = Host.of(make, points)
    sentence = f"^The environment with end=7.5 {message} at step 3 of an episode.$"
    with pytest.raises(AdarlError, match=sentence):
        host.record(points, ones, 0, trials=1, steps=5)
    with host.open(points, copies=2) as vector:
        for _ in range(2):  # the steps of the first episode do not count in the second
            vector.reset(seed=0)
            vector.step(np.zeros(4, int))
            vector.step(np.zeros(4, int))
        with pytest.raises(AdarlError, match=sentence) as caught:
            vector.step(np.zeros(4, int))
    assert ("raised" in message) == isinstance(caught.value.__cause__, ZeroDivisionError)


class Other(Counter):
    """A Counter whose spaces and first observation can be anything."""

    def __init__(self, actions: gym.Space, observations: gym.Space, first: float = 0.0):
        super().__init__()
        self.action_space, self.observation_space, self.first = actions, observations, first

    def reset(self, *, seed=None, options=None):
        return np.full(self.observation_space.shape or (), self.first), {}


VECTOR, IMAGE = Box(0, 9, (2,)), Box(0, 255, (8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda size: Other(Discrete(2), Box(0, 1, (int(size),))),
            r"observation space .*\(1,\).* with size=1 but",
        ),
        (
            lambda size: Other(Discrete(int(size)), VECTOR),
            r"action space is Discrete\(1\) with size=1 but Disc.*size=2",
        ),
        (
            lambda size: Other(Box(-1, 1, (1,)), VECTOR),
            "action space Box.*; continuous and .* not supported yet",
        ),
        (lambda size: Other(Discrete(2, start=1), VECTOR), "only Discrete ones that start at 0"),
        (lambda size: Other(Discrete(2), IMAGE), "observation space Box.*; images and .* not supported yet"),
        (
            lambda size: Other(Discrete(2), Discrete(4)),
            r"observation space Discrete\(4\);.* only a Box with one axis",
        ),
        (
            lambda size: Other(Discrete(2), VECTOR, np.nan),
            "size=1 gave .* o_0 is nan.* at the start of an episode",
        ),
        (
            lambda mass: Other(Discrete(2), VECTOR),
            r"raised TypeError: .*'size'; it must accept the factors \['size'\]",
        ),
        (lambda size: "CartPole-v1", r"make\(size=1\) returned 'CartPole-v1'; a gymnasium.Env is accepted"),
    ],
)
def test_unusable_environments_are_told_at_once(make, message: str):
    with pytest.raises(AdarlError, match=message):
        Family.from_gymnasium(make, "size", (1.0, 2.0), {})


def test_no_domain_is_no_family():
    with pytest.raises(AdarlError, match="No domain was given"):
        Host.of(Counter, ())
