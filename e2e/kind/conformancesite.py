"""The Python packages of the conformance image: made outside the image, for the Python of its base."""

from __future__ import annotations

from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.operatorsite import ImagePython, install, pinned_uv, require
from e2e.kind.shell import Log
from e2e.kind.source import Source
from e2e.kind.steps import Step, file_step

#: The suite's dependencies with their hashes.
LOCKED = "requirements/conformance.txt"


def conformance_site(cache: Cache) -> Path:
    """The folder of the unpacked packages."""
    return cache.root / "conformance-site"


def image_python(source: Source) -> ImagePython:
    """The Python beside Java in the base: Debian's in the one built here, Alpine's in the stock Pulsar image."""
    if source == "stock":
        return ImagePython(versions.STOCK_JAVA_PYTHON, versions.wheel_platform("unknown-linux-musl"))
    return ImagePython(versions.BUILT_JAVA_PYTHON, versions.wheel_platform())


def conformance_site_digest(root: Path, source: Source) -> str:
    """Inputs hash of the packages."""
    python = image_python(source)
    lock = digest_paths(root, [root / LOCKED])
    return digest_texts("conformance-site-1", lock, versions.UV, python.version, python.platform)


def conformance_site_step(cache: Cache, root: Path, source: Source) -> Step:
    """Fill the folder, so that building the image needs no network."""
    site = conformance_site(cache)

    def build(log: Log) -> None:
        require(root, LOCKED)
        locked = ("--require-hashes", "--requirements", root / LOCKED)
        install(log, pinned_uv(cache, log), site, image_python(source), *locked)

    digest = conformance_site_digest(root, source)
    return file_step(
        cache, "conformance-site dependencies", "conformance-site", digest, outputs=[site / "pulsar"], build=build
    )
