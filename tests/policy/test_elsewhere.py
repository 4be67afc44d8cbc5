import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.model.rows import unscaled
from adarl.model.world import Scale
from adarl.policy.elsewhere import Elsewhere
from adarl.types import Step, Theta

THETA = Theta(jnp.array([[-1.0], [0.0], [2.0]]), jnp.array([[1.0], [1.0], [3.0]]), jnp.zeros((3, 1)))


class Model(eqx.Module):
    """theta_s pushes the second state by the first, and theta_r is paid, ten times where an episode ends."""

    theta: Theta = THETA
    scale: Scale = unscaled(2, Scale(*[jnp.ones(2)] * 3, jnp.float32(0.0), jnp.float32(1.0)))

    def expected(self, s_tm1, a_tm1, theta: Theta):
        return s_tm1 + 7.0 + jnp.stack([0.0 * s_tm1[0], s_tm1[0] * theta.theta_s[0] * (1 + a_tm1)])

    def pay(self, s_tm1, a_tm1, theta: Theta, ended):
        return theta.theta_r[0] * jnp.where(ended, 10.0, 1.0)


ELSEWHERE = Elsewhere.of(Model(), beyond=0.5)  # type: ignore[arg-type]


def at(theta_s: float, theta_r: float) -> Theta:
    return Theta(jnp.array([theta_s]), jnp.array([theta_r]), jnp.zeros(1))


def test_a_step_keeps_what_nobody_foresaw_and_moves_by_the_difference_of_theta():
    s_tm1 = jnp.array([2.0, 5.0, 0.4, 0.6])  # two states and a memory of two numbers
    here = Step(jnp.array([100.0, 200.0, 0.7, 0.8]), jnp.float32(50.0), jnp.bool_(False))
    there = eqx.filter_jit(ELSEWHERE.step)(s_tm1, jnp.int32(1), here, at(1.0, 1.0), at(1.5, 4.0))
    np.testing.assert_allclose(there.s, [100.0, 202.0, 0.7, 0.8], rtol=1e-6)  # 2 * (1.5 - 1) * 2
    assert there.r == 53.0 and not there.ended
    ended = here._replace(ended=jnp.bool_(True))
    assert ELSEWHERE.step(s_tm1, jnp.int32(1), ended, at(1.0, 1.0), at(1.5, 4.0)).r == 80.0


def test_at_the_same_theta_nothing_would_have_been_different():
    here = Step(jnp.array([1.0, 2.0, 3.0]), jnp.float32(4.0), jnp.bool_(True))
    there = ELSEWHERE.step(jnp.array([3.0, 2.0, 1.0]), jnp.int32(0), here, at(0.3, 0.2), at(0.3, 0.2))
    assert all(bool((x == y).all()) for x, y in zip(here, there, strict=True))


def test_thetas_go_as_far_beyond_the_sources_as_imagination():
    drawn = jax.vmap(ELSEWHERE.draw_theta)(jr.split(jr.key(0), 2000))
    np.testing.assert_allclose([drawn.theta_s.min(), drawn.theta_s.max()], [-1.5, 3.0], atol=0.05)  # the median is 0
    np.testing.assert_allclose([drawn.theta_r.min(), drawn.theta_r.max()], [1.0, 4.0], atol=0.05)
