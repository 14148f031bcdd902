"""The runner: what is skipped, what is printed, what happens on failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from e2e.kind.cache import Cache
from e2e.kind.shell import CommandError, Log
from e2e.kind.steps import Runner, SkippedError, Step, StepFailedError, file_step


class Machine:
    """A runner on a scratch cache that keeps the lines it prints."""

    def __init__(self, folder: Path) -> None:
        self.cache = Cache(folder)
        # A cold cache asks for 15 GiB of the disk that the tests run on.
        self.cache.write_stamp("warm", "")
        self.lines: list[str] = []
        ticks = iter(range(1000))
        self.runner = Runner(self.cache, "up x", clock=lambda: float(next(ticks)), out=self.lines.append)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_step_is_built_once_and_again_when_an_input_changes(machine: Machine) -> None:
    output = machine.cache.root / "out"
    builds: list[str] = []

    def step(digest: str) -> Step:
        def build(log: Log) -> None:
            builds.append(digest)
            output.write_text(digest)

        return file_step(machine.cache, "thing", "thing", digest, outputs=[output], build=build)

    for digest in ("h1", "h1", "h2"):
        machine.runner.run([step(digest)])
    assert builds == ["h1", "h2"]
    assert machine.lines == [
        "[1/1] thing ... built 1.0 s",
        "[1/1] thing ... cached 1.0 s",
        "[1/1] thing ... built 1.0 s",
    ]


def test_a_build_that_fails_is_not_taken_for_done_although_its_old_output_is_there(machine: Machine) -> None:
    output = machine.cache.root / "out"
    output.write_text("old")
    machine.cache.write_stamp("thing", "h1")

    def build(log: Log) -> None:
        raise CommandError("boom")

    with pytest.raises(StepFailedError):
        machine.runner.run([file_step(machine.cache, "thing", "thing", "h2", outputs=[output], build=build)])
    assert not machine.cache.stamped("thing", "h1", [output])
    assert not machine.cache.stamped("thing", "h2", [output])


def test_a_build_that_leaves_no_output_fails(machine: Machine) -> None:
    step = file_step(
        machine.cache, "thing", "thing", "h", outputs=[machine.cache.root / "no"], build=lambda log: log.write("did")
    )
    with pytest.raises(StepFailedError):
        machine.runner.run([step])
    assert "left no" in machine.lines[0]


def test_failure_prints_the_last_30_lines_and_the_next_command(machine: Machine) -> None:
    def build(log: Log) -> None:
        log.run([sys.executable, "-c", "for n in range(100): print('line', n)\nraise SystemExit(3)"])

    with pytest.raises(StepFailedError):
        machine.runner.run([Step("bad step", lambda: False, build, hint="do this")])
    text = "\n".join(machine.lines)
    assert "[1/1] bad step ... FAILED" in text
    assert "status 3" in text
    assert "line 99" in text
    assert "line 70" in text
    assert "line 69\n" not in text
    assert "next: do this; then: python -m e2e.kind up x" in text
    assert (machine.cache.logs / "bad-step.log").is_file()


def test_steps_after_a_failure_do_not_run(machine: Machine) -> None:
    ran: list[str] = []

    def fail(log: Log) -> None:
        raise CommandError("no")

    def note(log: Log) -> None:
        ran.append("second")

    with pytest.raises(StepFailedError):
        machine.runner.run([Step("a", lambda: False, fail), Step("b", lambda: False, note)])
    assert ran == []


def test_a_step_without_anything_to_do_yet_is_skipped_with_its_reason(machine: Machine) -> None:
    def build(log: Log) -> None:
        raise SkippedError("no Dockerfile yet")

    machine.runner.run([Step("a", lambda: False, build), Step("b", lambda: True, build)])
    assert machine.lines == ["[1/2] a ... skipped: no Dockerfile yet", "[2/2] b ... cached 1.0 s"]


def test_a_command_gets_no_keyboard(machine: Machine) -> None:
    log = Log(machine.cache.logs / "x.log")
    log.start()
    log.run([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"], timeout=30)
    assert "''" in log.tail()


def test_a_pipe_reports_the_failure_of_either_end(machine: Machine) -> None:
    log = Log(machine.cache.logs / "x.log")
    log.start()
    say = [sys.executable, "-c", "print('hello')"]
    read = [sys.executable, "-c", "import sys; print(sys.stdin.read().upper())"]
    log.pipe(say, read)
    assert "HELLO" in log.tail()
    bad = [sys.executable, "-c", "raise SystemExit(4)"]
    with pytest.raises(CommandError, match="4 and 0"):
        log.pipe(bad, read)
    with pytest.raises(CommandError, match="and 4"):
        log.pipe(say, bad)
