"""The report of one run as one HTML file: what changed, where, and how the agent adapts.

In: `summary`, the JSON-able dict of one run. Out: a page that loads nothing from anywhere, so that it can be
kept, sent and read on a phone. Every number is computed in this folder's modules; `page.html` only sets them.
"""

import os
import shlex
from math import isfinite
from pathlib import Path

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from adarl.report import animation, comparison, figures, graph, pictures, words
from adarl.report.comparison import means, ours
from adarl.report.reading import Row, Summary, few, panels, rows
from adarl.report.words import listed, method_name, number, place, samples_name


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
    found, tested = rows(summary), comparison.tests(summary)
    plots = {
        "theta": figures.theta(summary),
        "adaptation": figures.adaptation(summary),
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
        entrances=entrances(summary),
        verdicts=comparison.verdicts(summary, tested),
        graph=Markup(graph.draw(summary)),
        kept={part: [name for name, kept in summary[part].items() if kept] for part in parts},
        methods=comparison.scored(summary),
        ours=ours(summary),
        table=[(row, comparison.cells(row, summary, tested)) for row in found],
        tested=tested,
        seeds=max((len(values) for row in found for values in row.cells.values()), default=0),
        clips=animation.clips(summary),
        strips=pictures.strips(summary),
        seen=pictures.said(summary),
        plots={name: _json(figure) for name, figure in plots.items()},
        heights={name: figure["layout"]["height"] for name, figure in plots.items()},
        plotly=Markup(get_plotlyjs()),
        command=summary.get("command", f"adarl run {shlex.quote(summary['family'])} --seed {summary['seed']}"),
        chance=comparison.chance,
        fewest=comparison.FEWEST,
        words=words,
    )


def sentence(summary: Summary) -> str:
    """The result: what our method reaches on the targets, after the fewest samples."""
    count = sum(domain["kind"] == "source" for domain in summary["domains"])
    trained = f"Trained on {_varied(summary['factors'], count)}"
    us = ours(summary)
    if us is None:
        return f"{trained}; no target has been scored yet."
    found = few(row for row in rows(summary) if row.cells.get(us))
    found = [row for row in found if row.samples == found[0].samples]
    alone = len({method for row in rows(summary) for method in means(row)}) == 1
    who = "the agent" if alone else method_name(us)
    again = ", without training the policy again" if us.startswith("adarl") else ""
    return f"{trained}, {who} {_reached(found, us, summary)}{_after(found, us)}{again}."


def findings(summary: Summary) -> list[str]:
    """How closely a dimension of theta follows each factor."""
    return [
        f"{panel.theta} against {panel.factor}: |Pearson r| {_correlation(panel.pearson)},"
        f" |Spearman| {_correlation(panel.spearman)} over {panel.domains} domains."
        for panel in panels(summary)
    ]


def entrances(summary: Summary) -> list[str]:
    """Where each change enters: `theta_s_1, which follows gravity, enters x_dot and angle_dot.`"""
    said = []
    for name, kept in summary["theta_min"].items():
        into = [edge["target"] for edge in summary["edges"] if edge["hard"] and edge["source"] == name]
        factors = [panel.factor for panel in panels(summary) if panel.theta == name]
        if into and (kept or factors):
            follows = f", which follows {listed(factors)}," if factors else ""
            said.append(f"{name}{follows} enters {listed(into)}{'' if kept else '; the policy need not know it'}.")
    return said


def _varied(factors: list[str], count: int) -> str:
    """`5 values of gravity`, `25 pairs of gravity and mass`."""
    if count == 1:
        return f"1 source ({listed(factors)})"
    kind = {1: "values", 2: "pairs"}.get(len(factors), "combinations")
    return f"{count} {kind} of {listed(factors)}" if factors else f"{count} sources"


def _reached(found: list[Row], method: str, summary: Summary) -> str:
    """`survives 10,000 of 10,000 steps at gravity 15 and 9,998 at gravity 55`, or a range if many."""
    cap, name = summary["score_cap"], summary["score_name"]
    limit = "" if cap is None else f" of {number(cap)}"
    # A count of things survived reads best with its verb; every other score is a name and a value.
    unit = name.removesuffix(" survived")
    verb, unit = (f"reaches {name} ", "") if unit == name else ("survives ", f" {unit}")
    reached = [number(means(row)[method], cap) for row in found]
    if len(found) > 3:
        ordered = sorted(means(row)[method] for row in found)
        low, high = number(ordered[0], cap), number(ordered[-1], cap)
        return f"{verb}{low} to {high}{limit}{unit} over {len(found)} targets"
    places = [f"at {place(row.factors)}" if row.factors else f"on {row.target}" for row in found]
    parts = [f"{mean} {where}" for mean, where in zip(reached, places, strict=True)]
    parts[0] = f"{reached[0]}{limit}{unit} {places[0]}"
    return verb + listed(parts)


def _after(found: list[Row], method: str) -> str:
    """`after 50 sampled steps (mean of 3 seeds)`."""
    seeds = max(len(row.cells[method]) for row in found)
    mean = f" (mean of {seeds} seeds)" if seeds > 1 else ""
    count, _, unit = samples_name(found[0].samples).partition(" ")
    if not unit:
        return mean
    return f" after {count} sampled {unit}{mean}"


def _correlation(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else "not defined"


def _json(figure: go.Figure) -> Markup:
    """Safe inside a script element: no character of it can end one."""
    text = str(figure.to_json())
    for character in "&<>":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
