"""The committed table of whole runs of areas: which slice ran when, on what commit, how long, and how it ended."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from tests.suite.areas import SLICES

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "area-runs.csv"


@dataclass(frozen=True)
class Run:
    """One run of a slice."""

    slice: str
    commit: str
    date: str
    minutes: str
    result: str


def read(file: Path = FILE) -> list[Run]:
    """All runs recorded, the oldest first; none where there is no file."""
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return [Run(**row) for row in csv.DictReader(lines)]


def record(found: Sequence[Run], file: Path = FILE) -> None:
    """Put runs in place of the earlier ones of the same slice; the order is that of the slices."""
    kept = {run.slice: run for run in [*read(file), *found]}
    order = [each.name for each in SLICES]
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(field.name for field in fields(Run))
        for name in sorted(kept, key=lambda name: order.index(name) if name in order else len(order)):
            writer.writerow(astuple(kept[name]))


def since(commit: str) -> int | None:
    """Commits since then, None where this checkout does not know it."""
    done = subprocess.run(
        ["git", "rev-list", "--count", f"{commit}..HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(done.stdout) if done.returncode == 0 else None


def head() -> tuple[str, int]:
    """Short name of the commit that is checked out, and the number of commits in its history."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short=10", "HEAD"), int(git("rev-list", "--count", "HEAD"))


def lines(file: Path = FILE) -> list[str]:
    """Every slice with its last whole run, for the end of a test run; one that never ran says so."""
    by_slice = {run.slice: run for run in read(file)}
    wide = max(len(each.name) for each in SLICES)
    found = []
    for each in SLICES:
        run = by_slice.get(each.name)
        if run is None:
            found.append(f"{each.name:{wide}}  never recorded: make e2e-full AREA={each.name} RECORD=1")
            continue
        ago = since(run.commit)
        when = "on another history" if ago is None else f"{ago} commits ago"
        found.append(f"{each.name:{wide}}  {run.date} at {run.commit} ({when}): {run.result} in {run.minutes} min")
    return found
