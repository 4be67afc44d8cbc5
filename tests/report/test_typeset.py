"""The same table three times: Markdown and LaTeX that hold together, CSV that can be read back."""

import csv
import io
import re
from dataclasses import replace

import made_scores
import numpy as np
import pytest
from markdown_it import MarkdownIt

from adarl.evaluate.scores import Cell
from adarl.report import tables, typeset
from adarl.report.tables import Estimate, Table


@pytest.fixture(scope="module")
def table() -> Table:
    return made()


def made(cells: list[Cell] | None = None, samples: str = "20") -> Table:
    found = made_scores.scores(made_scores.SMALL) if cells is None else cells
    rng = np.random.default_rng(0)
    return tables.table(found, samples, rng=rng, grid=made_scores.SMALL, partial=cells is not None, draws=20)


def read(text: str) -> list[list[list[str]]]:
    """The cells of every table of a Markdown text, as a reader's program sees them."""
    found, inside = [], False
    for token in MarkdownIt().enable("table").parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
            inside = True
        elif token.type == "tr_close":
            inside = False
        elif token.type == "inline" and inside:
            found[-1][-1].append(token.content)
    return found


def test_markdown_has_four_tables_with_lines_of_equal_length(table: Table):
    found = read(typeset.markdown(table))
    assert [len(part) for part in found] == [1 + 5, 1 + 7, 1 + 3, 1 + 3]  # two of the three rows have a line of the paper
    assert [{len(line) for line in part} for part in found] == [{8}, {6}, {6}, {5}]
    assert found[0][0][1:] == ["Oracle", "Non-t", "CAVIA", "PEARL", r"AdaRL\*", "AdaRL", "AdaRL+"]
    assert [line[0] for line in found[0][1:]] == ["G_in", "paper", "G_out & M_out", "paper", "target_in"]


def test_scores_have_bold_marks_and_the_papers_line(table: Table):
    tied, paper, row, *_ = read(typeset.markdown(table))[0][1:]
    assert set(tied[1:]) == {"10,000 ± 0"}
    assert paper[1:] == [
        *("2,486.1 ± 369.7", "972.6 ± 368.5 •", "1,651.5 ± 623.8 •", "1,720.3 ± 589.4 •", "1,602.7 ± 393.6 •"),
        *("**1,943.2** ± 765.4", ""),
    ]
    assert re.fullmatch(r"3,0\d\d ± \d+ •• ▪▪", row[2]) and re.fullmatch(r"8,9\d\d ± \d+ ••", row[6])
    assert re.fullmatch(r"\*\*9,[67]\d\d\*\* ± \d+", row[7]) and "**" not in row[1]


def changed(table: Table, **fields) -> list[list[list[str]]]:
    """The tables with another outcome of AdaRL+ against CAVIA in GM_out."""
    key = ("GM_out", "adarl_plus", "cavia")
    comparisons = table.comparisons | {key: table.comparisons[key]._replace(**fields)}
    return read(typeset.markdown(replace(table, comparisons=comparisons)))


@pytest.mark.parametrize(
    ("verdict", "holm", "mark"), [("worse", 0.01, "◦◦"), ("worse", 0.2, "◦"), ("better", 0.2, "•"), ("split", 0.01, "")]
)
def test_marks_are_open_where_ours_is_worse_and_single_where_holm_disagrees(table: Table, verdict, holm, mark):
    row = changed(table, verdict=verdict, holm=holm)[0][3]
    assert row[3].split()[3:] == [part for part in (mark, "▪▪") if part]


def test_comparisons_say_p_and_how_many_more_seeds(table: Table):
    _, _, ours, _ = read(typeset.markdown(table))
    assert set(ours[1][1:]) == {"tied"}
    for cell in ours[2][1:]:
        assert re.fullmatch(r"\+[\d,]+ \[\+[\d,]+, \+[\d,]+\] p < 0.001 ••", cell), cell
    for more, said in ((45, "p 0.210 (+45)"), (None, "p 0.210 (> 1,000)")):
        unsure = {"p": 0.21, "verdict": "undecided", "more": more, "gain": Estimate(3.2, -1100.0, 5.0)}
        assert changed(table, **unsure)[2][2][2] == f"+3 [-1,100, +5] {said}"


def test_what_is_missing_is_a_dash_and_named():
    cells = [cell for cell in made_scores.scores(made_scores.SMALL) if cell.method != "cavia"]
    text = typeset.markdown(made(cells))
    found = read(text)
    assert [line[3] for line in found[0][1:]] == ["–", "1,651.5 ± 623.8 •", "–", "494.6 ± 201.3 •", "–"]
    assert "No scores of 'cavia' in any row with 20 samples." in text and "–" in found[2][1]
    latex = typeset.latex(made(cells))
    assert "No scores of 'cavia' in any row with 20 samples." in latex and " -- &" in latex


def test_single_steps_have_no_line_of_the_paper():
    table = made(made_scores.scores(made_scores.SMALL), "50steps")
    assert len(read(typeset.markdown(table))[0]) == 1 + 3 and "paper" not in typeset.markdown(table)


def test_latex_holds_together(table: Table):
    text = typeset.latex(table)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 4
    assert re.sub(r"\\[{}]", "", text).count("{") == re.sub(r"\\[{}]", "", text).count("}")
    assert text.isascii()
    for part in re.findall(r"\\begin{tabular}{(l+r*)}\n(.*?)\\end{tabular}", text, re.S):
        columns, body = part
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert lines and {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(columns)}
    assert r"G\_out \& M\_out" in text and r"\textbf{1,943.2}" in text and r"at 5\%" in text
    assert r"972.6\textsuperscript{$\bullet$}" in text


def test_csv_can_be_read_back(table: Table):
    parts = {name: list(csv.DictReader(io.StringIO(text))) for name, text in typeset.csvs(table).items()}
    assert {name: len(lines) for name, lines in parts.items()} == {
        "scores": 3 * 7,
        "aggregates": 7 * 5 - 1,
        "comparisons": 3 * 9,
    }
    for line in parts["scores"]:
        entry = table.entries[line["row"], line["method"]]
        assert float(line["mean"]) == pytest.approx(entry.mean) and int(line["seeds"]) == entry.seeds
        assert bool(int(line["best"])) == entry.best
    first = parts["scores"][1]
    assert (first["published_mean"], first["published_sd"], first["published_bullet"]) == ("972.6", "368.5", "1")
    assert parts["scores"][6]["published_mean"] == ""  # the paper has no AdaRL+
    tied = next(line for line in parts["comparisons"] if line["row"] == "G_in")
    assert tied["verdict"] == "tied" and tied["more_seeds"] == "" and float(tied["p"]) == 1.0


def test_csv_leaves_empty_what_is_missing():
    cells = [cell for cell in made_scores.scores(made_scores.SMALL, seeds=1) if cell.method != "cavia"]
    lines = list(csv.DictReader(io.StringIO(typeset.csvs(made(cells))["scores"])))
    assert (lines[2]["method"], lines[2]["mean"], lines[2]["seeds"]) == ("cavia", "", "")
    assert (lines[3]["method"], lines[3]["mean"], lines[3]["sd"]) == ("pearl", "10000", "")  # one seed has no deviation
