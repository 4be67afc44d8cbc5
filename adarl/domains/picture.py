"""CartPole as a small grey picture, drawn inside the compiled step from where the cart and the pole are.

In: the position, the angle, half the pole's length. Out: an image in [-1, 1], light on dark. Edges are antialiased by their
signed distance, so that a hundredth of a pixel shows and velocities can be seen across frames. States are stored, not
pixels: a picture is drawn where it is used.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

HEIGHT, WIDTH = SHAPE = 32, 64
PIXELS_PER_METRE = 10.0
"""The track is seen to 3.2 m on either side."""
GROUND = 26.0
"""Row of the cart's middle."""
CART = (3.0, 1.5)
"""Half of its width and of its height, in pixels."""
STRETCH = 2.2
"""The pole is drawn longer than it is: an angle shows in more pixels."""
THICKNESS = 1.0
"""Half of the pole's."""


def picture(x: Float[Array, ""], angle: Float[Array, ""], length: Float[Array, ""]) -> Float[Array, "height width"]:
    """The scene from the side. `length` is half the pole's."""
    right = jnp.arange(WIDTH) + 0.5 - WIDTH / 2 - PIXELS_PER_METRE * x
    up = (GROUND - (jnp.arange(HEIGHT) + 0.5))[:, None]
    pole = 2 * STRETCH * PIXELS_PER_METRE * length
    tip_right, tip_up = pole * jnp.sin(angle), pole * jnp.cos(angle)
    share = jnp.clip((right * tip_right + up * tip_up) / pole**2, 0.0, 1.0)
    from_pole = jnp.sqrt((right - share * tip_right) ** 2 + (up - share * tip_up) ** 2 + 1e-12) - THICKNESS
    from_cart = jnp.maximum(jnp.abs(right) - CART[0], jnp.abs(up) - CART[1])
    covered = jnp.clip(0.5 - jnp.minimum(from_pole, from_cart), 0.0, 1.0)
    return 2.0 * covered - 1.0


def grain(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Standard Gaussians, one a pixel, by hashing the place of a pixel with a key.

    `jr.normal` takes five times as long, which is more than all that is done with an image where a policy acts.
    """
    one, other = jr.key_data(key)
    n = int(np.prod(shape))
    bits = _hashed(_hashed(jnp.arange(-(-n // 2), dtype=jnp.uint32) + one) ^ other)
    both = jnp.concatenate([bits >> 16, bits & 0xFFFF])[:n]  # a Gaussian of each half, in steps that no eye sees
    uniform = both.astype(jnp.float32) / 2**15 + (1 / 2**16 - 1.0)
    return jnp.sqrt(2.0) * jax.lax.erf_inv(uniform).reshape(shape)


def _hashed(x: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Two rounds of a multiplicative hash, after which any bit of x moves any bit of the answer."""
    for multiplier in (0x7FEB352D, 0x846CA68B):
        x = (x ^ (x >> 16)) * jnp.uint32(multiplier)
    return x ^ (x >> 15)
