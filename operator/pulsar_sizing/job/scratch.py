"""A folder for what Spark writes and may lose: it goes with its run, or with the next one if the run was killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

PREFIX: Final = "pulsar-sizing-"
LOCK: Final = "in-use"
"""File that the owner of a folder holds locked: the kernel lets go of it however the process ends."""


@contextmanager
def scratch(above: str | None) -> Iterator[Path]:
    """A new folder in `above` (None if the system's for temporary files), after those of dead runs were deleted.

    Raises OSError when it cannot be made.
    """
    parent = Path(above or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    clean(parent)
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as folder,
        (Path(folder) / LOCK).open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(folder)


def clean(parent: Path) -> int:
    """Delete folders whose owner is dead; how many. One without a lock is just being made and stays."""
    gone = 0
    for lock in sorted(parent.glob(f"{PREFIX}*/{LOCK}")):
        try:
            with lock.open("r+") as file:
                if _free(file):
                    shutil.rmtree(lock.parent, ignore_errors=True)
                    gone += 1
        except OSError:
            # Another run was faster, or the folder is another user's.
            continue
    return gone


def _free(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
