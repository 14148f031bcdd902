"""What a benchmark's processes use: processor seconds of Java and of Python, and resident memory."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36
"""See prctl(2)."""
TICK: Final = os.sysconf("SC_CLK_TCK")
SAMPLED: Final = 1.0
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Spent:
    """What was used up to now."""

    java: float
    """Processor seconds, user and system."""
    python: float
    """The same of this process and of Spark's workers."""
    peak_mb: float
    """Most resident memory of all of them together since the call before, in 10^6 bytes. A page that some of them
    share counts once."""

    @property
    def cpu(self) -> float:
        """Processor seconds of all."""
        return self.java + self.python


class Meter:
    """Measures this process and all below it: Java, and the Python of Spark's tasks."""

    def __init__(self) -> None:
        # Workers whose parent has ended become children of this process and are counted on.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._most = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def spent(self) -> Spent:
        """Returns what was used up to now."""
        seconds: Counter[str] = Counter()
        for _, command, ticks in _processes():
            seconds["java" if command == "java" else "python"] += ticks
        most, self._most = max(self._most, self._memory()), 0.0
        return Spent(seconds["java"] / TICK, seconds["python"] / TICK, most)

    def cpu(self) -> float:
        """Returns the processor seconds up to now."""
        return sum(ticks for _, _, ticks in _processes()) / TICK

    def _memory(self) -> float:
        return sum(_shared_out(pid) for pid, _, _ in _processes()) / 1e6

    def _watch(self) -> None:
        wait = threading.Event()
        while not wait.wait(SAMPLED):
            self._most = max(self._most, self._memory())


def _shared_out(pid: int) -> int:
    """Resident bytes of a process, those that others have too divided by their number; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _processes() -> list[tuple[int, str, int]]:
    """Id, command and ticks (with those of children that have ended) of this process and all below it."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[int, str, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        found[pid] = pid, head.partition("(")[2], sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return [found[pid] for pid in mine]
