"""Masks -> the minimal sufficient representation: Definition 1 as a fixpoint.

In: binary masks. Out: which states and which change factors can ever reach a reward. theta_o never does: it enters only
the observation, which no state and no reward reads.
"""

import jax
import jax.numpy as jnp

from adarl.types import Compact, Masks


def compact(masks: Masks) -> Compact:
    """s_min and theta_min. A closure, not one step of parents: d rounds reach every ancestor of the reward."""
    c_s_to_s = masks.c_s_to_s > 0

    def grow(_, s_min):
        has_child_inside = (c_s_to_s & s_min[:, None]).any(0)
        return s_min | has_child_inside

    s_min = jax.lax.fori_loop(0, c_s_to_s.shape[0], grow, masks.c_s_to_r > 0)
    theta_s_min = ((masks.c_theta_to_s > 0) & s_min[:, None]).any(0)
    return Compact(jnp.asarray(s_min), theta_s_min, masks.c_theta_to_r > 0)
