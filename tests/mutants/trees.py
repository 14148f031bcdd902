"""Copies of the source tree: what is mutated is never the tree that somebody works in."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath


def files(root: Path) -> list[str]:
    """Files of the project, relative to its root: what Git knows, and what is new and not ignored."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted({name for name in done.stdout.split("\0") if name and (root / name).is_file()})


def digest(root: Path) -> str:
    """One hash of what decides which lines a test executes, but for the test itself."""
    total = hashlib.sha256()
    for name in files(root):
        test = PurePosixPath(name).name.startswith("test_")
        if name in {"pyproject.toml", "requirements/dev.txt", "tests/mutants/plugin.py"} or (
            name.startswith(("operator/", "tests/", "crds/")) and not name.startswith("tests/mutants/") and not test
        ):
            total.update(f"{name}\0{file_digest(root / name)}\0".encode())
    return total.hexdigest()[:24]


def file_digest(path: Path) -> str:
    """Hash of one file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]


class Tree:
    """One copy."""

    def __init__(self, original: Path, folder: Path) -> None:
        """Make it; the folder must not exist."""
        self.root = folder
        self._writes = 0
        for name in files(original):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(original / name, folder / name)

    def write(self, name: str, text: str) -> None:
        """Change one file. Its time moves on with each write: Python takes a compiled file of the same second and size
        for current."""
        path = self.root / name
        before = path.stat().st_mtime
        path.write_text(text, encoding="utf-8")
        self._writes += 1
        os.utime(path, (before + 2 * self._writes, before + 2 * self._writes))

    def environment(self, environ: Mapping[str, str], plan: Path) -> dict[str, str]:
        """Of a Python that imports from this copy; the same examples and the same order of sets in every run."""
        return {
            **{k: v for k, v in environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": os.pathsep.join([str(self.root / "operator"), str(self.root)]),
            "PYTHONHASHSEED": "0",
            "CI": "true",
            "MUTANTS_PLAN": str(plan),
        }


def run(command: Sequence[str], tree: Tree, plan: Path, within: float) -> tuple[int | None, str]:
    """Exit status and output; None when it was ended."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command,
            cwd=tree.root,
            env=tree.environment(os.environ, plan),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None
        try:
            code = process.wait(max(within, 0.0))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        return code, out.read()
