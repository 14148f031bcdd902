"""Mutants of a tiny package, tried with its own tests."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.mutants.operators import Mutation, mutations
from tests.mutants.record import Asked, NotRecordedError, Record, missing, record
from tests.mutants.trees import Tree, digest, file_digest, files
from tests.mutants.trial import Verdict, try_all, try_in

ROOT = Path(__file__).resolve().parents[3]
MODULE, TESTS = "operator/pulsar_operator/small.py", "tests/unit/test_small.py"
SOURCE = """\
LIMIT = 3


def fits(n: int) -> bool:
    return n < LIMIT


def count(n: int) -> int:
    while n < 2:
        n += 1
    return n


def unseen(n: int) -> int:
    return n + 1
"""
CHECKS = """\
from pulsar_operator.small import count, fits


def test_fits():
    assert fits(1)


def test_fits_not():
    assert not fits(9)


def test_counts():
    assert count(0) == 2


def test_is_wrong_as_it_is():
    assert fits(9)
"""


@dataclass
class Small:
    """The package, and what was recorded of it."""

    root: Path
    record: Record

    def mutant(self, line: int, text: str) -> Mutation:
        (found,) = (each for each in mutations(SOURCE, MODULE) if (each.line, each.text) == (line, text))
        return found

    def asked(self, mutation: Mutation) -> Asked:
        return self.record.asked(mutation, at_most=60)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    root = tmp_path_factory.mktemp("small")
    for name, text in {
        MODULE: SOURCE,
        "operator/pulsar_operator/__init__.py": "",
        TESTS: CHECKS,
        "tests/__init__.py": "",
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\nmarkers = ["slow: x"]\n',
        ".gitignore": "__pycache__/\nignored\n",
        "ignored": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(ROOT / "tests/mutants", root / "tests/mutants", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "e2e/kind", root / "e2e/kind", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    known = {TESTS: file_digest(root / TESTS)}
    folder = tmp_path_factory.mktemp("cache") / "mutants" / digest(root)
    assert missing(folder, known) == [TESTS]
    with pytest.raises(NotRecordedError, match="deadline"):
        record(root, folder, [MODULE], known, workers=1, deadline=time.monotonic())
    assert missing(folder, known) == [TESTS]
    record(root, folder, [MODULE], known, workers=1, deadline=time.monotonic() + 600)
    assert missing(folder, known) == []
    assert missing(folder, {TESTS: "changed"}) == [TESTS]
    return Small(root, Record(folder, {MODULE: SOURCE}, known))


def test_tests_that_execute_a_line_are_asked(small: Small) -> None:
    assert small.record.not_passed == [f"{TESTS}::test_is_wrong_as_it_is"]
    fits = {f"{TESTS}::test_fits", f"{TESTS}::test_fits_not"}
    assert set(small.asked(small.mutant(5, "(n <= LIMIT)")).tests) == fits
    assert set(small.asked(small.mutant(1, "4")).tests) == fits, "those that execute what uses the name"
    assert small.asked(small.mutant(10, "pass")).tests == (f"{TESTS}::test_counts",)
    assert small.asked(small.mutant(15, "2")).tests == ()


def test_tests_that_would_take_too_long_are_left_out_and_counted(small: Small) -> None:
    asked = small.record.asked(small.mutant(5, "(n <= LIMIT)"), at_most=0.0)
    assert (len(asked.tests), asked.left_out) == (1, 1)


def test_what_becomes_of_mutants(small: Small) -> None:
    """Killed, survived, hung, not executed; the original tree is never touched."""
    before = {name: file_digest(small.root / name) for name in files(small.root)}
    opposite, boundary = small.mutant(5, "(n >= LIMIT)"), small.mutant(5, "(n <= LIMIT)")
    endless, unseen = small.mutant(10, "pass"), small.mutant(15, "2")
    asked = {each: small.asked(each) for each in (opposite, boundary, endless, unseen)}
    asked[endless] = replace(asked[endless], limits={f"{TESTS}::test_counts": 1.0})
    told: list[Mutation] = []
    found = try_all(
        small.root,
        list(asked.items()),
        {MODULE: SOURCE},
        workers=1,
        deadline=time.monotonic() + 600,
        tell=lambda result: told.append(result.mutation),
    )
    assert [each.verdict for each in found] == [
        Verdict.KILLED,
        Verdict.SURVIVED,
        Verdict.TIMED_OUT,
        Verdict.NOT_COVERED,
    ]
    assert found[0].by in asked[opposite].tests and (found[1].ran, found[1].of) == (2, 2)
    assert found[2].by == f"{TESTS}::test_counts"
    assert told == [each.mutation for each in found]
    assert {name: file_digest(small.root / name) for name in files(small.root)} == before


def test_after_the_deadline_nothing_is_tried(small: Small) -> None:
    mutation = small.mutant(5, "(n >= LIMIT)")
    work = [(mutation, small.asked(mutation))]
    (found,) = try_all(
        small.root, work, {MODULE: SOURCE}, workers=2, deadline=time.monotonic(), tell=lambda result: None
    )
    assert found.verdict is Verdict.NOT_TRIED


def test_a_mutant_that_cannot_be_imported_is_killed(small: Small, tmp_path: Path) -> None:
    tree = Tree(small.root, tmp_path / "tree")
    assert not (tree.root / "ignored").exists()
    broken = replace(small.mutant(1, "4"), text="nothing_of_this_name")
    found = try_in(tree, broken, SOURCE, small.asked(broken), within=600)
    assert (found.verdict, found.by) == (Verdict.KILLED, "import")
    assert (tree.root / MODULE).read_text() == SOURCE


def test_every_write_of_a_file_has_a_time_of_its_own(small: Small, tmp_path: Path) -> None:
    """Python takes compiled code for current by the second and the size: a mutant of the same size would not run."""
    tree = Tree(small.root, tmp_path / "tree")
    times = []
    for text in ("LIMIT = 1", "LIMIT = 2", "LIMIT = 3"):
        tree.write(MODULE, text)
        times.append(int((tree.root / MODULE).stat().st_mtime))
    assert len(set(times)) == 3
