"""Processors that this process may use: those of its affinity, or fewer where its control group has a quota."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def usable(available: int | None = None, *, cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Whole processors, at least 1: of `available` (None if the affinity) no more than the tightest quota, rounded up.

    Quotas are ``cpu.max`` of cgroup v2 or ``cpu.cfs_quota_us`` of v1, of the own group and of all above it (Linux,
    admin-guide/cgroup-v2 and scheduler/sched-bwc). Java rounds up too, so Spark's ``local[*]`` agrees.
    """
    count = len(os.sched_getaffinity(0)) if available is None else available
    return max(1, min([count, *(math.ceil(quota) for quota in _quotas(cgroups, membership))]))


def _quotas(cgroups: Path, membership: Path) -> Iterator[float]:
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            for folder in _above(cgroups, group):
                yield from _quota(_text(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                for folder in _above(cgroups / name, group):
                    texts = (_text(folder / f"cpu.cfs_{what}_us").strip() for what in ("quota", "period"))
                    yield from _quota(list(texts))


def _above(root: Path, group: str) -> Iterator[Path]:
    """The folders of a group and of those above it. Inside a container the own group is often the root itself."""
    inside = PurePosixPath(group.lstrip("/"))
    if ".." not in inside.parts:
        yield from (root / each for each in (inside, *inside.parents))


def _quota(words: list[str]) -> Iterator[float]:
    """Processors of a quota and a period in microseconds; none for "max", -1 and what is no number."""
    with suppress(ValueError):
        quota, period = (int(word) for word in words)
        if quota > 0 and period > 0:
            yield quota / period


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
