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
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
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
    """Most resident memory of all of them together since the call before, in 10^6 bytes. Pages that a process shares
    with the one that it was forked from count for both."""

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
        for command, ticks, _ in _processes():
            seconds["java" if command == "java" else "python"] += ticks
        most, self._most = max(self._most, self._memory()), 0.0
        return Spent(seconds["java"] / TICK, seconds["python"] / TICK, most)

    def cpu(self) -> float:
        """Returns the processor seconds up to now."""
        return sum(ticks for _, ticks, _ in _processes()) / TICK

    def _memory(self) -> float:
        return sum(pages for _, _, pages in _processes()) * PAGE / 1e6

    def _watch(self) -> None:
        wait = threading.Event()
        while not wait.wait(SAMPLED):
            self._most = max(self._most, self._memory())


def _processes() -> list[tuple[str, int, int]]:
    """Command, ticks (with those of children that have ended) and resident pages of this process and all below it."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[str, int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        found[pid] = head.partition("(")[2], sum(map(int, fields[11:15])), int(fields[21])
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return [found[pid] for pid in mine]
