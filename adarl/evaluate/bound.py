"""Theorem 2: how far the values an agent predicts may be off in domains to come (PAC-Bayes).

In: losses in [0, 1], one array a domain, and KL(Q || P) of two Gaussians over theta_min; or an agent and domains to measure
them in. Out: `Bound`, term by term.

Q is one distribution for all domains. In the proof h is drawn from Q(S, theta), which may look at the samples S, but the
prior of the second step then looks at them too; it is sound where h follows from theta alone, which is what stands here.
Between the domains the theorem also asks that h and P were chosen before the domains were drawn. Domains that training never
saw meet this; the sources of an agent do not, for its values and the scale of its theta were learned there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.adapt.search import PRIOR
from adarl.agent import Agent
from adarl.domains.functional import Factors, Functional
from adarl.network import Council, Network
from adarl.policy.view import View
from adarl.types import AdarlError, Theta

DELTA = 0.05
DRAWS = 32  # thetas from Q an episode, over which its loss is averaged
ROUNDING = 1e-4  # relative, of a discounted sum of float32


class Gaussian(NamedTuple):
    """Independent dimensions."""

    mean: Float[np.ndarray, " theta"]
    sd: Float[np.ndarray, " theta"]


class Bound(NamedTuple):
    """er(Q) <= error + within + between, with probability 1 - delta over domains and samples."""

    error: float
    """The mean over domains of the mean loss in their samples."""
    within: float
    """What few samples may hide."""
    between: float
    """What few domains may hide."""
    kl: float
    m: tuple[int, ...]
    """Samples a domain."""
    delta: float

    @property
    def n(self) -> int:
        """Domains."""
        return len(self.m)

    @property
    def value(self) -> float:
        """The bound itself."""
        return self.error + self.within + self.between

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing: no loss exceeds 1."""
        return self.value >= 1


def divergence(posterior: Gaussian, prior: Gaussian) -> float:
    """KL(Q || P) in nats: a sum over the dimensions, so each that is left out of theta_min makes it smaller."""
    arrays = [np.asarray(x, np.float64) for x in (*posterior, *prior)]
    if len({x.shape for x in arrays}) > 1:
        raise AdarlError(f"Means and deviations have the shapes {[x.shape for x in arrays]}; one shape is expected.")
    if not all(np.isfinite(x).all() for x in arrays):
        raise AdarlError(f"{posterior} and {prior} are not all finite numbers; finite ones are expected.")
    mean_q, sd_q, mean_p, sd_p = arrays
    if (sd_q <= 0).any() or (sd_p <= 0).any():
        raise AdarlError(f"The standard deviations are {sd_q} and {sd_p}; positive numbers are expected.")
    each = np.log(sd_p / sd_q) + (sd_q**2 + (mean_q - mean_p) ** 2) / (2 * sd_p**2) - 0.5
    return max(0.0, float(each.sum()))  # not below 0 by rounding


def within(m: Sequence[int], kl: float, delta: float = DELTA) -> float:
    """The mean over k of sqrt((KL + ln(2 n m_k / delta)) / (2 (m_k - 1)))."""
    _check(len(m), m, kl, delta)
    return float(np.mean([_complexity(m_k, kl, delta / (2 * len(m))) for m_k in m]))


def between(n: int, kl: float, delta: float = DELTA) -> float:
    """sqrt((KL + ln(2 n / delta)) / (2 (n - 1)))."""
    _check(n, (), kl, delta)
    return _complexity(n, kl, delta / 2)


def _complexity(count: int, kl: float, delta: float) -> float:
    """The classical bound, of which Theorem 2 is n + 1 at once: delta / 2n for every domain, delta / 2 for their choice."""
    return float(np.sqrt((kl + np.log(count / delta)) / (2 * (count - 1))))


def _check(n: int, m: Sequence[int], kl: float, delta: float) -> None:
    if n < 2:
        raise AdarlError(f"There are {n} domain(s); Theorem 2 needs at least 2.")
    for k, m_k in enumerate(m):
        if m_k < 2:
            raise AdarlError(f"Domain {k} has {m_k} sample(s); Theorem 2 needs at least 2 from each.")
    if not 0 <= kl < np.inf:
        raise AdarlError(f"KL(Q || P) is {kl}; a finite number that is not negative is expected.")
    if not 0 < delta < 1:
        raise AdarlError(f"delta is {delta}; a probability between 0 and 1 is expected.")


def of_losses(losses: Sequence[Float[np.ndarray, " sample"]], kl: float, delta: float = DELTA) -> Bound:
    """Theorem 2. A loss is that of one sample, its mean over Q taken already."""
    m = tuple(len(each) for each in losses)
    _check(len(m), m, kl, delta)
    for k, each in enumerate(losses):
        low, high = np.min(each), np.max(each)  # of NaN both are NaN
        if not (low >= 0 and high <= 1):
            raise AdarlError(f"The losses of domain {k} lie between {low} and {high}; Theorem 2 needs them in [0, 1].")
    error = float(np.mean([np.mean(each, dtype=np.float64) for each in losses]))
    return Bound(error, within(m, kl, delta), between(len(m), kl, delta), float(kl), m, float(delta))


def of_agent(
    agent: Agent,
    domain: Functional,
    factors: Factors,
    theta: Theta,
    key: PRNGKeyArray,
    *,
    best: float,
    discount: float,
    episodes: int = 200,
    steps: int = 1000,
    delta: float = DELTA,
) -> Bound:
    """Theorem 2 for the values that the agent predicts at the starts of episodes, which are independent of each other.

    `factors` and `theta` have one row a domain: the sources with `agent.model.theta`, or domains that training never saw
    with what `adapt` makes of them. `best` and `discount` are those the policy was learned with. Rewards lie in [0, 1].

    h is the value predicted under a theta drawn from Q, the Gaussian around the sources' thetas. v* is the discounted return
    of the greedy policy that is told the domain's own theta, cut at `steps`: a stand-in for the optimal one. Where luck
    decides a return, it adds to the loss. P is the prior of `adapt`. theta is standardised over the sources, so Q is
    N(0, I) and KL counts the dimensions of theta_min, each at the same price of 0.65.
    """
    if not 0 <= discount < 1:
        raise AdarlError(f"The discount is {discount}; a number from 0 up to, but not including, 1 is expected.")
    if steps < 1:
        raise AdarlError(f"Episodes are cut at {steps} steps; at least 1 is needed.")
    posterior = _around(agent.model.theta, agent.view)
    kl = divergence(posterior, Gaussian(np.zeros_like(posterior.mean), np.full_like(posterior.sd, PRIOR)))
    n = theta.theta_s.shape[0]
    _check(n, [episodes] * n, kl, delta)
    h, v = _measure(agent, domain, factors, theta, jr.split(key, (n, episodes)), jnp.float32(best), discount, steps)
    v_max = (1 - discount**steps) / (1 - discount)
    low, high = float(v.min()), float(v.max())
    if not (low >= 0 and high <= v_max * (1 + ROUNDING)):
        raise AdarlError(f"Discounted returns lie between {low:g} and {high:g}; rewards in [0, 1] give 0 to {v_max:g}.")
    losses = jnp.clip(jnp.abs(h - v[..., None]) / v_max, 0.0, 1.0).mean(-1)
    return of_losses(list(np.asarray(losses)), kl, delta)


def _around(theta: Theta, view: View) -> Gaussian:
    """Mean and deviation of the sources' theta_min."""
    columns = zip((theta.theta_s, theta.theta_r), (view.theta_s_index, view.theta_r_index), strict=True)
    kept = np.concatenate([np.asarray(x, np.float64)[:, np.asarray(index, int)] for x, index in columns], axis=1)
    return Gaussian(kept.mean(0), kept.std(0))


@eqx.filter_jit
def _measure(
    agent: Agent, domain: Functional, factors: Factors, theta: Theta, keys, best: Array, discount: float, steps: int
) -> tuple[Float[Array, "domain episode draw"], Float[Array, "domain episode"]]:
    """h for every draw from Q, and v*, of every episode's start."""
    sources = agent.model.theta

    def draw(key: PRNGKeyArray) -> Theta:
        # All dimensions, of which the view keeps theta_min; theta_o is never among those.
        key_s, key_r = jr.split(key)
        one = lambda k, t: t.mean(0) + t.std(0) * jr.normal(k, t.shape[1:])  # noqa: E731
        return Theta(one(key_s, sources.theta_s), one(key_r, sources.theta_r), sources.theta_o.mean(0))

    def episode(key: PRNGKeyArray, factors: Factors, theta: Theta) -> tuple[Array, Array]:
        key_reset, key_steps, key_theta = jr.split(key, 3)

        def move(carry, key):
            s, weight, total = carry
            answer = domain.step(key, s, jnp.argmax(agent.q(agent.view(s, theta))), factors)
            total += jnp.where(weight > 0, weight * answer.r, 0.0)
            return (answer.s, jnp.where(answer.ended, 0.0, discount * weight), total), None

        s = domain.reset(key_reset, factors, jnp.bool_(False))
        h_of = lambda k: predicted(agent.q, agent.view, s, draw(k), best, discount)  # noqa: E731
        h = jax.vmap(h_of)(jr.split(key_theta, DRAWS))
        first = (s, jnp.float32(1.0), jnp.float32(0.0))
        return h, jax.lax.scan(move, first, jr.split(key_steps, steps))[0][2]

    return jax.vmap(jax.vmap(episode, in_axes=(0, None, None)))(keys, factors, theta)


def predicted(
    q: Network | Council, view: View, s: Float[Array, " state"], theta: Theta, best: Array, discount: float
) -> Float[Array, ""]:
    """max_a Q(s, a) in the rewards' own units: `double_dqn.shaped` made (1 - gamma) Q - best of them."""
    return (q(view(s, theta)).max() + best) / (1 - discount)


def words(bound: Bound) -> str:
    """The bound, its terms and what it takes for granted, to be read by a person."""
    fewest, most = min(bound.m), max(bound.m)
    samples = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    verdict = "vacuous: no loss can exceed 1" if bound.vacuous else "not vacuous: a loss could be as large as 1"
    return (
        f"With probability {100 * (1 - bound.delta):g}%, the mean loss in domains like these is at most {bound.value:.3f}:"
        f" {bound.error:.3f} is the mean loss measured, {bound.within:.3f} is added for having {samples} samples a domain,"
        f" and {bound.between:.3f} for having {bound.n} domains. The bound is {verdict}. KL(Q || P) is {bound.kl:.3f}."
        " It takes for granted that these domains and those to come were drawn independently from one distribution, that the"
        " samples of a domain are independent, and that h and P were chosen before these domains were seen, which does not"
        " hold for the sources an agent was trained in."
    )
