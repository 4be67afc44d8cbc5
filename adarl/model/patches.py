"""Images to features and back by patch layers: kernels that do not overlap, so that each layer is one product of matrices.

The gradient of an overlapping convolution is what makes image models slow on a CPU; this one has none.
"""

import functools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Shape = tuple[int, int, int]
"""Height, width, channels."""
SIDE_IN, SIDE_OUT = 8, 4
"""Pixels to a side of a patch, where images are looked at and where they are drawn."""
CHANNELS = 24
"""Of what a patch shows."""
POWERS = ((0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
"""Of row and column, in the polynomials by which features are placed."""
RIDGES = 16
"""What a patch looks at when it is drawn."""
SPREAD = 2.0
"""Where ridges bend at first: anywhere that believed states usually are."""


class Inwards(eqx.Module):
    """An image -> features: what the channels of patch layers show, and where: their moments over the image.

    Where a thing is, is a mean over the place of all that shows it. So features are smooth in the place of things, and near
    to linear in it, wherever they are; were every patch read apart, each place would have a code of its own.
    """

    patch: eqx.nn.Linear
    again: eqx.nn.Linear
    dense: eqx.nn.Linear
    image: Shape = eqx.field(static=True)

    def __init__(self, image: Shape, n_out: int, *, key: PRNGKeyArray):
        key_patch, key_again, key_dense = jr.split(key, 3)
        self.image = image
        self.patch = _linear(SIDE_IN**2 * image[2], CHANNELS, key_patch)
        self.again = _linear(CHANNELS, CHANNELS, key_again)
        self.dense = _linear(len(POWERS) * (image[2] + CHANNELS), n_out, key_dense)

    def __call__(self, o: Float[Array, "*batch height width channel"]) -> Float[Array, "*batch feature"]:
        """Any number of images at once."""
        batch, channels, (rows, columns) = o.shape[:-3], self.image[2], _grid(self.image, SIDE_IN)
        cells = _grown(o, (rows * SIDE_IN, columns * SIDE_IN, channels))
        cells = cells.reshape(*batch, rows, SIDE_IN, columns, SIDE_IN, channels).swapaxes(-4, -3)
        shown = jax.nn.relu(_apply(self.patch, cells.reshape(*batch, rows, columns, -1)))
        shown = jax.nn.relu(_apply(self.again, shown))
        return _apply(self.dense, jnp.concatenate([moments(o), moments(shown)], axis=-1))

    def after_a_look(self, o: Float[Array, "*batch height width channel"]) -> "Inwards":
        """The same with features that have no mean and unit variance over these images."""
        x = self(o).reshape(-1, self.dense.out_features)
        mean, deviation = x.mean(0), x.std(0) + 1e-6
        of = lambda one: (one.dense.weight, one.dense.bias)  # noqa: E731
        weight, bias = of(self)
        return eqx.tree_at(of, self, (weight / deviation[:, None], (bias - mean) / deviation))


def moments(o: Float[Array, "*batch row column channel"]) -> Float[Array, "*batch moment"]:
    """Of every channel: its sum over the image, and where it lies, each weighed by a polynomial of unit length."""
    rows, columns, channels = o.shape[-3:]
    flat = o.reshape(-1, rows * columns, channels).swapaxes(-1, -2).reshape(-1, rows * columns)
    return (flat @ _polynomials(rows, columns)).reshape(*o.shape[:-3], channels * len(POWERS))


@functools.cache
def _polynomials(rows: int, columns: int) -> Float[np.ndarray, "cell power"]:
    """Of the place of a cell, orthogonal to those before them; zeros where there are too few cells for another."""
    up, right = np.meshgrid(np.linspace(-1, 1, rows), np.linspace(-1, 1, columns), indexing="ij")
    raw = np.stack([(up**i * right**j).ravel() for i, j in POWERS], axis=1)
    orthogonal, triangle = np.linalg.qr(raw)
    found = np.zeros(raw.shape, np.float32)
    found[:, : orthogonal.shape[1]] = orthogonal * (np.abs(np.diag(triangle)) > 1e-6)
    return found


class Outwards(eqx.Module):
    """Numbers -> an image, in [-1, 1]: every patch looks at all numbers, and one network draws the pixels of any patch.

    What a patch looks at are ridges, linear in the numbers before they bend. A thing that is in the patch where two lines
    say so is drawn by two of them: so numbers that are linear in the place of things are the easiest to draw from.
    """

    cells: eqx.nn.Linear
    hidden: eqx.nn.Linear
    pixels: eqx.nn.Linear
    image: Shape = eqx.field(static=True)

    def __init__(self, n_in: int, image: Shape, *, key: PRNGKeyArray):
        key_cells, key_bias, key_hidden, key_pixels = jr.split(key, 4)
        rows, columns = _grid(image, SIDE_OUT)
        self.image = image
        cells = _linear(n_in, rows * columns * RIDGES, key_cells)
        bias = jr.uniform(key_bias, cells.bias.shape, minval=-SPREAD, maxval=SPREAD)  # pyright: ignore
        self.cells = eqx.tree_at(lambda one: one.bias, cells, bias)
        self.hidden = _linear(RIDGES, 2 * RIDGES, key_hidden)
        pixels = _linear(2 * RIDGES, SIDE_OUT * SIDE_OUT * image[2], key_pixels)
        self.pixels = eqx.tree_at(lambda one: one.weight, pixels, 0.3 * pixels.weight)  # at first, an even grey

    def as_bright_as(self, mean: Float[Array, ""]) -> "Outwards":
        """The same with pixels that are at first about as bright as those of a film are on average."""
        bias = jnp.full(self.pixels.out_features, jnp.arctanh(jnp.clip(mean, -0.95, 0.95)))
        return eqx.tree_at(lambda one: one.pixels.bias, self, bias)

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch height width channel"]:
        """Any number of rows at once."""
        batch, (height, width, channels), (rows, columns) = x.shape[:-1], self.image, _grid(self.image, SIDE_OUT)
        h = jax.nn.relu(_apply(self.cells, x)).reshape(*batch, rows, columns, RIDGES)
        o = jnp.tanh(_apply(self.pixels, jax.nn.relu(_apply(self.hidden, h))))
        o = o.reshape(*batch, rows, columns, SIDE_OUT, SIDE_OUT, channels).swapaxes(-4, -3)
        return o.reshape(*batch, rows * SIDE_OUT, columns * SIDE_OUT, channels)[..., :height, :width, :]


def _grid(image: Shape, side: int) -> tuple[int, int]:
    """Rows and columns of patches."""
    return -(-image[0] // side), -(-image[1] // side)


def _linear(n_in: int, n_out: int, key: PRNGKeyArray) -> eqx.nn.Linear:
    """With the variance that ReLUs keep."""
    layer = eqx.nn.Linear(n_in, n_out, key=key)
    weight = math.sqrt(2 / n_in) * jr.normal(key, (n_out, n_in))
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, jnp.zeros(n_out)))


def _apply(layer: eqx.nn.Linear, x: Array) -> Array:
    """As one product of two matrices: with more axes its gradient is many times slower on a CPU."""
    assert layer.bias is not None
    return (x.reshape(-1, x.shape[-1]) @ layer.weight.T).reshape(*x.shape[:-1], -1) + layer.bias


def _grown(o: Array, shape: Sequence[int]) -> Array:
    """Edges repeated until patches fit."""
    more = [(0, 0)] * (o.ndim - 3) + [(0, n - m) for n, m in zip(shape, o.shape[-3:], strict=True)]
    return o if not any(after for _, after in more) else jnp.pad(o, more, mode="edge")
