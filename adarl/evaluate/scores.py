"""Raw scores as they stand in scores.csv -> matrices for `statistics`. Nothing is averaged over silently.

In: cells (row, samples, method, seed, score). Out: one matrix a method, complete, or a sentence that names what is wrong.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adarl.domains.family import unknown
from adarl.evaluate.statistics import Scores
from adarl.types import AdarlError

COLUMNS = ("row", "samples", "method", "seed", "score")
ORACLE, NONE = "oracle", "0"
"""The oracle is trained on the target itself: it has no samples, and its scores stand in every table of their row."""


class Place(NamedTuple):
    """Where the scores of all seeds of one method belong."""

    row: str
    samples: str
    method: str

    def __str__(self) -> str:
        samples = f"{self.samples} samples" if self.samples.isdigit() else self.samples
        return f"{self.method!r} in {self.row}" + ("" if self.method == ORACLE else f" with {samples}")


@dataclass(frozen=True)
class Cell:
    """One row of scores.csv."""

    row: str
    samples: str
    method: str
    seed: int
    score: float


@dataclass(frozen=True)
class Grid:
    """Every cell that a bench is to have."""

    name: str
    rows: tuple[str, ...]
    samples: tuple[str, ...]
    methods: tuple[str, ...]
    cap: float
    """The best score there is."""
    unit: str
    """What a score is, in a few sentences."""
    settings: str = ""
    """How the settings were chosen, in a few sentences."""
    paper: str = ""
    """Which of the paper's tables have the same rows: MDP or POMDP."""

    def places(self) -> Iterator[Place]:
        """All that belong to the bench, the oracle's once a row."""
        for method in self.methods:
            for samples in (NONE,) if method == ORACLE else self.samples:
                yield from (Place(row, samples, method) for row in self.rows)


CARTPOLE_MDP = Grid(
    name="CartPole, states observed",
    rows=("G_in", "G_out", "M_in", "M_out", "GM_in", "GM_out", "motor_in", "motor_out", "target_in", "target_out"),
    samples=("50steps", "20", "50", "10000"),
    methods=(ORACLE, "non_t", "cavia", "pearl", "adarl_star", "adarl", "adarl_plus"),
    cap=10_000.0,
    unit="A score is the mean over a seed's evaluation episodes: steps survived, cut at 10,000; in the rows target the sum"
    " of rewards of at most 1 a step. The rows motor hold the mean of a target with either sign."
    " A trajectory has at most 40 steps.",
    settings="Settings are the same for every method of a row and were chosen for AdaRL+. The discount of target was chosen"
    " by scores on the sources and in imagined domains; the other discounts, how far imagination goes, what AdaRL+ may tell"
    " its network, the updates of M, and the width, updates, horizon, exploration, averaging and wandering of G & M were"
    " chosen in trials of 4 to 30 seeds whose scores in the targets were seen. AdaRL as printed was not tuned on its own and"
    " had somewhat more in G_out & M_out with earlier settings. What CAVIA and PEARL alone have was chosen among 7 and 4"
    " settings by scores on the sources (results/search.json): less effort than AdaRL+ had.",
    paper="MDP",
)


CARTPOLE_POMDP = Grid(
    name="CartPole, images observed",
    rows=("G_in", "G_out", "M_in", "M_out", "N_in", "N_out"),
    samples=("20", "50", "10000"),
    methods=(ORACLE, "non_t", "pnn", "psm", "mql", "adarl_star", "adarl", "adarl_plus"),
    cap=10_000.0,
    unit="A score is the mean over a seed's evaluation episodes: steps survived, cut at 10,000."
    " A trajectory has at most 40 steps. All methods act on what a model of the same kind believes of the state; those"
    " without a theta share one that is told nothing of the domain.",
    settings="Settings of the learner are the same for every method of a row, and in every method several networks act"
    " together. Those and the model's settings were chosen in trials of 8 to 30 seeds of AdaRL and AdaRL+ on gravity,"
    " mass and noise, and of one policy for all noises that is told nothing, whose scores in the targets were seen. What"
    " PNN, PSM and MQL alone have was chosen among 9, 4 and 5 settings where states are observed, by scores in a source"
    " left out of the others (results/search.json): less effort than AdaRL+ had. There PNN's second column, trained on a"
    " few random steps, is far better than its first alone with another motor, and worse with another gravity. Of MQL's two"
    " best, 4 of 1,350 steps apart, the one with the smaller weights is used. Through noise no encoder is told how much of"
    " it there is, which serves AdaRL better (results/hears.json).",
    paper="POMDP",
)


DISTRACTED = replace(
    CARTPOLE_MDP,
    name="CartPole with 16 dimensions that nothing reads",
    rows=("distracted_in", "distracted_out"),
    samples=("20",),
    methods=("adarl_star", "adarl"),
    settings="",
    paper="",
    unit="A score is the mean of steps survived over a seed's evaluation episodes, cut at 10,000."
    " A trajectory has at most 40 steps.",
)


def read(path: Path, grid: Grid = CARTPOLE_MDP) -> list[Cell]:
    """The cells of a scores.csv; the first line that does not belong there is named."""
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8") as handle:
            lines = csv.DictReader(handle)
            for column in COLUMNS:
                if column not in (lines.fieldnames or ()):
                    raise AdarlError(f"{path} has no column {column!r}; expected are {', '.join(COLUMNS)}.")
            cells = [_cell(line, f"Line {lines.line_num} of {path}", grid) for line in lines]
    except OSError as error:
        raise AdarlError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise AdarlError(f"{path} is no table of scores: {error}.") from error
    if not cells:
        raise AdarlError(f"{path} holds no scores.")
    index(cells)
    return cells


def index(cells: Iterable[Cell]) -> dict[Place, dict[int, float]]:
    """The scores by place and seed. A score that stands twice or is not finite is named."""
    found: dict[Place, dict[int, float]] = {}
    for cell in cells:
        place = Place(cell.row, cell.samples, cell.method)
        scores = found.setdefault(place, {})
        if cell.seed in scores:
            raise AdarlError(f"Seed {cell.seed} of {place} stands twice in the scores; once is expected.")
        if not np.isfinite(cell.score):
            raise AdarlError(f"Seed {cell.seed} of {place} has the score {cell.score}; a finite number is expected.")
        scores[cell.seed] = cell.score
    return found


def matrix(cells: list[Cell], method: str, rows: list[tuple[str, str]]) -> Scores:
    """The scores of one method with the axes (seed, row); a row is a target with its number of samples.

    A cell that is missing, doubled or not a number is named.
    """
    found = index(cell for cell in cells if cell.method == method)
    columns = [found.get(Place(*row, method), {}) for row in rows]
    seeds = sorted({seed for column in columns for seed in column})
    if not seeds:
        raise AdarlError(f"There are no scores of {method!r} in {', '.join(row for row, _ in rows)}.")
    for row, column in zip(rows, columns, strict=True):
        for seed in seeds:
            if seed not in column:
                raise AdarlError(f"Seed {seed} of {Place(*row, method)} is missing, while other rows have it.")
    return np.asarray([[column[seed] for column in columns] for seed in seeds])


def gaps(cells: list[Cell], grid: Grid) -> list[str]:
    """One sentence for every method that lacks scores, or seeds that others have. None: the bench is complete."""
    found = index(cells)
    seeds = {seed for place in grid.places() for seed in found.get(place, {})}
    empty: dict[tuple[str, str], list[str]] = {}
    said = []
    for place in grid.places():
        scores = found.get(place, {})
        lacking = sorted(seeds - scores.keys())
        if not scores:
            empty.setdefault((place.method, place.samples), []).append(place.row)
        elif lacking:
            have = f"{len(scores)} of {len(seeds)} seeds"
            said.append(f"{place} has {have}, without {', '.join(map(str, lacking))}.")
    for (method, samples), rows in empty.items():
        where = "any row" if rows == list(grid.rows) else ", ".join(rows)
        said.append(f"No scores of {Place(where, samples, method)}.")
    return said


def check(cells: list[Cell], grid: Grid) -> None:
    """Refuse scores that lack cells, or in which methods have different seeds."""
    if missing := gaps(cells, grid):
        raise AdarlError("The scores are not complete. " + " ".join(missing))


def ties(cells: list[Cell], grid: Grid) -> dict[tuple[str, str], float]:
    """The rows, with their samples, in which every seed of every method but the oracle has the same score, and it."""
    found = index(cells)
    tied = {}
    for samples in grid.samples:
        for row in grid.rows:
            here = [found.get(Place(row, samples, method), {}) for method in grid.methods if method != ORACLE]
            values = {score for scores in here for score in scores.values()}
            if len(values) == 1 and sum(map(bool, here)) > 1:
                tied[row, samples] = values.pop()
    return tied


def _cell(line: dict[Any, Any], where: str, grid: Grid) -> Cell:
    """One line, checked."""
    if None in line:  # where a reader puts what is beyond the last column, such as the end of 9,876
        raise AdarlError(f"{where} has more fields than there are columns.")
    for column in COLUMNS:
        if not line[column]:
            raise AdarlError(f"{where} has no {column}.")
    row, samples, method, seed, score = (str(line[column]).strip() for column in COLUMNS)
    for kind, given, accepted in (("row", row, grid.rows), ("method", method, grid.methods)):
        if given not in accepted:
            raise AdarlError(f"{where}: {unknown(kind, given, accepted)}")
    expected = (NONE,) if method == ORACLE else grid.samples
    if samples not in expected:
        raise AdarlError(f"{where}: {unknown(f'number of samples of {method}', samples, expected)}")
    if not (seed.isascii() and seed.isdigit()):
        raise AdarlError(f"{where} has the seed {seed!r}; a whole number from 0 on is expected.")
    try:
        value = float(score)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise AdarlError(f"{where} has the score {score!r}; a finite number is expected.")
    return Cell(row, samples, method, int(seed), value)
