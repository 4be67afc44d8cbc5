"""Algorithm 1 of the paper, from source domains to an agent that acts in a new one.

In: a family and a configuration. Out: a run directory with every stage's result, an agent, and a report. A second call
reuses finished stages; a killed one continues from its last checkpoint.
"""

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np

from adarl import stages
from adarl.agent import Agent, model_like
from adarl.config import Config, command, resolve
from adarl.domains.family import Family
from adarl.domains.host import Host
from adarl.graph import compact
from adarl.model.world import WorldModel
from adarl.network import Network
from adarl.policy.view import View
from adarl.progress import Progress
from adarl.report import page
from adarl.report.summary import Summary, summarise
from adarl.run.directory import RunDirectory


@dataclass(frozen=True)
class Result:
    """What a run leaves."""

    agent: Agent
    summary: Summary
    directory: Path
    report: Path


def run(family: Family, config: Config, directory: str | Path, progress: Progress | None = None) -> Result:
    """Algorithm 1."""
    config = resolve(family, config)
    progress = progress or Progress(quiet=True)
    described = {"family": _describe(family), **dataclasses.asdict(config)}
    key_collect, key_model, key_policy, key_target, key_evaluate = jr.split(jr.key(config.seed), 5)
    with RunDirectory(directory, described) as run, progress:
        episodes = run.stage(
            "collect",
            lambda _: stages.record(family, family.sources, config, key_collect, progress),
            lambda: stages.episodes_like(family, config),
        )
        model = run.stage(
            "model",
            lambda resume: stages.estimate_model(family, episodes, config, key_model, resume, progress),
            lambda: model_like(len(family.domain.state_names), family.domain.n_actions, len(family.sources), config.model),
        )
        minimal = stages.sufficient(compact(model.masks))
        view = View.of(minimal, model.scale.s_mean, model.scale.s_scale)
        policies: dict[str, tuple[Network, jax.Array]] = {}
        for method in config.methods:
            policies[method] = run.stage(
                f"policy_{method}",
                lambda resume, method=method: stages.learn_policies(
                    family, episodes, model, view, method, config, key_policy, resume, progress
                ),
                lambda: stages.policies_like(family, view, config),
            )
        known = run.stage(
            "adapt",
            lambda _: stages.adapt_all(family, model, config, key_target, progress),
            lambda: stages.known_like(family, config),
        )
        scores: Any = run.stage_json(
            "scores", lambda _: stages.evaluate_all(family, view, policies, known, config, key_evaluate, progress)
        )
        agent = best_agent(model, view, *policies[config.methods[0]])
        agent.save(run.path / "agent.npz")
        animations: Any = run.stage_json("animations", lambda _: stages.animate(family, agent, known, config, key_evaluate))
        seconds = {name: run.manifest(name)["seconds"] for name in run.finished if name != "summary"}
        curves = {method: _curve(curve, config) for method, (_, curve) in policies.items()}
        summary = summarise(
            family,
            model,
            minimal,
            known,
            curves,
            scores,
            score_name=family.score,
            score_cap=config.steps if not isinstance(family.domain, Host) else None,
            animations=animations,
            seconds=seconds,
            seed=config.seed,
            version=run.versions["adarl"],
            command=command(family, config),
        )
        run.stage_json("summary", lambda _: summary)
        report = page.write(summary, run.path / "report.html")
    return Result(agent, summary, run.path, report)


def fit_agent(family: Family, seed: int = 0, config: Config | None = None, directory: str | Path | None = None) -> Agent:
    """`adarl.fit`: collect, locate, model, graph, policy; no targets needed."""
    config = dataclasses.replace(config or Config(seeds=1), seed=seed)
    without_targets = dataclasses.replace(family, targets={})
    if directory is not None:
        return run(without_targets, config, directory).agent
    with tempfile.TemporaryDirectory() as folder:
        return run(without_targets, config, Path(folder) / "run").agent


def best_agent(model: WorldModel, view: View, q: Network, curve: jax.Array) -> Agent:
    """The policy that did best on the sources."""
    best = int(curve.max(1).argmax())
    return Agent(model, jax.tree.map(lambda x: x[best], q), view)


def _curve(curve: jax.Array, config: Config) -> dict[str, Any]:
    every = config.policy.evaluate_every
    return {"updates": [every * (i + 1) for i in range(curve.shape[1])], "score": np.asarray(curve).tolist()}


def _describe(family: Family) -> dict[str, Any]:
    return {"name": family.name, "sources": [dict(p) for p in family.sources], "targets": dict(family.targets)}
