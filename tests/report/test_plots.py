"""Every figure: what it draws, and that no text covers another or leaves the page."""

from itertools import combinations

import made_scores
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from adarl.report import plots, tables
from adarl.report.tables import Table


@pytest.fixture(scope="module")
def table() -> Table:
    grid = made_scores.CARTPOLE_MDP
    return tables.table(made_scores.scores(), "20", rng=np.random.default_rng(0), grid=grid, draws=20)


def curves(methods=made_scores.SHARE) -> dict[str, plots.Curve]:
    rng = np.random.default_rng(0)
    updates = np.arange(1000, 16_000, 1000).tolist()
    return {m: (updates, np.minimum(2000.0, rng.uniform(0, 500, (10, 15)).cumsum(axis=1))) for m in methods}


def texts(figure: Figure) -> list[Text]:
    """All that is written, without the labels of ticks beyond the ends of an axis."""
    hidden = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if not ax.axison or not low <= tick.get_loc() <= high]
            hidden |= {label for tick in ticks for label in (tick.label1, tick.label2)}
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and text not in hidden]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def assert_tidy(figure: Figure) -> None:
    """No two texts on one place, and none beyond the edge."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = {text: text.get_window_extent(renderer) for text in texts(figure)}
    assert boxes
    for text, box in boxes.items():
        assert figure.bbox.x0 - 1 <= box.x0 and box.x1 <= figure.bbox.x1 + 1, text.get_text()
        assert figure.bbox.y0 - 1 <= box.y0 and box.y1 <= figure.bbox.y1 + 1, text.get_text()
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{one.get_text()!r} covers {other.get_text()!r}"


def test_no_figure_is_untidy(table: Table):
    run = made_scores.summary()
    for figure in (plots.intervals(table), plots.profiles(table), plots.curves(curves(), 2000.0), plots.graph(run)):
        assert_tidy(figure)
    assert_tidy(plots.theta(run))
    assert_tidy(plots.theta(run | {"factors": ["gravity"]}))


def test_intervals_show_every_method_and_metric(table: Table):
    axes = plots.intervals(table).axes
    assert [ax.get_title().split(" (")[0] for ax in axes] == list(tables.METRICS)
    assert [label.get_text() for label in axes[0].get_yticklabels()][-1] == "AdaRL+"
    for ax, metric in zip(axes, tables.METRICS, strict=True):
        found = table.aggregates["cavia"][metric]
        bar = ax.patches[list(table.aggregates).index("cavia")]
        assert isinstance(bar, Rectangle)
        assert (bar.get_x(), bar.get_x() + bar.get_width()) == pytest.approx((found.low, found.high))
        assert ax.get_xlim()[0] < min(e[metric].low for e in table.aggregates.values())


def test_profiles_fall_from_one_to_zero(table: Table):
    (ax,) = plots.profiles(table).axes
    assert len(ax.lines) == 7
    for line in ax.lines:
        y = np.asarray(line.get_ydata())
        assert y[0] == 1.0 and y[-1] == 0.0 and (np.diff(y) <= 0).all()


def test_a_method_has_its_colour_in_every_figure(table: Table):
    (profiles,) = plots.profiles(table).axes
    of_profiles = {line.get_label(): line.get_color() for line in profiles.lines}
    of_curves = {
        ax.get_title(): ax.lines[-1].get_color() for ax in plots.curves(curves(["pearl", "mine", "oracle"])).axes[:3]
    }
    assert of_profiles["PEARL"] == of_curves["PEARL"] and of_profiles["Oracle"] == of_curves["Oracle"]
    assert len(set(of_profiles.values())) == 7 and of_curves["mine"] not in of_profiles.values()


def test_curves_are_medians_of_the_seeds_there_are():
    scores = np.asarray([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    (ax,) = plots.curves({"adarl": ([10, 20, 30], scores)}).axes
    line = ax.lines[-1]
    np.testing.assert_array_equal(line.get_xdata(), [10.0, 20.0])
    np.testing.assert_array_equal(line.get_ydata(), [2.0, 5.0])


def test_theta_shows_how_far_each_target_is_from_its_last_estimate():
    run = made_scores.summary()
    above, _, below, _ = plots.theta(run).axes
    labels = above.get_legend_handles_labels()[1]
    assert labels == ["sources", "20 trajectories", "50 trajectories", "10,000 trajectories"]
    assert above.get_xlabel() == "gravity" and above.get_ylabel() == "theta_s_2"
    assert [label.get_text() for label in below.get_xticklabels()] == ["in_neg", "in_pos", "out_neg", "out_pos"]
    assert len(below.containers) == 3
    np.testing.assert_array_equal(below.containers[2][0].get_ydata(), np.zeros(4))  # the most samples against themselves
    assert below.containers[0][0].get_ydata().any()


def test_theta_needs_neither_samples_nor_uncertainty_nor_targets():
    run = made_scores.summary()
    targets = [domain for domain in run["domains"] if domain["kind"] == "target" and domain["samples"] == "20"]
    bare = [domain | {"samples": None, "theta_sd": None} for domain in targets]
    sources = [domain for domain in run["domains"] if domain["kind"] == "source"]
    for domains in (sources, sources + bare, sources[:1]):
        assert_tidy(plots.theta(run | {"domains": domains}))
    assert plots.theta(run | {"domains": []}).axes


def test_graph_draws_what_was_kept():
    run = made_scores.summary()
    (ax,) = plots.graph(run).axes
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    nodes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    assert len(arrows) == sum(edge["hard"] for edge in run["edges"])
    assert len(nodes) == (4 + 1 + 3) + (4 + 1)
    starts = [tuple(np.asarray(arrow.get_path().vertices)[0]) for arrow in arrows]
    assert len(set(starts)) == len(starts)  # no two edges leave from one point
    filled = [node for node in nodes if node.get_facecolor()[:3] != (1.0, 1.0, 1.0)]
    assert len(filled) == 4 + 2 + 4


def test_graph_of_long_names_and_without_edges():
    run = made_scores.summary()
    names = [f"a_rather_long_name_of_a_state_{i}" for i in range(12)]
    edges = [{"source": a, "target": b, "prob": None, "hard": True} for a in names for b in names]
    assert_tidy(plots.graph(run | {"state_names": names, "edges": edges, "s_min": {}}))
    assert_tidy(plots.graph(run | {"edges": []}))


def test_names_are_text_whatever_they_hold():
    figure = plots.curves(curves(["a $x^2$ _b", "$"]))
    assert_tidy(figure)
    assert [ax.get_title() for ax in figure.axes[:2]] == ["a $x^2$  b", "$"]


def test_the_same_figure_is_the_same_file():
    once, again = (plots.images(plots.graph(made_scores.summary())) for _ in range(2))
    assert once == again and once["png"].startswith(b"\x89PNG") and once["svg"].lstrip().startswith(b"<?xml")
