import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm

from adarl.model.mixture import Mixture, draw, from_raw, log_prob, without_rare

PI, MEAN, SCALE = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.5, 3.0]), np.array([0.5, 1.0, 0.1])
VALUES = np.array([-1.0, 0.0, 2.9, 3.05, 10.0])


def mixture(offset: float = 0.0) -> Mixture:
    """Logits are known up to a constant only."""
    return Mixture(
        jnp.asarray(np.log(PI) + offset, jnp.float32),
        jnp.asarray(MEAN, jnp.float32),
        jnp.asarray(SCALE, jnp.float32),
    )


def expected(value) -> np.ndarray:
    return np.log((PI * norm.pdf(np.asarray(value)[..., None], MEAN, SCALE)).sum(-1))


@pytest.mark.parametrize("call", [log_prob, jax.jit(log_prob)])
@pytest.mark.parametrize("offset", [0.0, 7.0])
def test_log_prob(call, offset: float):
    got = [call(mixture(offset), jnp.float32(v)) for v in VALUES]
    np.testing.assert_allclose(got, expected(VALUES), rtol=2e-5)


def test_log_prob_by_hand():
    """One standard Gaussian: -log(2 pi) / 2 at its mean; two equal halves do not differ from it."""
    one = Mixture(jnp.zeros(1), jnp.zeros(1), jnp.ones(1))
    two = Mixture(jnp.zeros(2), jnp.zeros(2), jnp.ones(2))
    for m in (one, two):
        np.testing.assert_allclose(log_prob(m, jnp.float32(0.0)), -0.9189385, rtol=1e-6)
        np.testing.assert_allclose(log_prob(m, jnp.float32(2.0)), -2.9189385, rtol=1e-6)


def test_log_prob_vmaps_over_values_and_mixtures():
    over_values = jax.vmap(log_prob, in_axes=(None, 0))
    np.testing.assert_allclose(over_values(mixture(), jnp.asarray(VALUES, jnp.float32)), expected(VALUES), rtol=2e-5)
    shifted = jax.tree.map(lambda x: jnp.stack([x, x]), mixture())
    shifted = shifted._replace(mean=shifted.mean + jnp.array([[0.0], [1.0]]))
    got = jax.jit(jax.vmap(log_prob, in_axes=(0, None)))(shifted, jnp.float32(0.5))
    np.testing.assert_allclose(got, expected([0.5, -0.5]), rtol=2e-5)


def test_log_prob_integrates_to_one():
    grid = np.linspace(-12, 12, 4801, dtype=np.float32)
    density = np.exp(np.asarray(jax.vmap(log_prob, in_axes=(None, 0))(mixture(), jnp.asarray(grid))))
    np.testing.assert_allclose(density.sum() * (grid[1] - grid[0]), 1.0, rtol=1e-4)


def test_a_far_value_is_unlikely_but_finite():
    """Where every density is zero in float32, the logarithm still has a slope."""
    value, slope = jax.value_and_grad(log_prob, argnums=1)(mixture(), jnp.float32(60.0))
    np.testing.assert_allclose(value, np.log(0.5) + norm.logpdf(60.0, 0.5, 1.0), rtol=1e-5)
    np.testing.assert_allclose(slope, -59.5, rtol=1e-5)


def test_draws_have_the_mean_and_variance_of_the_mixture():
    draws = np.asarray(jax.jit(jax.vmap(draw, in_axes=(0, None)))(jr.split(jr.key(0), 40_000), mixture()))
    mean = PI @ MEAN
    variance = PI @ (SCALE**2 + MEAN**2) - mean**2
    np.testing.assert_allclose(draws.mean(), mean, atol=0.03)
    np.testing.assert_allclose(draws.var(), variance, rtol=0.03)
    # No other component has mass beyond 2.8 worth a per mille, but the second's upper tail.
    np.testing.assert_allclose((draws > 2.8).mean(), (PI * norm.sf(2.8, MEAN, SCALE)).sum(), atol=0.01)


def test_rare_components_are_not_drawn():
    """Of 0.6, 0.35 and 0.05 the last is less than half as likely as the first; 0.35 is more."""
    three = Mixture(jnp.log(jnp.array([0.6, 0.35, 0.05])), jnp.array([0.0, 5.0, 90.0]), jnp.full(3, 0.1))
    draws = np.asarray(jax.vmap(draw, in_axes=(0, None))(jr.split(jr.key(0), 4000), without_rare(three)))
    assert draws.max() < 6
    np.testing.assert_allclose((draws > 2).mean(), 0.35 / 0.95, atol=0.03)


def test_the_key_decides_the_draw():
    first, again, other = (draw(jr.key(seed), mixture()) for seed in (0, 0, 1))
    assert first == again and first != other


@pytest.mark.parametrize("call", [from_raw, jax.jit(from_raw, static_argnums=2)])
@pytest.mark.parametrize(("apart", "mean"), [(1.0, [1.5, 2.5]), (0.0, [2.0, 2.0]), (0.5, [1.75, 2.25])])
def test_from_raw(call, apart: float, mean: list[float]):
    """Thirds: logits, means, scales. softplus(0) = log 2; far below, only the floor is left."""
    raw = jnp.array([0.1, 0.2, 1.0, 3.0, 3.0, -97.0])
    got = call(raw, jnp.array([0.5, -0.5]), 0.25, apart)
    np.testing.assert_allclose(got.logits, [0.1, 0.2])
    np.testing.assert_allclose(got.mean, mean)
    np.testing.assert_allclose(got.scale, [0.25 + np.log(2.0), 0.25], rtol=1e-6)
