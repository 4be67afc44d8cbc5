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
    ended: Bool[Array, "*batch"]


def empty(capacity: int, n_inputs: int) -> Experience:
    """A ring without content."""
    zeros = jnp.zeros((capacity, n_inputs))
    return Experience(zeros, jnp.zeros(capacity, jnp.int32), jnp.zeros(capacity), zeros, jnp.zeros(capacity, bool))


def add(ring: Experience, new: Experience, count: Int[Array, ""]) -> Experience:
    """Write a block where the oldest stands. `count` blocks were written before; the capacity is a multiple of a block."""
    capacity, block = ring.r_t.shape[0], new.r_t.shape[0]
    at = (count * block) % capacity
    return jax.tree.map(lambda old, n: jax.lax.dynamic_update_slice_in_dim(old, n, at, axis=0), ring, new)


def sample(key: PRNGKeyArray, ring: Experience, count: Int[Array, ""], block: int, batch: int) -> Experience:
    """`batch` transitions, each as likely as any other, after `count` blocks were written."""
    filled = jnp.minimum(count * block, ring.r_t.shape[0])
    index = jr.randint(key, (batch,), 0, filled)
    return jax.tree.map(lambda x: x[index], ring)


def sample_by_domain(
    key: PRNGKeyArray,
    ring: Experience,
    count: Int[Array, ""],
    block: int,
    n_domains: int,
    domains: Int[Array, " some"],
    n: int,
) -> Experience:
    """As `sample`, with `n` transitions of each of `domains`; in a block every domain has as many, side by side."""
    key_block, key_place = jr.split(key)
    each, shape = block // n_domains, (domains.shape[0], n)
    blocks = jr.randint(key_block, shape, 0, jnp.minimum(count, ring.r_t.shape[0] // block))
    place = jr.randint(key_place, shape, 0, each) + each * domains[:, None]
    return jax.tree.map(lambda x: x[blocks * block + place], ring)
