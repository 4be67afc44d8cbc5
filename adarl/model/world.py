"""The world model of Eq. 1: masks, heads, scales, theta of the sources, and where images are seen an eye.

In: a state, an action, a theta. Out: how likely a next state and reward are, or one drawn from the model.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.model.eye import Eye
from adarl.model.heads import RewardHead
from adarl.model.masks import into_reward, into_states
from adarl.model.mixture import Mixture, draw, log_prob, mean_of, without_rare
from adarl.model.transition import TransitionHead, head_inputs
from adarl.types import Masks, Step, Theta, Transition


class Scale(eqx.Module):
    """What brings states, increments and rewards to about one. Measured on the sources, then fixed."""

    s_mean: Float[Array, " state"]
    s_scale: Float[Array, " state"]
    increment_scale: Float[Array, " state"]
    r_mean: Float[Array, ""]
    r_scale: Float[Array, ""]


class Heads(eqx.Module):
    """Eq. 1's functions of states."""

    transition: TransitionHead
    reward: RewardHead


class WorldModel(eqx.Module):
    """Eq. 1, estimated. theta is standardised over the sources."""

    heads: Heads
    masks: Masks
    """Binary, as floats."""
    masks_prob: Masks
    theta: Theta
    """One row a source domain."""
    theta_mean: Theta
    theta_scale: Theta
    """theta_mean + theta_scale * theta is what the heads were fitted with."""
    scale: Scale
    n_actions: int = eqx.field(static=True)
    eye: Eye | None = None
    """Where images are seen: what turns them into states."""

    def raw(self, theta: Theta) -> Theta:
        """From standardised theta to the heads' own."""
        return jax.tree.map(lambda m, d, t: m + d * t, self.theta_mean, self.theta_scale, theta)

    def log_likelihood(self, step: Transition, theta: Theta) -> Float[Array, ""]:
        """log p(s_t, r_t, ended | s_tm1, a_tm1; theta) of one step."""
        shared = (self.scale, self.n_actions, step)
        theta = self.raw(theta)
        log_p_s = log_p_state(self.heads, into_states(self.masks), *shared, theta.theta_s)
        return log_p_s.sum() + log_p_reward(self.heads, into_reward(self.masks), *shared, theta.theta_r).sum()

    def draw(self, key: PRNGKeyArray, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], theta: Theta) -> Step:
        """One imagined step. The episode ends where that is more likely than not."""
        key_s, key_r = jr.split(key)
        theta = self.raw(theta)
        s, a = encode(self.scale, self.n_actions, s_tm1, a_tm1)
        keys = jr.split(key_s, s.shape[0])
        increments = jax.vmap(draw)(keys, self._increments(s, a, theta))
        either, log_odds = self.heads.reward(s, a, theta.theta_r, into_reward(self.masks))
        ended = log_odds > 0
        return Step(
            s_tm1 + self.scale.increment_scale * increments,
            self.scale.r_mean + self.scale.r_scale * draw(key_r, without_rare(given(either, ended))),
            ended,
        )

    def expected(self, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], theta: Theta) -> Float[Array, " state"]:
        """The mean of the next state."""
        increments = self._increments(*encode(self.scale, self.n_actions, s_tm1, a_tm1), self.raw(theta))
        return s_tm1 + self.scale.increment_scale * mean_of(increments)

    def pay(self, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], theta: Theta, ended: Bool[Array, ""]) -> Array:
        """The mean of the reward where it is known whether the episode ended."""
        either, _ = self.heads.reward(
            *encode(self.scale, self.n_actions, s_tm1, a_tm1), self.raw(theta).theta_r, into_reward(self.masks)
        )
        return self.scale.r_mean + self.scale.r_scale * mean_of(without_rare(given(either, ended)))

    def _increments(self, s: Array, a: Array, theta: Theta) -> Mixture:
        """Of every dimension, in units of its scale; what is rare is left out. theta is raw."""

        def increment(head, parents):
            inputs, c_theta = head_inputs(s, a, parents)
            return without_rare(head(inputs, theta.theta_s * c_theta))

        return eqx.filter_vmap(increment)(self.heads.transition, into_states(self.masks))


def encode(
    scale: Scale, n_actions: int, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""]
) -> tuple[Float[Array, " state"], Float[Array, " action"]]:
    """Standardised state and one-hot action in {-1, 1}."""
    return (s_tm1 - scale.s_mean) / scale.s_scale, 2.0 * jax.nn.one_hot(a_tm1, n_actions) - 1.0


def log_p_state(
    heads: Heads,
    parents: Float[Array, "state parent"],
    scale: Scale,
    n_actions: int,
    step: Transition,
    theta_s: Float[Array, " theta_s"],
    apart: float | Array = 1.0,
) -> Float[Array, " state"]:
    """log p(s_i,t | s_tm1, a_tm1; theta_s) for every i, in units of the increments' scale. Eq. 1, transition."""
    s, a = encode(scale, n_actions, step.s_tm1, step.a_tm1)
    increment = (step.s_t - step.s_tm1) / scale.increment_scale

    def one(head, row, value):
        inputs, c_theta = head_inputs(s, a, row)
        return log_prob(head(inputs, theta_s * c_theta, apart), value)

    return eqx.filter_vmap(one)(heads.transition, parents, increment)


def mean_step(
    heads: Heads,
    parents: Float[Array, "state parent"],
    scale: Scale,
    n_actions: int,
    s_tm1: Float[Array, " state"],
    a_tm1: Int[Array, ""],
    theta_s: Float[Array, " theta_s"],
    apart: float | Array = 1.0,
) -> Float[Array, " state"]:
    """The mean of p(s_t | s_tm1, a_tm1; theta_s). theta is raw."""
    s, a = encode(scale, n_actions, s_tm1, a_tm1)

    def one(head, row):
        inputs, c_theta = head_inputs(s, a, row)
        return mean_of(head(inputs, theta_s * c_theta, apart))

    return s_tm1 + scale.increment_scale * eqx.filter_vmap(one)(heads.transition, parents)


def log_p_reward(
    heads: Heads,
    parents: Float[Array, " parent"],
    scale: Scale,
    n_actions: int,
    step: Transition,
    theta_r: Float[Array, " theta_r"],
    apart: float | Array = 1.0,
) -> Float[Array, "2"]:
    """log p(r_t | ended, s_tm1, a_tm1; theta_r) and log p(ended | s_tm1, a_tm1; theta_r). Eq. 1, reward."""
    s, a = encode(scale, n_actions, step.s_tm1, step.a_tm1)
    either, log_odds = heads.reward(s, a, theta_r, parents, apart)
    value = (step.r_t - scale.r_mean) / scale.r_scale
    log_p_ended = -jax.nn.softplus(jnp.where(step.ended, -log_odds, log_odds))
    return jnp.stack([log_prob(given(either, step.ended), value), log_p_ended])


def given(either: Mixture, ended: Bool[Array, ""]) -> Mixture:
    """r_t where it is known whether the episode ended."""
    return Mixture(*(jnp.where(ended, x[1], x[0]) for x in either))
