"""Shared by the tests of the report."""

import made
import pytest


@pytest.fixture
def summary() -> dict:
    return made.small()


@pytest.fixture
def whole() -> dict:
    return made.whole()
