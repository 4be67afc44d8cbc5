"""The figures of a report: what changed (theta) and how it adapts (scores and curves).

In: `summary`, the JSON-able dict of one run. Out: plotly figures. Colours hold on a light and on a dark page; text takes
its own from the page's style sheet. Names are the user's own and are escaped here: plotly, too, reads some HTML.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import cycle
from typing import Any

import numpy as np
import plotly.graph_objects as go
import scipy
from plotly.subplots import make_subplots

from adarl.evaluate import statistics
from adarl.report.reading import Panel, Row, Summary, is_finite, panels, pearson, rows
from adarl.report.words import amount, method_name, place, samples_name

BLUE, ORANGE, GREY = "#3a80c4", "#cf701c", "#7d858e"
PALETTE = (BLUE, ORANGE, "#2a9768", "#976bd1", "#d4506a", "#1b90a3", "#878426", GREY, "#9c6b56", "#c552a4", "#649b12")
"""Middle tones: each has a contrast of 3 or more against both pages."""
METHODS = ("adarl_plus", "adarl", "adarl_star", "non_t", "cavia", "pearl", "", "oracle", "pnn", "psm", "mql")
"""In the order of the palette, so that a method has the same colour in every figure. One colour is left for others."""
SYMBOLS = (
    "circle",
    "diamond",
    "square",
    "triangle-up",
    "cross",
    "star",
    "pentagon",
    "x",
    "hexagon",
    "triangle-down",
    "hourglass",
)
RULE = "rgba(128, 134, 142, 0.28)"
CAP = {"color": GREY, "width": 1, "dash": "dot"}
Style = tuple[str, str, str]
"""A method, its colour and its symbol."""


def styles(summary: Summary) -> Iterator[Style]:
    """Every method with scores or curves, in the order of the summary, with its colour and symbol."""
    names = [entry["method"] for entry in summary["scores"]] + list(summary["curves"])
    return ((method, PALETTE[i], SYMBOLS[i]) for method, i in looks(names).items())


def looks(methods: Iterable[str]) -> dict[str, int]:
    """The place of every method in the palette: its own if it has one, else one that is free here."""
    methods = list(dict.fromkeys(methods))
    own = {method: METHODS.index(method) for method in methods if method in METHODS}
    free = sorted(set(range(len(METHODS))) - set(own.values()), key=lambda i: METHODS[i])  # that of others comes first
    strangers = cycle(free or range(len(METHODS)))
    return {method: own[method] if method in own else next(strangers) for method in methods}


def theta(summary: Summary) -> go.Figure:
    """Theta against the factor: sources as circles, targets with one standard deviation for every number of samples."""
    shown = panels(summary)
    count = max(1, len(shown))
    # Panels stand below each other, because two side by side are too narrow for a phone.
    figure = make_subplots(rows=count, cols=1, vertical_spacing=0.3 / count)
    for i, panel in enumerate(shown, start=1):
        for trace in (_line(panel), _sources(panel), *_targets(panel)):
            figure.add_trace(trace.update(showlegend=i == 1 and bool(trace.name)), row=i, col=1)
        figure.update_xaxes(title_text=_plain(panel.factor), row=i, col=1)
        figure.update_yaxes(title_text=_plain(panel.theta), row=i, col=1)
    return _calm(figure, 50 + 310 * count)


def adaptation(summary: Summary) -> go.Figure:
    """Score against the number of samples: a panel a target, a line a method. Empty unless there are several numbers."""
    found = rows(summary)
    numbers = sorted({row.samples for row in found if amount(row.samples) > 0}, key=amount)
    targets = list(dict.fromkeys(row.target for row in found))
    if len(numbers) < 2:
        return go.Figure()
    figure = make_subplots(rows=len(targets), cols=1, shared_xaxes=True, vertical_spacing=0.2 / len(targets))
    methods = [style for style in styles(summary) if any(row.cells.get(style[0]) for row in found)]
    for i, target in enumerate(targets, start=1):
        here = [row for row in found if row.target == target and row.samples in numbers]
        for lane, style in enumerate(methods):
            shift = 0.07 * (lane - (len(methods) - 1) / 2)  # side by side, or equal scores would hide each other
            trace = _means(here, style, [numbers.index(row.samples) + shift for row in here])
            figure.add_trace(trace.update(showlegend=i == 1), row=i, col=1)
        if summary["score_cap"] is not None:
            figure.add_hline(y=summary["score_cap"], line=CAP, row=i, col=1)  # pyright: ignore[reportArgumentType]
        where = f"{target}: {place(here[0].factors)}" if here and here[0].factors else target
        corner = {"x": 0, "xref": "x domain", "xanchor": "left", "y": 1.02, "yref": "y domain", "yanchor": "bottom"}
        figure.add_annotation(text=_plain(where), showarrow=False, row=i, col=1, **corner)
    labels = [_plain(samples_name(number)).replace(" ", "<br>", 1) for number in numbers]
    span = [-0.5, len(numbers) - 0.5]
    figure.update_xaxes(tickvals=list(range(len(numbers))), ticktext=labels, range=span, showgrid=False)
    figure.update_xaxes(title_text="samples of the target", row=len(targets), col=1)
    height = 130 + 215 * len(targets)
    _calm(figure, height).update_yaxes(rangemode="tozero", nticks=5, zeroline=True, zerolinecolor=RULE, zerolinewidth=1)
    return figure.update_layout(legend={"y": 1 + 34 / (height - 130)})


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


def _plain(name: Any) -> str:
    """A name as text, whatever it holds: plotly decodes the entities and sees no tag."""
    return escape(str(name), quote=False)


def _sources(panel: Panel) -> go.Scatter:
    shown = [point for point in panel.points if point[0]["kind"] == "source"]
    return _points(panel, shown, [x for _, x, _ in shown], BLUE, "circle").update(name="sources")


def _targets(panel: Panel) -> list[go.Scatter]:
    """One trace for every number of samples, a little beside each other so that each one's interval is seen."""
    shown = [point for point in panel.points if point[0]["kind"] == "target"]
    numbers = sorted({point[0].get("samples") for point in shown}, key=amount)
    reach = [x for _, x, _ in panel.points]
    traces = []
    for i, samples in enumerate(numbers):
        here = [point for point in shown if point[0].get("samples") == samples]
        x = [x + 0.03 * np.ptp(reach) * (i - (len(numbers) - 1) / 2) for _, x, _ in here]
        trace = _points(panel, here, x, PALETTE[1 + i % (len(PALETTE) - 1)], SYMBOLS[1 + i % (len(SYMBOLS) - 1)])
        trace.update(marker={"size": 9})
        trace.update(name=f"targets, {_plain(samples_name(samples))}" if len(numbers) > 1 else "targets")
        if i == len(numbers) - 1:  # one name a target
            side = [_side(value, reach, [y for _, _, y in panel.points]) for _, value, _ in here]
            trace.update(mode="markers+text", text=[_plain(domain["name"]) for domain, _, _ in here], textposition=side)
        traces.append(trace)
    return traces


def _side(x: float, reach: list[float], heights: list[float]) -> str:
    """Where a name stands clear of the line, which rises or falls, and within the frame."""
    if np.ptp(reach) == 0 or np.cov(reach, heights)[0, 1] >= 0:
        return "top left" if x == max(reach) else "bottom right"
    return "top right" if x == min(reach) else "bottom left"


def _points(panel: Panel, shown: Sequence[tuple], x: list[float], colour: str, symbol: str) -> go.Scatter:
    sd = [(domain.get("theta_sd") or {}).get(panel.theta) for domain, _, _ in shown]  # NaN: no bar
    hover = []
    for (domain, value, height), width in zip(shown, sd, strict=True):
        spread = f" ± {width:.3f}" if is_finite(width) else ""
        name = f"{domain['name']} {samples_name(domain.get('samples'))}".strip()
        hover.append(f"{_plain(name)}<br>{_plain(panel.factor)} {value:g}<br>{_plain(panel.theta)} {height:.3f}{spread}")
    trace = go.Scatter(x=x, y=[y for _, _, y in shown], mode="markers", cliponaxis=False, customdata=hover)
    trace.update(marker={"color": colour, "symbol": symbol, "size": 11})
    trace.update(hovertemplate="%{customdata}<extra></extra>")
    return trace.update(error_y={"array": sd, "color": colour, "thickness": 1.5, "width": 5})


def _line(panel: Panel) -> go.Scatter:
    """Straight through the sources where |r| > 0.99, and on to the targets; else a monotone curve from mean to mean."""
    sources = [(x, y) for domain, x, y in panel.points if domain["kind"] == "source"]
    x, y = [x for x, _ in sources], [y for _, y in sources]
    at = sorted(set(x))
    height = [float(np.mean([b for a, b in sources if a == value])) for value in at]
    if pearson(x, y) > 0.99:
        slope, start = np.polyfit(x, y, 1)
        at = [bound(value for _, value, _ in panel.points) for bound in (min, max)]
        height = [float(start + slope * value) for value in at]
    elif len(at) > 2:
        knots = scipy.interpolate.PchipInterpolator(at, height)
        at = sorted({*at, *np.linspace(at[0], at[-1], 61).tolist()})
        height = knots(at).tolist()
    return go.Scatter(x=at, y=height, mode="lines", line={"color": GREY}, hoverinfo="skip")


def _means(here: list[Row], style: Style, x: list[float]) -> go.Scatter:
    """Means of one method in one target, with 95% intervals of the bootstrap."""
    method, colour, symbol = style
    cells = [(at, np.asarray(row.cells[method])[:, None]) for at, row in zip(x, here, strict=True) if row.cells.get(method)]
    rng = np.random.default_rng(0)
    means = [statistics.mean(values) for _, values in cells]
    bounds = [statistics.interval(statistics.mean, values, rng=rng, draws=500) for _, values in cells]
    above = [high - mean for mean, (_, high) in zip(means, bounds, strict=True)]
    below = [mean - low for mean, (low, _) in zip(means, bounds, strict=True)]
    bars = {"array": above, "arrayminus": below, "color": colour, "thickness": 1.5, "width": 4}
    marker = {"color": colour, "symbol": symbol, "size": 9}
    trace = go.Scatter(x=[at for at, _ in cells], y=means, error_y=bars, marker=marker, mode="lines+markers")
    trace.update(line={"color": colour, "width": 1.5}, hovertemplate="%{y:,.1f}", cliponaxis=False)
    return trace.update(name=_plain(method_name(method)), legendgroup=method)


def _quantiles(curve: dict) -> list[list[float]]:
    """Updates, 10%, median and 90%, over the seeds with a finite score there."""
    columns = []
    for i, update in enumerate(curve["updates"]):
        values = [seed[i] for seed in curve["score"] if i < len(seed) and is_finite(seed[i])]
        if values:
            columns.append((update, *np.quantile(values, (0.1, 0.5, 0.9)).tolist()))
    return [[column[j] for column in columns] for j in range(4)]


def _lane(found: list[Row], style: Style, offset: float, width: float) -> list[go.Scatter]:
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
    shared["ticklabelstandoff"] = 6  # clear of each other in the corner, and of a point on the axis
    return figure.update_xaxes(**shared).update_yaxes(**shared)
