"""What methods share that learn a context of their own: it stands where theta stands, last in what the policy sees."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.policy.replay import Experience
from adarl.types import Theta

Rows = TypeVar("Rows")

RECORDED = 2000  # random steps of every source, to find contexts by in training


def as_theta(context: Float[Array, "*domain context"]) -> Theta:
    """A context in the place of theta_s."""
    return Theta(context, jnp.zeros((*context.shape[:-1], 0)))


def tell(steps: Experience, context: Float[Array, " context"]) -> Experience:
    """The steps with another context."""
    put = lambda x: x.at[..., x.shape[-1] - context.shape[0] :].set(context)  # noqa: E731
    return eqx.tree_at(lambda e: (e.x_tm1, e.x_t), steps, (put(steps.x_tm1), put(steps.x_t)))


def drawn(key: PRNGKeyArray, recorded: Rows, n: int) -> Rows:
    """`n` rows of every domain, at random; the axes are (domain, row)."""
    n_domains, n_rows = jax.tree.leaves(recorded)[0].shape[:2]
    index = jr.randint(key, (n_domains, n), 0, n_rows)
    return jax.tree.map(lambda x: jax.vmap(lambda y, i: y[i])(x, index), recorded)
