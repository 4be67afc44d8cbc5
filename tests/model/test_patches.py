import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model.patches import RIDGES, WIDTHS, Inwards, Outwards, layers_of


@pytest.mark.parametrize(
    ("image", "after"),
    [
        ((32, 64, 1), [(8, 16, 16), (4, 8, 32)]),
        ((84, 84, 3), [(21, 21, 16), (11, 11, 32), (6, 6, 64), (3, 3, 64)]),
        ((4, 6, 1), []),
    ],
)
def test_layers_end_where_few_cells_are_left(image, after):
    assert [shape for _, _, shape in layers_of(image)] == after


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
    """One pixel moves only the cell in which it lies, by the weights of its place, and the linear map beside."""
    inwards = Inwards((8, 8, 1), 3, key=jr.key(0))
    n_cells = 2 * 2 * WIDTHS[0]
    straight = jnp.zeros((3, 64)).at[:, 5 * 8 + 2].set(7.0)
    inwards = eqx.tree_at(lambda i: (i.dense.weight, i.straight.weight), inwards, (jnp.full((3, n_cells), 0.01), straight))
    first = inwards.layers[0]
    o = jnp.zeros((8, 8, 1)).at[5, 2, 0].set(1.0)
    expected = jax.nn.relu(first.weight[:, 1 * 4 + 2]).sum() / 100  # row 1 and column 2 of its patch
    np.testing.assert_allclose(inwards(o), jnp.full(3, expected + 7.0), rtol=1e-5)


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
