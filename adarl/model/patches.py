"""Images to features and back by patch layers: kernels that do not overlap, so that each layer is one product of matrices.

The gradient of an overlapping convolution is what makes image models slow on a CPU; this one has none.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

Shape = tuple[int, int, int]
"""Height, width, channels."""
FIRST, LATER = 4, 2
"""Pixels to a side of a patch, in the first layer and in the others."""
SMALLEST = 4
"""Cells to the shorter side at which layers end."""
WIDTHS = (16, 32, 64, 64)
"""Channels after each layer inwards."""
RIDGES = 16
"""What a patch looks at when it is drawn."""
SPREAD = 2.0
"""Where ridges bend at first: anywhere that believed states usually are."""


def layers_of(image: Shape) -> list[tuple[int, Shape, Shape]]:
    """Of every layer: pixels to a side of a patch, the shape before and the shape after."""
    found, shape, side = [], image, FIRST
    while min(shape[:2]) > SMALLEST and len(found) < len(WIDTHS):
        rows, columns = -(-shape[0] // side), -(-shape[1] // side)
        after = (rows, columns, WIDTHS[len(found)])
        found.append((side, (rows * side, columns * side, shape[2]), after))
        shape, side = after, LATER
    return found


class Inwards(eqx.Module):
    """An image -> features: patch layers, and beside them one linear map of all pixels.

    The latter alone tells where a thing is: its place is a mean over pixels, which averages their noise away.
    """

    layers: tuple[eqx.nn.Linear, ...]
    dense: eqx.nn.Linear
    straight: eqx.nn.Linear
    image: Shape = eqx.field(static=True)

    def __init__(self, image: Shape, n_out: int, *, key: PRNGKeyArray):
        plan = layers_of(image)
        key_dense, key_straight, *keys = jr.split(key, len(plan) + 2)
        self.image = image
        sizes = [(side * side * before[2], after[2]) for side, before, after in plan]
        self.layers = tuple(_linear(*size, k) for size, k in zip(sizes, keys, strict=True))
        self.dense = _linear(math.prod(plan[-1][2] if plan else image), n_out, key_dense)
        self.straight = _linear(math.prod(image), n_out, key_straight)

    def __call__(self, o: Float[Array, "*batch height width channel"]) -> Float[Array, "*batch feature"]:
        """Any number of images at once."""
        batch = o.shape[:-3]
        straight = _apply(self.straight, o.reshape(*batch, -1))
        for layer, (side, before, (rows, columns, _)) in zip(self.layers, layers_of(self.image), strict=True):
            o = _grown(o, before)
            cells = o.reshape(*batch, rows, side, columns, side, before[2]).swapaxes(-4, -3)
            o = jax.nn.relu(_apply(layer, cells.reshape(*batch, rows, columns, -1)))
        return straight + _apply(self.dense, o.reshape(*batch, -1))


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
        rows, columns = _grid(image)
        self.image = image
        cells = _linear(n_in, rows * columns * RIDGES, key_cells)
        bias = jr.uniform(key_bias, cells.bias.shape, minval=-SPREAD, maxval=SPREAD)  # pyright: ignore
        self.cells = eqx.tree_at(lambda one: one.bias, cells, bias)
        self.hidden = _linear(RIDGES, 2 * RIDGES, key_hidden)
        pixels = _linear(2 * RIDGES, FIRST * FIRST * image[2], key_pixels)
        self.pixels = eqx.tree_at(lambda one: one.weight, pixels, 0.3 * pixels.weight)  # at first, an even grey

    def as_bright_as(self, mean: Float[Array, ""]) -> "Outwards":
        """The same with pixels that are at first about as bright as those of a film are on average."""
        bias = jnp.full(self.pixels.out_features, jnp.arctanh(jnp.clip(mean, -0.95, 0.95)))
        return eqx.tree_at(lambda one: one.pixels.bias, self, bias)

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch height width channel"]:
        """Any number of rows at once."""
        batch, (height, width, channels), (rows, columns) = x.shape[:-1], self.image, _grid(self.image)
        h = jax.nn.relu(_apply(self.cells, x)).reshape(*batch, rows, columns, RIDGES)
        o = jnp.tanh(_apply(self.pixels, jax.nn.relu(_apply(self.hidden, h))))
        o = o.reshape(*batch, rows, columns, FIRST, FIRST, channels).swapaxes(-4, -3)
        return o.reshape(*batch, rows * FIRST, columns * FIRST, channels)[..., :height, :width, :]


def _grid(image: Shape) -> tuple[int, int]:
    """Rows and columns of patches."""
    return -(-image[0] // FIRST), -(-image[1] // FIRST)


def _linear(n_in: int, n_out: int, key: PRNGKeyArray) -> eqx.nn.Linear:
    """With the variance that ReLUs keep."""
    layer = eqx.nn.Linear(n_in, n_out, key=key)
    weight = math.sqrt(2 / n_in) * jr.normal(key, (n_out, n_in))
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, jnp.zeros(n_out)))


def _apply(layer: eqx.nn.Linear, x: Array) -> Array:
    assert layer.bias is not None
    return x @ layer.weight.T + layer.bias


def _grown(o: Array, shape: Sequence[int]) -> Array:
    """Edges repeated until patches fit."""
    more = [(0, 0)] * (o.ndim - 3) + [(0, n - m) for n, m in zip(shape, o.shape[-3:], strict=True)]
    return o if not any(after for _, after in more) else jnp.pad(o, more, mode="edge")
