"""The report: its numbers by hand, its structure, hostile names, missing parts, and the page in a browser."""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from operator import attrgetter
from unittest.mock import Mock

import numpy as np
import pytest

from adarl.report import figures, page

TRACES = attrgetter("data")  # plotly types a figure's traces as strings
HOSTILE = "<img src=x onerror=alert(1)>&\"'</script>"
CHROMIUM = """chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr --virtual-time-budget=999
--no-first-run --disable-quic --disable-sync --disable-background-networking --disable-component-update"""


def _domain(name: str, gravity: float, **more) -> dict:
    """Theta is straight in gravity: (gravity - 20) / 10."""
    theta = {"theta_s_1": (gravity - 20) / 10, "theta_r_1": 0.0}
    return {"name": name, "kind": "source", "factors": {"gravity": gravity}, "theta": theta, **more}


def _edge(source: str, target: str, prob: float | None, hard: bool = True) -> dict:
    return {"source": source, "target": target, "prob": prob, "hard": hard}


def _score(target: str, gravity: float, method: str, values: list, samples: str = "50steps") -> dict:
    factors = {"gravity": gravity}
    return {"target": target, "factors": factors, "method": method, "samples": samples, "scores": values}


@pytest.fixture
def summary() -> dict:
    target = {"kind": "target", "samples": "50steps"}
    return {
        "family": "cartpole-gravity",
        "factors": ["gravity"],
        "state_names": ["x", "angle"],
        "domains": [
            *(_domain(f"source {i}", gravity) for i, gravity in enumerate((5.0, 10.0, 20.0, 30.0), start=1)),
            _domain("in", 15.0, theta_sd={"theta_s_1": 0.02}, **target),
            _domain("out", 55.0, theta_sd={"theta_s_1": float("nan")}, **target),
        ],
        "edges": [
            *(_edge("x", "x", 0.98), _edge("x", "reward", 0.03, hard=False), _edge("angle", "reward", 0.99)),
            *(_edge("action", "angle", 0.9), _edge("theta_s_1", "angle", 0.97)),
        ],
        "s_min": {"x": False, "angle": True},
        "theta_min": {"theta_s_1": True, "theta_r_1": False},
        "curves": {"adarl_plus": {"updates": [500, 1000], "score": [[0.0, 10.0], [10.0, 20.0], [20.0, 30.0]]}},
        "scores": [
            _score("in", 15.0, "adarl_plus", [10000.0, 10000.0]),
            _score("out", 55.0, "adarl_plus", [9997.0, 9999.0]),
            _score("in", 15.0, "non_t", [5000.0, 7000.0]),
            _score("out", 55.0, "non_t", [9998.0, 10000.0]),
        ],
        "score_name": "steps survived",
        "score_cap": 10000,
        "seconds": {"collect": 2.1, "model": 40.0, "policy": 100.0},
        "seed": 3,
        "version": "0.1.0",
    }


def _hostile(summary: dict) -> dict:
    """The same run with a hostile text before every name."""
    text = json.dumps(summary)
    names = ("x", "angle", "gravity", "theta_s_1", "in", "adarl_plus", "cartpole-gravity", "collect")
    for name in (*names, "source 1", "steps survived", "50steps", "0.1.0"):
        text = text.replace(json.dumps(name), json.dumps(f"{HOSTILE} {name}"))
    return json.loads(text)


class _Reader(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text, self._silent = "", False
        self.feed(text)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._silent = False

    def handle_data(self, data):
        self.text += "" if self._silent else f" {data}"


def _read(summary: dict) -> _Reader:
    return _Reader(page.render(summary))


def test_sentence_states_the_first_method_on_every_target(summary):
    assert page.sentence(summary) == (
        "Trained on 4 values of gravity, AdaRL+ survives 10,000 of 10,000 steps at gravity 15 and 9,998 at"
        " gravity 55 after 50 sampled steps (mean of 2 seeds), without training the policy again."
    )


def test_sentence_for_other_scores_methods_and_numbers_of_targets(summary):
    summary |= {"score_name": "return", "score_cap": None}
    summary["scores"] = [_score("in", 15.0, "fine_tuned", [-12.345], "20")]
    assert page.sentence(summary).endswith(", the agent reaches return −12.3 at gravity 15 after 20 samples.")
    summary["scores"] = [_score(f"t{i}", float(i), "adarl", [10.0 * i]) for i in range(1, 6)]
    assert "reaches return 10 to 50 over 5 targets after 50 sampled steps" in page.sentence(summary)
    summary |= {"factors": ["gravity", "mass"], "scores": [_score("in", 15.0, "adarl", [10.0])]}
    summary["scores"][0]["factors"]["mass"] = 5.5
    assert "the agent reaches return 10 at gravity 15 with mass 5.5 after" in page.sentence(summary)
    summary["scores"] = []
    assert page.sentence(summary) == "Trained on 4 pairs of gravity and mass; no target has been scored yet."


NUMBERS = [(9999.7, 10000, "9,999"), (1e4, 10000, "10,000"), (9999.7, None, "10,000"), (0.9999, 1, "0.999")]
NUMBERS += [(0.9, 1, "0.9"), (-3.14159, None, "−3.14"), (0.0, None, "0"), (None, 1, "–"), (np.nan, 1, "–")]


def test_number_is_short_and_never_rounded_up_to_the_cap():
    assert [page.number(value, cap) for value, cap, _ in NUMBERS] == [text for _, _, text in NUMBERS]


def test_correlations_by_hand():
    assert figures.pearson([1, 2, 3], [-2, -4, -6]) == pytest.approx(1.0)
    assert figures.spearman([1, 2, 3, 4], [1, 8, 27, 64]) == pytest.approx(1.0)
    assert figures.spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)  # with a tie
    assert np.isnan(figures.pearson([1.0], [1.0])) and np.isnan(figures.pearson([1.0, 2.0], [3.0, 3.0]))


def test_each_factor_gets_the_theta_that_follows_it(summary):
    rng = np.random.default_rng(0)
    summary["factors"] = ["gravity", "mass"]
    summary["theta_min"] = {"theta_s_1": True, "theta_s_2": True, "theta_s_3": False}
    for domain in summary["domains"]:
        gravity, mass = rng.uniform(5, 50), rng.uniform(0.5, 5)
        domain["factors"] = {"gravity": gravity, "mass": mass}
        domain["theta"] = {"theta_s_1": -mass, "theta_s_2": gravity**2, "theta_s_3": gravity}
    found = {panel.factor: (panel.theta, panel.spearman) for panel in figures.panels(summary)}
    assert found == {"gravity": ("theta_s_2", pytest.approx(1.0)), "mass": ("theta_s_1", pytest.approx(1.0))}
    assert len(TRACES(figures.theta(summary))) == 6


def test_theta_figure_has_the_sources_line_and_the_targets_error_bars(summary):
    line, sources, targets = TRACES(figures.theta(summary))
    assert line.x == (5.0, 55.0) and line.y == pytest.approx((-1.5, 3.5))  # straight, and on to the target
    assert sources.x == (5.0, 10.0, 20.0, 30.0) and sources.marker.symbol == "circle"
    assert targets.y == (-0.5, 3.5) and targets.marker.symbol == "diamond"
    assert targets.error_y.array[0] == 0.02
    summary["domains"][3]["theta"]["theta_s_1"] = -5.0
    bent = TRACES(figures.theta(summary))[0]
    assert bent.x == (5.0, 10.0, 20.0, 30.0) and bent.y == (-1.5, -1.0, 0.0, -5.0)


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


def test_table_has_mean_deviation_best_and_what_is_missing(summary):
    row_in, row_out = figures.rows(summary)
    assert page.cells(row_in, summary) == [("10,000 ± 0", True, 2), ("6,000 ± 1,414", False, 2)]
    assert page.cells(row_out, summary) == [("9,998 ± 1", False, 2), ("9,999 ± 1", True, 2)]
    summary["scores"] = [_score("in", 15.0, "adarl", [0.9, 1.1]), _score("in", 15.0, "non_t", [-9.7, -9.8])]
    (row,) = figures.rows(summary)
    assert [cell.text for cell in page.cells(row, summary)] == ["1 ± 0.141", "−9.75 ± 0.07"]
    summary["scores"] = [_score("in", 15.0, "adarl", [4.0, None]), _score("out", 55.0, "non_t", [2.0, 3.0])]
    assert "gravity 15 4 1 of 2 seeds – out" in _read(summary).text


def test_graph_draws_hard_edges_only_and_marks_what_the_policy_sees(summary):
    svg = figures.graph_svg(summary)
    assert svg.count('class="edge"') == 4
    assert "<title>theta_s_1 → angle, probability 0.97</title>" in svg and "x → reward" not in svg
    nodes = re.findall(r'class="node(| kept)"><title>(.*?)</title>', svg)
    assert [name for kept, name in nodes if kept] == ["angle", "theta_s_1", "angle"]
    assert [name for kept, name in nodes if not kept] == ["x", "action", "theta_r_1", "x", "reward"]


def test_graph_keeps_nodes_and_the_ends_of_edges_apart(summary):
    names = [f"a_rather_long_state_{i}" for i in range(12)]
    summary |= {"state_names": names, "edges": [_edge(a, b, None) for a in names for b in names]}
    svg = figures.graph_svg(summary)
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"', svg)
    assert len(set(boxes)) == 12 + 12 + 2  # two thetas stand on the left
    assert min(np.diff(sorted(float(y) for x, y in boxes if x == "1"))) > 30  # a box is 30 high
    assert len(set(re.findall(r'class="line" stroke="#\w+" d="M\d+ ([\d.]+)C', svg))) == 144


def test_page_has_every_section_in_order(summary):
    reader = _read(summary)
    ids = [attributes["id"] for tag, attributes in reader.tags if tag == "section"]
    assert ids == ["what", "where", "how", "time", "reproduce"]
    assert "theta_s_1 against gravity: |Pearson r| 1.000, |Spearman| 1.000 over 6 domains." in reader.text
    assert "at most 10,000: mean ± standard deviation over 2 seeds, the best in bold." in reader.text
    assert "together 142 s" in reader.text and "adarl run cartpole-gravity --seed 3" in reader.text
    assert page.sentence(summary) in reader.text


def test_page_loads_nothing_and_holds_plotly_once(summary, tmp_path):
    path = page.write(summary, tmp_path / "new" / "report.html")
    text = path.read_text(encoding="utf-8")
    tags = _Reader(text).tags
    loading = {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}
    assert not [attributes for _, attributes in tags if loading & attributes.keys()]
    assert not {"link", "iframe", "img", "object", "embed", "base"} & {tag for tag, _ in tags}
    own = text.replace(str(page.get_plotlyjs()), "")
    assert "url(" not in own and "@import" not in own and "default-src 'none'" in own
    assert text.count("* plotly.js v") == 1 and path.stat().st_size < 10_000_000


def test_write_is_whole_or_not_at_all(summary, tmp_path, monkeypatch):
    path = page.write(summary, tmp_path / "report.html")
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        page.write(summary | {"seed": 4}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["report.html"]


def test_names_are_escaped_everywhere(summary):
    calm, reader = _read(summary), _read(_hostile(summary))
    # A span stands around each word of the command, and the hostile name has several.
    assert [tag for tag, _ in reader.tags if tag != "span"] == [tag for tag, _ in calm.tags if tag != "span"]
    assert reader.text.count(HOSTILE) > 20


MISSING = [
    ({"theta_min": {"theta_s_1": False}}, "theta_min is empty"),
    ({"theta_min": {}, "s_min": {}}, "Nothing leads to the reward"),
    ({"theta_min": {"theta_o_1": True}}, "No estimate of theta_o_1"),
    ({"curves": {}}, "No learning curve was recorded."),
    ({"curves": {"adarl": {"updates": [], "score": []}}}, "No learning curve was recorded."),
    ({"scores": []}, "No target has been scored yet."),
    ({"scores": [_score("in", 15.0, "adarl", [])]}, "no target has been scored yet."),
    ({"scores": [_score("in", 15.0, "adarl", [3.0])], "score_cap": None}, "of one seed"),
    ({"seconds": {}}, "No times were recorded."),
    ({"seconds": {"collect": 0.0}}, "together 0 s"),
    ({"edges": [], "state_names": []}, "The policy sees angle"),
    ({"domains": [_domain("a", 5.0), _domain("b", 6.0)]}, "over 2 domains"),
    ({"domains": [_domain("a", 5.0)]}, "|Pearson r| not defined"),
    ({"domains": []}, "No estimate of theta_s_1"),
]


@pytest.mark.parametrize(("changes", "said"), MISSING)
def test_what_is_missing_is_said(summary, changes, said):
    assert said in _read(summary | changes).text


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


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not on PATH; the page is not drawn")
def test_browser_draws_the_plots_without_an_error(summary, tmp_path):
    path = page.write(_hostile(summary), tmp_path / "report.html")
    command = [*CHROMIUM.split(), f"--user-data-dir={tmp_path / 'user'}", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    tags = _Reader(done.stdout).tags
    classes = [(tag, name) for tag, attributes in tags for name in (attributes.get("class") or "").split()]
    assert classes.count(("div", "js-plotly-plot")) == 3 and classes.count(("svg", "main-svg")) >= 3
    assert classes.count(("path", "point")) == 4 + 2 + 8 + 4  # sources, targets, seeds, means
    assert "img" not in {tag for tag, _ in tags}
