"""The paper's figures: each was read from its text twice; sums keep them from changing unseen."""

import pytest

from adarl.report.published import METHODS, SCORES, SOURCES, Published

ROWS = {
    "MDP": ("G_in", "G_out", "M_in", "M_out", "GM_in", "GM_out"),
    "POMDP": ("G_in", "G_out", "M_in", "M_out", "N_in", "N_out"),
}
SUMS = {  # of a method's six means, in the order of METHODS
    ("MDP", "20"): (10187.4, 2670.5, 5836.6, 5973.9, 6113.9, 7338.2),
    ("MDP", "50"): (10187.4, 3124.5, 6768.0, 6464.92, 6954.1, 8105.6),
    ("MDP", "10000"): (10187.4, 3645.6, 7586.1, 8301.2, 7835.2, 9007.3),
    ("POMDP", "20"): (18948.2, 2723.7, 9884.3, 10565.1, 10138.3, 10063.9, 13024.5),
    ("POMDP", "50"): (18948.3, 3870.9, 9254.3, 12658.3, 14672.1, 12422.9, 16889.4),
    ("POMDP", "10000"): (18948.2, 4400.2, 14366.2, 15914.2, 16879.3, 16976.3, 18135.0),
}
DEVIATIONS = {  # and of its six standard deviations
    ("MDP", "20"): (2610.6, 966.7, 1893.9, 2197.8, 1895.0, 2579.2),
    ("MDP", "50"): (2610.6, 1231.3, 3410.6, 2926.3, 2549.6, 2843.9),
    ("MDP", "10000"): (2610.6, 1206.9, 2170.5, 2042.5, 1830.1, 2063.3),
    ("POMDP", "20"): (5892.9, 1315.1, 3930.3, 3242.0, 3792.7, 4568.7, 4127.1),
    ("POMDP", "50"): (5892.9, 1700.1, 3040.9, 4273.8, 4695.1, 4709.8, 6148.1),
    ("POMDP", "10000"): (5892.9, 1649.7, 5696.2, 4663.9, 5068.3, 5216.0, 5136.3),
}
BULLETS = {
    ("MDP", "20"): 22,
    ("MDP", "50"): 19,
    ("MDP", "10000"): 21,
    ("POMDP", "20"): 27,
    ("POMDP", "50"): 24,
    ("POMDP", "10000"): 23,
}


@pytest.mark.parametrize(("kind", "samples"), SUMS)
def test_every_cell_is_there_and_adds_up(kind: str, samples: str):
    cells, rows, methods = SCORES[kind][samples], ROWS[kind], METHODS[kind]
    assert set(cells) == {(row, method) for row in rows for method in methods} and samples in SOURCES[kind]
    assert [sum(cells[row, m].mean for row in rows) for m in methods] == pytest.approx(SUMS[kind, samples])
    assert [sum(cells[row, m].sd for row in rows) for m in methods] == pytest.approx(DEVIATIONS[kind, samples])
    assert sum(cell.bullet for cell in cells.values()) == BULLETS[kind, samples]
    assert not any(cells[row, method].bullet for row in rows for method in ("oracle", "adarl"))


def test_where_the_paper_does_not_mark_adarl_as_best():
    found = {
        (kind, samples, row): best
        for kind, tables in SCORES.items()
        for samples, cells in tables.items()
        for row in ROWS[kind]
        if (best := max(METHODS[kind][1:], key=lambda m, cells=cells, row=row: cells[row, m].mean)) != "adarl"
    }
    assert found == {
        ("MDP", "10000", "M_out"): "pearl",
        ("POMDP", "10000", "G_out"): "psm",
        ("POMDP", "10000", "M_in"): "mql",
    }


def test_cells_by_eye():
    mdp, pomdp = SCORES["MDP"], SCORES["POMDP"]
    assert mdp["50"]["GM_out", "pearl"] == Published(544.32, 175.2, True)
    assert mdp["20"]["G_out", "cavia"] == Published(356.2, 76.5, False)
    assert mdp["10000"]["M_in", "adarl"] == Published(2415.2, 591.4, False)
    assert {cells["G_in", "oracle"] for cells in mdp.values()} == {Published(2486.1, 369.7, False)}
    assert pomdp["50"]["M_out", "adarl_star"] == Published(1219.5, 1014.3, False)
    assert pomdp["20"]["N_in", "mql"] == Published(3985.7, 2387.4, True)
    assert pomdp["10000"]["N_out", "pnn"] == Published(3043.9, 1098.6, True)
