import importlib
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from adarl.domains import gym_envs
from adarl.domains.cartpole import CartPole
from adarl.domains.gym_envs import CartPoleEnv
from adarl.types import AdarlError

ID = "adarl/CartPole-v0"


IMAGES: Any = {"obs": "image"}


@pytest.mark.parametrize("factors", [{}, {"motor": -1.0}, {"target": 0.3}, IMAGES, {**IMAGES, "noise": 0.5}])
def test_passes_gymnasiums_own_check(factors: dict[str, Any]):
    check_env(gym.make(ID, render_mode="rgb_array", **factors).unwrapped)


def test_is_registered_once_with_its_time_limit():
    importlib.reload(gym_envs)
    spec = gym.make(ID, gravity=15.0).spec
    assert spec is not None
    assert spec.max_episode_steps == 10_000


def test_steps_are_those_of_the_functional_domain():
    env = CartPoleEnv(gravity=20.0, mass=2.0, length=0.7, motor=-1.5)
    domain = CartPole()
    changed = {"gravity": 20.0, "mass": 2.0, "length": 0.7, "motor": -1.5}
    factors = {name: jnp.asarray(value) for name, value in {**domain.defaults, **changed}.items()}
    s, _ = env.reset(seed=0, options={"wide": True})
    for a in (0, 1, 1, 0, 1):
        expected = domain.step(jr.key(0), jnp.asarray(s), jnp.asarray(a), factors)
        s, r, ended, truncated, _ = env.step(a)
        np.testing.assert_allclose(s, expected.s, rtol=1e-5, atol=1e-6)
        assert (r, ended, truncated) == (float(expected.r), bool(expected.ended), False)


def test_the_seed_decides_the_start():
    env = CartPoleEnv()
    first, again, other = (env.reset(seed=seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (env.reset()[0] != other).any()


def test_wide_starts_leave_the_centre():
    env = CartPoleEnv()
    narrow = [env.reset(seed=seed)[0] for seed in range(20)]
    wide = [env.reset(seed=seed, options={"wide": True})[0] for seed in range(20)]
    assert np.abs(narrow).max() <= 0.05
    assert np.abs(wide).max() > 1.0


@pytest.mark.parametrize(
    ("keywords", "follows"), [({}, False), ({"target": 1.0}, True), ({"target": 1.0, "follow": False}, False)]
)
def test_naming_a_target_pays_for_standing_there(keywords, follows: bool):
    env = CartPoleEnv(**keywords)
    env.reset(seed=0)
    s, r, _, _, _ = env.step(1)
    assert r == pytest.approx(np.exp(-abs(s[0] - 1.0)) if follows else 1.0)


def test_friction_can_be_left_out():
    rough, smooth = CartPoleEnv(), CartPoleEnv(friction=False)
    for env in (rough, smooth):
        env.reset(seed=0)
    assert (rough.step(1)[0] != smooth.step(1)[0]).any()


def test_the_picture_shows_cart_pole_and_target():
    def picture(**factors: Any) -> np.ndarray:
        env = CartPoleEnv(render_mode="rgb_array", **factors)
        env.reset(seed=0)
        picture = env.render()
        assert picture is not None
        return picture

    plain, target, short = picture(), picture(target=1.0), picture(length=0.25)
    assert plain.shape == (400, 600, 3) and plain.dtype == np.uint8
    np.testing.assert_array_equal(plain[290, 280], gym_envs.BLACK)
    np.testing.assert_array_equal(plain[200, 300], gym_envs.BROWN)
    np.testing.assert_array_equal(short[200, 300], gym_envs.WHITE)
    np.testing.assert_array_equal(target[335, 420], gym_envs.RED)
    assert CartPoleEnv().render() is None


def test_images_are_those_that_are_rendered():
    env = CartPoleEnv(render_mode="rgb_array", gravity=15.0, **IMAGES)
    seen, _ = env.reset(seed=0, options={"wide": True})
    picture = env.render()
    assert seen.shape == (32, 64, 1) and picture is not None and picture.shape == (256, 512, 3)
    np.testing.assert_allclose(picture[4::8, 4::8, 0] / 127.5 - 1, seen[..., 0], atol=0.5 / 127.5)
    assert (env.step(1)[0] != seen).any()


def test_noise_has_its_variance_and_is_not_rendered():
    noisy, clean = CartPoleEnv(render_mode="rgb_array", noise=0.5, **IMAGES), CartPoleEnv(render_mode="rgb_array", **IMAGES)
    seen, without = noisy.reset(seed=0)[0], clean.reset(seed=0)[0]
    assert np.var(seen - without) == pytest.approx(0.5, rel=0.1)
    np.testing.assert_array_equal(noisy.render(), clean.render())
    assert (noisy.reset(seed=0)[0] == seen).all() and (noisy.reset(seed=1)[0] != seen).any()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"obs": "images"}, r"Unknown observation 'images'. Did you mean 'image'\?"),
        ({"noise": 0.5}, "Unknown factor 'noise'"),
        ({**IMAGES, "noise": -0.5}, "The noise is -0.5; a variance is at least 0"),
        ({"gravty": 3.0}, r"Unknown factor 'gravty'. Did you mean 'gravity'\?"),
        ({"mass": float("nan")}, "Factor 'mass' is nan; it must be a finite number"),
        ({"render_mode": "human"}, "render mode is 'human'; 'rgb_array' and None are accepted"),
    ],
)
def test_bad_keywords_are_told(keywords, message: str):
    with pytest.raises(AdarlError, match=message):
        CartPoleEnv(**keywords)


def test_bad_use_is_told():
    env = CartPoleEnv(render_mode="rgb_array")
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded):
        env.render()
    env.reset(seed=0)
    with pytest.raises(AdarlError, match="The action is 2; 0 "):
        env.step(2)
