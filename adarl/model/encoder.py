"""q of the MiSS-VAE: what is believed of the state after images, actions and rewards (paper, Sec. 3.1).

In: an image o_t, the action a_tm1 and the reward r_t that came before it, theta, and the memory of all earlier ones.
Out: the new memory, and a mixture of Gaussians for every dimension of s_t.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.model.mixture import Mixture, log_prob
from adarl.model.patches import Inwards, Shape
from adarl.types import Theta

EXTRAS = 64
"""Features of action, reward and theta together."""


class Memory(NamedTuple):
    """Of an LSTM, and of the last look."""

    h: Float[Array, " memory"]
    c: Float[Array, " memory"]
    seen: Float[Array, " feature"]


class Encoder(eqx.Module):
    """Patch layers and an LSTM. theta enters, so that one encoder serves all domains.

    What moved between two looks is small beside what is there: the LSTM reads it apart, and enlarged.
    """

    look: Inwards
    swiftness: Float[Array, ""]
    """How much what moved is enlarged."""
    extras: eqx.nn.Linear
    lstm: eqx.nn.LSTMCell
    out: eqx.nn.Linear
    n_state: int = eqx.field(static=True)
    n_actions: int = eqx.field(static=True)
    floor: float = eqx.field(static=True)

    def __init__(
        self,
        image: Shape,
        n_state: int,
        n_actions: int,
        n_theta: int,
        *,
        features: int,
        memory: int,
        mixture: int,
        floor: float,
        key: PRNGKeyArray,
    ):
        key_look, key_extras, key_lstm, key_out = jr.split(key, 4)
        self.look = Inwards(image, features, key=key_look)
        self.extras = eqx.nn.Linear(n_actions + 1 + n_theta, EXTRAS, key=key_extras)
        self.swiftness = jnp.float32(1.0)
        lstm = eqx.nn.LSTMCell(2 * features + EXTRAS, memory, key=key_lstm)
        # It starts out remembering: a velocity takes several images.
        self.lstm = eqx.tree_at(lambda cell: cell.bias, lstm, replace_fn=lambda b: b.at[memory : 2 * memory].add(1.0))
        # Components start alike: were they not, the one that chance picks would be what an image seems to say.
        one = eqx.nn.Linear(memory + 2 * features, 3 * n_state, key=key_out)
        self.out = jax.tree.map(lambda x: jnp.repeat(x, mixture, axis=0), one)
        self.n_state, self.n_actions, self.floor = n_state, n_actions, floor

    @property
    def blank(self) -> Memory:
        """Before anything was seen."""
        nothing = jnp.zeros(self.lstm.hidden_size)
        return Memory(nothing, nothing, jnp.zeros(self.look.dense.out_features))

    def update(
        self,
        memory: Memory,
        features: Float[Array, " feature"],
        before: Float[Array, " action_and_reward"],
        theta: Float[Array, " theta"],
    ) -> tuple[Memory, Mixture]:
        """One more image, by its features, and what came `before` it."""
        extras = jax.nn.relu(self.extras(jnp.concatenate([before, theta])))
        begun = (before[: self.n_actions] != 0).any()
        looks = jnp.concatenate([features, self.swiftness * jnp.where(begun, features - memory.seen, 0.0)])
        h, c = self.lstm(jnp.concatenate([looks, extras]), (memory.h, memory.c))
        memory = Memory(h, c, features)
        raw = self.out(jnp.concatenate([h, looks])).reshape(self.n_state, 3, -1)
        return memory, Mixture(raw[:, 0], raw[:, 1], self.floor + jax.nn.softplus(raw[:, 2] - 1.0))

    def trial(
        self,
        o: Float[Array, "time_plus_1 height width channel"],
        a: Int[Array, " time"],
        r: Float[Array, " time"],
        theta: Theta,
    ) -> Mixture:
        """q(s_t | o_1..t, a_1..t-1, r_2..t; theta) at all times of a trial. Rewards are standardised."""
        told = joined(theta)
        before = jax.vmap(self.before)(a, r)
        before = jnp.concatenate([jnp.zeros_like(before[:1]), before])
        move = lambda memory, now: self.update(memory, now[0], now[1], told)  # noqa: E731
        return jax.lax.scan(move, self.blank, (self.look(o), before))[1]

    def before(self, a: Int[Array, ""], r: Float[Array, ""]) -> Float[Array, " action_and_reward"]:
        """An action and its standardised reward as they are read; zeros stand for the start."""
        return jnp.append(2.0 * jax.nn.one_hot(a, self.n_actions) - 1.0, r)


def joined(theta: Theta) -> Float[Array, " theta"]:
    """All of theta as one vector."""
    return jnp.concatenate([theta.theta_o, theta.theta_s, theta.theta_r], axis=-1)


def draw_posterior(key: PRNGKeyArray, q: Mixture) -> tuple[Float[Array, "*batch state"], Float[Array, "*batch state"]]:
    """A sample of every dimension with its log-density. Gradients pass through the component that was drawn."""
    key_component, key_noise = jr.split(key)
    m = jr.categorical(key_component, q.logits)[..., None]
    take = lambda x: jnp.take_along_axis(x, m, axis=-1)[..., 0]  # noqa: E731
    s = take(q.mean) + take(q.scale) * jr.normal(key_noise, m.shape[:-1])
    return s, log_prob(q, s)
