"""Matrices by hand, and what is wrong with scores is named."""

import numpy as np
import pytest

from adarl.evaluate.scores import Cell, matrix
from adarl.types import AdarlError

CELLS = [
    Cell(row, "20", method, seed, 10.0 * seed + len(row)) for row in ("G", "GM") for method in ("x", "y") for seed in (0, 1)
]
ROWS = [("G", "20"), ("GM", "20")]


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
