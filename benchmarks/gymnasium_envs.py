"""Two environments of Gymnasium that nobody here wrote: Acrobot with other link masses, MountainCar with another gravity.

    python benchmarks/gymnasium_envs.py [FAMILY ...]

Writes results/gymnasium.json: theta against the factor, the graph, and the return in targets never trained on, of AdaRL+, of
AdaRL as printed and of random actions. Work is kept in runs/gymnasium and continues where it was stopped.
"""

import json
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np

from adarl import Config, Family, run
from adarl.collect import CollectConfig
from adarl.domains.family import Point
from adarl.policy.learn import PolicyConfig
from adarl.progress import Progress

STEPS = {"mountain-car": 200, "acrobot": 500}
"""After which Gymnasium cuts an episode."""
PATH = Path("results/gymnasium.json")


def mountain_car(gravity: float) -> gym.Env:
    env = gym.make("MountainCar-v0")
    env.unwrapped.gravity = gravity  # pyright: ignore[reportAttributeAccessIssue]
    return env


def acrobot(mass: float) -> gym.Env:
    env = gym.make("Acrobot-v1")
    env.unwrapped.LINK_MASS_2 = mass  # pyright: ignore[reportAttributeAccessIssue]
    return env


FAMILIES = {
    "mountain-car": (mountain_car, "gravity", [0.0015, 0.002, 0.0025, 0.003], {"in": 0.00225, "out": 0.0033}),
    "acrobot": (acrobot, "mass", [0.6, 0.8, 1.2, 1.4], {"in": 1.0, "out": 1.7}),
}


def config_of(name: str) -> Config:
    """Random actions persist, because a walk of them never meets the goal; those of a policy then meet it often."""
    return Config(
        seeds=3,
        methods=("adarl_plus", "adarl"),
        samples=("50steps", "20"),
        episodes=10,
        steps=STEPS[name],
        collect=CollectConfig(trials=100, steps=200, persist=0.95, again=1),
        policy=PolicyConfig(evaluate_steps=STEPS[name]),
    )


def of_chance(make, point: Point, steps: int, episodes: int = 10) -> float:
    """Mean return of random actions."""
    env, total = make(**point), 0.0
    env.action_space.seed(0)
    for seed in range(episodes):
        env.reset(seed=seed)
        for _ in range(steps):
            _, r, terminated, truncated, _ = env.step(env.action_space.sample())
            total += float(r)
            if terminated or truncated:
                break
    return total / episodes


def main() -> None:
    results: dict = json.loads(PATH.read_text()) if PATH.exists() else {"command": "python benchmarks/gymnasium_envs.py"}
    for name in sys.argv[1:] or FAMILIES:
        make, factor, values, targets = FAMILIES[name]
        family, config = Family.from_gymnasium(make, factor, values, targets, name=name), config_of(name)
        result = run(family, config, Path("runs/gymnasium") / name, Progress())
        model = result.agent.model
        used = int(np.argmax(np.asarray(model.masks.c_theta_to_s).sum(0)))
        theta = np.asarray(model.theta.theta_s)[:, used]
        results[name] = {
            "seeds": config.seeds,
            "factor": factor,
            "sources": values,
            "theta": theta.round(4).tolist(),
            "pearson": round(float(np.corrcoef(theta, values)[0, 1]), 5),
            "masks": {k: np.asarray(v).astype(int).tolist() for k, v in vars(model.masks).items()},
            "scores": result.summary["scores"],
            "random_actions": {t: of_chance(make, p, STEPS[name]) for t, p in family.targets.items()},
            "targets": targets,
        }
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text(json.dumps(results, indent=1) + "\n")
        for row in results[name]["scores"]:
            print(name, row["target"], row["samples"], row["method"], round(float(np.mean(row["scores"])), 1), flush=True)
        print(name, "random actions", results[name]["random_actions"], "pearson", results[name]["pearson"], flush=True)


if __name__ == "__main__":
    main()
