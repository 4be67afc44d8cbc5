"""The discount of a family, chosen by what a learner may see: scores on the sources and in imagined domains, not in targets.

    python benchmarks/discount.py [FAMILY ...]

Writes results/discount.json. Data, model and policies have other seeds than the tables.
"""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

from adarl import Config, family, run
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
from adarl.progress import Progress

FAMILIES = ("cartpole-gravity", "cartpole-mass", "cartpole-gravity-mass", "cartpole-motor", "cartpole-target")
DISCOUNTS = (0.97, 0.98, 0.99)
SEEDS = 4
PATH = Path("results/discount.json")


def best_scores(name: str, discount: float) -> list[float]:
    """The score of every seed's chosen network; an episode of an evaluation is cut at 2,000 steps."""
    chosen = dataclasses.replace(family(name), targets={})
    config = Config(seed=1, seeds=SEEDS, policy=PolicyConfig(learner=DoubleDQNConfig(discount=discount)))
    result = run(chosen, config, Path("runs/discount") / f"{name}-{discount}", Progress())
    return np.max(result.summary["curves"]["adarl_plus"]["score"], axis=1).round(1).tolist()


def main() -> None:
    results: dict = json.loads(PATH.read_text()) if PATH.exists() else {"command": "python benchmarks/discount.py"}
    for name in sys.argv[1:] or FAMILIES:
        scores = {str(discount): best_scores(name, discount) for discount in DISCOUNTS}
        means = {discount: float(np.mean(values)) for discount, values in scores.items()}
        results[name] = {"best": float(max(means, key=lambda d: means[d])), "mean": means, "scores": scores}
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text(json.dumps(results, indent=1) + "\n")
        print(name, means, flush=True)


if __name__ == "__main__":
    main()
