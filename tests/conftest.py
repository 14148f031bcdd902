"""Settings of all tests."""

from __future__ import annotations

import gc
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

COLLECTED_AFTER = (20_000, 20, 20)
"""Objects made since the last look for circles of garbage, and looks at younger ones before one at older ones. Python's
own 700, 10, 10 has it look at every model, test and kept world thousands of times: a sixth of the processor time."""

SUMMARY = pytest.StashKey[Summary]()


def pytest_configure(config: pytest.Config) -> None:
    """One summary of the fault matrices a run."""
    config.stash[SUMMARY] = Summary()


def pytest_collection_finish() -> None:
    """What is there before the first test stays, and is not looked at for garbage any more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


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
