"""Runs that nobody ran: summaries by hand, for the tests of the report."""

import json

import numpy as np

HOSTILE = "<img src=x onerror=alert(1)>&\"'</script>"
STATES = ["x", "x_dot", "angle", "angle_dot"]


def domain(name: str, gravity: float, **more) -> dict:
    """Theta is straight in gravity: (gravity - 20) / 10."""
    theta = {"theta_s_1": (gravity - 20) / 10, "theta_r_1": 0.0}
    return {"name": name, "kind": "source", "factors": {"gravity": gravity}, "theta": theta, **more}


def target(name: str, gravity: float, sd: float, samples: str = "50steps") -> dict:
    return domain(name, gravity, kind="target", samples=samples, theta_sd={"theta_s_1": sd})


def edge(source: str, target: str, prob: float | None, hard: bool = True) -> dict:
    return {"source": source, "target": target, "prob": prob, "hard": hard}


def score(target: str, gravity: float, method: str, values: list, samples: str = "50steps") -> dict:
    factors = {"gravity": gravity}
    return {"target": target, "factors": factors, "method": method, "samples": samples, "scores": values}


def agent(name: str, steps: int, ended_at: int | None) -> dict:
    """The cart runs to the right by 1 cm and the pole leans by 0.005 in every step."""
    return {"name": name, "states": [[0.01 * t, 0.5, 0.005 * t, 0.25] for t in range(steps + 1)], "ended_at": ended_at}


def small() -> dict:
    """Two methods, two seeds, one number of samples."""
    return {
        "family": "cartpole-gravity",
        "factors": ["gravity"],
        "state_names": ["x", "angle"],
        "domains": [
            *(domain(f"source {i}", gravity) for i, gravity in enumerate((5.0, 10.0, 20.0, 30.0), start=1)),
            *(target("in", 15.0, 0.02), target("out", 55.0, float("nan"))),
        ],
        "edges": [
            *(edge("x", "x", 0.98), edge("x", "reward", 0.03, hard=False), edge("angle", "reward", 0.99)),
            *(edge("action", "angle", 0.9), edge("theta_s_1", "angle", 0.97)),
        ],
        "s_min": {"x": False, "angle": True},
        "theta_min": {"theta_s_1": True, "theta_r_1": False},
        "curves": {"adarl_plus": {"updates": [500, 1000], "score": [[0.0, 10.0], [10.0, 20.0], [20.0, 30.0]]}},
        "scores": [
            score("in", 15.0, "adarl_plus", [10000.0, 10000.0]),
            score("out", 55.0, "adarl_plus", [9997.0, 9999.0]),
            score("in", 15.0, "non_t", [5000.0, 7000.0]),
            score("out", 55.0, "non_t", [9998.0, 10000.0]),
        ],
        "score_name": "steps survived",
        "score_cap": 10000,
        "seconds": {"collect": 2.1, "model": 40.0, "policy": 100.0},
        "seed": 3,
        "version": "0.1.0",
    }


def whole() -> dict:
    """All that a report can hold: seven methods, eight seeds, three numbers of samples, two targets to watch."""
    rng = np.random.default_rng(0)
    states = [edge(a, b, round(0.9 + 0.01 * i, 2)) for i, a in enumerate(STATES) for b in STATES]
    means = {"adarl_plus": 9000, "adarl": 8800, "adarl_star": 8000, "cavia": 6000, "pearl": 5000, "non_t": 3000}
    numbers, gravities = ("50steps", "20", "10000"), {"in": 15.0, "out": 55.0}
    scores = [
        score(name, gravity, method, (mean + rng.normal(0, 300, 8)).tolist(), samples)
        for name, gravity in gravities.items()
        for method, mean in means.items()
        for samples in numbers
    ]
    scores += [score(name, gravity, "oracle", [9900.0 + i for i in range(8)], "0") for name, gravity in gravities.items()]
    updates = list(range(500, 5500, 500))
    agents = [agent("adapted", 300, None), agent("not adapted", 40, 40), agent("oracle", 300, 4000)]
    return small() | {
        "state_names": STATES,
        "domains": [
            *(domain(f"source {i}", gravity) for i, gravity in enumerate((5.0, 10.0, 20.0, 30.0), start=1)),
            *(target(name, g, 0.3 / i, n) for name, g in gravities.items() for i, n in enumerate(numbers, start=1)),
        ],
        "edges": [
            *(*states, edge("action", "angle_dot", 0.99), edge("theta_s_1", "angle_dot", 0.97)),
            *(edge("x", "reward", 0.03, hard=False), edge("angle", "reward", None)),
        ],
        "s_min": dict.fromkeys(STATES, True),
        "curves": {m: {"updates": updates, "score": rng.uniform(0, mean, (8, 10)).tolist()} for m, mean in means.items()},
        "scores": scores,
        "animations": [{"target": name, "samples": "50steps", "steps": 10000, "agents": agents} for name in gravities],
    }


def hostile(summary: dict, spare: tuple[str, ...] = ()) -> dict:
    """The same run with a hostile text before every name but those to `spare`."""
    text = json.dumps(summary)
    names = ("x", "angle", "gravity", "theta_s_1", "in", "adarl_plus", "cartpole-gravity", "collect", "adapted")
    for name in {*names, "source 1", "steps survived", "50steps", "0.1.0"} - {*spare}:
        text = text.replace(json.dumps(name), json.dumps(f"{HOSTILE} {name}"))
    return json.loads(text)
