"""What pytest does in a run of this tool: it records which test executes which line, or runs chosen tests in order.

Loaded with ``-p tests.mutants.plugin``; the environment variable ``MUTANTS_PLAN`` names a JSON file with the details.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import coverage
import pytest
from hypothesis import Phase, settings

PLAN: Final = "MUTANTS_PLAN"
TIMED_OUT: Final = 97
"""Exit status after a test that did not end."""
WAITING: Final = 10
"""So many times its limit of processor time a test may take on the clock: others use the machine, too."""
_MEMORY: Final = 6 << 30
"""Bytes of addresses: a mutant that collects things without end is not to take the machine with it."""


def _plan() -> dict[str, Any]:
    return dict(json.loads(Path(os.environ[PLAN]).read_text()))


class Recorder:
    """Which test executes which line, and how much processor time each takes."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """The plan has ``data`` (coverage's file), ``tests`` (file of durations), ``include``, ``files``."""
        self._plan, self._seconds, self._not_passed = plan, dict[str, float](), set[str]()
        self._coverage = coverage.Coverage(data_file=plan["data"], include=plan["include"], config_file=False)
        self._coverage.set_option("run:relative_files", True)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Lines belong to the test that runs."""
        self._coverage.switch_context(item.nodeid)
        begun = time.process_time()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = round(time.process_time() - begun, 4)
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What does not pass as it is says nothing of a mutant."""
        if not report.passed:
            self._not_passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Keep it."""
        self._coverage.stop()
        self._coverage.save()
        passed = {name: seconds for name, seconds in self._seconds.items() if name not in self._not_passed}
        Path(self._plan["tests"]).write_text(
            json.dumps({"passed": passed, "not_passed": sorted(self._not_passed), "files": self._plan["files"]})
        )


class Chosen:
    """Only some tests, in an order, until one fails; each with a time limit."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """The plan has ``tests`` (node id to limit of processor time, in order), ``root`` and ``result`` (file)."""
        self._plan, self._ran, self._by = plan, 0, ""
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.signal(signal.SIGALRM, self._too_long)
        signal.signal(signal.SIGPROF, self._too_long)

    def _too_long(self, number: int, frame: FrameType | None) -> None:
        self._write()
        os._exit(TIMED_OUT)

    def _write(self) -> None:
        Path(self._plan["result"]).write_text(json.dumps({"ran": self._ran, "by": self._by}))

    def pytest_collection(self) -> None:
        """A counterexample need not be small, only found."""
        phases = (Phase.explicit, Phase.generate, Phase.target)
        now = settings.get_profile(settings.get_current_profile_name())
        settings.register_profile("mutants", now, phases=phases, database=None)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """The plan's tests in the plan's order."""
        place = {name: number for number, name in enumerate(self._plan["tests"])}
        left_out = [item for item in items if item.nodeid not in place]
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
        config.hook.pytest_deselected(items=left_out)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A test that takes much more processor time than it did hangs, and one that waits and waits."""
        self._ran, self._by = self._ran + 1, item.nodeid
        limit = self._plan["tests"][item.nodeid]
        signal.setitimer(signal.ITIMER_PROF, limit)
        signal.setitimer(signal.ITIMER_REAL, WAITING * limit)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_sessionfinish(self) -> None:
        """Which test was the last. The code asked must be the copy's: another would let every mutant survive."""
        import pulsar_operator

        assert str(pulsar_operator.__file__).startswith(self._plan["root"]), pulsar_operator.__file__
        self._write()


def pytest_configure(config: pytest.Config) -> None:
    """Take part when a plan is given."""
    if _PART is not None:
        config.pluginmanager.register(_PART)


def _part() -> Recorder | Chosen | None:
    """Made as this is loaded, so that lines executed by imports are seen."""
    if PLAN not in os.environ:
        return None
    plan = _plan()
    return Recorder(plan) if plan["do"] == "record" else Chosen(plan)


_PART: Final = _part()
