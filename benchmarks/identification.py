"""What the world model identifies: theta against the factor, the factor that 50 steps imply, the masks, what it leaves out.

    python benchmarks/identification.py

Writes results/identification.json.
"""

import json
import time
from pathlib import Path

import jax
import jax.random as jr
import numpy as np

from adarl import Config, Family, family
from adarl.adapt.factor import implied_factor
from adarl.adapt.states import adapt
from adarl.config import resolve
from adarl.graph import compact
from adarl.model.fit import fit
from adarl.model.world import WorldModel
from adarl.progress import Progress
from adarl.stages import record, sized, target_samples

DRAWS = 30
SEEDS = {"cartpole-gravity": range(10, 15), "cartpole-mass": range(10, 13), "cartpole-distracted": range(10, 13)}
"""None of them was looked at while the fit was designed."""
QUIET = Progress(quiet=True)
TRUE_EDGES = {("x", "x_dot"), ("x_dot", "angle"), ("x_dot", "angle_dot"), ("angle", "angle_dot"), ("angle_dot", "angle")}
"""(target, source) between states in the Euler equations, frictions and own values left out."""
MOVED = {"x_dot", "angle_dot"}
"""States that the action and the changed factor reach in one step."""


def model_of(chosen: Family, seed: int) -> tuple[Config, WorldModel]:
    config = resolve(chosen, Config(seed=seed))
    key_collect, key_model, *_ = jr.split(jr.key(seed), 5)
    episodes = record(chosen, chosen.sources, config, key_collect, QUIET)
    return config, fit(episodes, chosen.domain.n_actions, sized(config.model, chosen, None), key_model)


def graph_errors(chosen: Family, model: WorldModel) -> dict:
    names = chosen.domain.state_names
    hard = jax.tree.map(lambda x: np.asarray(x) > 0, model.masks)
    pairs = {(names[i], names[j]) for i, j in zip(*np.nonzero(hard.c_s_to_s), strict=True) if i != j}
    by_action = {names[i] for i in np.flatnonzero(hard.c_a_to_s)}
    by_theta = {names[i] for i in np.flatnonzero(hard.c_theta_to_s.any(1))}
    missing = [*sorted(TRUE_EDGES - pairs), *sorted(("action", s) for s in MOVED - by_action)]
    missing += sorted(("theta", s) for s in MOVED - by_theta)
    spurious = [*sorted(pairs - TRUE_EDGES), *sorted(("action", s) for s in by_action - MOVED)]
    spurious += sorted(("theta", s) for s in by_theta - MOVED)
    reward = [names[i] for i in np.flatnonzero(hard.c_s_to_r)]
    return {"missing": missing, "spurious": spurious, "into_reward": reward}


def theta_errors(chosen: Family, config: Config, model: WorldModel) -> dict:
    factor = chosen.factors[0]
    values = [point[factor] for point in chosen.sources]
    theta = np.asarray(model.theta.theta_s)[:, 0]
    found: dict = {"source_theta": theta.tolist(), "targets": {}}
    thetas, factors = list(theta), list(values)
    for name, point in chosen.targets.items():
        keys = jr.split(jr.key(12345), DRAWS)
        drawn = [float(adapt(model, target_samples(chosen, point, "50steps", config, k)).theta.theta_s[0]) for k in keys]
        implied = [implied_factor(theta, np.asarray(values), t) for t in drawn]
        error = [abs(i - point[factor]) / abs(point[factor]) for i in implied]
        found["targets"][name] = {"truth": point[factor], "median_error": float(np.median(error)), "worst": max(error)}
        thetas.append(float(np.median(drawn)))
        factors.append(point[factor])
    ordered = np.asarray(thetas)[np.argsort(factors)]
    found["pearson"] = float(abs(np.corrcoef(thetas, factors)[0, 1]))
    found["strictly_monotone"] = bool((np.diff(ordered) > 0).all() or (np.diff(ordered) < 0).all())
    return found


def left_out(chosen: Family, model: WorldModel) -> dict:
    """`cartpole-distracted`: which walks are in s_min, and whether theta_min follows the drift that moves only them."""
    minimal = compact(model.masks)
    names = chosen.domain.state_names
    kept = [names[i] for i in np.flatnonzero(np.asarray(minimal.s_min))]
    drift = [point["drift"] for point in chosen.sources]
    dimensions = np.flatnonzero(np.asarray(minimal.theta_s_min))
    follows = [abs(np.corrcoef(np.asarray(model.theta.theta_s)[:, i], drift)[0, 1]) for i in dimensions]
    return {"s_min": kept, "theta_s_min": dimensions.tolist(), "correlation_with_drift": [float(f) for f in follows]}


def adaptation_seconds(chosen: Family, config: Config, model: WorldModel) -> float:
    """Median time of theta from 50 single steps, compiled."""
    point = next(iter(chosen.targets.values()))
    samples = [target_samples(chosen, point, "50steps", config, key) for key in jr.split(jr.key(1), 6)]
    seconds = []
    for episodes in samples:
        begun = time.perf_counter()
        jax.block_until_ready(adapt(model, episodes))
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds[1:]))


def main() -> None:
    results: dict = {"command": "python benchmarks/identification.py", "draws": DRAWS}
    for name, seeds in SEEDS.items():
        chosen = family(name)
        results[name] = []
        for seed in seeds:
            config, model = model_of(chosen, seed)
            row: dict = {"seed": seed}
            if name == "cartpole-distracted":
                row |= left_out(chosen, model)
            else:
                row |= theta_errors(chosen, config, model) | {
                    "adaptation_seconds": adaptation_seconds(chosen, config, model)
                }
                row |= graph_errors(chosen, model)
            results[name].append(row)
            print(name, json.dumps(row), flush=True)
            path = Path("results/identification.json")
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
