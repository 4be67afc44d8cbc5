"""What a run found, as plain data: the report, the terminal and `summary.json` are drawn from it."""

from typing import Any

import jax
import numpy as np

from adarl.adapt.states import Estimate
from adarl.domains.family import Family, Point
from adarl.model.world import WorldModel
from adarl.types import Compact, Theta

Summary = dict[str, Any]


def theta_names(model: WorldModel) -> tuple[list[str], list[str], list[str]]:
    """A name for every dimension of theta_s, of theta_r and of theta_o."""
    theta = model.theta
    count = lambda kind, part: [f"theta_{kind}_{i + 1}" for i in range(part.shape[1])]  # noqa: E731
    return count("s", theta.theta_s), count("r", theta.theta_r), count("o", theta.theta_o)


def _named(names: tuple[list[str], ...], theta: Theta) -> dict[str, float]:
    values = np.concatenate([np.asarray(part) for part in (theta.theta_s, theta.theta_r, theta.theta_o)])
    return dict(zip([name for part in names for name in part], values.tolist(), strict=True))


def edges(model: WorldModel, state_names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Every candidate edge with its probability and whether it stayed."""
    names_s, names_r, names_o = theta_names(model)
    prob, hard = model.masks_prob, model.masks
    blocks = [
        (state_names, state_names, prob.c_s_to_s, hard.c_s_to_s),
        (["action"], state_names, prob.c_a_to_s[:, None], hard.c_a_to_s[:, None]),
        (names_s, state_names, prob.c_theta_to_s, hard.c_theta_to_s),
        (state_names, ["reward"], prob.c_s_to_r[None], hard.c_s_to_r[None]),
        (["action"], ["reward"], prob.c_a_to_r[None, None], hard.c_a_to_r[None, None]),
        (names_r, ["reward"], prob.c_theta_to_r[None], hard.c_theta_to_r[None]),
    ]
    if model.eye is not None:
        blocks.append((state_names, ["image"], prob.c_s_to_o[None], hard.c_s_to_o[None]))
        blocks.append((names_o, ["image"], prob.c_theta_to_o[None], hard.c_theta_to_o[None]))
    return [
        {"source": source, "target": target, "prob": float(p[i, j]), "hard": bool(h[i, j] > 0)}
        for sources, targets, p, h in blocks
        for i, target in enumerate(targets)
        for j, source in enumerate(sources)
    ]


def domains(family: Family, model: WorldModel, known: dict[str, Estimate]) -> list[dict[str, Any]]:
    """Sources and targets with their thetas. A target's is the median over the seeds' own samples, one for every number."""
    names = theta_names(model)
    rows = []
    for k, point in enumerate(family.sources):
        theta: Theta = jax.tree.map(lambda t, k=k: t[k], model.theta)
        rows.append(_domain(f"source {k + 1}", "source", point) | {"theta": _named(names, theta), "theta_sd": None})
    for name, estimate in known.items():
        target, _, samples = name.rpartition("/")
        middle, sd = _median(estimate.theta), _median(estimate.sd)
        found = {"theta": _named(names, middle), "theta_sd": _named(names, sd), "samples": samples}
        rows.append(_domain(target, "target", family.targets[target]) | found)
    return rows


def _domain(name: str, kind: str, point: Point) -> dict[str, Any]:
    return {"name": name, "kind": kind, "factors": dict(point)}


def _median(theta: Theta) -> Theta:
    middle = lambda x: np.median(np.asarray(x), axis=0)  # noqa: E731
    return jax.tree.map(middle, theta)


def summarise(
    family: Family,
    model: WorldModel,
    compact: Compact,
    known: dict[str, Estimate],
    curves: dict[str, Any],
    scores: list[dict[str, Any]],
    **extra: Any,
) -> Summary:
    """Everything the report shows."""
    names_s, names_r, names_o = theta_names(model)
    flags = [*np.asarray(compact.theta_s_min).tolist(), *np.asarray(compact.theta_r_min).tolist()]
    state_names = family.domain.state_names
    return {
        "family": family.name,
        "factors": list(family.factors),
        "state_names": list(state_names),
        "domains": domains(family, model, known),
        "edges": edges(model, state_names),
        "s_min": dict(zip(state_names, np.asarray(compact.s_min).tolist(), strict=True)),
        "theta_min": dict(zip([*names_s, *names_r], flags, strict=True)) | dict.fromkeys(names_o, False),
        "curves": curves,
        "scores": scores,
        **extra,
    }
