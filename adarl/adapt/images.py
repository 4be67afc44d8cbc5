"""theta of a target from trials that are seen through a camera.

In: the world model and a film of the target. Out: `Estimate`, as where states are seen.

What is believed of the states depends on theta, and theta is estimated from what is believed: the two take turns, as in the
EM algorithm. theta_o speaks through the images, given the states behind them.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from adarl.adapt.states import Estimate, estimate, open_only
from adarl.model.eye import Seen
from adarl.model.sight import believe
from adarl.model.world import WorldModel
from adarl.types import AdarlError, Theta

ROUNDS = 3
TRIALS = 256  # that are looked at, spread evenly: the model's bias outweighs what more of them could tell
FRAMES = 32  # from which theta_o is estimated: every one has thousands of pixels


class Frame(NamedTuple):
    """An image and what is believed to be behind it."""

    s: Float[Array, "frame state"]
    o: Float[Array, "frame height width channel"]


def adapt(model: WorldModel, film: Seen) -> Estimate:
    """The theta of the one domain that was filmed. Trials are drawn as images in blocks, however many there are."""
    film = thinned(film, TRIALS)
    episodes = film.episodes
    if not bool(episodes.valid.any()):
        raise AdarlError("0 samples were given; at least 1 is needed.")
    known = jax.tree.map(lambda t: jnp.zeros(t.shape[1:]), Estimate(model.theta, model.theta))
    index, count = _spread_evenly(np.asarray(episodes.valid[0]))
    for _ in range(ROUNDS):
        believed = believe(model, film, jax.tree.map(lambda t: t[None], known.theta))
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), believed.transitions())
        of_states = estimate(model, rows, episodes.valid.reshape(-1))
        theta_o, sd_o = _of_images(model, film, believed.s[0], jnp.asarray(index), jnp.int32(count))
        both = (of_states.theta, theta_o), (of_states.sd, sd_o)
        known = Estimate(*(Theta(part.theta_s, part.theta_r, of_o) for part, of_o in both))
    return known


def thinned(film: Seen, n: int) -> Seen:
    """At most `n` of the trials, evenly spread; those without a step come last."""
    valid = np.asarray(film.episodes.valid.any(2)[0])
    there = np.flatnonzero(valid)
    kept = there if there.size <= n else there[np.arange(n) * there.size // n]
    return film.only(jnp.asarray(kept if kept.size else np.arange(1)))


def _spread_evenly(valid: Bool[np.ndarray, "trial time"]) -> tuple[Int[np.ndarray, "frame 2"], int]:
    """(trial, time) of FRAMES frames that there are, and how many of them count."""
    there = np.argwhere(np.concatenate([np.ones_like(valid[:, :1]), valid], axis=1))
    n = min(FRAMES, len(there))
    kept = there[np.arange(n) * len(there) // n]
    return np.concatenate([kept, np.zeros((FRAMES - n, 2), int)]), n


@eqx.filter_jit
def _of_images(model: WorldModel, film: Seen, s: Float[Array, "trial time state"], index: Array, count: Array):
    """theta_o and its deviations from some frames."""
    eye = model.eye
    assert eye is not None
    masks, n_open = model.masks, model.theta.theta_o.shape[1]
    one = lambda at: film.frames(jnp.int32(0), at[0])[at[1]]  # noqa: E731
    frames = Frame(s[index[:, 0], index[:, 1]], jax.lax.map(one, index))

    def log_p(frame: Frame, raw: Float[Array, " theta_o"]) -> Float[Array, ""]:
        theta_o = raw * masks.c_theta_to_o
        inputs = jnp.concatenate([frame.s * masks.c_s_to_o, theta_o])
        return eye.observation.log_p(inputs, theta_o, frame.o)

    sources = (model.theta.theta_o, model.theta_mean.theta_o, model.theta_scale.theta_o)
    return open_only(log_p, *sources, tuple(range(n_open)), frames, count)
