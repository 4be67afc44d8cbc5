"""The loop: who practises where, what is kept and chosen, and that it can be continued."""

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from probes import (
    BANDIT,
    CONFIG,
    DOORS,
    ENDLESS,
    ENDS,
    GOES_ON,
    KEYS,
    N_ACTIONS,
    N_STATES,
    Dream,
    Learned,
    Probe,
    Table,
    sources,
    told,
    train,
    view,
)

from adarl.network import Network
from adarl.policy import learn as learning
from adarl.policy import sources as sources_module
from adarl.policy.double_dqn import DoubleDQN
from adarl.policy.learn import learn
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import Compact, Theta


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


def test_the_latest_of_the_best_networks_is_chosen():
    begun = learning.start(sources(BANDIT), told(), view(), N_ACTIONS, CONFIG, jr.key(0))
    for at, value in enumerate([1.0, 3.0, 3.0]):
        network = jax.tree.map(lambda x, at=at: jnp.full_like(x, at), begun.learner.q)
        begun = learning.note(begun, network, jnp.float32(value), jnp.float32(-value), jnp.int32(at))
    np.testing.assert_array_equal(begun.merit, [1, 3, 3])
    np.testing.assert_array_equal(begun.curve, [-1, -3, -3])
    assert all((np.asarray(leaf) == 2).all() for leaf in jax.tree.leaves(learning.chosen(begun)))
