"""Marks, tests and verdicts by hand."""

import pytest
from made import score

from adarl.report import comparison
from adarl.report.reading import rows

EIGHT = [1000.0 + i for i in range(8)]


def against(summary: dict, **others: list) -> dict:
    """AdaRL+ with the scores 1000 to 1007 and other methods on one row."""
    scores = [score("in", 15.0, "adarl_plus", EIGHT)]
    return summary | {"scores": scores + [score("in", 15.0, method, values) for method, values in others.items()]}


def cells(summary: dict) -> list[list[comparison.Cell]]:
    return [comparison.cells(row, summary, comparison.tests(summary)) for row in rows(summary)]


def test_table_has_mean_deviation_best_and_what_is_missing(summary):
    row_in, row_out = cells(summary)
    assert row_in == [("10,000", "± 0", True, 2, ""), ("6,000", "± 1,414", False, 2, "")]
    assert row_out == [("9,998", "± 1", False, 2, ""), ("9,999", "± 1", True, 2, "")]
    summary["scores"] = [score("in", 15.0, "adarl", [0.9, 1.1]), score("in", 15.0, "non_t", [-9.7, -9.8])]
    assert [(cell.mean, cell.spread) for cell in cells(summary)[0]] == [("1", "± 0.141"), ("−9.75", "± 0.07")]
    summary["scores"] = [score("in", 15.0, "adarl", [4.0, None]), score("out", 55.0, "non_t", [2.0, 3.0])]
    assert [cell.seeds for cell in cells(summary)[0]] == [1, 0] and cells(summary)[0][1].mean == "–"


def test_the_oracle_is_never_the_best(summary):
    made = against(summary, oracle=[2000.0] * 8, non_t=[900.0] * 8)
    assert [cell.best for cell in cells(made)[0]] == [True, False, False]


def test_marks_say_who_is_better_and_whether_it_survives_the_correction(summary):
    # All eight pairs differ one way: two of the 2^8 patterns of signs are as extreme.
    worse, better = [900.0 - 2 * i**2 for i in range(8)], [2000.0 + 2 * i**2 for i in range(8)]
    both = against(summary, non_t=worse, cavia=better)
    assert [test.p for test in comparison.tests(both)] == [2 / 256, 2 / 256]
    assert [test.corrected for test in comparison.tests(both)] == [4 / 256, 4 / 256]
    assert [cell.mark for cell in cells(both)[0]] == ["", "••", "◦◦"]
    many = against(summary, **dict.fromkeys(("non_t", "cavia", "pearl", "adarl_star", "adarl", "maml", "psm"), worse))
    assert sorted(cell.mark for cell in cells(many)[0]) == ["", *["•"] * 7]  # 7 * 2 / 256 > 0.05
    tied = against(summary, non_t=EIGHT)
    assert comparison.tests(tied)[0].p == 1.0 and cells(tied)[0][1].mark == ""


@pytest.mark.parametrize("values", [[900.0] * 7, [900.0] * 7 + [None], []])
def test_what_cannot_be_paired_is_not_tested(summary, values):
    assert comparison.tests(against(summary, non_t=values)) == []


def test_too_few_pairs_are_not_tested(summary):
    """With five pairs no outcome reaches 5%; with six one does."""
    for n, tested in ((5, 0), (6, 1)):
        scores = [score("in", 15.0, "adarl_plus", EIGHT[:n]), score("in", 15.0, "non_t", [float(i) for i in range(n)])]
        assert len(comparison.tests(summary | {"scores": scores})) == tested


def test_verdicts_compare_with_a_policy_that_does_not_adapt_and_with_the_oracle(summary):
    def said(**others: list) -> str:
        made = against(summary, **others)
        (verdict,) = comparison.verdicts(made, comparison.tests(made))
        return verdict

    helped = said(non_t=[500.0 - 2 * i**2 for i in range(8)], oracle=[1100.0] * 8)
    assert helped.startswith("At gravity 15 after 50 steps AdaRL+ reaches 1,004, against 465 for Non-t, one policy for all")
    assert "(p = 0.0078, 0.016 after Holm's correction: adapting helps)" in helped
    assert helped.endswith("; and 1,100 for a policy trained there, of which this is 91%.")
    spare = said(non_t=EIGHT, oracle=[1010.0] * 8)
    assert "no difference that the seeds can tell, p = 1; it is hardly needed here" in spare
    assert "adapting hurts" in said(non_t=[2000.0 + 2 * i**2 for i in range(8)])
    assert "too few pairs of seeds for a test" in said(non_t=[1.0, 2.0])


def test_nobody_to_compare_with_gives_no_verdict(summary):
    assert comparison.verdicts(against(summary), []) == []
    assert comparison.tests(summary | {"scores": []}) == [] and comparison.ours(summary | {"scores": []}) is None
