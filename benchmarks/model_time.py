"""How long a model of images takes on this machine, and whether its theta follows gravity, sources and targets together.

    python benchmarks/model_time.py

Writes results/model_time.json. Nothing compiled before is used, and nothing else should be at work on the cores that it may
use (`taskset` says which): the claim is that ten minutes are enough. The model is the table's: estimated from recordings by
chance, it goes on with those of a policy that is learned meanwhile. theta of a target is by 50 trajectories of it.
"""

import json
import os
import tempfile
import time
from pathlib import Path

os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp()  # before adarl is imported, which would choose one

import jax
import jax.random as jr
import numpy as np
from scipy.stats import spearmanr

from adarl import bench, family, stages
from adarl.adapt import images
from adarl.again import estimate_again
from adarl.experiment import FILMED
from adarl.locate.changes import Changes
from adarl.progress import Progress

NAME, SAMPLES = "cartpole-gravity-images", "50"


def main() -> None:
    chosen, quiet = family(NAME), Progress(quiet=True)
    (entry,) = (entry for entry in bench.ENTRIES["cartpole-pomdp"] if entry.family == NAME)
    config = bench.config_of(entry, (SAMPLES,), seeds=1)
    key_collect, key_model, key_target = jr.split(jr.key(config.seed), 3)
    begin = time.perf_counter()
    episodes = stages.record(chosen, chosen.sources, config, key_collect, quiet)
    film = stages.film_of(chosen, chosen.sources, episodes, jr.fold_in(key_collect, FILMED))
    plan = stages.sized(config.vae, chosen, Changes(**stages.locate(chosen, film, config, quiet)))
    recorded = time.perf_counter()
    model = stages.estimate_model(chosen, film, plan, None, key_model, stages.Unkept(), quiet)
    jax.block_until_ready(model)
    modelled = time.perf_counter()
    model = estimate_again(chosen, film, model, config, jr.fold_in(key_model, 1), stages.Unkept(), quiet)
    jax.block_until_ready(model)
    done = time.perf_counter()
    gravity = [point["gravity"] for point in (*chosen.sources, *chosen.targets.values())]
    theta = np.asarray(model.theta.theta_s[:, 0]).tolist()
    for i, point in enumerate(chosen.targets.values()):
        seen = stages.target_samples(chosen, point, SAMPLES, config, jr.fold_in(key_target, i))
        theta.append(float(images.adapt(model, seen).theta.theta_s[0]))
    rho = spearmanr(gravity, theta)[0] if np.ptp(theta) > 0 else 0.0  # a theta that was pruned follows nothing
    found = {
        "command": "python benchmarks/model_time.py",
        "seconds": {
            "recordings and tests": round(recorded - begin, 1),
            "model": round(modelled - recorded, 1),
            "a policy, and the model goes on": round(done - modelled, 1),
        },
        "cores": len(os.sched_getaffinity(0)),
        "gravity": gravity,
        "theta": np.round(theta, 3).tolist(),
        "spearman": round(abs(float(rho)), 4),  # pyright: ignore
        "seed": config.seed,
    }
    Path("results/model_time.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
