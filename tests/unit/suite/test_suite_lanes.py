"""The two lanes: what runs, what waits for what, what counts as failed, and the closing line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.suite import report
from tests.suite.groups import STATIC, Lane
from tests.suite.lanes import NICE, Outcome, Runner, Step, outcome_of, stand_back


class Site:
    """A runner in a scratch folder that keeps what it prints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.runner = Runner(folder, folder / "logs", out=self.lines.append)

    def step(self, name: str, code: str, **more: object) -> Step:
        """A step that is a line of Python."""
        return Step(name, (sys.executable, "-c", code), **more)  # type: ignore[arg-type]

    def pytest(self, name: str, code: str, outcomes: dict[str, int], failed: Sequence[str] = ()) -> Step:
        """A step that writes what the plugin writes, after ``code``."""
        file = self.folder / f"{name}.json"
        told = {"rows": [], "outcomes": outcomes, "failed": list(failed), "status": 0}
        write = f"import pathlib, sys; pathlib.Path({str(file)!r}).write_text({json.dumps(told)!r}); {code}"
        return self.step(name, write, minutes=file)

    def run(self, **lanes: Sequence[Step]) -> dict[str, Outcome]:
        """Outcomes by the step's name."""
        found = self.runner.run({Lane(name): steps for name, steps in lanes.items()})
        return {outcome.step.name: outcome for outcome in found}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_both_lanes_are_summed_in_one_closing_line(site: Site) -> None:
    found = site.run(
        kind=[site.pytest("a", "pass", {"passed": 3, "skipped": 1})],
        local=[site.pytest("b", "sys.exit(1)", {"passed": 2, "failed": 1}, ["tests/x.py::test_y"])],
    )
    assert report.closing(list(found.values())) == "5 passed, 1 failed, 1 skipped"
    assert report.failures(list(found.values())) == ["FAILED tests/x.py::test_y  (build/suite/b.log)"]


def test_every_line_says_its_lane_and_is_in_the_steps_log(site: Site) -> None:
    site.run(kind=[site.step("up", "print('one'); print('two')")])
    assert [line for line in site.lines if "==" not in line] == ["kind  | one", "kind  | two"]
    assert (site.folder / "logs" / "up.log").read_text() == "one\ntwo\n"


def test_a_lane_waits_for_what_the_other_makes(site: Site) -> None:
    mark = site.folder / "mark"
    seen = f"import pathlib, sys; sys.exit(not pathlib.Path({str(mark)!r}).exists())"
    make = f"import pathlib, time; time.sleep(0.2); pathlib.Path({str(mark)!r}).touch()"
    found = site.run(kind=[site.step("tools", make, tells="tools")], local=[site.step("uses", seen, needs="tools")])
    assert found["uses"].good


def test_a_lane_that_ended_takes_the_last_steps_of_the_other(site: Site) -> None:
    mark = site.folder / "mark"
    touch = f"import pathlib; pathlib.Path({str(mark)!r}).touch()"
    until = f"any(pathlib.Path({str(mark)!r}).exists() or time.sleep(0.1) for _ in range(600))"
    wait = f"import pathlib, time; {until}"
    found = site.run(
        kind=[site.step("short", "pass")],
        local=[
            site.step("long", wait),
            site.step("alone", "pass"),
            site.step("second", touch, anywhere=True),
            site.step("third", "pass", anywhere=True),
        ],
    )
    assert {name: outcome.lane for name, outcome in found.items()} == {
        "short": Lane.KIND,
        "long": Lane.LOCAL,
        "alone": Lane.LOCAL,
        "second": Lane.KIND,
        "third": Lane.KIND,
    }
    taken = [line for line in site.lines if line.startswith("kind  | == ") and "done" not in line]
    assert taken == ["kind  | == short", "kind  | == third", "kind  | == second"]


def test_no_step_is_lost_where_the_cluster_failed(site: Site) -> None:
    found = site.run(
        kind=[site.step("cluster", "import sys; sys.exit(1)", stops=True), site.step("on it", "pass")],
        local=[site.step("long", "import time; time.sleep(0.3)"), site.step("any", "pass", anywhere=True)],
    )
    assert {name: outcome.good for name, outcome in found.items()} == {
        "cluster": False,
        "on it": False,
        "long": True,
        "any": True,
    }


def test_what_needs_a_step_that_failed_is_not_run_and_counts_as_failed(site: Site) -> None:
    ran = site.folder / "ran"
    touch = f"import pathlib; pathlib.Path({str(ran)!r}).touch()"
    found = site.run(
        kind=[
            site.step("tools", "raise SystemExit(3)", tells="tools", stops=True),
            site.step("tests", touch),
        ],
        local=[site.step("uses", touch, needs="tools")],
    )
    assert not ran.exists()
    assert [found[name].failures for name in ("tools", "tests", "uses")] == [
        ("tools: exit status 3",),
        ("tests: not run, tools failed",),
        ("uses: not run, tools failed",),
    ]
    assert report.closing(list(found.values())) == "0 passed, 3 failed"


def test_a_failed_step_does_not_hide_those_after_it(site: Site) -> None:
    found = site.run(
        local=[site.step("lint", "raise SystemExit(1)", group=STATIC), site.pytest("b", "", {"passed": 2})]
    )
    assert report.closing(list(found.values())) == "2 passed, 1 failed"


@pytest.mark.parametrize(
    ("told", "status", "failures"),
    [
        (None, 0, ("s: pytest ended with status 0 and did not say how",)),
        (None, -9, ("s: pytest ended with status -9 and did not say how",)),
        ({"passed": 2}, 0, ()),
        ({"passed": 2}, 1, ("s: pytest ended with status 1",)),
        ({}, 5, ("s: pytest ended with status 5, no test ran",)),
        ({}, 0, ("s: pytest ended with status 0, no test ran",)),
    ],
)
def test_a_run_of_pytest_that_proves_nothing_is_a_failure(
    tmp_path: Path, told: dict[str, int] | None, status: int, failures: tuple[str, ...]
) -> None:
    file = tmp_path / "s.json"
    if told is not None:
        file.write_text(json.dumps({"rows": [], "outcomes": told, "failed": [], "status": status}))
    found = outcome_of(Step("s", (), minutes=file), Lane.LOCAL, status, 1.0)
    assert found.failures == failures and found.failed == len(failures)
    assert found.good is not bool(failures)


def test_an_earlier_runs_counts_are_not_this_ones(site: Site) -> None:
    step = site.pytest("a", "pass", {"passed": 3})
    assert site.run(kind=[step])["a"].passed == 3
    silent = Step("a", (sys.executable, "-c", "pass"), minutes=step.minutes)
    assert site.run(kind=[silent])["a"].failed == 1


def test_the_table_has_each_group_beside_its_budget_and_what_is_over_it(tmp_path: Path) -> None:
    row = {"group": "unit", "module": "tests/unit/x.py", "tests": 7, "wall": 1320.0, "processor": 300.0}
    outcome = Outcome(Step("s", ()), Lane.LOCAL, 1330.0, 7, 0, 0, (), (row,))
    lines = report.table([outcome], 1340.0)
    unit = next(line for line in lines if line.startswith("unit"))
    assert unit.split()[1:6] == ["local", "7", "22.0", "11.0", "5.0"] and unit.endswith("200 %")
    assert lines[-1].split()[-4:] == ["7", "22.3", "30", "5.0"]
    report.write_csv(tmp_path / "minutes.csv", [outcome])
    assert (tmp_path / "minutes.csv").read_text().splitlines() == [
        "lane,group,module,tests,wall_seconds,processor_seconds",
        "local,unit,tests/unit/x.py,7,1320.0,300.0",
    ]


def test_the_local_lane_stands_back(site: Site) -> None:
    code = "import os; print('nice', os.nice(0))"
    site.run(local=[site.step("a", code)], kind=[site.step("b", code)])
    own = os.nice(0)
    wanted = {f"local | nice {min(own + NICE, 19)}", f"kind  | nice {own}"}
    assert {line for line in site.lines if "nice" in line} == wanted


def test_a_session_that_is_scheduled_as_a_group_stands_back_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    stand_back(7, tmp_path)
    assert (tmp_path / "7" / "autogroup").read_text() == str(NICE)
    stand_back(8, tmp_path)  # a kernel without the feature


@pytest.mark.parametrize(("group", "found"), [({}, "unit"), ({"group": "slice rolls-1"}, "slice rolls-1")])
def test_minutes_are_those_of_each_modules_group_or_of_the_slice(
    tmp_path: Path, group: dict[str, str], found: str
) -> None:
    file = tmp_path / "s.json"
    row = {"group": "unit", "module": "tests/unit/x.py", "tests": 1, "wall": 4.0, "processor": 2.0}
    file.write_text(json.dumps({"rows": [row], "outcomes": {"passed": 1}, "failed": [], "status": 0}))
    outcome = outcome_of(Step("s", (), minutes=file, **group), Lane.KIND, 0, 7.0, 3.0)  # type: ignore[arg-type]
    assert [(r["group"], r["wall"], r["processor"]) for r in outcome.rows] == [(found, 4.0, 2.0), (found, 3.0, 1.0)]
