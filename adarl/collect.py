"""Behaviour policy x domains -> Episodes (Algorithm 1, line 2).

In: a functional domain, its factors, a policy, a key. Out: trials of up to `steps` steps. A trial that ends early keeps
what it has; the rest is masked. Dropping such trials would select states by domain.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.domains.functional import Factors, Functional
from adarl.types import Episodes

Behaviour = Callable[[PRNGKeyArray, Float[Array, " state"]], Int[Array, ""]]


@dataclass(frozen=True)
class CollectConfig:
    """How much the sources are watched before anything is learned."""

    trials: int = 400
    """Trials in each source domain."""

    steps: int = 40
    """Steps of a trial, at most (paper: 40)."""

    wide: float = 0.8
    """Share of the trials that start from states spread over the reachable ones, where the simulator can do that."""

    persist: float = 0.0
    """Chance that a random action is repeated: shoves reach places that nudges never see, such as the top of a hill."""

    again: int = 0
    """Times that the sources are recorded again, by a policy learned meanwhile: for what random actions seldom meet. A model
    that never saw a goal imagines none."""


@functools.cache
def random_policy(n_actions: int) -> Behaviour:
    """Every action equally likely, whatever the state. Cached, so that one function compiles once."""
    return lambda key, s: jr.randint(key, (), 0, n_actions)


@eqx.filter_jit
def collect(
    domain: Functional,
    factors: Factors,
    behave: Behaviour,
    key: PRNGKeyArray,
    *,
    trials: int,
    steps: int,
    wide: float,
    persist: float = 0.0,
) -> Episodes:
    """`trials` trials in each domain of `factors` (arrays over domains)."""

    def trial(key: PRNGKeyArray, factors: Factors, is_wide: Array):
        key_reset, key_steps = jr.split(key)
        start = domain.reset(key_reset, factors, is_wide)

        def move(carry, key):
            s_tm1, running, last = carry
            key_act, key_step = jr.split(key)
            again = (last >= 0) & jr.bernoulli(jr.fold_in(key, 0), persist)
            a_tm1 = jnp.where(again, last, behave(key_act, s_tm1))
            step = domain.step(key_step, s_tm1, a_tm1, factors)
            s_t = jnp.where(running, step.s, s_tm1)
            goes_on = running & domain.recordable(step.s)
            return (s_t, goes_on, a_tm1), (s_t, a_tm1, step.r, step.ended & running, running)

        first = (start, jnp.bool_(True), jnp.int32(-1))
        _, (s, a, r, ended, valid) = jax.lax.scan(move, first, jr.split(key_steps, steps))
        return Episodes(jnp.concatenate([start[None], s]), a, jnp.where(valid, r, 0.0), ended, valid)

    n_domains = jax.tree.leaves(factors)[0].shape[0]
    keys = jr.split(key, (n_domains, trials))
    is_wide = jnp.arange(trials) < round(wide * trials)
    over_trials = jax.vmap(trial, in_axes=(0, None, 0))
    return jax.vmap(over_trials, in_axes=(0, 0, None))(keys, factors, is_wide)
