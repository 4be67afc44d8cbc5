"""What a model of images knows of the states that nobody saw, and how far ahead it sees.

In: a model and trials of one domain, with their hidden states where a simulator has them. Out: how much of every hidden
dimension a line through the believed state explains, how well the model foretells it without looking, and pictures of both.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from adarl.model.eye import Film
from adarl.model.sight import believe
from adarl.model.world import WorldModel
from adarl.types import Theta

LOOKS = 5
"""Images before anything is foretold or read out: a velocity takes several."""


class Readout(NamedTuple):
    """A line from believed states to hidden ones."""

    weights: Float[np.ndarray, "state_plus_1 hidden"]
    explained: Float[np.ndarray, " hidden"]
    """R^2 on rows that the line was not fitted to."""

    def __call__(self, s: Float[np.ndarray, "*batch state"]) -> Float[np.ndarray, "*batch hidden"]:
        """Hidden states."""
        return np.concatenate([s, np.ones((*s.shape[:-1], 1))], axis=-1) @ self.weights


def readout(
    believed: Float[np.ndarray, "row state"], hidden: Float[np.ndarray, "row hidden"], rng: np.random.Generator
) -> Readout:
    """By least squares on half of the rows, judged on the other half."""
    order = rng.permutation(len(believed))
    fitted, judged = np.array_split(order, 2)
    x = np.concatenate([believed, np.ones((len(believed), 1))], axis=1)
    weights = np.linalg.lstsq(x[fitted], hidden[fitted], rcond=None)[0]
    error = hidden[judged] - x[judged] @ weights
    return Readout(weights, 1 - error.var(0) / hidden[judged].var(0))


def seen_rows(model: WorldModel, film: Film, theta: Theta) -> tuple[np.ndarray, np.ndarray]:
    """Believed and hidden states of all moments but the first looks. theta is standardised, one row a domain."""
    there = np.asarray(film.episodes.valid)[:, :, LOOKS - 1 :]
    believed = np.asarray(believe(model, film, theta).s)[:, :, LOOKS:][there]
    return believed, np.asarray(film.episodes.s)[:, :, LOOKS:][there]


@eqx.filter_jit
def foretold(
    model: WorldModel, s: Float[Array, "row state"], a: Int[Array, "row time"], theta: Theta
) -> Float[Array, "row time state"]:
    """States after every action, from what is believed now and without another look."""

    def one(s: Array, a: Array) -> Array:
        def move(s: Array, a: Array) -> tuple[Array, Array]:
            after = model.expected(s, a, theta)
            return after, after

        return jax.lax.scan(move, s, a)[1]

    return jax.vmap(one)(s, a)


class Ahead(NamedTuple):
    """Trials of one domain, foretold from their first looks; time starts at the last of those."""

    seen: Float[np.ndarray, "trial time height width channel"]
    hidden: Float[np.ndarray, "trial time hidden"]
    """What really happened."""
    believed: Float[np.ndarray, "trial time state"]
    """With every image looked at."""
    foretold: Float[np.ndarray, "trial time state"]
    """Without another look."""


def ahead(model: WorldModel, film: Film, theta: Theta, steps: int) -> Ahead:
    """Trials of the only domain that are long enough. theta is standardised, without a domain axis."""
    long = np.flatnonzero(np.asarray(film.episodes.valid)[0, :, LOOKS + steps - 1])
    film = film.only(jnp.asarray(long))
    believed = believe(model, film, jax.tree.map(lambda t: t[None], theta)).s[0, :, LOOKS : LOOKS + steps + 1]
    later = foretold(model, believed[:, 0], film.episodes.a[0, :, LOOKS : LOOKS + steps], theta)
    frames = jax.vmap(lambda i: film.frames(jnp.int32(0), i))(jnp.arange(len(long)))
    return Ahead(
        *map(np.asarray, (frames[:, LOOKS : LOOKS + steps + 1], film.episodes.s[0, :, LOOKS : LOOKS + steps + 1])),
        *map(np.asarray, (believed, jnp.concatenate([believed[:, :1], later], axis=1))),
    )


HORIZONS = (1, 5, 10, 20)
"""Steps ahead at which a model is judged."""
SHOWN = (0, 5, 10, 20, 30, 40)
"""Steps ahead that are shown in pictures."""


def judged(model: WorldModel, film: Film, theta: Theta, names: tuple[str, ...], rng: np.random.Generator) -> dict[str, Any]:
    """What a line reads out of beliefs, and how far from the truth it is ahead. theta has a row for every domain.

    Of domains in which no trial is long enough nothing is said of what lies ahead.
    """
    line = readout(*seen_rows(model, film, theta), rng)
    by_name = lambda row: dict(zip(names, row.tolist(), strict=True))  # noqa: E731
    errors = []
    for k in np.flatnonzero(np.asarray(film.episodes.valid).sum(2).max(1) >= LOOKS + max(HORIZONS)):
        found = ahead(model, film.of_domain(int(k)), jax.tree.map(lambda t, k=k: t[k], theta), max(HORIZONS))
        errors.append(np.abs(line(found.foretold) - found.hidden)[:, list(HORIZONS)])
    median = np.median(np.concatenate(errors), axis=0) if errors else []
    return {
        "explained": by_name(line.explained),
        "ahead": {str(n): by_name(row) for n, row in zip(HORIZONS, median, strict=False)},
    }


def pictures(model: WorldModel, film: Film, theta: Theta) -> dict[str, Any]:
    """One trial of the only domain as bytes: what was seen, what is believed, what was foretold; as long as there is one."""
    n_steps = film.episodes.a.shape[2] - LOOKS
    lengths = np.asarray(film.episodes.valid)[0].sum(1) - LOOKS
    last = max((n for n in SHOWN if n <= min(n_steps, lengths.max(initial=0))), default=0)
    found = ahead(model, film, theta, last)
    at = [n for n in SHOWN if n <= last]
    rows = {
        "seen": found.seen[0, at],
        "believed": np.asarray(drawn(model, jnp.asarray(found.believed[0, at]), theta)),
        "foretold": np.asarray(drawn(model, jnp.asarray(found.foretold[0, at]), theta)),
    }
    as_bytes = lambda o: np.clip(np.round(127.5 * (o + 1)), 0, 255).astype(int).tolist()  # noqa: E731
    return {"steps": at, **{name: as_bytes(o) for name, o in rows.items()}}


@eqx.filter_jit
def drawn(model: WorldModel, s: Float[Array, "*batch state"], theta: Theta) -> Float[Array, "*batch height width channel"]:
    """What would be seen of a state, without noise."""
    eye, masks = model.eye, model.masks
    assert eye is not None
    theta_o = jnp.broadcast_to(model.raw(theta).theta_o * masks.c_theta_to_o, (*s.shape[:-1], theta.theta_o.shape[-1]))
    return eye.observation.draw(jnp.concatenate([s * masks.c_s_to_o, theta_o], -1))
