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
WIDTHS = (32, 64, 128, 128)
"""Channels after each layer."""


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
    """An image -> features."""

    layers: tuple[eqx.nn.Linear, ...]
    dense: eqx.nn.Linear
    image: Shape = eqx.field(static=True)

    def __init__(self, image: Shape, n_out: int, *, key: PRNGKeyArray):
        plan = layers_of(image)
        keys = jr.split(key, len(plan) + 1)
        self.image = image
        sizes = [(side * side * before[2], after[2]) for side, before, after in plan]
        self.layers = tuple(_linear(*size, k) for size, k in zip(sizes, keys[1:], strict=True))
        self.dense = _linear(math.prod(plan[-1][2] if plan else image), n_out, keys[0])

    def __call__(self, o: Float[Array, "*batch height width channel"]) -> Float[Array, "*batch feature"]:
        """Any number of images at once."""
        batch = o.shape[:-3]
        for layer, (side, before, (rows, columns, _)) in zip(self.layers, layers_of(self.image), strict=True):
            o = _grown(o, before)
            cells = o.reshape(*batch, rows, side, columns, side, before[2]).swapaxes(-4, -3)
            o = jax.nn.relu(_apply(layer, cells.reshape(*batch, rows, columns, -1)))
        return jax.nn.relu(_apply(self.dense, o.reshape(*batch, -1)))


class Outwards(eqx.Module):
    """Numbers -> an image, in [-1, 1]."""

    dense: tuple[eqx.nn.Linear, eqx.nn.Linear]
    layers: tuple[eqx.nn.Linear, ...]
    image: Shape = eqx.field(static=True)

    def __init__(self, n_in: int, hidden: int, image: Shape, *, key: PRNGKeyArray):
        plan = layers_of(image)
        key_first, key_second, *keys = jr.split(key, len(plan) + 2)
        self.image = image
        self.dense = (
            _linear(n_in, hidden, key_first),
            _linear(hidden, math.prod(plan[-1][2] if plan else image), key_second),
        )
        sizes = [(after[2], side * side * before[2]) for side, before, after in plan]
        self.layers = tuple(_linear(*size, k) for size, k in zip(sizes, keys, strict=True))

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch height width channel"]:
        """Any number of rows at once."""
        batch, plan = x.shape[:-1], layers_of(self.image)
        for layer in self.dense:
            x = jax.nn.relu(_apply(layer, x))
        x = x.reshape(*batch, *(plan[-1][2] if plan else self.image))
        for i, (layer, (side, before, (rows, columns, _))) in reversed(list(enumerate(zip(self.layers, plan, strict=True)))):
            cells = _apply(layer, x).reshape(*batch, rows, columns, side, side, before[2]).swapaxes(-4, -3)
            height, width = plan[i - 1][2][:2] if i else self.image[:2]
            x = cells.reshape(*batch, *before)[..., :height, :width, :]
            x = jax.nn.relu(x) if i else x
        return jnp.tanh(x)


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
