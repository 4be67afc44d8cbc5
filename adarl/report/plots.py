"""Figures for files: what `figures` draws for a page is drawn here for paper, as PNG and SVG.

In: a `Table`, learning curves, or `summary`, the JSON-able dict of one run. Out: Matplotlib figures, without pyplot's state.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from scipy.interpolate import PchipInterpolator

from adarl.evaluate import statistics
from adarl.report.figures import BLUE, GREY, ORANGE, PALETTE, Panel, Summary, looks, panels
from adarl.report.tables import METRICS, Table
from adarl.report.words import amount, method_name, samples_name

Curve = tuple[Sequence[float], Float[np.ndarray, "seed evaluation"]]
"""Updates, and the score of every seed at each of them; NaN where there is none."""
Ends = dict[str, float]
"""How high each node of a time slice stands."""
DASHES = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (3, 1)),
    (0, (1, 1)),
    (0, (6, 1, 2, 1)),
    (0, (4, 4)),
    (0, (2, 2)),
)
NUMBERS = ((ORANGE, "D", 9.0), (PALETTE[2], "s", 6.5), (PALETTE[3], "^", 4.5), (PALETTE[4], "o", 3.0))
"""Colour, marker and size for each number of samples: they often fall on one point, so each fits into the one before."""
NODE, APART = 1.6, 4.0
"""Width of a node of the graph, and from one time slice to the next."""
SMALLEST = 1e-12
"""A p-value that is drawn; smaller ones look like it."""
LOOK: Any = {
    "font.size": 9,
    "text.parse_math": False,  # names are the user's own: a dollar is a dollar
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "grid.color": GREY,
    "grid.alpha": 0.2,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "adarl",  # the same figure, the same file
}


def images(figure: Figure) -> dict[str, bytes]:
    """The figure as PNG and as SVG, by ending."""
    png, svg = io.BytesIO(), io.BytesIO()
    with mpl.rc_context(LOOK):
        figure.savefig(png, format="png", dpi=200)
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return {"png": png.getvalue(), "svg": svg.getvalue()}


@mpl.rc_context(LOOK)
def intervals(table: Table) -> Figure:
    """The four aggregates of every method with their 95% intervals, in units of the oracle's mean."""
    shown = list(_styles(method for method in table.grid.methods if method in table.aggregates))
    figure = Figure(figsize=(9, 0.9 + 0.3 * len(shown)))
    axes = figure.subplots(1, len(METRICS), sharey=True, squeeze=False)[0]
    for ax, metric in zip(axes, METRICS, strict=True):
        for y, (method, colour, _) in enumerate(shown):
            value, low, high = table.aggregates[method][metric]
            ax.barh(y, high - low, left=low, height=0.62, color=colour, alpha=0.35)
            ax.plot([value, value], [y - 0.31, y + 0.31], color=colour, linewidth=2)
            ax.annotate(f"{value:.3f}", (high, y), (4, 0), textcoords="offset points", va="center", fontsize=7)
        ax.use_sticky_edges = False
        left, right = ax.get_xlim()
        ax.set_xlim(left, right + 0.25 * (right - left))  # room for the figures
        ax.set_title(f"{metric} (less is better)" if metric == "optimality gap" else metric, fontsize=9)
        ax.grid(axis="y", visible=False)
        ax.locator_params(axis="x", nbins=4)
    axes[0].set_yticks(range(len(shown)), [method_name(method) for method, _, _ in shown])
    axes[0].invert_yaxis()
    figure.supxlabel("score divided by the oracle's mean", fontsize=9)
    return figure


@mpl.rc_context(LOOK)
def profiles(table: Table) -> Figure:
    """The share of runs above every score: a line further up or right is better."""
    figure = Figure(figsize=(6.4, 3.6))
    ax = figure.subplots()
    highest = max((scores.max() for scores in table.normalised.values()), default=1.0)
    at = np.linspace(0.0, 1.02 * highest, 500)
    for method, colour, dash in _styles(method for method in table.grid.methods if method in table.normalised):
        share = statistics.profile(table.normalised[method], at)
        ax.plot(at, share, color=colour, linestyle=dash, linewidth=1.8, label=method_name(method))
    ax.set(xlabel="score divided by the oracle's mean", ylabel="share of runs above", ylim=(-0.02, 1.02), xlim=(0, at[-1]))
    figure.legend(loc="outside right center")
    return figure


@mpl.rc_context(LOOK)
def curves(found: Mapping[str, Curve], cap: float | None = None) -> Figure:
    """Scores on the sources while the policy learns: the median over seeds, and a band from 10 to 90%.

    A panel a method, because many bands hide each other; the medians of the others are grey.
    """
    bands = {method: _band(*curve) for method, curve in found.items()}
    columns = min(4, max(1, len(bands)))
    rows = max(1, -(-len(bands) // columns))
    figure = Figure(figsize=(0.8 + 2.3 * columns, 0.5 + 1.9 * rows))
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, (method, colour, _) in zip(axes, _styles(bands), strict=False):
        for x, _, middle, _ in bands.values():
            ax.plot(x, middle, color=GREY, linewidth=0.8, alpha=0.6)
        x, low, middle, high = bands[method]
        ax.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)
        ax.plot(x, middle, color=colour, linewidth=2)
        ax.set_title(method_name(method), fontsize=9)
        if cap is not None:
            ax.axhline(cap, color=GREY, linewidth=1, linestyle=":")
        ax.locator_params(axis="x", nbins=4)
        ax.tick_params(labelbottom=True)  # of the panels above an empty place, too
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set_major_formatter("{x:,.0f}")
    axes[0].set_ylim(0, None)
    for ax in axes[len(bands) :]:
        ax.axis("off")
    figure.supxlabel("updates of the policy", fontsize=9)
    figure.supylabel("return in a short evaluation", fontsize=9)
    return figure


@mpl.rc_context(LOOK)
def theta(summary: Summary) -> Figure:
    """Theta against each factor; below it, ± one sd, how far each target's theta is from that of the most samples."""
    shown = panels(summary)
    figure = Figure(figsize=(4.6 * max(1, len(shown)), 4.8))
    axes = figure.subplots(2, max(1, len(shown)), squeeze=False, height_ratios=(3, 2))
    for (above, below), panel in zip(axes.T, shown, strict=False):
        _sources(above, panel)
        _targets(above, below, panel)
        above.set(xlabel=panel.factor, ylabel=panel.theta)
    if shown:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2 * len(shown))
    return figure


@mpl.rc_context(LOOK)
def graph(summary: Summary) -> Figure:
    """The graph over two time slices: causes at t-1 on the left, effects at t on the right.

    What the policy sees is filled. The likelier an edge, the wider it is; what was not kept is not drawn.
    """
    states, edges = summary["state_names"], [edge for edge in summary["edges"] if edge["hard"]]
    kept = {name for part in ("s_min", "theta_min") for name, keep in summary[part].items() if keep}
    causes = _heights(states, [*(edge["source"] for edge in summary["edges"]), *summary["theta_min"]])
    effects = _heights(states, [edge["target"] for edge in summary["edges"]])
    lowest = min([0.0, *causes.values(), *effects.values()])
    figure = Figure(figsize=(APART + NODE, 1.2 - lowest))
    ax = figure.subplots()
    ax.set(xlim=(-0.05, APART + NODE + 0.05), ylim=(lowest - 0.55, 0.65), aspect="equal")
    ax.axis("off")
    legend = "filled: s_min and theta_min, what the policy sees; wider: likelier"
    ax.text((APART + NODE) / 2, lowest - 0.45, legend, ha="center", fontsize=7)
    colours = dict.fromkeys(states, GREY) | dict.fromkeys(summary["theta_min"], BLUE)
    starts, ends = _ports(edges, "source", causes, effects), _ports(edges, "target", effects, causes)
    for edge, start, end in zip(edges, starts, ends, strict=True):
        colour, prob = colours.get(edge["source"], ORANGE), edge.get("prob")
        points = [(NODE, start), ((NODE + APART) / 2, start), ((NODE + APART) / 2, end), (APART, end)]
        path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        width = 0.4 + (1.0 if prob is None else prob)
        ax.add_patch(FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=7, color=colour, linewidth=width))
    for x, moment, heights, other in ((0.0, "t − 1", causes, ORANGE), (APART, "t", effects, GREY)):
        ax.text(x + NODE / 2, 0.5, moment, ha="center", va="center", style="italic")
        for name, y in heights.items():
            _node(ax, name, x, y, colours.get(name, other), name in kept)
    return figure


@mpl.rc_context(LOOK)
def tests(found: Mapping[str, float], rate: float) -> Figure:
    """Holm's p-value of every test by name, on a logarithmic scale: the further right, the surer the dependence."""
    figure = Figure(figsize=(7, 0.9 + 0.24 * len(found)))
    ax = figure.subplots()
    sureness = -np.log10(np.maximum(list(found.values()), SMALLEST))
    ax.barh(range(len(found)), sureness, height=0.62, color=[ORANGE if s >= -np.log10(rate) else GREY for s in sureness])
    ax.axvline(-np.log10(rate), color=BLUE, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(found)), list(found))
    ax.set_xticks(ticks := range(0, 1 + round(-np.log10(SMALLEST)), 2), [f"1e-{tick}" if tick else "1" for tick in ticks])
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()
    ax.set_xlabel(f"p after Holm's correction; beyond the line (p at most {rate:g}) the domain shows")
    return figure


def _styles(methods: Iterable[str]) -> Iterator[tuple[str, str, Any]]:
    """Each method with its colour and dash."""
    return ((method, PALETTE[i], DASHES[i]) for method, i in looks(methods).items())


def _band(updates: Sequence[float], scores: Float[np.ndarray, "seed evaluation"]) -> list[np.ndarray]:
    """Updates, 10%, median and 90%, over the seeds with a score there."""
    there = np.isfinite(scores).any(axis=0)
    return [np.asarray(updates, float)[there], *np.nanquantile(scores[:, there], (0.1, 0.5, 0.9), axis=0)]


def _sources(ax: Axes, panel: Panel) -> None:
    """Circles, and a line from mean to mean that turns where they do."""
    points = [(x, y) for domain, x, y in panel.points if domain["kind"] == "source"]
    at = sorted({x for x, _ in points})
    if len(at) > 1:
        means = [np.mean([y for x, y in points if x == value]) for value in at]
        between = np.linspace(at[0], at[-1], 200)
        ax.plot(between, PchipInterpolator(at, means)(between), color=GREY, linewidth=1)
    ax.plot([x for x, _ in points], [y for _, y in points], "o", color=BLUE, markersize=5, label="sources")


def _targets(above: Axes, below: Axes, panel: Panel) -> None:
    """Targets beside the sources, and how their theta settles as samples grow: it is too little to be seen above."""
    points = [(domain, x, y) for domain, x, y in panel.points if domain["kind"] == "target"]
    names = list(dict.fromkeys(domain["name"] for domain, _, _ in points))
    numbers = sorted({str(domain.get("samples") or "") for domain, _, _ in points}, key=amount)
    final = {domain["name"]: y for domain, _, y in sorted(points, key=lambda point: amount(point[0].get("samples")))}
    for i, samples in enumerate(numbers):
        colour, marker, size = NUMBERS[i % len(NUMBERS)]
        here = [point for point in points if str(point[0].get("samples") or "") == samples]
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none"}
        above.plot([x for _, x, _ in here], [y for _, _, y in here], **look, markersize=size, label=samples_name(samples))
        x = [names.index(domain["name"]) + 0.18 * (i - (len(numbers) - 1) / 2) for domain, _, _ in here]
        gap = [y - final[domain["name"]] for domain, _, y in here]
        sd = [(domain.get("theta_sd") or {}).get(panel.theta, np.nan) for domain, _, _ in here]
        below.errorbar(x, gap, yerr=sd, **look, markersize=4, capsize=3, linewidth=1)
    every = np.asarray([(x, y) for _, x, y in panel.points])
    middle = (every[:, 0].min() + every[:, 0].max()) / 2
    rising = np.dot(*(every - every.mean(axis=0)).T) > 0
    for name, x in {domain["name"]: x for domain, x, _ in points}.items():
        # Off the line and towards the middle of the panel.
        left, above_line = x > middle, rising == (x > middle)
        offset, side = (-6 if left else 6, 7 if above_line else -12), "right" if left else "left"
        note = above.annotate(name, (x, final[name]), offset, textcoords="offset points", ha=side, fontsize=8)
        note.set_path_effects([withStroke(linewidth=3, foreground="white")])
    above.margins(0.1, 0.18)
    below.axhline(0.0, color=GREY, linewidth=1)
    below.set_xticks(range(len(names)), names)
    last = samples_name(numbers[-1]) if numbers else ""
    below.set(ylabel=f"difference from\nthat of {last}", xlim=(-0.5, max(0.5, len(names) - 0.5)))
    below.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    below.grid(axis="x", visible=False)


def _heights(states: Sequence[str], others: Iterable[str]) -> Ends:
    """The states first, the same on both sides, then a gap, then what stands beside them."""
    names = dict.fromkeys([*states, *others])
    return {name: -0.5 * i - 0.2 * (i >= len(states)) for i, name in enumerate(names)}


def _ports(edges: list[dict], side: str, here: Ends, there: Ends) -> list[float]:
    """Where each edge meets its node on this side: ordered by the far ends, so that no two share a point."""
    other = {"source": "target", "target": "source"}[side]
    counts, seen, ports = Counter(edge[side] for edge in edges), Counter(), [0.0] * len(edges)
    for i in sorted(range(len(edges)), key=lambda i: -there[edges[i][other]]):
        name = edges[i][side]
        ports[i] = here[name] + ((counts[name] - 1) / 2 - seen[name]) * min(0.07, 0.26 / counts[name])
        seen[name] += 1
    return ports


def _node(ax: Axes, name: str, x: float, y: float, colour: str, kept: bool) -> None:
    shape: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.17", "edgecolor": colour, "linewidth": 1.2}
    ax.add_patch(FancyBboxPatch((x, y - 0.17), NODE, 0.34, facecolor=f"{colour}30" if kept else "white", **shape))
    short = name if len(name) < 24 else f"{name[:12]}…{name[-9:]}"
    ax.text(x + NODE / 2, y, short, ha="center", va="center", fontsize=8)
