"""What a Dockerfile takes from its context: so that only that is hashed and sent to the engine."""

from __future__ import annotations

import json
import shlex
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from e2e.kind.cache import walk


class MissingSourceError(RuntimeError):
    """A Dockerfile copies something that is not in the repository."""


def copy_sources(text: str) -> list[str]:
    """The sources of all COPY and ADD instructions that read the context, in order, each once.

    Stages (``COPY --from``) are left out. Variables in a source are not expanded.
    """
    sources: list[str] = []
    for instruction in _instructions(text):
        words = _words(instruction)
        if not words or words[0].upper() not in {"COPY", "ADD"}:
            continue
        flags = [word for word in words[1:] if word.startswith("--")]
        if any(flag.startswith("--from") for flag in flags):
            continue
        sources += [word for word in words[1:] if not word.startswith("--")][:-1]
    return list(dict.fromkeys(sources))


def source_paths(root: Path, sources: Sequence[str]) -> list[Path]:
    """The files and folders that the sources name, wildcards expanded; MissingSourceError when one names nothing."""
    paths: list[Path] = []
    for source in sources:
        relative = source.strip("/")
        found = [root] if relative in {"", "."} else sorted(root.glob(relative))
        if not found:
            raise MissingSourceError(f"{source} is not in the repository")
        paths += found
    return paths


def stage(root: Path, paths: Sequence[Path], context: Path) -> None:
    """Copy files and folders to the same places in an empty context, with modes 755 and 644 whatever the umask was."""
    for path in paths:
        for file in walk(path):
            target = context / file.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.is_symlink():
                target.unlink(missing_ok=True)
                target.symlink_to(file.readlink())
                continue
            shutil.copyfile(file, target)
            target.chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)
    for folder in (context, *context.rglob("*")):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o755)


def _instructions(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def _words(instruction: str) -> list[str]:
    head, _, rest = instruction.strip().partition(" ")
    bracket = rest.find("[")
    if head.upper() in {"COPY", "ADD"} and bracket >= 0:
        try:
            return [head, *rest[:bracket].split(), *json.loads(rest[bracket:])]
        except json.JSONDecodeError:
            pass
    try:
        return [head, *shlex.split(rest)]
    except ValueError:
        return [head]
