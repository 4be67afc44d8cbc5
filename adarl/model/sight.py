"""The terms that only images have: L_rec and L_pred of observations, and rows of states as the encoder believes them.

In: trials of every domain with their images. Out: `Believed` rows, to which the functions of Eq. 1 are fitted as they are to
observed states, the terms by name, and the worth of the edges into o.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.model.encoder import draw_posterior
from adarl.model.eye import Eye, Film, perceive
from adarl.model.losses import Believed
from adarl.model.world import Scale, WorldModel
from adarl.types import Episodes, Masks, Theta, Transition


class Trials(NamedTuple):
    """Some trials of every domain, with what was seen. Rewards are standardised where the encoder reads them."""

    o: Float[Array, "domain trial time_plus_1 height width channel"]
    a: Int[Array, "domain trial time"]
    r: Float[Array, "domain trial time"]
    ended: Bool[Array, "domain trial time"]
    valid: Bool[Array, "domain trial time"]


def draw_trials(film: Film, n: int, key: PRNGKeyArray) -> Trials:
    """`n` trials of every domain."""
    episodes = film.episodes
    n_domains, n_trials = episodes.a.shape[:2]
    index = jr.randint(key, (n_domains, n), 0, n_trials)
    k = jnp.arange(n_domains)[:, None]
    o = jax.vmap(jax.vmap(film.frames, in_axes=(None, 0)))(k[:, 0], index)
    return Trials(o, episodes.a[k, index], episodes.r[k, index], episodes.ended[k, index], episodes.valid[k, index])


class Seen(NamedTuple):
    """What one look at some trials gives."""

    rows: Believed
    terms: dict[str, Array]
    s: Float[Array, "domain trial time_plus_1 state"]
    """States drawn from what is believed."""


def look(eye: Eye, masks: Masks, theta: Theta, trials: Trials, scale: Scale, key: PRNGKeyArray) -> Seen:
    """Believed states, and -log p of all that was seen, averaged over steps. theta is raw, one row a domain."""
    r = (trials.r - scale.r_mean) / scale.r_scale
    over_trials = lambda f: jax.vmap(jax.vmap(f, in_axes=(0, 0, 0, None)))  # noqa: E731
    q = over_trials(eye.encoder.trial)(trials.o, trials.a, r, theta)
    s, log_q = draw_posterior(key, q)
    valid = trials.valid.astype(jnp.float32)
    n_steps = valid.sum()
    first = log_q[:, :, 0] + 0.5 * s[:, :, 0] ** 2 + 0.5 * jnp.log(2 * jnp.pi)
    terms = {
        "observation": -observed(eye, masks, theta, trials, s) / n_steps,
        "prediction": -predicted(eye, theta, trials, r, s) / n_steps,
        # Departs from the paper, whose sum starts at the second step: a first state far from zero costs, or nothing would
        # say what unit a state has.
        "first": first.sum() / n_steps,
    }
    flat = lambda x: x.reshape(x.shape[0], -1, *x.shape[3:])  # noqa: E731
    steps = Transition(*map(flat, (s[:, :, :-1], trials.a, trials.r, s[:, :, 1:], trials.ended)))
    return Seen(Believed(steps, flat(valid), flat(log_q[:, :, 1:])), terms, s)


def observed(eye: Eye, masks: Masks, theta: Theta, trials: Trials, s: Array) -> Float[Array, ""]:
    """L_rec: sum of log p(o_t | s_t; theta_o) over all images that there are."""
    there = jnp.concatenate([jnp.ones_like(trials.valid[:, :, :1]), trials.valid], axis=2)
    theta_o = _spread(theta.theta_o * masks.c_theta_to_o, s)
    inputs = jnp.concatenate([s * masks.c_s_to_o, theta_o], -1)
    return (eye.observation.log_p(inputs, theta_o, trials.o) * there).sum()


def predicted(eye: Eye, theta: Theta, trials: Trials, r: Array, s: Array) -> Float[Array, ""]:
    """L_pred: sum of log p(o_t+1 | s_t; theta) + log p(r_t+2 | s_t, a_t+1; theta). No masks: a help for the encoder only."""
    near, far = s[:, :, :-1], s[:, :, :-2]
    wide = lambda like: Theta(*(_spread(t, like) for t in (theta.theta_s, theta.theta_r, theta.theta_o)))  # noqa: E731
    images = eye.predictions.log_p_image(near, wide(near), trials.o[:, :, 1:])
    a = 2.0 * jax.nn.one_hot(trials.a[:, :, 1:], eye.encoder.n_actions) - 1.0
    rewards = eye.predictions.log_p_reward(far, a, wide(far), r[:, :, 1:], trials.ended[:, :, 1:])
    return (images * trials.valid).sum() + (rewards * trials.valid[:, :, 1:]).sum()


def _spread(theta: Float[Array, "domain theta"], s: Float[Array, "domain trial time state"]) -> Array:
    return jnp.broadcast_to(theta[:, None, None], (*s.shape[:3], theta.shape[-1]))


def worth_to_o(eye: Eye, like: Masks, theta: Theta, trials: Trials, s: Array) -> tuple[Array, Array]:
    """Of every edge s -> o and theta -> o: what is lost without it, relative to what all explain; the others in place."""
    n_s, n_o = like.c_s_to_o.shape[0], like.c_theta_to_o.shape[0]
    masks = lambda row: Masks(**{**vars(like), "c_s_to_o": row[:n_s], "c_theta_to_o": row[n_s:]})  # noqa: E731
    of = lambda row: observed(eye, masks(row), theta, trials, s)  # noqa: E731
    ones = jnp.ones(n_s + n_o)
    all_edges, no_edge = of(ones), of(jnp.zeros_like(ones))
    lost = all_edges - jax.lax.map(lambda j: of(ones.at[j].set(0.0)), jnp.arange(n_s + n_o))
    share = lost / jnp.maximum(all_edges - no_edge, 1.0)
    return share[:n_s], share[n_s:]


def believe(model: WorldModel, film: Film, theta: Theta) -> Episodes:
    """Trials with the states that a model believes in, where `theta` (standardised, one row a domain) holds."""
    assert model.eye is not None
    return perceive(model.eye, film, model.raw(theta), model.scale.r_mean, model.scale.r_scale)
