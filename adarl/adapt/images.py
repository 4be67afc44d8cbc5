"""theta of a target from trials that are seen through a camera.

In: the world model and a film of the target. Out: `Estimate`, as where states are seen.

The objective of Sec. 3.1 with everything but theta frozen: what is believed of the states depends on theta, and so does all
that follows from it. Departs from the paper: theta has a handful of dimensions, each with a valley of its own, so they are
looked at one after the other, closer and closer, instead of going down gradients.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from adarl.adapt.search import BEYOND, PRIOR
from adarl.adapt.states import Estimate
from adarl.model import losses
from adarl.model.eye import Seen
from adarl.model.losses import Sparsity
from adarl.model.sight import Trials, all_trials, foretold, look
from adarl.model.world import WorldModel
from adarl.policy.imagine import box
from adarl.types import AdarlError, Theta

TRIALS = 64  # that are looked at, spread evenly: the model's bias outweighs what more of them could tell
FRAMES = 4  # of a trial that are drawn anew
FEW = 16  # of them show where the valley is
ROUNDS = 3  # closer and closer, the last of them on all trials
PLACES = 7  # of one dimension, in one round


def adapt(model: WorldModel, film: Seen) -> Estimate:
    """The theta of the one domain that was filmed. Images are drawn of the trials that are looked at only."""
    film = thinned(film, TRIALS)
    if not bool(film.episodes.valid.any()):
        raise AdarlError("0 samples were given; at least 1 is needed.")
    masks = model.masks
    opened = Theta(masks.c_theta_to_s.any(0), masks.c_theta_to_r > 0, masks.c_theta_to_o > 0)
    index = np.flatnonzero(np.concatenate([np.asarray(part) for part in _parts(opened)]))
    theta, sd = _search(model, film, tuple(index.tolist()))
    return Estimate(_like(opened, theta), _like(opened, sd))


def thinned(film: Seen, n: int) -> Seen:
    """At most `n` of the trials, evenly spread; those without a step come last."""
    valid = np.asarray(film.episodes.valid.any(2)[0])
    there = np.flatnonzero(valid)
    kept = there if there.size <= n else there[np.arange(n) * there.size // n]
    return film.only(jnp.asarray(kept if kept.size else np.arange(1)))


def _parts(theta: Theta) -> tuple[Array, Array, Array]:
    return theta.theta_s, theta.theta_r, theta.theta_o


def _like(theta: Theta, flat: Float[Array, " theta"]) -> Theta:
    ends = np.cumsum([part.shape[-1] for part in _parts(theta)])
    return Theta(*jnp.split(flat, ends[:2]))


@eqx.filter_jit
def _search(model: WorldModel, film: Seen, opened: tuple[int, ...]) -> tuple[Float[Array, " theta"], Float[Array, " theta"]]:
    """The lowest place of the objective, and deviations by how steep it is there; dimensions that are not open stay zero."""
    eye = model.eye
    assert eye is not None
    trials = all_trials(film)
    sources = jnp.concatenate(_parts(model.theta), axis=1)
    low, high = box(sources, BEYOND)

    def objective(flat: Float[Array, " theta"], trials: Trials) -> Float[Array, ""]:
        """Nats a step. The same states are drawn and the same frames looked at whatever theta is."""
        raw = jax.tree.map(lambda x: x[None], model.raw(_like(model.theta, flat)))
        seen = look(eye, model.masks, raw, trials, model.scale, FRAMES, jr.key(0))
        known = (model.heads, eye, model.masks, raw, trials, seen, model.scale, 1.0)
        of_states = losses.terms(model.heads, model.masks, raw, model.scale, model.n_actions, seen.rows, Sparsity(), 1.0)
        nats = sum((of_states | seen.terms).values()) + foretold(*known, jr.key(1))
        return nats + 0.5 * (flat**2).sum() / PRIOR**2 / trials.valid.sum()

    def closer(known: tuple[Array, Array], now: tuple[Array, Array], trials: Trials) -> tuple[tuple[Array, Array], None]:
        (theta, sd), (i, around) = known, now
        reach = 0.5 * (high[i] - low[i]) * (2 / (PLACES - 1)) ** around
        middle = jnp.where(around == 0, 0.5 * (high[i] + low[i]), theta[i])
        tried = middle + reach * jnp.linspace(-1.0, 1.0, PLACES)
        lowest, bend = _valley(tried, jax.lax.map(lambda x: objective(theta.at[i].set(x), trials), tried))
        deviation = 1 / jnp.sqrt(jnp.maximum(bend * trials.valid.sum(), PRIOR**-2))
        return (theta.at[i].set(lowest), sd.at[i].set(deviation)), None

    nothing = jnp.zeros(sources.shape[1])
    if not opened:
        return nothing, nothing
    known, few = (nothing, nothing), jax.tree.map(lambda x: x[:, :FEW], trials)
    for rounds, looked_at in ((jnp.arange(ROUNDS - 1), few), (jnp.array([ROUNDS - 1]), trials)):
        turns = jnp.tile(jnp.asarray(opened), len(rounds)), jnp.repeat(rounds, len(opened))
        known, _ = jax.lax.scan(lambda known, now, looked_at=looked_at: closer(known, now, looked_at), known, turns)
    return known


def _valley(x: Float[Array, " place"], y: Float[Array, " place"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Where a parabola through the lowest place and its neighbours is lowest, and how it bends."""
    i = jnp.clip(jnp.argmin(y), 1, x.shape[0] - 2)
    step = jnp.maximum(x[1] - x[0], 1e-6)  # where sources do not differ, all places are one
    slope, bend = (y[i + 1] - y[i - 1]) / (2 * step), (y[i + 1] - 2 * y[i] + y[i - 1]) / step**2
    lowest = x[i] - slope / jnp.maximum(bend, 1e-9)
    return jnp.where(bend > 0, jnp.clip(lowest, x[i - 1], x[i + 1]), x[jnp.argmin(y)]), bend
