"""Settings of all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.faults.summary import Summary, header

# A timing never decides whether a test passes: neither of an example, nor of drawing it on a machine that is busy. A
# submission's check draws the same examples each time (CI is set), so that what it says can be repeated; a developer's
# run draws new ones.
settings.register_profile(
    "project",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("project")

SUMMARY = pytest.StashKey[Summary]()


def pytest_configure(config: pytest.Config) -> None:
    """One summary of the fault matrices a run."""
    config.stash[SUMMARY] = Summary()


def pytest_report_header(config: pytest.Config) -> str:
    """Which sample of faults is taken."""
    return header()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table of the matrices that were run."""
    summary = config.stash[SUMMARY]
    if summary.tallies:
        terminalreporter.section("faults")
        for line in summary.table():
            terminalreporter.write_line(line)


@pytest.fixture
def faults_summary(request: pytest.FixtureRequest) -> Summary:
    """Where a matrix says what came out."""
    return request.config.stash[SUMMARY]
