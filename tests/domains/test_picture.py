import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import kstest

from adarl.domains.picture import GROUND, HEIGHT, PIXELS_PER_METRE, WIDTH, grain, picture


def seen(x: float, angle: float, length: float = 0.5) -> np.ndarray:
    return np.asarray(jax.jit(picture)(jnp.float32(x), jnp.float32(angle), jnp.float32(length)))


def light(image: np.ndarray) -> np.ndarray:
    return (image + 1) / 2


def test_an_upright_pole_on_a_cart_in_the_middle():
    image = seen(0.0, 0.0)
    assert image.shape == (HEIGHT, WIDTH) and image.min() == -1.0 and image.max() == 1.0
    np.testing.assert_allclose(image, image[:, ::-1], atol=1e-6)
    row = light(image)[15]
    np.testing.assert_allclose(row[[29, 30, 31, 32, 33, 34]], [0, 0, 1, 1, 0, 0], atol=1e-6)  # two pixels thick
    assert light(image)[int(GROUND)].sum() == pytest.approx(6.0, abs=1e-5)  # six pixels of cart


@pytest.mark.parametrize("x", [-1.3, 0.004, 0.37, 2.0])
def test_the_cart_stands_where_it_is(x: float):
    row = light(seen(x, 0.0))[int(GROUND)]
    middle = row @ (np.arange(WIDTH) + 0.5) / row.sum()
    assert (middle - WIDTH / 2) / PIXELS_PER_METRE == pytest.approx(x, abs=1e-3)


@pytest.mark.parametrize("angle", [-0.5, -0.01, 0.003, 0.2])
def test_the_pole_leans_as_it_does(angle: float):
    image = light(seen(0.0, angle))
    rows = np.arange(8, 22)
    middles = (image[rows] @ (np.arange(WIDTH) + 0.5)) / image[rows].sum(1) - WIDTH / 2
    slope = np.polyfit(GROUND - rows - 0.5, middles, 1)[0]
    assert np.arctan(slope) == pytest.approx(angle, abs=2e-3)


def test_moves_far_smaller_than_a_pixel_show():
    still, moved = seen(0.0, 0.1), seen(0.001, 0.1)
    assert 0.01 < np.abs(still - moved).max() < 0.1


def test_outside_the_picture_nothing_is_seen_and_a_short_pole_is_short():
    assert (seen(5.0, 0.0) == -1.0).all()
    assert light(seen(0.0, 0.0, 0.25)).sum() < light(seen(0.0, 0.0)).sum() - 15


def test_gradients_are_finite():
    slope = jax.jacfwd(lambda s: picture(s[0], s[1], jnp.float32(0.5)))(jnp.zeros(2))
    assert bool(jnp.isfinite(slope).all())


def test_grain_is_gaussian_and_pixels_frames_and_keys_are_independent():
    x = np.asarray(jax.vmap(lambda key: grain(key, (32, 64)))(jr.split(jr.key(0), 300)))
    n = x.size
    assert abs(x.mean()) < 4 / np.sqrt(n) and x.var() == pytest.approx(1.0, abs=6 / np.sqrt(n))
    assert kstest(x.ravel()[::7], "norm").pvalue > 0.001
    for one, other in ((x[:, :, 1:], x[:, :, :-1]), (x[:, 1:], x[:, :-1]), (x[1:], x[:-1])):
        assert abs((one * other).mean()) < 4.5 / np.sqrt(one.size)
    frames = np.corrcoef(x.reshape(300, -1)) - np.eye(300)
    assert np.abs(frames).max() < 6 / np.sqrt(32 * 64)
