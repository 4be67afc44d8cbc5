"""Shared settings of the tests."""

import os
from collections.abc import Iterator

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.expanduser("~/.cache/adarl/jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # files and commands share many small programs

# Most programs run for less time than they take to compile; the kernels of XLA's newer emitters take three times as long.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def few_programs_at_once() -> Iterator[None]:
    """Compiled programs are let go after every file: a process that holds too many of them may be aborted by the system."""
    yield
    jax.clear_caches()


SLOW = (
    "test_from_images.py",
    "test_cli.py",
    "test_on_beliefs.py",
    "test_methods.py",
    "test_from_few_steps.py",
    "test_sight.py",
    "test_experiment.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files come first, so that none of them is left when all others are done."""
    items.sort(key=lambda item: SLOW.index(item.path.name) if item.path.name in SLOW else len(SLOW))
