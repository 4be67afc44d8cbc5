"""Through noise: do beliefs suffice to act on, and how many steps should be counted before Q is asked what follows?

    python benchmarks/beliefs.py

Writes results/beliefs.json. One model of all noises that is told nothing of the domain, as methods without a theta have it.
On its beliefs act a controller by hand, linear in what a line reads out of them (the line was drawn with the states that
nobody sees), and policies of Double DQN on the sources together that differ in `n_step` alone. Ten seeds each, three
episodes in each target, cut at 10,000 steps. Work is kept in runs/beliefs and continues where it was stopped.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.linalg import solve_discrete_are

from adarl import experiment, family, stages
from adarl.again import estimate_again
from adarl.bench import ENTRIES, config_of
from adarl.config import Config, resolve
from adarl.methods.method import Lesson, Policy, Trained, certain, nothing_told
from adarl.methods.pnn import PNN
from adarl.network import Network
from adarl.progress import Progress
from adarl.run.directory import RunDirectory
from adarl.types import Episodes

FAMILY = family("cartpole-noise")
QUIET = Progress(quiet=True)
SEEDS, N_STEPS = 10, (1, 5, 10)


def seen_by_a_model(config: Config, run: RunDirectory) -> tuple[Episodes, Lesson]:
    """Recordings, with the states that nobody sees, and what a model believes of them."""
    episodes = stages.record(FAMILY, FAMILY.sources, config, jr.key(0), QUIET)
    film = stages.film_of(FAMILY, FAMILY.sources, episodes, jr.key(1))
    plan = stages.models_of(config, stages.sized(config.vae, FAMILY, None))["model_plain"]
    like = lambda: stages.model_like(FAMILY, plan)  # noqa: E731
    first = lambda resume: stages.estimate_model(FAMILY, film, plan, None, jr.key(2), resume, QUIET)  # noqa: E731
    model = run.stage("model", first, like)
    further = lambda resume: estimate_again(FAMILY, film, model, config, jr.key(3), resume, QUIET)  # noqa: E731
    return episodes, stages.lesson_of(FAMILY, film, config, run.stage("model_1", further, like))


def by_hand(episodes: Episodes, lesson: Lesson) -> Network:
    """The linear-quadratic regulator of the usual cart, on what a line reads out of beliefs. Its Q prefers one side."""
    domain: Any = FAMILY.domain
    usual = {name: jnp.float32(value) for name, value in domain.defaults.items()}
    step = lambda s, u: domain.step(jr.key(0), s, jnp.int32(1), usual | {"motor": u}).s  # noqa: E731
    a, b = (np.asarray(jax.jacfwd(step, argnums=i)(jnp.zeros(4), jnp.float32(0)), float).reshape(4, -1) for i in (0, 1))
    p = solve_discrete_are(a, b, np.diag([1, 0.1, 10, 0.1]), np.eye(1))
    gain = np.linalg.solve(b.T @ p @ b + np.eye(1), b.T @ p @ a)[0]
    view = lesson.view(0)
    s, known = np.asarray(episodes.s[:, :, :-1]), np.asarray((lesson.episodes.s[:, :, :-1] - view.mean) / view.scale)
    used = (
        np.asarray(episodes.valid) & (np.abs(s[..., 0]) < domain.position_limit) & (np.abs(s[..., 2]) < domain.angle_limit)
    )
    line, *_ = np.linalg.lstsq(np.c_[known[used], np.ones(used.sum())], s[used], rcond=None)
    push = jnp.asarray(line @ gain, jnp.float32)  # to the left
    q = Network((view.size, 2), "relu", key=jr.key(0))
    parts = jnp.stack([push[:-1], -push[:-1]]), jnp.stack([push[-1], -push[-1]])
    return eqx.tree_at(lambda q: (q.layers[0].weight, q.layers[0].bias), q, parts)


def survived(lesson: Lesson, q: Any, config: Config) -> dict[str, list[float]]:
    """In each target, a number a seed."""
    nothing = nothing_told(SEEDS)
    policy = Policy(q, certain(nothing), nothing)
    keys = jr.split(jr.key(5), len(FAMILY.targets))
    each = zip(FAMILY.targets.items(), keys, strict=True)
    found = {t: stages.score(lesson, point, policy, lesson.view(0), config, key) for (t, point), key in each}
    return {target: np.round(scores, 1).tolist() for target, scores in found.items()}


def main() -> None:
    (entry,) = (entry for entry in ENTRIES["cartpole-pomdp"] if entry.family == FAMILY.name)
    config = resolve(FAMILY, dataclasses.replace(config_of(entry, ("50",), SEEDS), methods=("non_t",)))
    found: dict[str, Any] = {"command": "python benchmarks/beliefs.py", "seeds": SEEDS, "survived": {}}
    with RunDirectory("runs/beliefs", experiment.described(FAMILY, config)) as run:
        episodes, lesson = seen_by_a_model(config, run)
        q = jax.tree.map(lambda x: jnp.repeat(x[None], SEEDS, axis=0), by_hand(episodes, lesson))
        found["survived"]["by hand"] = run.stage_json("by_hand", lambda _: survived(lesson, q, config))
        for n_step in N_STEPS:
            learner = dataclasses.replace(config.policy.learner, n_step=n_step)
            here = dataclasses.replace(lesson, policy=dataclasses.replace(config.policy, learner=learner))
            method = PNN(here, config.pnn)  # its first column: all sources together, told nothing
            learn = lambda resume, m=method: m.train(jr.split(jr.key(4), SEEDS), resume, lambda done: None)  # noqa: E731
            trained: Trained = run.stage(f"policy_{n_step}", learn, lambda m=method: m.trained_like(SEEDS))
            done = run.stage_json(f"survived_{n_step}", lambda _, t=trained, h=here: survived(h, t.q, config))
            found["survived"][f"n_step {n_step}"] = done
            found.setdefault("settings", dataclasses.asdict(config.policy))
    Path("results/beliefs.json").write_text(json.dumps(found, indent=1) + "\n")
    for who, of in found["survived"].items():
        print(who, {target: round(float(np.mean(scores))) for target, scores in of.items()}, flush=True)


if __name__ == "__main__":
    main()
