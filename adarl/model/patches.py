"""Images to features and back by strips and patches that do not overlap, so that each layer is one product of matrices.

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
SIDE = 8
"""Pixels to a side of a patch, where images are drawn."""
BREADTH = 8
"""Pixels across a strip, where they are looked at."""
CHANNELS = 32
"""Of what a strip shows."""
POWERS = ((0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
"""Of row and column, in the polynomials by which things are placed."""
FAINT = 0.05
"""What the contrast of an image is multiplied by. Random strips that shout are learned slowly, above all through noise."""
RIDGES = 64
"""By which patches are drawn."""
SPREAD = 2.0
"""Where ridges bend at first: anywhere that believed states and patches usually are."""


class Inwards(eqx.Module):
    """An image -> features: what strips of it show, and where: their moments over the image.

    Strips go from top to bottom and from side to side, so that a thing lies in few of them, as a whole. Where it is, is a
    mean over the place of all that shows it. So features are smooth in the place of things, and near to linear in it,
    wherever they are; were every strip read apart, each place would have a code of its own.
    """

    strips: tuple[eqx.nn.Linear, ...]
    """Those that go down, and those that go across."""
    again: tuple[eqx.nn.Linear, ...]
    dense: eqx.nn.Linear
    brightness: Float[Array, ""]
    """Of pixels on average; what differs from it is looked at."""
    image: Shape = eqx.field(static=True)

    def __init__(self, image: Shape, n_out: int, *, key: PRNGKeyArray):
        key_strips, key_again, key_dense = jr.split(key, 3)
        (rows, columns), (height, width, channels) = _grid(image, BREADTH), image
        both = lambda sizes, key: tuple(_linear(n, CHANNELS, k) for n, k in zip(sizes, jr.split(key), strict=True))  # noqa: E731
        area = BREADTH**2 * channels
        self.strips = both((rows * area, columns * area), key_strips)
        self.again = both((CHANNELS, CHANNELS), key_again)
        n_moments = _polynomials(1, columns).shape[1] + _polynomials(1, rows).shape[1]
        self.dense = _linear(_polynomials(height, width).shape[1] * channels + n_moments * CHANNELS, n_out, key_dense)
        self.brightness, self.image = jnp.float32(0.0), image

    def __call__(self, o: Float[Array, "*batch height width channel"]) -> Float[Array, "*batch feature"]:
        """Any number of images at once."""
        batch, (rows, columns) = o.shape[:-3], _grid(self.image, BREADTH)
        o = FAINT * (o - jax.lax.stop_gradient(self.brightness))
        pixels = _grown(o, (rows * BREADTH, columns * BREADTH, self.image[2]))
        down = pixels.reshape(*batch, rows * BREADTH, columns, -1).swapaxes(-3, -2).reshape(*batch, columns, -1)
        across = pixels.reshape(*batch, rows, -1)
        features = [moments(o)]
        for seen, strips, again in zip((down, across), self.strips, self.again, strict=True):
            shown = jax.nn.relu(_apply(again, jax.nn.relu(_apply(strips, seen))))
            features.append(moments(shown[..., None, :, :]))
        return _apply(self.dense, jnp.concatenate(features, axis=-1))

    def after_a_look(self, o: Float[Array, "*batch height width channel"]) -> "Inwards":
        """The same with what is as bright as these images on average as nothing, and features of unit variance over them."""
        look = eqx.tree_at(lambda one: one.brightness, self, o.mean())
        x = look(o).reshape(-1, self.dense.out_features)
        mean, deviation = x.mean(0), x.std(0) + 1e-6
        of = lambda one: (one.dense.weight, one.dense.bias)  # noqa: E731
        weight, bias = of(look)
        return eqx.tree_at(of, look, (weight / deviation[:, None], (bias - mean) / deviation))


def moments(o: Float[Array, "*batch row column channel"]) -> Float[Array, "*batch moment"]:
    """Of every channel: its sum over the image, and where it lies, each weighed by a polynomial of unit length."""
    rows, columns, channels = o.shape[-3:]
    by = _polynomials(rows, columns)
    flat = o.reshape(-1, rows * columns, channels).swapaxes(-1, -2).reshape(-1, rows * columns)
    return (flat @ by).reshape(*o.shape[:-3], channels * by.shape[1])


@functools.cache
def _polynomials(rows: int, columns: int) -> Float[np.ndarray, "cell power"]:
    """Of the place of a cell, orthogonal to those before them; those that there are too few cells for are left out."""
    up, right = np.meshgrid(np.linspace(-1, 1, rows), np.linspace(-1, 1, columns), indexing="ij")
    found: list[np.ndarray] = []
    for i, j in POWERS:
        power = (up**i * right**j).ravel()
        rest = power - sum((power @ one) * one for one in found)
        if np.linalg.norm(rest) > 1e-6:
            found.append(rest / np.linalg.norm(rest))
    return np.stack(found, axis=1).astype(np.float32)


class Outwards(eqx.Module):
    """Numbers -> an image, in [-1, 1]: one network draws any patch from ridges, which are linear in the numbers.

    What a ridge adds up of the numbers is a line in the place of the patch, and the same for all patches: so what is learned
    where a thing was seen, is known wherever it may be; and numbers that are linear in the place of things, even where they
    turn it, are the easiest to draw from.
    """

    ridges: eqx.nn.Linear
    hidden: eqx.nn.Linear
    pixels: eqx.nn.Linear
    image: Shape = eqx.field(static=True)

    def __init__(self, n_in: int, image: Shape, *, key: PRNGKeyArray):
        key_ridges, key_places, key_hidden, key_pixels = jr.split(key, 4)
        self.image = image
        ridges = _linear(n_in, 3 * RIDGES, key_ridges)
        places = SPREAD * jr.normal(key_places, (3 * RIDGES,))
        self.ridges = eqx.tree_at(lambda one: (one.weight, one.bias), ridges, (ridges.weight / math.sqrt(2), places))
        self.hidden = _linear(RIDGES, RIDGES, key_hidden)
        pixels = _linear(RIDGES, SIDE * SIDE * image[2], key_pixels)
        self.pixels = eqx.tree_at(lambda one: one.weight, pixels, 0.3 * pixels.weight)  # at first, an even grey

    def as_bright_as(self, mean: Float[Array, ""]) -> "Outwards":
        """The same with pixels that are at first about as bright as those of a film are on average."""
        bias = jnp.full(self.pixels.out_features, jnp.arctanh(jnp.clip(mean, -0.95, 0.95)))
        return eqx.tree_at(lambda one: one.pixels.bias, self, bias)

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch height width channel"]:
        """Any number of rows at once."""
        (height, width, channels), (rows, columns) = self.image, _grid(self.image, SIDE)
        o = self.patches(x).reshape(*x.shape[:-1], rows, columns, SIDE, SIDE, channels).swapaxes(-4, -3)
        return o.reshape(*x.shape[:-1], rows * SIDE, columns * SIDE, channels)[..., :height, :width, :]

    def patches(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch cell pixel"]:
        """The same as `cut` gives it: to put patches in their places takes as long as to draw them."""
        lines = _apply(self.ridges, x).reshape(-1, 3, RIDGES)
        h = jax.nn.relu(jnp.einsum("cp,bpr->bcr", _places(*_grid(self.image, SIDE)), lines))
        o = jnp.tanh(_apply(self.pixels, jax.nn.relu(_apply(self.hidden, h)))).reshape(*x.shape[:-1], *h.shape[1:2], -1)
        return o if _fits(self.image) else o * cut(jnp.ones(self.image))


def cut(o: Float[Array, "*batch height width channel"]) -> Float[Array, "*batch cell pixel"]:
    """Images in patches; zeros where one reaches over an edge."""
    *batch, height, width, channels = o.shape
    rows, columns = _grid((height, width, channels), SIDE)
    if not _fits((height, width, channels)):
        over = ((0, rows * SIDE - height), (0, columns * SIDE - width), (0, 0))
        o = jnp.pad(o, (*((0, 0) for _ in batch), *over))
    o = o.reshape(*batch, rows, SIDE, columns, SIDE, channels).swapaxes(-4, -3)
    return o.reshape(*batch, rows * columns, SIDE * SIDE * channels)


def _fits(image: Shape) -> bool:
    return image[0] % SIDE == 0 and image[1] % SIDE == 0


@functools.cache
def _places(rows: int, columns: int) -> Float[np.ndarray, "cell 3"]:
    """One, the row and the column of every cell, the latter in [-1, 1]."""
    up, right = np.meshgrid(np.linspace(-1, 1, rows), np.linspace(-1, 1, columns), indexing="ij")
    return np.stack([np.ones(rows * columns), up.ravel(), right.ravel()], axis=1).astype(np.float32)


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
