"""An instance of the conformance suite that is not there."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pulsar_conformance.context import Instance
from pulsar_conformance.model import Outcome
from pulsar_conformance.runner import run_checks
from tests.support.checks import CHECKS, instance
from tests.support.played_admin import Played


@pytest.fixture
def found() -> Instance:
    """An instance nobody can reach."""
    return instance()


@pytest.fixture
def outcomes(found: Instance) -> list[Outcome]:
    """One of each."""
    return run_checks(found, CHECKS, workers=2)


@pytest.fixture
def played() -> Iterator[Played]:
    """Admin REST that answers what is asked before the first check."""
    server = Played()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)
