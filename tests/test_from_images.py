"""The whole path where only images are seen, on a small world: what each method does, the agent, and the report."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from dot import Dot

import adarl
from adarl import Agent, Config, Family, experiment, stages
from adarl.agent import model_like
from adarl.collect import CollectConfig
from adarl.config import resolve
from adarl.experiment import Result
from adarl.model.plan import MissVAEConfig
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
from adarl.progress import Progress

FAMILY = Family(
    "dot",
    Dot(),
    ("noise",),
    sources=({"noise": 0.05}, {"noise": 0.2}, {"noise": 0.5}),
    targets={"in": {"noise": 0.3}, "out": {"noise": 0.8}},
    discount=0.9,
)
CONFIG = Config(
    seeds=2,
    samples=("3",),
    episodes=2,
    steps=20,
    collect=CollectConfig(trials=40, steps=10),
    vae=MissVAEConfig(
        latents=3, features=16, memory=8, hidden=8, frames=3, open_steps=100, search_steps=0, binary_steps=100, batch=9
    ),
    policy=PolicyConfig(
        DoubleDQNConfig(hidden=8, updates=60, batch=16), environments=6, capacity=300, evaluate_every=10, evaluate_steps=10
    ),
)


class Seen(gym.Env):
    """The same world as a Gymnasium environment."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (8, 8, 1), np.float32)
    action_space: Any = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = np.float32(0.0)
        return self._look(), {}

    def step(self, action):
        answer = Dot().step(None, jnp.asarray([self.s]), action, {})
        self.s = np.float32(answer.s[0])
        return self._look(), 1.0, bool(answer.ended), False, {}

    def _look(self):
        key = jax.random.key(int(self.np_random.integers(2**31)))
        return np.asarray(Dot().observe(key, jnp.asarray([self.s]), {"noise": 0.3}), np.float32)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return experiment.run(FAMILY, CONFIG, tmp_path_factory.mktemp("runs") / "dot")


def test_a_run_from_images_is_scored_and_told(result: Result):
    scores = result.summary["scores"]
    assert len(scores) == 2 and all(min(row["scores"]) >= 1 for row in scores)
    assert result.summary["located"] and "theta_o_1" in result.summary["theta_min"]
    page = result.report.read_text()
    assert "What it sees" in page and "foretold" in page


@pytest.mark.parametrize("name", ["oracle", "mql"])
def test_methods_without_theta_act_on_what_an_eye_without_theta_believes(name: str):
    """That they run: whether they learn is shown where states are seen, with the same code."""
    known = stages.at_targets(FAMILY) if name == "oracle" else FAMILY
    plan = dataclasses.replace(CONFIG.vae, theta_s=0, theta_r=0, theta_o=1 if name == "oracle" else 0)
    model = model_like(*stages.sizes_of(known, plan), plan, stages.image_of(known))
    quiet, config = Progress(quiet=True), resolve(FAMILY, CONFIG)
    film = stages.film_of(known, known.sources, stages.record(known, known.sources, config, jr.key(0), quiet), jr.key(1))
    method = stages.method_of(name, stages.lesson_of(known, film, config, model), None, config)
    trained = method.train(jr.split(jr.key(2), 2), stages.Unkept(), lambda updates: None)
    policy = stages.adapt(FAMILY, method, trained, "out", "3", config, jr.key(3), jr.key(2))
    shapes = lambda tree: [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]  # noqa: E731
    assert shapes(policy) == shapes(method.policy_like(2)) and shapes(trained) == shapes(method.trained_like(2))
    assert (policy.seen_as is None) == (name != "oracle")
    assert min(stages.evaluate(method, policy, "out", "3", config, jr.key(4))["scores"]) >= 1


def test_what_one_method_found_of_a_target_another_need_not_find_again(monkeypatch: pytest.MonkeyPatch):
    """They share the model and the samples. How they act is their own."""
    plan = dataclasses.replace(CONFIG.vae, theta_s=1, theta_r=0, theta_o=1)
    model = model_like(*stages.sizes_of(FAMILY, plan), plan, stages.image_of(FAMILY))
    quiet, config = Progress(quiet=True), resolve(FAMILY, CONFIG)
    episodes = stages.record(FAMILY, FAMILY.sources, config, jr.key(0), quiet)
    lesson = stages.lesson_of(FAMILY, stages.film_of(FAMILY, FAMILY.sources, episodes, jr.key(1)), config, model)
    method: Any = stages.method_of("adarl_plus", lesson, model, config)
    trained = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), method.trained_like(2))
    at = (FAMILY, method, trained, "out", "3", config, jr.key(3), jr.key(2))
    found = stages.adapt(*at)
    monkeypatch.setattr(stages, "target_samples", None)  # nobody looks again
    again = stages.adapt(*at, found.known)
    assert all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(again), strict=True))


def test_a_second_call_does_nothing_anew(result: Result):
    stamps = {path.name: path.stat().st_mtime_ns for path in result.directory.glob("*.manifest.json")}
    again = experiment.run(FAMILY, CONFIG, result.directory)
    assert stamps == {path.name: path.stat().st_mtime_ns for path in result.directory.glob("*.manifest.json")}
    assert again.summary["scores"] == result.summary["scores"]


def test_an_agent_keeps_a_belief_and_survives_being_saved(result: Result, tmp_path: Path):
    result.agent.save(tmp_path / "agent.npz")
    loaded = adarl.load(tmp_path / "agent.npz")
    for agent in (result.agent, loaded):
        here = agent.adapt(Seen(), samples=30)
        assert np.isfinite(np.asarray(here.theta.theta_o)).all()
        assert _acts(agent) == _acts(result.agent)


@pytest.mark.parametrize(("shown", "word"), [(lambda o: 127.5 * (o + 1), "floats from"), (lambda o: 0 * o, "Every pixel")])
def test_an_agent_says_what_is_wrong_with_images(result: Result, shown, word: str):
    env = gym.wrappers.TransformObservation(Seen(), shown, Seen.observation_space)
    with pytest.raises(adarl.AdarlError, match=word):
        result.agent.adapt(env, samples=5)


def _acts(agent: Agent) -> list[int]:
    """In an episode, forgotten, and once more."""
    env, here = Seen(), agent.adapt(Seen(), samples=30)
    found = []
    for _ in range(2):
        o, _ = env.reset(seed=3)
        here.reset()
        for _ in range(4):
            found.append(here.act(o))
            o, *_ = env.step(found[-1])
    assert found[:4] == found[4:]
    return found
