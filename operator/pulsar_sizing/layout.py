"""Names of the files below the root: where a sample and a result lie. Pure; see schema.py.

Names keep to letters, digits, "-", "." and "_" and never begin with "_" or ".": Spark and Hadoop skip such files (which
hides ``_tmp``), and Hadoop's Path refuses a colon in a relative name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from urllib.parse import quote, unquote

from pulsar_sizing.schema import SCHEMA_VERSION

TEMPORARY = "_tmp"
RESULTS = "results"
RESULTS_VERSION = 1
LATEST = "latest.json"
PARQUET_SUFFIX = ".parquet"
MAX_BROKER_CHARACTERS = 100
"""Of a broker's id in a file name: names may have 255 bytes, host names 253. The id behind it keeps them apart."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_DAY = re.compile(r"day=(\d{4}-\d{2}-\d{2})")


def partition(key: str, value: str) -> str:
    """One folder of a Hive-style path; the value percent-encoded as Spark and Arrow decode it.

    Raises ValueError for an empty value: Hive has a special name for that, and nothing here needs it.
    """
    if not value:
        raise ValueError(f"{key} is empty: a name is needed to file the traffic under")
    return f"{key}={quote(value, safe='')}"


def partition_value(folder: str) -> str:
    """Value of a folder that :func:`partition` named."""
    return unquote(folder.partition("=")[2])


def cluster_folder(table: str, instance: str, cluster: str) -> str:
    """Folder of a table's files of one cluster, relative to the root."""
    return f"{table}/v{SCHEMA_VERSION}/{partition('instance', instance)}/{partition('cluster', cluster)}"


def hour_folder(table: str, instance: str, cluster: str, moment: datetime) -> str:
    """Folder of the hour (UTC) that a moment falls into."""
    utc = moment.astimezone(UTC)
    return f"{cluster_folder(table, instance, cluster)}/day={utc:%Y-%m-%d}/hour={utc:%H}"


def result_folder(instance: str, cluster: str) -> str:
    """Folder of a cluster's sizing results, relative to the root."""
    return f"{RESULTS}/v{RESULTS_VERSION}/{partition('instance', instance)}/{partition('cluster', cluster)}"


def stamp(moment: datetime) -> str:
    """A moment as part of a file name, to the millisecond; sorts by time."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y%m%dT%H%M%S}.{utc.microsecond // 1000:03d}Z"


def sample_file(who: str, sample_time: datetime) -> str:
    """Name of the file of one sample. The same sample has the same name, so writing it twice leaves one file."""
    identity = hashlib.sha256(f"{who}\n{stamp(sample_time)}".encode()).hexdigest()[:8]
    safe = _UNSAFE.sub("-", who).lstrip("._-")[:MAX_BROKER_CHARACTERS] or "broker"
    return f"{safe}-{stamp(sample_time)}-{identity}{PARQUET_SUFFIX}"


def is_visible(name: str) -> bool:
    """Whether a reader checks a file."""
    return name.endswith(PARQUET_SUFFIX) and not name.startswith(("_", "."))


def days(start: datetime, end: datetime) -> Iterator[date]:
    """Days (UTC) that have a moment in [start, end)."""
    day = start.astimezone(UTC).date()
    while datetime(day.year, day.month, day.day, tzinfo=UTC) < end:
        yield day
        day += timedelta(days=1)


def day_of(folder: str) -> date | None:
    """Day of a folder ``day=YYYY-MM-DD``; None for any other."""
    found = _DAY.fullmatch(folder)
    try:
        return date.fromisoformat(found.group(1)) if found else None
    except ValueError:
        return None


def hour_of(folder: str) -> datetime | None:
    """Begin of the hour of a path that ends in ``day=.../hour=HH``; None for any other."""
    head, _, last = folder.rpartition("/")
    day, (key, _, hour) = day_of(head.rpartition("/")[2]), last.partition("=")
    if day is None or key != "hour" or not (hour.isascii() and hour.isdigit()) or not 0 <= int(hour) <= 23:
        return None
    return datetime(day.year, day.month, day.day, int(hour), tzinfo=UTC)
