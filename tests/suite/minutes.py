"""A pytest plugin, ``-p tests.suite.minutes``: minutes by module, counts of outcomes, and the choice of slices.

Processor seconds are those of pytest, of the processes it started and of theirs, alive or ended. What a module-wide or
session-wide fixture takes is the first test's that asked for it. Pods of a kind cluster are no such processes.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.suite.areas import AREAS, OWN_TARGET, SLICES
from tests.suite.groups import group_of

FAILED = ("failed", "error")
MESSAGE = 600
"""Characters of an error's message in the list of what failed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--select`` and ``--minutes``."""
    options = parser.getgroup("suite")
    options.addoption("--select", metavar="core|SLICE", help="what every run has, or one slice of an area")
    options.addoption("--minutes", metavar="FILE", type=Path, help="where the minutes and counts go, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """The recorder of this run."""
    select = config.getoption("--select")
    if select not in (None, "core", *(each.name for each in SLICES)):
        raise pytest.UsageError(f"--select {select}: use core or one of {', '.join(s.name for s in SLICES)}")
    file = config.getoption("--minutes")
    if file is not None:
        config.pluginmanager.register(Recorder(file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for; a long test names a slice that there is."""
    known = {each.name for each in SLICES}
    for item in items:
        unknown = set(_slices(item)) - known
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: no such slice in tests/suite/areas.py: {', '.join(unknown)}")
    select = config.getoption("--select")
    if select is None:
        return
    chosen = [item for item in items if _chosen(item, select)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def _chosen(item: pytest.Item, select: str) -> bool:
    found = _slices(item)
    if item.get_closest_marker(OWN_TARGET) is not None:
        return False
    return not found if select == "core" else select in found


def _slices(item: pytest.Item) -> list[str]:
    """Names of the slices of a long test: the mark nearest to it counts, of each area."""
    marks = [mark for area in AREAS if (mark := item.get_closest_marker(area)) is not None]
    for mark in marks:
        if len(mark.args) != 1:
            raise pytest.UsageError(f"{item.nodeid}: mark {mark.name} needs the number of its slice: {mark.name}(1)")
    return [f"{mark.name}-{mark.args[0]}" for mark in marks]


@dataclass
class Module:
    """What one module has taken so far."""

    tests: int = 0
    wall: float = 0.0
    processor: float = 0.0


@dataclass(eq=False)
class Recorder:
    """Takes the time of each test, and writes everything when the session ends."""

    file: Path
    modules: dict[str, Module] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    _seen: tuple[str, float] | None = None
    """Module that runs, and processor seconds when it began."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Between the beginning of a test's set-up and the end of its tear-down."""
        module = item.nodeid.split("::", 1)[0]
        if self._seen is None or self._seen[0] != module:
            self._turn(module)
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            found = self.modules.setdefault(module, Module())
            found.tests += 1
            found.wall += time.monotonic() - begin

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counted as pytest's closing line counts."""
        if report.when == "call" or report.outcome != "passed":
            word: str = report.outcome
            if hasattr(report, "wasxfail"):
                word = "xfailed" if report.skipped else "xpassed"
            elif report.failed and report.when != "call":
                word = "error"
            self.outcomes[word] += 1
            if word in FAILED:
                self.failed.append(f"{report.nodeid}{_why(report)}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported is a failure."""
        if report.failed:
            self.outcomes["error"] += 1
            self.failed.append(f"{report.nodeid}{_why(report)}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write what came out."""
        self._turn("")
        rows = [
            {"group": group_of(name), "module": name, "tests": m.tests, "wall": m.wall, "processor": m.processor}
            for name, m in self.modules.items()
        ]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        found = {"rows": rows, "outcomes": dict(self.outcomes), "failed": self.failed, "status": int(exitstatus)}
        self.file.write_text(json.dumps(found), encoding="utf-8")

    def _turn(self, module: str) -> None:
        """Another module begins: what was used since the last turn is the one's before."""
        now = processor_seconds(os.getpid())
        if self._seen is not None:
            self.modules[self._seen[0]].processor += max(0.0, now - self._seen[1])
        self._seen = (module, now) if module else None
        if module:
            self.modules.setdefault(module, Module())


def _why(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The error's message in one line: who reads only the end of a run's output sees why a test failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = " ".join(str(crash.message if crash is not None else report.longreprtext).split())
    return f": {text[:MESSAGE]}{' ...' if len(text) > MESSAGE else ''}" if text else ""


def processor_seconds(pid: int, proc: Path = Path("/proc")) -> float:
    """Seconds that a process and its descendants have used, with those that ended; 0 where there is no /proc.

    proc(5): fields 14 to 17 of stat are the time of the process and of its waited-for children, in clock ticks.
    """
    times: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for file in proc.glob("[0-9]*/stat"):
        try:
            # The command's name, in parentheses, may have spaces and parentheses of its own.
            fields = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        number = int(file.parent.name)
        times[number] = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(fields[1]), []).append(number)
    total, todo = 0.0, [pid]
    while todo:
        number = todo.pop()
        total += times.get(number, 0.0)
        todo += children.get(number, [])
    return total
