"""Through noise: is an encoder better off if it is told how much of it there is?

    python benchmarks/hears.py

Writes results/hears.json: AdaRL as in the table from images, 30 seeds, 50 trajectories of every target, with encoders that
are told all of theta, as the paper has it, and with encoders that are told nothing of theta_o (`MissVAEConfig.hears`).
Nothing else differs. Work is kept in runs/hears and continues where it was stopped.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from adarl import experiment, family
from adarl.bench import ENTRIES, config_of
from adarl.config import resolve
from adarl.model.eye import Hears
from adarl.progress import Progress
from adarl.run.directory import RunDirectory

FAMILY, SAMPLES, SEEDS = family("cartpole-noise"), "50", 30


def survived(hears: Hears) -> dict[str, list[float]]:
    """In each target, a number a seed."""
    (entry,) = (entry for entry in ENTRIES["cartpole-pomdp"] if entry.family == FAMILY.name)
    config = replace(config_of(entry, (SAMPLES,), SEEDS), methods=("adarl",))
    config = resolve(FAMILY, replace(config, vae=replace(config.vae, hears=hears)))
    with RunDirectory(Path("runs/hears") / hears, experiment.described(FAMILY, config)) as run:
        found = experiment.compare(FAMILY, config, run, Progress(quiet=True))
    return {row["target"]: np.round(row["scores"], 1).tolist() for row in found.scores}


def main() -> None:
    found: dict[str, Any] = {"command": "python benchmarks/hears.py", "seeds": SEEDS, "samples": SAMPLES, "survived": {}}
    for hears in get_args(Hears):
        found["survived"][hears] = survived(hears)
        print(hears, {target: round(float(np.mean(s))) for target, s in found["survived"][hears].items()}, flush=True)
    Path("results/hears.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
