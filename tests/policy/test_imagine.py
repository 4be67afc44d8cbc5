import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.policy.imagine import Imagined, box
from adarl.types import Step, Theta

THETA = Theta(jnp.array([[-1.0, 0.0], [0.0, 5.0], [3.0, 6.0]]), jnp.array([[1.0], [1.0], [1.0]]))
NARROW = jnp.array([[0.0, 0.0], [0.1, 0.1]])
WIDE = jnp.array([[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]])


class Model(eqx.Module):
    """A world model in which theta_s pushes the state and theta_r is the reward."""

    theta: Theta = THETA

    def draw(self, key, s_tm1, a_tm1, theta: Theta) -> Step:
        return Step(s_tm1 + theta.theta_s, theta.theta_r[0], a_tm1 == 1)


WORLD = Imagined.of(Model(), NARROW, WIDE, beyond=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [box, jax.jit(box)])
@pytest.mark.parametrize(
    ("beyond", "low", "high"),
    [
        (0.0, [-1.0, 0.0], [3.0, 6.0]),
        (0.5, [-1.5, -2.5], [4.5, 6.5]),  # medians 0 and 5: 1 and 3 away, 5 and 1 away
        (1.0, [-2.0, -5.0], [6.0, 7.0]),
    ],
)
def test_box_by_hand(call, beyond: float, low: list[float], high: list[float]):
    got_low, got_high = call(THETA.theta_s, beyond)
    np.testing.assert_allclose(got_low, low)
    np.testing.assert_allclose(got_high, high)


def test_a_theta_that_does_not_change_stays():
    np.testing.assert_array_equal(box(THETA.theta_r, 2.0), [[1.0], [1.0]])


def test_drawn_thetas_fill_the_box():
    theta = jax.vmap(WORLD.draw_theta)(jr.split(jr.key(0), 2000))
    low, high = box(THETA.theta_s, 0.5)
    assert theta.theta_s.shape == (2000, 2)
    assert (theta.theta_s >= low).all() and (theta.theta_s <= high).all()
    np.testing.assert_allclose(theta.theta_s.min(0), low, atol=0.05)
    np.testing.assert_allclose(theta.theta_s.max(0), high, atol=0.05)
    assert abs(np.corrcoef(theta.theta_s, rowvar=False)[0, 1]) < 0.1
    np.testing.assert_array_equal(theta.theta_r, 1.0)


@pytest.mark.parametrize(("wide", "starts"), [(False, NARROW), (True, WIDE)])
def test_starts_are_recorded_ones(wide: bool, starts):
    theta = Theta(jnp.zeros(2), jnp.zeros(1))
    s = jax.vmap(WORLD.reset, in_axes=(0, None, None))(jr.split(jr.key(0), 200), theta, jnp.bool_(wide))
    np.testing.assert_array_equal(np.unique(s, axis=0), starts)


def test_a_step_is_the_models():
    step = WORLD.step(jr.key(0), NARROW[1], jnp.int32(1), Theta(jnp.array([1.0, -1.0]), jnp.array([0.5])))
    np.testing.assert_allclose(step.s, [1.1, -0.9], rtol=1e-6)
    assert step.r == 0.5 and step.ended
