"""What a test runs in a process of its own, whose Java has S3's credentials from the start: the job on a bucket.

``python -m tests.support.sizing_on_s3 FACTS FOLDER ENDPOINT ROOT``: FOLDER has a recording in ``recorded``, ROOT is
a URL of a bucket that has the same one. What it found is written to FACTS as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from e2e.kind.paths import paths
from pulsar_sizing import layout
from pulsar_sizing.files import spark_path
from pulsar_sizing.job import cli, session
from pulsar_sizing.place import S3
from pulsar_sizing.store import Store

CLUSTER = "east=1"
"""Percent-encoded in the names of folders."""
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraClassPath": f"{paths().s3a_jars}/*",
}
ROWS = 1_000


def options(command: str, root: str, folder: Path, *more: str) -> list[str]:
    """Of the job."""
    where = [command, "--root", root, "--instance", "demo", "--cluster", CLUSTER, "--master", "local[2]"]
    conf = [word for key, value in QUICK.items() for word in ("--conf", f"{key}={value}")]
    return [*where, "--scratch", str(folder / "scratch"), "--driver-memory", "1g", *conf, *more]


def table(store: Store, folder: Path) -> dict[str, Any]:
    """A table that Spark writes through s3a: as Spark and as pyarrow read it, and over what was there."""
    spark = session.create("local[2]", folder / "scratch", QUICK, memory="1g", place=store.place)
    try:
        where = f"tables/{layout.partition('cluster', CLUSTER)}"
        address = spark_path(store.address(where))
        for count in (ROWS * 2, ROWS):
            rows = spark.range(count).selectExpr("id", "id % 3 AS unit", "id < 10 AS rejected")
            rows.write.mode("overwrite").option("compression", "zstd").partitionBy("rejected", "unit").parquet(address)
        read = spark.read.parquet(address).groupBy("rejected").count().collect()
        folders = store.folders(f"{where}/rejected=false")
        files = [info for info in store.listing(where, recursive=True) if info.is_file and info.size]
        store.delete_folder(f"{where}/rejected=true")
        left = spark.read.parquet(address).count()
        return {
            "address": address,
            "read": {str(row["rejected"]): row["count"] for row in read},
            "folders": folders,
            "visible": sorted({store.relative(info).rpartition("/")[2][:5] for info in files}),
            "left": left,
            "second_writer": second_writer(spark, f"{address}/claimed"),
        }
    finally:
        spark.stop()


def second_writer(spark: Any, address: str) -> str:
    """Two writers that both saw no file: what the server says to the one that comes second."""
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(address)
    system = path.getFileSystem(spark._jsc.hadoopConfiguration())

    def writer() -> Any:
        builder = system.createFile(path)
        builder.overwrite(False)
        builder.opt("fs.option.create.conditional.overwrite", "true")
        return builder.build()

    first, second = writer(), writer()
    for stream, byte in ((first, 1), (second, 2)):
        stream.write(byte)
    first.close()
    return refusal(second.close)


def refusal(act: Callable[[], Any]) -> str:
    """The message of Java's error; "" without one."""
    try:
        act()
    except Py4JJavaError as error:
        return str(error.java_exception)
    return ""


def main(argv: Sequence[str]) -> int:
    """0 when every command of the job ended well."""
    facts, folder, endpoint, root = Path(argv[0]), Path(argv[1]), argv[2], argv[3]
    there = ["--s3-endpoint", endpoint]
    store = Store(root, s3=S3(endpoint))
    events = f"{root.rpartition('/')[0]}/events"
    codes = [
        cli.main(options("size", root, folder, *there, "--event-log", events)),
        cli.main(options("report", root, folder, *there, "--out", str(folder / "of-bucket"))),
        cli.main(options("report", str(folder / "recorded"), folder, "--out", str(folder / "of-folder"))),
    ]
    found = {"codes": codes, "events": len(Store(events, s3=S3(endpoint)).listing("", recursive=True))}
    facts.write_text(json.dumps(found | table(store, folder)))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
