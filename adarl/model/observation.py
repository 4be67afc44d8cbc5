"""g of Eq. 1, and the one-step predictions of L_pred: what is seen of a state, now and one step later.

In: (s_t, theta_o), masked, or for the predictions (s_t, a_t+1, theta). Out: the mean of an image, and how far from it pixels
lie.

Departs from the paper: a pixel is one Gaussian, not a mixture, and its width is a line in theta_o, because what changes with
noise is how far pixels lie from the picture, and no mean can tell that. Errors of pixels are not independent (`COARSER`).
"""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.model.patches import Outwards, Shape
from adarl.network import Network
from adarl.types import Theta

SHARPEST = 0.4
"""Smallest standard deviation of a pixel. Networks draw edges better than that; but the sharper pixels are, the less it
matters whether a belief was foreseen, and the less of what moves is understood."""

COARSER = 3
"""Times that errors also count together, over patches of twice as many pixels to a side each time. Pixel by pixel a thin
thing that is drawn beside its place is as wrong as one that is not drawn at all; over patches it is less wrong, and so it is
pulled to its place."""


class ObservationHead(eqx.Module):
    """An image from (s, theta), and the width of its pixels."""

    draw: Outwards
    log_width: Float[Array, ""]
    slope: Float[Array, " theta_o"]

    def __init__(self, n_in: int, n_theta_o: int, image: Shape, *, key: PRNGKeyArray):
        self.draw = Outwards(n_in, image, key=key)
        self.log_width = jnp.float32(-1.0)
        self.slope = jnp.full(n_theta_o, 0.3, jnp.float32)

    def width(self, theta_o: Float[Array, "*batch theta_o"]) -> Float[Array, "*batch"]:
        """Standard deviation of every pixel."""
        return SHARPEST + jnp.exp(self.log_width + theta_o @ self.slope)

    def log_p(
        self,
        inputs: Float[Array, "*batch in"],
        theta_o: Float[Array, "*batch theta_o"],
        o: Float[Array, "*batch height width channel"],
    ) -> Float[Array, "*batch"]:
        """log p(o | s; theta_o) but for a constant: a Gaussian whose errors go together within patches."""
        width = self.width(theta_o)[..., None, None, None]
        z = (o - self.draw(inputs)) / width
        scales = [z]
        while len(scales) <= COARSER and min(scales[-1].shape[-3:-1]) > 1:
            scales.append(_blurred(scales[-1]))
        n_pixels, n_errors = math.prod(z.shape[-3:]), sum(math.prod(x.shape[-3:]) for x in scales)
        # Errors without order are as dear as they would be pixel by pixel: the width stays that of a pixel's noise.
        squares = sum((x**2).sum((-3, -2, -1)) for x in scales) * n_pixels / n_errors
        return -0.5 * squares - n_pixels * (jnp.log(width[..., 0, 0, 0]) + 0.5 * jnp.log(2 * jnp.pi))


def _blurred(z: Float[Array, "*batch height width channel"]) -> Float[Array, "*batch rows columns channel"]:
    """Sums over patches of two pixels to a side, in the units of one pixel's error.

    Columns are added by a product of matrices: sums over an inner axis are many times slower on a CPU.
    """
    *batch, height, width, channels = z.shape
    rows, columns = height // 2, width // 2
    z = z[..., : 2 * rows, :, :].reshape(-1, rows, 2, width * channels)
    pairs = np.kron(np.kron(np.eye(columns, (width + 1) // 2), np.ones(2))[:, :width], np.eye(channels)).astype(np.float32)
    both = (z[:, :, 0] + z[:, :, 1]).reshape(-1, width * channels)
    return (both @ pairs.T / 2).reshape(*batch, rows, columns, channels)


class Predictions(eqx.Module):
    """L_pred: o_t+1 from (s_t; theta_o, theta_s), and r_t+2 from (s_t, a_t+1; theta_r, theta_s)."""

    image: ObservationHead
    reward: Network

    def __init__(self, n_state: int, n_actions: int, theta_o: int, theta_s: int, theta_r: int, image: Shape, *, key):
        key_image, key_reward = jr.split(key)
        self.image = ObservationHead(n_state + theta_o + theta_s, theta_o, image, key=key_image)
        self.reward = Network((n_state + n_actions + theta_r + theta_s, 64, 2), "relu", key=key_reward)

    def log_p_image(self, s: Array, theta: Theta, o_next: Array) -> Float[Array, "*batch"]:
        """log p(o_t+1 | s_t; theta_o, theta_s)."""
        inputs = jnp.concatenate([s, theta.theta_o, theta.theta_s], -1)
        return self.image.log_p(inputs, theta.theta_o, o_next)

    def log_p_reward(self, s: Array, a: Array, theta: Theta, r: Array, ended: Array) -> Float[Array, "*batch"]:
        """log p(r_t+2, ended_t+2 | s_t, a_t+1; theta_r, theta_s): a Gaussian around a standardised reward, and an event."""
        pay, odds = jnp.moveaxis(self.reward(jnp.concatenate([s, a, theta.theta_r, theta.theta_s], -1)), -1, 0)
        return -0.5 * (r - pay) ** 2 - jnp.logaddexp(0.0, jnp.where(ended, -odds, odds))
