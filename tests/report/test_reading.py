"""What a summary says: correlations by hand, panels, and rows in order."""

import numpy as np
import pytest
from made import score, target

from adarl.report import reading


def test_correlations_by_hand():
    assert reading.pearson([1, 2, 3], [-2, -4, -6]) == pytest.approx(1.0)
    assert reading.spearman([1, 2, 3, 4], [1, 8, 27, 64]) == pytest.approx(1.0)
    assert reading.spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)  # with a tie
    assert np.isnan(reading.pearson([1.0], [1.0])) and np.isnan(reading.pearson([1.0, 2.0], [3.0, 3.0]))


def test_each_factor_gets_the_theta_that_follows_it(summary):
    rng = np.random.default_rng(0)
    summary["factors"] = ["gravity", "mass"]
    summary["theta_min"] = {"theta_s_1": True, "theta_s_2": True, "theta_s_3": False}
    for domain in summary["domains"]:
        gravity, mass = rng.uniform(5, 50), rng.uniform(0.5, 5)
        domain["factors"] = {"gravity": gravity, "mass": mass}
        domain["theta"] = {"theta_s_1": -mass, "theta_s_2": gravity**2, "theta_s_3": gravity}
    found = {panel.factor: (panel.theta, panel.spearman) for panel in reading.panels(summary)}
    assert found == {"gravity": ("theta_s_2", pytest.approx(1.0)), "mass": ("theta_s_1", pytest.approx(1.0))}


def test_a_target_counts_once_with_the_fewest_samples(summary):
    off = target("in", 15.0, 0.1, "20") | {"theta": {"theta_s_1": 100.0}}
    summary["domains"].append(off)
    (panel,) = reading.panels(summary)
    assert panel.domains == 6 and len(panel.points) == 7 and panel.spearman == pytest.approx(1.0)


def test_rows_are_ordered_by_samples_and_keep_what_is_missing(summary):
    scores = [score("b", 1.0, "adarl", [1.0, None, float("nan")], n) for n in ("20", "50steps", "5")]
    found = reading.rows(summary | {"scores": [*scores, score("a", 2.0, "adarl", [3.0], "20")]})
    assert [(row.target, row.samples) for row in found] == [("b", "50steps"), ("b", "5"), ("b", "20"), ("a", "20")]
    assert found[0].cells == {"adarl": [1.0]} and found[0].lost == {"adarl": 2}
    assert [row.samples for row in reading.few(found)] == ["50steps", "20"]


def test_a_method_without_samples_stands_in_every_row_of_its_target(summary):
    scores = [score("in", 15.0, "oracle", [9.0], "0"), score("out", 55.0, "oracle", [8.0], "0")]
    scores += [score("in", 15.0, "adarl", [float(i)], n) for i, n in enumerate(("20", "50"))]
    found = reading.rows(summary | {"scores": scores})
    assert [(row.target, row.samples) for row in found] == [("in", "20"), ("in", "50"), ("out", "0")]
    assert found[0].cells == {"adarl": [0.0], "oracle": [9.0]} and found[1].cells["oracle"] == [9.0]
