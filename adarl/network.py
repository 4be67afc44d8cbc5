"""The one network everybody uses: a multi-layer perceptron whose leaves are arrays only.

Activations are named, not stored, so a network can be scanned, vmapped, averaged and saved like any array.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

Activation = Literal["relu", "silu"]


class Network(eqx.Module):
    """Linear layers with an activation between them, and none after the last."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: Activation = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], activation: Activation, *, key: PRNGKeyArray):
        keys = jr.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = tuple(eqx.nn.Linear(n_in, n_out, key=k) for n_in, n_out, k in pairs)
        self.activation = activation

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        """One row, or many at once: one product of matrices instead of one a row."""
        return linear(self.layers[-1], self.features(x)[-1])

    def features(self, x: Float[Array, "*batch in"]) -> list[Float[Array, "*batch hidden"]]:
        """What every layer but the last makes of the input."""
        activate = {"relu": jax.nn.relu, "silu": jax.nn.silu}[self.activation]
        made = [x]
        for layer in self.layers[:-1]:
            made.append(activate(linear(layer, made[-1])))
        return made[1:] or made


class Council(eqx.Module):
    """Networks that answer together, by the mean of what each would: what one of them overrates, seldom all do."""

    networks: Any
    """Along a first axis."""

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        """One row or many."""
        return jax.vmap(lambda q: q(x))(self.networks).mean(0)


def each_of(q: Any, change: Callable[[Any], Any]) -> Any:
    """A network changed, or every one of a council."""
    return Council(eqx.filter_vmap(change)(q.networks)) if isinstance(q, Council) else change(q)


def linear(layer: eqx.nn.Linear, x: Array) -> Array:
    """A layer on any number of rows."""
    assert layer.bias is not None
    return x @ layer.weight.T + layer.bias
