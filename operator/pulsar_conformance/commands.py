"""What the suite has others do: commands that change the number of brokers, and that stop processes."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable

SECONDS = 300
"""The longest a command may take."""


def scale_command(command: str | None) -> Callable[[int], object] | None:
    """Runs ``command`` with ``{}`` replaced by the number of brokers."""
    if not command:
        return None
    return lambda brokers: subprocess.run(
        [part.replace("{}", str(brokers)) for part in shlex.split(command)],
        check=True,
        capture_output=True,
        timeout=SECONDS,
    )


def fault_command(command: str | None) -> Callable[[str, str], str] | None:
    """Runs ``command`` with ``{action}`` and ``{target}`` replaced, each within one argument; what it prints.

    The function it returns raises RuntimeError with the command's own words when it does not end with 0.
    """
    if not command:
        return None
    parts = shlex.split(command)

    def run(action: str, target: str) -> str:
        done = subprocess.run(
            [part.replace("{action}", action).replace("{target}", target) for part in parts],
            check=False,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if done.returncode != 0:
            output = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
            raise RuntimeError(f"the fault command ended with {done.returncode} for {action} {target}: {output}")
        return done.stdout.strip()

    return run
