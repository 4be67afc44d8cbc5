"""Tables by hand: means, marks, aggregates, and what is said below them."""

from dataclasses import replace

import made_scores
import numpy as np
import pytest

from adarl.evaluate import statistics
from adarl.evaluate.scores import Cell, Grid
from adarl.locate.corrections import holm
from adarl.report import notes, tables
from adarl.report.tables import Table
from adarl.types import AdarlError

GRID = Grid("bench", ("G_in", "M_in"), ("20",), ("oracle", "non_t", "adarl", "adarl_plus"), cap=100.0, unit="Steps.")
STEPS = np.arange(12.0)
ODD = STEPS + np.asarray([*np.linspace(1.0, 2.0, 11), -90.0])
"""Better than STEPS by its ranks, worse by its mean."""


def cells(scores: dict[str, np.ndarray], grid: Grid = GRID) -> list[Cell]:
    """The same scores in every row and for every number of samples."""
    return [
        Cell(*place, seed, float(score))
        for place in grid.places()
        for seed, score in enumerate(scores.get(place.method, []))
    ]


def made(scores: dict[str, np.ndarray], grid: Grid = GRID, partial: bool = False) -> Table:
    found = cells(scores, grid)
    return tables.table(found, "20", rng=np.random.default_rng(0), grid=grid, partial=partial, draws=20)


ORDINARY = {"oracle": STEPS + 90, "non_t": STEPS + 10, "adarl": STEPS[::-1] + 60, "adarl_plus": STEPS + 80}


def test_entries_by_hand():
    table = made(ORDINARY)
    assert table.entries["G_in", "non_t"] == (15.5, pytest.approx(np.sqrt(143 / 11)), 12, False)
    assert {method for (_, method), entry in table.entries.items() if entry.best} == {"adarl_plus"}  # not the oracle
    single = {method: scores[:1] for method, scores in ORDINARY.items()}
    assert np.isnan(made(single).entries["G_in", "non_t"].sd)


def test_equal_means_share_the_best_and_all_equal_have_none():
    table = made(ORDINARY | {"adarl": STEPS[::-1] + 80})
    assert {method for (_, method), entry in table.entries.items() if entry.best} == {"adarl_plus", "adarl"}
    same = dict.fromkeys(("non_t", "adarl", "adarl_plus"), STEPS)
    assert not any(entry.best for entry in made(same | {"oracle": STEPS + 1}).entries.values())


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (STEPS + 5, STEPS, "better"),
        (STEPS, STEPS + 5, "worse"),
        (STEPS, STEPS, "tied"),
        (STEPS, STEPS + np.resize([1.0, -2.0], 12), "undecided"),
        (ODD, STEPS, "split"),
    ],
)
def test_verdicts(ours: np.ndarray, theirs: np.ndarray, verdict: str):
    found = made(ORDINARY | {"adarl_plus": ours, "non_t": theirs}).comparisons["G_in", "adarl_plus", "non_t"]
    assert found.verdict == verdict and found.pairs == 12
    assert found.p == statistics.signed_rank(ours, theirs)
    assert (found.more is None or found.more > 0) if verdict == "undecided" else found.more == 0


def test_a_gain_is_the_mean_of_pairs_within_its_interval():
    gap = np.resize([10.0, 30.0], 12)
    found = made(ORDINARY | {"adarl_plus": STEPS + gap, "non_t": STEPS}).comparisons["G_in", "adarl_plus", "non_t"].gain
    assert found.value == pytest.approx(20.0)
    # The standard error of 12 such pairs is 10 / sqrt(12) = 2.9: pairs cancel what seeds have in common.
    assert 20 - 2.5 * 2.9 < found.low < 16 < 24 < found.high < 20 + 2.5 * 2.9


def test_without_an_oracle_or_adarl_plus_one_method_is_compared():
    grid = replace(GRID, methods=("adarl_star", "adarl"))
    table = made({"adarl_star": STEPS, "adarl": STEPS + 50}, grid)
    assert {key[1:] for key in table.comparisons} == {("adarl", "adarl_star")} and not table.normalised


def test_holm_counts_the_comparisons_of_one_method_in_one_row():
    grid = replace(GRID, methods=("oracle", "non_t", "cavia", "adarl", "adarl_plus"))
    table = made(ORDINARY | {"cavia": STEPS + np.resize([70.0, 95.0], 12)}, grid)
    keys = [("G_in", "adarl_plus", other) for other in ("non_t", "cavia", "adarl")]
    p = [table.comparisons[key].p for key in keys]
    assert [table.comparisons[key].holm for key in keys] == pytest.approx(holm(np.asarray(p)))
    assert {
        ours: len([1 for row, one, _ in table.comparisons if (row, one) == ("G_in", ours)])
        for ours in tables.baselines(table.grid)
    } == {
        "adarl_plus": 3,
        "adarl": 2,
    }


def test_few_more_seeds_decide_a_near_miss_and_none_a_draw():
    near = np.resize([1.0, 2.0, 3.0, -2.5], 12)
    found = made(ORDINARY | {"adarl_plus": STEPS + near, "adarl": STEPS}).comparisons["G_in", "adarl_plus", "adarl"]
    assert found.verdict == "undecided" and found.more is not None and 1 < found.more < 100
    draw = np.resize([1.0, -1.0], 12)
    found = made(ORDINARY | {"adarl_plus": STEPS + draw, "adarl": STEPS}).comparisons["G_in", "adarl_plus", "adarl"]
    assert found.verdict == "undecided" and found.more is None


def test_scores_are_divided_by_the_oracles_mean():
    table = made(ORDINARY)
    np.testing.assert_allclose(table.normalised["adarl_plus"], np.repeat((STEPS + 80)[:, None] / 95.5, 2, axis=1))
    assert table.normalised["oracle"].mean() == pytest.approx(1.0)
    for name, metric in tables.METRICS.items():
        found = table.aggregates["adarl"][name]
        assert found.value == metric(table.normalised["adarl"]) and found.low <= found.value <= found.high
    assert table.improvement["non_t"].value == 1.0 and "adarl_plus" not in table.improvement
    with pytest.raises(AdarlError, match="oracle's mean in G_in is -1"):
        made(ORDINARY | {"oracle": np.full(12, -1.0)})


def test_the_generator_decides_the_intervals_alone():
    found = cells(ORDINARY)
    once, again, other = (
        tables.table(found, "20", rng=np.random.default_rng(seed), grid=GRID, draws=20) for seed in (0, 0, 1)
    )
    assert once.aggregates == again.aggregates and once.comparisons == again.comparisons
    assert once.aggregates != other.aggregates and once.entries == other.entries


def test_what_is_incomplete_is_refused_unless_asked_for():
    lacking = {method: scores for method, scores in ORDINARY.items() if method != "non_t"} | {"adarl": STEPS[:9] + 60}
    with pytest.raises(AdarlError, match=r"'adarl' in G_in with 20 samples has 9 of 12 seeds, without 9, 10, 11\."):
        made(lacking)
    table = made(lacking, partial=True)
    assert ("G_in", "non_t") not in table.entries and table.entries["G_in", "adarl"].seeds == 9
    assert table.comparisons["G_in", "adarl_plus", "adarl"].pairs == 9
    assert "No scores of 'non_t' in any row with 20 samples." in table.gaps
    said = " ".join(notes.on_scores(table))
    assert "over 9 to 12 seeds" in said and "not complete" in said and "has 9 of 12 seeds, without 9, 10, 11" in said
    assert "Methods left out, because they lack rows or seeds: Non-t." in notes.on_aggregates(table)


def test_only_rows_with_an_oracle_are_aggregated_and_the_others_named():
    found = [cell for cell in cells(ORDINARY) if (cell.row, cell.method) != ("M_in", "oracle")]
    table = tables.table(found, "20", rng=np.random.default_rng(0), grid=GRID, partial=True, draws=20)
    assert table.normalised["adarl"].shape == (12, 1)
    assert "Rows left out, because they have no oracle: M_in." in notes.on_aggregates(table)
    none = tables.table(
        [cell for cell in found if cell.method != "oracle"], "20", rng=np.random.default_rng(0), grid=GRID, partial=True
    )
    assert not none.normalised and not none.aggregates and none.entries


def test_an_empty_table_can_be_asked_for():
    table = tables.table([], "20", rng=np.random.default_rng(0), grid=GRID, partial=True)
    assert not table.entries and "over no seeds" in " ".join(notes.on_scores(table))


def test_unequal_pairs_and_splits_are_named():
    said = notes.on_comparisons(made(ORDINARY | {"adarl_plus": ODD, "adarl": STEPS}))
    assert any("favour different sides: AdaRL+ against AdaRL in G_in and AdaRL+ against AdaRL in M_in." in s for s in said)
    found = [cell for cell in cells(ORDINARY) if (cell.row, cell.method, cell.seed) != ("M_in", "adarl", 3)]
    table = tables.table(found, "20", rng=np.random.default_rng(0), grid=GRID, partial=True, draws=20)
    said = notes.on_comparisons(table)
    assert said[-1] == "Fewer than 12 pairs: AdaRL+ against AdaRL in M_in (11) and AdaRL against Non-t in M_in (11)."


def test_ties_at_the_ceiling_and_rows_that_need_no_adaptation_are_named():
    table = tables.table(
        made_scores.scores(made_scores.SMALL), "20", rng=np.random.default_rng(0), grid=made_scores.SMALL, draws=20
    )
    said = notes.on_scores(table)
    assert any(
        s.startswith("All tied: in G_in every seed of every method but the oracle has 10,000, the ceiling") for s in said
    )
    assert "Non-t, which does not adapt, has at least 95% of the oracle's mean in G_in." in said
    assert "over 12 seeds" in said[1] and "20 trajectories of the target" in said[0] and "Table A4" in " ".join(said)
    assert all(found.verdict == "tied" for (row, _, _), found in table.comparisons.items() if row == "G_in")
