"""The page: its sentences, its structure, hostile names, missing parts, and a file that is whole or not there."""

import os
from collections import Counter
from html.parser import HTMLParser
from unittest.mock import Mock

import pytest
from made import HOSTILE, STATES, agent, domain, hostile, score

from adarl.report import page


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


def test_sentence_states_our_method_on_every_target(summary):
    assert page.sentence(summary) == (
        "Trained on 4 values of gravity, AdaRL+ survives 10,000 of 10,000 steps at gravity 15 and 9,998 at"
        " gravity 55 after 50 sampled steps (mean of 2 seeds), without training the policy again."
    )


def test_sentence_for_other_scores_methods_and_numbers_of_targets(summary):
    summary |= {"score_name": "return", "score_cap": None}
    summary["scores"] = [score("in", 15.0, "fine_tuned", [-12.345], "20")]
    assert page.sentence(summary).endswith(", the agent reaches return −12.3 at gravity 15 after 20 sampled trajectories.")
    summary["scores"] = [score(f"t{i}", float(i), "adarl", [10.0 * i]) for i in range(1, 6)]
    assert "reaches return 10 to 50 over 5 targets after 50 sampled steps" in page.sentence(summary)
    summary |= {"factors": ["gravity", "mass"], "scores": [score("in", 15.0, "adarl", [10.0])]}
    summary["scores"][0]["factors"]["mass"] = 5.5
    assert "the agent reaches return 10 at gravity 15 with mass 5.5 after" in page.sentence(summary)
    summary["scores"] = []
    assert page.sentence(summary) == "Trained on 4 pairs of gravity and mass; no target has been scored yet."


def test_page_has_every_section_in_order(summary):
    reader = _read(summary)
    ids = [attributes["id"] for tag, attributes in reader.tags if tag == "section"]
    assert ids == ["what", "where", "how", "scores", "learning", "time", "reproduce"]
    assert "theta_s_1 against gravity: |Pearson r| 1.000, |Spearman| 1.000 over 6 domains." in reader.text
    assert "at most 10,000: mean ± standard deviation over 2 seeds, the best in bold." in reader.text
    assert "together 142 s" in reader.text and "adarl run cartpole-gravity --seed 3" in reader.text
    assert page.sentence(summary) in reader.text
    assert "theta_s_1, which follows gravity, enters angle." in reader.text
    assert "No differences were tested: that takes scores of both methods for the same 6 seeds or more." in reader.text


def test_a_whole_page_has_what_a_small_one_lacks(whole):
    reader = _read(whole)
    ids = [attributes["id"] for tag, attributes in reader.tags if tag == "section"]
    assert ids == ["what", "where", "how", "scores", "learning", "watch", "time", "reproduce"]
    plots = [attributes["id"] for _, attributes in reader.tags if (attributes.get("id") or "").startswith("plot-")]
    assert plots == ["plot-theta", "plot-adaptation", "plot-scores", "plot-curves"]
    assert "after 50 sampled steps (mean of 8 seeds)" in page.sentence(whole)  # the fewest
    assert "over 6 domains" in reader.text  # a target counts once
    assert "the best but for the oracle in bold" in reader.text and "All 36 tests" in reader.text
    assert "not adapted : falls at step 40" in reader.text and "fails at step 4,000, after what is shown" in reader.text
    assert reader.text.index("All 36 tests") < reader.text.index("Learning on") < reader.text.index("Watch it")


def test_without_a_policy_that_does_not_adapt_the_episode_is_cited(summary):
    agents = [agent("adapted", 300, None), agent("not adapted", 40, 40)]
    watched = {"animations": [{"target": "out", "agents": agents}], "state_names": STATES}
    scores = [score("out", 55.0, "adarl_plus", [10.0])]
    said = "At gravity 55, told the mean theta of the sources instead of its own, the same policy falls at step 40;"
    assert said in _read(summary | watched | {"scores": scores}).text


def test_the_command_is_the_runs_own(summary):
    assert (
        "adarl run cartpole-gravity --seeds 30" in _read(summary | {"command": "adarl run cartpole-gravity --seeds 30"}).text
    )
    assert "The family is the user's own" in _read(summary | {"command": ""}).text


def test_page_loads_nothing_and_holds_plotly_once(whole, tmp_path):
    path = page.write(whole, tmp_path / "new" / "report.html")
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


def test_names_are_escaped_everywhere(summary, whole):
    _assert_same_but_for_names(summary, hostile(summary))
    _assert_same_but_for_names(whole, hostile(whole, spare=tuple(STATES)))  # else there is nothing to watch


def _assert_same_but_for_names(summary: dict, renamed: dict) -> None:
    calm, reader = _read(summary), _read(renamed)
    # A span stands around each word of the command, and the hostile name has several. Samples that cannot be read come last.
    count = lambda tags: Counter(tag for tag, _ in tags if tag != "span")  # noqa: E731
    assert count(reader.tags) == count(calm.tags)
    assert reader.text.count(HOSTILE) > 20


MISSING = [
    ({"theta_min": {"theta_s_1": False}}, "theta_min is empty"),
    ({"theta_min": {}, "s_min": {}}, "Nothing leads to the reward"),
    ({"theta_min": {"theta_o_1": True}}, "No estimate of theta_o_1"),
    ({"curves": {}}, "No learning curve was recorded."),
    ({"curves": {"adarl": {"updates": [], "score": []}}}, "No learning curve was recorded."),
    ({"scores": []}, "No target has been scored yet."),
    ({"scores": [score("in", 15.0, "adarl", [])]}, "no target has been scored yet."),
    ({"scores": [score("in", 15.0, "adarl", [3.0])], "score_cap": None}, "of one seed"),
    ({"seconds": {}}, "No times were recorded."),
    ({"seconds": {"collect": 0.0}}, "together 0 s"),
    ({"edges": [], "state_names": []}, "The policy sees angle"),
    ({"domains": [domain("a", 5.0), domain("b", 6.0)]}, "over 2 domains"),
    ({"domains": [domain("a", 5.0)]}, "|Pearson r| not defined"),
    ({"domains": []}, "No estimate of theta_s_1"),
]


@pytest.mark.parametrize(("changes", "said"), MISSING)
def test_what_is_missing_is_said(summary, changes, said):
    assert said in _read(summary | changes).text


def test_what_tests_found_before_stands_in_the_page(summary):
    edges = [{"source": "k (domain)", "target": "angle", "p": 0.00012, "hard": True, "prob": 0.9}]
    told = {"words": "Between the domains the dynamics of angle changed.", "edges": edges, "rate": 0.01}
    text = page.render(summary | {"located": told})
    assert "before anything was learned: between the domains the dynamics of angle changed." in " ".join(text.split())
    assert "<td>0.00012</td><td>yes</td><td>90%</td>" in text and "All 1 tests of independence" in text
    assert "Of all edges found 1% are wrong on average" in " ".join(text.split())
    assert "tests of independence" not in page.render(summary)


def test_why_tests_found_nothing_stands_in_the_page(summary):
    text = page.render(summary | {"located": None, "not_located": "There are 12 rows; at least 200 are needed."})
    assert "could not say what changed: There are 12 rows; at least 200 are needed." in " ".join(text.split())
