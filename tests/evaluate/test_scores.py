"""Matrices by hand, and what is wrong with scores is named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adarl.evaluate.scores import CARTPOLE_MDP, Cell, Grid, check, gaps, matrix, read, ties
from adarl.types import AdarlError

CELLS = [
    Cell(row, "20", method, seed, 10.0 * seed + len(row)) for row in ("G", "GM") for method in ("x", "y") for seed in (0, 1)
]
ROWS = [("G", "20"), ("GM", "20")]
GRID = Grid("", ("G", "GM"), ("20",), ("oracle", "x", "y"), cap=12.0, unit="")
ORACLE = [Cell(row, "0", "oracle", seed, 12.0) for row in ("G", "GM") for seed in (0, 1)]
HEAD = "row,samples,method,seed,score\n"


def test_matrix_by_hand():
    np.testing.assert_array_equal(matrix(CELLS, "x", ROWS), [[1.0, 2.0], [11.0, 12.0]])
    np.testing.assert_array_equal(matrix(CELLS[::-1], "y", ROWS[::-1]), [[2.0, 1.0], [12.0, 11.0]])


@pytest.mark.parametrize(
    ("cells", "method", "said"),
    [
        (CELLS[1:], "x", "Seed 0 of 'x' in G with 20 samples is missing"),
        ([*CELLS, CELLS[0]], "x", "Seed 0 of 'x' in G with 20 samples stands twice"),
        ([*CELLS[1:], Cell("G", "20", "x", 0, float("nan"))], "x", "has the score nan"),
        (CELLS, "z", "no scores of 'z'"),
    ],
)
def test_what_is_wrong_is_named(cells: list[Cell], method: str, said: str):
    with pytest.raises(AdarlError, match=said):
        matrix(cells, method, ROWS)


def written(folder: Path, text: str) -> Path:
    path = folder / "scores.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_read_returns_every_line(tmp_path: Path):
    path = written(tmp_path, "seed,row,samples,method,score\n3,G_in,50steps,adarl_plus,9999.5\n0,GM_out,0,oracle,1e4\n")
    assert read(path) == [Cell("G_in", "50steps", "adarl_plus", 3, 9999.5), Cell("GM_out", "0", "oracle", 0, 10_000.0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no column 'row'"),
        ("row,samples,method,seed\nG_in,20,adarl,0\n", "has no column 'score'; expected are row, samples"),
        (HEAD, "holds no scores"),
        (HEAD + "G_in,20,adarl,0,1\nG_in,20,cavai,0,1\n", "Line 3 .*Unknown method 'cavai'. Did you mean 'cavia'?"),
        (HEAD + "G_inn,20,adarl,0,1\n", "Line 2 .*Unknown row 'G_inn'. Did you mean 'G_in'?"),
        (HEAD + "G_in,30,adarl,0,1\n", "Unknown number of samples of adarl '30'"),
        (HEAD + "G_in,20,oracle,0,1\n", "Unknown number of samples of oracle '20'.* Accepted: 0"),
        (HEAD + "G_in,0,adarl,0,1\n", "Unknown number of samples of adarl '0'"),
        (HEAD + "G_in,20,adarl,-1,1\n", "has the seed '-1'; a whole number"),
        (HEAD + "G_in,20,adarl,0.5,1\n", "has the seed '0.5'; a whole number"),
        (HEAD + "G_in,20,adarl,0,nan\n", "Line 2 .* has the score 'nan'; a finite number"),
        (HEAD + "G_in,20,adarl,0,inf\n", "has the score 'inf'; a finite number"),
        (HEAD + "G_in,20,adarl,0,many\n", "has the score 'many'; a finite number"),
        (HEAD + "G_in,20,adarl,0,\n", "Line 2 .* has no score"),
        (HEAD + "G_in,20,adarl\n", "Line 2 .* has no seed"),
        (HEAD + "G_in,20,adarl,0,9,876\n", "Line 2 .* has more fields than there are columns"),
        (HEAD + "G_in,20,adarl,0,1\nG_in,20,adarl,0,2\n", "Seed 0 of 'adarl' in G_in with 20 samples stands twice"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, said: str):
    with pytest.raises(AdarlError, match=said):
        read(written(tmp_path, text))


def test_a_file_that_is_none_is_named(tmp_path: Path):
    with pytest.raises(AdarlError, match="cannot be read: No such file"):
        read(tmp_path / "scores.csv")
    with pytest.raises(AdarlError, match="cannot be read: Is a directory"):
        read(tmp_path)
    (tmp_path / "image.csv").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(AdarlError, match="is no table of scores"):
        read(tmp_path / "image.csv")


def test_the_committed_scores_are_read():
    assert len(read(Path(__file__).parents[2] / "results/cartpole-mdp/scores.csv")) > 1000


def test_a_complete_bench_has_no_gaps():
    assert gaps(CELLS + ORACLE, GRID) == []
    check(CELLS + ORACLE, GRID)
    assert len(list(CARTPOLE_MDP.places())) == 10 * (1 + 6 * 4)


def test_gaps_are_named():
    assert gaps(CELLS, GRID) == ["No scores of 'oracle' in any row."]
    assert gaps(CELLS[2:] + ORACLE, GRID) == ["No scores of 'x' in G with 20 samples."]
    assert gaps(CELLS[1:] + ORACLE, GRID) == ["'x' in G with 20 samples has 1 of 2 seeds, without 0."]
    more = [*CELLS, *ORACLE, Cell("G", "20", "y", 7, 1.0)]
    assert len(gaps(more, GRID)) == 5 and "'oracle' in G has 2 of 3 seeds, without 7." in gaps(more, GRID)
    both = replace(GRID, samples=("20", "50"))
    assert gaps(CELLS + ORACLE, both) == [f"No scores of '{m}' in any row with 50 samples." for m in ("x", "y")]
    with pytest.raises(AdarlError, match=r"not complete. No scores of 'oracle' in any row\."):
        check(CELLS, GRID)


def test_rows_that_are_all_tied_are_found():
    flat = [replace(cell, score=12.0) if cell.row == "G" else cell for cell in CELLS]
    assert ties(flat, GRID) == {("G", "20"): 12.0}
    assert ties(CELLS + ORACLE, GRID) == {}
    assert ties([cell for cell in flat if cell.method == "x"], GRID) == {}  # alone, a method ties with nobody
