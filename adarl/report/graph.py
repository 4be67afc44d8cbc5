"""WHERE, as a drawing: the graph of Eq. 1 over two time slices, as one SVG.

In: `summary`, the JSON-able dict of one run. Out: SVG in which every edge can be pointed at, tapped and reached by the
keyboard; `page.js` then shows its probability, and `<title>` does where no script runs. Colours of nodes and text come
from the page's style sheet.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from math import isfinite

from adarl.report.reading import Summary

FROM_STATE, FROM_ACTION, FROM_THETA = "#7d858e", "#cf701c", "#3a80c4"
WIDTH, NODE = 440, 132  # of the graph and of a node, legible when a phone draws them at 0.8 of their size


def draw(summary: Summary) -> str:
    """The graph over two time slices: causes at t-1 on the left, effects at t on the right."""
    states, edges = summary["state_names"], [edge for edge in summary["edges"] if edge["hard"]]
    kept = {name for part in ("s_min", "theta_min") for name, keep in summary[part].items() if keep}
    # Heights of the nodes. A state has the same on both sides, so that an edge to itself is level.
    causes = [*(edge["source"] for edge in summary["edges"]), *summary["theta_min"]]
    effects = [edge["target"] for edge in summary["edges"]]
    y = {"source": _column(states, causes), "target": _column(states, effects)}
    starts, ends = _ports(edges, "source", "target", y), _ports(edges, "target", "source", y)
    colours = dict.fromkeys(summary["theta_min"], FROM_THETA) | dict.fromkeys(states, FROM_STATE)
    body = []
    for i, (edge, start, end) in enumerate(zip(edges, starts, ends, strict=True)):
        body.append(_edge(edge, colours.get(edge["source"], FROM_ACTION), start, end, reached=i == 0))
    for end, x, moment in (("source", 1, "t − 1"), ("target", WIDTH - 1 - NODE, "t")):
        body.append(f'<text class="slice" x="{x + NODE / 2}" y="14">{moment}</text>')
        body += [_node(name, x, height, name in kept) for name, height in y[end].items()]
    height = max([60, *y["source"].values(), *y["target"].values()]) + 18
    about = f'viewBox="0 0 {WIDTH} {height}" role="group" aria-label="Graph with {len(edges)} edges"'
    return f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" {about}>{"".join(body)}</svg>'


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


def _edge(edge: dict, colour: str, start: float, end: float, reached: bool) -> str:
    """One edge. Tab reaches one of them only, arrow keys go on to the others: a graph may have hundreds."""
    left, middle, right = 1 + NODE, WIDTH / 2, WIDTH - NODE - 8
    path = f"M{left} {start:.1f}C{middle} {start:.1f} {middle} {end:.1f} {right} {end:.1f}"
    prob = edge.get("prob")
    known = f", probability {prob:.2f}" if prob is not None and isfinite(prob) else ""
    name = escape(f"{edge['source']} → {edge['target']}{known}")
    # The first path is unseen and wide: a finger or a mouse seldom hits a line. Every edge arrives level.
    return (
        f'<g class="edge" role="img" tabindex="{0 if reached else -1}" aria-label="{name}"><title>{name}</title>'
        f'<path class="reach" d="{path}"/><path class="line" stroke="{colour}" d="{path}"/>'
        f'<path fill="{colour}" d="M{right} {end - 3.5:.1f}l7 3.5l-7 3.5z"/></g>'
    )


def _node(name: str, x: float, y: float, kept: bool) -> str:
    label = f'<text x="{x + NODE / 2}" y="{y + 4.5}">{escape(name if len(name) < 16 else name[:14] + "…")}</text>'
    box = f'<rect x="{x}" y="{y - 15}" width="{NODE}" height="30" rx="15"/>'
    return f'<g class="node{" kept" if kept else ""}"><title>{escape(name)}</title>{box}{label}</g>'
