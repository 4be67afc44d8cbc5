"""A ring of the last transitions, as arrays: it is scanned, vmapped over seeds and checkpointed like everything else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


class Experience(eqx.Module):
    """What Double DQN learns from. x is the policy's input: s_min and theta_min side by side."""

    x_tm1: Float[Array, "*batch input"]
    a_tm1: Int[Array, "*batch"]
    r_t: Float[Array, "*batch"]
    x_t: Float[Array, "*batch input"]
    left: Float[Array, "*batch"]
    """What Q at x_t is worth at x_tm1: gamma, and nothing after an end."""
    goes_on: Bool[Array, "*batch"]
    """Whether the step that stands a block later begins where this one led."""


def empty(capacity: int, n_inputs: int) -> Experience:
    """A ring without content."""
    zeros = jnp.zeros((capacity, n_inputs))
    return Experience(
        zeros, jnp.zeros(capacity, jnp.int32), jnp.zeros(capacity), zeros, jnp.zeros(capacity), jnp.zeros(capacity, bool)
    )


def add(ring: Experience, new: Experience, count: Int[Array, ""]) -> Experience:
    """Write a block where the oldest stands. `count` blocks were written before; the capacity is a multiple of a block."""
    capacity, block = ring.r_t.shape[0], new.r_t.shape[0]
    at = (count * block) % capacity
    return jax.tree.map(lambda old, n: jax.lax.dynamic_update_slice_in_dim(old, n, at, axis=0), ring, new)


def sample(
    key: PRNGKeyArray, ring: Experience, count: Int[Array, ""], block: int, batch: int, n_step: int = 1
) -> Experience:
    """`batch` transitions of `n_step` steps, each as likely as any other, after `count` blocks were written."""
    filled = jnp.minimum(count * block, ring.r_t.shape[0])
    return ahead(ring, jr.randint(key, (batch,), 0, filled), count, block, n_step)


def ahead(ring: Experience, index: Int[Array, "*batch"], count: Int[Array, ""], block: int, n_step: int) -> Experience:
    """Transitions of up to `n_step` steps: fewer where an episode ended, or where the newest one has been reached.

    r_t + gamma r_t+1 + ... is earned on the way, and `left` is gamma to the power of how many steps there were.
    """
    capacity = ring.r_t.shape[0]
    newest = (count - 1) * block % capacity
    followed = lambda at: ring.goes_on[at] & ((at < newest) | (at >= newest + block))  # noqa: E731
    at, r, left, on = index, ring.r_t[index], ring.left[index], followed(index)
    for _ in range(n_step - 1):
        at = jnp.where(on, (at + block) % capacity, at)
        r = r + jnp.where(on, left * ring.r_t[at], 0.0)
        left = jnp.where(on, left * ring.left[at], left)
        on = on & followed(at)
    return Experience(ring.x_tm1[index], ring.a_tm1[index], r, ring.x_t[at], left, on)


def sample_by_domain(
    key: PRNGKeyArray,
    ring: Experience,
    count: Int[Array, ""],
    block: int,
    n_domains: int,
    domains: Int[Array, " some"],
    n: int,
    n_step: int = 1,
) -> Experience:
    """As `sample`, with `n` transitions of each of `domains`; in a block every domain has as many, side by side."""
    key_block, key_place = jr.split(key)
    each, shape = block // n_domains, (domains.shape[0], n)
    blocks = jr.randint(key_block, shape, 0, jnp.minimum(count, ring.r_t.shape[0] // block))
    place = jr.randint(key_place, shape, 0, each) + each * domains[:, None]
    return ahead(ring, blocks * block + place, count, block, n_step)
