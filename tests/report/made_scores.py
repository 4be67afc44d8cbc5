"""Scores and runs that nobody ran, shaped like real ones."""

from dataclasses import replace

import numpy as np

from adarl.evaluate.scores import CARTPOLE_MDP, Cell, Grid

SMALL = replace(CARTPOLE_MDP, rows=("G_in", "GM_out", "target_in"), samples=("20", "50steps"))
SHARE = {"oracle": 1.0, "non_t": 0.3, "cavia": 0.6, "pearl": 0.7, "adarl_star": 0.8, "adarl": 0.9, "adarl_plus": 0.97}


def scores(grid: Grid = CARTPOLE_MDP, seeds: int = 12) -> list[Cell]:
    """Methods far apart, but for G_in, where all are at the ceiling."""
    rng = np.random.default_rng(0)
    cells = []
    for place in grid.places():
        spread = 100.0 * rng.normal(size=seeds) * (place.row != "G_in")
        share = 1.0 if place.row == "G_in" else SHARE[place.method]
        cells += [Cell(*place, seed, round(float(min(1e4, 1e4 * share + x)), 3)) for seed, x in enumerate(spread)]
    return cells


def summary() -> dict:
    """A run with two factors, four targets with long names, and three numbers of samples."""
    rng = np.random.default_rng(0)
    domains = []

    def domain(name: str, kind: str, gravity: float, mass: float, **more) -> dict:
        theta = {"theta_s_1": np.log(mass), "theta_s_2": (20 - gravity) / 10, "theta_r_1": 0.0}
        return {"name": name, "kind": kind, "factors": {"gravity": gravity, "mass": mass}, "theta": theta, **more}

    for i, (gravity, mass) in enumerate((g, m) for g in (5.0, 10.0, 20.0, 30.0, 40.0) for m in (0.5, 1.5, 2.5, 3.5, 4.5)):
        domains.append(domain(f"source {i + 1}", "source", gravity, mass, theta_sd=None))
    for name, gravity, mass in (("in_neg", 15.0, 1.0), ("in_pos", 25.0, 2.0), ("out_neg", 2.0, 0.2), ("out_pos", 55.0, 5.5)):
        for samples, sd in (("10000", 0.0002), ("20", 0.004), ("50", 0.002)):
            target = domain(name, "target", gravity, mass, samples=samples)
            target["theta_sd"] = dict.fromkeys(target["theta"], sd)
            target["theta"] = {key: value + sd * rng.normal() for key, value in target["theta"].items()}
            domains.append(target)
    states = ["x", "x_dot", "angle", "angle_dot"]
    thetas = ["theta_s_1", "theta_s_2", "theta_r_1"]
    pairs = [(a, b) for a in [*states, "action", *thetas] for b in [*states, "reward"]]
    return {
        "factors": ["gravity", "mass"],
        "domains": domains,
        "state_names": states,
        "edges": [{"source": a, "target": b, "prob": rng.random(), "hard": rng.random() < 0.6} for a, b in pairs],
        "s_min": dict.fromkeys(states, True),
        "theta_min": {"theta_s_1": True, "theta_s_2": True, "theta_r_1": False},
        "curves": {
            m: {"updates": [1000, 2000, 3000], "steps": [1, 2, 3], "score": [[1.0, 2.0 + i, 3.0], [2.0, None]]}
            for i, m in enumerate(SHARE)
        },
    }
