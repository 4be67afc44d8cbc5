"""Steps to 95% of the ceiling: by hand, with seeds that never arrive, and what a reader is told."""

import numpy as np

from adarl.report import learning, typeset

CURVES = {
    "oracle": {
        "updates": [1, 2],
        "steps": [10, 20],
        "score": [[900.0, 900.0]],
    },  # not trained in the sources: no ceiling of theirs
    "adarl": {
        "updates": [1, 2, 3],
        "steps": [10_000, 20_000, 30_000],
        "score": [[0.0, 96.0, 100.0], [95.0, 50.0, 100.0], [0.0, 0.0, 100.0]],
    },
    "non_t": {
        "updates": [1, 2, 3],
        "steps": [10_000, 20_000, 30_000],
        "score": [[0.0, 94.0, 94.9], [0.0, 0.0, 10.0], [0.0, 95.0, 0.0]],
    },
}


def test_the_first_evaluation_at_95_percent_counts():
    found = learning.speeds(CURVES)
    assert set(found) == {"adarl", "non_t"} and found["adarl"].ceiling == 100.0
    np.testing.assert_array_equal(found["adarl"].steps, [20_000, 10_000, 30_000])
    np.testing.assert_array_equal(found["non_t"].steps, [np.inf, np.inf, 20_000])


def test_a_reader_sees_medians_quartiles_and_who_never_arrives():
    sheet = learning.sheet({"gravity": CURVES}, ("oracle", "adarl", "non_t", "pearl"))
    ((family, (adarl, non_t, pearl)),) = sheet.lines
    assert sheet.header == ["AdaRL", "Non-t", "PEARL"] and family == "gravity"
    assert adarl == typeset.Text("20", "[10, 30]", bold=True)
    assert non_t == typeset.Text("never", "[20, never]")
    assert pearl.value == typeset.EMPTY
    assert "100 in gravity" in sheet.notes[1]
    page = typeset.markdown_page("Bench", [sheet])
    assert "**20** [10, 30]" in page and page.startswith("# Bench\n")


def test_the_figures_behind_it_name_every_seed():
    lines = list(learning.raw({"gravity": CURVES}))
    assert lines[0] == ["gravity", "adarl", 0, 20_000] and lines[3] == ["gravity", "non_t", 0, ""] and len(lines) == 6


def test_a_seed_that_ends_early_is_judged_by_what_it_has():
    curve = {"updates": [1, 2], "steps": [10, 20], "score": [[100.0, None], [50.0], [0.0, 100.0]]}
    np.testing.assert_array_equal(learning.speeds({"adarl": curve})["adarl"].steps, [10, np.inf, 20])


def test_nothing_is_said_of_no_curves():
    assert learning.speeds({"adarl": {"updates": [1], "steps": [1], "score": [[None]]}}) == {}
    assert learning.speeds({}) == {} and learning.speeds({"oracle": CURVES["oracle"]}) == {}
