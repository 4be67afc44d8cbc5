"""Probe environments: problems so small that every value is known. What fails here names the broken part."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from adarl.domains.functional import Functional
from adarl.network import Network
from adarl.policy import learn as learning
from adarl.policy import sources as sources_module
from adarl.policy.double_dqn import DoubleDQN, DoubleDQNConfig
from adarl.policy.foresee import foresee, suited
from adarl.policy.learn import LearnState, PolicyConfig, learn
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import Compact, Step, Theta

N_STATES, N_ACTIONS, DISCOUNT = 3, 2, 0.8
CONFIG = PolicyConfig(
    learner=DoubleDQNConfig(
        hidden=24,
        discount=DISCOUNT,
        learning_rate=5e-3,
        batch=64,
        average_rate=0.05,
        updates=600,
    ),
    environments=16,
    horizon=3,  # an episode that starts anew has not ended: values know nothing of it
    capacity=4000,
    explore=0.5,
    epsilon=0.3,
    evaluate_every=200,
    evaluate_steps=4,
)
KEYS = jr.split(jr.key(0), 2)


@dataclass(frozen=True)
class Table:
    """A decision process written down as tables with the axes (state, action).

    The tables are its factors, so one compiled program learns all probes. States are one-hot. Episodes begin in
    the first state, wide ones in the second.
    """

    state_names: tuple[str, ...] = ("s_0", "s_1", "s_2")
    n_actions: int = N_ACTIONS

    @property
    def defaults(self) -> Mapping[str, float]:
        return {}

    def reset(self, key, factors, wide) -> Array:
        return jax.nn.one_hot(jnp.where(wide, 1, 0), N_STATES)

    def step(self, key, s_tm1, a_tm1, factors) -> Step:
        at = (jnp.argmax(s_tm1), a_tm1)
        follows = jax.nn.one_hot(factors["follows"][at], N_STATES)
        return Step(follows, factors["r"][at], factors["ended"][at])

    def recordable(self, s) -> Array:
        return jnp.bool_(True)


class Probe(NamedTuple):
    """One domain's tables."""

    r: list[list[float]]
    follows: list[list[int]]
    ended: list[list[bool]]


ENDS, GOES_ON = [True, True], [False, False]
BANDIT = Probe([[0.0, 1.0]] * 3, [[0, 0]] * 3, [ENDS] * 3)
OPPOSITE = Probe([[1.0, 0.0]] * 3, [[0, 0]] * 3, [ENDS] * 3)
ENDLESS = Probe([[0.0, 1.0]] * 3, [[0, 0], [1, 1], [2, 2]], [GOES_ON] * 3)
TWO_STEPS = Probe([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [[1, 1]] * 3, [GOES_ON, ENDS, ENDS])
DOORS = Probe([[0.0, 0.0], [0.0, 1.0], [0.25, 0.25]], [[2, 1]] * 3, [GOES_ON, ENDS, ENDS])


def sources(*probes: Probe, imagined: Any = None, elsewhere: Any = None) -> Sources:
    """Two domains."""
    first, second = probes if len(probes) == 2 else probes * 2
    factors = {name: jnp.stack([jnp.asarray(getattr(p, name)) for p in (first, second)]) for name in Probe._fields}
    domain: Functional = Table()
    return Sources(domain, factors, 2, imagined, jnp.float32(1.0), elsewhere)


def told(first: float = -1.0, second: float = 1.0) -> DoubleDQN:
    """The theta_s of both domains; theta_r never differs."""
    return DoubleDQN(CONFIG.learner, Theta(jnp.array([[first], [second]]), jnp.zeros((2, 1))))


def view() -> View:
    kept = Compact(jnp.ones(N_STATES, bool), jnp.array([True]), jnp.array([False]))
    return View.of(kept, jnp.zeros(N_STATES), jnp.ones(N_STATES))


class Learned(NamedTuple):
    chosen: Network
    curve: np.ndarray
    states: list[tuple[LearnState, int]]


def train(where: Sources, keys=KEYS, resumed=None, algorithm: DoubleDQN | None = None) -> Learned:
    states = []
    each = lambda s, updates: states.append((jax.tree.map(jnp.copy, s), updates))  # noqa: E731 (what it was given is used up)
    last = learn(where, algorithm or told(), view(), N_ACTIONS, CONFIG, keys, resumed=resumed, each=each)
    return Learned(jax.vmap(learning.chosen)(last), np.asarray(last.curve), states)


def values(q: Network, state: int, theta_s: float) -> np.ndarray:
    """Q of every seed in the rewards' own units: `shaped` undone, with the best reward one. Axes (seed, action)."""
    x = view()(jnp.eye(N_STATES)[state], Theta(jnp.array([theta_s]), jnp.zeros(1)))
    return (np.asarray(jax.vmap(lambda q: q(x))(q)) + 1.0) / (1 - DISCOUNT)


@pytest.mark.parametrize(
    ("probe", "q"),
    [
        pytest.param(BANDIT, {0: [0, 1]}, id="the reward depends on the action"),
        pytest.param(ENDLESS, {0: [4, 5], 1: [4, 5]}, id="a horizon is no end"),  # 1 / (1 - 0.8) = 5, 0.8 * 5 = 4
        pytest.param(TWO_STEPS, {0: [0.8, 0.8], 1: [1, 1]}, id="the discount"),
        pytest.param(DOORS, {0: [0.2, 0.8], 1: [0, 1], 2: [0.25, 0.25]}, id="an action pays later"),
    ],
)
def test_values_of_probes(probe: Probe, q: dict[int, list[float]]):
    got = train(sources(probe))
    last, _ = got.states[-1]
    for network in (got.chosen, last.learner.q, last.learner.q_average):
        for state, expected in q.items():
            for theta_s in (-1.0, 1.0):
                learned = values(network, state, theta_s)
                np.testing.assert_allclose(learned, [expected] * 2, atol=0.1)
                if expected[0] != expected[1]:
                    assert (learned.argmax(1) == 1).all()


def test_values_of_many_steps_at_once():
    """What is earned on the way counts, discounted, and nothing after an end."""
    algorithm = DoubleDQN(replace(CONFIG.learner, n_step=3), told().theta)
    got = train(sources(TWO_STEPS), algorithm=algorithm)
    np.testing.assert_allclose(values(got.chosen, 0, 1.0), 0.8, atol=0.1)
    np.testing.assert_allclose(values(got.chosen, 1, 1.0), 1.0, atol=0.1)


@pytest.mark.parametrize("probe", [DOORS, ENDLESS])
def test_what_goes_on_is_followed_in_the_ring_by_what_came_next(probe: Probe):
    """A block later. An end cuts it off, and so does the horizon, after which stands another start."""
    states, updates = train(sources(probe)).states[-1]
    ring, block = jax.tree.map(lambda x: np.asarray(x[0]), states.ring), CONFIG.environments
    n_blocks = len(ring.r_t) // block
    kept = np.arange(updates - n_blocks, updates) % n_blocks  # from the oldest block to the newest
    ring = jax.tree.map(lambda x: x.reshape(n_blocks, block, *x.shape[1:])[kept], ring)
    on = ring.goes_on[:-1]
    assert on.any() and (ring.left[:-1][on] > 0).all()
    np.testing.assert_array_equal(ring.x_t[:-1][on], ring.x_tm1[1:][on])
    if probe is ENDLESS:  # all episodes are as old as each other
        np.testing.assert_array_equal(
            ~ring.goes_on.any(1), np.arange(updates - n_blocks + 1, updates + 1) % CONFIG.horizon == 0
        )
    else:
        np.testing.assert_array_equal(ring.goes_on, ring.left > 0)


def test_one_program_serves_a_whole_training():
    """Compiling takes longer than many trainings; a policy that is told nothing has arrays without content."""
    nothing = DoubleDQN(CONFIG.learner, Theta(jnp.zeros((2, 0)), jnp.zeros((2, 0))))
    all_states = View.of(
        Compact(jnp.ones(N_STATES, bool), jnp.zeros(0), jnp.zeros(0)), jnp.zeros(N_STATES), jnp.ones(N_STATES)
    )
    compiled = []
    hear = lambda event, seconds, **of: compiled.append(of["fun_name"]) if "backend_compile" in event else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        learn(sources(BANDIT), nothing, all_states, N_ACTIONS, CONFIG, KEYS)
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)
    assert compiled.count("jit(advance)") == 1


def test_a_council_is_made_of_the_last_networks():
    states = train(sources(BANDIT)).states[-1][0]
    first = jax.tree.map(lambda x: x[0], states)
    n = first.merit.shape[0]
    council = learning.chosen(first, 0.5)
    jax.tree.map(
        np.testing.assert_array_equal, council.networks, jax.tree.map(lambda x: x[n - round(n / 2) :], first.evaluated)
    )
    assert jax.tree.leaves(learning.chosen(first, 1e-9))[0].shape[0] == 1


def test_theta_decides_which_action_pays():
    got = train(sources(BANDIT, OPPOSITE))
    np.testing.assert_allclose(values(got.chosen, 0, -1.0), [[0, 1]] * 2, atol=0.1)
    np.testing.assert_allclose(values(got.chosen, 0, 1.0), [[1, 0]] * 2, atol=0.1)
    np.testing.assert_array_equal(got.curve[:, -1], 1.0)


def test_without_theta_no_policy_solves_both():
    """A theta that is the same everywhere is none, and needs no other compiled program."""
    got = train(sources(BANDIT, OPPOSITE), algorithm=told(0.0, 0.0))
    np.testing.assert_array_equal(got.curve, 0.5)
    np.testing.assert_allclose(values(got.chosen, 0, 0.0), 0.5, atol=0.2)  # an action pays in one domain of two


class Dream(eqx.Module):
    """Imagined domains with any theta_s in [-1, 1]: below zero `BANDIT`, above it `OPPOSITE`."""

    @property
    def outermost(self) -> Theta:
        return Theta(jnp.array([[-1.0], [1.0]]), jnp.zeros((2, 1)))

    def draw_theta(self, key) -> Theta:
        return Theta(jr.uniform(key, (1,), minval=-1.0), jnp.zeros(1))

    def nearer(self, theta, share) -> Theta:
        return jax.tree.map(lambda x: share * x, theta)

    def reset(self, key, theta, wide) -> Array:
        return Table().reset(key, {}, wide)

    def step(self, key, s_tm1, a_tm1, theta) -> Step:
        return Step(s_tm1, ((a_tm1 == 1) == (theta.theta_s[0] < 0)).astype(jnp.float32), jnp.bool_(True))


def test_imagination_teaches_thetas_that_reality_never_showed():
    """Both real domains have theta_s = -1."""
    got = train(sources(BANDIT, imagined=Dream()), algorithm=told(-1.0, -1.0))
    np.testing.assert_allclose(values(got.chosen, 0, -1.0), [[0, 1]] * 2, atol=0.15)
    np.testing.assert_allclose(values(got.chosen, 0, 0.8), [[1, 0]] * 2, atol=0.15)
    last, _ = got.states[-1]
    assert last.ring.r_t.shape == (2, 4000 // 32 * 32)  # real and imagined steps side by side
    assert last.imagined is not None and last.real is not None
    assert (last.imagined.theta.theta_s > 0).any() and (last.learner.told.theta_s == -1).all()


class Mirrored(eqx.Module):
    """Elsewhere the other action would have been paid: where theta_s is above zero."""

    def draw_theta(self, key) -> Theta:
        return Theta(jr.uniform(key, (1,), minval=-1.0), jnp.zeros(1))

    def step(self, s_tm1, a_tm1, here: Step, theta: Theta, there: Theta) -> Step:
        return here._replace(r=jnp.where(there.theta_s[0] < 0, here.r, 1.0 - here.r))


def test_starts_that_are_drawn_once_are_of_their_source_and_kind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources_module, "STARTS", 200)

    class Anywhere(Table):
        """It starts at a number between its factor and its factor plus one; wide starts are negative."""

        def reset(self, key, factors, wide):
            return jnp.where(wide, -1.0, 1.0) * (factors["at"] + jr.uniform(key, (1,)))

    at = {"at": jnp.array([0.0, 10.0])}
    bare = Sources(Anywhere(), at, 2, None, jnp.float32(1.0))
    ready = sources_module.with_starts(bare, jr.key(3))
    assert ready.starts is not None and ready.starts.shape == (2, 2, 200, 1)
    for k in (0, 1):
        for wide in (False, True):
            pick = lambda key, k=k, wide=wide: ready.start(key, jnp.int32(k), jnp.bool_(wide))  # noqa: E731
            drawn = np.asarray(jax.vmap(pick)(jr.split(jr.key(4), 50))) * (-1 if wide else 1)
            assert (drawn >= 10 * k).all() and (drawn <= 10 * k + 1).all() and len(np.unique(drawn)) > 20
            assert set(np.abs(drawn).ravel()) <= set(np.abs(np.asarray(ready.starts[k, int(wide)])).ravel())
    assert bare.start(jr.key(5), jnp.int32(1), jnp.bool_(False)) != ready.start(jr.key(5), jnp.int32(1), jnp.bool_(False))


def test_steps_as_they_would_have_been_elsewhere_teach_thetas_that_reality_never_showed():
    got = train(sources(BANDIT, elsewhere=Mirrored()), algorithm=told(-1.0, -1.0))
    np.testing.assert_allclose(values(got.chosen, 0, -1.0), [[0, 1]] * 2, atol=0.15)
    np.testing.assert_allclose(values(got.chosen, 0, 0.8), [[1, 0]] * 2, atol=0.15)
    last, _ = got.states[-1]
    assert last.ring.r_t.shape == (2, 4000 // 32 * 32) and last.imagined is None
    there = np.asarray(last.ring.x_t[..., -1]).reshape(2, -1, 2, 16)  # blocks of steps as they were, and elsewhere
    assert (there[:, :, 0] == -1).all() and (there[:, :, 1] > 0).any()


@pytest.mark.parametrize(("wander", "expected"), [(0.0, 1.0), (0.02, 0.02)])
def test_an_imagined_domain_becomes_another_with_the_episode_or_by_the_step(wander: float, expected: float):
    """`Dream` ends after every step."""
    where, shown = sources(BANDIT, imagined=Dream()), view()
    config = replace(CONFIG, wander=wander)
    begun = learning.start(where, told(), shown, N_ACTIONS, config, jr.key(0))
    assert begun.imagined is not None

    def move(worlds, key):
        _, new = learning._dream_on(begun.learner.q, worlds, jnp.int32(0), where, shown, config, key)
        return new, (new.theta.theta_s != worlds.theta.theta_s).mean()

    _, changed = jax.lax.scan(move, begun.imagined, jr.split(jr.key(1), 1000))
    np.testing.assert_allclose(changed.mean(), expected, rtol=0.2)


@pytest.mark.parametrize(("seeds", "expected"), [(1, 1), (2, 2), (3, 1), (30, 2)])
def test_seeds_are_shared_out_evenly(monkeypatch: pytest.MonkeyPatch, seeds: int, expected: int):
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    monkeypatch.setattr(jax, "devices", lambda: list(np.asarray(jax.local_devices() * 2)))
    assert len(learning.shared_out(seeds).mesh.devices) == expected


@functools.cache
def doors() -> Learned:
    return train(sources(DOORS))


def test_same_key_equal_other_key_different():
    first, again = doors(), train(sources(DOORS))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    weight = np.asarray(first.chosen.layers[0].weight)
    assert (weight[0] != weight[1]).any()
    other = train(sources(DOORS), keys=jr.split(jr.key(1), 2))
    assert (other.chosen.layers[0].weight != weight).any()


def test_seeds_together_equal_seeds_alone():
    together = doors()
    alone = train(sources(DOORS), keys=KEYS[1:])
    close = lambda x, y: np.testing.assert_allclose(x[1:], y, rtol=1e-3, atol=1e-3)  # noqa: E731
    jax.tree.map(close, together.chosen, alone.chosen)
    close(together.curve, alone.curve)


@pytest.mark.parametrize("stopped", [0, 1, 2])
def test_what_each_was_given_continues_the_work(stopped: int):
    whole = doors()
    rest = train(sources(DOORS), resumed=whole.states[stopped])
    jax.tree.map(np.testing.assert_array_equal, (whole.chosen, whole.curve), (rest.chosen, rest.curve))
    assert len(rest.states) == 2 - stopped
    for ours, theirs in zip(whole.states[stopped + 1 :], rest.states, strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_each_is_called_after_every_evaluation():
    assert [updates for _, updates in doors().states] == [200, 400, 600]
    assert doors().curve.shape == (2, 3)


def test_the_chosen_network_is_the_last_of_the_best():
    """DOORS pays 1 from both starts at best. Where the last evaluation is among the best, its average was chosen."""
    got = doors()
    last, _ = got.states[-1]
    np.testing.assert_array_equal(got.curve[:, -1], 1.0)
    jax.tree.map(np.testing.assert_array_equal, got.chosen, last.learner.q_average)


def test_score_by_hand():
    """From the first state 1 a step, four times; wide starts earn 10 once and end. Half of the starts are wide."""
    probe = Probe([[1.0, 1.0], [10.0, 10.0], [99.0, 99.0]], [[0, 0], [2, 2], [2, 2]], [GOES_ON, ENDS, GOES_ON])
    q = Network((view().size, 4, N_ACTIONS), "relu", key=jr.key(0))
    got = eqx.filter_jit(learning.score_on_sources)(q, told().theta, sources(probe), view(), CONFIG, jr.key(1))
    np.testing.assert_allclose(got, (4 + 10) / 2)


def test_epsilon_by_hand():
    """From 1 to 0.3 over half of the 600 updates."""
    steps = jnp.array([0, 150, 300, 599])
    got = jax.jit(jax.vmap(lambda step: learning.epsilon(step, CONFIG)))(steps)
    np.testing.assert_allclose(got, [1.0, 0.65, 0.3, 0.3], rtol=1e-6)


@pytest.mark.parametrize(("environments", "expected"), [(4, [0, 0, 1, 1]), (5, [0, 0, 0, 1, 1, 1]), (1, [0, 1])])
def test_every_source_has_as_many_environments(environments: int, expected: list[int]):
    got = learning.assign(sources(BANDIT), replace(CONFIG, environments=environments))
    np.testing.assert_array_equal(got, expected)


def test_view_by_hand():
    """The second of two states, (5 - 1) / 2, and the third theta_s and the first theta_r as they are."""
    kept = Compact(jnp.array([False, True]), jnp.array([False, False, True]), jnp.array([True]))
    seen = View.of(kept, jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0]))
    x = seen(jnp.array([4.0, 5.0]), Theta(jnp.array([7.0, 8.0, 9.0]), jnp.array([-1.0])))
    assert seen.size == 3
    np.testing.assert_array_equal(x, [2.0, 9.0, -1.0])


def constant(first: float, second: float) -> Network:
    """Q that sees nothing."""
    n = view().size
    q = Network((n, N_ACTIONS), "relu", key=jr.key(0))
    new = (jnp.zeros((N_ACTIONS, n)), jnp.array([first, second]))
    return eqx.tree_at(lambda q: (q.layers[0].weight, q.layers[0].bias), q, new)


def test_the_latest_of_the_best_networks_is_chosen():
    begun = learning.start(sources(BANDIT), told(), view(), N_ACTIONS, CONFIG, jr.key(0))
    for at, value in enumerate([1.0, 3.0, 3.0]):
        network = jax.tree.map(lambda x, at=at: jnp.full_like(x, at), begun.learner.q)
        begun = learning.note(begun, network, jnp.float32(value), jnp.float32(-value), jnp.int32(at))
    np.testing.assert_array_equal(begun.merit, [1, 3, 3])
    np.testing.assert_array_equal(begun.curve, [-1, -3, -3])
    assert all((np.asarray(leaf) == 2).all() for leaf in jax.tree.leaves(learning.chosen(begun)))


@pytest.mark.parametrize(("theta_s", "expected"), [(-0.5, 1), (0.5, 0)])
def test_the_network_that_suits_a_theta_is_found_by_imagination(theta_s: float, expected: int):
    """Of `Dream`'s levers the second pays below zero; the first network, which pulls it, scored worst in training."""
    networks = jax.tree.map(lambda *x: jnp.stack(x), constant(0.0, 1.0), constant(1.0, 0.0), constant(1.0, 0.0))
    theta = Theta(jnp.array([theta_s]), jnp.zeros(1))
    curve = jnp.array([0.1, 0.5, 0.9])
    world: Any = Dream()
    returns = foresee(world, networks, view(), theta, theta, jr.key(0))
    np.testing.assert_array_equal(returns, [1, 0, 0] if expected else [0, 1, 1])
    q, told = suited(world, networks, curve, view(), theta, jr.key(0))
    np.testing.assert_array_equal(told.theta_s, theta.theta_s)
    assert int(jnp.argmax(q(jnp.zeros(view().size)))) == expected


def test_a_network_may_be_told_a_kinder_theta():
    """At -0.5 the second lever pays; this network pulls it only where it is told more than -0.45."""
    n = view().size
    weight = jnp.zeros((N_ACTIONS, n)).at[1, n - 1].set(1.0)  # theta_s stands last
    q = eqx.tree_at(lambda q: (q.layers[0].weight, q.layers[0].bias), constant(0.0, 0.0), (weight, jnp.array([0.0, 0.45])))
    theta = Theta(jnp.array([-0.5]), jnp.zeros(1))
    world: Any = Dream()
    one = jax.tree.map(lambda x: x[None], q)
    _, told = suited(world, one, jnp.array([0.0]), view(), theta, jr.key(0))
    np.testing.assert_allclose(told.theta_s, [-0.4])


def test_of_networks_alike_the_one_that_scored_best_is_taken():
    marked = [eqx.tree_at(lambda q: q.layers[0].bias, constant(1.0, 0.0), jnp.array([float(i + 1), 0.0])) for i in range(3)]
    networks = jax.tree.map(lambda *x: jnp.stack(x), *marked)
    theta = Theta(jnp.array([0.5]), jnp.zeros(1))
    world: Any = Dream()
    q, _ = suited(world, networks, jnp.array([0.1, 0.7, 0.4]), view(), theta, jr.key(0))
    assert float(q.layers[0].bias[0]) == 2.0
