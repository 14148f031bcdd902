"""Groups, areas and slices: every module has a group, every slice has tests and its turn in CI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import story
from tests.suite import runs
from tests.suite.areas import AREAS, OWN_TARGET, SLICES, slice_of, slices
from tests.suite.groups import GROUPS, Lane, group_of
from tests.suite.minutes import processor_seconds

ROOT = Path(__file__).resolve().parents[3]
MODULES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("tests", "e2e")
    for path in sorted((ROOT / folder).rglob("test_*.py"))
]


def test_every_module_has_a_group() -> None:
    assert [module for module in MODULES if group_of(module) == "other"] == []


@pytest.mark.parametrize(
    ("module", "group"),
    [
        ("tests/unit/sizing/test_job_run.py", "Spark"),
        ("tests/unit/sizing/test_store.py", "unit"),
        ("tests/contract/test_policy_contract.py", "contract, integration"),
        ("e2e/tests/test_brokers.py", "rolls and scale-in"),
        ("elsewhere/test_x.py", "other"),
    ],
)
def test_the_longest_path_decides(module: str, group: str) -> None:
    assert group_of(module) == group


def test_each_lane_fits_half_an_hour() -> None:
    assert {lane: sum(g.budget for g in GROUPS if g.lane is lane) <= 30 for lane in Lane} == dict.fromkeys(Lane, True)


def test_ci_takes_every_slice_but_soaks_in_turn() -> None:
    short = [each.name for each in SLICES if not each.soak]
    assert [slice_of(number).name for number in range(len(short))] == short != [each.name for each in SLICES]
    assert slice_of(700) == slice_of(700 + len(short))


def test_slices_are_asked_for_by_area_or_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.name for each in slices(["balance"])] == [f"balance-{n}" for n in range(1, 12)]
    assert [each.name for each in slices(["balance-2", "bookies"])] == [
        "balance-2",
        "bookies-1",
        "bookies-2",
        "bookies-3",
        "bookies-4",
        "bookies-5",
    ]
    assert slices([]) == list(SLICES)
    monkeypatch.setitem(AREAS, "upgrades", "an area that has none yet")
    with pytest.raises(ValueError, match="no long tests yet: use one of autoscaling"):
        slices(["upgrades"])
    with pytest.raises(ValueError, match="no area or slice 'typo'"):
        slices(["balance", "typo"])


def test_every_slice_is_of_a_known_area_and_some_test_carries_it() -> None:
    marks = {
        f"{found[1]}-{found[2]}"
        for module in MODULES
        if not module.startswith("tests/unit/")
        for found in re.finditer(r"pytest\.mark\.(\w+)\((\d+)\)", (ROOT / module).read_text(encoding="utf-8"))
        if found[1] in AREAS
    }
    assert marks == {each.name for each in SLICES}


TESTS = f"""
import pytest

@pytest.mark.balance(1)
class TestLong:
    def test_one(self): pass

    @pytest.mark.balance(2)
    def test_two(self): pass

@pytest.mark.{OWN_TARGET}
def test_matrix(): pass

def test_core(): assert False

def test_skipped(): pytest.skip("not now")

@pytest.fixture
def broken():
    yield
    raise RuntimeError

def test_torn_down(broken): pass
"""


def run_pytest(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest with the plugin on one file, without those plugins of others that no option of the project is for."""
    file = folder / "test_sample.py"
    file.write_text(text)
    command = [sys.executable, "-m", "pytest", str(file), "-p", "tests.suite.minutes", "-p", "no:cacheprovider", "-v"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), *arguments]
    command += ["-p", "pytest_asyncio.plugin"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("select", "ran"),
    [
        (("--select", "core"), ["test_core", "test_skipped", "test_torn_down"]),
        (("--select", "balance-1"), ["test_one"]),
        (("--select", "balance-2"), ["test_two"]),
        ((), ["test_core", "test_matrix", "test_one", "test_skipped", "test_torn_down", "test_two"]),
    ],
    ids=["core", "slice", "the nearest mark", "all"],
)
def test_what_is_selected(tmp_path: Path, select: tuple[str, ...], ran: list[str]) -> None:
    done = run_pytest(tmp_path, TESTS, *select)
    assert sorted(set(re.findall(r"::(test_\w+) (?:PASSED|FAILED|SKIPPED)", done.stdout))) == ran, done.stdout


def test_the_plugin_counts_as_pytest_does(tmp_path: Path) -> None:
    file = tmp_path / "minutes.json"
    done = run_pytest(tmp_path, TESTS, "--select", "core", "--minutes", str(file))
    told = json.loads(file.read_text())
    assert told["outcomes"] == {"failed": 1, "skipped": 1, "passed": 1, "error": 1}
    assert re.search(r"1 failed, 1 passed, 1 skipped, 3 deselected, 1 error", done.stdout)
    assert [re.sub(r": .*", "", each) for each in told["failed"]] == [
        "test_sample.py::test_core",
        "test_sample.py::test_torn_down",
    ]
    (row,) = told["rows"]
    assert row["tests"] == 3 and row["wall"] > 0


def test_the_reason_stands_beside_the_name_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "minutes.json"
    text = "def test_x():\n    assert 1 == 2, 'first\\nsecond'\n\ndef test_y():\n    raise OSError('a' * 9999)\n"
    run_pytest(tmp_path, text, "--minutes", str(file))
    short, long = json.loads(file.read_text())["failed"]
    assert short == "test_sample.py::test_x: AssertionError: first second assert 1 == 2"
    assert long.startswith("test_sample.py::test_y: OSError: aaa") and long.endswith("aaa ...") and len(long) < 700


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@pytest.mark.balance(99)", "no such slice in tests/suite/areas.py: balance-99"),
        ("@pytest.mark.balance", "needs the number of its slice"),
    ],
)
def test_a_mark_without_a_slice_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    done = run_pytest(tmp_path, f"import pytest\n{text}\ndef test_x(): pass\n")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and words in done.stderr + done.stdout


def test_a_module_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    file = tmp_path / "minutes.json"
    run_pytest(tmp_path, "import nothing_of_that_name\n", "--select", "core", "--minutes", str(file))
    (failed,) = json.loads(file.read_text())["failed"]
    assert failed.startswith("test_sample.py: ") and "No module named 'nothing_of_that_name'" in failed


def test_a_recorded_run_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    first = runs.Run("rolls-1", "aaa", "2026-01-01", "9.0", "4 passed, 0 failed")
    other = runs.Run("balance-1", "bbb", "2026-01-02", "8.0", "1 passed, 0 failed")
    again = runs.Run("rolls-1", "ccc", "2026-01-03", "9.5", "3 passed, 1 failed")
    for found in ([first], [other], [again]):
        runs.record(found, file)
    assert runs.read(file) == [other, again]
    shown = runs.lines(file)
    assert len(shown) == len(SLICES)
    assert any("rolls-1" in line and "3 passed, 1 failed in 9.5 min" in line for line in shown)
    assert any("storage-1" in line and "never recorded" in line for line in shown)


def test_processor_seconds_are_those_of_the_whole_tree(tmp_path: Path) -> None:
    def stat(pid: int, parent: int, ticks: str) -> None:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 20 0 1 0 0")

    stat(10, 1, "100 20 3 4")
    stat(11, 10, "200 0 0 0")
    stat(12, 11, "0 50 0 0")
    stat(13, 1, "999 0 0 0")
    assert processor_seconds(10, tmp_path) == pytest.approx(377 / os.sysconf("SC_CLK_TCK"))


def test_every_module_on_kind_has_its_place_in_the_story() -> None:
    here = {Path(module).stem for module in MODULES if module.startswith("e2e/")}
    assert here == set(story.ORDER)
    with pytest.raises(ValueError, match="no place"):
        story.place("e2e/tests/test_new.py")


def test_modules_of_areas_alone_have_no_test_in_the_core() -> None:
    found = [f"e2e/tests/{name}.py" for name in story.AREAS]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *found,
            "--collect-only",
            "-q",
            "-p",
            "tests.suite.minutes",
            "--select",
            "core",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
