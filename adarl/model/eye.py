"""What a model of images has beside that of states: the encoder, the observation function and the predictions of L_pred.

In: trials seen through a camera. Out: states as they are believed, `Episodes` like those of observed states, so that all
stages to the right need not know the difference.
"""

from dataclasses import replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.domains.functional import Camera, Factors
from adarl.model.encoder import Encoder, Expect, Memory
from adarl.model.mixture import Mixture, mean_of
from adarl.model.observation import ObservationHead, Predictions
from adarl.model.patches import Shape
from adarl.types import Episodes, Masks, Theta

Hears = Literal["theta", "dynamics"]
"""What an encoder is told of a domain: all of theta, or nothing of theta_o."""


class Eye(eqx.Module):
    """q of the MiSS-VAE, g of Eq. 1, and what L_pred asks for."""

    encoder: Encoder
    observation: ObservationHead
    predictions: Predictions
    hears: Hears = eqx.field(static=True, default="theta")

    def update(
        self, memory: Memory, o: Array, before: Array, theta: Float[Array, " theta"], masks: Masks
    ) -> tuple[Memory, Mixture]:
        """What is believed after one more image. theta is raw and joined."""
        n_o = masks.c_theta_to_o.shape[0]
        told = theta if self.hears == "theta" else theta.at[:n_o].set(0.0)
        return self.encoder.update(memory, o, before, told, self.expects(theta[:n_o], masks))

    def trial(self, o: Array, a: Array, r: Array, theta: Theta, masks: Masks) -> Mixture:
        """What is believed at all times of a trial. theta is raw; rewards are standardised."""
        told = theta if self.hears == "theta" else replace(theta, theta_o=jnp.zeros_like(theta.theta_o))
        return self.encoder.trial(o, a, r, told, self.expects(theta.theta_o, masks))

    def expects(self, theta_o: Float[Array, " theta_o"], masks: Masks) -> Expect:
        """What would be seen of a state, without noise. How it is drawn is learned from what is drawn in the end only."""
        draw = jax.lax.stop_gradient(self.observation.draw)
        return lambda s: draw.patches(jnp.concatenate([s * masks.c_s_to_o, theta_o * masks.c_theta_to_o]))


class Film(eqx.Module):
    """Recordings that are seen through a camera. States are stored; a trial's images are drawn where they are used."""

    episodes: Episodes
    """With the states that nobody sees."""
    factors: Factors
    """Arrays over the domains."""
    camera: Camera = eqx.field(static=True)
    keys: PRNGKeyArray
    """One a trial, of its noise: a frame looks the same whenever it is looked at."""

    @classmethod
    def of(cls, episodes: Episodes, factors: Factors, camera: Camera, key: PRNGKeyArray) -> "Film":
        """All trials."""
        return cls(episodes, factors, camera, jr.split(key, episodes.a.shape[:2]))

    @property
    def image(self) -> Shape:
        """Height, width and channels."""
        return self.camera.image

    def only(self, trials: Int[Array, " trial"]) -> "Film":
        """Some trials of every domain."""
        episodes, keys = jax.tree.map(lambda x: x[:, trials], (self.episodes, self.keys))
        return Film(episodes, self.factors, self.camera, keys)

    def of_domain(self, k: int) -> "Film":
        """The trials of one domain."""
        episodes, factors, keys = jax.tree.map(lambda x: x[k : k + 1], (self.episodes, self.factors, self.keys))
        return Film(episodes, factors, self.camera, keys)

    def frames(self, k: Int[Array, ""], trial: Int[Array, ""]) -> Float[Array, "time_plus_1 height width channel"]:
        """All images of one trial."""
        factors = {name: value[k] for name, value in self.factors.items()}
        s = self.episodes.s[k, trial]
        keys = jr.split(self.keys[k, trial], s.shape[0])
        return jax.vmap(lambda key, s: self.camera.observe(key, s, factors))(keys, s)


class Photos(eqx.Module):
    """Recordings whose images are stored, as a plant shows them."""

    episodes: Episodes
    """With states of no dimension: nobody knows them."""
    images: Array
    """Axes (domain, trial, time_plus_1, height, width, channel): floats in about [-1, 1], or bytes."""

    @property
    def image(self) -> Shape:
        """Height, width and channels."""
        height, width, channels = self.images.shape[-3:]
        return height, width, channels

    def only(self, trials: Int[Array, " trial"]) -> "Photos":
        """Some trials of every domain."""
        return jax.tree.map(lambda x: x[:, trials], self)

    def frames(self, k: Int[Array, ""], trial: Int[Array, ""]) -> Float[Array, "time_plus_1 height width channel"]:
        """All images of one trial."""
        return in_units(self.images[k, trial])


def in_units(image: Array) -> Float[Array, "*batch height width channel"]:
    """Bytes to [-1, 1]; floats stay as they are."""
    return image if jnp.issubdtype(image.dtype, jnp.floating) else image.astype(jnp.float32) / 127.5 - 1.0


Seen = Film | Photos
"""Trials with their images."""
BLOCK = 25  # trials that are looked at together


@eqx.filter_jit
def perceive(eye: Eye, masks: Masks, film: Seen, theta: Theta, r_mean: Array, r_scale: Array) -> Episodes:
    """The same trials with states as they are believed, where `theta` (raw, one row a domain) holds."""
    episodes = film.episodes

    def domain(k: Array, theta: Theta) -> Float[Array, "trial time_plus_1 state"]:
        def trial(i: Array) -> Float[Array, "time_plus_1 state"]:
            r = (episodes.r[k, i] - r_mean) / r_scale
            return mean_of(eye.trial(film.frames(k, i), episodes.a[k, i], r, theta, masks))

        return jax.lax.map(trial, jnp.arange(episodes.a.shape[1]), batch_size=BLOCK)

    n_domains = episodes.a.shape[0]
    s = jax.lax.map(lambda now: domain(*now), (jnp.arange(n_domains), theta))
    return eqx.tree_at(lambda e: e.s, episodes, s)
