"""The cache folder: where it is, content hashes of inputs, and the stamps that say which inputs made an output."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Never part of an input: what Python and editors leave behind differs from machine to machine.
IGNORED_NAMES = frozenset({"__pycache__", ".DS_Store", ".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
COLD_FREE_BYTES = 15 * 1024**3
WARM_FREE_BYTES = 3 * 1024**3


class DiskFullError(RuntimeError):
    """Less room on the disk than a cold build needs."""


@dataclass(frozen=True)
class Cache:
    """The folder that holds everything built outside the container engine."""

    root: Path

    @property
    def bin(self) -> Path:
        """Folder of the tool binaries."""
        return self.root / "bin"

    @property
    def logs(self) -> Path:
        """Folder of one log file a step."""
        return self.root / "logs"

    @property
    def pulsar_home(self) -> Path:
        """Folder that holds the unpacked Pulsar distributions."""
        return self.root / "pulsar"

    def kubeconfig(self, cluster: str) -> Path:
        """The kubeconfig file of one cluster; never the user's own."""
        return self.root / f"kubeconfig-{cluster}"

    def stamp(self, key: str) -> Path:
        """The file that holds the inputs hash of one step's last output."""
        return self.root / "stamps" / key

    def stamped(self, key: str, digest: str, outputs: Iterable[Path]) -> bool:
        """Whether every output is there and was made from the inputs with this hash."""
        stamp = self.stamp(key)
        if not stamp.is_file() or stamp.read_text().strip() != digest:
            return False
        return all(output.exists() for output in outputs)

    def write_stamp(self, key: str, digest: str) -> None:
        """Record that the output of this step now comes from the inputs with this hash."""
        stamp = self.stamp(key)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(digest + "\n")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the cache for this process: two builds side by side would fight for the same cores and files."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("waiting for another run of e2e.kind to finish ...", flush=True)
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def require_room(self, free: int | None = None) -> None:
        """Raise DiskFullError, naming the folder and both numbers, when the cache's disk has too little free room.

        Before anything is built that is 15 GiB; later, when only parts are built anew, 3 GiB.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        minimum = WARM_FREE_BYTES if (self.root / "stamps").is_dir() else COLD_FREE_BYTES
        free = shutil.disk_usage(self.root).free if free is None else free
        if free < minimum:
            raise DiskFullError(
                f"{self.root} has {free / 1024**3:.1f} GiB free, and {minimum / 1024**3:.0f} GiB are needed: "
                "free some room, or point XDG_CACHE_HOME at a larger disk"
            )


def default_cache(environ: Mapping[str, str] | None = None) -> Cache:
    """The cache under $XDG_CACHE_HOME, or under ~/.cache when that is unset or relative (as its specification says)."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return Cache(folder / "pulsar-operator")


def digest_texts(*texts: str) -> str:
    """One hash of several texts; ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for text in texts:
        data = text.encode()
        total.update(f"{len(data)}:".encode())
        total.update(data)
    return total.hexdigest()[:24]


def digest_paths(root: Path, paths: Iterable[Path]) -> str:
    """One hash of files and folders: names relative to root, contents, link targets and the executable bit.

    Times and owners are left out on purpose, so that a fresh clone has the same hash. A path that is not there counts
    as such and does not raise.
    """
    entries: dict[str, str] = {}
    for path in paths:
        if not path.exists() and not path.is_symlink():
            entries[os.path.relpath(path, root)] = "absent"
            continue
        for file in walk(path):
            entries[os.path.relpath(file, root)] = _file_digest(file)
    return digest_texts(*(f"{name}={entries[name]}" for name in sorted(entries)))


def walk(path: Path) -> Iterator[Path]:
    """Every file and symbolic link at or below a path, without the names that tools leave behind."""
    if path.is_symlink() or path.is_file():
        yield path
        return
    for child in sorted(path.iterdir()):
        if child.name in IGNORED_NAMES or child.name.endswith(".pyc"):
            continue
        yield from walk(child)


def _file_digest(file: Path) -> str:
    if file.is_symlink():
        return f"link:{file.readlink()}"
    executable = "x" if file.stat().st_mode & stat.S_IXUSR else "-"
    return executable + hashlib.sha256(file.read_bytes()).hexdigest()
