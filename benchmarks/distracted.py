"""Four states that nothing reads, and a theta that moves only them: does the score stay what it is without them?

    python benchmarks/distracted.py

Writes results/distracted.json: what the policy sees and its scores in `cartpole-distracted` and in `cartpole-gravity`, which
differ in nothing else. Work is kept in runs/distracted and continues where it was stopped.
"""

import json
from pathlib import Path

import numpy as np

from adarl import Config, family, run
from adarl.progress import Progress

FAMILIES = ("cartpole-distracted", "cartpole-gravity")


def main() -> None:
    results: dict = {"command": "python benchmarks/distracted.py"}
    for name in FAMILIES:
        found = run(family(name), Config(seed=1), Path("runs/distracted") / name, Progress()).summary
        scores = {row["target"]: row["scores"] for row in found["scores"]}
        results[name] = {part: [n for n, kept in found[part].items() if kept] for part in ("s_min", "theta_min")}
        results[name] |= {"located": found["located"]["words"], "scores": scores}
        print(name, results[name], {target: np.mean(values) for target, values in scores.items()}, flush=True)
    path = Path("results/distracted.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
