"""Processes for integration tests: started so that they end with the tests, stopped by their id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

STOP_SECONDS = 20.0


def launch(log: Path, command: list[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a command whose output goes to the file ``log``; ``environment`` is added to this process's own."""
    # Where util-linux is there, the kernel ends the child when a killed test run cannot.
    guard = shutil.which("setpriv")
    prefix = [guard, "--pdeathsig", "TERM"] if guard else []
    with log.open("wb") as output:
        return subprocess.Popen(
            prefix + command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | (environment or {}),
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
