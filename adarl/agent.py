"""An agent: model, minimal representation and policy behind adapt / act / save / load.

In: what the earlier stages learned. Out: something that acts in an environment it has never seen, after a few samples.
"""

from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from adarl.adapt.states import Estimate, estimate
from adarl.model import fit
from adarl.model.plan import ModelConfig
from adarl.model.world import WorldModel
from adarl.network import Network
from adarl.policy.foresee import suited
from adarl.policy.imagine import Imagined
from adarl.policy.view import View
from adarl.run import checkpoint
from adarl.types import AdarlError, Theta, Transition


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

    @property
    def q(self) -> Network:
        """The network that did best in training."""
        return jax.tree.map(lambda x: x[jnp.argmax(self.score)], self.networks)

    def suited(self, theta: Theta) -> tuple[Network, Theta]:
        """The network that does best at this theta, by the model, and what to tell it."""
        if len(self.score) == 1:
            return self.q, theta
        world = Imagined(self.model, self.starts, self.starts, None, None, 0.0)
        return _suited(world, self.networks, self.score, self.view, theta, jr.key(0))

    def adapt(self, env: gym.Env, samples: int = 50, seed: int = 0) -> "Adapted":
        """Estimate theta of this environment from `samples` random steps. The policy is not trained again."""
        if samples < 1:
            raise AdarlError(f"{samples} samples were asked for; at least 1 is needed.")
        self._check(env)
        rows = _wander(env, samples, seed, self.model.n_actions)
        known = estimate(self.model, rows, jnp.ones(samples, bool))
        return Adapted(self, known, *self.suited(known.theta))

    def _check(self, env: gym.Env) -> None:
        n_state = self.model.scale.s_mean.shape[0]
        if env.observation_space.shape != (n_state,):
            raise AdarlError(
                f"The environment observes {env.observation_space}; the agent was trained on vectors of {n_state} numbers."
            )
        if getattr(env.action_space, "n", None) != self.model.n_actions:
            raise AdarlError(
                f"The environment's actions are {env.action_space}; the agent was trained on {self.model.n_actions}."
            )

    def save(self, path: str | Path) -> None:
        """One file, arrays and JSON only: a downloaded agent cannot run code."""
        checkpoint.save(path, self, agent=self._sizes())

    def _sizes(self) -> dict[str, Any]:
        head, theta = self.model.heads.transition, self.model.theta
        return {
            "n_state": self.model.scale.s_mean.shape[0],
            "n_actions": self.model.n_actions,
            "n_domains": theta.theta_s.shape[0],
            "theta_s": theta.theta_s.shape[1],
            "theta_r": theta.theta_r.shape[1],
            "hidden": head.slope.in_features,
            "mixture": head.linear.out_features,
            "floor": head.floor,
            "reward_floor": self.model.heads.reward.floor,
            "policy_hidden": self.q.layers[0].out_features,
            "networks": len(self.score),
            "starts": len(self.starts),
            "view": [list(self.view.s_index), list(self.view.theta_s_index), list(self.view.theta_r_index)],
        }


def load(path: str | Path) -> Agent:
    """The agent in a file that `Agent.save` wrote."""
    sizes: Any = checkpoint.read_meta(path).get("agent")
    if not sizes:
        raise AdarlError(f"{path} holds no agent; a file written by Agent.save is expected.")

    def like() -> Agent:
        model = model_like(sizes["n_state"], sizes["n_actions"], sizes["n_domains"], _model_config(sizes))
        indices = [tuple(index) for index in sizes["view"]]
        view = View(model.scale.s_mean, model.scale.s_scale, *indices)
        hidden = sizes["policy_hidden"]
        one = lambda key: Network((view.size, hidden, hidden, sizes["n_actions"]), "relu", key=key)  # noqa: E731
        networks = eqx.filter_vmap(one)(jr.split(jr.key(0), sizes["networks"]))
        starts = jnp.zeros((sizes["starts"], sizes["n_state"]))
        return Agent(model, networks, jnp.zeros(sizes["networks"]), starts, view)

    return checkpoint.load(path, eqx.filter_eval_shape(like))


def _model_config(sizes: dict[str, Any]) -> ModelConfig:
    return ModelConfig(
        **{name: sizes[name] for name in ("theta_s", "theta_r", "hidden", "mixture", "floor", "reward_floor")}
    )


def model_like(n_state: int, n_actions: int, n_domains: int, config: ModelConfig) -> WorldModel:
    """A model of the right shape with meaningless numbers, for loading."""
    ones = jnp.ones(n_state)
    scale = fit.Scale(ones, ones, ones, jnp.float32(0), jnp.float32(1))
    return fit.finish(fit.start(n_state, n_actions, n_domains, config, jr.key(0)), scale, n_actions, config)


class Adapted:
    """An agent in one environment: acts on observations, knows its theta and how sure it is of it."""

    def __init__(self, agent: Agent, known: Estimate, q: Network, told: Theta):
        self.agent = agent
        self.q = q
        self.told = told
        self.theta: Theta = known.theta
        self.sd: Theta = known.sd

    def act(self, observation: np.ndarray) -> int:
        """The greedy action."""
        s = jnp.asarray(observation, jnp.float32)
        if s.shape != self.agent.view.mean.shape:
            raise AdarlError(f"The observation has the shape {s.shape}; {self.agent.view.mean.shape} is expected.")
        return int(_greedy(self.q, self.agent.view, s, self.told))

    def reset(self) -> None:
        """Between episodes. With observed states there is no belief to forget."""


_suited = eqx.filter_jit(suited)


@eqx.filter_jit
def _greedy(q: Network, view: View, s, theta: Theta):
    return jnp.argmax(q(view(s, theta)))


def _wander(env: gym.Env, samples: int, seed: int, n_actions: int) -> Transition:
    """Random steps, episode after episode."""
    rng = np.random.default_rng(seed)
    rows: list[tuple] = []
    s, _ = env.reset(seed=seed)
    while len(rows) < samples:
        a = int(rng.integers(n_actions))
        after, r, ended, truncated, _ = env.step(a)
        if not (np.isfinite(after).all() and np.isfinite(float(r))):
            raise AdarlError(f"The environment answered {after} with reward {r}; finite numbers are expected.")
        rows.append((np.asarray(s, np.float32), a, np.float32(r), np.asarray(after, np.float32), bool(ended)))
        s = env.reset()[0] if ended or truncated else after
    return Transition(*(jnp.asarray(np.stack(column)) for column in zip(*rows, strict=True)))
