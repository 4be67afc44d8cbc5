"""What a policy sees."""

import jax.numpy as jnp
import numpy as np

from adarl.policy.view import View
from adarl.types import Compact, Theta


def test_view_by_hand():
    """The second of two states, (5 - 1) / 2, and the third theta_s and the first theta_r as they are."""
    kept = Compact(jnp.array([False, True]), jnp.array([False, False, True]), jnp.array([True]))
    seen = View.of(kept, jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0]))
    x = seen(jnp.array([4.0, 5.0]), Theta(jnp.array([7.0, 8.0, 9.0]), jnp.array([-1.0])))
    assert seen.size == 3
    np.testing.assert_array_equal(x, [2.0, 9.0, -1.0])
