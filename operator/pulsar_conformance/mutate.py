"""The checks proved: each mutation breaks what one check proves, and that check must fail."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from pulsar_conformance.context import Instance
from pulsar_conformance.model import Check, Outcome, Status
from pulsar_conformance.runner import batches, clean, run_one
from pulsar_conformance.tamper import Mutation


@dataclass(frozen=True)
class Verdict:
    """What a check made of its mutation."""

    mutation: Mutation
    outcome: Outcome
    used: bool
    """Whether the mutation changed any call at all."""

    @property
    def caught(self) -> bool:
        """The check failed because its promise was broken; an error or a skip proves nothing."""
        return self.used and self.outcome.status is Status.FAILED

    @property
    def skipped(self) -> bool:
        """The instance does not offer what the check needs."""
        return self.outcome.status is Status.SKIPPED

    def line(self) -> str:
        """One line for people."""
        word = "caught" if self.caught else "skipped" if self.skipped else "NOT CAUGHT"
        text = self.outcome.text if self.used or self.skipped else f"no call was changed; {self.outcome.text}"
        return f"{word:>10}  {self.outcome.seconds:6.1f} s  {self.mutation.id:<56} {self.mutation.breaks} -> {text}"


def try_mutations(
    found: Instance, checks: Sequence[Check], mutations: Sequence[Mutation], *, workers: int = 8, say: bool = True
) -> list[Verdict]:
    """Run each mutation's check with its rules in force; verdicts in the order of ``mutations``."""
    by_id = {check.id: check for check in checks}
    chosen = [mutation for mutation in mutations if mutation.check in by_id]
    verdicts: dict[str, Verdict] = {}

    def one(mutation: Mutation) -> Verdict:
        outcome, used = run_one(found, by_id[mutation.check], mutation.rules)
        return Verdict(mutation, outcome, bool(used))

    for together, at_once in batches(chosen, lambda mutation: by_id[mutation.check], workers):
        with ThreadPoolExecutor(at_once, thread_name_prefix="mutation") as pool:
            for done in as_completed([pool.submit(one, mutation) for mutation in together]):
                verdict = done.result()
                verdicts[verdict.mutation.id] = verdict
                if say:
                    print(verdict.line(), flush=True)
    clean(found, print)
    return [verdicts[mutation.id] for mutation in chosen]


def run_mutations(
    found: Instance,
    checks: Sequence[Check],
    mutations: Sequence[Mutation],
    *,
    workers: int = 8,
    json_file: Path | None = None,
) -> int:
    """Try all and print the result; 1 when a mutation was not caught."""
    begin = time.monotonic()
    verdicts = try_mutations(found, checks, mutations, workers=workers)
    missed = [verdict for verdict in verdicts if not verdict.caught and not verdict.skipped]
    skipped = [verdict for verdict in verdicts if verdict.skipped]
    if json_file is not None:
        rows = [
            {
                "mutation": verdict.mutation.id,
                "breaks": verdict.mutation.breaks,
                "caught": verdict.caught,
                "skipped": verdict.skipped,
                "seen": verdict.outcome.text,
            }
            for verdict in verdicts
        ]
        json_file.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    caught = len(verdicts) - len(missed) - len(skipped)
    print(
        f"\n{len(verdicts)} mutations in {time.monotonic() - begin:.0f} s: {caught} caught, {len(skipped)} skipped, "
        f"{len(missed)} not caught"
    )
    if skipped:
        print(f"skipped: {', '.join(sorted({verdict.mutation.check for verdict in skipped}))}")
    for verdict in missed:
        print(verdict.line())
    return 1 if missed else 0
