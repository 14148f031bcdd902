"""The daily table: of each topic and day the histogram of its costs in the cluster's busiest hours.

Which hours of the day those are follows from all hours of the window. A day is made again when they change, or when one
of those hours of that day was made again, so that late data counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job.hours import HourState
from pulsar_sizing.job.merging import COLUMNS, SCHEMA, merge
from pulsar_sizing.job.snapshot import DAILY, HOURLY, DayState, Snapshot, Tables

BATCH_ROWS: Final = 20_000_000
"""Rows of hours, about, that one batch reads."""
TASK_TOPICS: Final = 16_384
"""Topics of a task, about: it holds their histograms."""


def busy_units(hours: Mapping[int, HourState], busy: Sequence[int]) -> dict[int, list[int]]:
    """The hours (since 1970) with rows that are among the busiest hours of the day, by day since 1970."""
    found: dict[int, list[int]] = {}
    for unit in sorted(hours):
        if hours[unit].samples and unit % 24 in busy:
            found.setdefault(unit // 24, []).append(unit)
    return found


def stale(snapshot: Snapshot, wanted: Mapping[int, Sequence[int]]) -> dict[int, str]:
    """Digests of the days that are to be made, of `wanted` hours by day."""
    digests = {day: _digest(snapshot, units) for day, units in wanted.items()}
    return {day: digest for day, digest in digests.items() if snapshot.days.get(day, DayState()).digest != digest}


def _digest(snapshot: Snapshot, units: Sequence[int]) -> str:
    named = ((unit, snapshot.hours[unit].batch, snapshot.hours[unit].digest) for unit in units)
    return hashlib.sha256("\n".join(f"{unit} {batch} {digest}" for unit, batch, digest in named).encode()).hexdigest()


def batches(snapshot: Snapshot, wanted: Mapping[int, Sequence[int]], days: Sequence[int]) -> list[list[int]]:
    """Days in lists of about BATCH_ROWS rows of their hours."""
    found: list[list[int]] = []
    rows = 0
    for day in sorted(days):
        more = sum(topics_of(snapshot.hours[unit]) for unit in wanted[day])
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
    spark: SparkSession,
    tables: Tables,
    snapshot: Snapshot,
    batch: str,
    wanted: Mapping[int, Sequence[int]],
    digests: Mapping[int, str],
) -> dict[int, DayState]:
    """Make some days, which `digests` has, as one batch; what the snapshot is to say of them."""
    units = [unit for day in digests for unit in wanted[day]]
    topics = max(topics_of(snapshot.hours[unit]) for unit in units)
    parts = max(1, len(digests) * -(-topics // TASK_TOPICS))
    rows = tables.read(spark, HOURLY, tables.hours(snapshot, HOURLY, units))
    made = rows.withColumn("day", F.expr("unit div 24")).select(SCHEMA.names)
    made = made.repartition(parts, "day", "topic").mapInArrow(merge, COLUMNS)
    tables.write(made, DAILY, batch)
    return {day: DayState(batch=batch, digest=digest) for day, digest in digests.items()}
