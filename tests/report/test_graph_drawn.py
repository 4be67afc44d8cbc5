"""The graph: which edges and nodes it draws, and that nothing lies on top of anything."""

import re

import numpy as np
from made import edge

from adarl.report import graph


def test_graph_draws_hard_edges_only_and_marks_what_the_policy_sees(summary):
    svg = graph.draw(summary)
    assert svg.count('class="edge"') == 4
    assert 'aria-label="theta_s_1 → angle, probability 0.97"' in svg and "x → reward" not in svg
    nodes = re.findall(r'class="node(| kept)"><title>(.*?)</title>', svg)
    assert [name for kept, name in nodes if kept] == ["angle", "theta_s_1", "angle"]
    assert [name for kept, name in nodes if not kept] == ["x", "action", "theta_r_1", "x", "reward"]


def test_graph_keeps_nodes_and_the_ends_of_edges_apart(summary):
    names = [f"a_rather_long_state_{i}" for i in range(12)]
    summary |= {"state_names": names, "edges": [edge(a, b, None) for a in names for b in names]}
    svg = graph.draw(summary)
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"', svg)
    assert len(set(boxes)) == 12 + 12 + 2  # two thetas stand on the left
    assert min(np.diff(sorted(float(y) for x, y in boxes if x == "1"))) > 30  # a box is 30 high
    assert len(set(re.findall(r'class="line" stroke="#\w+" d="M\d+ ([\d.]+)C', svg))) == 144


def test_one_edge_is_reached_by_tab_and_all_by_the_arrow_keys(whole):
    stops = re.findall(r'class="edge" role="img" tabindex="(-?\d)"', graph.draw(whole))
    assert stops == ["0", *["-1"] * 18]
