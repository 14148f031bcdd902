"""Processor time of a run, by program: the benchmark and every process it has started, such as the API server."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = {
    "kube-apiserver": "API server",
    "etcd": "etcd",
    "benchmarks.objects.pulsar_server": "admin endpoint",
    "benchmarks.objects.logical_operator": "operator",
    "benchmarks.objects.peer": "peer",
    "java": "Pulsar",
}
"""What a command line contains, and what its process is called."""
BENCHMARK = "benchmark"


@dataclass(frozen=True)
class Spent:
    """Processor seconds between two moments."""

    by_program: Mapping[str, float]

    @property
    def total(self) -> float:
        """Of all programs."""
        return sum(self.by_program.values())

    @property
    def bound(self) -> float:
        """Seconds that the same work takes at least: no processor is ever idle, and nothing else runs."""
        return self.total / (os.cpu_count() or 1)


def spent_since(before: Mapping[str, float]) -> Spent:
    """What was spent since ``before``, an answer of processor_seconds."""
    return Spent({name: seconds - before.get(name, 0.0) for name, seconds in processor_seconds().items()})


def processor_seconds() -> dict[str, float]:
    """Processor seconds so far by program. A process that has ended no longer counts."""
    found: defaultdict[str, float] = defaultdict(float, {BENCHMARK: time.process_time()})
    parents = {process: parent for process, parent in _parents()}
    for process in parents:
        if _descends(process, parents):
            with contextlib.suppress(OSError):
                found[_program(process)] += _seconds(process)
    return dict(found)


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), int(_fields(int(entry.name))[1])


def _descends(process: int, parents: Mapping[int, int]) -> bool:
    """Whether this process has started it, or a process that did."""
    at = parents.get(process)
    while at is not None and at != os.getpid():
        at = parents.get(at)
    return at is not None


def _fields(process: int) -> list[str]:
    """/proc/PID/stat from the third field on: the second, the name, may contain blanks (proc(5))."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def _seconds(process: int) -> float:
    fields = _fields(process)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _program(process: int) -> str:
    command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return next((name for part, name in PROGRAMS.items() if part in command), "others")
