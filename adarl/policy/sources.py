"""The sources as environments to practise in, and where their episodes start.

In: a domain and the factors of the sources. Out: starts, drawn anew or chosen among some that were looked at once.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.domains.functional import Factors, Functional
from adarl.policy.elsewhere import Elsewhere
from adarl.policy.imagine import Imagined

STARTS = 1000  # of every source and kind, where they are drawn once


class Sources(eqx.Module):
    """Where the policy may practise."""

    domain: Functional | None
    """None where the sources are Gymnasium environments."""
    factors: Factors
    """Arrays over the source domains."""
    n_domains: int = eqx.field(static=True)
    imagined: Imagined | None
    """For AdaRL+."""
    best: Float[Array, ""]
    """The largest reward in the recordings."""
    elsewhere: Elsewhere | None = None
    """For AdaRL+ where images are seen."""
    starts: Float[Array, "domain two start state"] | None = None
    """Where a start costs as much as a step: usual and wide ones to choose from, drawn once."""

    def start(self, key: PRNGKeyArray, k: Int[Array, ""], wide: Bool[Array, ""]) -> Float[Array, " state"]:
        """Of an episode in a source."""
        if self.starts is not None:
            return self.starts[k, wide.astype(int), jr.randint(key, (), 0, self.starts.shape[2])]
        assert self.domain is not None
        return self.domain.reset(key, jax.tree.map(lambda f: f[k], self.factors), wide)


@eqx.filter_jit
def with_starts(sources: Sources, key: PRNGKeyArray) -> Sources:
    """Sources whose episodes start at one of `STARTS` states of each kind, the same for all seeds."""
    domain = sources.domain
    assert domain is not None

    def one(factors: Factors, wide: Array, key: PRNGKeyArray) -> Array:
        reset = lambda k: domain.reset(k, factors, wide)  # noqa: E731
        return jax.lax.map(reset, jr.split(key, STARTS), batch_size=100)

    kinds = jax.vmap(one, in_axes=(None, 0, 0))
    keys = jr.split(key, (sources.n_domains, 2))
    return replace(sources, starts=jax.vmap(kinds, in_axes=(0, None, 0))(sources.factors, jnp.arange(2) > 0, keys))
