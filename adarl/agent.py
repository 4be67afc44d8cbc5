"""An agent: model, minimal representation and policy behind adapt / act / save / load.

In: what the earlier stages learned. Out: something that acts in an environment it has never seen, after a few samples.
"""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from adarl.adapt import images
from adarl.adapt.states import Estimate, estimate
from adarl.domains.camera import check_images
from adarl.model import fit
from adarl.model.encoder import Memory, joined
from adarl.model.eye import Photos, in_units
from adarl.model.mixture import mean_of
from adarl.model.plan import MissVAEConfig, ModelConfig
from adarl.model.world import WorldModel
from adarl.network import Council, Network
from adarl.policy.foresee import suited
from adarl.policy.imagine import Imagined
from adarl.policy.view import View
from adarl.run import checkpoint
from adarl.types import AdarlError, Episodes, Theta, Transition


class Agent(eqx.Module):
    """A policy for a whole family: pi(a | s_min, theta_min)."""

    model: WorldModel
    networks: Network
    """Those that it may act by, along a first axis."""
    score: Float[Array, " network"]
    """Their merit in training."""
    starts: Float[Array, "start state"]
    """Where episodes usually begin."""
    view: View
    together: bool = eqx.field(static=True, default=False)
    """Whether all networks act, as a council."""

    @property
    def q(self) -> Network | Council:
        """The network that did best in training, or all."""
        return Council(self.networks) if self.together else jax.tree.map(lambda x: x[jnp.argmax(self.score)], self.networks)

    def suited(self, theta: Theta) -> tuple[Network | Council, Theta]:
        """The network that does best at this theta, by the model, and what to tell it; or all."""
        if self.together or len(self.score) == 1:
            return self.q, theta
        world = Imagined(self.model, self.starts, self.starts, None, None, 0.0)
        return _suited(world, self.networks, self.score, self.view, theta, jr.key(0))

    def adapt(self, env: gym.Env, samples: int = 50, seed: int = 0) -> "Adapted":
        """Estimate theta of this environment from `samples` random steps. The policy is not trained again."""
        if samples < 1:
            raise AdarlError(f"{samples} samples were asked for; at least 1 is needed.")
        self._check(env)
        trials = _wander(env, samples, seed, self.model.n_actions)
        if self.model.eye is None:
            rows = Transition(*(jnp.asarray(np.concatenate(column)) for column in zip(*map(_steps, trials), strict=True)))
            known = estimate(self.model, rows, jnp.ones(samples, bool))
        else:
            check_images(np.stack([o for trial in trials for o in trial.o]), self.shape, "of this environment")
            known = images.adapt(self.model, _photos(trials))
        return Adapted(self, known, *self.suited(known.theta))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an observation."""
        return self.view.mean.shape if self.model.eye is None else self.model.eye.encoder.look.image

    def _check(self, env: gym.Env) -> None:
        shape = self.shape
        if env.observation_space.shape != shape:
            what = f"vectors of {shape[0]} numbers" if self.model.eye is None else f"images of the shape {shape}"
            raise AdarlError(f"The environment observes {env.observation_space}; the agent was trained on {what}.")
        if getattr(env.action_space, "n", None) != self.model.n_actions:
            raise AdarlError(
                f"The environment's actions are {env.action_space}; the agent was trained on {self.model.n_actions}."
            )

    def save(self, path: str | Path) -> None:
        """One file, arrays and JSON only: a downloaded agent cannot run code."""
        checkpoint.save(path, self, agent=self._sizes())

    def _sizes(self) -> dict[str, Any]:
        head, theta, eye = self.model.heads.transition, self.model.theta, self.model.eye
        sizes = {
            "n_state": self.model.scale.s_mean.shape[0],
            "n_actions": self.model.n_actions,
            "n_domains": theta.theta_s.shape[0],
            "theta_s": theta.theta_s.shape[1],
            "theta_r": theta.theta_r.shape[1],
            "hidden": head.slope.in_features,
            "mixture": head.linear.out_features,
            "floor": head.floor,
            "reward_floor": self.model.heads.reward.floor,
            "policy_hidden": self.networks.layers[0].out_features,
            "networks": len(self.score),
            "together": self.together,
            "starts": len(self.starts),
            "view": [list(self.view.s_index), list(self.view.theta_s_index), list(self.view.theta_r_index)],
        }
        if eye is None:
            return sizes
        widths = {"features": eye.encoder.look.dense.out_features, "memory": eye.encoder.lstm.hidden_size}
        seen = {"theta_o": theta.theta_o.shape[1], "image": list(eye.encoder.look.image), "hears": eye.hears}
        return sizes | widths | seen


def load(path: str | Path) -> Agent:
    """The agent in a file that `Agent.save` wrote."""
    sizes: Any = checkpoint.read_meta(path).get("agent")
    if not sizes:
        raise AdarlError(f"{path} holds no agent; a file written by Agent.save is expected.")

    def like() -> Agent:
        image = tuple(sizes["image"]) if "image" in sizes else None
        model = fit.blank(sizes["n_state"], sizes["n_actions"], sizes["n_domains"], _model_config(sizes), image)
        indices = [tuple(index) for index in sizes["view"]]
        view = View(model.scale.s_mean, model.scale.s_scale, *indices)
        hidden = sizes["policy_hidden"]
        one = lambda key: Network((view.size, hidden, hidden, sizes["n_actions"]), "relu", key=key)  # noqa: E731
        networks = eqx.filter_vmap(one)(jr.split(jr.key(0), sizes["networks"]))
        starts = jnp.zeros((sizes["starts"], sizes["n_state"]))
        return Agent(model, networks, jnp.zeros(sizes["networks"]), starts, view, sizes.get("together", False))

    return checkpoint.load(path, eqx.filter_eval_shape(like))


def _model_config(sizes: dict[str, Any]) -> ModelConfig:
    names = ["theta_s", "theta_r", "hidden", "mixture", "floor", "reward_floor"]
    if "image" not in sizes:
        return ModelConfig(**{name: sizes[name] for name in names})
    names += ["theta_o", "features", "memory"]
    rest = {"latents": sizes["n_state"], "hears": sizes.get("hears", "theta")}
    return MissVAEConfig(**{name: sizes[name] for name in names}, **rest)


class Adapted:
    """An agent in one environment: acts on observations, knows its theta and how sure it is of it."""

    def __init__(self, agent: Agent, known: Estimate, q: Network | Council, told: Theta):
        self.agent = agent
        self.q = q
        self.told = told
        self.theta: Theta = known.theta
        self.sd: Theta = known.sd

        self._belief: Belief | None = None

    def act(self, observation: np.ndarray, reward: float | None = None) -> int:
        """The greedy action. From images a belief is kept, which also reads the last `reward`: the usual one unless told."""
        model, view = self.agent.model, self.agent.view
        if np.shape(observation) != self.agent.shape:
            raise AdarlError(f"The observation has the shape {np.shape(observation)}; {self.agent.shape} is expected.")
        if model.eye is None:
            return int(_greedy(self.q, view, jnp.asarray(observation, jnp.float32), self.told))
        r = float(model.scale.r_mean) if reward is None else float(reward)
        s, memory = _looked(model, self._belief, jnp.asarray(observation), jnp.float32(r), self.theta)
        action = int(_greedy(self.q, view, s, self.told))
        self._belief = Belief(memory, jnp.int32(action))
        return action

    def reset(self) -> None:
        """Between episodes: what was believed is forgotten."""
        self._belief = None


class Belief(NamedTuple):
    """What is carried from one image to the next."""

    memory: Memory
    action: Array


@eqx.filter_jit
def _looked(model: WorldModel, belief: Belief | None, o: Array, r: Array, theta: Theta) -> tuple[Array, Memory]:
    """What is believed after one more image."""
    assert model.eye is not None
    encoder = model.eye.encoder
    memory = encoder.blank if belief is None else belief.memory
    last = encoder.before(jnp.int32(0) if belief is None else belief.action, (r - model.scale.r_mean) / model.scale.r_scale)
    last = jnp.zeros_like(last) if belief is None else last
    memory, q = model.eye.update(memory, in_units(o), last, joined(model.raw(theta)), model.masks)
    return mean_of(q), memory


_suited = eqx.filter_jit(suited)


@eqx.filter_jit
def _greedy(q: Network | Council, view: View, s, theta: Theta):
    return jnp.argmax(q(view(s, theta)))


class Trial(NamedTuple):
    """One episode of random actions."""

    o: list[np.ndarray]
    """One more than there are steps."""
    a: list[int]
    r: list[float]
    ended: list[bool]


def _wander(env: gym.Env, samples: int, seed: int, n_actions: int) -> list[Trial]:
    """Random steps, episode after episode."""
    rng = np.random.default_rng(seed)
    trials = [Trial([env.reset(seed=seed)[0]], [], [], [])]
    for n in range(samples):
        now, a = trials[-1], int(rng.integers(n_actions))
        after, r, ended, truncated, _ = env.step(a)
        if not (np.isfinite(after).all() and np.isfinite(float(r))):
            raise AdarlError(f"The environment answered {after} with reward {r}; finite numbers are expected.")
        now.o.append(after)
        now.a.append(a)
        now.r.append(float(r))
        now.ended.append(bool(ended))
        if (ended or truncated) and n + 1 < samples:
            trials.append(Trial([env.reset()[0]], [], [], []))
    return trials


def _steps(trial: Trial) -> tuple[np.ndarray, ...]:
    """The columns of a `Transition`."""
    o, r = np.asarray(trial.o, np.float32), np.asarray(trial.r, np.float32)
    return o[:-1], np.asarray(trial.a), r, o[1:], np.asarray(trial.ended)


def _photos(trials: list[Trial]) -> Photos:
    """Trials of one domain, the shorter ones filled up with what never happened."""
    n = max(len(trial.a) for trial in trials)
    filled = lambda part, size: np.stack([*part, *[np.zeros_like(part[-1])] * (size - len(part))])  # noqa: E731
    stacked = lambda parts, size: jnp.asarray(np.stack([filled(part, size) for part in parts]))[None]  # noqa: E731
    a, r, ended = (stacked([np.asarray(getattr(t, name)) for t in trials], n) for name in ("a", "r", "ended"))
    valid = jnp.asarray(np.stack([np.arange(n) < len(t.a) for t in trials]))[None]
    states = jnp.zeros((1, len(trials), n + 1, 0))
    return Photos(Episodes(states, a, r.astype(jnp.float32), ended, valid), stacked([t.o for t in trials], n + 1))
