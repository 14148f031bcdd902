"""Processes for integration tests: started so that they end with the tests, stopped by their id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STOP_SECONDS = 20.0
LAST_LINES = 20


class EndedError(Exception):
    """A process ended that something is expected of. None of the errors that ``eventually`` waits on at."""


def assert_runs(process: subprocess.Popen[Any], log: Path) -> None:
    """Raises EndedError with the end of its log when the process has ended."""
    if process.poll() is not None:
        raise EndedError(f"{log.stem} ended with status {process.returncode}:\n{tail(log)}")


def stopped(pid: int) -> bool:
    """Whether no thread of a process runs since it got SIGSTOP (proc(5), the state in ``task/<id>/stat``)."""
    states = [each.read_text().rpartition(")")[2].split()[0] for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    return bool(states) and all(state == "T" for state in states)


def tail(log: Path) -> str:
    """The last words in a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:])


def launch(
    log: Path,
    command: list[str],
    environment: Mapping[str, str] | None = None,
    *,
    inherited: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command in a folder; its output goes to the file ``log``.

    ``environment`` is added to what it has of this process's, which is ``inherited``.
    """
    # Where util-linux is there, the kernel ends the child when a killed test run cannot.
    guard = shutil.which("setpriv")
    prefix = [guard, "--pdeathsig", "TERM"] if guard else []
    with log.open("wb") as output:
        return subprocess.Popen(
            prefix + command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**inherited, **(environment or {})},
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process, by force after STOP_SECONDS."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
