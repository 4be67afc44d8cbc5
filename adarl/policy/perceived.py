"""A domain that is seen through a camera, as the one who watches it knows it: its state is a belief.

In: a camera's domain and an encoder. Out: an environment with the functional protocol. Its state is one vector: what is
believed of s first, then the encoder's memory, then the state that nobody sees. So acting, practice, replay and evaluation
are the same as where states are seen; a `View` reads the belief alone.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.domains.functional import Camera, Factors
from adarl.model.encoder import Encoder, Memory
from adarl.model.eye import Eye
from adarl.model.mixture import mean_of
from adarl.model.world import WorldModel
from adarl.types import Masks, Step

THETA = "theta"
"""The factor that holds what the encoder is told of a domain: theta_o, theta_s and theta_r as the heads know them."""


class Perceived(eqx.Module):
    """The functional protocol around a camera. `factors[THETA]` is a vector."""

    camera: Camera = eqx.field(static=True)
    eye: Eye
    masks: Masks
    r_mean: Float[Array, ""]
    r_scale: Float[Array, ""]

    @classmethod
    def by(cls, model: WorldModel, camera: Camera) -> "Perceived":
        """A domain as a model sees it."""
        assert model.eye is not None
        return cls(camera, model.eye, model.masks, model.scale.r_mean, model.scale.r_scale)

    @property
    def encoder(self) -> Encoder:
        """Of the eye."""
        return self.eye.encoder

    @property
    def state_names(self) -> tuple[str, ...]:
        """Of what is believed."""
        return tuple(f"s_{i + 1}" for i in range(self.encoder.n_state))

    @property
    def n_actions(self) -> int:
        """As the camera's."""
        return self.camera.n_actions

    @property
    def defaults(self):
        """As the camera's; theta has none."""
        return self.camera.defaults

    def reset(self, key: PRNGKeyArray, factors: Factors, wide: Bool[Array, ""]) -> Float[Array, " state"]:
        """A start and the first look at it."""
        key_reset, key_look = jr.split(key)
        s = self.camera.reset(key_reset, factors, wide)
        nothing = jnp.zeros(self.n_actions + 1)
        return self._looked(key_look, self.encoder.blank, s, nothing, factors)

    def step(self, key: PRNGKeyArray, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], factors: Factors) -> Step:
        """One step and a look at where it led."""
        key_step, key_look = jr.split(key)
        memory, hidden = self._parts(s_tm1)
        answer = self.camera.step(key_step, hidden, a_tm1, factors)
        before = self.encoder.before(a_tm1, (answer.r - self.r_mean) / self.r_scale)
        return answer._replace(s=self._looked(key_look, memory, answer.s, before, factors))

    def recordable(self, s: Float[Array, " state"]) -> Bool[Array, ""]:
        """As the camera says of the state that nobody sees."""
        return self.camera.recordable(self._parts(s)[1])

    def hidden(self, s: Float[Array, "*batch state"]) -> Float[Array, "*batch hidden"]:
        """The state that nobody sees, to show or to judge what is believed."""
        return s[..., self.encoder.n_state + sum(x.size for x in self.encoder.blank) :]

    def _parts(self, s: Float[Array, " state"]) -> tuple[Memory, Float[Array, " hidden"]]:
        ends = np.cumsum([self.encoder.n_state, *(x.size for x in self.encoder.blank)])
        _, *memory, hidden = jnp.split(s, ends)
        return Memory(*memory), hidden

    def _looked(self, key, memory: Memory, s: Array, before: Array, factors: Factors) -> Float[Array, " state"]:
        # What comes out of a branch is kept. Otherwise every reader of a pixel draws it again, which takes as long as all
        # that is read out of it. Rewards always have a scale.
        draw, nothing = self.camera.observe, lambda *_: jnp.zeros(self.camera.image)
        o = jax.lax.cond(self.r_scale > 0, draw, nothing, key, s, factors)
        memory, q = self.eye.update(memory, o, before, factors[THETA], self.masks)
        return jnp.concatenate([mean_of(q), *memory, s])
