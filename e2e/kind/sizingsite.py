"""The Python packages of the sizing image: made outside it, for the Python of its base, without what is unused."""

from __future__ import annotations

import shutil
from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.conformancesite import image_python
from e2e.kind.operatorsite import install, pinned_uv, require
from e2e.kind.shell import CommandError, Log
from e2e.kind.source import Source
from e2e.kind.steps import Step, file_step

#: The dependencies of the collector and the Spark job with their hashes.
LOCKED = "requirements/sizing.txt"
#: PySpark is published as source only; its build compiles nothing and fits every Python.
FROM_SOURCE = "pyspark"
#: A quarter of the packages, which a job that reads and groups files never loads. Spark finds out about Hive and the
#: others by looking for their classes. Left in on purpose: Spark's Kubernetes client, and every licence.
LEFT_OUT = (
    "pyspark/examples",
    "pyspark/data",
    # The state of structured streaming.
    "pyspark/jars/rocksdbjni-*.jar",
    # Machine learning and graphs.
    *(
        f"pyspark/jars/{name}*.jar"
        for name in ("spark-mllib_", "spark-graphx_", "breeze_", "spire_", "cats-kernel_", "algebra_", "lapack-")
    ),
    # Servers and shells.
    *(f"pyspark/jars/{name}*.jar" for name in ("spark-connect_", "spark-repl_", "scala-compiler-", "jline-")),
    # Hive's catalogue and its database; hive-storage-api stays, ORC is made with it.
    *(
        f"pyspark/jars/{name}*.jar"
        for name in ("spark-hive", "hive-exec-", "hive-metastore-", "hive-service-rpc-", "datanucleus-", "derby-")
    ),
    "pyarrow/include",
    "pyarrow/tests",
    "pyarrow/*flight*",
    "matplotlib/tests",
)


def sizing_site(cache: Cache) -> Path:
    """The folder of the unpacked packages."""
    return cache.root / "sizing-site"


def sizing_site_digest(root: Path, source: Source) -> str:
    """Inputs hash of the packages."""
    python = image_python(source)
    lock = digest_paths(root, [root / LOCKED])
    return digest_texts("sizing-site-1", lock, versions.UV, python.version, python.platform, *LEFT_OUT)


def sizing_site_step(cache: Cache, root: Path, source: Source) -> Step:
    """Fill the folder, so that building the image needs no network."""
    site = sizing_site(cache)

    def build(log: Log) -> None:
        require(root, LOCKED)
        locked = ("--require-hashes", "--requirements", root / LOCKED)
        install(log, pinned_uv(cache, log), site, image_python(source), "--no-binary", FROM_SOURCE, *locked)
        leave_out(site)

    digest = sizing_site_digest(root, source)
    return file_step(cache, "sizing-site dependencies", "sizing-site", digest, outputs=[site / "pyspark"], build=build)


def leave_out(site: Path) -> None:
    """Remove what is not needed. Raises CommandError when a pattern fits nothing: then the packages are other ones."""
    for pattern in LEFT_OUT:
        found = sorted(site.glob(pattern))
        if not found:
            raise CommandError(f"{pattern} fits nothing in {site}: look what replaced it, and change LEFT_OUT")
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
