"""One run of the job on tables: bring them up to date, then answer from them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_operator.balance.model.capacity import capacities_of
from pulsar_operator.balance.sizing.result import SizingResult, TrafficProfile
from pulsar_sizing.job import costs, daily, inventory, profile, weights
from pulsar_sizing.job.conclude import Observed, Recorded, Today, conclude, today
from pulsar_sizing.job.hours import Coverage, HourState, completeness, coverage
from pulsar_sizing.job.ingest import Job, Say, ingest
from pulsar_sizing.job.request import Request, RequestError
from pulsar_sizing.job.snapshot import HOURLY, PLACEMENT, WEIGHTS, Snapshot, Tables, batch_name
from pulsar_sizing.job.topics import Heaviest, Question, capped, caps, heaviest, weigh
from pulsar_sizing.store import Store

LISTINGS = 3
"""Times the files are listed again when some went while they were read."""


@dataclass(frozen=True)
class Outcome:
    """What a run did and found."""

    result: SizingResult
    hours_made: int
    hours_kept: int
    busy_hours: tuple[int, ...]
    snapshot: Snapshot
    job: Job
    today: Mapping[str, Today]
    """Bundles as they are, by namespace."""
    coverage: Coverage


def run(spark: SparkSession, store: Store, request: Request, *, now: datetime, unique: str, say: Say) -> Outcome:
    """Size one cluster. `unique` is unlike any other run's; `say` takes progress lines.

    Raises RequestError when nothing was recorded. What is damaged in the recording is counted in the result.
    """
    numbers = itertools.count()
    tables = Tables(store, request.instance, request.cluster)
    job = Job(spark, store, tables, request, lambda: batch_name(now, unique, next(numbers)), say)
    start, end = window(store, request, now)
    # Today is not whole: the same hours of a week ago are on the day before the window.
    first = start if request.start is not None else start - timedelta(days=1)
    snapshot, made, newest = update(job, first, end)
    reached = {u: h for u, h in snapshot.hours.items() if inventory.unit_of(first) <= u < inventory.unit_of(end)}
    inside = {unit: hour for unit, hour in reached.items() if unit >= inventory.unit_of(start)}
    busy = weights.busiest_hours(inside)
    say(f"busiest hours of the day (UTC): {', '.join(f'{hour:02d}' for hour in busy) or 'none'}")
    snapshot, observed = _observe(job, snapshot, inside, busy, newest)
    repeated = profile.profile(reached, inventory.unit_of(now), request.min_completeness)
    say(f"traffic by the hour: {describe_profile(repeated)}")
    say("choosing boundaries")
    if request.start is None and request.end is None:
        tables.clean(now)
    there = coverage(inside, request.min_completeness, request.min_coverage_hours)
    say(f"{there.covered} hours are covered, {there.required} are required")
    result = conclude(request, replace(observed, profile=repeated), recorded(inside, there.covered), now)
    return Outcome(result, made, len(reached) - made, busy, snapshot, job, observed.today, there)


def update(job: Job, start: datetime, end: datetime) -> tuple[Snapshot, int, inventory.Hour | None]:
    """Bring the hourly table up to date for [start, end): the snapshot, the hours that were made, the newest hour."""
    request, made = job.request, 0
    for attempt in range(LISTINGS):
        found = inventory.hours(job.store, request.instance, request.cluster, start, end)
        snapshot = job.tables.load(request.parameters)
        known = {} if request.full and not attempt else snapshot.hours
        newest = next((hour for hour in reversed(found) if hour.traffic), None)
        changed = [hour for hour in found if _is_new(hour, known.get(hour.unit), newest)]
        job.say(f"{len(found)} hours recorded, {len(changed)} of them new or changed")
        made += len(changed)
        try:
            snapshot = ingest(job, snapshot, changed, newest)
            break
        except inventory.VanishedError:
            if attempt == LISTINGS - 1:
                raise
            job.say("files went while they were read: listing again")
    if request.start is None and request.end is None:
        first = inventory.unit_of(start)
        hours = {unit: hour for unit, hour in snapshot.hours.items() if unit >= first}
        days, quiet = (
            {day: state for day, state in states.items() if day >= first // 24}
            for states in (snapshot.days, snapshot.quiet)
        )
        kept = snapshot.model_copy(update={"hours": hours, "days": days, "quiet": quiet})
        if kept != snapshot:
            job.tables.publish(kept)
        snapshot = kept
    return snapshot, made, newest


def window(store: Store, request: Request, now: datetime) -> tuple[datetime, datetime]:
    days = inventory.recorded_days(store, request.instance, request.cluster)
    if not days:
        raise RequestError(
            f"no traffic of instance {request.instance!r}, cluster {request.cluster!r} below {store.root}: "
            "check root, instance and cluster, and whether the collector runs"
        )
    last = request.end or inventory.newest_day(days, now) + timedelta(days=1)
    return request.start or last - timedelta(days=request.window_days), last


def _is_new(hour: inventory.Hour, known: HourState | None, newest: inventory.Hour | None) -> bool:
    """Whether an hour is to be made: of the newest one the bundles must be known as well."""
    return known is None or known.digest != hour.digest or (hour == newest and not known.placed)


def _observe(
    job: Job, snapshot: Snapshot, inside: Mapping[int, HourState], busy: Sequence[int], newest: inventory.Hour | None
) -> tuple[Snapshot, Observed]:
    markers, placed = _latest_round(job, snapshot, newest)
    now = today(placed)
    brokers = markers.brokers or tuple(sorted({row["broker"] for row in placed}))
    counted = [unit for unit, hour in inside.items() if hour.samples]
    capacities = capacities_of(brokers, (), job.request.capacities)
    cost = costs.learned(job.spark, job.tables, snapshot, counted, capacities)
    found = Heaviest([], [], [])
    if counted:
        for days in daily.needed(inside, busy):
            snapshot = _add_up_days(job, snapshot, days)
        many = max(daily.topics_of(inside[unit]) for unit in counted)
        ask = Question(job.request.percentile, job.request.growth, costs.factors_of(cost), many)
        name = job.name()
        _weigh(job, snapshot, name, counted, busy, ask)
        snapshot = snapshot.model_copy(update={"weights": name})
        job.tables.publish(snapshot)
        walls = {namespace: each.boundaries for namespace, each in now.items()}
        found = heaviest(job.spark, job.tables, name, walls, len(brokers))
    return snapshot, Observed(
        brokers=brokers,
        today=now,
        cells=found.cells,
        hottest=found.namespaces,
        hot_topics=found.hot,
        round=markers.newest,
        cost=costs.section(cost),
    )


def _add_up_days(job: Job, snapshot: Snapshot, needed: daily.Days) -> Snapshot:
    """Bring a table by day up to date, with a snapshot after each batch."""
    stale = daily.stale(snapshot, needed)
    done = 0
    for days in daily.batches(snapshot, needed.units, list(stale)):
        digests = {day: stale[day] for day in days}
        snapshot = daily.write(job.spark, job.tables, snapshot, job.name(), needed, digests)
        job.tables.publish(snapshot)
        done += len(days)
        job.say(f"{done} of {len(stale)} days added up ({needed.table})")
    return snapshot


def _weigh(job: Job, snapshot: Snapshot, name: str, counted: Sequence[int], busy: Sequence[int], ask: Question) -> None:
    """Write the table of weights."""
    busy_days = sorted({unit // 24 for unit in counted if unit % 24 in busy})
    quiet_days = sorted({unit // 24 for unit in counted if unit % 24 not in busy})
    # Used twice, for the topics and for the totals of their namespaces.
    weighed = weigh(job.spark, job.tables, snapshot, busy_days, quiet_days, ask).persist(StorageLevel.DISK_ONLY)
    try:
        most = caps(job.spark, job.tables, snapshot, busy_days, ask)
        job.tables.write(capped(weighed, most), WEIGHTS, name)
    finally:
        weighed.unpersist()


def _latest_round(
    job: Job, snapshot: Snapshot, newest: inventory.Hour | None
) -> tuple[inventory.Markers, list[dict[str, Any]]]:
    """The markers of the newest hour, and the rows of its placement: one a bundle and broker."""
    if newest is None:
        return inventory.Markers(), []
    markers = inventory.markers(job.store, newest.markers)
    folders = job.tables.hours(snapshot, PLACEMENT, [newest.unit])
    if not folders or not job.store.names(folders[0]):
        return markers, []
    placed = job.tables.read(job.spark, PLACEMENT, folders).select("namespace", "bundle", "broker", "topics")
    return markers, placed.toArrow().to_pylist()


def describe_profile(found: TrafficProfile | None) -> str:
    if found is None:
        return "too little was recorded for a profile of a week or a day"
    gaps = f", {found.filled} hours filled from the hours beside them" if found.filled else ""
    return f"profile of a {found.period.lower()} from {found.recorded} hours{gaps}"


def recorded(inside: Mapping[int, HourState], covered: int) -> Recorded:
    """Returns how much was recorded in the hours ``inside``; ``covered`` is how many of them are covered."""
    rejected: Counter[str] = Counter()
    for hour in inside.values():
        rejected.update(hour.rejected)
        rejected["row_duplicate"] += hour.duplicates
    first, last = min(inside, default=0), max(inside, default=0)
    return Recorded(
        samples=sum(hour.samples for hour in inside.values()),
        completeness=completeness(inside.values()),
        expected=sum(hour.expected for hour in inside.values()),
        rejected={reason: count for reason, count in sorted(rejected.items()) if count},
        start=inventory.start_of(first),
        end=inventory.start_of(last + 1),
        covered=covered,
    )


def heat(outcome: Outcome, most: int) -> dict[str, list[float]]:
    """Returns the mean cost by hour of the day of the topics with the highest mean cost, in the result's time."""
    job, result = outcome.job, outcome.result
    units = range(inventory.unit_of(result.from_time), inventory.unit_of(result.to_time))
    folders = job.tables.hours(outcome.snapshot, HOURLY, units)
    if not folders:
        return {}
    hours = job.tables.read(job.spark, HOURLY, folders).withColumn("hour_of_day", F.col("unit") % 24)
    totals = hours.groupBy("topic").agg(F.sum("cost").alias("total"))
    top = F.broadcast(totals.orderBy(F.desc("total"), "topic").limit(most))
    mean = (F.sum("cost") / F.sum("samples")).alias("cost")
    rows = hours.join(top, on="topic", how="inner").groupBy("topic", "total", "hour_of_day").agg(mean).collect()
    found: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: (-row["total"], row["topic"])):
        found.setdefault(row["topic"], [0.0] * 24)[row["hour_of_day"]] = row["cost"]
    return found
