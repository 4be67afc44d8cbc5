"""The figures of a report: what changed (theta), where (the graph), how it adapts (scores and curves).

In: `summary`, the JSON-able dict of one run. Out: plotly figures and one SVG, of the graph of Eq. 1. Colours
hold on a light and on a dark page; text and nodes take theirs from the page's style sheet. Names are the
user's own and are escaped here: plotly, too, reads some HTML in its texts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import cycle
from typing import Any, Literal, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

Summary = dict[str, Any]

BLUE, ORANGE, GREY = "#3a80c4", "#cf701c", "#7d858e"
PALETTE = (BLUE, ORANGE, "#2a9768", "#976bd1", "#d4506a", "#1b90a3", "#878426", GREY)
"""Middle tones: each has a contrast of 3 or more against both pages."""
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "pentagon", "x", "hexagon")
RULE = "rgba(128, 134, 142, 0.28)"
CAP = {"color": GREY, "width": 1, "dash": "dot"}
METHODS = {"adarl": "AdaRL", "adarl_plus": "AdaRL+", "adarl_star": "AdaRL*", "non_t": "Non-t"}
WIDTH, NODE = 440, 132  # of the graph and of a node, legible when a phone draws them at 0.8 of their size


class Panel(NamedTuple):
    """One factor, the dimension of theta_min that follows it best, and how closely over all domains."""

    factor: str
    theta: str
    points: list[tuple[dict, Any, Any]]
    """Domain, value of the factor, value of theta."""
    pearson: float
    spearman: float


class Row(NamedTuple):
    """A target after some samples, with the scores of every seed by method."""

    target: str
    factors: dict[str, float]
    samples: Any
    cells: dict[str, list[float]]


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """|r|, or NaN for fewer than two points or a constant side."""
    flat = len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0
    return float("nan") if flat else min(1.0, float(abs(np.corrcoef(x, y)[0, 1])))


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """|Spearman's rank correlation|: Pearson's on the ranks, ties at their mean rank."""
    return pearson(_ranks(x), _ranks(y))


def panels(summary: Summary) -> list[Panel]:
    """For each factor the dimension of theta_min with the highest rank correlation."""
    names = [name for name, kept in summary["theta_min"].items() if kept]
    found = []
    for factor in summary["factors"]:
        options = [option for name in names if (option := _panel(summary["domains"], factor, name)).points]
        if options:
            found.append(max(options, key=lambda option: np.nan_to_num(option.spearman, nan=-1.0)))
    return found


def rows(summary: Summary) -> list[Row]:
    """The scores by target and samples, in the order of the summary, without those that are not finite."""
    found: dict[tuple, Row] = {}
    for entry in summary["scores"]:
        factors, samples = entry.get("factors") or {}, entry.get("samples")
        key = (entry["target"], tuple(factors.items()), samples)
        row = found.setdefault(key, Row(entry["target"], factors, samples, {}))
        row.cells.setdefault(entry["method"], []).extend(filter(_is_finite, entry["scores"]))
    return list(found.values())


def styles(summary: Summary) -> Iterator[tuple[str, str, str]]:
    """Every method with scores or curves, in the order of the summary, with its colour and symbol."""
    names = [entry["method"] for entry in summary["scores"]] + list(summary["curves"])
    return zip(dict.fromkeys(names), cycle(PALETTE), cycle(SYMBOLS), strict=False)


def method_name(method: str) -> str:
    """How a method is written for a reader."""
    return METHODS.get(method, method.replace("_", " "))


def samples_name(samples: Any) -> str:
    """`50steps` is written `50 steps`, `10000` is written `10,000 samples`."""
    text = "" if samples is None else str(samples)
    unit = text.lstrip("0123456789")
    return f"{int(text.removesuffix(unit)):,} {unit.strip() or 'samples'}" if unit != text else text


def theta(summary: Summary) -> go.Figure:
    """Theta against the factor: sources as circles, targets as diamonds with one standard deviation."""
    shown = panels(summary)
    count = max(1, len(shown))
    # Panels stand below each other, because two side by side are too narrow for a phone.
    figure = make_subplots(rows=count, cols=1, vertical_spacing=0.3 / count)
    for i, panel in enumerate(shown, start=1):
        for trace in (_line(panel), _points(panel, "source"), _points(panel, "target")):
            figure.add_trace(trace.update(showlegend=i == 1 and bool(trace.name)), row=i, col=1)
        figure.update_xaxes(title_text=_plain(panel.factor), row=i, col=1)
        figure.update_yaxes(title_text=_plain(panel.theta), row=i, col=1)
    return _calm(figure, 50 + 310 * count)


def curves(summary: Summary) -> go.Figure:
    """Scores on the sources while the policy learns: the median over seeds, and a band from 10 to 90%."""
    figure = go.Figure()
    for method, colour, _ in styles(summary):
        x, low, median, high = _quantiles(summary["curves"].get(method, {"updates": [], "score": []}))
        shared = {"mode": "lines", "name": _plain(method_name(method)), "legendgroup": method}
        if low != high:
            fill = {"fillcolor": f"rgba{(*bytes.fromhex(colour[1:]), 0.18)}", "line": {"width": 0}}
            band = {"x": x + x[::-1], "y": high + low[::-1], "hoverinfo": "skip", "showlegend": False}
            figure.add_scatter(**band, **fill, **shared, fill="toself")
        if x:
            figure.add_scatter(x=x, y=median, line={"color": colour, "width": 2.5}, **shared)
    figure.update_xaxes(title_text="updates of the policy")
    figure.update_yaxes(title_text="return in a short evaluation", rangemode="tozero")
    return _calm(figure, 360)


def scores(summary: Summary) -> go.Figure:
    """Every seed's score as a point: a row per target and samples, a lane per method, a bar at the mean."""
    figure, found = go.Figure(), rows(summary)
    shown = [style for style in styles(summary) if any(row.cells.get(style[0]) for row in found)]
    width = 0.8 / max(1, len(shown))
    for lane, style in enumerate(shown):
        figure.add_traces(_lane(found, style, (lane - (len(shown) - 1) / 2) * width, width))
    for i in range(1, len(found)):
        figure.add_hline(y=i - 0.5, line={"color": RULE, "width": 1})
    if summary["score_cap"] is not None:
        figure.add_vline(x=summary["score_cap"], line=CAP)
    labels = [f"{_plain(row.target)}<br>{_plain(samples_name(row.samples))}" for row in found]
    figure.update_yaxes(tickvals=list(range(len(found))), ticktext=labels)
    figure.update_yaxes(range=[len(found) - 0.5, -0.5], showgrid=False)
    figure.update_xaxes(title_text=_plain(summary["score_name"]), rangemode="tozero", nticks=6)
    return _calm(figure, 110 + len(found) * max(52, 18 * len(shown) + 12))


def graph_svg(summary: Summary) -> str:
    """The graph over two time slices: causes at t-1 on the left, effects at t on the right."""
    states, edges = summary["state_names"], [edge for edge in summary["edges"] if edge["hard"]]
    kept = {name for part in ("s_min", "theta_min") for name, keep in summary[part].items() if keep}
    # Heights of the nodes. A state has the same on both sides, so that an edge to itself is level.
    causes = [*(edge["source"] for edge in summary["edges"]), *summary["theta_min"]]
    effects = [edge["target"] for edge in summary["edges"]]
    y = {"source": _column(states, causes), "target": _column(states, effects)}
    starts, ends = _ports(edges, "source", "target", y), _ports(edges, "target", "source", y)
    colours = dict.fromkeys(summary["theta_min"], BLUE) | dict.fromkeys(states, GREY)
    drawn = zip(edges, starts, ends, strict=True)
    body = [_edge(edge, colours.get(edge["source"], ORANGE), start, end) for edge, start, end in drawn]
    for end, x, moment in (("source", 1, "t − 1"), ("target", WIDTH - 1 - NODE, "t")):
        body.append(f'<text class="slice" x="{x + NODE / 2}" y="14">{moment}</text>')
        body += [_node(name, x, height, name in kept) for name, height in y[end].items()]
    height = max([60, *y["source"].values(), *y["target"].values()]) + 18
    about = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Graph with {len(edges)} edges"'
    return f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" {about}>{"".join(body)}</svg>'


def _plain(name: Any) -> str:
    """A name as text, whatever it holds: plotly decodes the entities and sees no tag."""
    return escape(str(name), quote=False)


def _is_finite(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def _ranks(values: Sequence[float]) -> list[float]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse].tolist()


def _panel(domains: Iterable[dict], factor: str, name: str) -> Panel:
    every: list[tuple[dict, Any, Any]] = [(d, d["factors"].get(factor), d["theta"].get(name)) for d in domains]
    points = [point for point in every if _is_finite(point[1]) and _is_finite(point[2])]
    x, y = [x for _, x, _ in points], [y for _, _, y in points]
    return Panel(factor, name, points, pearson(x, y), spearman(x, y))


def _points(panel: Panel, kind: Literal["source", "target"]) -> go.Scatter:
    shown = [point for point in panel.points if point[0]["kind"] == kind]
    names = [domain["name"] for domain, _, _ in shown]
    hover = [f"{domain['name']} {samples_name(domain.get('samples'))}" for domain, _, _ in shown]
    sd = [(domain.get("theta_sd") or {}).get(panel.theta) for domain, _, _ in shown]  # NaN: no bar
    colour, symbol = (BLUE, "circle") if kind == "source" else (ORANGE, "diamond")
    x, y = [x for _, x, _ in shown], [y for _, _, y in shown]
    trace = go.Scatter(x=x, y=y, name=f"{kind}s", mode="markers", cliponaxis=False, marker={"size": 11})
    trace.update(marker={"color": colour, "symbol": symbol}, customdata=[_plain(text) for text in hover])
    trace.update(hovertemplate="%{customdata}<br>%{x}, %{y:.3f}<extra></extra>")
    trace.update(error_y={"array": sd, "color": colour, "thickness": 1.5, "width": 5})
    if kind == "target":
        # One name a target, though it may stand there once for every number of samples.
        text = [_plain(name) if names.index(name) == i else "" for i, name in enumerate(names)]
        furthest = max(x for _, x, _ in panel.points)
        side = ["bottom left" if value == furthest else "bottom right" for value in x]  # within the frame
        trace.update(mode="markers+text", text=text, textposition=side)
    return trace


def _line(panel: Panel) -> go.Scatter:
    """Straight through the sources where |r| > 0.99, and on to the targets; else from mean to mean."""
    sources = [(x, y) for domain, x, y in panel.points if domain["kind"] == "source"]
    x, y = [x for x, _ in sources], [y for _, y in sources]
    at = sorted(set(x))
    height = [float(np.mean([b for a, b in sources if a == value])) for value in at]
    if pearson(x, y) > 0.99:
        slope, start = np.polyfit(x, y, 1)
        at = [bound(value for _, value, _ in panel.points) for bound in (min, max)]
        height = [float(start + slope * value) for value in at]
    return go.Scatter(x=at, y=height, mode="lines", line={"color": GREY}, hoverinfo="skip")


def _quantiles(curve: dict) -> list[list[float]]:
    """Updates, 10%, median and 90%, over the seeds with a finite score there."""
    columns = []
    for i, update in enumerate(curve["updates"]):
        values = [seed[i] for seed in curve["score"] if i < len(seed) and _is_finite(seed[i])]
        if values:
            columns.append((update, *np.quantile(values, (0.1, 0.5, 0.9)).tolist()))
    return [[column[j] for column in columns] for j in range(4)]


def _lane(found: list[Row], style: tuple[str, str, str], offset: float, width: float) -> list[go.Scatter]:
    """The points of one method, spread over its lane so that equal scores stay visible, and their means."""
    method, colour, symbol = style
    cells = [(i + offset, row.cells[method]) for i, row in enumerate(found) if row.cells.get(method)]
    # Multiples of the golden ratio fill the lane evenly for any number of seeds; the first is in the middle.
    spread = [(y, i * 0.618 + 0.5, value) for y, values in cells for i, value in enumerate(values)]
    x, y = [value for _, _, value in spread], [y + 0.6 * width * (at % 1 - 0.5) for y, at, _ in spread]
    marker = {"color": colour, "symbol": symbol, "size": 8, "opacity": 0.7}
    bar = {"symbol": "line-ns", "size": 9, "line": {"color": colour, "width": 3}}
    means = [(float(np.mean(values)), y) for y, values in cells if len(values) > 1]
    shared = {"mode": "markers", "hovertemplate": "%{x:,.1f}", "name": _plain(method_name(method))}
    return [
        go.Scatter(x=x, y=y, marker=marker, **shared),
        go.Scatter(x=[x for x, _ in means], y=[y for _, y in means], marker=bar, showlegend=False, **shared),
    ]


def _calm(figure: go.Figure, height: int) -> go.Figure:
    """No background, no frame, faint rules, the legend above. A finger scrolls the page, it does not zoom."""
    clear, margin = "rgba(0,0,0,0)", {"l": 8, "r": 16, "t": 8, "b": 8}
    figure.update_layout(template={}, height=height, margin=margin, paper_bgcolor=clear, plot_bgcolor=clear)
    figure.update_layout(font={"family": "system-ui, sans-serif", "size": 13, "color": GREY}, dragmode=False)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"}, showlegend=True)
    figure.update_layout(hoverlabel={"bgcolor": "#2a2f36", "font": {"color": "#f2f2ef"}})
    shared = {"gridcolor": RULE, "zeroline": False, "automargin": True, "fixedrange": True, "ticks": ""}
    return figure.update_xaxes(**shared).update_yaxes(**shared)


def _column(states: Sequence[str], others: Iterable[str]) -> dict[str, int]:
    """The height of each node: the states first, then a gap, then what stands beside them."""
    names = dict.fromkeys([*states, *others])
    return {name: 44 + 42 * i + 16 * (i >= len(states)) for i, name in enumerate(names)}


def _ports(edges: list[dict], here: str, there: str, y: dict[str, dict[str, int]]) -> list[float]:
    """Where each edge meets its node: in the order of the far ends, so that no two share a point."""
    counts, seen = Counter(edge[here] for edge in edges), Counter()
    ports = [0.0] * len(edges)
    for i in sorted(range(len(edges)), key=lambda i: y[there][edges[i][there]]):
        name = edges[i][here]
        ports[i] = y[here][name] + (seen[name] - (counts[name] - 1) / 2) * min(6, 22 / counts[name])
        seen[name] += 1
    return ports


def _edge(edge: dict, colour: str, start: float, end: float) -> str:
    left, middle, right = 1 + NODE, WIDTH / 2, WIDTH - NODE - 8
    path = f"M{left} {start:.1f}C{middle} {start:.1f} {middle} {end:.1f} {right} {end:.1f}"
    prob = f", probability {edge['prob']:.2f}" if _is_finite(edge.get("prob")) else ""
    title = escape(f"{edge['source']} → {edge['target']}{prob}")
    # The first path is unseen and wide: a finger or a mouse seldom hits a line. Every edge arrives level.
    return (
        f'<g class="edge"><title>{title}</title><path class="reach" d="{path}"/>'
        f'<path class="line" stroke="{colour}" d="{path}"/>'
        f'<path fill="{colour}" d="M{right} {end - 3.5:.1f}l7 3.5l-7 3.5z"/></g>'
    )


def _node(name: str, x: float, y: float, kept: bool) -> str:
    label = f'<text x="{x + NODE / 2}" y="{y + 4.5}">{escape(name if len(name) < 16 else name[:14] + "…")}</text>'
    box = f'<rect x="{x}" y="{y - 15}" width="{NODE}" height="30" rx="15"/>'
    return f'<g class="node{" kept" if kept else ""}"><title>{escape(name)}</title>{box}{label}</g>'
