import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adarl.network import Network
from adarl.policy import double_dqn
from adarl.policy.double_dqn import DoubleDQNConfig, double_target, shaped
from adarl.policy.replay import Experience
from adarl.types import Theta

CONFIG = DoubleDQNConfig(hidden=4, discount=0.75, average_rate=0.125, updates=10)


@pytest.mark.parametrize("call", [shaped, jax.jit(shaped, static_argnums=3)])
@pytest.mark.parametrize(
    ("r", "ended", "best", "expected"),
    [
        (1.0, False, 1.0, 0.0),  # the best there is
        (0.0, False, 1.0, -0.1),
        (1.0, True, 1.0, -0.9),  # all that is not earned any more
        (0.0, True, 1.0, -1.0),  # the worst of CartPole is -1
        (-1.0, True, 0.0, -0.1),
        (3.0, False, 5.0, -0.2),
        (3.0, True, 5.0, -4.7),
    ],
)
def test_shaped_by_hand(call, r: float, ended: bool, best: float, expected: float):
    got = call(jnp.float32(r), jnp.bool_(ended), jnp.float32(best), 0.9)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def values(chance: np.ndarray, r: np.ndarray, ended: np.ndarray, discount: float) -> np.ndarray:
    """Q* by value iteration. All arrays have the axes (state, action, next state)."""
    q = np.zeros(r.shape[:2])
    for _ in range(400):
        q = (chance * (r + np.where(ended, 0.0, discount * q.max(-1)))).sum(-1)
    return q


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.9, 0.95]))
def test_shaping_is_the_same_problem_in_other_units(seed: int, discount: float):
    """Q_shaped = (1 - gamma) Q - best in every state and for every action, so the optimal policy is the same."""
    draw = np.random.default_rng(seed)
    shape = (4, 3, 4)
    chance = draw.dirichlet(np.ones(4), shape[:2])
    r, ended = draw.normal(size=shape).astype(np.float32), draw.random(shape) < 0.3
    best = r.max()
    seen = np.asarray(jax.jit(shaped, static_argnums=3)(r, ended, best, discount), np.float64)
    q, q_shaped = values(chance, r, ended, discount), values(chance, seen, ended, discount)
    np.testing.assert_allclose(q_shaped, (1 - discount) * q - best, atol=1e-5)
    clear = np.diff(np.sort(q, axis=1))[:, -1] > 1e-3  # not a tie, up to rounding
    np.testing.assert_array_equal(q.argmax(1)[clear], q_shaped.argmax(1)[clear])
    assert (seen <= np.where(ended, -discount * best, 0.0) + 1e-6).all()


@pytest.mark.parametrize("call", [double_target, jax.jit(double_target)])
def test_double_target_by_hand(call):
    """The online network chooses the second action; the target network, which prefers the first, judges it."""
    q_t, q_target_t = jnp.array([1.0, 2.0, 0.0]), jnp.array([9.0, 3.0, 5.0])
    np.testing.assert_allclose(call(q_t, q_target_t, jnp.float32(0.5), jnp.float32(0.9)), 0.5 + 0.9 * 3.0)
    np.testing.assert_allclose(call(q_t, q_target_t, jnp.float32(0.5), jnp.float32(0.0)), 0.5)


def test_double_target_vmaps():
    q_t = jnp.array([[1.0, 2.0], [2.0, 1.0]])
    got = jax.vmap(double_target, in_axes=(0, None, 0, 0))(
        q_t, jnp.array([10.0, 20.0]), jnp.array([1.0, 2.0]), jnp.array([0.5, 0.5])
    )
    np.testing.assert_allclose(got, [11.0, 7.0])


def linear(weight, bias) -> Network:
    """Q(x) = weight x + bias."""
    q = Network((1, 2), "relu", key=jr.key(0))
    new = (jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32))
    return eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), q, new)


def batch() -> Experience:
    """Three steps from x = 1 to x = 2."""
    return Experience(
        jnp.ones((3, 1)),
        jnp.array([0, 1, 1]),
        jnp.array([0.25, 0.0, -4.0]),
        jnp.full((3, 1), 2.0),
        jnp.array([0.0, 0.5, 0.0]),  # of gamma 0.5
        jnp.zeros(3, bool),
    )


@pytest.mark.parametrize("call", [double_dqn.loss, jax.jit(double_dqn.loss)])
def test_huber_loss_by_hand(call):
    """Q(1) = (1, 2), Q(2) = (2, 4), so the second action is judged: Q'(2)[1] = 3; gamma 0.5.

    Differences: 1 - 0.25 = 0.75, squared and halved 0.28125; 2 - 1.5 = 0.5, 0.125; 2 + 4 = 6, beyond one linear: 5.5.
    """
    q, q_target = linear([[1.0], [2.0]], [0.0, 0.0]), linear([[4.0], [1.0]], [0.0, 1.0])
    np.testing.assert_allclose(call(q, q_target, batch()), (0.28125 + 0.125 + 5.5) / 3, rtol=1e-6)


def test_the_target_may_be_told_something_else():
    """Where the target sees x = 0, Q'(0)[1] = 1; gamma 0.5. So the second difference is 2 - 0.5, beyond one linear: 1."""
    q, q_target = linear([[1.0], [2.0]], [0.0, 0.0]), linear([[4.0], [1.0]], [0.0, 1.0])
    told = eqx.tree_at(lambda b: b.x_t, batch(), jnp.zeros((3, 1)))
    np.testing.assert_allclose(double_dqn.errors(q, q_target, batch(), told), [0.28125, 1.0, 5.5], rtol=1e-6)


def test_the_gradient_stops_at_the_target():
    """d loss / d bias: the differences of the actions taken, clipped at one; nothing through Q(x_t)."""
    q, q_target = linear([[1.0], [2.0]], [0.0, 0.0]), linear([[4.0], [1.0]], [0.0, 1.0])
    gradient = jax.grad(double_dqn.loss)(q, q_target, batch())
    np.testing.assert_allclose(gradient.layers[0].bias, [0.75 / 3, (0.5 + 1.0) / 3], rtol=1e-6)
    np.testing.assert_allclose(gradient.layers[0].weight[:, 0], [0.75 / 3, (0.5 + 1.0) / 3], rtol=1e-6)


def test_an_update_moves_q_and_the_others_follow():
    told = Theta(jnp.zeros((1, 1)), jnp.zeros((1, 0)))
    learner = double_dqn.DoubleDQN(CONFIG, told).start(1, 2, jr.key(0))
    jax.tree.map(np.testing.assert_array_equal, learner.q, learner.q_target)
    jax.tree.map(np.testing.assert_array_equal, learner.q, learner.q_average)
    loss_of = lambda q: (double_dqn.loss(q, learner.q_target, batch()), told)  # noqa: E731
    after = eqx.filter_jit(lambda learner: double_dqn.step(learner, loss_of, CONFIG))(learner)
    # Adam's first step has the length of the learning rate, wherever there is a gradient.
    moved = np.asarray(after.q.layers[-1].bias) - np.asarray(learner.q.layers[-1].bias)
    np.testing.assert_allclose(np.abs(moved), CONFIG.learning_rate, rtol=1e-3)
    follow = lambda rate: jax.tree.map(lambda new, old: rate * new + (1 - rate) * old, after.q, learner.q)  # noqa: E731
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7)  # noqa: E731
    jax.tree.map(close, after.q_target, follow(0.25))
    jax.tree.map(close, after.q_average, follow(0.125))


def test_act_is_greedy_but_for_epsilon():
    q = linear([[0.0], [1.0]], [0.0, 0.0])
    act = jax.jit(jax.vmap(double_dqn.act, in_axes=(0, None, None, None)))
    keys = jr.split(jr.key(0), 4000)
    for x, greedy in ((1.0, 1), (-1.0, 0)):
        share = lambda epsilon, x=x: act(keys, q, jnp.array([x]), jnp.float32(epsilon)).mean()  # noqa: E731
        assert share(0.0) == greedy
        np.testing.assert_allclose(share(1.0), 0.5, atol=0.03)
        np.testing.assert_allclose(share(0.4), 0.8 * greedy + 0.2 * (1 - greedy), atol=0.03)
