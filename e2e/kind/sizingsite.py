"""The packages of the sizing image: made outside it, for the Python of its base, without what is unused and with what
Spark needs for S3."""

from __future__ import annotations

from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.conformancesite import image_python
from e2e.kind.operatorsite import install, pinned_uv, require
from e2e.kind.shell import Log
from e2e.kind.source import Source
from e2e.kind.steps import Step, file_step
from requirements import fetch

#: The dependencies of the collector and the Spark job with their hashes.
LOCKED = "requirements/sizing.txt"
#: PySpark is published as source only; its build compiles nothing and fits every Python.
FROM_SOURCE = "pyspark"
#: Spark's file system of S3, jars with their hashes.
JARS = "requirements/s3a.txt"
#: What of the packages the image does not get.
LEFT_OUT = "sizing_image/left_out.txt"


def sizing_site(cache: Cache) -> Path:
    """The folder of the unpacked packages."""
    return cache.root / "sizing-site"


def sizing_site_digest(root: Path, source: Source) -> str:
    """Inputs hash of the packages."""
    python = image_python(source)
    lock = digest_paths(root, [root / LOCKED, root / JARS])
    left_out = fetch.patterns(root / LEFT_OUT)
    return digest_texts("sizing-site-2", lock, versions.UV, python.version, python.platform, *left_out)


def sizing_site_step(cache: Cache, root: Path, source: Source) -> Step:
    """Fill the folder, so that building the image needs no network."""
    site = sizing_site(cache)

    def build(log: Log) -> None:
        require(root, LOCKED, JARS, LEFT_OUT)
        locked = ("--require-hashes", "--requirements", root / LOCKED)
        install(log, pinned_uv(cache, log), site, image_python(source), "--no-binary", FROM_SOURCE, *locked)
        fetch.leave_out(site, root / LEFT_OUT)
        size = fetch.java_libraries(site / "pyspark" / "jars", root / JARS, fetch.maven_repository())
        log.write(f"{size / 1e6:.1f} MB of jars for S3")

    digest = sizing_site_digest(root, source)
    return file_step(cache, "sizing-site dependencies", "sizing-site", digest, outputs=[site / "pyspark"], build=build)
