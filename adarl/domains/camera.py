"""What images must be like to be learned from, said before hours are spent.

In: images of one place, or a camera and its domains. Out: nothing, or one sentence on what is wrong with them.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from adarl.domains.functional import Camera, Factors
from adarl.types import AdarlError

LOOKS = 64
"""States of every domain that a camera is tried on: the mean of so many images is free of most noise."""
BRIGHT = 3.0
"""Nothing that is scaled to about [-1, 1] is as far from zero on average."""


def check_images(images: np.ndarray, shape: Sequence[int], where: str) -> None:
    """Refuse images, along the first axis, that are not of this shape, no numbers, of other units or show nothing."""
    if images.shape[1:] != tuple(shape):
        raise AdarlError(f"Images {where} have the shape {images.shape[1:]}; {tuple(shape)} is expected.")
    if images.dtype != np.uint8 and not np.issubdtype(images.dtype, np.floating):
        raise AdarlError(f"Images {where} are of the type {images.dtype}; floats in about [-1, 1] or uint8 are expected.")
    if not np.isfinite(images).all():
        raise AdarlError(f"Images {where} hold NaN or infinity; finite numbers are expected.")
    mean = images.mean(0)
    if images.dtype != np.uint8 and np.abs(mean).max() > BRIGHT:
        raise AdarlError(
            f"Images {where} hold floats from {images.min():.4g} to {images.max():.4g}; floats in about [-1, 1] or uint8"
            " are expected."
        )
    if np.ptp(images) == 0:
        raise AdarlError(f"Every pixel {where} is {images.flat[0]:.4g}: nothing is seen there.")
    if len(images) > 1 and (images == images[0]).all():
        raise AdarlError(f"All {len(images)} images {where} are the same: nothing of the state is seen there.")


def check_camera(camera: Camera, factors: Factors, names: Sequence[str]) -> None:
    """Try a camera in every domain of `factors` (arrays over domains, called `names`)."""

    def one(key: PRNGKeyArray, factors: Factors) -> Array:
        """An image of a state spread over the reachable ones."""
        key_state, key_look = jr.split(key)
        return camera.observe(key_look, camera.reset(key_state, factors, jnp.bool_(True)), factors)

    looks = jax.jit(jax.vmap(jax.vmap(one, in_axes=(0, None))))(jr.split(jr.key(0), (len(names), LOOKS)), factors)
    for name, images in zip(names, np.asarray(looks), strict=True):
        check_images(images, camera.image, f"where {name}")
