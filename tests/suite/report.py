"""The end of a run: minutes by group against the budget, what failed, and one closing line."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.suite.groups import GROUPS, SET_UP, Group, Lane
from tests.suite.lanes import Outcome

BAR = 20
"""Characters of a bar that stands for the whole budget of a group."""


def write_csv(file: Path, outcomes: Sequence[Outcome]) -> None:
    """One row a module: lane, group, module, tests, seconds wall and processor; the longest first."""
    rows = [(outcome.lane, row) for outcome in outcomes for row in outcome.rows]
    rows.sort(key=lambda found: -found[1]["wall"])
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as output:
        writer = csv.writer(output)
        writer.writerow(("lane", "group", "module", "tests", "wall_seconds", "processor_seconds"))
        for lane, row in rows:
            writer.writerow(
                (lane, row["group"], row["module"], row["tests"], f"{row['wall']:.1f}", f"{row['processor']:.1f}")
            )


def table(outcomes: Sequence[Outcome], elapsed: float) -> list[str]:
    """Minutes by group against its budget, the lanes' sums, and how long all took. ``elapsed`` in seconds."""
    tests: dict[str, int] = defaultdict(int)
    wall: dict[str, float] = defaultdict(float)
    processor: dict[str, float] = defaultdict(float)
    lanes: dict[Lane, float] = defaultdict(float)
    for outcome in outcomes:
        lanes[outcome.lane] += outcome.seconds
        for row in outcome.rows:
            tests[row["group"]] += row["tests"]
            wall[row["group"]] += row["wall"]
            processor[row["group"]] += row["processor"]
    known = {group.name: group for group in GROUPS}
    names = [group.name for group in GROUPS if group.name in wall]
    names += sorted(name for name in wall if name not in known)
    wide = max(len(name) for name in [*names, "all, both lanes at once"])
    lines = [f"{'group':{wide}} {'lane':>5} {'tests':>6} {'minutes':>8} {'budget':>7} {'processor':>9}"]
    for name in names:
        lines.append(_line(name, wide, known.get(name), tests[name], wall[name] / 60, processor[name] / 60))
    for lane, seconds in lanes.items():
        lines.append(f"{f'lane {lane}':{wide}} {'':5} {'':6} {seconds / 60:8.1f}")
    total = f"{elapsed / 60:8.1f} {30:7.0f} {sum(processor.values()) / 60:9.1f}"
    lines.append(f"{'all, both lanes at once':{wide}} {'':5} {sum(tests.values()):6} {total}")
    return lines


def _line(name: str, wide: int, group: Group | None, tests: int, minutes: float, processor: float) -> str:
    lane = group.lane if group else ""
    budget = f"{group.budget:7.1f}" if group else f"{'':7}"
    counted = f"{'':9}" if name == SET_UP else f"{processor:9.1f}"
    bar = ""
    if group:
        share = minutes / group.budget
        bar = "#" * min(round(share * BAR), 2 * BAR) + (f" {100 * share:.0f} %" if share > 1 else "")
    return f"{name:{wide}} {lane:>5} {tests:6} {minutes:8.1f} {budget} {counted}  {bar}".rstrip()


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """What failed, a line each, with the log to read."""
    return [
        f"FAILED {failure}  (build/suite/{''.join(c if c.isalnum() else '-' for c in outcome.step.name)}.log)"
        for outcome in outcomes
        for failure in outcome.failures
    ]


def closing(outcomes: Sequence[Outcome]) -> str:
    """The sum over all lanes, in the form every reader of test runs knows."""
    passed, failed, skipped = (sum(getattr(o, word) for o in outcomes) for word in ("passed", "failed", "skipped"))
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
