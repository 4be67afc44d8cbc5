"""The whole path where only images are seen, on a small world: what each method does, the agent, and the report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dot import CONFIG, FAMILY, Dot

import adarl
from adarl import Agent, again, experiment, stages
from adarl.again import by_policy
from adarl.experiment import Result
from adarl.run.directory import RunDirectory
from adarl.stages import train

AGAIN = replace(
    CONFIG,
    methods=("adarl_plus", "adarl"),
    collect=replace(CONFIG.collect, again=1),
    vae=replace(CONFIG.vae, theta_s=0, again_steps=100, hears="dynamics"),
)
"""A policy records too; theta_o alone may differ, and the encoder is not told of it."""
TRAINED: list[str] = []
"""The methods that were trained by the run below."""


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
    """What is recorded again is so by chance; to learn a policy for it is slow, and tested where policies are."""
    by_chance = lambda method, config, _, key, *rest: by_policy(method, lambda x: jnp.zeros(2), config, key, 1.0)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(again, "recorded", by_chance)
        patch.setattr(stages, "train", lambda name, *rest: (TRAINED.append(name), train(name, *rest))[1])
        return experiment.run(FAMILY, AGAIN, tmp_path_factory.mktemp("runs") / "dot")


def test_a_run_from_images_is_scored_and_told(result: Result):
    scores = result.summary["scores"]
    assert len(scores) == 4 and all(min(row["scores"]) >= 1 for row in scores)
    assert result.summary["located"] and "theta_o_1" in result.summary["theta_min"]
    page = result.report.read_text()
    assert "What it sees" in page and "foretold" in page


def test_adarl_plus_is_adarl_where_no_theta_matters(result: Result):
    """Of noise a policy is told nothing, so the second is not learned or played anew."""
    assert TRAINED == ["adarl_plus"]
    of = lambda name: [row["scores"] for row in result.summary["scores"] if row["method"] == name]  # noqa: E731
    assert of("adarl") == of("adarl_plus") and len(of("adarl")) == 2
    curves = result.summary["curves"]
    assert curves["adarl"] == curves["adarl_plus"]


def test_a_model_goes_on_from_the_one_of_random_actions(result: Result):
    stages = {path.name.removesuffix(".manifest.json") for path in result.directory.glob("*.manifest.json")}
    assert {"collect", "model", "model_1"} <= stages and "collect_1" not in stages
    after = result.agent.model
    before = RunDirectory.open_existing(result.directory).load("model", after)
    jax.tree.map(np.testing.assert_array_equal, (before.masks, before.masks_prob), (after.masks, after.masks_prob))
    of = lambda model: model.eye.encoder.onwards.weight  # noqa: E731
    assert not np.array_equal(of(before), of(after))


def test_a_second_call_does_nothing_anew(result: Result):
    stamps = {path.name: path.stat().st_mtime_ns for path in result.directory.glob("*.manifest.json")}
    second = experiment.run(FAMILY, AGAIN, result.directory)
    assert stamps == {path.name: path.stat().st_mtime_ns for path in result.directory.glob("*.manifest.json")}
    assert second.summary["scores"] == result.summary["scores"]


def test_an_agent_keeps_a_belief_and_survives_being_saved(result: Result, tmp_path: Path):
    result.agent.save(tmp_path / "agent.npz")
    loaded = adarl.load(tmp_path / "agent.npz")
    for agent in (result.agent, loaded):
        here = agent.adapt(Seen(), samples=30)
        assert np.isfinite(np.asarray(here.theta.theta_o)).all()
        assert agent.model.eye is not None and agent.model.eye.hears == "dynamics"
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
