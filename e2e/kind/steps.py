"""Steps: a name, a check whether its output is fresh, and what makes it. The runner prints one line a step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.kind.cache import Cache
from e2e.kind.shell import CommandError, Log


class StepFailedError(RuntimeError):
    """A step that could not be done; the runner has already printed why and what to do next."""


class SkippedError(RuntimeError):
    """Raised by a build when there is nothing to build yet; the text says what is missing."""


@dataclass(frozen=True)
class Step:
    """One unit of work.

    fresh tells, in well under a second, whether the output is there and comes from the present inputs. build makes the
    output with its noise in the log; it may raise CommandError, OSError or SkippedError. The line after a build says
    what build returned, or done_word. hint is the next command for whoever sees the step fail.
    """

    name: str
    fresh: Callable[[], bool]
    build: Callable[[Log], str | None]
    done_word: str = "built"
    hint: str = ""


@dataclass
class Runner:
    """Runs steps in order and prints ``[ 3/12] name ... built 421 s``."""

    cache: Cache
    command: str
    clock: Callable[[], float] = time.monotonic
    out: Callable[[str], None] = field(default=lambda line: print(line, flush=True))

    def run(self, steps: Sequence[Step]) -> None:
        """Run all steps; raise StepFailedError at the first that fails, after printing the end of its log."""
        width = len(str(len(steps)))
        for number, step in enumerate(steps, start=1):
            self._run_one(f"[{number:>{width}}/{len(steps)}] {step.name}", step)

    def _run_one(self, label: str, step: Step) -> None:
        log = Log(self.cache.logs / (_file_name(step.name) + ".log"))
        begin = self.clock()
        try:
            if step.fresh():
                self.out(f"{label} ... cached {self.clock() - begin:.1f} s")
                return
            self.cache.require_room()
            log.start()
            if sys.stdout.isatty():
                print(f"{label} ... (log: {log.path})", flush=True)
            word = step.build(log)
        except SkippedError as reason:
            self.out(f"{label} ... skipped: {reason}")
            return
        except (CommandError, OSError, RuntimeError) as error:
            self.out(f"{label} ... FAILED after {self.clock() - begin:.0f} s: {error}")
            tail = log.tail(30)
            if tail:
                self.out(f"the last lines of {log.path}:\n{tail}")
            self.out(f"next: {step.hint or 'read the log, then run again'}; then: python -m e2e.kind {self.command}")
            raise StepFailedError(step.name) from error
        self.out(f"{label} ... {word or step.done_word} {self.clock() - begin:.1f} s")


def file_step(
    cache: Cache,
    name: str,
    key: str,
    digest: str,
    *,
    outputs: Iterable[Path],
    build: Callable[[Log], None],
) -> Step:
    """A step whose outputs are files: skipped when they are all there and their stamp holds the same inputs hash."""
    files = tuple(outputs)

    def stamped_build(log: Log) -> None:
        # An interrupted build must not look done: the old stamp goes first, the new one comes last.
        cache.stamp(key).unlink(missing_ok=True)
        build(log)
        missing = [str(file) for file in files if not file.exists()]
        if missing:
            raise CommandError(f"the step ran but left no {', '.join(missing)}")
        cache.write_stamp(key, digest)

    return Step(name, lambda: cache.stamped(key, digest, files), stamped_build)


def _file_name(name: str) -> str:
    return "".join(character if character.isalnum() or character in ".-" else "-" for character in name)
