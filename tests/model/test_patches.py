import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model.patches import CHANNELS, FAINT, POWERS, RIDGES, Inwards, Outwards, cut, moments


@pytest.mark.parametrize("image", [(32, 64, 1), (21, 30, 3), (4, 4, 2)])
def test_shapes_in_and_out_and_a_batch_is_as_one_by_one(image):
    inwards = eqx.filter_jit(Inwards(image, 16, key=jr.key(0)))
    outwards = eqx.filter_jit(Outwards(16, image, key=jr.key(1)))
    o = jr.normal(jr.key(2), (2, 3, *image))
    features = inwards(o)
    drawn = outwards(features)
    assert features.shape == (2, 3, 16) and drawn.shape == o.shape
    assert bool((jnp.abs(drawn) <= 1).all())
    np.testing.assert_allclose(features[1, 2], inwards(o[1, 2]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(drawn[1, 2], outwards(features[1, 2]), rtol=1e-4, atol=1e-5)


def test_a_strip_is_what_it_covers():
    """One pixel moves only the two strips in which it lies, by the weights of its place, and the moments of the pixels."""
    inwards = Inwards((16, 24, 1), 3, key=jr.key(0))
    n_pixels, n_down, n_across = len(POWERS), 3 * CHANNELS, 2 * CHANNELS  # three strips down have a bend, two across none
    assert inwards.dense.in_features == n_pixels + n_down + n_across
    weight = jnp.zeros((3, n_pixels + n_down + n_across))  # of the sums of pixels, of strips down and of strips across
    weight = weight.at[0, 0].set(1.0).at[1, n_pixels : n_pixels + n_down : 3].set(1.0).at[2, n_pixels + n_down :: 2].set(1.0)
    as_it_is = (jnp.eye(CHANNELS), jnp.eye(CHANNELS))
    of = lambda i: (i.dense.weight, *(layer.weight for layer in i.again))  # noqa: E731
    inwards = eqx.tree_at(of, inwards, (weight, *as_it_is))
    o = jnp.zeros((16, 24, 1)).at[10, 13, 0].set(1.0)  # column 5 of the second strip down, row 2 of the second across
    down, across = (jax.nn.relu(layer.weight) for layer in inwards.strips)
    sums = [1 / np.sqrt(16 * 24), down[:, 10 * 8 + 5].sum() / np.sqrt(3), across[:, 2 * 24 + 13].sum() / np.sqrt(2)]
    np.testing.assert_allclose(jnp.abs(inwards(o)), FAINT * jnp.asarray(sums), rtol=1e-4)


def test_what_is_as_bright_as_usual_is_nothing():
    o = jnp.full((4, 8, 8, 1), -0.7)
    look = Inwards((8, 8, 1), 5, key=jr.key(0)).after_a_look(o.at[0, 0, 0].add(0.1))
    plain = eqx.tree_at(lambda one: one.dense.bias, look, jnp.zeros(5))
    np.testing.assert_allclose(plain(jnp.full((8, 8, 1), look.brightness)), 0.0, atol=1e-4)


def test_moments_tell_where_a_thing_is():
    """The first is its size, the second goes with its column and the third with its row, as lines."""
    at = lambda row, column: moments(jnp.zeros((9, 17, 1)).at[row, column, 0].set(1.0))  # noqa: E731
    size, right, down = (np.array([[float(at(i, j)[m]) for j in range(17)] for i in range(9)]) for m in range(3))
    np.testing.assert_allclose(np.abs(size), 1 / np.sqrt(9 * 17), rtol=1e-5)
    np.testing.assert_allclose(np.diff(right, 2, axis=1), 0.0, atol=1e-6)
    np.testing.assert_allclose(np.diff(right, axis=0), 0.0, atol=1e-6)
    assert np.abs(np.diff(right, axis=1)).min() > 0.01 and np.abs(np.diff(down, axis=0)).min() > 0.01
    np.testing.assert_allclose(np.diff(down, axis=1), 0.0, atol=1e-6)


def test_features_start_in_units_of_their_own():
    o = 3.0 + jr.normal(jr.key(1), (50, 8, 8, 1))
    features = Inwards((8, 8, 1), 5, key=jr.key(0)).after_a_look(o)(o)
    np.testing.assert_allclose(features.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(features.std(0), 1.0, rtol=1e-4)


def test_a_patch_is_drawn_in_its_place():
    """A ridge that is high at the left and low at the right, and the pixels of a patch in their order."""
    outwards = Outwards(4, (16, 24, 1), key=jr.key(0))
    leftmost = jnp.zeros(3 * RIDGES).at[0].set(-0.5).at[2 * RIDGES].set(-1.0)  # minus a half, and minus the column
    weight = jnp.zeros((64, RIDGES)).at[:, 0].set(jnp.arange(64.0) / 64)
    of = lambda o: (o.ridges.weight, o.ridges.bias, o.hidden.weight, o.pixels.weight, o.pixels.bias)  # noqa: E731
    parts = (jnp.zeros((3 * RIDGES, 4)), leftmost, jnp.eye(RIDGES), weight, jnp.zeros(64))
    drawn = eqx.tree_at(of, outwards, parts)(jnp.zeros(4))[..., 0]
    patch = np.tanh(0.5 * np.arange(64.0).reshape(8, 8) / 64)
    np.testing.assert_allclose(drawn[:8, :8], patch, rtol=1e-5)
    np.testing.assert_allclose(drawn[8:, :8], patch, rtol=1e-5)
    assert bool((drawn[:, 8:] == 0).all())


def test_what_is_drawn_moves_with_a_number():
    """A number that adds to a ridge what a column would take away moves all that is drawn by a patch to the right."""
    outwards = Outwards(1, (8, 40, 1), key=jr.key(0))
    lines = jnp.zeros((3 * RIDGES, 1)).at[:RIDGES, 0].set(-outwards.ridges.bias[2 * RIDGES :])
    outwards = eqx.tree_at(lambda o: o.ridges.weight, outwards, lines)
    here, there = outwards(jnp.zeros(1)), outwards(jnp.full(1, 0.5))  # five patches: half a unit from one to the next
    np.testing.assert_allclose(there[:, 8:], here[:, :-8], rtol=1e-4, atol=1e-5)
    assert float(here.std()) > 0.01


def test_pixels_start_as_bright_as_a_film():
    outwards = Outwards(4, (8, 8, 1), key=jr.key(0)).as_bright_as(jnp.float32(-0.8))
    drawn = outwards(jr.normal(jr.key(1), (200, 4)))
    assert float(jnp.median(drawn)) == pytest.approx(-0.8, abs=0.15)


@pytest.mark.parametrize("image", [(16, 24, 1), (16, 24, 3), (13, 20, 2)])
def test_patches_are_the_image_in_another_order(image):
    outwards, x = Outwards(4, image, key=jr.key(0)), jr.normal(jr.key(1), (5, 4))
    np.testing.assert_array_equal(cut(outwards(x)), outwards.patches(x))


def test_a_patch_that_reaches_over_an_edge_is_zero_there():
    """So that nothing is compared where nothing was seen, and every pixel is compared once."""
    o = 1.0 + jr.uniform(jr.key(0), (13, 20, 2))
    patches = cut(o)
    assert patches.shape == (6, 128)
    assert int((patches == 0).sum()) == 6 * 128 - o.size
    np.testing.assert_allclose(np.sort(patches[patches != 0]), np.sort(o.ravel()))
