"""Who learns faster, where all end at the ceiling: steps in the sources until a policy has 95% of it.

In: learning curves of the families of a bench, by method. Out: a sheet for `typeset`, and all figures behind it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from adarl.evaluate.scores import ORACLE
from adarl.report.typeset import EMPTY, Sheet, Text
from adarl.report.words import method_name, number

Curves = Mapping[str, Mapping[str, Any]]
"""Of one family, by method: `updates`, `steps` in the sources and, for every seed, the `score` there."""
ENOUGH = 0.95
TITLE = f"Steps in the sources to {ENOUGH:.0%} of the ceiling"


class Speed(NamedTuple):
    """Of one method in one family, over seeds. A seed that does not arrive needs infinitely many steps."""

    steps: np.ndarray
    ceiling: float

    def quantile(self, share: float) -> float:
        """Of the steps: one that some seed needed."""
        return float(np.quantile(self.steps, share, method="inverted_cdf"))


def speeds(curves: Curves) -> dict[str, Speed]:
    """By method. The ceiling is the highest mean over seeds that any of them had; the oracle is not trained there."""
    scores = {method: filled(curve) for method, curve in curves.items() if method != ORACLE and "steps" in curve}
    scores = {method: values for method, values in scores.items() if np.isfinite(values).any()}
    there = [values[:, np.isfinite(values).any(0)] for values in scores.values()]
    ceiling = max((float(np.nanmean(values, axis=0).max()) for values in there), default=np.nan)
    found = {}
    for method, values in scores.items():
        enough = values >= ENOUGH * ceiling
        steps = np.asarray(curves[method]["steps"], float)[enough.argmax(1)]
        found[method] = Speed(np.where(enough.any(1), steps, np.inf), ceiling)
    return found


def filled(curve: Mapping[str, Any]) -> Float[np.ndarray, "seed evaluation"]:
    """The scores of a curve; seeds that end early, and scores that are none, are filled with NaN."""
    scores = np.full((len(curve["score"]), len(curve["updates"])), np.nan)
    for seed, values in enumerate(curve["score"]):
        scores[seed, : len(values)] = [np.nan if value is None else value for value in values]
    return scores


def sheet(families: Mapping[str, Curves], methods: tuple[str, ...]) -> Sheet:
    """A line a family, a column a method."""
    methods = tuple(method for method in methods if method != ORACLE)
    found = {family: speeds(curves) for family, curves in families.items()}
    lines = []
    for family, by_method in found.items():
        fastest = min((speed.quantile(0.5) for speed in by_method.values()), default=np.inf)
        lines.append((family, [_text(by_method.get(method), fastest) for method in methods]))
    ceilings = (f"{number(next(iter(one.values())).ceiling)} in {family}" for family, one in found.items() if one)
    notes = [
        "Thousands of steps: the median over seeds and in brackets their quartiles; the same number of updates comes with"
        " them in every method, and AdaRL+ imagines as many steps beside them. Bold: the lowest median.",
        f"The ceiling is the highest mean return on the sources that any method had at any evaluation: {', '.join(ceilings)}"
        ". Never: more than half of the seeds did not arrive. The oracle is not trained in the sources.",
    ]
    return Sheet("learning", TITLE, [*map(method_name, methods)], lines, notes)


def raw(families: Mapping[str, Curves]) -> Iterator[list[object]]:
    """One line a seed: family, method, seed, and its steps, empty where it did not arrive."""
    for family, curves in families.items():
        for method, speed in speeds(curves).items():
            for seed, steps in enumerate(speed.steps):
                yield [family, method, seed, int(steps) if np.isfinite(steps) else ""]


def _text(speed: Speed | None, fastest: float) -> Text:
    if speed is None:
        return Text(EMPTY)
    low, middle, high = (speed.quantile(share) for share in (0.25, 0.5, 0.75))
    spread = "" if np.isinf(low) else f"[{_thousands(low)}, {_thousands(high)}]"
    return Text(_thousands(middle), spread, bold=bool(np.isfinite(middle)) and middle == fastest)


def _thousands(steps: float) -> str:
    return "never" if np.isinf(steps) else f"{steps / 1000:,.0f}"
