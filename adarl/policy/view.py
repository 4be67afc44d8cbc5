"""What the policy sees: x = (s_min, theta_min), the dimensions that Definition 1 keeps."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from adarl.types import Compact, Theta


class View(eqx.Module):
    """What the policy sees: the dimensions of (s_min, theta_min), states standardised."""

    mean: Float[Array, " state"]
    scale: Float[Array, " state"]
    s_index: tuple[int, ...] = eqx.field(static=True)
    theta_s_index: tuple[int, ...] = eqx.field(static=True)
    theta_r_index: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, compact: Compact, mean: Array, scale: Array) -> "View":
        """The dimensions that Definition 1 keeps."""
        kept = lambda flags: tuple(int(i) for i in np.flatnonzero(np.asarray(flags)))  # noqa: E731
        return cls(mean, scale, kept(compact.s_min), kept(compact.theta_s_min), kept(compact.theta_r_min))

    @property
    def size(self) -> int:
        """Inputs of the policy."""
        return len(self.s_index) + len(self.theta_s_index) + len(self.theta_r_index)

    def __call__(self, s: Float[Array, " state"], theta: Theta) -> Float[Array, " input"]:
        """x = (s_min, theta_min). What stands behind the state, such as a memory, is not seen."""
        s = (s[..., : self.mean.shape[0]] - self.mean) / self.scale
        kept = (self.s_index, self.theta_s_index, self.theta_r_index)
        parts = zip((s, theta.theta_s, theta.theta_r), kept, strict=True)
        return jnp.concatenate([values[np.asarray(index, int)] for values, index in parts])
