"""How long an agent takes to adapt to a target by 50 steps: the steps, theta with its deviation, the choice of a network.

    python benchmarks/adaptation.py

Writes results/adaptation.json. Its policy is trained for a moment only, but passes through as many networks as usual: the
time to choose one does not depend on what they have learned.
"""

import json
import statistics
import time
from pathlib import Path

import equinox as eqx
import gymnasium as gym
import jax

import adarl
from adarl import Config, family
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig

DRAWS = 30
PATH = Path("results/adaptation.json")


def main() -> None:
    chosen, usual = family("cartpole-gravity"), PolicyConfig()
    networks = usual.learner.updates // usual.evaluate_every
    moment = PolicyConfig(DoubleDQNConfig(updates=10 * networks), evaluate_every=10, evaluate_steps=100)
    agent = adarl.fit(chosen, seed=0, config=Config(seeds=1, policy=moment))
    found = {}
    for target, point in chosen.targets.items():
        env, seconds = gym.make("adarl/CartPole-v0", gravity=point["gravity"]), []
        for draw in range(DRAWS + 1):
            begun = time.perf_counter()
            here = agent.adapt(env, samples=50, seed=draw)
            jax.block_until_ready(eqx.filter((here.theta, here.q), eqx.is_array))
            seconds.append(time.perf_counter() - begun)
        compiled = seconds[1:]
        found[target] = {
            "first": round(seconds[0], 2),
            "median": round(statistics.median(compiled), 3),
            "longest": round(max(compiled), 3),
        }
    result = {"command": "python benchmarks/adaptation.py", "networks": networks, "draws": DRAWS, "seconds": found}
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(json.dumps(result, indent=1) + "\n")
    print(result)


if __name__ == "__main__":
    main()
