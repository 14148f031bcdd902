"""The tables that Spark writes, and the snapshot that says which of their folders count.

Below ``tables/v1/instance=<i>/cluster=<c>``:

    snapshot-<number>.json             the pointer: of every hour and day its folder, and the facts of hours
    hourly/batch=<b>/rejected=false/unit=<hour>/...
                                       one row a topic, broker and hour: sums, maxima, histogram of its costs
    hourly/batch=<b>/rejected=true/unit=<hour>/...
                                       one row a reason: how many rows do not count
    carried/batch=<b>/unit=<hour>/...  one row a heavy topic, broker and hour: cost (topics with all their partitions)
    placement/batch=<b>/unit=<hour>/...
                                       of the newest hour: bundles and brokers of its last round
    daily/batch=<b>/day=<day>/...      one row a topic and day: histogram of its costs in the cluster's busiest hours
    namespaces/batch=<b>/day=<day>/... one row a namespace and day: histogram of its costs in the same hours
    quiet/batch=<b>/day=<day>/...      one row a topic and day of those that none of these hours has: of its costs in
                                       the other hours
    weights/batch=<b>/...              one row a topic: what the latest run weighed it

``unit`` is the hour since 1970, ``day`` the day since 1970. A batch is written first and then one snapshot, which
appears whole: a run that is killed repeats one batch, and a reader sees each hour and day before or after a batch. Only
Spark writes tables, one run at a time. Folders that no snapshot names are deleted by a later run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession

from pulsar_sizing import layout
from pulsar_sizing.job.hours import HourState
from pulsar_sizing.job.landing import MAXIMA, SUMS
from pulsar_sizing.store import Store, StoreError, spark_path

VERSION: Final = 1
HOURLY: Final = "hourly"
CARRIED: Final = "carried"
PLACEMENT: Final = "placement"
DAILY: Final = "daily"
NAMESPACES: Final = "namespaces"
QUIET: Final = "quiet"
WEIGHTS: Final = "weights"
LOADS: Final = "loads"
"""Load of brokers by round: a report writes and reads it, and no snapshot names it."""
COLUMNS: Final = {
    HOURLY: "reason string, topic string, broker string, position bigint, samples bigint, messages_in bigint, "
    "messages_out bigint, bytes_in bigint, bytes_out bigint, sessions bigint, cost bigint, backlog bigint, "
    "storage_bytes bigint, buckets array<smallint>, counts array<int>",
    CARRIED: "topic string, broker string, cost bigint",
    PLACEMENT: "namespace string, bundle string, broker string, topics bigint",
    DAILY: "topic string, position bigint, samples bigint, buckets array<smallint>, counts array<int>",
    NAMESPACES: "namespace string, samples bigint, buckets array<smallint>, counts array<int>",
    QUIET: "topic string, position bigint, samples bigint, buckets array<smallint>, counts array<int>",
    WEIGHTS: "topic string, base string, namespace string, position bigint, weight bigint, uncapped bigint",
    LOADS: "time bigint, broker string, recommended string, cost bigint",
}
"""Columns of the files of each table, for Spark."""
PARTITIONS: Final = {
    HOURLY: {"rejected": "boolean", "unit": "bigint"},
    CARRIED: {"unit": "bigint"},
    PLACEMENT: {"unit": "bigint"},
    DAILY: {"day": "bigint"},
    NAMESPACES: {"day": "bigint"},
    QUIET: {"day": "bigint"},
    WEIGHTS: {},
    LOADS: {},
}
"""Columns in the names of the folders inside a batch, and their types."""
DISTINCT: Final = ("topic", "base", "position", "weight", "uncapped", *SUMS, *MAXIMA)
"""Columns whose values hardly repeat, of which the writer makes no dictionary."""
KEEP_SNAPSHOTS: Final = 2
"""A reader that took the one before the last still finds its files."""
ABANDONED: Final = timedelta(hours=6)
"""Age of a folder that no snapshot names, after which the run that wrote it is dead."""

_SNAPSHOT = re.compile(r"snapshot-(\d{12})\.json")
_TIME: Final = "%Y%m%dT%H%M%SZ"


class DayState(BaseModel):
    """One day of a table by day."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    batch: str = ""
    """Folder of its rows; empty when there are none."""
    digest: str = ""
    """Of the hours and their batches that its rows were made from."""


class Snapshot(BaseModel):
    """Which folders count."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal[1] = 1
    parameters: str = ""
    """Of what the tables were made with; another value makes them useless."""
    hours: dict[int, HourState] = Field(default_factory=dict)
    """By hour since 1970; `batch` is the batch that wrote the hour."""
    days: dict[int, DayState] = Field(default_factory=dict)
    """Of the tables daily and namespaces, by day since 1970."""
    quiet: dict[int, DayState] = Field(default_factory=dict)
    """Of the table quiet."""
    weights: str = ""
    """Batch of the latest weights."""

    def batches(self) -> set[str]:
        """Every batch that is named."""
        named = {each.batch for states in (self.hours, self.days, self.quiet) for each in states.values()}
        return (named | {self.weights}) - {""}


class Tables:
    """The tables of one cluster in a store."""

    def __init__(self, store: Store, instance: str, cluster: str) -> None:
        self._store = store
        self._names = f"{layout.partition('instance', instance)}/{layout.partition('cluster', cluster)}"
        self.folder = f"tables/v{VERSION}/{self._names}"

    def load(self, parameters: str) -> Snapshot:
        """The snapshot that counts; an empty one when there is none or it was made with other parameters.

        Raises StoreError when what is there cannot be read.
        """
        found = next(iter(self._snapshots(self._numbers()[-1:])), None)
        return found if found is not None and found.parameters == parameters else Snapshot(parameters=parameters)

    def publish(self, snapshot: Snapshot) -> None:
        """Make a snapshot the one that counts, in one step."""
        number = max(self._numbers(), default=0) + 1
        self._store.put(self._path(number), snapshot.model_dump_json().encode())

    def batch(self, table: str, batch: str) -> str:
        """Folder of what a batch writes into a table, relative to the store's root."""
        return f"{self.folder}/{table}/{layout.partition('batch', batch)}"

    def address(self, path: str) -> str:
        """What Spark opens a path of the store as."""
        return spark_path(self._store.address(path))

    def read(self, spark: SparkSession, table: str, folders: Sequence[str]) -> DataFrame:
        """Rows of some folders of a table, relative to the store's root; none without folders."""
        schema = ", ".join([COLUMNS[table], *(f"{name} {kind}" for name, kind in PARTITIONS[table].items())])
        if not folders:
            return spark.createDataFrame([], schema)
        base = self.address(f"{self.folder}/{table}")
        reader = spark.read.schema(f"{schema}, batch string").option("basePath", base)
        return reader.parquet(*map(self.address, folders)).drop("batch")

    def write(self, rows: DataFrame, table: str, batch: str) -> None:
        """Write rows as what a batch has of a table. They count when a snapshot names the batch."""
        options = {f"parquet.enable.dictionary#{name}": "false" for name in DISTINCT}
        rows.write.options(compression="zstd", **options).partitionBy(*PARTITIONS[table]).parquet(
            self.address(self.batch(table, batch))
        )

    def written(self, table: str, batch: str) -> frozenset[int]:
        """Hours or days that a batch has rows of, of a table with one folder each."""
        folders = self._store.folders(self.batch(table, batch))
        return frozenset(int(layout.partition_value(folder)) for folder in folders)

    def hours(self, snapshot: Snapshot, table: str, units: Iterable[int]) -> list[str]:
        """Folders with a table's rows of some hours, relative to the store's root."""
        found = ((unit, snapshot.hours.get(unit)) for unit in sorted(set(units)))
        inside = "/rejected=false" if table == HOURLY else ""
        return [f"{self.batch(table, h.batch)}{inside}/unit={u}" for u, h in found if h is not None and h.batch]

    def days(self, snapshot: Snapshot, table: str, days: Iterable[int]) -> list[str]:
        """Folders with a table's rows of some days, relative to the store's root."""
        states = snapshot.quiet if table == QUIET else snapshot.days
        found = ((day, states.get(day)) for day in sorted(set(days)))
        return [f"{self.batch(table, d.batch)}/day={day}" for day, d in found if d is not None and d.batch]

    def clean(self, now: datetime) -> int:
        """Delete old snapshots, and folders of dead runs that no snapshot names; how many folders went.

        What a job without tables remembered is deleted too.
        """
        for version in ("v1", "v2"):
            self._store.delete_folder(f"state/{version}/{self._names}")
        numbers = self._numbers()
        for number in numbers[:-KEEP_SNAPSHOTS]:
            self._store.delete(self._path(number))
        used = {batch for each in self._snapshots(numbers[-KEEP_SNAPSHOTS:]) for batch in each.batches()}
        dead = [
            self.batch(table, batch)
            for table in COLUMNS
            for batch in map(layout.partition_value, self._store.folders(f"{self.folder}/{table}"))
            if batch not in used and _old(batch, now)
        ]
        for folder in dead:
            self._store.delete_folder(folder)
        return len(dead)

    def _snapshots(self, numbers: Sequence[int]) -> list[Snapshot]:
        found: list[Snapshot] = []
        for path in map(self._path, numbers):
            text = self._store.get(path)
            try:
                found += [] if text is None else [Snapshot.model_validate_json(text)]
            except ValueError as error:
                raise StoreError(
                    f"{self._store.address(path)} cannot be read: {error}. Delete it: the job then makes the hours "
                    "that the snapshot before it does not name again from the recorded files"
                ) from None
        return found

    def _numbers(self) -> list[int]:
        found = (_SNAPSHOT.fullmatch(name) for name in self._store.names(self.folder))
        return sorted(int(match[1]) for match in found if match)

    def _path(self, number: int) -> str:
        return f"{self.folder}/snapshot-{number:012d}.json"


def batch_name(now: datetime, unique: str, number: int) -> str:
    """Name of a batch: the time of its run, something unique, and its number in the run."""
    return f"{now:{_TIME}}-{unique}-{number:05d}"


def _old(batch: str, now: datetime) -> bool:
    try:
        began = datetime.strptime(batch.partition("-")[0], _TIME).replace(tzinfo=now.tzinfo)
    except ValueError:
        return False
    return now - began > ABANDONED
