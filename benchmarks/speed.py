"""Double DQN against Stable-Baselines3's: the same dynamics, network, batch and number of updates, in turns in one run.

    python benchmarks/speed.py

Writes results/speed.json. Absolute rates belong to the machine; the ratios are what is claimed. Stable-Baselines3 gets
the number of threads that suits it, with one environment, as it is usually run, and with as many as a seed has here.
"""

import json
import os
import time
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.env_util import make_vec_env  # pyright: ignore[reportMissingImports]

from adarl.domains.cartpole import CartPole
from adarl.policy import learn
from adarl.policy.double_dqn import DoubleDQN, DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import Theta

SEEDS = 30
UPDATES = 2000
ROUNDS = 3
CONFIG = PolicyConfig(learner=DoubleDQNConfig(discount=0.99, updates=10 * UPDATES), evaluate_every=UPDATES, evaluate_steps=1)
GYMNASIUM = CartPole(friction=False, angle_limit=12 * np.pi / 180)
"""CartPole-v1, step for step."""


class Ours:
    """30 seeds beside each other."""

    def __init__(self):
        no_theta = Theta(jnp.zeros((1, 1)), jnp.zeros((1, 1)))
        factors = {name: jnp.full((1,), value) for name, value in GYMNASIUM.defaults.items()}
        self.sources = Sources(GYMNASIUM, factors, 1, None, jnp.float32(1.0))
        self.algorithm = DoubleDQN(CONFIG.learner, no_theta)
        self.view = View(jnp.zeros(4), jnp.ones(4), (0, 1, 2, 3), (), ())
        keys = jr.split(jr.key(0), SEEDS)
        begin = lambda key: learn.start(self.sources, self.algorithm, self.view, 2, CONFIG, key)  # noqa: E731
        self.states, self.keys = jax.device_put((jax.jit(jax.vmap(begin))(keys), keys), learn.shared_out(SEEDS))
        self.updates = 0
        self.advance()  # compiles

    def advance(self) -> None:
        """`UPDATES` updates of every seed."""
        shared = (self.keys, self.sources, self.algorithm, self.view, CONFIG)
        self.states = learn.advance((jnp.int32(self.updates), *shared), self.states)
        jax.block_until_ready(self.states)
        self.updates += UPDATES

    def rates(self) -> dict[str, float]:
        """A second's worth."""
        begun = time.perf_counter()
        self.advance()
        per_second = SEEDS * UPDATES / (time.perf_counter() - begun)
        return {"seed_updates": per_second, "environment_steps": per_second * CONFIG.environments}


class Theirs:
    """One seed; others would come after it."""

    def __init__(self, environments: int):
        learner = CONFIG.learner
        self.environments = environments
        self.warm_up = 1000
        self.agent = DQN(
            "MlpPolicy",
            make_vec_env("CartPole-v1", environments) if environments > 1 else gymnasium.make("CartPole-v1"),
            learning_rate=learner.learning_rate,
            buffer_size=CONFIG.capacity,
            learning_starts=self.warm_up,
            batch_size=learner.batch,
            gamma=learner.discount,
            train_freq=(1, "step"),
            gradient_steps=1,
            target_update_interval=100,
            policy_kwargs={"net_arch": [learner.hidden, learner.hidden]},
            device="cpu",
            seed=0,
        )
        self.agent.learn(self.warm_up + 100 * environments)

    def rates(self) -> dict[str, float]:
        """A second's worth."""
        done = self.agent._n_updates
        begun = time.perf_counter()
        self.agent.learn(UPDATES * self.environments, reset_num_timesteps=False)
        per_second = (self.agent._n_updates - done) / (time.perf_counter() - begun)
        return {"seed_updates": per_second, "environment_steps": per_second * self.environments}


def fastest_threads() -> int:
    """How many threads suit Stable-Baselines3 here."""
    speed = {}
    for threads in range(1, (os.cpu_count() or 1) + 1):
        torch.set_num_threads(threads)
        speed[threads] = Theirs(1).rates()["seed_updates"]
    return max(speed, key=lambda threads: speed[threads])


def main() -> None:
    threads = fastest_threads()
    torch.set_num_threads(threads)
    ours, theirs, theirs_many = Ours(), Theirs(1), Theirs(CONFIG.environments)
    rounds = [
        {"adarl": ours.rates(), "sb3": theirs.rates(), "sb3_many": theirs_many.rates()} for _ in range(ROUNDS)
    ]  # in turns, because a machine's speed drifts
    ratio = lambda kind, peer: float(np.median([r["adarl"][kind] / r[peer][kind] for r in rounds]))  # noqa: E731
    result = {
        "command": "python benchmarks/speed.py",
        "seeds": SEEDS,
        "updates": UPDATES,
        "batch": CONFIG.learner.batch,
        "network": [CONFIG.learner.hidden] * 2,
        "environments_a_seed": CONFIG.environments,
        "cores": os.cpu_count(),
        "sb3_threads": threads,
        "ratios": {
            "seed_updates": ratio("seed_updates", "sb3"),
            "environment_steps": ratio("environment_steps", "sb3"),
            f"seed_updates, {CONFIG.environments} environments each": ratio("seed_updates", "sb3_many"),
            f"environment_steps, {CONFIG.environments} environments each": ratio("environment_steps", "sb3_many"),
        },
        "per_second": rounds,
    }
    path = Path("results/speed.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["ratios"], indent=1))


if __name__ == "__main__":
    main()
