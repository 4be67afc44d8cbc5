"""The nouns that pass between the stages. No stage's logic lives here.

Axis words, the same everywhere: `domain` (index k of the paper), `trial`, `time`, `state`, `theta`, `seed`.
A step leads from (s_tm1, a_tm1) to (s_t, r_t), as in Eq. 1.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class AdarlError(Exception):
    """A mistake of the caller, told in one sentence: what was given, what is accepted. Exit status 2."""


class Step(NamedTuple):
    """What an environment answers to one action."""

    s: Float[Array, " state"]
    r: Float[Array, ""]
    ended: Bool[Array, ""]
    """A failure or a goal: nothing can be earned after it. A time limit does not end a step."""


class Transition(NamedTuple):
    """One step with its start: the unit of replay, of model batches and of target samples."""

    s_tm1: Float[Array, " state"]
    a_tm1: Int[Array, ""]
    r_t: Float[Array, ""]
    s_t: Float[Array, " state"]
    ended: Bool[Array, ""]


class Episodes(eqx.Module):
    """Trials of equal length from several domains. Early endings are kept: `valid` masks what never happened."""

    s: Float[Array, "domain trial time_plus_1 state"]
    a: Int[Array, "domain trial time"]
    r: Float[Array, "domain trial time"]
    ended: Bool[Array, "domain trial time"]
    valid: Bool[Array, "domain trial time"]

    def transitions(self) -> Transition:
        """All steps, valid or not, with the axes (domain, trial, time)."""
        return Transition(self.s[:, :, :-1], self.a, self.r, self.s[:, :, 1:], self.ended)


class Masks(eqx.Module):
    """Eq. 1's masks, axes (target, source): `c_s_to_s[i, j]` says that s_j at t-1 influences s_i at t.

    With observed states there is no observation function, so s -> o and theta -> o are empty.
    """

    c_s_to_s: Array
    c_a_to_s: Array
    c_theta_to_s: Array
    c_s_to_r: Array
    c_a_to_r: Array
    c_theta_to_r: Array
    c_s_to_o: Array = eqx.field(default_factory=lambda: jnp.zeros(0))
    c_theta_to_o: Array = eqx.field(default_factory=lambda: jnp.zeros(0))


class Theta(eqx.Module):
    """Change factors, one row a domain. theta_s enters the transition, theta_r the reward, theta_o what is seen."""

    theta_s: Float[Array, "*domain theta_s"]
    theta_r: Float[Array, "*domain theta_r"]
    theta_o: Float[Array, "*domain theta_o"]

    def __init__(self, theta_s: Array, theta_r: Array, theta_o: Array | None = None):
        """Without images there is no theta_o."""
        self.theta_s, self.theta_r = theta_s, theta_r
        self.theta_o = jnp.zeros((*theta_s.shape[:-1], 0)) if theta_o is None else theta_o


class Compact(eqx.Module):
    """The minimal sufficient representation (Definition 1) as boolean vectors over s, theta_s and theta_r."""

    s_min: Bool[Array, " state"]
    theta_s_min: Bool[Array, " theta_s"]
    theta_r_min: Bool[Array, " theta_r"]
