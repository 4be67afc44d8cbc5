"""theta of a target from steps whose states are seen.

In: the world model and a few steps of the target. Out: `Estimate`, theta with standard deviations. theta_s speaks through
the states only and theta_r through the reward only, so they are two small searches.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from adarl.adapt.search import LogP, Rows, search
from adarl.model.masks import into_reward, into_states
from adarl.model.world import WorldModel, log_p_reward, log_p_state
from adarl.types import AdarlError, Episodes, Theta, Transition

MOST = 8192  # rows that are looked at, spread evenly: the model's bias outweighs what more of them could tell


class Estimate(eqx.Module):
    """What is known of a target."""

    theta: Theta
    """Without a domain axis. A dimension that no mask lets through is 0."""
    sd: Theta
    """Posterior standard deviations. They tell noise, not the model's own bias, which stays."""


def adapt(model: WorldModel, episodes: Episodes) -> Estimate:
    """The theta of the domain that the episodes come from; of all together, should there be several."""
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), episodes.transitions())
    return estimate(model, rows, episodes.valid.reshape(-1))


def first_steps(episodes: Episodes, n: int) -> Episodes:
    """Only the first `n` steps of every domain, in the order of the trials; all if there are fewer."""
    shape = episodes.valid.shape
    count = jnp.cumsum(episodes.valid.reshape(shape[0], -1), axis=1).reshape(shape)
    return eqx.tree_at(lambda e: e.valid, episodes, episodes.valid & (count <= n))


def estimate(model: WorldModel, rows: Transition, valid: Bool[Array, " row"]) -> Estimate:
    """The posterior's maximum and its width. Deterministic; time grows with the rows up to MOST of them."""
    kept = np.flatnonzero(np.asarray(valid))
    if kept.size == 0:
        raise AdarlError("0 samples were given; at least 1 is needed.")
    kept = kept[np.arange(min(kept.size, MOST)) * kept.size // min(kept.size, MOST)]
    # A power of two, so that different N share a compiled program.
    padded = np.zeros(max(64, 1 << (kept.size - 1).bit_length()), np.int32)
    padded[: kept.size] = kept
    rows = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[padded]), rows)
    open_s = np.flatnonzero(np.asarray(model.masks.c_theta_to_s).any(0))
    open_r = np.flatnonzero(np.asarray(model.masks.c_theta_to_r))
    return _estimate(model, rows, jnp.int32(kept.size), tuple(open_s.tolist()), tuple(open_r.tolist()))


@eqx.filter_jit
def _estimate(
    model: WorldModel,
    rows: Transition,
    count: Int[Array, ""],
    open_s: tuple[int, ...],
    open_r: tuple[int, ...],
) -> Estimate:
    shared = (model.scale, model.n_actions)

    def of_states(step: Transition, raw: Float[Array, " theta_s"]) -> Float[Array, ""]:
        return log_p_state(model.heads, into_states(model.masks), *shared, step, raw).sum()

    def of_reward(step: Transition, raw: Float[Array, " theta_r"]) -> Float[Array, ""]:
        return log_p_reward(model.heads, into_reward(model.masks), *shared, step, raw).sum()

    theta_s, sd_s = open_only(
        of_states,
        model.theta.theta_s,
        model.theta_mean.theta_s,
        model.theta_scale.theta_s,
        open_s,
        rows,
        count,
    )
    theta_r, sd_r = open_only(
        of_reward,
        model.theta.theta_r,
        model.theta_mean.theta_r,
        model.theta_scale.theta_r,
        open_r,
        rows,
        count,
    )
    return Estimate(Theta(theta_s, theta_r), Theta(sd_s, sd_r))


def open_only(
    log_p_raw: LogP,
    sources: Float[Array, "domain theta"],
    mean: Float[Array, " theta"],
    scale: Float[Array, " theta"],
    opened: tuple[int, ...],
    rows: Rows,
    count: Int[Array, ""],
) -> tuple[Float[Array, " theta"], Float[Array, " theta"]]:
    """`search` over the dimensions that a mask lets through; the others are 0."""
    zero = jnp.zeros(sources.shape[1])
    if not opened:
        return zero, zero
    index = np.asarray(opened)

    def log_p(step: Any, theta: Float[Array, " open"]) -> Float[Array, ""]:
        return log_p_raw(step, mean + scale * zero.at[index].set(theta))

    theta, sd = search(log_p, sources[:, index], rows, count)
    return zero.at[index].set(theta), zero.at[index].set(sd)
