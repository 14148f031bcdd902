"""The Spark session of the job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pulsar_sizing.job.cores import usable

LOCAL = "local"


def create(master: str, scratch: Path, conf: Mapping[str, str], *, memory: str = "") -> SparkSession:
    """A session: in this process's machine for ``local[*]``, or on the cluster that the master names.

    All that Spark writes on the driver goes below `scratch`. In local mode nothing listens beyond 127.0.0.1; the user
    interface is off. `conf` has the last word. The driver's `memory` counts only before its Java starts.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    folder = scratch.absolute()
    settings = {
        "spark.app.name": "pulsar-sizing",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
        "spark.sql.session.timeZone": "UTC",
        **({"spark.driver.memory": memory} if memory else {}),
        **(_local(master) if master.startswith(LOCAL) else {}),
        **conf,
    }
    if master.startswith(LOCAL):
        # Tasks run in Python processes of their own: by default those of the first python3 of the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


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
