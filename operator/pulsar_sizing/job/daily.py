"""The tables by day: histograms of topics and namespaces in the cluster's busiest hours, and of topics in the others.

Which hours of the day are the busiest follows from all hours of the window. A day is made again when they change, or
when one of its hours was made again, so that late data counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job.hours import HourState
from pulsar_sizing.job.merging import COLUMNS, SCHEMA, merge
from pulsar_sizing.job.snapshot import DAILY, HOURLY, NAMESPACES, QUIET, DayState, Snapshot, Tables
from pulsar_sizing.job.totals import RANKS, by_rank, totals
from pulsar_sizing.job.weights import NAMESPACE

BATCH_ROWS: Final = 20_000_000
"""Rows of hours, about, that one batch reads."""
TASK_TOPICS: Final = 16_384
"""Topics of a task, about: it holds their histograms."""
LAYOUT: Final = "2"
"""Of the tables by day; another word makes all days again."""


@dataclass(frozen=True)
class Days:
    """The hours of one table by day."""

    table: str
    """DAILY (with NAMESPACES) or QUIET."""
    units: Mapping[int, Sequence[int]]
    """The hours (since 1970) that its rows are of, by day since 1970."""
    busy: Mapping[int, Sequence[int]]
    """The busiest hours of the day, which have rows; the topics in them are not in QUIET."""


def needed(hours: Mapping[int, HourState], busy: Sequence[int]) -> tuple[Days, Days]:
    """What DAILY and QUIET are to be made of: the hours with rows that are among the busiest of the day, and the
    others."""
    found: dict[bool, dict[int, list[int]]] = {True: {}, False: {}}
    for unit in sorted(hours):
        if hours[unit].samples:
            found[unit % 24 in busy].setdefault(unit // 24, []).append(unit)
    return Days(DAILY, found[True], found[True]), Days(QUIET, found[False], found[True])


def stale(snapshot: Snapshot, days: Days) -> dict[int, str]:
    """Digests of the days that are to be made, by day."""
    known = snapshot.quiet if days.table == QUIET else snapshot.days
    digests = {
        day: _digest(snapshot, units, days.busy.get(day, ()) if days.table == QUIET else ())
        for day, units in days.units.items()
    }
    return {day: digest for day, digest in digests.items() if known.get(day, DayState()).digest != digest}


def _digest(snapshot: Snapshot, *parts: Sequence[int]) -> str:
    named = (f"{unit} {snapshot.hours[unit].batch} {snapshot.hours[unit].digest}" for units in parts for unit in units)
    return hashlib.sha256("\n".join([LAYOUT, *named]).encode()).hexdigest()


def batches(snapshot: Snapshot, units: Mapping[int, Sequence[int]], days: Sequence[int]) -> list[list[int]]:
    """Days in lists of about BATCH_ROWS rows of their hours."""
    found: list[list[int]] = []
    rows = 0
    for day in sorted(days):
        more = sum(topics_of(snapshot.hours[unit]) for unit in units[day])
        if not found or rows + more > BATCH_ROWS:
            found.append([])
            rows = 0
        found[-1].append(day)
        rows += more
    return found


def topics_of(hour: HourState) -> int:
    """About how many topics an hour has."""
    return -(-hour.samples // max(hour.rounds, 1))


def write(
    spark: SparkSession, tables: Tables, snapshot: Snapshot, batch: str, needed: Days, digests: Mapping[int, str]
) -> Snapshot:
    """Make some days, which `digests` has, as one batch; the snapshot that names them, which is not published."""
    units = [unit for day in digests for unit in needed.units[day]]
    topics = max(topics_of(snapshot.hours[unit]) for unit in units)
    parts = max(1, len(digests) * -(-topics // TASK_TOPICS))
    rows = tables.read(spark, HOURLY, tables.hours(snapshot, HOURLY, units)).withColumn("day", F.expr("unit div 24"))
    if needed.table == QUIET:
        busy = tables.read(spark, DAILY, tables.days(snapshot, DAILY, [day for day in digests if day in needed.busy]))
        written = _write_quiet(tables, batch, rows, busy.select("day", "topic"), parts)
        found = {day: DayState(batch=batch if day in written else "", digest=digests[day]) for day in digests}
        return snapshot.model_copy(update={"quiet": dict(sorted((snapshot.quiet | found).items()))})
    tables.write(_merged(rows, parts), DAILY, batch)
    of_namespaces = (
        rows.select("unit", F.regexp_extract("topic", NAMESPACE, 1).alias("namespace"), "buckets", "counts")
        .mapInArrow(by_rank, RANKS)
        .repartition(F.expr("unit div 24"), "namespace")
        .mapInArrow(totals, COLUMNS)
        .select(F.col("topic").alias("namespace"), "samples", "buckets", "counts", "day")
    )
    tables.write(of_namespaces, NAMESPACES, batch)
    found = {day: DayState(batch=batch, digest=digest) for day, digest in digests.items()}
    return snapshot.model_copy(update={"days": dict(sorted((snapshot.days | found).items()))})


def _write_quiet(tables: Tables, batch: str, rows: DataFrame, busy: DataFrame, parts: int) -> frozenset[int]:
    """Write the topics of some hours that no busy hour of their day has; the days that have any.

    Mostly there are none: names are compared first, and histograms are read only where some are left.
    """
    names = rows.select("day", "topic").distinct().join(busy, on=["day", "topic"], how="left_anti")
    names.persist(StorageLevel.DISK_ONLY)
    try:
        if names.isEmpty():
            return frozenset()
        tables.write(_merged(rows.join(names, on=["day", "topic"], how="left_semi"), parts), QUIET, batch)
    finally:
        names.unpersist()
    return frozenset(tables.written(QUIET, batch))


def _merged(rows: DataFrame, parts: int) -> DataFrame:
    """One row of merging.SCHEMA a day and topic."""
    return rows.select(SCHEMA.names).repartition(parts, "day", "topic").mapInArrow(merge, COLUMNS)
