"""Which test executes which line: recorded once for a state of the source, kept in the cache folder."""

from __future__ import annotations

import ast
import json
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from coverage.numbits import nums_to_numbits, register_sqlite_functions

from e2e.kind.cache import digest_texts
from tests.mutants.operators import Mutation
from tests.mutants.trees import Tree, run

KEPT: Final = 3
"""Records that stay in the cache."""
CHUNK: Final = 8
"""Test files recorded by one run of pytest: what was recorded is kept when the rest is not."""


_QUERY: Final = """
select distinct context.context from line_bits
join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id
where file.path = ? and numbits_any_intersection(line_bits.numbits, ?)
"""
"""Of coverage.py's data file, whose tables are part of its documentation."""


class NotRecordedError(Exception):
    """The tests could not be run as they are."""


@dataclass(frozen=True)
class Asked:
    """Tests to ask about a mutant."""

    tests: tuple[str, ...]
    """In order: those that execute the line before those that execute what uses it; quick ones first."""
    limits: dict[str, float]
    """Seconds of processor time after which a test is taken to hang."""
    seconds: dict[str, float]
    """Processor time that each takes."""
    left_out: int
    """Tests that execute the line and would take too long."""


class Record:
    """What was recorded."""

    def __init__(self, folder: Path, sources: Mapping[str, str], files: Mapping[str, str]) -> None:
        """``sources`` is the text of each module, ``files`` the hash of each test file."""
        self._folder, self._sources = folder, sources
        self._open: dict[str, sqlite3.Connection] = {}
        self.seconds: dict[str, float] = {}
        """Processor time of each test, which does not depend on what else the machine does."""
        self.not_passed: list[str] = []
        self._parts: dict[str, set[str]] = {}
        """Tests by part: those of a file are in the part that has it as it is now."""
        for part, said in _parts(folder).items():
            now = {name for name, digest in said["files"].items() if files.get(name) == digest}
            mine = {test: seconds for test, seconds in said["passed"].items() if test.partition("::")[0] in now}
            self.seconds |= mine
            self._parts[part] = set(mine)
            self.not_passed += [test for test in said["not_passed"] if test.partition("::")[0] in now]

    def asked(self, mutation: Mutation, *, at_most: float) -> Asked:
        """Tests about a mutant, of together at most some seconds of processor time."""
        statement = _enclosing(self._trees[mutation.module], mutation.line)
        direct = self._tests(mutation.module, range(mutation.first, mutation.last + 1))
        further: set[str] = set()
        if statement.function is None:
            for name in statement.names:
                for module, lines in self._mentions.get(name, {}).items():
                    further |= self._tests(module, lines)
            if not further and not direct:
                further = self._tests(mutation.module, range(1, self._sources[mutation.module].count("\n") + 2))
        elif mutation.first == statement.function.lineno:  # defaults of arguments are made at import
            further = self._tests(mutation.module, range(mutation.first, (statement.function.end_lineno or 0) + 1))
        order = sorted(direct | further, key=lambda name: (name not in direct, self.seconds[name], name))
        chosen: list[str] = []
        total = 0.0
        for name in order:
            if chosen and total + self.seconds[name] > at_most:
                continue
            total += self.seconds[name]
            chosen.append(name)
        limits = {name: 10 + 5 * self.seconds[name] for name in chosen}
        seconds = {name: self.seconds[name] for name in chosen}
        return Asked(tuple(chosen), limits, seconds, len(order) - len(chosen))

    def _tests(self, module: str, lines: Iterable[int]) -> set[str]:
        """Tests that execute one of the lines."""
        wanted = nums_to_numbits(lines)
        found: set[str] = set()
        for part, tests in self._parts.items():
            found |= tests & {str(name) for (name,) in self._data(part).execute(_QUERY, (module, wanted))}
        return found

    def _data(self, part: str) -> sqlite3.Connection:
        if part not in self._open:
            self._open[part] = sqlite3.connect(self._folder / part / "coverage")
            register_sqlite_functions(self._open[part])
        return self._open[part]

    @cached_property
    def _trees(self) -> dict[str, ast.Module]:
        return {module: ast.parse(source) for module, source in self._sources.items()}

    @cached_property
    def _mentions(self) -> dict[str, dict[str, set[int]]]:
        """Lines by module that use a name."""
        out: dict[str, dict[str, set[int]]] = {}
        for module, tree in self._trees.items():
            for node in ast.walk(tree):
                match node:
                    case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                        out.setdefault(name, {}).setdefault(module, set()).add(node.lineno)
        return out


@dataclass(frozen=True)
class _Enclosing:
    """Where a line is."""

    function: ast.FunctionDef | ast.AsyncFunctionDef | None
    names: frozenset[str]
    """What is assigned there, outside of functions."""


def _enclosing(tree: ast.Module, line: int) -> _Enclosing:
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    names: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node  # walked from the outside in
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return _Enclosing(function, frozenset() if function else frozenset(names))


def _parts(folder: Path) -> dict[str, Any]:
    """What each part of a record says of its tests."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/tests.json"))}


def missing(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Test files that are not recorded as they are now."""
    known = {(name, digest) for said in _parts(folder).values() for name, digest in said["files"].items()}
    return [name for name, digest in files.items() if (name, digest) not in known]


def record(
    original: Path, folder: Path, modules: Sequence[str], files: Mapping[str, str], *, workers: int, deadline: float
) -> None:
    """Run the tests of some files once, a few files at a time, and add each part to the record as it is done.

    Raises NotRecordedError, also at the deadline (of time.monotonic); what was recorded until then stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = list(files)
    chunks = max(workers, -(-len(names) // CHUNK))
    queue: SimpleQueue[dict[str, str]] = SimpleQueue()
    for number in range(chunks):
        if mine := {name: files[name] for name in names[number::chunks]}:  # neighbours are alike: long ones are spread
            queue.put(mine)
    with tempfile.TemporaryDirectory(prefix="mutants-") as home:

        def worker(number: int) -> str:
            tree = Tree(original, Path(home, f"tree{number}"))
            while True:
                try:
                    mine = queue.get_nowait()
                except Empty:
                    return ""
                if wrong := _record_part(tree, folder, modules, mine, deadline - time.monotonic()):
                    return wrong

        with ThreadPoolExecutor(workers) as pool:
            wrong = [text for text in pool.map(worker, range(workers)) if text]
    if wrong:
        raise NotRecordedError("\n".join(wrong))
    records = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in records[KEPT:]:
        shutil.rmtree(old)


def _record_part(tree: Tree, folder: Path, modules: Sequence[str], files: Mapping[str, str], left: float) -> str:
    """What went wrong, in words."""
    with tempfile.TemporaryDirectory(prefix="mutants-part-") as name:
        out, plan = Path(name, "part"), Path(name, "plan.json")
        out.mkdir()
        facts = {"data": str(out / "coverage"), "tests": str(out / "tests.json")}
        plan.write_text(json.dumps({"do": "record", "include": list(modules), "files": dict(files), **facts}))
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
        command += ["-p", "tests.mutants.plugin", "-m", "not slow", *files]
        code, output = run(command, tree, plan, left)
        if code is None:
            return "the deadline came before the record was complete: run it again, it goes on from there"
        if code not in (0, 1, 5):
            return output[-4000:]
        shutil.copytree(out, folder / digest_texts(*files, *files.values()), dirs_exist_ok=True)
    return ""
