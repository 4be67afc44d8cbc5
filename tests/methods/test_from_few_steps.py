"""PNN, PSM and MQL: what each does with a target's samples, by hand and in a family that shows whether it works."""

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
from test_methods import CONFIG, FAMILY, Nothing, played, recorded

from adarl import Family, stages
from adarl.methods.mql import MqlConfig, QWithHistory, likeness
from adarl.methods.pnn import Columns, PnnConfig, grown
from adarl.methods.psm import PSM, PsmConfig, contrast, distances
from adarl.network import Network
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.remembered import Remembered
from adarl.policy.replay import Experience
from adarl.progress import Progress
from adarl.types import AdarlError, Step


@dataclass(frozen=True)
class Painted:
    """A walk that should stay near the middle. Its paint is seen and means nothing."""

    state_names: tuple[str, ...] = ("place", "paint")
    n_actions: int = 2

    @property
    def defaults(self) -> Mapping[str, float]:
        return {"paint": 0.0}

    def reset(self, key, factors, wide) -> Array:
        return jnp.stack([jr.uniform(key, (), minval=-1.0, maxval=1.0), factors["paint"]])

    def step(self, key, s_tm1, a_tm1, factors) -> Step:
        place = jnp.clip(s_tm1[0] + 0.3 * (2.0 * a_tm1 - 1.0) + 0.05 * jr.normal(key), -1.5, 1.5)
        return Step(jnp.stack([place, factors["paint"]]), (jnp.abs(place) < 0.35).astype(jnp.float32), jnp.bool_(False))

    def recordable(self, s):
        return jnp.bool_(True)


PAINTED = Family(
    "painted",
    Painted(),
    ("paint",),
    sources=({"paint": -1.0}, {"paint": -0.3}, {"paint": 0.3}, {"paint": 1.0}),
    targets={"new": {"paint": 1.6}},
    discount=0.8,
)
LEARNER = replace(CONFIG.policy.learner, updates=4800, discount=0.8)
LONGER = replace(CONFIG, policy=replace(CONFIG.policy, learner=LEARNER, evaluate_every=200))


@functools.cache
def similar() -> tuple[PSM, Any]:
    config = LONGER
    episodes = stages.record(PAINTED, PAINTED.sources, config, jr.key(0), Progress(quiet=True))
    method: Any = stages.method_of("psm", stages.lesson_of(PAINTED, episodes, config), None, config)
    return method, method.train(jr.split(jr.key(3), 2), Nothing(), lambda updates: None)


def test_psm_sees_alike_where_experts_act_alike():
    """The same place in another paint looks like itself, the opposite place does not; before training, less so."""
    method, trained = similar()

    def agreement(networks: Any) -> np.ndarray:
        seen = lambda place, paint: jax.vmap(lambda q: q.seen(_view(method, place, paint)))(networks)  # noqa: E731
        same = (seen(0.6, -1.0) * seen(0.6, 1.0)).sum(-1)
        other = (seen(0.6, -1.0) * seen(-0.6, 1.0)).sum(-1)
        return np.asarray(same - other)

    fresh = eqx.filter_vmap(lambda key: method.algorithm.start(method.view.size, 2, key).q)(jr.split(jr.key(9), 2))
    assert (agreement(trained.learner.q_average) > 1.0).all()
    assert (agreement(trained.learner.q_average) > agreement(fresh) + 0.3).all()


def _view(method: PSM, place: float, paint: float) -> Array:
    return (jnp.array([place, paint]) - method.view.mean) / method.view.scale


def test_psm_acts_in_a_paint_never_seen():
    method, trained = similar()
    policy = stages.adapt(PAINTED, method, trained, "new", "30steps", LONGER, jr.key(4), jr.key(3))
    scores = stages.evaluate(method, {("new", "30steps"): policy}, LONGER, jr.key(5))[0]["scores"]
    assert min(scores) > 14.0  # of 20 steps: a walk of such steps is near the middle nearly always, once it is there
    like = method.trained_like(2)
    shapes = lambda tree: [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]  # noqa: E731
    assert shapes(trained) == shapes(like)
    assert method.curve(trained).shape == (2, 22)  # of 4,800 updates 400 are for each target


def test_psm_says_how_many_updates_it_needs():
    short = replace(CONFIG, policy=replace(CONFIG.policy, evaluate_every=600))
    with pytest.raises(AdarlError, match=r"updates is 1200; psm, which learns experts first, needs at least 1800\."):
        stages.method_of("psm", stages.lesson_of(FAMILY, recorded(), short), None, short)


def test_psm_learns_alone_until_there_are_experts():
    method, trained = similar()
    assert method.half == 2400
    np.testing.assert_allclose(trained.learner.given["weight"], method.config.weight)
    assert (np.asarray(trained.learner.given["clips"].p).sum(-1) > 0.999).all()


def test_distances_of_experts_by_hand():
    """Two moments each: alike at first and opposite later."""
    p, other = jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([[1.0, 0.0], [0.0, 1.0]])
    d = distances(p, other, 0.9)
    # d[1, j] and d[i, 1] go on as they are; d[0, 0] = 0.1 * 0 + 0.9 * d[1, 1]
    np.testing.assert_allclose(d, [[0.9, 1.0], [0.0, 1.0]], atol=1e-6)


def test_the_loss_on_features_is_least_where_the_nearest_attract():
    d = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    z = jnp.eye(2)
    config = PsmConfig(kernel=0.1, temperature=0.5)
    right, wrong = contrast(z, z, d, config), contrast(z, z[::-1], d, config)
    # -log [e^2 / (e^2 + (1 - e^-10) e^0)] where they match
    np.testing.assert_allclose(right, np.log(1 + np.exp(-2.0)), rtol=1e-3)
    np.testing.assert_allclose(wrong, np.log(1 + np.exp(2.0)), rtol=1e-3)


def test_steps_are_recalled_as_they_are_remembered():
    """A recording with the last steps put beside every state is what an environment that remembers would have shown."""
    lesson = stages.lesson_of(FAMILY, recorded(), CONFIG)
    domain = Remembered(lesson.functional, lesson.scale, 3)
    episodes = domain.recall(recorded())
    assert episodes.s.shape[-1] == 1 + 3 * 4
    factors = {"side": jnp.float32(-1.2)}
    s = domain.reset(jr.key(0), factors, jnp.bool_(False))
    own, a, r = [s[-1]], [], []
    for t in range(5):
        answer = domain.step(jr.key(t), s, jnp.int32(t % 2), factors)
        s, a, r = answer.s, [*a, t % 2], [*r, answer.r]
        own.append(s[-1])
    made = eqx.tree_at(
        lambda e: (e.s, e.a, e.r),
        recorded(),
        (jnp.stack(own)[None, None, :, None], jnp.array(a)[None, None], jnp.stack(r)[None, None]),
    )
    np.testing.assert_allclose(domain.recall(made).s[0, 0, -1], s[:-1], rtol=1e-5)
    assert domain.view().size == 13 and bool(domain.recordable(s))


def test_a_context_reads_all_of_the_last_steps():
    q = QWithHistory(eqx.nn.GRUCell(2, 4, key=jr.key(0)), Network((3 + 4, 8, 2), "relu", key=jr.key(1)), 3)
    x = jr.normal(jr.key(2), (5, 3 + 3 * 2))
    context = q.context(x)
    assert context.shape == (5, 4) and q(x).shape == (5, 2) and q(x[0]).shape == (2,)
    np.testing.assert_allclose(context[0], q.context(x[0]), rtol=1e-5)
    memory = jnp.zeros(4)
    for t in range(3):
        memory = q.gru(x[0, 3 + 2 * t : 5 + 2 * t], memory)
    np.testing.assert_allclose(context[0], memory, rtol=1e-5)


def test_old_steps_count_by_how_much_they_look_like_new_ones():
    rng = np.random.default_rng(0)
    left, right = rng.normal(-2, 0.5, (300, 1)), rng.normal(2, 0.5, (300, 1))
    weight = likeness(jnp.asarray(np.concatenate([left, right])), jnp.asarray(right[:50]), MqlConfig(ridge=0.1, clip=1.0))
    assert (weight[:300] == 0).mean() > 0.95  # unlike any new step
    assert 1.5 < weight[300:].mean() < 2.5  # twice as dense among the new ones as among the old
    assert weight.max() <= np.e + 1e-5  # never more than the clip allows
    alike = likeness(jnp.asarray(left), jnp.asarray(left[::3]), MqlConfig())
    np.testing.assert_allclose(alike, 1.0, atol=0.2)


def test_mql_knows_its_domain_by_the_last_steps():
    """Without any sample of a target: the context alone tells which lever pays."""
    method, trained, _ = played("mql")
    q = jax.tree.map(lambda x: x[0], trained.q)
    episodes = method.lesson.episodes
    x = jax.vmap(jax.vmap(jax.vmap(lambda s: (s - method.view.mean) / method.view.scale)))(episodes.s[:, :, 12:])
    chosen = np.asarray(jnp.argmax(q(x), axis=-1))
    assert (chosen[:2] == 0).mean() > 0.95 and (chosen[2:] == 1).mean() > 0.95


def steps_that_pay(action: int, n: int = 64) -> Experience:
    """One action pays and the other does not, whatever the state; nothing follows."""
    x, a = jr.normal(jr.key(7), (n, 2)), jnp.arange(n) % 2
    return Experience(x, a, jnp.where(a == action, 0.0, -1.0), x, jnp.zeros(n), jnp.zeros(n, bool))


GROWS = PnnConfig(lateral=4, rate=1e-2, updates=300)
LEARNER = DoubleDQNConfig(discount=0.9, batch=32)


def test_a_second_column_starts_as_the_first_and_leaves_it_alone():
    first = Network((2, 8, 8, 2), "relu", key=jr.key(0))
    columns = Columns.beside(first, PnnConfig(lateral=4), jr.key(1))
    x = jr.normal(jr.key(2), (5, 2))
    np.testing.assert_allclose(columns(x), first(x), rtol=1e-5, atol=1e-6)
    for n in (64, 1):  # one step is too few to set any aside
        after = grown(columns, steps_that_pay(1), jnp.int32(n), GROWS, LEARNER, jr.key(3))
        for old, new in zip(jax.tree.leaves(first), jax.tree.leaves(after.first), strict=True):
            np.testing.assert_array_equal(old, new)
    after = grown(columns, steps_that_pay(1), jnp.int32(64), GROWS, LEARNER, jr.key(3))
    assert (jnp.argmax(after(x), axis=1) == 1).all()
    assert any(float(jnp.abs(lateral.widen.weight).max()) > 0 for lateral in after.laterals)
    np.testing.assert_allclose(after(x)[:, 1], 0.0, atol=0.15)


def test_a_column_that_only_gets_worse_is_not_taken():
    """Steps set aside say the opposite of those trained on."""
    first = Network((2, 8, 8, 2), "relu", key=jr.key(0))
    columns = Columns.beside(first, PnnConfig(lateral=4), jr.key(1))
    steps = steps_that_pay(1, 60)
    aside = jnp.arange(60) % 5 == 4
    exact = eqx.tree_at(lambda e: e.r_t, steps, jnp.where(aside, _taken(first, steps), steps.r_t - 5.0))
    after = grown(columns, exact, jnp.int32(60), GROWS, LEARNER, jr.key(3))
    np.testing.assert_allclose(after(steps.x_tm1), first(steps.x_tm1), rtol=1e-4, atol=1e-5)


def _taken(q: Network, steps: Experience) -> Array:
    return jnp.take_along_axis(q(steps.x_tm1), steps.a_tm1[:, None], axis=1)[:, 0]
