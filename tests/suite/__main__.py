"""``python -m tests.suite test|fast|lint|kind|local|area``: what `make test` and its relatives run."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.suite import report, runs
from tests.suite.areas import LIMIT, Slice, slice_of, slices
from tests.suite.groups import SET_UP, STATIC, Lane
from tests.suite.lanes import Outcome, Runner, Step

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "suite"
CLUSTER = ("pulsar-e2e", "--pulsar-port", "16650", "--web-port", "18080", "--second-port", "16651")
TOOLS = "tools"
KIND_TESTS, STANDALONE_TESTS, INTEGRATION = "e2e/tests", "tests/standalone", "tests/integration"
SERVER = (f"{INTEGRATION}/api", f"{INTEGRATION}/charts")
"""Integration tests of what an API server takes: steps of the local lane are of similar length."""


def python(*arguments: str) -> tuple[str, ...]:
    """A command of the project's Python."""
    return (sys.executable, *arguments)


def pytest_step(
    name: str,
    *paths: str,
    select: str = "core",
    needs: str | None = None,
    each: bool = False,
    anywhere: bool = False,
) -> Step:
    """A run of pytest over folders, with a line for ``each`` test where one may take minutes; a slice is a group."""
    file = FOLDER / f"{name.replace(' ', '-')}.json"
    command = python(
        *("-m", "pytest", *paths, "-p", "tests.suite.minutes", "--select", select, "--minutes", str(file)),
        *("-v" if each else "-q", "--durations=10", "--durations-min=2"),
    )
    group = SET_UP if select == "core" else name
    return Step(name, command, group=group, minutes=file, needs=needs, anywhere=anywhere)


def static() -> Step:
    """Everything that is checked without running it."""
    return Step(STATIC, ("sh", "scripts/lint.sh"), group=STATIC)


def kind_lane(found: Sequence[Slice], *, core: bool = True) -> list[Step]:
    """The cluster, the tests on it, and slices of areas after them."""
    steps = [
        Step(TOOLS, python("-m", "e2e.kind", "tools"), tells=TOOLS, stops=True),
        Step("cluster", python("-m", "e2e.kind", "up", *CLUSTER), stops=True),
    ]
    if core:
        steps.append(pytest_step("kind tests", KIND_TESTS, each=True))
    for one in found:
        steps.append(pytest_step(f"slice {one.name}", KIND_TESTS, STANDALONE_TESTS, select=one.name, each=True))
    return steps


def local_lane() -> list[Step]:
    """What needs processes of this machine alone; the first steps need not even the tools."""
    rest = sorted(str(each.relative_to(ROOT)) for each in (ROOT / INTEGRATION).iterdir() if each.is_dir())
    rest = [each for each in rest if each not in SERVER and not each.endswith("__pycache__")]
    return [
        static(),
        pytest_step("unit tests", "tests/unit"),
        pytest_step("contract tests", "tests/contract", needs=TOOLS, anywhere=True),
        pytest_step("integration tests", *rest, needs=TOOLS, anywhere=True),
        pytest_step("tests of the API server", *SERVER, needs=TOOLS, anywhere=True),
        pytest_step("standalone tests", STANDALONE_TESTS, needs=TOOLS, anywhere=True),
    ]


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    found = argparse.ArgumentParser(prog="python -m tests.suite", description=__doc__)
    commands = found.add_subparsers(dest="command", required=True)
    whole = commands.add_parser("test", help="both lanes")
    whole.add_argument("--slice", default="", help="a slice of an area as well; auto: by the number of commits")
    commands.add_parser("fast", help="static checks, unit and contract tests")
    commands.add_parser("lint", help="static checks")
    commands.add_parser("kind", help="the lane of the cluster alone")
    commands.add_parser("local", help="the other lane alone")
    area = commands.add_parser("area", help="long tests of areas, slice by slice")
    area.add_argument("names", nargs="*", metavar="AREA|SLICE")
    area.add_argument("--record", action="store_true", help="write what came out into docs/area-runs.csv")
    commands.add_parser("areas", help="slices and their last recorded runs")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """0 when nothing failed, 1 when something did, 2 for a wrong call."""
    arguments = parser().parse_args(argv)
    if arguments.command == "areas":
        print("\n".join(runs.lines()))
        return 0
    try:
        lanes, chosen = asked(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    begin = time.monotonic()
    outcomes = Runner(ROOT, FOLDER).run(lanes)
    elapsed = time.monotonic() - begin
    report.write_csv(ROOT / "build" / "minutes.csv", outcomes)
    print("\nminutes by module: build/minutes.csv; logs: build/suite")
    if arguments.command == "area":
        _after_areas(outcomes, chosen, record=arguments.record)
    else:
        print("\n".join(["", *report.table(outcomes, elapsed), "", "long tests, by slice:", *runs.lines()]))
    failed = report.failures(outcomes)
    print("\n".join(["", *failed, report.closing(outcomes)]), flush=True)
    return 1 if failed else 0


def asked(arguments: argparse.Namespace) -> tuple[Mapping[Lane, Sequence[Step]], Sequence[Slice]]:
    """The lanes of a command, and the slices in them. Raises ValueError for a slice that is not there."""
    if arguments.command == "fast":
        return {Lane.LOCAL: [static(), pytest_step("unit and contract tests", "tests/unit", "tests/contract")]}, ()
    if arguments.command == "lint":
        return {Lane.LOCAL: [static()]}, ()
    if arguments.command == "kind":
        return {Lane.KIND: kind_lane(())}, ()
    if arguments.command == "local":
        tools = Step(TOOLS, python("-m", "e2e.kind", "tools"), tells=TOOLS, stops=True)
        return {Lane.LOCAL: [tools, *local_lane()]}, ()
    if arguments.command == "area":
        chosen = slices(arguments.names)
        return {Lane.KIND: kind_lane(chosen, core=False)}, chosen
    chosen = []
    if arguments.slice == "auto":
        commit, commits = runs.head()
        chosen = [slice_of(commits)]
        print(f"commit {commit} is number {commits}: beside the core, slice {chosen[0].name}, {chosen[0].about}")
    elif arguments.slice:
        chosen = slices([arguments.slice])
    return {Lane.KIND: kind_lane(chosen), Lane.LOCAL: local_lane()}, chosen


def _after_areas(outcomes: Sequence[Outcome], chosen: Sequence[Slice], *, record: bool) -> None:
    """One line a slice, and, when asked, the committed table."""
    by_name = {f"slice {each.name}": each for each in chosen}
    commit, _ = runs.head()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    found = []
    for outcome in outcomes:
        each = by_name.get(outcome.step.name)
        if each is not None:
            result = f"{outcome.passed} passed, {outcome.failed} failed"
            found.append(runs.Run(each.name, commit, today, f"{outcome.seconds / 60:.1f}", result))
            over = f", over its {LIMIT:.0f} minutes" if outcome.seconds > LIMIT * 60 and not each.soak else ""
            print(f"{each.name}: {result} in {outcome.seconds / 60:.1f} minutes{over}  ({each.about})")
    if record:
        runs.record(found)
        print(f"recorded in {runs.FILE.relative_to(ROOT)}: commit it")


if __name__ == "__main__":
    sys.exit(main())
