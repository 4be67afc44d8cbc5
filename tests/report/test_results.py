"""One call writes the folder, whole, and the same again; what is incomplete is refused before anything is written."""

from dataclasses import replace
from pathlib import Path

import made_scores
import pytest

from adarl.report import results
from adarl.types import AdarlError


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_everything_is_written_and_the_same_again(tmp_path: Path):
    grid = replace(made_scores.SMALL, samples=("20",))
    cells, run = made_scores.scores(grid), {"cartpole-gravity-mass": made_scores.summary()}
    for folder in ("once", "again"):
        made = results.write(tmp_path / folder, cells, grid=grid, summaries=run, draws=20)
        assert {str(path.relative_to(tmp_path / folder)) for path in made} == names(tmp_path / folder)
    expected = {f"table-20{end}" for end in (".md", ".tex", ".csv", "-aggregates.csv", "-comparisons.csv")}
    figures = ["intervals-20", "profiles-20", *(f"{kind}-cartpole-gravity-mass" for kind in ("theta", "graph", "curves"))]
    expected |= {f"figures/{name}.{end}" for name in figures for end in ("png", "svg")}
    expected |= {f"learning.{end}" for end in ("md", "tex", "csv")}
    assert names(tmp_path / "once") == expected
    for name in expected:
        content = (tmp_path / "once" / name).read_bytes()
        assert content and content == (tmp_path / "again" / name).read_bytes(), name


def test_incomplete_scores_are_refused_before_anything_is_written(tmp_path: Path):
    cells = [cell for cell in made_scores.scores(made_scores.SMALL) if (cell.method, cell.samples) != ("pearl", "50steps")]
    with pytest.raises(AdarlError, match="No scores of 'pearl' in any row with 50steps"):
        results.write(tmp_path / "out", cells, grid=made_scores.SMALL)
    assert not (tmp_path / "out").exists()
    some = [cell for cell in cells if cell.method != "oracle"]  # and so no figures
    results.write(tmp_path / "out", some, grid=made_scores.SMALL, partial=True, draws=20)
    assert "No scores of 'pearl'" in (tmp_path / "out/table-50steps.md").read_text()
    assert "No scores of 'pearl'" not in (tmp_path / "out/table-20.md").read_text()


def test_without_an_oracle_and_with_a_bare_run_there_are_only_tables(tmp_path: Path):
    cells = [cell for cell in made_scores.scores(made_scores.SMALL) if cell.method != "oracle"]
    bare = made_scores.summary() | {"theta_min": {}, "edges": [], "curves": {"adarl": {"updates": [1], "score": [[None]]}}}
    results.write(tmp_path, cells, grid=made_scores.SMALL, summaries={"own": bare}, partial=True, draws=20)
    assert names(tmp_path) and not (tmp_path / "figures").exists()
