"""An instance of the conformance suite that is not there."""

from __future__ import annotations

import pytest

from e2e.conformance.context import Instance
from e2e.conformance.model import Outcome
from e2e.conformance.runner import run_checks
from tests.support.checks import CHECKS, instance


@pytest.fixture
def found() -> Instance:
    """An instance nobody can reach."""
    return instance()


@pytest.fixture
def outcomes(found: Instance) -> list[Outcome]:
    """One of each."""
    return run_checks(found, CHECKS, workers=2)
