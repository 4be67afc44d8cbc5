"""The paper's figures: each was read from its text twice; sums keep them from changing unseen."""

import pytest

from adarl.report.published import METHODS, SCORES, SOURCES, Published

ROWS = ("G_in", "G_out", "M_in", "M_out", "GM_in", "GM_out")
SUMS = {  # of a method's six means, in the order of METHODS
    "20": (10187.4, 2670.5, 5836.6, 5973.9, 6113.9, 7338.2),
    "50": (10187.4, 3124.5, 6768.0, 6464.92, 6954.1, 8105.6),
    "10000": (10187.4, 3645.6, 7586.1, 8301.2, 7835.2, 9007.3),
}
DEVIATIONS = {  # and of its six standard deviations
    "20": (2610.6, 966.7, 1893.9, 2197.8, 1895.0, 2579.2),
    "50": (2610.6, 1231.3, 3410.6, 2926.3, 2549.6, 2843.9),
    "10000": (2610.6, 1206.9, 2170.5, 2042.5, 1830.1, 2063.3),
}
BULLETS = {"20": 22, "50": 19, "10000": 21}


@pytest.mark.parametrize("samples", SOURCES)
def test_every_cell_is_there_and_adds_up(samples: str):
    cells = SCORES[samples]
    assert set(cells) == {(row, method) for row in ROWS for method in METHODS}
    assert [sum(cells[row, m].mean for row in ROWS) for m in METHODS] == pytest.approx(SUMS[samples])
    assert [sum(cells[row, m].sd for row in ROWS) for m in METHODS] == pytest.approx(DEVIATIONS[samples])
    assert sum(cell.bullet for cell in cells.values()) == BULLETS[samples]
    assert not any(cells[row, method].bullet for row in ROWS for method in ("oracle", "adarl"))


def test_the_paper_marks_adarl_as_best_everywhere_but_once():
    best = {(n, r): max(METHODS[1:], key=lambda m: SCORES[n][r, m].mean) for n in SCORES for r in ROWS}
    assert {place for place, method in best.items() if method != "adarl"} == {("10000", "M_out")}
    assert best["10000", "M_out"] == "pearl"


def test_cells_by_eye():
    assert SCORES["50"]["GM_out", "pearl"] == Published(544.32, 175.2, True)
    assert SCORES["20"]["G_out", "cavia"] == Published(356.2, 76.5, False)
    assert SCORES["10000"]["M_in", "adarl"] == Published(2415.2, 591.4, False)
    assert {SCORES[samples]["G_in", "oracle"] for samples in SCORES} == {Published(2486.1, 369.7, False)}
