"""A `Table` -> Markdown, LaTeX (booktabs, amssymb) and CSV. The paper's lines stand below ours."""

import csv
import io
from collections.abc import Iterable
from math import isnan
from typing import NamedTuple

from adarl.evaluate.scores import ORACLE
from adarl.evaluate.statistics import LEVEL
from adarl.report import notes, published
from adarl.report.tables import METRICS, MOST, PLUS, Comparison, Estimate, Table, baselines, row_name
from adarl.report.words import method_name, number, samples_name

EMPTY = "–"
MARKS = {PLUS: {"better": "•", "worse": "◦"}, "adarl": {"better": "▪", "worse": "▫"}}
LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "•": r"$\bullet$",
    "◦": r"$\circ$",
    "▪": r"$\blacksquare$",
    "▫": r"$\square$",
}


class Text(NamedTuple):
    """What stands in one cell."""

    value: str
    spread: str = ""
    """Beside the value, or below it where columns are narrow."""
    marks: str = ""
    bold: bool = False


class Sheet(NamedTuple):
    """One part of a table, ready to be set."""

    name: str
    title: str
    header: list[str]
    lines: list[tuple[str, list[Text]]]
    notes: list[str]


def sheets(table: Table) -> list[Sheet]:
    """The scores, the aggregates, and the comparisons of each of our methods."""
    said = notes.on_comparisons(table)
    ours = list(baselines(table.grid))
    compared = [_comparisons(table, one, said if one == ours[-1] else []) for one in ours]
    return [_scores(table), *([_aggregates(table)] if table.normalised else []), *compared]


def markdown(table: Table) -> str:
    """One page: every part with its notes."""
    return markdown_page(f"{table.grid.name}: {samples_name(table.samples)} of the target", sheets(table))


def markdown_page(title: str, sheets: list[Sheet]) -> str:
    """Sheets with their notes, under a title."""
    parts = [f"# {title}"]
    for sheet in sheets:
        lines = [_line(["", *map(_escaped, sheet.header)]), _line(["---"] + ["---:"] * len(sheet.header))]
        for name, texts in sheet.lines:
            lines.append(_line([_escaped(name), *map(_markdown, texts)]))
        parts += [f"## {sheet.title}", "\n".join(lines), *(_escaped(note) for note in sheet.notes)]
    return "\n\n".join(parts) + "\n"


def latex(table: Table) -> str:
    """One `table` environment a part, narrow enough for a page of A4."""
    return latex_page(f"{table.grid.name}, {samples_name(table.samples)}", f"-{table.samples}", sheets(table))


def latex_page(title: str, label: str, sheets: list[Sheet]) -> str:
    """One `table` environment a sheet; `label` follows its name where it is referred to."""
    parts = ["% Needs \\usepackage{booktabs, amssymb}."]
    for sheet in sheets:
        header = _joined([*map(_latex, ["", *sheet.header])])
        body = [line for name, texts in sheet.lines for line in _stacked(name, texts)]
        parts += [
            r"\begin{table}",
            r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{_latex(f'{title}: {sheet.title}.')}}}",
            rf"\label{{tab:{sheet.name}{label}}}",
            rf"\begin{{tabular}}{{l{'r' * len(sheet.header)}}}",
            *(r"\toprule", header, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"),
            *(rf"\par\smallskip\parbox{{\linewidth}}{{{_latex(note)}}}" for note in sheet.notes),
            r"\end{table}",
        ]
    return "\n".join(parts) + "\n"


def csvs(table: Table) -> dict[str, str]:
    """By name of the part: a line for every cell, with figures as they are and nothing rounded for the eye."""
    entries = []
    for row in table.grid.rows:
        for method in table.grid.methods:
            entry = table.entries.get((row, method)) or ("",) * 4
            paper = _published(table, row, method) or ("",) * 3
            entries.append([row, table.samples, method, *entry, *paper])
    aggregates = [
        [table.samples, method, name, *estimate]
        for method, metrics in table.aggregates.items()
        for name, estimate in (*metrics.items(), *_improvement(table, method))
    ]
    comparisons = [
        [row, table.samples, ours, theirs, found.pairs, found.p, found.holm, found.verdict, _more(found), *found.gain]
        for (row, ours, theirs), found in table.comparisons.items()
    ]
    head = "row samples method mean sd seeds best published_mean published_sd published_bullet"
    return {
        "scores": as_csv(head, entries),
        "aggregates": as_csv("samples method metric value low high", aggregates),
        "comparisons": as_csv(
            "row samples ours theirs pairs p holm verdict more_seeds gain gain_low gain_high", comparisons
        ),
    }


def _scores(table: Table) -> Sheet:
    methods, lines = table.grid.methods, []
    for row in table.grid.rows:
        lines.append((row_name(row), [_entry(table, row, method) for method in methods]))
        paper = [_published(table, row, method) for method in methods]
        best = max(
            (cell.mean for method, cell in zip(methods, paper, strict=True) if cell and method != ORACLE), default=None
        )
        if best is not None:
            lines.append(("paper", [_paper(cell, best) for cell in paper]))
    return Sheet("scores", "Scores", [*map(method_name, methods)], lines, notes.on_scores(table))


def _aggregates(table: Table) -> Sheet:
    lines = []
    for method in table.grid.methods:
        found = {**table.aggregates.get(method, {}), **dict(_improvement(table, method))}
        lines.append((method_name(method), [_estimate(found.get(name)) for name in (*METRICS, "P")]))
    title = "Against the oracle"
    return Sheet("aggregates", title, [*METRICS, "P(AdaRL+ is better)"], lines, notes.on_aggregates(table))


def _comparisons(table: Table, ours: str, said: list[str]) -> Sheet:
    lines, rivals = [], baselines(table.grid)[ours]
    for row in table.grid.rows:
        found = [table.comparisons.get((row, ours, theirs)) for theirs in rivals]
        lines.append((row_name(row), [_comparison(one, ours) for one in found]))
    header = [*map(method_name, rivals)]
    return Sheet(f"p-{ours}", f"{method_name(ours)} against each baseline", header, lines, said)


def _entry(table: Table, row: str, method: str) -> Text:
    entry = table.entries.get((row, method))
    if entry is None:
        return Text(EMPTY)
    mean = number(entry.mean, table.grid.cap)
    decimals = len(mean.partition(".")[2])
    spread = f"± {entry.sd:,.{decimals}f}" if entry.seeds > 1 else ""
    found = {ours: table.comparisons.get((row, ours, method)) for ours in baselines(table.grid)}
    return Text(mean, spread, " ".join(filter(None, (_mark(one, ours) for ours, one in found.items()))), entry.best)


def _paper(cell: published.Published | None, best: float) -> Text:
    if cell is None:
        return Text("")
    return Text(f"{cell.mean:,}", f"± {cell.sd:,}", "•" if cell.bullet else "", cell.mean == best)


def _mark(found: Comparison | None, ours: str) -> str:
    """Once where the test says so, twice where it still does after Holm's correction."""
    return "" if found is None else MARKS[ours].get(found.verdict, "") * (1 + (found.holm < LEVEL))


def _comparison(found: Comparison | None, ours: str) -> Text:
    if found is None:
        return Text(EMPTY)
    if found.verdict == "tied":
        return Text("tied")
    p = "p < 0.001" if found.p < 0.001 else f"p {found.p:.3f}"
    more = {"undecided": f" ({_more(found)})"}.get(found.verdict, "")
    gain, low, high = (f"{value:+,.0f}" for value in found.gain)
    return Text(gain, f"[{low}, {high}]", f"{p}{more} {_mark(found, ours)}".strip())


def _more(found: Comparison) -> str:
    if found.verdict != "undecided":
        return ""
    return f"> {MOST:,}" if found.more is None else f"+{found.more}"


def _estimate(found: Estimate | None) -> Text:
    return Text(EMPTY) if found is None else Text(f"{found.value:.3f}", f"[{found.low:.3f}, {found.high:.3f}]")


def _improvement(table: Table, method: str) -> Iterable[tuple[str, Estimate]]:
    return [("P", table.improvement[method])] if method in table.improvement else []


def _published(table: Table, row: str, method: str) -> published.Published | None:
    return published.SCORES.get(table.grid.paper, {}).get(table.samples, {}).get((row, method))


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown(text: Text) -> str:
    value = f"**{text.value}**" if text.bold else text.value
    return " ".join(filter(None, (value, text.spread, text.marks)))


def _escaped(text: str) -> str:
    """The star of AdaRL* begins no emphasis."""
    return text.replace("*", r"\*")


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


def _stacked(name: str, texts: list[Text]) -> list[str]:
    """One line of values, and below it one of what they vary by, if any."""
    lines = [_joined([_latex(name), *map(_value, texts)])]
    if any(text.spread for text in texts):
        lines += [_joined(["", *(_latex(text.spread) for text in texts)]), r"\addlinespace"]
    return lines


def _value(text: Text) -> str:
    value = rf"\textbf{{{_latex(text.value)}}}" if text.bold else _latex(text.value)
    return rf"{value}\textsuperscript{{{_latex(text.marks)}}}" if text.marks else value


def _joined(texts: list[str]) -> str:
    return rf"{' & '.join(texts)} \\"


def as_csv(head: str, lines: Iterable[list]) -> str:
    """The names of the columns, with blanks between them, and the lines."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([head.split(), *([_figure(value) for value in line] for line in lines)])
    return out.getvalue()


def _figure(value: object) -> object:
    """Ten digits are more than the scores have."""
    if isinstance(value, float):
        return "" if isnan(value) else f"{value:.10g}"
    return int(value) if isinstance(value, bool) else value
