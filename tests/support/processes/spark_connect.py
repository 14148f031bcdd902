"""A real Spark Connect server on loopback, from the package of PySpark; clients of it need no Java."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.launching import assert_runs, free_ports, launch, stop

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS = 300.0


@contextmanager
def running_connect(folder: Path, settings: dict[str, str]) -> Iterator[str]:
    """A server with these settings and its files in a folder; sc://host:port. Ended by its own process id."""
    (port,) = free_ports(1)
    home = Path(pyspark.__file__).parent
    conf = settings | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    command = [str(home / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[2]"]
    command += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    environment = {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "connect.log"
    process = launch(log, [*command, "spark-internal"], environment, folder=folder)
    try:
        eventually(
            lambda: _listens(process, log, port), within=START_SECONDS, what="Spark Connect answers", every=LOCAL
        )
        yield f"sc://127.0.0.1:{port}"
    finally:
        stop(process)


def _listens(process: subprocess.Popen[bytes], log: Path, port: int) -> bool:
    assert_runs(process, log)
    with socket.create_connection(("127.0.0.1", port), 2):
        return True
