"""Running commands: output to a step's log file, failures with the end of that log."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

Argument = str | Path


class CommandError(RuntimeError):
    """A command that ended with a status other than 0, could not start, or ran out of time."""


@dataclass(frozen=True)
class Log:
    """The log file of one step."""

    path: Path

    def start(self) -> None:
        """Empty the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")

    def write(self, text: str) -> None:
        """Add one line."""
        with self.path.open("a") as handle:
            handle.write(text.rstrip("\n") + "\n")

    def tail(self, lines: int = 30) -> str:
        """The last lines."""
        if not self.path.is_file():
            return ""
        return "\n".join(self.path.read_text(errors="replace").splitlines()[-lines:])

    def run(
        self,
        argv: Sequence[Argument],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        text: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Run a command with its output in this file; raise CommandError when it fails.

        env is added to the environment of this process. text is the command's standard input; without it there is none,
        so that nothing here ever waits for a keyboard.
        """
        command = [str(argument) for argument in argv]
        self.write("$ " + shlex.join(command))
        with self.path.open("ab") as handle:
            try:
                done = subprocess.run(
                    command,
                    env={**os.environ, **(env or {})},
                    cwd=cwd,
                    input=None if text is None else text.encode(),
                    stdin=subprocess.DEVNULL if text is None else None,
                    stdout=handle,
                    stderr=subprocess.STDOUT,
                    timeout=timeout,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise CommandError(f"{shlex.join(command)}: {error}") from error
        if done.returncode != 0:
            raise CommandError(f"{shlex.join(command)} ended with status {done.returncode}")

    def pipe(self, producer: Sequence[Argument], consumer: Sequence[Argument]) -> None:
        """Run ``producer | consumer``; raise CommandError when either fails."""
        first, second = ([str(argument) for argument in argv] for argv in (producer, consumer))
        self.write(f"$ {shlex.join(first)} | {shlex.join(second)}")
        with (
            self.path.open("ab") as handle,
            subprocess.Popen(first, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=handle) as source,
        ):
            sink = subprocess.run(second, stdin=source.stdout, stdout=handle, stderr=subprocess.STDOUT, check=False)
            if source.stdout is not None:
                source.stdout.close()
            status = source.wait()
        if status != 0 or sink.returncode != 0:
            raise CommandError(f"{shlex.join(first)} | {shlex.join(second)}: statuses {status} and {sink.returncode}")

    @contextmanager
    def feed(self, argv: Sequence[Argument]) -> Iterator[IO[bytes]]:
        """Run a command and give its standard input to the caller; raise CommandError when the command fails."""
        command = [str(argument) for argument in argv]
        self.write("$ " + shlex.join(command))
        with self.path.open("ab") as handle:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=handle, stderr=subprocess.STDOUT)
            assert process.stdin is not None  # it was asked for
            try:
                yield process.stdin
            finally:
                # The command ends by itself once its input does.
                with suppress(BrokenPipeError):
                    process.stdin.close()
                status = process.wait()
        if status != 0:
            raise CommandError(f"{shlex.join(command)} ended with status {status}")


def capture(argv: Sequence[Argument], *, env: Mapping[str, str] | None = None, timeout: float | None = 60) -> str:
    """What a command prints on standard output; CommandError with its standard error when it fails."""
    command = [str(argument) for argument in argv]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{shlex.join(command)}: {error}") from error
    if done.returncode != 0:
        raise CommandError(f"{shlex.join(command)} ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def succeeds(argv: Sequence[Argument], *, timeout: float | None = 30) -> bool:
    """Whether a command runs and ends with status 0 in time."""
    try:
        capture(argv, timeout=timeout)
    except CommandError:
        return False
    return True
