"""Raw scores as they stand in scores.csv -> matrices for `statistics`. Nothing is averaged over silently.

In: cells (row, samples, method, seed, score). Out: one matrix a method, complete, or a sentence that names what is wrong.
"""

from dataclasses import dataclass

import numpy as np

from adarl.evaluate.statistics import Scores
from adarl.types import AdarlError


@dataclass(frozen=True)
class Cell:
    """One row of scores.csv."""

    row: str
    samples: str
    method: str
    seed: int
    score: float


def matrix(cells: list[Cell], method: str, rows: list[tuple[str, str]]) -> Scores:
    """The scores of one method with the axes (seed, row); a row is a target with its number of samples.

    A cell that is missing, doubled or not a number is named.
    """
    found: dict[tuple[str, str, int], float] = {}
    for cell in cells:
        if cell.method == method:
            place = (cell.row, cell.samples, cell.seed)
            if place in found:
                raise AdarlError(f"{_named(method, *place)} stands twice in the scores; once is expected.")
            if not np.isfinite(cell.score):
                raise AdarlError(f"{_named(method, *place)} has the score {cell.score}; a finite number is expected.")
            found[place] = cell.score
    seeds = sorted({seed for row, samples, seed in found if (row, samples) in rows})
    if not seeds:
        raise AdarlError(f"There are no scores of {method!r} in {', '.join(row for row, _ in rows)}.")
    for row, samples in rows:
        for seed in seeds:
            if (row, samples, seed) not in found:
                raise AdarlError(f"{_named(method, row, samples, seed)} is missing, while other rows have it.")
    return np.asarray([[found[row, samples, seed] for row, samples in rows] for seed in seeds])


def _named(method: str, row: str, samples: str, seed: int) -> str:
    return f"Seed {seed} of {method!r} in {row} with {samples} samples"
