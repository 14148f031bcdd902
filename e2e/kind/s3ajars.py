"""Spark's file system of S3 for tests without an image: the jars that the sizing image has beside PySpark's own."""

from __future__ import annotations

from pathlib import Path

from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.shell import Log
from e2e.kind.sizingsite import JARS
from e2e.kind.steps import Step, file_step
from requirements import fetch

ROOT = Path(__file__).parents[2]


def s3a_jars(cache: Cache) -> Path:
    """The folder of jars."""
    return cache.root / "s3a-jars"


def s3a_jars_step(cache: Cache) -> Step:
    """Fetch what the folder lacks."""
    folder, lock = s3a_jars(cache), ROOT / JARS

    def build(log: Log) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {Path(path).name for _, path in fetch.locked_jars(lock)}
        for jar in folder.glob("*.jar"):
            if jar.name not in wanted:
                jar.unlink()
        size = fetch.java_libraries(folder, lock, fetch.maven_repository())
        log.write(f"{size / 1e6:.1f} MB")

    outputs = [folder / Path(path).name for _, path in fetch.locked_jars(lock)]
    digest = digest_texts("s3a-jars-1", digest_paths(ROOT, [lock]))
    return file_step(cache, "jars of Spark's S3", "s3a-jars", digest, outputs=outputs, build=build)
