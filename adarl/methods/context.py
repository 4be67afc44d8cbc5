"""What methods share that learn a context of their own: it stands where theta stands, last in what the policy sees."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.policy.replay import Experience
from adarl.types import Theta

Rows = TypeVar("Rows")

RECORDED = 2000  # random steps of every source, to find contexts by in training
TASKS = 6  # sources in one update; all of them where there are fewer


def as_theta(context: Float[Array, "*domain context"]) -> Theta:
    """A context in the place of theta_s."""
    return Theta(context, jnp.zeros((*context.shape[:-1], 0)))


def tell(steps: Experience, context: Float[Array, " context"]) -> Experience:
    """The steps with another context."""
    put = lambda x: x.at[..., x.shape[-1] - context.shape[0] :].set(context)  # noqa: E731
    return eqx.tree_at(lambda e: (e.x_tm1, e.x_t), steps, (put(steps.x_tm1), put(steps.x_t)))


def tasks(key: PRNGKeyArray, n_domains: int) -> Int[Array, " task"]:
    """The sources of one update."""
    return jr.permutation(key, n_domains)[:TASKS] if n_domains > TASKS else jnp.arange(n_domains)


def drawn(key: PRNGKeyArray, recorded: Rows, domains: Int[Array, " task"], n: int) -> Rows:
    """`n` random rows of each of `domains`; the axes of `recorded` are (domain, row)."""
    n_rows = jax.tree.leaves(recorded)[0].shape[1]
    index = jr.randint(key, (domains.shape[0], n), 0, n_rows)
    return jax.tree.map(lambda x: x[domains[:, None], index], recorded)


def told_anew(told: Theta, domains: Int[Array, " task"], context: Float[Array, "task context"]) -> Theta:
    """What the policy is told of every source, after an update of some."""
    return as_theta(told.theta_s.at[domains].set(jax.lax.stop_gradient(context)))
