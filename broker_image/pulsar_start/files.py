"""Writing files so that nobody ever reads half of one."""

import os
import tempfile
from pathlib import Path

from pulsar_start.errors import StartError

SECRET_MODE = 0o600


def read(path: Path) -> str:
    """The text of a file that must be there."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read {path}: {error}") from error


def read_if_there(path: Path) -> str | None:
    """The text of a file, None when there is none."""
    return read(path) if path.exists() else None


def write_atomically(path: Path, text: str, mode: int = SECRET_MODE) -> None:
    """Writes beside the file, syncs and renames. The default mode keeps secrets to our own user."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise StartError(f"cannot write {path}: {error}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
