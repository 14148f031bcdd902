"""Steps one after another in lanes that run at once; their output line by line, with the lane's name before it.

A lane that has come to its end takes steps of the other, the last first, where they may run in any: two processors
have something to do as long as there is something.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.suite.groups import SET_UP, STATIC, Lane

NICE = 10
"""How far the local lane stands back: what waits for a cluster must not wait for a processor as well."""
STOP_SECONDS = 30.0
NO_TESTS = 5
"""pytest's exit status when nothing was collected."""


@dataclass(frozen=True)
class Step:
    """One command. A step with a ``minutes`` file is pytest with the plugin of that name.

    Its minutes are those of ``group``; of pytest's they are those of each module's group, unless another is named.
    """

    name: str
    command: Sequence[str]
    group: str = SET_UP
    minutes: Path | None = None
    tells: str | None = None
    """Name of what is ready when this step has ended well."""
    needs: str | None = None
    """What must be ready before it begins."""
    stops: bool = False
    """Nothing after it makes sense when it fails."""
    anywhere: bool = False
    """Whether the other lane may run it, in any order."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a step ended."""

    step: Step
    lane: Lane
    seconds: float
    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...]
    """Names of failed tests; the step's own where it is no pytest run, or one that ended without saying how."""
    rows: tuple[Mapping[str, Any], ...]

    @property
    def good(self) -> bool:
        """Nothing failed."""
        return not self.failed


@dataclass
class Runner:
    """Runs lanes; ``out`` takes each line. ``folder`` has one log a step."""

    root: Path
    folder: Path
    out: Callable[[str], None] = lambda line: print(line, flush=True)
    clock: Callable[[], float] = time.monotonic
    _ready: set[str] = field(default_factory=set)
    _given_up: set[str] = field(default_factory=set)
    _change: threading.Condition = field(default_factory=threading.Condition)
    _running: dict[Lane, subprocess.Popen[str]] = field(default_factory=dict)
    _stopping: bool = False

    def run(self, lanes: Mapping[Lane, Sequence[Step]]) -> list[Outcome]:
        """Run every lane in a thread of its own, until all have ended; an interruption ends what they started."""
        found: dict[Lane, list[Outcome]] = {lane: [] for lane in lanes}
        queues = {lane: deque(steps) for lane, steps in lanes.items()}
        threads = [threading.Thread(target=self._lane, args=(lane, queues, found[lane]), daemon=True) for lane in lanes]
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            signal.signal(signal.SIGTERM, before)
            self._end_all()
        return [outcome for lane in lanes for outcome in found[lane]]

    def _next(self, lane: Lane, queues: Mapping[Lane, deque[Step]]) -> Step | None:
        """The lane's next step; else the last one of another lane that may run anywhere."""
        with self._change:
            if queues[lane]:
                return queues[lane].popleft()
            other = next((queue for queue in queues.values() if queue and queue[-1].anywhere), None)
            return other.pop() if other is not None else None

    def _lane(self, lane: Lane, queues: Mapping[Lane, deque[Step]], found: list[Outcome]) -> None:
        stopped = ""
        while (step := self._next(lane, queues)) is not None:
            if step.anywhere:
                stopped = ""
            if not stopped and step.needs is not None and not self._wait(step.needs):
                stopped = step.needs
            if stopped:
                text = f"{step.name}: not run, {stopped} failed"
                self._say(lane, text)
                found.append(Outcome(step, lane, 0.0, 0, 1, 0, (text,), ()))
                self._tell(step, good=False)
                continue
            outcome = self._step(lane, step)
            found.append(outcome)
            self._tell(step, good=outcome.good)
            if step.stops and not outcome.good:
                stopped = step.name

    def _wait(self, what: str) -> bool:
        """True once it is ready, False when it never will be."""
        with self._change:
            self._change.wait_for(lambda: what in self._ready | self._given_up)
            return what in self._ready

    def _tell(self, step: Step, *, good: bool) -> None:
        if step.tells is not None:
            with self._change:
                (self._ready if good else self._given_up).add(step.tells)
                self._change.notify_all()

    def _step(self, lane: Lane, step: Step) -> Outcome:
        self._say(lane, f"== {step.name}")
        if step.minutes is not None:
            step.minutes.unlink(missing_ok=True)
        begin = self.clock()
        status, processor = self._command(lane, step)
        seconds = self.clock() - begin
        found = outcome_of(step, lane, status, seconds, processor)
        self._say(lane, f"== {step.name}: {'done' if found.good else 'FAILED'} in {seconds:.0f} s")
        return found

    def _command(self, lane: Lane, step: Step) -> tuple[int, float]:
        """Exit status, and processor seconds of the command and of all it waited for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = list(step.command)
        if lane is Lane.LOCAL:
            command = ["nice", "-n", str(NICE), *command]
        with (self.folder / f"{_file_name(step.name)}.log").open("w", encoding="utf-8") as log:
            with self._change:
                if self._stopping:
                    return 1, 0.0
                process = self._running[lane] = subprocess.Popen(
                    command,
                    cwd=self.root,
                    env={**os.environ, "PYTHONUNBUFFERED": "1", **step.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            if lane is Lane.LOCAL:
                stand_back(process.pid)
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                log.flush()
                self._say(lane, line.rstrip("\n"))
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, used.ru_utime + used.ru_stime

    def _say(self, lane: Lane, text: str) -> None:
        self.out(f"{lane:5} | {text}")

    def _end_all(self) -> None:
        """End what still runs, by the process groups that were started here."""
        with self._change:
            self._stopping = True
            running = [process for process in self._running.values() if process.poll() is None]
        for process in running:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def stand_back(pid: int, proc: Path = Path("/proc")) -> None:
    """Make the nice value count outside of the process's session too, on kernels that schedule sessions as groups.

    sched(7), "The autogroup feature": nice values then matter only within a session; its group has one of its own.
    """
    with contextlib.suppress(OSError):
        (proc / str(pid) / "autogroup").write_text(str(NICE), encoding="utf-8")


def outcome_of(step: Step, lane: Lane, status: int, seconds: float, processor: float = 0.0) -> Outcome:
    """How a step ended, by its exit status and, for pytest, by what the plugin wrote.

    A run of pytest that wrote nothing, or whose status is bad without a failed test, counts as one failure.
    """
    if step.minutes is None:
        row = {"group": step.group, "module": step.name, "tests": 0, "wall": seconds, "processor": processor}
        good = status == 0
        return Outcome(step, lane, seconds, int(good and step.group == STATIC), int(not good), 0,
                       () if good else (f"{step.name}: exit status {status}",), (row,))  # fmt: skip
    try:
        told = json.loads(step.minutes.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        text = f"{step.name}: pytest ended with status {status} and did not say how"
        return Outcome(step, lane, seconds, 0, 1, 0, (text,), ())
    counts = Counter(told["outcomes"])
    failures = list(told["failed"])
    if not failures and (status != 0 or not sum(counts.values())):
        ran = "" if sum(counts.values()) else ", no test ran"
        failures.append(f"{step.name}: pytest ended with status {status}{ran}")
    wall, used = (sum(row[key] for row in told["rows"]) for key in ("wall", "processor"))
    rows = [row if step.group == SET_UP else {**row, "group": step.group} for row in told["rows"]]
    # What is not in a test: imports, collection, the end of session-wide fixtures.
    rest = {"group": rows[0]["group"] if rows else step.group, "module": f"{step.name}: rest",
            "tests": 0, "wall": max(0.0, seconds - wall), "processor": max(0.0, processor - used)}  # fmt: skip
    return Outcome(
        step, lane, seconds,
        counts["passed"] + counts["xpassed"], len(failures), counts["skipped"] + counts["xfailed"],
        tuple(failures), (*rows, rest),
    )  # fmt: skip


def _file_name(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)
