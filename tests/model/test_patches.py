import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model.patches import CHANNELS, POWERS, RIDGES, Inwards, Outwards, moments


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


def test_a_patch_is_what_it_covers():
    """One pixel moves only the cell in which it lies, by the weights of its place, and the moments of the pixels."""
    inwards = Inwards((16, 16, 1), 3, key=jr.key(0))
    n = len(POWERS)
    weight = jnp.zeros((3, n * (1 + CHANNELS))).at[:, 0].set(0.5).at[:, n::n].set(0.01)  # sums of pixels and of channels
    inwards = eqx.tree_at(lambda i: (i.dense.weight, i.again.weight), inwards, (weight, jnp.eye(CHANNELS)))
    o = jnp.zeros((16, 16, 1)).at[10, 13, 0].set(1.0)
    of_cells = jax.nn.relu(inwards.patch.weight[:, 2 * 8 + 5]).sum() / 100 / 2  # row 2, column 5 of its patch; four cells
    np.testing.assert_allclose(jnp.abs(inwards(o)), jnp.full(3, of_cells + 0.5 / 16), rtol=1e-4)


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


def test_outwards_puts_patches_where_inwards_takes_them():
    outwards = Outwards(4, (8, 8, 1), key=jr.key(0))
    only = jnp.zeros(2 * 2 * RIDGES).at[(1 * 2 + 0) * RIDGES].set(1.0)  # the first ridge of the cell in row 1, column 0
    weight = jnp.zeros((16, 2 * RIDGES)).at[:, 0].set(jnp.arange(16.0) / 16)
    outwards = eqx.tree_at(
        lambda o: (o.cells.weight, o.cells.bias, o.hidden.weight, o.hidden.bias, o.pixels.weight, o.pixels.bias),
        outwards,
        (jnp.zeros((4 * RIDGES, 4)), only, jnp.eye(2 * RIDGES, RIDGES), jnp.zeros(2 * RIDGES), weight, jnp.zeros(16)),
    )
    drawn = outwards(jnp.zeros(4))[..., 0]
    np.testing.assert_allclose(drawn[4:, :4], np.tanh(np.arange(16.0).reshape(4, 4) / 16), rtol=1e-5)
    assert bool((drawn[:4] == 0).all()) and bool((drawn[:, 4:] == 0).all())


def test_pixels_start_as_bright_as_a_film():
    outwards = Outwards(4, (8, 8, 1), key=jr.key(0)).as_bright_as(jnp.float32(-0.8))
    drawn = outwards(jr.normal(jr.key(1), (200, 4)))
    assert float(jnp.median(drawn)) == pytest.approx(-0.8, abs=0.15)
