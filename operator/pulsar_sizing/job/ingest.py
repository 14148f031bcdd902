"""From landing files to the hourly table, batch by batch: what is new is read once, and each batch counts on its own.

An hour whose landing files differ from those that the snapshot was made from (by name, size and time of change) is made
again from all its files. So each file counts once, late files need no care, and a run that only reads what is new
equals a full one to the last bit. A run that is killed repeats the batch that it was at.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job import folding, hourly, inventory
from pulsar_sizing.job.costs import LEAST
from pulsar_sizing.job.hours import BrokerHour, HourState
from pulsar_sizing.job.inventory import READERS, UNREADABLE, Hour, Markers
from pulsar_sizing.job.landing import MAXIMA, SUMS, Reading, files, named
from pulsar_sizing.job.request import Request
from pulsar_sizing.job.snapshot import CARRIED, HOURLY, PLACEMENT, Snapshot, Tables
from pulsar_sizing.job.weights import PARTITION
from pulsar_sizing.layout import partition_value
from pulsar_sizing.store import Store

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

BATCH_BYTES: Final = 1 << 30
"""Of landing files, about, that one batch reads: what a run that is killed repeats. An hour is never divided."""
TASK_ROWS: Final = 1 << 19
"""Rows that one task brings in order, about 70 MB."""
PLACEMENT_TASKS: Final = 8
"""Tasks that look for the last round in the files of an hour, of which each reads a part."""
TRIES: Final = 3
"""Of a batch, as files turn out to be damaged while they are read."""

_PLACED: Final = pa.schema(
    [
        ("unit", pa.int64()),
        *((name, pa.string()) for name in ("topic", "namespace", "bundle", "broker")),
        *((name, pa.int64()) for name in (*SUMS, *MAXIMA)),
    ]
)
_PLACED_DDL: Final = ", ".join(
    f"{field.name} {'string' if pa.types.is_string(field.type) else 'bigint'}" for field in _PLACED
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What reads and writes the tables of one cluster."""

    spark: SparkSession
    store: Store
    tables: Tables
    request: Request
    name: Callable[[], str]
    """A new name of a batch."""
    say: Say


def batches(hours: Sequence[Hour], most: int) -> Iterator[list[Hour]]:
    """Yields hours in lists of about BATCH_BYTES of landing files, in order, each with a maximum number of hours."""
    batch: list[Hour] = []
    size = 0
    for hour in hours:
        if batch and (size + hour.size > BATCH_BYTES or len(batch) == most):
            yield batch
            batch, size = [], 0
        batch.append(hour)
        size += hour.size
    if batch:
        yield batch


def ingest(job: Job, snapshot: Snapshot, changed: Sequence[Hour], newest: Hour | None) -> Snapshot:
    """Make some hours of the hourly table (again), with a snapshot after each batch; the last snapshot.

    Of the `newest` hour of the recording the placement of bundles is written too. Raises VanishedError when files went
    while they were read: list them again.
    """
    done = 0
    for batch in batches(changed, job.request.batch_hours):
        began = time.monotonic()
        made = _batch(job, batch, newest)
        hours = dict(sorted((snapshot.hours | made).items()))
        snapshot = snapshot.model_copy(update={"hours": hours})
        job.tables.publish(snapshot)
        done += len(batch)
        rows = sum(hour.samples + hour.duplicates for hour in made.values())
        rate = rows / max(time.monotonic() - began, 1e-3)
        job.say(f"{done} of {len(changed)} hours done: {rows} rows, {rate:,.0f} rows/s")
    return snapshot


def _batch(job: Job, hours: Sequence[Hour], newest: Hour | None) -> dict[int, HourState]:
    """One batch, tried again without files that turn out to be damaged."""
    damaged: dict[int, frozenset[str]] = {hour.unit: frozenset() for hour in hours}
    for attempt in range(1, TRIES + 1):
        name = job.name()
        try:
            return _write(job, name, hours, damaged, newest)
        except (PySparkException, Py4JJavaError):
            # Files with a sound footer over damaged pages are only found while they are read.
            for table in (HOURLY, CARRIED, PLACEMENT):
                job.store.delete_folder(job.tables.batch(table, name))
            found = inventory.damaged(job.store, [path for hour in hours for path in hour.traffic])
            worse = {hour.unit: damaged[hour.unit] | (found & set(hour.traffic)) for hour in hours}
            if worse == damaged or attempt == TRIES:
                raise
            damaged = worse
            job.say(f"{sum(map(len, damaged.values()))} files are damaged: reading the batch again without them")
    raise AssertionError("not reached")


def _write(
    job: Job, name: str, hours: Sequence[Hour], damaged: Mapping[int, frozenset[str]], newest: Hour | None
) -> dict[int, HourState]:
    markers = _markers(job.store, hours)
    sound: dict[int, list[str]] = {}
    rejected: dict[int, Counter[str]] = {}
    rows = 0
    for hour in hours:
        found, bad = inventory.sound(job.store, [path for path in hour.traffic if path not in damaged[hour.unit]])
        sound[hour.unit] = sorted(found)
        unreadable = Counter({UNREADABLE: len(damaged[hour.unit])})
        rejected[hour.unit] = bad + unreadable + markers[hour.unit].rejected
        rows += sum(found.values())
    facts: list[Any] = []
    if any(sound.values()):
        parts = max(1, -(-rows // TASK_ROWS))
        reading = Reading(job.store.place, job.request.model)
        with folding.aggregated(job.spark, sound, reading, rows, parts) as made:
            job.tables.write(made.withColumn("rejected", F.col("reason").isNotNull()), HOURLY, name)
        facts = _facts(job, name)
    states = {
        hour.unit: state(hour, name, facts, rejected[hour.unit], markers[hour.unit], placed=hour == newest)
        for hour in hours
    }
    carried = _write_carried(job, name, states)
    if newest is not None and sound.get(newest.unit):
        _write_placement(job, name, newest.unit, sound[newest.unit], markers[newest.unit])
    return {unit: hour.model_copy(update={"carried": unit in carried}) for unit, hour in states.items()}


def _facts(job: Job, name: str) -> list[Any]:
    """Sums of what a batch wrote, by hour, reason and broker: a few numbers each."""
    written = job.tables.read(job.spark, HOURLY, [job.tables.batch(HOURLY, name)])
    sums = (F.sum("samples").alias("samples"), F.sum("cost").alias("cost"))
    return written.groupBy("unit", "reason", "broker").agg(*sums).collect()


def _write_carried(job: Job, name: str, states: Mapping[int, HourState]) -> frozenset[int]:
    """Writes what each broker carried of the heavy topics, with all their partitions, for hours in which brokers report
    their CPU.

    Returns the hours that have any.
    """
    least = [(unit, hour.cost) for unit, hour in states.items() if any(b.told for b in hour.brokers.values())]
    folders = [f"{job.tables.batch(HOURLY, name)}/rejected=false/unit={unit}" for unit, cost in least if cost]
    if not folders:
        return frozenset()
    costs = job.spark.createDataFrame(least, "unit bigint, hour_cost bigint")
    job.tables.write(heavy(job.tables.read(job.spark, HOURLY, folders), costs).coalesce(1), CARRIED, name)
    written = job.store.folders(job.tables.batch(CARRIED, name))
    return frozenset(int(partition_value(folder)) for folder in written)


def heavy(rows: DataFrame, costs: DataFrame) -> DataFrame:
    """What each broker carried of the heavy topics, from rows of the hourly table: unit, topic, broker, cost.

    `costs` has the cost of each hour: unit, hour_cost. Partitions of a topic are one topic.
    """
    base = F.regexp_replace("topic", PARTITION.pattern, "").alias("topic")
    parts = rows.where(F.col("broker").isNotNull()).groupBy("unit", base, "broker").agg(F.sum("cost").alias("cost"))
    of_topic = Window.partitionBy("unit", "topic")
    return (
        parts.withColumn("topic_cost", F.sum("cost").over(of_topic))
        .join(F.broadcast(costs), on="unit", how="inner")
        .where(F.col("topic_cost") * LEAST >= F.col("hour_cost"))
        .select("unit", "topic", "broker", "cost")
    )


def _write_placement(job: Job, name: str, unit: int, paths: Sequence[str], markers: Markers) -> None:
    """Which broker reported which bundle in the last round of an hour, and with how many topics."""
    if markers.newest is None:
        return
    reading = Reading(job.store.place, job.request.model, time=round(markers.newest.timestamp() * 1000))

    def last_round(batches: Iterator[Any]) -> Iterator[Any]:
        for table in map(named, reading.tables(batches)):
            counted = table.filter(compute.is_null(table["reason"])).select(_PLACED.names)
            yield from counted.cast(_PLACED).to_batches()

    rows = files(job.spark, {unit: paths}, PLACEMENT_TASKS).mapInArrow(last_round, _PLACED_DDL)
    highest = Window.partitionBy("topic").orderBy(*(F.desc(column) for column in ("cost", *MAXIMA, *SUMS, "broker")))
    placed = (
        rows.withColumn("order", F.row_number().over(highest))
        .where(F.col("order") == 1)
        .groupBy("unit", "namespace", "bundle", "broker")
        .agg(F.count("*").alias("topics"))
    )
    job.tables.write(placed.coalesce(1), PLACEMENT, name)


def _markers(store: Store, hours: Sequence[Hour]) -> dict[int, Markers]:
    with ThreadPoolExecutor(READERS) as pool:
        read = pool.map(partial(inventory.markers, store), [hour.markers for hour in hours])
        return {hour.unit: markers for hour, markers in zip(hours, read, strict=True)}


def state(
    hour: Hour, name: str, facts: Sequence[Any], rejected: Counter[str], markers: Markers, *, placed: bool
) -> HourState:
    """Returns the facts of an hour that batch `name` wrote, from its sums (see `_facts`) and its markers."""
    rows = [row for row in facts if row["unit"] == hour.unit]
    counted = [row for row in rows if row["reason"] is None]
    left_out = Counter({row["reason"]: row["samples"] for row in rows if row["reason"] is not None})
    duplicates = left_out.pop(hourly.DUPLICATE, 0)
    brokers = {name: BrokerHour(expected=n, answered=k) for name, (n, k) in sorted(markers.by_broker.items())}
    costs = sorted((row["broker"], row["cost"]) for row in counted if row["broker"] is not None)
    for broker, cost in costs:
        brokers[broker] = (brokers.get(broker) or BrokerHour()).model_copy(update={"cost": cost})
    for broker, (samples, cpu) in markers.cpu.items():
        brokers[broker] = brokers[broker].model_copy(update={"told": samples, "cpu": cpu})
    samples = sum(row["samples"] for row in counted)
    return HourState(
        digest=hour.digest,
        batch=name if samples else "",
        samples=samples,
        duplicates=duplicates,
        cost=sum(cost for _, cost in costs),
        rejected={reason: n for reason, n in sorted((rejected + left_out).items()) if n},
        expected=markers.expected,
        answered=markers.answered,
        announced=markers.announced,
        due=markers.due,
        rounds=markers.rounds,
        brokers=brokers,
        placed=placed,
    )
