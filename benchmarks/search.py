"""Settings of the methods that are compared, searched with the same effort: by scores on the sources, never in a target.

    python benchmarks/search.py [METHOD ...]

Writes results/search.json. Every setting is tried on a family that needs adaptation and on one that does not, with states
observed. The score of CAVIA and PEARL is what each seed's network was chosen by, the mean return on the sources cut at
2,000 steps. PNN, PSM and MQL show what they are worth in a domain that they did not practise in: their score is the return
in the outermost source, cut there too, which is left out of the others and gives 50 trajectories. Data and policies have
other seeds than the tables. Work is kept in runs/search and continues where it was stopped.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from adarl import Config, experiment, family
from adarl.config import resolve
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
from adarl.progress import Progress
from adarl.run.directory import RunDirectory

FAMILIES = ("cartpole-motor", "cartpole-gravity")
GRIDS: dict[str, list[dict[str, Any]]] = {
    "cavia": [
        {"rate": 1.0},
        {"rate": 3.0},
        {"rate": 10.0},
        {"rate": 3.0, "batch": 256},
        {"rate": 3.0, "context": 5},
        {"rate": 1.0, "steps": 2},
        {"rate": 3.0, "context": 5, "batch": 256},
    ],
    "pearl": [{"price": 1e-5}, {"price": 1e-4}, {"price": 1e-3}, {"price": 1e-4, "context": 5}],
    "pnn": [
        {"updates": 2000, "rate": 3e-4},
        {"updates": 500, "rate": 1e-3},
        {"updates": 500, "rate": 3e-4},
        {"updates": 500, "rate": 1e-4},
        {"updates": 100, "rate": 1e-4},
        {"updates": 500, "rate": 3e-4, "lateral": 64},
        {"updates": 2000, "rate": 1e-3},
        {"updates": 500, "rate": 3e-3},
        {"updates": 2000, "rate": 3e-3},
    ],
    "mql": [{"context": 16}, {"context": 32}, {"last": 5}, {"updates": 400}, {"clip": 3.0}],
    "psm": [{"weight": 0.1}, {"weight": 0.01}, {"weight": 1.0}, {"weight": 0.1, "kernel": 0.3}],
}
LEFT_OUT = ("pnn", "mql", "psm")
"""Judged in a source that is left out."""
SEEDS, UPDATES, STEPS = 4, 6000, 2000
PATH = Path("results/search.json")


def best_scores(method: Any, name: str, setting: dict[str, Any]) -> list[float]:
    """One number a seed: what its network was chosen by, or its return where it did not practise."""
    left_out, chosen = method in LEFT_OUT, dataclasses.replace(family(name), targets={})
    if left_out:
        *rest, last = chosen.sources
        chosen = dataclasses.replace(chosen, sources=tuple(rest), targets={"left out": last})
    policy = PolicyConfig(learner=DoubleDQNConfig(updates=UPDATES))
    config = Config(seed=1, seeds=SEEDS, methods=(method,), policy=policy)
    if left_out:
        config = dataclasses.replace(config, samples=("50",), steps=STEPS)
    config = dataclasses.replace(config, **{method: dataclasses.replace(getattr(config, method), **setting)})
    config = resolve(chosen, config)
    words = "-".join(f"{key}={value:g}" for key, value in setting.items())
    with RunDirectory(Path("runs/search") / method / name / words, experiment.described(chosen, config)) as run:
        found = experiment.compare(chosen, config, run, Progress(quiet=True))
    scores = found.scores[0]["scores"] if left_out else np.max(found.curves[method]["score"], axis=1)
    return np.round(scores, 1).tolist()


def main() -> None:
    results: dict = json.loads(PATH.read_text()) if PATH.exists() else {"command": "python benchmarks/search.py"}
    for method in sys.argv[1:] or GRIDS:
        tried = []
        for setting in GRIDS[method]:
            scores = {name: best_scores(method, name, setting) for name in FAMILIES}
            mean = float(np.mean([np.mean(found) for found in scores.values()]))
            tried.append({"setting": setting, "mean": round(mean, 1), "scores": scores})
            print(method, setting, {name: round(float(np.mean(s))) for name, s in scores.items()}, flush=True)
        best = max(tried, key=lambda one: one["mean"])
        results[method] = {"best": best["setting"], "updates": UPDATES, "seeds": SEEDS, "tried": tried}
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
