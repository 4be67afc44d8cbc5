import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.domains.cartpole import CartPole
from adarl.evaluate.returns import returns, returns_over_seeds, trajectory
from adarl.network import Network
from adarl.policy.learn import View
from adarl.types import Theta

FACTORS = {name: jnp.float32(value) for name, value in CartPole().defaults.items()}
NOTHING = Theta(jnp.zeros(1), jnp.zeros(1))
STATES = View(jnp.zeros(4), jnp.ones(4), (0, 1, 2, 3), (), ())
WITH_THETA = View(jnp.zeros(4), jnp.ones(4), (0, 1, 2, 3), (0,), ())
BALANCE = [0.1, 0.3, 3.0, 1.0]


def linear(gains, bias: float = 0.0) -> Network:
    """Pushes right where gains @ x + bias is positive."""
    gains = jnp.asarray(gains, jnp.float32)
    q = Network((gains.shape[0], 2), "relu", key=jr.key(0))
    new = (jnp.stack([0 * gains, gains]), jnp.asarray([0.0, bias]))
    return eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), q, new)


def test_a_policy_that_balances_lives_to_the_cap():
    got = returns(CartPole(), FACTORS, linear(BALANCE), STATES, NOTHING, jr.key(0), episodes=5)
    np.testing.assert_array_equal(got, np.full(5, 10_000.0))


def test_a_policy_that_only_pushes_right_fails_at_once():
    always_right = linear([0.0] * 4, bias=1.0)
    got = returns(CartPole(), FACTORS, always_right, STATES, NOTHING, jr.key(0), episodes=20)
    assert got.shape == (20,) and (got >= 5).all() and (got < 20).all()
    assert len(np.unique(got)) > 1


def test_returns_by_hand():
    """The same episodes, stepped in Python: the pole falls by gravity alone, whatever the keys."""
    always_right = linear([0.0] * 4, bias=1.0)
    got = returns(CartPole(), FACTORS, always_right, STATES, NOTHING, jr.key(3), episodes=2)
    key_reset, _ = jr.split(jr.key(3))
    for key, total in zip(jr.split(key_reset, 2), got, strict=True):
        s, r = CartPole().reset(key, FACTORS, jnp.bool_(False)), 0.0
        for _ in range(100):
            step = CartPole().step(jr.key(0), s, jnp.asarray(1), FACTORS)
            s, r = step.s, r + float(step.r)
            if step.ended:
                break
        assert total == r


def test_the_cap_is_respected():
    for steps in (1, 249, 250, 251, 600):
        got = returns(CartPole(), FACTORS, linear(BALANCE), STATES, NOTHING, jr.key(0), episodes=2, steps=steps)
        np.testing.assert_array_equal(got, np.full(2, float(steps)))


def test_the_key_decides():
    always_right = linear([0.0] * 4, bias=1.0)
    run = lambda seed: returns(  # noqa: E731
        CartPole(follow=True), FACTORS, always_right, STATES, NOTHING, jr.key(seed), episodes=4
    )
    np.testing.assert_array_equal(run(0), run(0))
    assert (run(0) != run(1)).any()


def test_seeds_have_their_own_policy_and_theta():
    """The third seed has the gains of the first, but a theta that makes it push right for ever."""
    policies = [linear([*BALANCE, 0.0]), linear([-g for g in BALANCE] + [0.0]), linear([*BALANCE, 100.0])]
    q = jax.tree.map(lambda *leaves: jnp.stack(leaves), *policies)
    theta = Theta(jnp.ones((3, 1)), jnp.zeros((3, 1)))
    got = returns_over_seeds(CartPole(), FACTORS, q, WITH_THETA, theta, jr.key(0), episodes=4, steps=600)
    assert got.shape == (3, 4)
    np.testing.assert_array_equal(got[0], np.full(4, 600.0))
    assert (got[1:] < 50).all()
    alone = returns(
        CartPole(),
        FACTORS,
        policies[1],
        WITH_THETA,
        NOTHING,
        jr.split(jr.key(0), 3)[1],
        episodes=4,
        steps=600,
    )
    np.testing.assert_array_equal(got[1], alone)


def test_a_trajectory_by_hand():
    """The same episode, stepped in Python: it stays where it ended."""
    right = linear([0.0] * 4, bias=1.0)
    s, over = trajectory(CartPole(), FACTORS, right, STATES, NOTHING, jr.key(3), steps=40)
    assert s.shape == (41, 4) and over.shape == (40,)
    ended_at = int(np.argmax(over)) + 1
    assert 5 < ended_at < 20 and over[ended_at - 1 :].all()
    by_hand = CartPole().reset(jr.split(jr.key(3))[0], FACTORS, jnp.bool_(False))
    for t in range(ended_at):
        np.testing.assert_allclose(s[t], by_hand, atol=1e-5)
        step = CartPole().step(jr.key(0), by_hand, jnp.asarray(1), FACTORS)
        by_hand = step.s
        assert bool(step.ended) == (t + 1 == ended_at)
    np.testing.assert_allclose(s[ended_at:], np.tile(by_hand, (41 - ended_at, 1)), atol=1e-5)


def test_a_trajectory_goes_on_while_the_pole_stands():
    s, over = trajectory(CartPole(), FACTORS, linear(BALANCE), STATES, NOTHING, jr.key(0), steps=300)
    assert not over.any() and (np.abs(np.diff(s[:, 1])) > 0).all()
