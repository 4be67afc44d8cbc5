"""The whole path on an environment nobody here wrote, and what an agent can do afterwards."""

import dataclasses
from pathlib import Path

import dot
import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import adarl
from adarl import AdarlError, Agent, Config, Family, stages
from adarl.again import by_policy, record_again
from adarl.collect import CollectConfig
from adarl.config import n_samples, resolve
from adarl.experiment import described
from adarl.methods.adarl import AdaRL, sources_of
from adarl.methods.cavia import CaviaConfig
from adarl.model import fit
from adarl.model.plan import MissVAEConfig, ModelConfig
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
from adarl.progress import Progress

TINY = Config(
    seeds=1,
    collect=CollectConfig(trials=20),
    model=ModelConfig(hidden=16, open_steps=500, search_steps=500, binary_steps=500),
    policy=PolicyConfig(
        DoubleDQNConfig(hidden=16, updates=40), environments=4, evaluate_every=20, evaluate_steps=20, capacity=200
    ),
)


def make(gravity: float) -> gym.Env:
    env = gym.make("CartPole-v1")
    env.unwrapped.gravity = gravity  # pyright: ignore[reportAttributeAccessIssue]
    return env


@pytest.fixture(scope="module")
def own() -> Family:
    return Family.from_gymnasium(make, "gravity", sources=[5.0, 40.0], targets={"in": 20.0})


@pytest.fixture(scope="module")
def agent(own: Family) -> Agent:
    return adarl.fit(own, seed=0, config=TINY)


def test_an_agent_of_ones_own_environment_adapts_and_acts(agent: Agent):
    env = make(20.0)
    here = agent.adapt(env, samples=30)
    assert np.isfinite(np.asarray(here.theta.theta_s)).all()
    observation, _ = env.reset(seed=1)
    assert here.act(observation) in (0, 1)
    here.reset()


def test_what_a_policy_recorded_stands_beside_what_chance_did(own: Family):
    config = dataclasses.replace(TINY, collect=CollectConfig(trials=3, steps=12, again=1))
    quiet = Progress(quiet=True)
    first = stages.record(own, own.sources, config, jr.key(0), quiet)
    both = record_again(own, first, config, jr.key(1), stages.Unkept(), quiet)
    assert both.a.shape == (2, 6, 12) == stages.episodes_like(own, config, 2).a.shape
    np.testing.assert_array_equal(both.s[:, :3], first.s)
    np.testing.assert_array_equal(both.a, record_again(own, first, config, jr.key(1), stages.Unkept(), quiet).a)


def test_a_policy_records_hidden_states_of_a_simulator_that_is_seen():
    config = resolve(dot.FAMILY, dot.CONFIG)
    plan = stages.sized(config.vae, dot.FAMILY, None)
    model = fit.blank(*stages.sizes_of(dot.FAMILY, plan), plan, stages.image_of(dot.FAMILY))
    film = stages.film_of(dot.FAMILY, dot.FAMILY.sources, stages.episodes_like(dot.FAMILY, config), jr.key(0))
    method = AdaRL(stages.lesson_of(dot.FAMILY, film, config, model), model)
    always_right = lambda x: jnp.array([0.0, 1.0])  # noqa: E731
    found = by_policy(method, always_right, config, jr.key(1))
    assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, stages.episodes_like(dot.FAMILY, config))
    moved, pushed = found.s[:, :, 1:, 0] - found.s[:, :, :-1, 0], 0.3 * (2 * found.a - 1)
    np.testing.assert_allclose(moved[found.valid], pushed[found.valid], atol=1e-5)
    assert 0.8 < float(found.a[found.valid].mean()) < 0.9  # all but half of those that are guesses


def test_theta_of_a_target_lies_between_the_sources(agent: Agent):
    thetas = [float(agent.adapt(make(g), samples=200, seed=3).theta.theta_s[0]) for g in (5.0, 20.0, 40.0)]
    assert thetas == sorted(thetas) or thetas == sorted(thetas, reverse=True)


def test_saved_agents_come_back(agent: Agent, tmp_path: Path):
    agent.save(tmp_path / "agent.npz")
    again = adarl.load(tmp_path / "agent.npz")
    first, second = agent.adapt(make(20.0)), again.adapt(make(20.0))
    assert np.array_equal(first.theta.theta_s, second.theta.theta_s)
    states = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert [first.act(s) for s in states] == [second.act(s) for s in states]


def test_a_run_on_the_host_reports(own: Family, tmp_path: Path):
    config = dataclasses.replace(TINY, samples=("5steps",), episodes=1, steps=20, methods=("adarl",))
    result = adarl.run(own, config, tmp_path / "run")
    assert result.report.exists() and len(result.summary["scores"]) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda agent: agent.adapt(make(9.8), samples=0), "0 samples"),
        (lambda agent: agent.adapt(gym.make("MountainCar-v0")), "trained on vectors of 4 numbers"),
        (lambda agent: agent.adapt(make(9.8)).act(np.zeros(3)), "shape"),
    ],
)
def test_agents_tell_what_is_wrong(agent: Agent, call, sentence: str):
    with pytest.raises(AdarlError, match=sentence):
        call(agent)


@pytest.mark.parametrize("samples", ["0", "steps", "-3", "many"])
def test_samples_must_be_a_positive_number(samples: str):
    with pytest.raises(AdarlError, match="a positive number"):
        n_samples(samples)


@pytest.mark.parametrize("share", [-0.1, 2.0])
def test_a_council_is_a_share_of_the_networks(own: Family, share: float):
    crowd = dataclasses.replace(TINY, policy=dataclasses.replace(TINY.policy, council=share))
    with pytest.raises(AdarlError, match=rf"policy\.council is {share}; a share of the networks"):
        resolve(own, crowd)


def test_what_an_encoder_hears_is_one_of_two_things():
    with pytest.raises(AdarlError, match=r"Unknown vae\.hears 'dynamic'. Did you mean 'dynamics'"):
        resolve(adarl.family("cartpole-noise"), Config(vae=MissVAEConfig(hears="dynamic")))  # pyright: ignore


def test_updates_are_a_multiple_of_evaluations(own: Family):
    uneven = dataclasses.replace(TINY, policy=dataclasses.replace(TINY.policy, evaluate_every=30))
    with pytest.raises(AdarlError, match="a multiple of evaluate_every"):
        resolve(own, uneven)


def test_a_discount_of_zero_is_the_familys(own: Family):
    assert resolve(own, TINY).policy.learner.discount == own.discount == 0.99
    assert resolve(adarl.family("cartpole-target"), TINY).policy.learner.discount == 0.97
    given = dataclasses.replace(TINY, policy=PolicyConfig(DoubleDQNConfig(discount=0.5, updates=1000)))
    assert resolve(own, given).policy.learner.discount == 0.5


def test_imagination_of_a_host_starts_wherever_it_was_seen(own: Family, agent: Agent):
    episodes = stages.record(own, own.sources, TINY, jr.key(0), Progress(quiet=True))
    sources = sources_of(stages.lesson_of(own, episodes, TINY), agent.model, imagined=True)
    assert sources.imagined is not None and sources.domain is None
    seen = np.asarray(episodes.s[:, :, :-1])[np.asarray(episodes.valid)]
    np.testing.assert_array_equal(sources.imagined.wide, seen)
    np.testing.assert_array_equal(sources.imagined.narrow, np.asarray(episodes.s[:, :, 0]).reshape(-1, 4))


def test_settings_of_methods_that_are_not_run_do_not_count(own: Family):
    one, other = Config(), Config(cavia=CaviaConfig(rate=0.5))
    assert described(own, one) == described(own, other)
    one, other = (dataclasses.replace(config, methods=("cavia",)) for config in (one, other))
    assert described(own, one) != described(own, other)
