"""The report of one run as one HTML file: what changed, where, and how the agent adapts.

In: `summary`, the JSON-able dict of one run. Out: a page that loads nothing from anywhere, so that it can be
kept, sent and read on a phone. Every number is computed here or in `figures.py`; `page.html` only sets them.
"""

import os
import shlex
from math import floor, isfinite, log10
from pathlib import Path
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from adarl.report import figures
from adarl.report.figures import Row, Summary


class Cell(NamedTuple):
    """One method on one row of the table."""

    text: str
    best: bool
    seeds: int


def write(summary: Summary, path: Path) -> Path:
    """The page at `path`, whole or not at all: a reader never sees half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(render(summary), encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def render(summary: Summary) -> str:
    """The page as text."""
    found = figures.rows(summary)
    plots = {
        "theta": figures.theta(summary),
        "scores": figures.scores(summary),
        "curves": figures.curves(summary),
    }
    plots = {name: figure for name, figure in plots.items() if figure.data}
    parts = ("s_min", "theta_min")
    page = Environment(loader=PackageLoader("adarl", "report"), autoescape=True, undefined=StrictUndefined)
    return page.get_template("page.html").render(
        summary=summary,
        sentence=sentence(summary),
        findings=findings(summary),
        graph=Markup(figures.graph_svg(summary)),
        kept={part: [name for name, kept in summary[part].items() if kept] for part in parts},
        methods=_scored(summary),
        table=[(row, cells(row, summary)) for row in found],
        seeds=max((len(values) for row in found for values in row.cells.values()), default=0),
        plots={name: _json(figure) for name, figure in plots.items()},
        heights={name: figure["layout"]["height"] for name, figure in plots.items()},
        plotly=Markup(get_plotlyjs()),
        command=f"adarl run {shlex.quote(summary['family'])} --seed {summary['seed']}",
        number=number,
        place=place,
        method_name=figures.method_name,
        samples_name=figures.samples_name,
    )


def sentence(summary: Summary) -> str:
    """The result: what the first of our methods reaches on the targets, after the samples it lists first."""
    count = sum(domain["kind"] == "source" for domain in summary["domains"])
    trained = f"Trained on {_varied(summary['factors'], count)}"
    scored = list(dict.fromkeys(method for row in figures.rows(summary) for method in _means(row)))
    if not scored:
        return f"{trained}; no target has been scored yet."
    ours = next((method for method in scored if method.startswith("adarl")), scored[0])
    found = [row for row in figures.rows(summary) if row.cells.get(ours)]
    found = [row for row in found if row.samples == found[0].samples]
    who = "the agent" if len(scored) == 1 else figures.method_name(ours)
    again = ", without training the policy again" if ours.startswith("adarl") else ""
    return f"{trained}, {who} {_reached(found, ours, summary)}{_after(found, ours)}{again}."


def findings(summary: Summary) -> list[str]:
    """How closely a dimension of theta follows each factor."""
    return [
        f"{panel.theta} against {panel.factor}: |Pearson r| {_correlation(panel.pearson)},"
        f" |Spearman| {_correlation(panel.spearman)} over {len(panel.points)} domains."
        for panel in figures.panels(summary)
    ]


def cells(row: Row, summary: Summary) -> list[Cell]:
    """Mean ± standard deviation over the seeds for every method; the best mean of several is marked."""
    means = _means(row)
    best = max(means.values(), default=float("nan"))
    found = []
    for method in _scored(summary):
        values = row.cells.get(method, [])
        text = number(means.get(method), summary["score_cap"])
        if len(values) > 1:
            text += f" ± {_deviation(float(np.std(values, ddof=1)), text)}"
        found.append(Cell(text, len(means) > 1 and means.get(method) == best, len(values)))
    return found


def number(value: float | None, cap: float | None = None) -> str:
    """Three digits, or all before the point. What lies below the cap is never rounded up to it."""
    if value is None or not isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    if cap is not None and value < cap and text == number(cap):
        scale = 10.0 ** max(0, 2 - floor(log10(abs(value))))
        return number(floor(value * scale) / scale)
    return text.replace("-", "−")


def place(factors: dict[str, float]) -> str:
    """`gravity 15 with mass 1`."""
    return " with ".join(f"{name} {number(value)}" for name, value in factors.items())


def _scored(summary: Summary) -> list[str]:
    return list(dict.fromkeys(entry["method"] for entry in summary["scores"]))


def _means(row: Row) -> dict[str, float]:
    return {method: float(np.mean(values)) for method, values in row.cells.items() if values}


def _deviation(value: float, mean: str) -> str:
    """As many decimals as the mean shows: 9,569 ± 95, not ± 94.6. A short whole mean says nothing of them."""
    whole, _, decimals = mean.partition(".")
    return f"{value:,.{len(decimals)}f}" if decimals or len(whole) > 2 else number(value)


def _varied(factors: list[str], count: int) -> str:
    """`5 values of gravity`, `25 pairs of gravity and mass`."""
    if count == 1:
        return f"1 source ({_listed(factors)})"
    kind = {1: "values", 2: "pairs"}.get(len(factors), "combinations")
    return f"{count} {kind} of {_listed(factors)}" if factors else f"{count} sources"


def _reached(found: list[Row], method: str, summary: Summary) -> str:
    """`survives 10,000 of 10,000 steps at gravity 15 and 9,998 at gravity 55`, or a range if many."""
    cap, name = summary["score_cap"], summary["score_name"]
    limit = "" if cap is None else f" of {number(cap)}"
    # A count of things survived reads best with its verb; every other score is a name and a value.
    unit = name.removesuffix(" survived")
    verb, unit = (f"reaches {name} ", "") if unit == name else ("survives ", f" {unit}")
    means = [number(_means(row)[method], cap) for row in found]
    if len(found) > 3:
        ordered = sorted(_means(row)[method] for row in found)
        low, high = number(ordered[0], cap), number(ordered[-1], cap)
        return f"{verb}{low} to {high}{limit}{unit} over {len(found)} targets"
    places = [f"at {place(row.factors)}" if row.factors else f"on {row.target}" for row in found]
    parts = [f"{mean} {where}" for mean, where in zip(means, places, strict=True)]
    parts[0] = f"{means[0]}{limit}{unit} {places[0]}"
    return verb + _listed(parts)


def _after(found: list[Row], method: str) -> str:
    """`after 50 sampled steps (mean of 3 seeds)`."""
    seeds = max(len(row.cells[method]) for row in found)
    mean = f" (mean of {seeds} seeds)" if seeds > 1 else ""
    count, _, unit = figures.samples_name(found[0].samples).partition(" ")
    if not unit:
        return mean
    return f" after {count} {'' if unit == 'samples' else 'sampled '}{unit}{mean}"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""


def _correlation(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else "not defined"


def _json(figure: go.Figure) -> Markup:
    """Safe inside a script element: no character of it can end one."""
    text = str(figure.to_json())
    for character in "&<>":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
