"""The operator's Python packages, laid out for its image: made outside the image, for the image's Python."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.nodeimage import scratch_folder
from e2e.kind.shell import Argument, Log
from e2e.kind.steps import SkippedError, Step, file_step

#: The operator's dependencies with their hashes.
LOCKED = "requirements/runtime.txt"
#: What the images take from the project's wheel is made of: the operator and the sizing package.
OPERATOR_INPUTS = ("operator/pulsar_operator", "operator/pulsar_sizing", "crds", "pyproject.toml", "README.md")
#: In the wheel for those who install it, and not in these images: a new check would change the operator's image.
LEFT_OUT = "pulsar_conformance"
REQUIRED = ("operator/pulsar_operator/__main__.py", "pyproject.toml", "README.md")


@dataclass(frozen=True)
class ImagePython:
    """The Python inside an image: its minor version, and the platform that uv chooses wheels for."""

    version: str
    platform: str


OPERATOR = ImagePython(versions.IMAGE_PYTHON, versions.wheel_platform())


def site_folder(cache: Cache) -> Path:
    """The folder that holds ``deps`` (the locked dependencies) and ``app`` (the project's own wheel), both unpacked."""
    return cache.root / "operator-site"


def operator_site_steps(cache: Cache, root: Path) -> list[Step]:
    """Fill the site folder, so that building the image needs no network.

    Two folders, because they become two layers: a change of the operator's code then moves only the small one.
    """
    site = site_folder(cache)

    def build_deps(log: Log) -> None:
        require(root, LOCKED)
        install(
            log, pinned_uv(cache, log), site / "deps", OPERATOR, "--require-hashes", "--requirements", root / LOCKED
        )

    def build_app(log: Log) -> None:
        # Without this, an image would be made with the packages of an earlier checkout.
        shutil.rmtree(site / "app", ignore_errors=True)
        require(root, *REQUIRED)
        uv = pinned_uv(cache, log)
        with scratch_folder(cache, "operator-wheel") as folder:
            log.run([uv, "build", "--wheel", "--quiet", "--out-dir", folder, root])
            (wheel,) = folder.glob("*.whl")
            install(log, uv, site / "app", OPERATOR, "--no-deps", wheel)
            shutil.rmtree(site / "app" / LEFT_OUT)

    return [
        file_step(
            cache,
            "operator-site dependencies",
            "operator-deps",
            deps_digest(root),
            outputs=[site / "deps"],
            build=build_deps,
        ),
        file_step(
            cache, "operator-site wheel", "operator-app", app_digest(root), outputs=[site / "app"], build=build_app
        ),
    ]


def deps_digest(root: Path) -> str:
    """Inputs hash of the operator's dependencies."""
    lock = digest_paths(root, [root / LOCKED])
    return digest_texts("deps-1", lock, versions.UV, OPERATOR.version, OPERATOR.platform)


def app_digest(root: Path) -> str:
    """Inputs hash of the operator's own wheel."""
    return digest_texts("app-1", versions.UV, digest_paths(root, [root / name for name in OPERATOR_INPUTS]))


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
