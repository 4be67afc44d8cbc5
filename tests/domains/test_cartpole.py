from functools import partial

import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.domains.cartpole import FRICTION_CART, FRICTION_POLE, CartPole, CartPoleImages
from adarl.domains.functional import Camera, Functional
from adarl.types import Step

GYMNASIUM = CartPole(friction=False, angle_limit=12 * np.pi / 180)


def factors_of(domain: CartPole, **changed: float):
    return {name: jnp.asarray(value) for name, value in {**domain.defaults, **changed}.items()}


def step(domain: CartPole, s, a: int, **changed: float) -> Step:
    return domain.step(jr.key(0), jnp.asarray(s), jnp.asarray(a), factors_of(domain, **changed))


@partial(jax.jit, static_argnames=("domain", "steps"))
def rollout(domain: CartPole, seed: int, steps: int):
    """Random actions; a fallen pole is followed by a wide start. Returns s_tm1, a_tm1 and the steps."""
    factors = factors_of(domain)

    def move(s_tm1, key):
        key_act, key_step, key_reset = jr.split(key, 3)
        a_tm1 = jr.randint(key_act, (), 0, 2)
        step = domain.step(key_step, s_tm1, a_tm1, factors)
        start = domain.reset(key_reset, factors, jnp.asarray(True))
        return jnp.where(step.ended, start, step.s), (s_tm1, a_tm1, step)

    key_start, key_moves = jr.split(jr.key(seed))
    start = domain.reset(key_start, factors, jnp.asarray(False))
    return jax.lax.scan(move, start, jr.split(key_moves, steps))[1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_gymnasium_step_for_step(seed: int):
    s_tm1, a_tm1, ours = jax.tree.map(np.asarray, rollout(GYMNASIUM, seed, 500))
    theirs = gym.make("CartPole-v1").unwrapped
    theirs.reset(seed=0)
    for t in range(500):
        theirs.state = s_tm1[t].astype(np.float64)  # pyright: ignore[reportAttributeAccessIssue]
        theirs.steps_beyond_terminated = None  # pyright: ignore[reportAttributeAccessIssue]
        s_t, _, terminated, _, _ = theirs.step(a_tm1[t])
        np.testing.assert_allclose(ours.s[t], s_t, atol=1e-5, rtol=1e-5)
        assert ours.ended[t] == terminated
    assert 0 < ours.ended.sum() < 250


def accelerations(s, force: float, gravity: float, mass: float, length: float):
    """Cart and pole from the two equations of motion, as a linear system in the two accelerations."""
    _, x_dot, angle, angle_dot = s
    moment = 0.1 * length
    coupling = moment * np.cos(angle)
    inertia = np.array([[mass + 0.1, coupling], [coupling, 4 / 3 * moment * length]])
    forces = np.array(
        [
            force + moment * angle_dot**2 * np.sin(angle) - FRICTION_CART * np.sign(x_dot),
            moment * gravity * np.sin(angle) - FRICTION_POLE * angle_dot,
        ]
    )
    return np.linalg.solve(inertia, forces)


def test_friction_follows_the_equations_of_motion():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for _ in range(40):
            s = rng.uniform(-1, 1, 4) * (2.4, 3.0, 0.7, 5.0)
            gravity, mass, length, motor = rng.uniform((2, 0.3, 0.1, -2), (60, 6, 1.5, 2))
            a = int(rng.integers(2))
            got = step(CartPole(), s, a, gravity=gravity, mass=mass, length=length, motor=motor).s
            x_acc, angle_acc = accelerations(s, 10 * motor * (2 * a - 1), gravity, mass, length)
            expected = s + 0.02 * np.array([s[1], x_acc, s[3], angle_acc])
            np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_friction_is_off_without_it():
    s = (0.0, 1.0, 0.1, 1.0)
    rough, smooth = (step(CartPole(friction=friction), s, 1).s for friction in (True, False))
    assert rough[1] < smooth[1]


@pytest.mark.parametrize("a", [0, 1])
def test_a_reversed_motor_exchanges_the_actions(a: int):
    s = (0.1, -0.4, 0.05, 0.3)
    np.testing.assert_array_equal(step(CartPole(), s, a, motor=-1.0).s, step(CartPole(), s, 1 - a).s)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("s", "ended"),
    [
        ((2.39, 0.0, 0.0, 0.0), False),
        ((2.41, 0.0, 0.0, 0.0), True),
        ((2.39, 1.0, 0.0, 0.0), True),  # it is the state after the step that counts
        ((0.0, 0.0, np.deg2rad(14.9), 0.0), False),
        ((0.0, 0.0, np.deg2rad(15.1), 0.0), True),
        ((0.0, 0.0, np.deg2rad(14.9), 1.0), True),
    ],
)
def test_the_limits_end_and_cost_the_reward(s, ended: bool, sign: float):
    got = step(CartPole(), sign * np.asarray(s, np.float32), 1)
    assert bool(got.ended) == ended
    assert float(got.r) == (0.0 if ended else 1.0)


def test_following_pays_for_standing_at_the_target():
    domain = CartPole(follow=True)
    there, elsewhere, fallen = (0.28, 1.0, 0.0, 0.0), (-0.72, 1.0, 0.0, 0.0), (0.28, 1.0, 0.5, 0.0)
    assert float(step(domain, there, 1, target=0.3).r) == pytest.approx(1.0)
    assert float(step(domain, elsewhere, 1, target=0.3).r) == pytest.approx(np.exp(-1.0))
    assert float(step(domain, fallen, 1, target=0.3).r) == 0.0
    assert float(step(CartPole(), elsewhere, 1, target=0.3).r) == 1.0


def test_distractors_walk_alone():
    domain = CartPole(distractors=3)
    assert domain.state_names == ("x", "x_dot", "angle", "angle_dot", "walk_0", "walk_1", "walk_2")
    s = np.array([0.1, -0.4, 0.05, 0.3], np.float32)
    plain = step(CartPole(), s, 1)
    near, far = (step(domain, np.append(s, np.full(3, w, np.float32)), 1, drift=5.0) for w in (0.0, 9.0))
    for distracted in (near, far):
        np.testing.assert_array_equal(distracted.s[:4], plain.s)
        assert (distracted.r, distracted.ended) == (plain.r, plain.ended)
    np.testing.assert_allclose(far.s[4:] - near.s[4:], 9.0, rtol=1e-6)
    undrifted = step(domain, np.append(s, np.zeros(3, np.float32)), 1)
    np.testing.assert_allclose(near.s[4:] - undrifted.s[4:], 0.02 * 5.0, rtol=1e-5)


def test_starts_are_narrow_or_wide():
    domain = CartPole()
    starts = jax.vmap(domain.reset, in_axes=(0, None, None))
    keys = jr.split(jr.key(0), 500)
    narrow, wide = (np.abs(starts(keys, factors_of(domain), jnp.asarray(w))) for w in (False, True))
    assert narrow.max() <= 0.05
    assert (wide <= np.array([2.4, 1.0, 0.15, 1.0], np.float32)).all()
    assert (wide.max(axis=0) > np.array([2.3, 0.95, 0.14, 0.95])).all()


def test_one_program_steps_many_domains():
    domain = CartPole()
    gravities = jnp.asarray([5.0, 9.8, 40.0])
    factors = {name: jnp.full(3, value) for name, value in domain.defaults.items()} | {"gravity": gravities}
    s = jnp.asarray([0.0, 0.0, 0.1, 0.0])
    many = jax.jit(jax.vmap(domain.step, in_axes=(None, None, None, 0)))
    together = many(jr.key(0), s, jnp.asarray(1), factors).s
    for k, gravity in enumerate(gravities):
        alone = step(domain, s, 1, gravity=float(gravity)).s
        np.testing.assert_allclose(together[k], alone, rtol=1e-5, atol=1e-7)


def test_recordings_reach_further_than_episodes():
    domain = CartPole()
    assert isinstance(domain, Functional)
    for s, allowed in [
        ((4.9, 0.0, 0.78, 0.0), True),
        ((5.1, 0.0, 0.0, 0.0), False),
        ((0.0, 0.0, -0.79, 0.0), False),
    ]:
        assert bool(domain.recordable(jnp.asarray(s))) == allowed


def test_a_camera_is_what_shows_images():
    domain = CartPoleImages()
    assert isinstance(domain, Camera) and not isinstance(CartPole(), Camera)
    s = jnp.asarray([0.5, 1.0, -0.1, 2.0])
    clean = domain.observe(jr.key(0), s, factors_of(domain))
    assert clean.shape == domain.image
    np.testing.assert_array_equal(clean, domain.observe(jr.key(1), s, factors_of(domain)))
    noisy = [domain.observe(jr.key(seed), s, factors_of(domain, noise=2.25)) - clean for seed in range(3)]
    assert np.std(noisy) == pytest.approx(1.5, rel=0.05) and np.abs(np.mean(noisy)) < 0.1
    assert (noisy[0] != noisy[1]).any()
