"""What a run says: a table by module, the survivors with their changes, the score; JSON and CSV."""

from __future__ import annotations

import csv
import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from tests.mutants.operators import Mutation
from tests.mutants.targets import PACKAGE
from tests.mutants.trial import Result, Verdict

NOTICED = (Verdict.KILLED, Verdict.TIMED_OUT)
MISSED = (Verdict.SURVIVED, Verdict.NOT_COVERED)


@dataclass(frozen=True)
class Score:
    """Killed, or hung, of those that were tried and are not equivalent."""

    killed: int
    of: int

    @property
    def percent(self) -> float:
        """NaN when nothing was tried."""
        return 100 * self.killed / self.of if self.of else float("nan")

    def interval(self) -> tuple[float, float]:
        """Per cent in which the score of all mutants lies in 19 of 20 samples (Wilson)."""
        if not self.of:
            return 0.0, 100.0
        share, z = self.killed / self.of, 1.96
        middle = share + z * z / (2 * self.of)
        half = z * sqrt(share * (1 - share) / self.of + z * z / (4 * self.of**2))
        return 100 * (middle - half) / (1 + z * z / self.of), 100 * (middle + half) / (1 + z * z / self.of)


def score(results: Sequence[Result]) -> Score:
    """The score of a run."""
    tally = Counter(each.verdict for each in results)
    noticed = sum(tally[each] for each in NOTICED)
    return Score(noticed, noticed + sum(tally[each] for each in MISSED))


def short(module: str) -> str:
    """A module's name in the table."""
    return module.removeprefix(f"{PACKAGE}/")


def line(number: int, of: int, result: Result) -> str:
    """Progress: one mutant."""
    each = result.mutation
    tests = f"{result.ran} of {result.of} tests, {result.seconds:.0f} s" if result.of else "no test"
    return f"{number:4}/{of} {result.verdict:11} {short(each.module)}:{each.line} {each.what} ({tests})"


def table(results: Sequence[Result]) -> list[str]:
    """By module, and all."""
    columns = [Verdict.KILLED, Verdict.TIMED_OUT, Verdict.SURVIVED, Verdict.NOT_COVERED]
    columns += [Verdict.EQUIVALENT, Verdict.NOT_TRIED]
    rows = [("module", "mutants", *(each.value for each in columns))]
    modules = sorted({each.mutation.module for each in results})
    for name, some in [(each, [r for r in results if r.mutation.module == each]) for each in modules] + [
        ("all", list(results))
    ]:
        tally = Counter(each.verdict for each in some)
        rows.append((short(name), str(len(some)), *(str(tally[each]) for each in columns)))
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def diff(mutation: Mutation, source: str) -> list[str]:
    """What was changed."""
    before, after = source.splitlines(), mutation.apply(source).splitlines()
    found = list(difflib.unified_diff(before, after, lineterm="", n=0))
    return [each for each in found if not each.startswith(("---", "+++", "@@"))]


def survivors(results: Sequence[Result], sources: Mapping[str, str], names: Mapping[Mutation, str]) -> list[str]:
    """Those that no test noticed, with what was changed and their names for the list of equivalent ones."""
    out = []
    for each in (result for result in results if result.verdict in MISSED):
        mutation = each.mutation
        more = f"; {each.left_out} longer tests not asked" if each.left_out else ""
        out.append(f"{mutation.module}:{mutation.line}: {mutation.what}, {each.verdict} ({each.of} tests{more})")
        out += [f"    {text}" for text in diff(mutation, sources[mutation.module])]
        out.append(f"    change = {json.dumps(names[mutation])}")
    return out


def closing(results: Sequence[Result], *, seed: int, population: int, seconds: float) -> list[str]:
    """The last lines."""
    found = score(results)
    tally = Counter(each.verdict for each in results)
    low, high = found.interval()
    return [
        f"seed {seed}: {len(results)} of {population} mutants, {tally[Verdict.EQUIVALENT]} of them equivalent, "
        f"{tally[Verdict.NOT_TRIED]} not tried, {seconds / 60:.0f} minutes",
        f"score {found.percent:.1f} % ({found.killed} of {found.of}); of all mutants {low:.0f} to {high:.0f} % "
        "(19 samples of 20)",
    ]


def rows(results: Sequence[Result], names: Mapping[Mutation, str]) -> list[dict[str, Any]]:
    """For the files."""
    return [
        {
            "module": each.mutation.module,
            "line": each.mutation.line,
            "what": each.mutation.what,
            "change": names[each.mutation],
            "verdict": each.verdict.value,
            "by": each.by,
            "ran": each.ran,
            "of": each.of,
            "left_out": each.left_out,
            "seconds": round(each.seconds, 1),
        }
        for each in results
    ]


def write(folder: Path, facts: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    """Leave mutants.json and mutants.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**facts, "mutants": list(found)}, indent=1)
    (folder / "mutants.json").write_text(f"{text}\n", encoding="utf-8")
    with (folder / "mutants.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(found[0]) if found else ["module"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
