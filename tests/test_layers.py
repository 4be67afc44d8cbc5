"""The data path of the design: a stage imports only what stands to its left, plus types and network."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import adarl

ROOT = Path(adarl.__file__).parent
SHARED = ("types", "network")
PATH = (
    "domains",
    "collect",
    "locate",
    "model",
    "graph",
    "policy",
    "adapt",
    "agent",
    "methods",
    "evaluate",
    "report",
    "progress",
    "config",
    "run",
    "stages",
    "again",
    "exhibits",
    "experiment",
    "bench",
    "cli",
)
RUNS = ("agent", "stages", "experiment", "bench", "cli")
"""Who may know of run directories, `agent` although it stands left of them: it saves and loads itself."""
FILES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.stem != "__init__")


def stage(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """The stages that a file of `package` imports, at any depth of the code. "" is adarl itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            # `from adarl import graph` names its stage after the import, `from adarl.graph import x` before it.
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "adarl" else [base]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "adarl":
                yield rest[0] if rest else ""


def allowed(stage: str) -> set[str]:
    if stage in SHARED:
        return set(SHARED[: SHARED.index(stage)])
    left = set(PATH[: PATH.index(stage)]) - {"run"}
    # The command line is a user of the package like any other.
    return {*SHARED, *left, stage, *(["run"] if stage in RUNS else []), *([""] if stage == "cli" else [])}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_point_to_the_left(file: Path):
    here = stage(file)
    assert here in (*SHARED, *PATH), f"{here} has no place in the data path"
    package = ("adarl", *file.relative_to(ROOT).parts[:-1])
    wrong = set(imported(file.read_text(), package)) - allowed(here)
    assert not wrong, f"{here} imports {sorted(wrong)}, which does not stand to its left"


def test_the_walk_sees_every_form_of_import():
    source = """
import numpy, adarl.model.fit as fit
from adarl import graph, types
from adarl.policy.learn import learn
from . import masks
from ..locate import changes
from .. import collect
def later():
    if True:
        import adarl.cli
import adarl
from adarlike import nothing
"""
    got = list(imported(source, ("adarl", "model")))
    assert sorted(got) == sorted(["model", "graph", "types", "policy", "model", "locate", "collect", "cli", ""])


def test_the_order_forbids():
    assert "graph" in allowed("policy") and "policy" not in allowed("graph")
    assert "policy" in allowed("evaluate") and "run" not in allowed("evaluate")
    assert all("run" in allowed(s) for s in RUNS)
    assert "" in allowed("cli") and "" not in allowed("experiment")
    assert "network" not in allowed("types") and "domains" not in allowed("network")


def test_a_command_does_not_wait_for_what_few_commands_need():
    """A third of the time to start a command, or a worker, was spent on these."""
    seldom = ("matplotlib", "scipy.stats", "scipy.interpolate", "minari")
    code = f"import sys, adarl.cli; print(*(name for name in {seldom} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []
