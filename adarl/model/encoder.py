"""q of the MiSS-VAE: what is believed of the state after images, actions and rewards (paper, Sec. 3.1).

In: an image o_t, the action a_tm1 and the reward r_t that came before it, theta, and the memory of all earlier ones.
Out: the new memory, and a mixture of Gaussians for every dimension of s_t.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.model.mixture import Mixture, log_prob, mean_of
from adarl.model.patches import Inwards, Shape, cut
from adarl.network import linear
from adarl.types import Theta

EXTRAS = 64
"""Features of action, reward and theta together."""
KEPT = 0.5
"""What is at first left of a belief a step later."""
TRUST = 0.03
"""How far a belief at first follows what a second look asks for."""
FURTHEST = 10.0
"""No second look moves a belief further; a sound one goes a few tenths. While it is learned how far to go, looks that go too
far would grow from image to image until nothing is finite."""
Expect = Callable[[Float[Array, " state"]], Float[Array, "cell pixel"]]
"""What would be seen of a state, in patches."""


class Memory(NamedTuple):
    """Of an LSTM, of the last look, and of what was believed after it."""

    h: Float[Array, " memory"]
    c: Float[Array, " memory"]
    seen: Float[Array, " feature"]
    s: Float[Array, " state"]


class Encoder(eqx.Module):
    """Layers of strips and an LSTM. theta enters, so that one encoder serves all domains.

    What moved between two looks is small beside what is there: the LSTM reads it apart, and enlarged. A belief starts from
    the last one and the action, as a line, so that what an image says is added to what is known: a Kalman filter is of this
    form. Then comes a second look: what is believed is drawn, and where the image differs from the drawing, the belief
    follows the way in which the drawing would come nearer. So nothing that the observation function can tell apart is lost
    to the strips, whatever the noise.
    """

    look: Inwards
    swiftness: Float[Array, ""]
    """How much what moved is enlarged."""
    extras: eqx.nn.Linear
    lstm: eqx.nn.LSTMCell
    out: eqx.nn.Linear
    onwards: eqx.nn.Linear
    """From the last belief, and the action and reward since."""
    second: eqx.nn.Linear
    """From the way in which a drawing of the belief would come nearer to the image."""
    trust: eqx.nn.Linear
    """How far to go that way, by what is remembered: far at first, and where there is little noise."""
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
        onwards = eqx.nn.Linear(n_state + n_actions + 1, n_state, use_bias=False, key=key_out)
        self.onwards = eqx.tree_at(lambda one: one.weight, onwards, KEPT * jnp.eye(n_state, n_state + n_actions + 1))
        second = eqx.nn.Linear(n_state, n_state, use_bias=False, key=key_out)
        self.second = eqx.tree_at(lambda one: one.weight, second, TRUST * jnp.eye(n_state))
        self.trust = jax.tree.map(jnp.zeros_like, eqx.nn.Linear(memory, n_state, key=key_out))
        self.n_state, self.n_actions, self.floor = n_state, n_actions, floor

    @property
    def blank(self) -> Memory:
        """Before anything was seen."""
        nothing = jnp.zeros(self.lstm.hidden_size)
        return Memory(nothing, nothing, jnp.zeros(self.look.dense.out_features), jnp.zeros(self.n_state))

    def update(
        self,
        memory: Memory,
        o: Float[Array, "height width channel"],
        before: Float[Array, " action_and_reward"],
        theta: Float[Array, " theta"],
        expect: Expect,
    ) -> tuple[Memory, Mixture]:
        """One more image, and what came `before` it."""
        features = self.look(o)
        begun = (before[: self.n_actions] != 0).any()
        looks = self._looks(features, jnp.where(begun, features - memory.seen, 0.0))
        h, c = self._remembered((memory.h, memory.c), self._heard(looks, before, theta))
        q = self._moved(self._believed(h, looks), memory.s, before, cut(o), linear(self.trust, h), expect)
        return Memory(h, c, features, mean_of(q)), q

    def trial(
        self,
        o: Float[Array, "time_plus_1 height width channel"],
        a: Int[Array, " time"],
        r: Float[Array, " time"],
        theta: Theta,
        expect: Expect,
    ) -> Mixture:
        """q(s_t | o_1..t, a_1..t-1, r_2..t; theta) at all times of a trial. Rewards are standardised.

        As one `update` after the other, but only what needs the memory is done in turn: the rest is one product of matrices.
        """
        features = self.look(o)
        before = jax.vmap(self.before)(a, r)
        before = jnp.concatenate([jnp.zeros_like(before[:1]), before])
        looks = self._looks(features, jnp.diff(features, axis=0, prepend=features[:1]))
        told = jnp.broadcast_to(joined(theta), (features.shape[0], joined(theta).shape[0]))

        def recall(memory: tuple[Array, Array], heard: Array) -> tuple[tuple[Array, Array], Array]:
            memory = self._remembered(memory, heard)
            return memory, memory[0]

        def add(s: Array, now: tuple[Mixture, Array, Array, Array]) -> tuple[Array, Array]:
            q, before, o, trust = now
            q = self._moved(q, s, before, o, trust, expect)
            return mean_of(q), q.mean

        _, h = jax.lax.scan(recall, (self.blank.h, self.blank.c), self._heard(looks, before, told))
        q = self._believed(h, looks)
        return q._replace(mean=jax.lax.scan(add, self.blank.s, (q, before, cut(o), linear(self.trust, h)))[1])

    def _looks(self, features: Float[Array, "*time feature"], moved: Float[Array, "*time feature"]) -> Array:
        return jnp.concatenate([features, self.swiftness * moved], axis=-1)

    def _heard(self, looks: Array, before: Array, theta: Array) -> Float[Array, "*time four_memory"]:
        """What an LSTM makes of its inputs before it asks its memory."""
        assert self.lstm.bias is not None
        extras = jax.nn.relu(linear(self.extras, jnp.concatenate([before, theta], axis=-1)))
        return jnp.concatenate([looks, extras], axis=-1) @ self.lstm.weight_ih.T + self.lstm.bias

    def _remembered(self, memory: tuple[Array, Array], heard: Array) -> tuple[Array, Array]:
        """The rest of the LSTM."""
        h, c = memory
        i, f, g, o = jnp.split(heard + self.lstm.weight_hh @ h, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    def _moved(self, q: Mixture, s: Array, before: Array, o: Array, trust: Array, expect: Expect) -> Mixture:
        """What an image says, added to what follows from the last belief; and a second look."""
        q = q._replace(mean=q.mean + self.onwards(jnp.concatenate([s, before]))[:, None])
        drawn, pulled = jax.vjp(expect, mean_of(q))
        (pull,) = pulled((o - drawn) / math.sqrt(math.prod(self.look.image)))
        step = jnp.clip(self.second(jnp.exp(trust) * pull), -FURTHEST, FURTHEST)
        return q._replace(mean=q.mean + step[:, None])

    def _believed(self, h: Float[Array, "*time memory"], looks: Array) -> Mixture:
        """What an image says."""
        raw = linear(self.out, jnp.concatenate([h, looks], axis=-1)).reshape(*h.shape[:-1], self.n_state, 3, -1)
        return Mixture(raw[..., 0, :], raw[..., 1, :], self.floor + jax.nn.softplus(raw[..., 2, :] - 1.0))

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
