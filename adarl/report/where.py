"""WHERE, as the tests say it before anything is learned: words and plain data for the terminal, files and the page.

In: a `Structure` and the names of the states. Out: sentences, and a JSON-able dict that the graph is drawn from.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adarl.graph import compact
from adarl.locate.changes import RATE, Changes
from adarl.locate.corrections import holm
from adarl.locate.structure import Structure
from adarl.report.words import listed

DOMAIN = "k (domain)"


def tested(found: Structure | Changes | None, names: Sequence[str], rate: float) -> dict[str, Any] | None:
    """What tests found, of states or of images, as plain data; None where nothing was tested."""
    if isinstance(found, Changes):
        return seen(found)
    return None if found is None else located(found, names, rate)


def located(structure: Structure, names: Sequence[str], rate: float) -> dict[str, Any]:
    """All that the tests found: every edge with its p-value, whether it is there, and how often half the data show it."""
    sources, targets = [*names, "action", DOMAIN], [*names, "reward"]
    minimal = compact(structure.masks(1, 1))
    kept = bool(np.asarray(minimal.theta_s_min)[0] or np.asarray(minimal.theta_r_min)[0])
    return {
        "state_names": list(names),
        "words": verdict(structure, names),
        "rate": rate,
        "edges": [
            {
                "source": source,
                "target": target,
                "p": float(structure.p[i, j]),
                "hard": bool(structure.found[i, j]),
                "prob": float(structure.stability[i, j]),
            }
            for j, source in enumerate(sources)
            for i, target in enumerate(targets)
        ],
        "s_min": dict(zip(names, np.asarray(minimal.s_min).tolist(), strict=True)),
        "theta_min": {DOMAIN: kept},
    }


def verdict(structure: Structure, names: Sequence[str]) -> str:
    """What changed between the domains, in one sentence."""
    states = [name for name, moved in zip(names, structure.changes, strict=False) if moved]
    dynamics, reward = f"the dynamics of {listed(states)}", bool(structure.changes[-1])
    if states and reward:
        return f"Between the domains {dynamics} changed, and so did the reward."
    if states:
        return f"Between the domains {dynamics} changed; of a change of the reward there is no sign."
    if reward:
        return "Between the domains the reward changed; of a change of the dynamics there is no sign."
    return "There is no sign of a change between the domains."


def seen(changes: Changes) -> dict[str, Any]:
    """The verdict of observations that are not states, as plain data."""
    return {
        "words": changes.words,
        "rate": RATE,
        "case": changes.case,
        "theta": list(changes.theta),
        "p_observation": changes.p_observation,
        "p_action": changes.p_action,
    }


def write(found: dict[str, Any], folder: Path) -> list[Path]:
    """locate.json, and as PNG and SVG the graph, or the tests where states are not seen."""
    from adarl.report import plots  # takes a second, which those who draw nothing need not wait

    folder.mkdir(parents=True, exist_ok=True)
    files = {"locate.json": (json.dumps(found, indent=1) + "\n").encode()}
    figure = plots.graph(found) if "edges" in found else plots.tests(_corrected(found), found["rate"])
    files |= {f"locate.{ending}": content for ending, content in plots.images(figure).items()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def _corrected(found: dict[str, Any]) -> dict[str, float]:
    """The p-values that are held against the rate, by what was tested against the domain."""
    p = dict(zip(found["p_observation"], holm(np.array(list(found["p_observation"].values()))).tolist(), strict=True))
    return p if found["p_action"] is None else p | {"action, given the reward": found["p_action"]}
