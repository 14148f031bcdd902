"""The two commands, with Spark."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pulsar_sizing.job import report, session
from pulsar_sizing.job.ingest import Say
from pulsar_sizing.job.inventory import VanishedError
from pulsar_sizing.job.overload import minutes_above
from pulsar_sizing.job.pipeline import heat, run
from pulsar_sizing.job.request import Request, RequestError
from pulsar_sizing.store import S3, Store, StoreError

FAILURES: Final = (RequestError, StoreError, OSError, VanishedError, PySparkException, Py4JJavaError, pa.ArrowException)


def work(
    options: argparse.Namespace,
    request: Request,
    conf: Mapping[str, str],
    scratch: Path,
    now: datetime,
    unique: str,
    say: Say,
) -> int:
    """Size the cluster, then store the result or write the report; returns the exit code. Raises one of FAILURES.

    A Spark session that runs in this process is used as it is, and left running.
    """
    store = Store(options.root, s3=S3(options.s3_endpoint, options.s3_region, options.s3_addressing))
    say(f"starting Spark on {options.master}")
    running = SparkSession.getActiveSession()
    spark = running or session.create(
        options.master,
        scratch,
        conf,
        memory=options.driver_memory,
        place=store.place,
        event_log=options.event_log,
    )
    try:
        outcome = run(spark, store, request, now=now, unique=unique, say=say)
        if options.command == "size":
            say(f"result: {store.write_result(outcome.result)}")
            print(report.summary(outcome.result, outcome.coverage), end="")
            return 0
        found = report.Details(
            outcome.today,
            heat(outcome, report.HOTTEST),
            minutes_above(outcome.job, outcome.result),
            outcome.coverage,
        )
        print(report.text(outcome.result, found), end="")
        say(f"report: {report.write(Path(options.out), outcome.result, found)}")
        return 0
    finally:
        if running is None:
            spark.stop()
