"""The figures: their numbers by hand, and colours that hold on both pages."""

from operator import attrgetter

import numpy as np
import pytest

from adarl.config import METHODS
from adarl.report import figures, page

TRACES = attrgetter("data")  # plotly types a figure's traces as strings


def test_theta_figure_has_the_sources_line_and_the_targets_error_bars(summary):
    line, sources, targets = TRACES(figures.theta(summary))
    assert line.x == (5.0, 55.0) and line.y == pytest.approx((-1.5, 3.5))  # straight, and on to the target
    assert sources.x == (5.0, 10.0, 20.0, 30.0) and sources.marker.symbol == "circle"
    assert targets.y == (-0.5, 3.5) and targets.marker.symbol == "diamond"
    assert targets.error_y.array[0] == 0.02
    summary["domains"][3]["theta"]["theta_s_1"] = -5.0
    bent = TRACES(figures.theta(summary))[0]
    knots = dict(zip(bent.x, bent.y, strict=True))
    assert [knots[x] for x in (5.0, 10.0, 20.0, 30.0)] == pytest.approx([-1.5, -1.0, 0.0, -5.0])
    assert max(bent.y) <= 0.0 and max(bent.x) == 30.0  # through the sources, never beyond them


def test_theta_figure_has_every_number_of_samples(whole):
    _, sources, *targets = TRACES(figures.theta(whole))
    assert [trace.name for trace in targets] == [
        "targets, 50 steps",
        "targets, 20 trajectories",
        "targets, 10,000 trajectories",
    ]
    assert [trace.error_y.array[0] for trace in targets] == pytest.approx([0.3, 0.15, 0.1])
    assert len({trace.x[0] for trace in targets}) == 3 and targets[1].x == pytest.approx((15.0, 55.0))
    assert targets[0].customdata[0] == "in 50 steps<br>gravity 15<br>theta_s_1 -0.500 ± 0.300"
    assert sources.error_y.array == (None,) * 4


def test_adaptation_has_a_panel_for_a_target_and_intervals_around_the_means(whole):
    figure = figures.adaptation(whole)
    traces = TRACES(figure)
    assert len(traces) == 2 * 7 and {trace.yaxis for trace in traces} == {"y", "y2"}
    ours = next(trace for trace in traces if trace.name == "AdaRL+")
    means = [np.mean(e["scores"]) for e in whole["scores"] if (e["target"], e["method"]) == ("in", "adarl_plus")]
    assert ours.y == pytest.approx(means) and [round(x) for x in ours.x] == [0, 1, 2]
    assert min(ours.error_y.array) > 0 and min(ours.error_y.arrayminus) > 0
    oracle = next(trace for trace in traces if trace.name == "Oracle")
    assert oracle.y == (9903.5,) * 3  # it needs no samples
    assert [text.text for text in figure.layout.annotations] == ["in: gravity 15", "out: gravity 55"]


def test_adaptation_is_empty_for_one_number_of_samples(summary):
    assert not TRACES(figures.adaptation(summary))


def test_curves_show_median_and_band_of_the_seeds_there_are(summary):
    band, median = TRACES(figures.curves(summary))
    assert median.y == (10.0, 20.0)
    assert band.x == (500, 1000, 1000, 500) and band.y == pytest.approx((18.0, 28.0, 12.0, 2.0))
    summary["curves"] = {"adarl": {"updates": [1, 2, 3], "score": [[1.0, None, 3.0]]}}
    (line,) = TRACES(figures.curves(summary))
    assert line.x == (1, 3) and line.y == (1.0, 3.0)
    summary["curves"]["adarl"]["score"] = [[1.0, float("nan")], [3.0]]
    _, median = TRACES(figures.curves(summary))
    assert median.x == (1,) and median.y == (2.0,)


def test_scores_figure_has_every_seed_and_keeps_lanes_apart(summary):
    ours, means, theirs, _ = TRACES(figures.scores(summary))
    assert ours.x == (10000.0, 10000.0, 9997.0, 9999.0) and means.x == (10000.0, 9998.0)
    assert max(ours.y[:2]) < min(theirs.y[:2]) < max(theirs.y[:2]) < 0.5 < min(ours.y[2:])
    assert len(set(ours.y)) == 4  # equal scores do not hide each other


@pytest.mark.parametrize("background", ["#fbfaf7", "#15181c"])
def test_colours_hold_on_both_pages(summary, background):
    def luminance(colour: str) -> float:  # of WCAG 2
        part = np.array(list(bytes.fromhex(colour[1:]))) / 255
        linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05

    assert background in page.render(summary)
    for colour in figures.PALETTE:
        low, high = sorted((luminance(colour), luminance(background)))
        assert high / low >= 3, colour


def test_a_method_looks_the_same_in_every_figure_and_strangers_differ_from_all():
    assert figures.looks(["oracle", "adarl"])["adarl"] == figures.looks(["adarl"])["adarl"]
    some = figures.looks(["mine", "adarl_plus", "yours", "oracle"])
    assert len(set(some.values())) == 4
    assert figures.looks(["mql", "pnn"]) == {name: figures.looks([name])[name] for name in ("mql", "pnn")}
    assert len(set(figures.looks(METHODS).values())) == len(METHODS)
    assert len(figures.looks([f"m{i}" for i in range(20)])) == 20
