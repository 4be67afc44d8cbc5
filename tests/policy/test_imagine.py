import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.policy.imagine import Imagined, around, box
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


def test_the_outermost_domains_are_the_sources_stretched_about_their_median():
    """Medians 0, 5 and 1; beyond half of the distance."""
    np.testing.assert_allclose(WORLD.outermost.theta_s, [[-1.5, -2.5], [0.0, 5.0], [4.5, 6.5]])
    np.testing.assert_allclose(WORLD.outermost.theta_r, np.ones((3, 1)))


def test_nearer_to_the_median_of_the_sources():
    near = WORLD.nearer(Theta(jnp.array([10.0, -5.0]), jnp.array([3.0])), jnp.float32(0.8))
    np.testing.assert_allclose(near.theta_s, [8.0, -3.0])  # medians 0 and 5
    np.testing.assert_allclose(near.theta_r, [2.6])


def test_a_theta_that_does_not_change_stays():
    np.testing.assert_array_equal(box(THETA.theta_r, 2.0), [[1.0], [1.0]])


GRID = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0]), -1).reshape(-1, 2)
SHEAR = np.array([[1.0, 0.7], [-0.4, 1.0]])


def test_thetas_lie_between_sources_and_beyond_whatever_the_axes():
    """A grid of sources, seen through a linear map: undone, the thetas are those of the grid."""
    plain, mixed = around(jnp.asarray(GRID), 0.5), around(jnp.asarray(GRID @ SHEAR), 0.5)
    assert plain is not None and mixed is not None
    np.testing.assert_allclose(np.asarray(mixed) @ np.linalg.inv(SHEAR), plain, atol=1e-5)
    np.testing.assert_allclose(plain.min(0), [-1.5, -3.0], atol=0.05)
    np.testing.assert_allclose(plain.max(0), [1.5, 3.0], atol=0.05)
    beyond = (np.abs(np.asarray(plain)) > [1.0, 2.0]).any(1).mean()
    assert 0.1 < beyond < 0.4


def test_thetas_are_dense_where_sources_are():
    crowded = np.array([[0.0, 0.0], [0.1, 1.0], [0.2, 0.0], [0.3, 1.0], [10.0, 0.5]])
    points = around(jnp.asarray(crowded), 0.5)
    assert points is not None and (np.asarray(points)[:, 0] < 1).mean() > 0.5


@pytest.mark.parametrize("theta", [[[0.0], [1.0], [2.0]], [[0.0, 3.0], [1.0, 3.0], [2.0, 3.0]]])
def test_one_dimension_that_changes_is_left_to_the_box(theta: list[list[float]]):
    assert around(jnp.asarray(theta), 0.5) is None


def test_drawn_thetas_come_from_the_points_and_the_box():
    theta = jax.vmap(WORLD.draw_theta)(jr.split(jr.key(0), 2000))
    assert WORLD.around_s is not None and WORLD.around_r is None
    assert theta.theta_s.shape == (2000, 2)
    assert len(np.unique(theta.theta_s, axis=0)) > 1000
    assert np.isin(np.asarray(theta.theta_s)[:, 0], np.asarray(WORLD.around_s)[:, 0]).all()
    np.testing.assert_array_equal(theta.theta_r, 1.0)


def test_one_dimension_is_filled_evenly():
    one = eqx.tree_at(lambda m: m.theta, Model(), Theta(THETA.theta_s[:, :1], THETA.theta_r))
    world = Imagined.of(one, NARROW, WIDE, beyond=0.5)  # type: ignore[arg-type]
    drawn = np.asarray(jax.vmap(world.draw_theta)(jr.split(jr.key(0), 2000)).theta_s)
    np.testing.assert_allclose([drawn.min(), drawn.max(), drawn.mean()], [-1.5, 4.5, 1.5], atol=0.1)


@pytest.mark.parametrize(("wide", "starts"), [(False, NARROW), (True, WIDE)])
def test_starts_are_recorded_ones(wide: bool, starts):
    theta = Theta(jnp.zeros(2), jnp.zeros(1))
    s = jax.vmap(WORLD.reset, in_axes=(0, None, None))(jr.split(jr.key(0), 200), theta, jnp.bool_(wide))
    np.testing.assert_array_equal(np.unique(s, axis=0), starts)


def test_a_step_is_the_models():
    step = WORLD.step(jr.key(0), NARROW[1], jnp.int32(1), Theta(jnp.array([1.0, -1.0]), jnp.array([0.5])))
    np.testing.assert_allclose(step.s, [1.1, -0.9], rtol=1e-6)
    assert step.r == 0.5 and step.ended
