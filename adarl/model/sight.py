"""The terms that only images have: L_rec and L_pred of observations, and rows of states as the encoder believes them.

In: trials of every domain with their images. Out: `Believed` rows, to which the functions of Eq. 1 are fitted as they are to
observed states, the terms by name, and the worth of the edges into o.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.model import eye as eyes
from adarl.model import masks as gates
from adarl.model.encoder import draw_posterior
from adarl.model.eye import Eye, perceive
from adarl.model.losses import Believed
from adarl.model.mixture import spread_out
from adarl.model.patches import Inwards
from adarl.model.world import Heads, Scale, WorldModel, mean_step
from adarl.types import Episodes, Masks, Theta, Transition

FAR = 8
"""Steps ahead at which the transition is asked to foretell an image."""
STARTS = 4
"""Moments of a trial from which it is."""


class Trials(NamedTuple):
    """Some trials of every domain, with what was seen. Rewards are standardised where the encoder reads them."""

    o: Float[Array, "domain trial time_plus_1 height width channel"]
    a: Int[Array, "domain trial time"]
    r: Float[Array, "domain trial time"]
    ended: Bool[Array, "domain trial time"]
    valid: Bool[Array, "domain trial time"]


def draw_trials(film: eyes.Seen, n: int, key: PRNGKeyArray) -> Trials:
    """`n` trials of every domain."""
    episodes = film.episodes
    n_domains, n_trials = episodes.a.shape[:2]
    index = jr.randint(key, (n_domains, n), 0, n_trials)
    k = jnp.arange(n_domains)[:, None]
    o = jax.vmap(jax.vmap(film.frames, in_axes=(None, 0)))(k[:, 0], index)
    return Trials(o, episodes.a[k, index], episodes.r[k, index], episodes.ended[k, index], episodes.valid[k, index])


def all_trials(film: eyes.Seen) -> Trials:
    """Every trial of every domain."""
    episodes = film.episodes
    n_domains, n_trials = episodes.a.shape[:2]
    o = jax.vmap(jax.vmap(film.frames, in_axes=(None, 0)), in_axes=(0, None))(jnp.arange(n_domains), jnp.arange(n_trials))
    return Trials(o, episodes.a, episodes.r, episodes.ended, episodes.valid)


class Impression(NamedTuple):
    """What a film is like, over all domains."""

    brightness: Float[Array, ""]
    """Of pixels on average."""
    noise: Float[Array, ""]
    """Standard deviation of what comes and goes in a pixel that shows nothing new. By the median over pixels of how frames
    differ from the next, because most pixels of most frames show no movement."""
    moved: Float[Array, ""]
    """Standard deviation of what moves in features between two frames."""
    look: Inwards
    """With features in units of their own over the film."""


def first_impression(film: eyes.Seen, look: Inwards, key: PRNGKeyArray) -> Impression:
    """By a few trials of every domain."""
    trials = draw_trials(film, 8, key)
    change = trials.o[:, :, 1:] - trials.o[:, :, :-1]
    each = jnp.sqrt(0.5 * (change**2).mean((1, 2)))
    noise = jnp.median(each.reshape(each.shape[0], -1), axis=1).mean()
    look = look.after_a_look(trials.o)
    return Impression(trials.o.mean(), noise, jnp.diff(look(trials.o), axis=2).std(), look)


class Shown(NamedTuple):
    """Some frames of every trial, with the states they show: to draw all of them would cost as much as all the rest."""

    o: Float[Array, "domain trial frame height width channel"]
    s: Float[Array, "domain trial frame state"]
    before: Float[Array, "domain trial frame state"]
    """One step earlier."""
    weight: Float[Array, "domain trial frame"]
    """How many of all frames each stands for; zero where there was none."""
    weight_before: Float[Array, "domain trial frame"]


def some_frames(trials: Trials, s: Float[Array, "domain trial time_plus_1 state"], n: int, key: PRNGKeyArray) -> Shown:
    """`n` frames of every trial, each as likely as any other."""
    there = jnp.concatenate([jnp.ones_like(trials.valid[:, :, :1]), trials.valid], axis=2).astype(jnp.float32)
    total = there.shape[2]
    at = jr.randint(key, (*there.shape[:2], n), 0, total)
    take = jax.vmap(jax.vmap(lambda x, i: x[i]))
    weight = take(there, at) * (total / n)
    return Shown(take(trials.o, at), take(s, at), take(s, jnp.maximum(at - 1, 0)), weight, weight * (at > 0))


class Seen(NamedTuple):
    """What one look at some trials gives."""

    rows: Believed
    terms: dict[str, Array]
    shown: Shown
    """With states drawn from what is believed."""
    s: Float[Array, "domain trial time_plus_1 state"]
    """All of them."""


def look(
    eye: Eye,
    masks: Masks,
    theta: Theta,
    trials: Trials,
    scale: Scale,
    frames: int,
    key: PRNGKeyArray,
    apart: float | Array = 1.0,
) -> Seen:
    """Believed states, and -log p of what was seen, averaged over steps. theta is raw, one row a domain.

    `frames` of every trial are drawn anew from their states. `apart` lets the means of a belief differ.
    """
    key_states, key_frames = jr.split(key)
    r = (trials.r - scale.r_mean) / scale.r_scale
    trial = lambda o, a, r, theta: eye.trial(o, a, r, theta, masks)  # noqa: E731
    over_trials = jax.vmap(jax.vmap(trial, in_axes=(0, 0, 0, None)))
    q = spread_out(over_trials(trials.o, trials.a, r, theta), apart)
    s, log_q = draw_posterior(key_states, q)
    shown = some_frames(trials, s, frames, key_frames)
    valid = trials.valid.astype(jnp.float32)
    n_steps = valid.sum()
    first = log_q[:, :, 0] + 0.5 * s[:, :, 0] ** 2 + 0.5 * jnp.log(2 * jnp.pi)
    terms = {
        "observation": -observed(eye, masks, theta, shown) / n_steps,
        "prediction": -(foreseen(eye, theta, shown) + expected_pay(eye, theta, trials, r, s)) / n_steps,
        # Departs from the paper, whose sum starts at the second step: a first state far from zero costs, or nothing would
        # say what unit a state has.
        "first": first.sum() / n_steps,
    }
    flat = lambda x: x.reshape(x.shape[0], -1, *x.shape[3:])  # noqa: E731
    steps = Transition(*map(flat, (s[:, :, :-1], trials.a, trials.r, s[:, :, 1:], trials.ended)))
    return Seen(Believed(steps, flat(valid), flat(log_q[:, :, 1:])), terms, shown, s)


def observed(eye: Eye, masks: Masks, theta: Theta, shown: Shown) -> Float[Array, ""]:
    """L_rec: sum of log p(o_t | s_t; theta_o) over all images that there are."""
    theta_o = _spread(theta.theta_o * masks.c_theta_to_o, shown.s)
    inputs = jnp.concatenate([shown.s * masks.c_s_to_o, theta_o], -1)
    return (eye.observation.log_p(inputs, theta_o, shown.o) * shown.weight).sum()


def foreseen(eye: Eye, theta: Theta, shown: Shown) -> Float[Array, ""]:
    """L_pred, of images: sum of log p(o_t+1 | s_t; theta_o, theta_s). No masks: a help for the encoder only."""
    wide = Theta(*(_spread(t, shown.before) for t in (theta.theta_s, theta.theta_r, theta.theta_o)))
    return (eye.predictions.log_p_image(shown.before, wide, shown.o) * shown.weight_before).sum()


def foretold(
    heads: Heads,
    eye: Eye,
    masks: Masks,
    theta: Theta,
    trials: Trials,
    seen: Seen,
    scale: Scale,
    apart: float | Array,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """-log p of images `FAR` steps ahead of a believed state, by the transition alone, averaged over steps.

    Departs from the paper, whose predictions go one step: in one step a slow thing moves by less than a pixel shows, and
    what is not needed to foretell is not believed in.
    """
    s, n_actions = seen.s, eye.encoder.n_actions
    n_times = trials.a.shape[2]
    far = min(FAR, n_times)
    at = jr.randint(key, (*trials.a.shape[:2], STARTS), 0, n_times - far + 1)
    parents = gates.into_states(masks)

    def one(s: Array, a: Array, valid: Array, o: Array, at: Array, theta_s: Array) -> tuple[Array, Array, Array]:
        move = lambda s, a: (mean_step(heads, parents, scale, n_actions, s, a, theta_s, apart), None)  # noqa: E731
        later, _ = jax.lax.scan(move, s[at], jax.lax.dynamic_slice_in_dim(a, at, far))
        return later, o[at + far], valid[at + far - 1]

    from_all = jax.vmap(one, in_axes=(None, None, None, None, 0, None))
    of_trials = jax.vmap(jax.vmap(from_all, in_axes=(0, 0, 0, 0, 0, None)))
    later, o, there = of_trials(s, trials.a, trials.valid, trials.o, at, theta.theta_s)
    weight = there * trials.valid.sum() / jnp.maximum(there.sum(), 1)  # each stands for as many steps as any other
    return -observed(eye, masks, theta, Shown(o, later, later, weight, weight)) / trials.valid.sum()


def expected_pay(eye: Eye, theta: Theta, trials: Trials, r: Array, s: Array) -> Float[Array, ""]:
    """L_pred, of rewards: sum of log p(r_t+2 | s_t, a_t+1; theta_r, theta_s)."""
    far = s[:, :, :-2]
    wide = Theta(*(_spread(t, far) for t in (theta.theta_s, theta.theta_r, theta.theta_o)))
    a = 2.0 * jax.nn.one_hot(trials.a[:, :, 1:], eye.encoder.n_actions) - 1.0
    rewards = eye.predictions.log_p_reward(far, a, wide, r[:, :, 1:], trials.ended[:, :, 1:])
    return (rewards * trials.valid[:, :, 1:]).sum()


def _spread(theta: Float[Array, "domain theta"], s: Float[Array, "domain trial time state"]) -> Array:
    return jnp.broadcast_to(theta[:, None, None], (*s.shape[:3], theta.shape[-1]))


def worth_to_o(eye: Eye, like: Masks, theta: Theta, shown: Shown) -> tuple[Array, Array]:
    """Of every edge s -> o and theta -> o: what is lost without it, relative to what all explain; the others in place."""
    n_s, n_o = like.c_s_to_o.shape[0], like.c_theta_to_o.shape[0]
    masks = lambda row: Masks(**{**vars(like), "c_s_to_o": row[:n_s], "c_theta_to_o": row[n_s:]})  # noqa: E731
    of = lambda row: observed(eye, masks(row), theta, shown)  # noqa: E731
    ones = jnp.ones(n_s + n_o)
    all_edges, no_edge = of(ones), of(jnp.zeros_like(ones))
    lost = all_edges - jax.lax.map(lambda j: of(ones.at[j].set(0.0)), jnp.arange(n_s + n_o))
    share = lost / jnp.maximum(all_edges - no_edge, 1.0)
    return share[:n_s], share[n_s:]


def believe(model: WorldModel, film: eyes.Seen, theta: Theta) -> Episodes:
    """Trials with the states that a model believes in, where `theta` (standardised, one row a domain) holds."""
    assert model.eye is not None
    return perceive(model.eye, model.masks, film, model.raw(theta), model.scale.r_mean, model.scale.r_scale)
