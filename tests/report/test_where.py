"""What the tests say, in words and as data."""

import json
from pathlib import Path

import numpy as np
import pytest

from adarl.locate.changes import Changes
from adarl.locate.structure import Structure
from adarl.report.where import DOMAIN, located, seen, verdict, write

NAMES = ("x", "v")


def with_edges(*changed: int) -> Structure:
    """x follows v, r follows x, and k acts where it is said."""
    found = np.zeros((3, 4), bool)
    found[0, 1] = found[2, 0] = True
    for i in changed:
        found[i, -1] = True
    return Structure(np.where(found, 1e-3, 0.7), found, found * 0.9)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ((), "There is no sign of a change between the domains."),
        ((0, 1), "Between the domains the dynamics of x and v changed; of a change of the reward there is no sign."),
        ((2,), "Between the domains the reward changed; of a change of the dynamics there is no sign."),
        ((1, 2), "Between the domains the dynamics of v changed, and so did the reward."),
    ],
)
def test_verdicts(changed: tuple[int, ...], said: str):
    assert verdict(with_edges(*changed), NAMES) == said


def test_data_hold_every_edge_and_what_leads_to_the_reward():
    found = located(with_edges(1), NAMES, 0.05)
    assert len(found["edges"]) == 12 and found["s_min"] == {"x": True, "v": True} and found["theta_min"] == {DOMAIN: True}
    assert {"source": "v", "target": "x", "p": 1e-3, "hard": True, "prob": 0.9} in found["edges"]


def test_files(tmp_path: Path):
    made = write(located(with_edges(1), NAMES, 0.05), tmp_path / "new")
    assert [path.name for path in made] == ["locate.json", "locate.png", "locate.svg"]
    assert json.loads(made[0].read_text())["words"] == verdict(with_edges(1), NAMES)
    images = seen(Changes("C2", ("theta_r",), {"roughness": 0.5, "edges": 0.2}, 1e-9, "Only the reward changed."))
    made = write(images, tmp_path)
    assert [path.name for path in made] == ["locate.json", "locate.png", "locate.svg"]
    drawn = made[2].read_text()
    assert all(f"<!-- {name} -->" in drawn for name in ("roughness", "edges", "action, given the reward"))
