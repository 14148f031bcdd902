"""The Spark session of the job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from pulsar_sizing.files import Files
from pulsar_sizing.job import object_storage
from pulsar_sizing.job.cores import usable
from pulsar_sizing.place import Place
from pulsar_sizing.store import spark_path

LOCAL = "local"
CONNECT: Final = "sc://"
"""Master that is a Spark Connect server: https://spark.apache.org/docs/latest/spark-connect-overview.html."""
SESSION: Final = {"spark.sql.session.timeZone": "UTC"}
PLANS: Final = {
    # Partitions by how much data there is, and those of a busy tenant or topic in several tasks.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.skewJoin.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A task writes the folders of some hours at the same time, so that it need not sort its rows by hour before.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    # What is kept for a second use hardly repeats: a dictionary of it costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""Plans that follow what a stage found; Spark's own defaults today, and said here since the tables count on them."""


EXECUTOR_SCRATCH: Final = Path("/tmp")
"""What an executor of the image may write to."""


def create(
    master: str,
    scratch: Path,
    conf: Mapping[str, str],
    *,
    memory: str = "",
    place: Place | None = None,
    event_log: str = "",
) -> SparkSession:
    """A session: in this process's machine for ``local[*]``, or on the cluster or server that the master names.

    All that Spark writes on the driver goes below `scratch`. In local mode nothing listens beyond 127.0.0.1; the user
    interface is off. `place` says how Spark reaches the tables where they are on an object store. `event_log` is a
    folder or URL of that store, made where it is missing (Spark refuses one that is), for what Spark's history server
    shows; without one there is no log. `conf` has the last word. The driver's `memory` counts only before its Java
    starts. Raises StoreError and OSError for an event log that cannot be made.

    A Spark Connect server (``sc://HOST:PORT``) has its own memory, folders, log and way to the object store: it
    receives the time zone, the plans and `conf`, and nothing else.
    """
    if master.startswith(CONNECT):
        return _built(SparkSession.builder.remote(master), {**SESSION, **PLANS, **conf})
    scratch.mkdir(parents=True, exist_ok=True)
    folder = scratch.absolute()
    kept = folder if master.startswith(LOCAL) else EXECUTOR_SCRATCH
    settings = {
        "spark.app.name": "pulsar-sizing",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
        **SESSION,
        **PLANS,
        **({"spark.driver.memory": memory} if memory else {}),
        **(object_storage.settings(place, kept, event_log=event_log) if place else {}),
        **(_event_log(event_log, place) if event_log else {}),
        **(_local(master) if master.startswith(LOCAL) else {}),
        **conf,
    }
    if master.startswith(LOCAL):
        # Tasks run in Python processes of their own: by default those of the first python3 of the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = _built(SparkSession.builder.master(master), settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _built(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _event_log(folder: str, place: Place | None) -> dict[str, str]:
    files = Files(folder, s3=place.s3 if place is not None and Place(folder).on_s3 else None)
    files.make_root()
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": spark_path(files.address("").rstrip("/"))}


def _local(master: str) -> dict[str, str]:
    cores = master.partition("[")[2].rstrip("]").partition(",")[0]
    count = int(cores) if cores.isdigit() else usable() if cores == "*" else 1
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "spark.sql.shuffle.partitions": str(4 * count),
        # Otherwise a task for each file, only to look whether it is there.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(4 * count),
    }
