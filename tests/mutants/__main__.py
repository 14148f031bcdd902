"""``python -m tests.mutants``: a seeded sample of mutants, its table, its survivors and its score.

Ends with 0 when it ran, whatever the score is: 2 where the tests cannot be run as they are.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.kind.cache import default_cache
from tests.mutants import report, targets, trees
from tests.mutants.operators import Mutation
from tests.mutants.record import NotRecordedError, Record, missing, record
from tests.mutants.sample import equivalent, keys, population, sample
from tests.mutants.trial import Result, ToolFailedError, Verdict, try_all

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the fast tests notice a change?")
    parser.add_argument("--size", type=int, default=300, help="mutants in the sample (300)")
    parser.add_argument("--seed", type=int, default=1, help="another number takes another sample (1)")
    parser.add_argument("--minutes", type=float, default=60, help="it stops itself after (60)")
    parser.add_argument("--workers", type=int, default=2, help="mutants tried at a time (2)")
    parser.add_argument(
        "--test-seconds", type=float, default=40, help="of tests for one mutant, processor time, quickest first (40)"
    )
    parser.add_argument("--only", default="", metavar="PATH[:LINE]", help="all mutants of a module, or of one line")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    deadline = begun + options.minutes * 60
    sources = {name: (ROOT / name).read_text(encoding="utf-8") for name in targets.modules(ROOT)}
    try:
        same = equivalent(sources)
        known = _record(sources, options.workers, deadline)
    except (ValueError, NotRecordedError) as error:
        print(error, file=sys.stderr)
        return 2
    if known.not_passed:
        print(f"not asked, for they do not pass as they are: {', '.join(known.not_passed)}")
    if options.only:
        path, _, line = options.only.partition(":")
        found = [each for each in population(sources) if each.module.endswith(path) and line in ("", str(each.line))]
        chosen, of = found, len(found)
    else:
        chosen, of = sample(sources, options.size, options.seed)
    work = [(each, known.asked(each, at_most=options.test_seconds)) for each in chosen if each not in same]
    print(f"seed {options.seed}: {len(chosen)} of {of} mutants, {options.workers} at a time", flush=True)
    tried: list[Result] = []

    def tell(result: Result) -> None:
        tried.append(result)
        print(report.line(len(tried), len(work), result), flush=True)

    try:
        results = try_all(ROOT, work, sources, workers=options.workers, deadline=deadline, tell=tell)
    except ToolFailedError as error:
        print(error, file=sys.stderr)
        return 2
    by_mutation = {each.mutation: each for each in results}
    results = [by_mutation.get(each, Result(each, Verdict.EQUIVALENT)) for each in chosen]
    _print(results, sources, seed=options.seed, of=of, seconds=time.monotonic() - begun)
    return 0


def _record(sources: dict[str, str], workers: int, deadline: float) -> Record:
    """From the cache, with what is new in it. Raises NotRecordedError."""
    folder = default_cache().root / "mutants" / trees.digest(ROOT)
    files = {name: trees.file_digest(ROOT / name) for name in targets.asked_files(ROOT)}
    if new := missing(folder, files):
        begun = time.monotonic()
        print(f"recording which test executes which line: {len(new)} test files", flush=True)
        record(ROOT, folder, list(sources), {name: files[name] for name in new}, workers=workers, deadline=deadline)
        print(f"recorded in {time.monotonic() - begun:.0f} s", flush=True)
    return Record(folder, sources, files)


def _print(results: list[Result], sources: dict[str, str], *, seed: int, of: int, seconds: float) -> None:
    names: dict[Mutation, str] = {}
    for module in sorted({each.mutation.module for each in results}):
        everything = population({module: sources[module]})
        names |= keys(everything, sources[module])
    closing = report.closing(results, seed=seed, population=of, seconds=seconds)
    for text in ("", *report.survivors(results, sources, names), "", *report.table(results), "", *closing):
        print(text)
    found = report.score(results)
    facts = {"seed": seed, "of": of, "seconds": round(seconds), "killed": found.killed, "tried": found.of}
    report.write(ROOT / "build", facts, report.rows(results, names))


if __name__ == "__main__":
    sys.exit(main())
