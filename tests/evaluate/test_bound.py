"""Theorem 2 by hand, against its own promise, and for agents whose values are known."""

from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adarl.agent import Agent
from adarl.evaluate import bound
from adarl.evaluate.bound import Bound, Gaussian, between, divergence, of_agent, of_losses, within, words
from adarl.model import fit
from adarl.model.plan import ModelConfig
from adarl.network import Network
from adarl.policy.double_dqn import shaped
from adarl.policy.view import View
from adarl.types import AdarlError, Step, Theta

NAN, INF = float("nan"), float("inf")


def gaussian(mean, sd) -> Gaussian:
    return Gaussian(np.asarray(mean, float), np.asarray(sd, float))


@pytest.mark.parametrize(
    ("posterior", "prior", "expected"),
    [
        (gaussian([1.0], [2.0]), gaussian([1.0], [2.0]), 0.0),
        (gaussian([1.0], [1.0]), gaussian([0.0], [1.0]), 0.5),
        (gaussian([0.0], [2.0]), gaussian([0.0], [1.0]), 1.5 - np.log(2)),
        (gaussian([0.0], [1.0]), gaussian([0.0], [3.0]), np.log(3) + 1 / 18 - 0.5),
        (gaussian([1.0, 0.0], [1.0, 2.0]), gaussian([0.0, 0.0], [1.0, 1.0]), 2.0 - np.log(2)),  # a sum over dimensions
        (gaussian([], []), gaussian([], []), 0.0),
    ],
)
def test_divergence_by_hand(posterior: Gaussian, prior: Gaussian, expected: float):
    assert divergence(posterior, prior) == pytest.approx(expected)


def test_divergence_is_the_mean_log_ratio():
    posterior, prior = gaussian([0.5, -1.0], [0.7, 1.2]), gaussian([0.0, 0.3], [3.0, 2.0])
    x = np.random.default_rng(0).normal(posterior.mean, posterior.sd, (200_000, 2))
    log_p = lambda g: (-0.5 * ((x - g.mean) / g.sd) ** 2 - np.log(g.sd)).sum(1)  # noqa: E731
    assert divergence(posterior, prior) == pytest.approx((log_p(posterior) - log_p(prior)).mean(), abs=0.01)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(1e-3, 100)), min_size=1, max_size=4))
def test_nothing_is_at_a_distance_from_itself(dimensions: list[tuple[float, float]]):
    same = gaussian(*zip(*dimensions, strict=True))
    assert 0 <= divergence(same, same) < 1e-12


def test_terms_by_hand():
    """n = 3 and delta = 6 / e^3 make 2 n / delta = e^3: the logarithms are 3 and 3 + ln m."""
    losses = [np.asarray([0.0, 0.5]), np.asarray([1.0, 1.0, 0.25]), np.full(9, 0.125)]
    got = of_losses(losses, 2.0, 6 / np.e**3)
    assert got.error == pytest.approx((0.25 + 0.75 + 0.125) / 3)
    assert got.between == pytest.approx(np.sqrt((2 + 3) / (2 * 2)))
    each = [np.sqrt((2 + 3 + np.log(m)) / (2 * (m - 1))) for m in (2, 3, 9)]
    assert got.within == pytest.approx(sum(each) / 3)
    assert got.value == got.error + got.within + got.between and got.vacuous
    assert (got.n, got.m, got.kl) == (3, (2, 3, 9), 2.0)


@pytest.mark.parametrize(("n", "expected"), [(5, 0.8138), (7, 0.6852), (20, 0.4194)])
def test_what_few_domains_cost(n: int, expected: float):
    assert between(n, 0.0, 0.05) == pytest.approx(expected, abs=5e-5)


KLS, DELTAS = st.floats(0, 50), st.floats(0.001, 0.9)


@settings(deadline=None)
@given(st.lists(st.integers(2, 10**6), min_size=2, max_size=30), KLS, st.floats(0.01, 50), DELTAS)
def test_terms_grow_with_kl_and_with_confidence(m: list[int], kl: float, more: float, delta: float):
    assert within(m, kl, delta) < within(m, kl + more, delta)
    assert between(len(m), kl, delta) < between(len(m), kl + more, delta)
    assert within(m, kl, delta) < within(m, kl, delta / 2)
    assert between(len(m), kl, delta) < between(len(m), kl, delta / 2)


@settings(deadline=None)
@given(st.lists(st.integers(2, 10**6), min_size=2, max_size=30), st.integers(1, 1000), KLS, DELTAS)
def test_samples_of_any_domain_help(m: list[int], more: int, kl: float, delta: float):
    for k in (0, len(m) - 1):
        assert within([m_k + more * (i == k) for i, m_k in enumerate(m)], kl, delta) < within(m, kl, delta)


@settings(deadline=None)
@given(st.integers(2, 2000), st.integers(1, 50), st.integers(0, 10**5), KLS, DELTAS)
def test_domains_help_as_long_as_each_has_as_many_samples(n: int, more: int, m: int, kl: float, delta: float):
    whole = lambda n: within([m_k] * n, kl, delta) + between(n, kl, delta)  # noqa: E731
    m_k = n + more + m
    assert between(n + more, kl, delta) < between(n, kl, delta)
    assert whole(n + more) < whole(n)


def test_domains_with_two_samples_each_cost_more_than_they_bring():
    """ln(2 n m / delta) grows with n, and nothing makes up for it."""
    whole = lambda n: within([2] * n, 0.0) + between(n, 0.0)  # noqa: E731
    assert whole(10_000) > whole(1000)


def softly_clipped(mean: float, sd: float) -> float:
    """E clip(theta, 0, 1) for a Gaussian theta."""
    x = np.linspace(-8, 8, 4001)
    weight = np.exp(-0.5 * x**2)
    return float((np.clip(mean + sd * x, 0, 1) * weight).sum() / weight.sum())


@pytest.mark.parametrize(("n", "m", "delta"), [(3, 1000, 0.5), (9, 1000, 0.05), (41, 20, 0.2)])
def test_it_holds_as_often_as_it_says_where_the_truth_is_known(n: int, m: int, delta: float):
    """Half of all domains show 1 in nine of ten samples, the others in one. Whatever is guessed, half of it is wrong.

    Q guesses what most samples showed. An odd number of domains makes the measured loss too small every time, and the
    second term, for samples, does not make up for it; the third does.
    """
    rng = np.random.default_rng(0)
    guess = softly_clipped(2.0, 0.5)  # of a 1
    kl = divergence(gaussian([2.0], [0.5]), gaussian([0.5], [2.0]))  # that of N(-1, 0.5), which guesses 0, is the same
    assert softly_clipped(-1.0, 0.5) == pytest.approx(1 - guess)
    truth, got = 0.5, []
    for _ in range(300):
        samples = rng.random((n, m)) < rng.choice([0.1, 0.9], (n, 1))
        h = guess if samples.mean() > 0.5 else 1 - guess
        got.append(of_losses(list(np.abs(h - samples)), kl, delta))
    assert np.mean([b.value < truth for b in got]) <= delta
    assert np.mean([b.error < truth for b in got]) > 0.95
    if m == 1000:
        assert np.mean([b.error + b.within < truth for b in got]) > delta


LOSSES = [np.full(10, 0.5), np.full(20, 0.5)]


@pytest.mark.parametrize(
    ("losses", "kl", "delta", "said"),
    [
        ([], 0.0, 0.1, r"There are 0 domain\(s\); Theorem 2 needs at least 2"),
        (LOSSES[:1], 0.0, 0.1, r"There are 1 domain\(s\)"),
        ([*LOSSES, np.zeros(1)], 0.0, 0.1, r"Domain 2 has 1 sample\(s\)"),
        ([np.zeros(0), *LOSSES], 0.0, 0.1, r"Domain 0 has 0 sample\(s\)"),
        ([*LOSSES, np.asarray([0.0, 1.01])], 0.0, 0.1, "losses of domain 2 lie between 0.0 and 1.01"),
        ([*LOSSES, np.asarray([-0.5, 1.0])], 0.0, 0.1, "losses of domain 2 lie between -0.5 and 1.0"),
        ([*LOSSES, np.asarray([NAN, 1.0])], 0.0, 0.1, "losses of domain 2 lie between nan and nan"),
        ([*LOSSES, np.asarray([0.0, INF])], 0.0, 0.1, "losses of domain 2 lie between 0.0 and inf"),
        (LOSSES, -0.1, 0.1, "is -0.1; a finite number that is not negative"),
        (LOSSES, INF, 0.1, "is inf"),
        (LOSSES, NAN, 0.1, "is nan"),
        *((LOSSES, 0.0, delta, f"delta is {delta}") for delta in (0.0, 1.0, -0.5, 2.0, NAN)),
    ],
)
def test_what_the_theorem_does_not_allow_is_named(losses, kl: float, delta: float, said: str):
    with pytest.raises(AdarlError, match=said):
        of_losses(losses, kl, delta)


@pytest.mark.parametrize(
    ("posterior", "prior", "said"),
    [
        (gaussian([0.0], [0.0]), gaussian([0.0], [1.0]), "positive"),
        (gaussian([0.0], [1.0]), gaussian([0.0], [-1.0]), "positive"),
        (gaussian([NAN], [1.0]), gaussian([0.0], [1.0]), "finite"),
        (gaussian([0.0], [1.0]), gaussian([0.0], [INF]), "finite"),
        (gaussian([0.0, 0.0], [1.0, 1.0]), gaussian([0.0], [1.0]), "one shape"),
    ],
)
def test_gaussians_that_are_none_are_named(posterior: Gaussian, prior: Gaussian, said: str):
    with pytest.raises(AdarlError, match=said):
        divergence(posterior, prior)


def test_words_say_every_term_and_whether_it_says_anything():
    said = words(Bound(0.03125, 0.25, 0.75, 0.5, (200, 200, 200), 0.05))
    for part in (
        "95%",
        "1.031",
        "0.031",
        "0.250",
        "0.750",
        "200 samples",
        "3 domains",
        "is vacuous",
        "is 0.500",
        "chosen before",
    ):
        assert part in said
    said = words(Bound(0.25, 0.25, 0.25, 0.0, (10, 30), 0.1))
    assert "not vacuous" in said and "10 to 30 samples" in said and "90%" in said


DISCOUNT, BEST = 0.75, 2.0


@dataclass(frozen=True)
class Countdown:
    """Pays the factor `pay` for one, two or three steps and ends, unless it is endless. States are one-hot."""

    state_names: tuple[str, ...] = ("one", "two", "three")
    n_actions: int = 2

    @property
    def defaults(self) -> Mapping[str, float]:
        return {"pay": 1.0, "endless": 0.0}

    def reset(self, key, factors, wide):
        return jax.nn.one_hot(jr.randint(key, (), 0, 3), 3)

    def step(self, key, s_tm1, a_tm1, factors) -> Step:
        left = jnp.argmax(s_tm1) - 1
        ended = (left < 0) & (factors["endless"] == 0)
        # What comes after an end must count for nothing.
        r = jnp.where(s_tm1.sum() > 0, factors["pay"], jnp.nan)
        return Step(jnp.where(ended, jnp.zeros(3), jax.nn.one_hot(jnp.maximum(left, 0), 3)), r, ended)

    def recordable(self, s):
        return jnp.bool_(True)


def factors(*pay: float, endless: bool = False) -> dict[str, jax.Array]:
    return {"pay": jnp.asarray(pay), "endless": jnp.full(len(pay), float(endless))}


def shaped_values(pay: float) -> list[float]:
    """What Double DQN converges to in a countdown: Q' = r' + gamma Q' with the rewards as the learner sees them."""
    see = lambda ended: float(shaped(jnp.float32(pay), jnp.bool_(ended), jnp.float32(BEST), DISCOUNT))  # noqa: E731
    q = [see(True)]
    for _ in range(2):
        q.append(see(False) + DISCOUNT * q[-1])
    return q


def agent(values: list[float], slope: float | None = None) -> Agent:
    """Predicts `values` in the three states, plus `slope` times theta_s if it sees one. The second action looks worse."""
    weight = jnp.asarray([*values, *([] if slope is None else [slope])], jnp.float32)
    q = Network((len(weight), 2), "relu", key=jr.key(0))
    new = (jnp.stack([weight, weight]), jnp.asarray([0.0, -0.5]))
    q = eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), q, new)
    view = View(jnp.zeros(3), jnp.ones(3), (0, 1, 2), () if slope is None else (0,), ())
    like = eqx.filter_eval_shape(lambda: fit.blank(3, 2, 2, ModelConfig(theta_s=1, theta_r=1, hidden=2)))
    model = jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), like)
    networks = jax.tree.map(lambda x: x[None], q)
    return Agent(eqx.tree_at(lambda m: m.theta, model, THETA), networks, jnp.zeros(1), jnp.zeros((1, 3)), view)


THETA = Theta(jnp.asarray([[-1.0], [1.0]]), jnp.zeros((2, 1)))
KEY = jr.key(0)
SHAPE = {"best": BEST, "discount": DISCOUNT, "episodes": 64, "steps": 8}
V_MAX = (1 - DISCOUNT**8) / (1 - DISCOUNT)


@pytest.mark.parametrize("pay", [1.0, 0.25, 0.0])
def test_shaping_is_undone(pay: float):
    whole = agent(shaped_values(pay))
    theta = Theta(jnp.zeros(1), jnp.zeros(1))
    one = lambda s: bound.predicted(whole.q, whole.view, s, theta, jnp.float32(BEST), DISCOUNT)  # noqa: E731
    expected = pay * np.asarray([1, 1 + DISCOUNT, 1 + DISCOUNT + DISCOUNT**2])
    for call in (jax.vmap(one), jax.jit(jax.vmap(one))):
        np.testing.assert_allclose(call(jnp.eye(3)), expected, atol=1e-5)


@pytest.mark.parametrize("pay", [1.0, 0.25])
def test_an_agent_that_knows_all_values_has_no_error(pay: float):
    got = of_agent(agent(shaped_values(pay)), Countdown(), factors(pay, pay), THETA, KEY, **SHAPE)
    assert got.error == pytest.approx(0.0, abs=1e-6)
    assert (got.n, got.m, got.kl, got.delta) == (2, (64, 64), 0.0, 0.05)
    assert got == (got.error, within([64, 64], 0.0), between(2, 0.0), 0.0, (64, 64), 0.05)


def test_the_error_is_in_units_of_the_largest_value():
    """In one of two domains nothing is paid: the error is the value predicted there."""
    got = of_agent(agent(shaped_values(1.0)), Countdown(), factors(1.0, 0.0), THETA, KEY, **SHAPE)
    keys = jr.split(KEY, (2, 64))[1]
    start = [int(jnp.argmax(Countdown().reset(jr.split(k, 3)[0], {}, False))) for k in keys]
    predicted = np.asarray([1, 1 + DISCOUNT, 1 + DISCOUNT + DISCOUNT**2])[start]
    assert len(set(start)) == 3
    assert got.error == pytest.approx((predicted / V_MAX).mean() / 2, rel=1e-5)


def test_a_return_that_is_cut_misses_what_comes_later():
    """Endless pay of 1 is worth 1 / (1 - gamma), which is 1 - best as the learner sees it; eight steps earn V_max."""
    forever = agent([1.0 - BEST] * 3)
    got = of_agent(forever, Countdown(), factors(1.0, 1.0, endless=True), THETA, KEY, **SHAPE)
    assert got.error == pytest.approx(1 / (1 - DISCOUNT) / V_MAX - 1, rel=1e-3)


def test_a_wrong_theta_costs_what_q_says():
    """Q is N(1, 2^2) and h is off by b (theta - 1): the mean loss is 2 b sqrt(2 / pi) / V_max. Acting stays as it is."""
    b = 0.25
    slope = (1 - DISCOUNT) * b
    skewed = agent([v - slope for v in shaped_values(1.0)], slope)
    skewed = eqx.tree_at(lambda a: a.model.theta.theta_s, skewed, jnp.asarray([[-1.0], [3.0]]))
    got = of_agent(skewed, Countdown(), factors(1.0, 1.0), THETA, KEY, **SHAPE)
    assert got.error == pytest.approx(2 * b * np.sqrt(2 / np.pi) / V_MAX, rel=0.05)
    assert got.kl == pytest.approx(np.log(3 / 2) + (4 + 1) / 18 - 0.5)
    assert got.between == between(2, got.kl)


def test_a_loss_beyond_one_is_one():
    got = of_agent(agent([1000.0] * 3), Countdown(), factors(1.0, 1.0), THETA, KEY, **SHAPE)
    assert got.error == 1.0


def test_the_key_decides():
    run = lambda seed: of_agent(  # noqa: E731
        agent(shaped_values(1.0), 0.1), Countdown(), factors(1.0, 0.5), THETA, jr.key(seed), **SHAPE
    )
    assert run(0) == run(0)
    assert run(0).error != run(1).error


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"discount": 1.0}, "The discount is 1.0"),
        ({"discount": -0.1}, "The discount is -0.1"),
        ({"steps": 0}, "cut at 0 steps"),
        ({"episodes": 1}, r"Domain 0 has 1 sample\(s\)"),
        ({"delta": 0.0}, "delta is 0.0"),
        ({"best": NAN}, "losses of domain 0 lie between nan and nan"),
    ],
)
def test_bad_measurements_are_named(changes: dict, said: str):
    with pytest.raises(AdarlError, match=said):
        of_agent(agent(shaped_values(1.0)), Countdown(), factors(1.0, 1.0), THETA, KEY, **{**SHAPE, **changes})


@pytest.mark.parametrize("pay", [3.0, -1.0, NAN])
def test_rewards_outside_of_zero_and_one_are_named(pay: float):
    with pytest.raises(AdarlError, match=r"Discounted returns lie between .* rewards in \[0, 1\] give 0 to 3\.59955"):
        of_agent(agent(shaped_values(1.0)), Countdown(), factors(1.0, pay), THETA, KEY, **SHAPE)


def test_one_domain_is_not_enough():
    alone = jax.tree.map(lambda t: t[:1], THETA)
    with pytest.raises(AdarlError, match=r"There are 1 domain\(s\)"):
        of_agent(agent(shaped_values(1.0)), Countdown(), factors(1.0), alone, KEY, **SHAPE)


def test_a_theta_that_never_changed_is_named():
    still = eqx.tree_at(lambda a: a.model.theta.theta_s, agent(shaped_values(1.0), 0.1), jnp.zeros((2, 1)))
    with pytest.raises(AdarlError, match="positive numbers are expected"):
        of_agent(still, Countdown(), factors(1.0, 1.0), THETA, KEY, **SHAPE)


@pytest.mark.parametrize("dimensions", [1, 2, 6])
def test_fewer_dimensions_of_theta_min_make_a_smaller_bound(dimensions: int):
    """What Theorem 2 is cited for: all else equal, KL counts the dimensions."""
    kl = lambda d: divergence(gaussian(np.zeros(d), np.ones(d)), gaussian(np.zeros(d), np.full(d, 3.0)))  # noqa: E731
    assert kl(dimensions) == pytest.approx(dimensions * kl(1))
    assert of_losses(LOSSES, kl(dimensions - 1)).value < of_losses(LOSSES, kl(dimensions)).value
