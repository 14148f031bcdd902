"""Trying mutants: each in a copy of the tree, by several workers, until the deadline."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from tests.mutants.operators import Mutation
from tests.mutants.plugin import TIMED_OUT
from tests.mutants.record import Asked
from tests.mutants.trees import Tree, run

NO_END: Final = 600.0
"""Seconds after which a run is ended whatever its tests do."""

FIRST: Final = 3
"""Test files that are asked first."""
LOADING: Final = 0.3
"""Seconds that a test file takes to load, more or less."""


class Verdict(StrEnum):
    """What came of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    """A test hung: noticed, too."""
    SURVIVED = "survived"
    NOT_COVERED = "not covered"
    """No test executes the line: survived, without a run."""
    NOT_TRIED = "not tried"
    """The deadline came first."""
    EQUIVALENT = "equivalent"
    """Listed: it cannot change what the code does."""


@dataclass(frozen=True)
class Result:
    """One mutant."""

    mutation: Mutation
    verdict: Verdict
    by: str = ""
    """The test that noticed."""
    ran: int = 0
    of: int = 0
    """Tests that were to be run."""
    left_out: int = 0
    """Tests that execute the line and would have taken too long."""
    seconds: float = 0.0


class ToolFailedError(Exception):
    """A run came to something that is neither passed nor failed."""


def try_in(tree: Tree, mutation: Mutation, source: str, asked: Asked, *, within: float) -> Result:
    """Try one mutant; ``within`` seconds, else NOT_TRIED. Raises ToolFailedError.

    First the tests of a few files: to load the others takes longer than most mutants live.
    """
    if not asked.tests:
        return Result(mutation, Verdict.NOT_COVERED)
    begun, ran = time.monotonic(), 0
    facts = {"of": len(asked.tests), "left_out": asked.left_out}
    tree.write(mutation.module, mutation.apply(source))
    try:
        for stage in stages(asked):
            left = min(within, NO_END) - (time.monotonic() - begun)
            verdict, by, count = _ask(tree, mutation, {name: asked.limits[name] for name in stage}, left)
            if verdict is Verdict.NOT_TRIED and time.monotonic() - begun >= NO_END:
                verdict, by = Verdict.TIMED_OUT, "the whole run"
            ran += count
            if verdict is not Verdict.SURVIVED:
                break
    finally:
        tree.write(mutation.module, source)
    return Result(mutation, verdict, by=by, ran=ran, seconds=time.monotonic() - begun, **facts)


def stages(asked: Asked) -> list[tuple[str, ...]]:
    """The tests in two runs: those of the files that have the most tests for their time, then the others."""
    files: dict[str, list[str]] = {}
    for name in asked.tests:
        files.setdefault(name.partition("::")[0], []).append(name)

    def worth(file: str) -> float:
        return len(files[file]) / (LOADING + sum(asked.seconds[name] for name in files[file]))

    first = set(sorted(files, key=worth, reverse=True)[:FIRST])
    split = [tuple(n for n in asked.tests if (n.partition("::")[0] in first) is each) for each in (True, False)]
    return [each for each in split if each]


def _ask(tree: Tree, mutation: Mutation, tests: dict[str, float], within: float) -> tuple[Verdict, str, int]:
    """Verdict of some tests (by their limits), the last test that ran, how many did. Raises ToolFailedError."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        plan, result = Path(folder, "plan.json"), Path(folder, "result.json")
        plan.write_text(json.dumps({"do": "run", "tests": tests, "root": str(tree.root), "result": str(result)}))
        files = dict.fromkeys(name.partition("::")[0] for name in tests)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
        command += ["-p", "tests.mutants.plugin", "-m", "not slow", *files]
        code, output = run(command, tree, plan, within)
        said = json.loads(result.read_text()) if result.exists() else {}
    by, ran = str(said.get("by", "")), int(said.get("ran", 0))
    match code:
        case None:
            return Verdict.NOT_TRIED, "", ran
        case 0 | 5:  # 5: the names of the tests depend on what was changed, and none was found
            return Verdict.SURVIVED, "", ran
        case 1:
            return Verdict.KILLED, by, ran
        case c if c == TIMED_OUT:
            return Verdict.TIMED_OUT, by, ran
        case c if c == 2 or "ImportError while loading conftest" in output:  # 2: a test file cannot be imported
            return Verdict.KILLED, "import", ran
        case c if c < 0:
            return Verdict.KILLED, "crash", ran
    raise ToolFailedError(f"pytest ended with {code} for {mutation}:\n{output[-4000:]}")


def try_all(
    original: Path,
    work: Sequence[tuple[Mutation, Asked]],
    sources: dict[str, str],
    *,
    workers: int,
    deadline: float,
    tell: Callable[[Result], None],
) -> list[Result]:
    """Try mutants in order; those after the deadline (of time.monotonic) are NOT_TRIED. Raises ToolFailedError."""
    queue: SimpleQueue[int] = SimpleQueue()
    for number in range(len(work)):
        queue.put(number)
    results: dict[int, Result] = {}
    wrong: list[BaseException] = []
    lock = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="mutants-") as home:

        def worker(number: int) -> None:
            try:
                tree = Tree(original, Path(home, f"tree{number}"))
                while not wrong and (left := deadline - time.monotonic()) > 0:
                    at = queue.get_nowait()
                    mutation, asked = work[at]
                    result = try_in(tree, mutation, sources[mutation.module], asked, within=left)
                    with lock:
                        results[at] = result
                        tell(result)
            except Empty:
                return
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=worker, args=(number,)) for number in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if wrong:
        raise wrong[0]
    return [results.get(number, Result(mutation, Verdict.NOT_TRIED)) for number, (mutation, _) in enumerate(work)]
