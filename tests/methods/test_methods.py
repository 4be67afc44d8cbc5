"""Known answers: a family that no policy solves without knowing which domain it is in, and every method's way to know it."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from adarl import Config, Family, stages
from adarl.collect import CollectConfig
from adarl.config import METHODS, WITH_MODEL, resolve
from adarl.methods import context, pearl
from adarl.methods.adarl_star import without_masks
from adarl.methods.cavia import CAVIA
from adarl.methods.method import Method, Policy, act, certain, chosen, nothing_told, rows
from adarl.methods.non_t import NonT
from adarl.model.plan import ModelConfig
from adarl.model.world import WorldModel
from adarl.policy import replay
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
from adarl.policy.replay import Experience
from adarl.progress import Progress
from adarl.types import AdarlError, Episodes, Step


@dataclass(frozen=True)
class Levers:
    """A walk in which one of two levers pays. `side` says which: 1 the second, -1 the first; either may be far off 1."""

    state_names: tuple[str, ...] = ("place",)
    n_actions: int = 2

    @property
    def defaults(self) -> Mapping[str, float]:
        return {"side": 1.0}

    def reset(self, key, factors, wide) -> Array:
        return jr.uniform(key, (1,), minval=-0.5, maxval=0.5)

    def step(self, key, s_tm1, a_tm1, factors) -> Step:
        """The place moves with the lever and the side, so that the side shows in states as well as in rewards."""
        push = 0.3 * factors["side"] * (2.0 * a_tm1 - 1.0)
        s = jnp.clip(0.5 * s_tm1 + push + 0.02 * jr.normal(key, (1,)), -2.0, 2.0)
        return Step(s, (s[0] > 0).astype(jnp.float32), jnp.bool_(False))

    def recordable(self, s):
        return jnp.bool_(True)


FAMILY = Family(
    "levers",
    Levers(),
    ("side",),
    sources=({"side": -1.2}, {"side": -0.8}, {"side": 0.8}, {"side": 1.2}),
    targets={"first": {"side": -1.0}, "second": {"side": 1.0}},
    discount=0.5,
)
CONFIG = resolve(
    FAMILY,
    Config(
        seeds=2,
        samples=("30steps",),
        episodes=4,
        steps=20,
        collect=CollectConfig(trials=60, steps=20),
        model=ModelConfig(hidden=16, open_steps=500, search_steps=500, binary_steps=500),
        policy=PolicyConfig(
            DoubleDQNConfig(hidden=32, updates=1200, batch=64, learning_rate=3e-3, average_rate=0.02),
            environments=8,
            capacity=4000,
            evaluate_every=400,
            evaluate_steps=20,
        ),
    ),
)
KEYS = jr.split(jr.key(3), CONFIG.seeds)
CEILING = 18.0  # of 20 steps: the walk needs one or two to reach the side that pays


class Nothing:
    """A training that is never interrupted."""

    def load(self, like) -> None:
        return None

    def save(self, tree, *, force=False) -> bool:
        return False

    def part(self, name: str) -> "Nothing":
        return self


@functools.cache
def recorded() -> Episodes:
    return stages.record(FAMILY, FAMILY.sources, CONFIG, jr.key(0), Progress(quiet=True))


@functools.cache
def model(name: str) -> WorldModel:
    plan = stages.sized(CONFIG.model, FAMILY, None)
    plan = without_masks(plan) if name == "model_star" else plan
    return stages.estimate_model(FAMILY, recorded(), plan, None, jr.key(1), Nothing(), Progress(quiet=True))  # pyright: ignore


def built(name: str, config: Config = CONFIG) -> Method:
    on = model(stages.model_name(name, images=False)) if name in WITH_MODEL else None
    return stages.method_of(name, stages.lesson_of(FAMILY, recorded(), config), on, config)


@functools.cache
def played(name: str) -> tuple[Any, Any, dict[str, tuple[Policy, np.ndarray]]]:
    """A method, what it learned, and its policy and scores in both targets."""
    method = built(name)
    trained = method.train(KEYS, Nothing(), lambda updates: None)
    found = {}
    for target in FAMILY.targets:
        policy = stages.adapt(FAMILY, method, trained, target, "30steps", CONFIG, jr.key(4), jr.key(3))
        (row,) = stages.evaluate(method, {(target, "30steps"): policy}, CONFIG, jr.key(5))
        found[target] = policy, np.asarray(row["scores"])
    return method, trained, found


@pytest.mark.parametrize("name", [m for m in METHODS if m not in ("non_t", "psm")])
def test_methods_that_can_tell_the_domains_apart_solve_both_targets(name: str):
    method, trained, found = played(name)
    for _, scores in found.values():
        assert (scores >= CEILING).all(), (name, scores)
    assert method.curve(trained).shape == (2, 3)
    policies = {target: policy for target, (policy, _) in found.items()}
    same = lambda tree, like: jax.tree.map(lambda x, y: (x.shape, x.dtype) == (y.shape, y.dtype), tree, like)  # noqa: E731
    assert all(jax.tree.leaves(same(trained, method.trained_like(2))))
    assert all(jax.tree.leaves(same(policies["first"], method.policy_like(2))))
    if name != "mql":  # that knows nothing before its first step
        levers = {t: np.asarray(act(p, method.view, jnp.zeros((2, 1)))) for t, p in policies.items()}
        assert (levers["first"] == 0).all() and (levers["second"] == 1).all()


def test_only_methods_that_do_the_same_are_alike():
    printed = built("adarl")
    assert stages.alike(printed, printed) and not stages.alike(printed, built("adarl_plus"))  # which imagines
    assert not stages.alike(printed, built("adarl_star")) and not stages.alike(built("non_t"), built("non_t"))


def test_pooling_the_sources_solves_one_target_at_most():
    """Where a lever pays in half of the domains, knowing nothing costs half of what there is."""
    method, trained, _ = played("non_t")
    blind = Policy(chosen(trained, method.lesson), certain(nothing_told(2)), nothing_told(2))
    rows = stages.evaluate(method, {(t, "0"): blind for t in FAMILY.targets}, CONFIG, jr.key(5))
    scores = [row["scores"] for row in rows]
    assert (np.mean(scores, axis=0) < 0.75 * CEILING).all()
    assert isinstance(method, NonT) and trained.curve.shape == (2, 3) and method.curve(trained).shape == (2, 2)


def test_samples_of_the_target_tip_the_balance_of_the_pool():
    """The sources are split; the target's samples are one vote more."""
    _, _, found = played("non_t")
    for _, scores in found.values():
        assert (scores >= CEILING).all()


def test_the_target_joins_the_pool_with_the_share_of_a_source():
    method = built("non_t")
    assert isinstance(method, NonT)
    assert method.pooling.n_target == 64 // 5 and method.alone == 800


@pytest.mark.parametrize("name", ["cavia", "pearl"])
def test_contexts_follow_the_domain(name: str):
    """Domains that are alike are told alike; opposite ones are not."""
    method: Any
    method, trained, _ = played(name)
    for seed in range(2):
        q = jax.tree.map(lambda x, seed=seed: x[seed], trained.q)
        told = np.asarray(method.algorithm.told(q, jr.key(0)).theta_s)
        across = np.linalg.norm(told[:2].mean(0) - told[2:].mean(0))
        within = max(np.linalg.norm(told[0] - told[1]), np.linalg.norm(told[2] - told[3]))
        assert across > 2 * within


def test_a_step_of_cavia_goes_down_the_loss():
    method = built("cavia", replace(CONFIG, cavia=replace(CONFIG.cavia, rate=0.05)))
    assert isinstance(method, CAVIA)
    q = method.algorithm.start(method.view.size, 2, jr.key(0)).q
    steps = jax.tree.map(lambda x: x[0], method.algorithm.recorded)
    loss = lambda phi: float(method.algorithm._loss(q, q, steps, phi))  # noqa: E731
    assert loss(method.algorithm.find(q, q, steps)) < loss(jnp.zeros(method.config.context))


def test_votes_multiply_as_gaussians_do():
    """Two steps that say 1 with precision p each, and the prior 0 with precision 1: mean 2p / (1 + 2p)."""
    linear = lambda rows, bias: eqx.tree_at(  # noqa: E731
        lambda n: (n.layers[0].weight, n.layers[0].bias),
        pearl.Network((1, 2), "relu", key=jr.key(0)),
        (jnp.asarray(rows), jnp.asarray(bias)),
    )
    q = pearl.QWithEncoder(linear([[0.0], [0.0]], [0.0, 0.0]), linear([[1.0], [0.0]], [0.0, 0.3]))
    mean, variance = q.posterior(jnp.ones((2, 1)))
    p = np.log1p(np.exp(0.3))
    np.testing.assert_allclose(mean, [2 * p / (1 + 2 * p)], rtol=1e-6)
    np.testing.assert_allclose(variance, [1 / (1 + 2 * p)], rtol=1e-6)
    # KL of N(1, 4) from N(0, 1) is (4 + 1 - 1 - ln 4) / 2.
    np.testing.assert_allclose(pearl.divergence(jnp.ones(1), 4 * jnp.ones(1)), 2 - np.log(2), rtol=1e-6)


def test_rows_are_repeated_or_thinned_out_evenly():
    one = jax.tree.map(lambda x: x[:1], recorded())
    n = int(one.valid.sum())
    few, many = rows(one, n // 2), rows(one, 3 * n)
    assert few.r_t.shape == (n // 2,) and many.r_t.shape == (3 * n,)
    np.testing.assert_array_equal(many.s_t[:n], many.s_t[n : 2 * n])
    assert len(np.unique(few.s_t)) == n // 2
    none = eqx.tree_at(lambda e: e.valid, one, jnp.zeros_like(one.valid))
    with pytest.raises(AdarlError, match="0 samples"):
        rows(none, 5)


def test_a_context_replaces_the_end_of_what_the_policy_sees():
    x = jnp.arange(8.0).reshape(2, 4)
    steps = Experience(x, jnp.zeros(2, int), jnp.zeros(2), x + 1, jnp.zeros(2), jnp.zeros(2, bool))
    told = context.tell(steps, jnp.array([-1.0, -2.0]))
    np.testing.assert_array_equal(told.x_tm1, [[0, 1, -1, -2], [4, 5, -1, -2]])
    np.testing.assert_array_equal(told.x_t, [[1, 2, -1, -2], [5, 6, -1, -2]])


def test_batches_by_domain_hold_their_own_domain_only():
    """Blocks of six: two steps of each of three domains; the reward names the domain."""
    ring = replay.empty(24, 1)
    for i in range(3):
        zeros = jnp.zeros((6, 1))
        new = Experience(zeros, jnp.zeros(6, int), jnp.repeat(jnp.arange(3.0), 2), zeros, jnp.ones(6), jnp.zeros(6, bool))
        ring = replay.add(ring, new, jnp.int32(i))
    batch = replay.sample_by_domain(jr.key(0), ring, jnp.int32(3), 6, 3, jnp.arange(3), 50)
    np.testing.assert_array_equal(batch.r_t, np.repeat(np.arange(3.0)[:, None], 50, axis=1))
    assert np.asarray(batch.left).all()  # what was never written is never drawn


def test_an_update_looks_at_some_of_many_sources():
    """Each as likely as any other, none twice; what is told of the others stays."""
    drawn = np.asarray(jax.vmap(lambda k: context.tasks(k, 20))(jr.split(jr.key(0), 500)))
    assert drawn.shape == (500, context.TASKS) and all(len(set(row)) == context.TASKS for row in drawn.tolist())
    assert np.bincount(drawn.reshape(-1), minlength=20).min() > 0.75 * 500 * context.TASKS / 20
    np.testing.assert_array_equal(context.tasks(jr.key(0), 5), np.arange(5))
    told = context.told_anew(context.as_theta(jnp.zeros((4, 1))), jnp.array([2, 0]), jnp.array([[5.0], [6.0]]))
    np.testing.assert_array_equal(told.theta_s[:, 0], [6, 0, 5, 0])
    recorded = jnp.arange(3.0)[:, None] * jnp.ones((3, 10))
    np.testing.assert_array_equal(context.drawn(jr.key(1), recorded, jnp.array([2, 0]), 4), [[2] * 4, [0] * 4])


def test_without_masks_keeps_every_edge():
    method: Any = built("adarl_star")
    assert all(bool((mask == 1).all()) for mask in jax.tree.leaves(method.model.masks))
    assert method.view.size == 3  # the place, theta_s and theta_r
