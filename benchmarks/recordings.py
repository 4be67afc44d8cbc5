"""Does it matter who records? A model of images from random actions, and one from a policy's (the paper's appendix).

    python benchmarks/recordings.py

Writes results/recordings.json and results/recordings.md. Gravity changes; every model sees as many trials. The policy is
AdaRL's, learned on the first model. Each model is judged on recordings of both kinds that it never saw: theta against
gravity, how much of every hidden dimension a line reads out of beliefs, and the error of the angle twenty steps ahead.
"""

import dataclasses
import json
import time
from pathlib import Path

import jax
import jax.random as jr
import numpy as np

from adarl import Config, family
from adarl.again import by_policy
from adarl.bench import ENTRIES, config_of
from adarl.config import resolve
from adarl.evaluate.insight import judged
from adarl.exhibits import AHEAD
from adarl.methods.adarl import AdaRL
from adarl.model.eye import Film
from adarl.model.world import WorldModel
from adarl.progress import Progress
from adarl.stages import Unkept, estimate_model, film_of, lesson_of, record, sized

FAMILY = family("cartpole-gravity-images")
QUIET = Progress(quiet=True)
KEPT_ASIDE = 100


def film(episodes, key) -> Film:
    return film_of(FAMILY, FAMILY.sources, episodes, key)


def model_of(config: Config, seen: Film) -> tuple[WorldModel, float]:
    begin = time.perf_counter()
    plan = sized(config.vae, FAMILY, None)
    model = estimate_model(FAMILY, seen, plan, None, jr.key(2), Unkept(), QUIET)
    return model, time.perf_counter() - begin


def about(model: WorldModel, kept_aside: dict[str, Film]) -> dict:
    theta, rng = np.asarray(model.theta.theta_s)[:, 0], np.random.default_rng(0)
    steps = np.diff(theta)
    found = {kind: judged(model, seen, model.theta, FAMILY.domain.state_names, rng) for kind, seen in kept_aside.items()}
    monotone = bool((steps > 0).all() or (steps < 0).all())
    return {"theta_s": theta.tolist(), "strictly_monotone": monotone, "judged_on": found}


def table(found: dict) -> str:
    """Markdown."""
    names = FAMILY.domain.state_names
    lines = ["| recorded by | judged on | " + " | ".join(names) + " | angle, 20 steps ahead | theta |"]
    lines.append("|---" * (len(names) + 4) + "|")
    for by, of in found.items():
        for on, it in of["judged_on"].items():
            explained = " | ".join(f"{it['explained'][name]:.3f}" for name in names)
            order = "monotone" if of["strictly_monotone"] else "not monotone"
            lines.append(f"| {by} | {on} | {explained} | {it['ahead']['20']['angle']:.3f} rad | {order} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    entry = next(entry for entry in ENTRIES["cartpole-pomdp"] if entry.family == FAMILY.name)
    config = resolve(FAMILY, config_of(entry, ("50",), seeds=1))
    aside = dataclasses.replace(config.collect, trials=KEPT_ASIDE, steps=AHEAD, wide=0.0)
    aside = dataclasses.replace(config, collect=aside)

    first = film(record(FAMILY, FAMILY.sources, config, jr.key(0), QUIET), jr.key(1))
    by_random, seconds = model_of(config, first)
    method = AdaRL(lesson_of(FAMILY, first, config, by_random), by_random)
    trained = method.train(jr.key(3)[None], Unkept(), lambda done: None)
    q = jax.tree.map(lambda x: x[0], trained.q)
    second = film(by_policy(method, q, config, jr.key(4), guesses=0.0), jr.key(5))
    kept_aside = {
        "random actions": film(record(FAMILY, FAMILY.sources, aside, jr.key(6), QUIET), jr.key(7)),
        "the policy": film(by_policy(method, q, aside, jr.key(8), guesses=0.0), jr.key(9)),
    }
    by_it, _ = model_of(config, second)
    found = {"random actions": about(by_random, kept_aside), "the policy": about(by_it, kept_aside)}
    about_it = {"command": "python benchmarks/recordings.py", "trials": config.collect.trials}
    about_it |= {"model_seconds": round(seconds), "recorded_by": found}
    out = Path(__file__).parents[1] / "results"
    (out / "recordings.json").write_text(json.dumps(about_it, indent=1) + "\n")
    (out / "recordings.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()
