"""A domain in which the last steps are part of the state, for policies that find out by them where they are.

In: a domain. Out: an environment with the functional protocol whose state is (s, the last steps, what the domain itself
carries on), so that a `View` shows the first two.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.domains.functional import Factors, Functional
from adarl.model.world import Scale
from adarl.policy.view import View
from adarl.types import Episodes, Step


class Remembered(eqx.Module):
    """The functional protocol around another. A step is kept as (s_tm1, a_tm1, r_t), in the recordings' units."""

    domain: Functional
    scale: Scale
    last: int = eqx.field(static=True)
    """Steps remembered; before the first ones stand zeros."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """Of the domain; steps have no name."""
        return self.domain.state_names

    @property
    def n_actions(self) -> int:
        """As the domain's."""
        return self.domain.n_actions

    @property
    def defaults(self):
        """As the domain's."""
        return self.domain.defaults

    @property
    def n_state(self) -> int:
        """Dimensions of s."""
        return len(self.domain.state_names)

    @property
    def width(self) -> int:
        """Numbers of one step."""
        return self.n_state + self.n_actions + 1

    def view(self) -> View:
        """s, standardised, and the last steps, which are so already."""
        n = self.last * self.width
        mean = jnp.concatenate([self.scale.s_mean, jnp.zeros(n)])
        scale = jnp.concatenate([self.scale.s_scale, jnp.ones(n)])
        return View(mean, scale, tuple(range(self.n_state + n)), (), ())

    def reset(self, key: PRNGKeyArray, factors: Factors, wide: Bool[Array, ""]) -> Float[Array, " state"]:
        """A start, nothing remembered."""
        return self._joined(jnp.zeros(self.last * self.width), self.domain.reset(key, factors, wide))

    def step(self, key: PRNGKeyArray, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], factors: Factors) -> Step:
        """One step, remembered."""
        memory, own = jnp.split(s_tm1[self.n_state :], [self.last * self.width])
        answer = self.domain.step(key, own, a_tm1, factors)
        memory = jnp.concatenate([memory[self.width :], self._kept(own[: self.n_state], a_tm1, answer.r)])
        return answer._replace(s=self._joined(memory, answer.s))

    def recordable(self, s: Float[Array, " state"]) -> Bool[Array, ""]:
        """As the domain says."""
        return self.domain.recordable(s[self.n_state + self.last * self.width :])

    def _joined(self, memory: Array, own: Array) -> Float[Array, " state"]:
        return jnp.concatenate([own[: self.n_state], memory, own])

    def _kept(self, s: Array, a: Array, r: Array) -> Float[Array, "*batch step"]:
        s = (s - self.scale.s_mean) / self.scale.s_scale
        r = (r - self.scale.r_mean) / self.scale.r_scale
        return jnp.concatenate([s, 2.0 * jax.nn.one_hot(a, self.n_actions) - 1.0, r[..., None]], axis=-1)

    def recall(self, episodes: Episodes) -> Episodes:
        """Recordings of the domain with states as the policy would see them: s and the last steps."""
        steps = self._kept(episodes.s[:, :, :-1, : self.n_state], episodes.a, episodes.r)
        before = jnp.pad(steps, ((0, 0), (0, 0), (self.last, 0), (0, 0)))
        times = jnp.arange(steps.shape[2] + 1)[:, None] + jnp.arange(self.last)
        memory = before[:, :, times].reshape(*episodes.s.shape[:3], -1)
        return eqx.tree_at(lambda e: e.s, episodes, jnp.concatenate([episodes.s, memory], axis=-1))
