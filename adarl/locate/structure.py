"""Theorem 1 for observed states: which edges of Eq. 1 there are, and where the domains differ, from recordings alone.

In: rows of steps with their domain. Out: a p-value for each edge that Eq. 1 allows, the edges found, and how often they are
found again in half the trajectories. Every cause precedes its effect and nothing acts at once, so one test an edge is
enough: its source against its target, given all other sources. The domain index k is a source like any other; where it has
an edge, theta has one.

Among all edges found a share of 5% is wrong on average (Benjamini and Hochberg). That anything changes at all is a graver
claim: an edge of k must also pass Holm's test among the edges of k, so that in a system where nothing changes a change is
reported with a probability of at most 5%.
"""

from dataclasses import dataclass, fields, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from adarl.locate.corrections import benjamini_hochberg, holm
from adarl.locate.independence import Variable, continuous, discrete, measured, p_values
from adarl.types import AdarlError, Episodes, Masks


@dataclass(frozen=True)
class LocateConfig:
    """How changes and edges are looked for before anything is learned."""

    rate: float = 0.05
    """Of wrong edges among those found, and of reporting a change where there is none."""
    rows: int = 8000
    """Steps that are looked at, spread over all domains and trajectories."""
    halves: int = 10
    """Times that the search is repeated with half of the trajectories, to tell how stable each edge is."""
    jitter: float = 0.1
    """Noise added to the increments, in their units: a deterministic step would leave nothing to chance."""
    ordered: bool = False
    """Whether the domains stand in the order of what changes; then small steps in that order are seen sooner."""


@dataclass(frozen=True)
class Steps:
    """Logged steps, one row each."""

    s_tm1: Float[np.ndarray, "row state"]
    a_tm1: np.ndarray
    """Labels, or columns of numbers where actions are continuous."""
    r_t: Float[np.ndarray, " row"]
    s_t: Float[np.ndarray, "row state"]
    k: Int[np.ndarray, " row"]
    """The domain."""
    trial: Int[np.ndarray, " row"]
    """The trajectory, numbered through all domains."""

    def __post_init__(self):
        sizes = {entry.name: len(getattr(self, entry.name)) for entry in fields(self)}
        if len(set(sizes.values())) > 1:
            raise AdarlError(f"Columns of different lengths: {sizes}; one row a step is expected.")
        for name in ("s_tm1", "a_tm1", "r_t", "s_t"):
            if not np.isfinite(np.asarray(getattr(self, name), float)).all():
                raise AdarlError(f"{name} contains NaN or infinity; only finite numbers are accepted.")
        if len(np.unique(self.k)) < 2:
            raise AdarlError("All steps are of one domain; what changed between domains takes at least 2.")

    def take(self, rows: np.ndarray) -> "Steps":
        """Some of the rows."""
        return replace(self, **{entry.name: getattr(self, entry.name)[rows] for entry in fields(self)})


@dataclass(frozen=True)
class Structure:
    """What the tests say. Rows are s_1 to s_d and r, columns s_1 to s_d, a and k."""

    p: Float[np.ndarray, "target source"]
    found: Bool[np.ndarray, "target source"]
    stability: Float[np.ndarray, "target source"]
    """Share of the halves in which an edge is found."""

    @property
    def changes(self) -> Bool[np.ndarray, " target"]:
        """Where k acts: on s_1 to s_d, and on r."""
        return self.found[:, -1]

    def masks(self, n_theta_s: int, n_theta_r: int, values: np.ndarray | None = None) -> Masks:
        """The edges, or other `values` of them, as the model has them: every dimension of theta has the edges of k."""
        edges = jnp.asarray(self.found if values is None else values, jnp.float32)
        n = len(edges) - 1
        spread = lambda column, width: jnp.repeat(column[..., None], width, axis=-1)  # noqa: E731
        into_s, into_r = edges[:n], edges[n]
        return Masks(
            into_s[:, :n],
            into_s[:, n],
            spread(into_s[:, -1], n_theta_s),
            into_r[:n],
            into_r[n],
            spread(into_r[-1], n_theta_r),
        )


def steps_of(episodes: Episodes) -> Steps:
    """The valid steps of all trials."""
    n_trials = episodes.valid.shape[1]
    at = np.nonzero(np.asarray(episodes.valid))
    s, a, r = (np.asarray(x) for x in (episodes.s, episodes.a, episodes.r))
    later = (at[0], at[1], at[2] + 1)
    return Steps(s[at], a[at], r[at], s[later], at[0], at[0] * n_trials + at[1])


def find(steps: Steps, config: LocateConfig, seed: int = 0) -> Structure:
    """All edges at once."""
    steps = thinned(steps, config.rows, seed)
    p = edge_p_values(steps, config, seed)
    found = decided(p, config.rate)
    rng = np.random.default_rng(seed)
    trials = np.unique(steps.trial)
    again = np.zeros(p.shape)
    for half in range(config.halves):
        chosen = rng.choice(trials, len(trials) // 2, replace=False)
        part = steps.take(np.flatnonzero(np.isin(steps.trial, chosen)))
        again += decided(edge_p_values(part, config, seed + 1 + half), config.rate)
    return Structure(p, found, again / max(config.halves, 1))


def thinned(steps: Steps, rows: int, seed: int) -> Steps:
    """At most so many rows, as many of each domain and trajectory as possible: first one of each, then another."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(steps.k))
    turn = _turn(steps.trial[order])
    order = order[np.argsort(turn, kind="stable")]
    place = _turn(steps.k[order])
    share = rows // len(np.unique(steps.k))
    return steps.take(np.sort(order[place < share]))


def _turn(labels: np.ndarray) -> np.ndarray:
    """How many equal labels stand before each one."""
    order = np.argsort(labels, kind="stable")
    ranked = labels[order]
    first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    turn = np.arange(len(labels)) - np.repeat(first, np.diff(np.r_[first, len(labels)]))
    return turn[np.argsort(order, kind="stable")]


def decided(p: Float[np.ndarray, "target source"], rate: float) -> Bool[np.ndarray, "target source"]:
    """The edges found. A change has to be twice as sure: p-values are approximate, and of changes the rate is a promise."""
    found = benjamini_hochberg(p) <= rate
    found[:, -1] &= holm(p[:, -1]) <= rate / 2
    return found


def edge_p_values(steps: Steps, config: LocateConfig, seed: int) -> Float[np.ndarray, "target source"]:
    """One test an edge: a source against a target, given all other sources."""
    sources = sources_of(steps, config.ordered)
    rng = np.random.default_rng(seed)
    n, d = steps.s_t.shape
    increment, reward = steps.s_t - steps.s_tm1, np.asarray(steps.r_t, float)[:, None]
    noise = config.jitter * rng.normal(size=(n, d + 1))
    # Where an increment is constant its state only carries itself on: noise alone would be tested.
    moved = increment + noise[:, :d] * increment.std(0)
    kept = steps.s_t + noise[:, :d] * increment.std(0)
    others = [continuous(column[:, None]) for column in moved.T] + [continuous(reward + noise[:, d:] * reward.std())]
    p = np.ones((d + 1, len(sources)))
    for j, source in enumerate(sources):
        targets = list(others)
        if j < d:  # a state's own edge is in its value: an increment hides it
            targets[j] = continuous(kept[:, j : j + 1])
        given = sources[:j] + sources[j + 1 :]
        p[:d, j] = p_values(source, targets[:d], given, seed=seed, trial=steps.trial)
        p[d:, j] = p_values(source, targets[d:], given, seed=seed, trial=steps.trial, sharp=True)
    return p


def sources_of(steps: Steps, ordered: bool) -> list[Variable]:
    """s_tm1 one by one, a_tm1 and k."""
    k = continuous(steps.k) if ordered else discrete(steps.k)
    return [*(continuous(column) for column in steps.s_tm1.T), measured(steps.a_tm1), k]
