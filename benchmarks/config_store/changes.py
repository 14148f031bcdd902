"""One change and how long it takes: until ZooKeeper has it, until each cluster answers with it, until its status says
that it is done."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Change:
    """One change, in seconds since it began."""

    size: int
    """Namespaces."""
    run: int
    case: str
    """well, falling silent, or hanging: what became of one cluster."""
    who: str
    """operator: declared, and done by it; by hand: one call of the admin REST."""
    group: str
    """all: the namespace is in every cluster; others: not in the one that hangs."""
    namespace: str
    stored: float
    clusters: Mapping[str, float] = field(default_factory=dict)
    """By cluster; one that hangs is not asked."""
    ready: float | None = None
    """None = nobody declared it."""

    @property
    def consistent(self) -> float:
        """Until all clusters that were asked answer with it."""
        return max(self.clusters.values())

    @property
    def done(self) -> float:
        """Until that, and until its status says so."""
        return max(self.consistent, self.ready or 0.0)


def by_run(changes: Iterable[Change], case: str, who: str, group: str | None = None) -> list[list[Change]]:
    """Changes of a case, run by run; ``group`` None = of both."""
    runs: dict[int, list[Change]] = {}
    for each in changes:
        if (each.case, each.who) == (case, who) and group in (None, each.group):
            runs.setdefault(each.run, []).append(each)
    return [runs[run] for run in sorted(runs)]


def write(path: Path, changes: Iterable[Change], clusters: Sequence[str]) -> None:
    """All changes as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["namespaces", "run", "case", "who", "group", "namespace", "stored", *clusters, "ready"])
        for each in changes:
            seconds = [each.stored, *(each.clusters.get(name) for name in clusters), each.ready]
            told = ["" if value is None else f"{value:.4f}" for value in seconds]
            writer.writerow([each.size, each.run, each.case, each.who, each.group, each.namespace, *told])
