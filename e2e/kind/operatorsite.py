"""The packages that the operator depends on, for its image: fetched outside the image, for the image's Python."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.shell import Argument, Log
from e2e.kind.steps import SkippedError, Step, file_step

#: The operator's dependencies with their hashes.
LOCKED = "requirements/runtime.txt"


@dataclass(frozen=True)
class ImagePython:
    """The Python inside an image: its minor version, and the platform that uv chooses wheels for."""

    version: str
    platform: str


OPERATOR = ImagePython(versions.IMAGE_PYTHON, versions.wheel_platform())


def operator_site(cache: Cache) -> Path:
    """The folder of the unpacked packages."""
    return cache.root / "operator-site" / "deps"


def operator_site_step(cache: Cache, root: Path) -> Step:
    """Fill the folder, so that building the image needs no network."""
    site = operator_site(cache)

    def build(log: Log) -> None:
        require(root, LOCKED)
        install(log, pinned_uv(cache, log), site, OPERATOR, "--require-hashes", "--requirements", root / LOCKED)

    digest = operator_site_digest(root)
    return file_step(cache, "operator-site dependencies", "operator-deps", digest, outputs=[site], build=build)


def operator_site_digest(root: Path) -> str:
    """Inputs hash of the packages."""
    lock = digest_paths(root, [root / LOCKED])
    return digest_texts("deps-1", lock, versions.UV, OPERATOR.version, OPERATOR.platform)


def pinned_uv(cache: Cache, log: Log) -> Path:
    """uv of the pinned version in an environment of its own: a wheel's bytes may depend on who unpacked it."""
    venv = cache.root / f"uv-{versions.UV}"
    uv = venv / "bin" / "uv"
    if not uv.exists():
        shutil.rmtree(venv, ignore_errors=True)
        log.run([sys.executable, "-m", "venv", venv])
        log.run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", f"uv=={versions.UV}"])
    return uv


def install(log: Log, uv: Path, target: Path, image: ImagePython, *what: Argument) -> None:
    """Fill a folder with packages that fit the Python of an image."""
    scratch = target.with_suffix(".tmp")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.parent.mkdir(parents=True, exist_ok=True)
    # Wheels only, chosen for the image and not for this machine: compiled packages must fit the image's Python.
    choice = ["--only-binary", ":all:", "--python-version", image.version, "--python-platform", image.platform]
    log.run([uv, "pip", "install", "--quiet", "--python", sys.executable, *choice, "--target", scratch, *what])
    # Programs for a shell, with this machine's path of Python in their first line.
    shutil.rmtree(scratch / "bin", ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    scratch.rename(target)


def require(root: Path, *names: str) -> None:
    """Raise SkippedError when the repository lacks one of these files."""
    missing = [name for name in names if not (root / name).exists()]
    if missing:
        raise SkippedError(f"not in the repository yet: {', '.join(missing)}")
