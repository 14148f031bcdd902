"""Spark's settings for tables on S3: Hadoop's file system s3a, reached as pyarrow reaches the same bucket.

The names of the settings are those of Hadoop 3.5 ("Hadoop-AWS module", core-default.xml). Credentials come from where
pyarrow's SDK looks too: the default chain of AWS's SDK for Java (variables, web identity, files, the container's or the
machine's own service), in the driver and in each executor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pulsar_sizing.place import Place

CREDENTIALS: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


def settings(place: Place, scratch: Path | None = None, *, event_log: str = "") -> dict[str, str]:
    """By name; none if neither the root nor the event log is on S3. `scratch` is where a machine keeps what it sends.

    A task's files are renamed when the task commits, and not again when the job does: on S3 a rename is a copy, and
    the tables' readers go by the snapshot, which is written after all of it.
    """
    if not place.on_s3 and not Place(event_log).on_s3:
        return {}
    found = {
        "fs.s3a.aws.credentials.provider": CREDENTIALS,
        "fs.s3a.path.style.access": str(place.s3.by_path).lower(),
        # The streams that come with Hadoop; others need libraries of their own.
        "fs.s3a.input.stream.type": "classic",
        "mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    if place.s3.endpoint is not None:
        found["fs.s3a.endpoint"] = place.s3.endpoint.rstrip("/")
        found["fs.s3a.connection.ssl.enabled"] = str(place.s3.endpoint.startswith("https://")).lower()
    region = place.s3.signed_for()
    if region is not None:
        found["fs.s3a.endpoint.region"] = region
    if scratch is not None:
        found["fs.s3a.buffer.dir"] = str(scratch / "s3a")
    return {f"spark.hadoop.{name}": value for name, value in found.items()}
