"""One run of the job: bring the state up to date, then answer from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.job import inventory, weights
from pulsar_sizing.job.compute import Recorded, Say, work_out
from pulsar_sizing.job.conclude import Observed, Seen, Today, conclude, today
from pulsar_sizing.job.request import Request, RequestError
from pulsar_sizing.job.rows import accepted
from pulsar_sizing.job.session import interpreted
from pulsar_sizing.job.state import HISTOGRAM, HourState, Manifest, State
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.store import Store

LISTINGS = 3
"""Times the files are listed anew when some went while they were read."""
SHARE_OF_ADVICE = 0.5
"""A topic above this share of a broker's fair share may need more partitions."""


@dataclass(frozen=True)
class Outcome:
    """What a run did and found."""

    result: SizingResult
    hours_worked_out: int
    hours_kept: int
    busy_hours: tuple[int, ...]
    manifest: Manifest
    today: Mapping[str, Today]
    """Bundles as they are, by namespace."""


def run(
    spark: SparkSession, store: Store, state: State, request: Request, *, now: datetime, name: str, say: Say
) -> Outcome:
    """Size one cluster. `name` is that of the run (state.run_name), unlike any other's; `say` takes progress lines.

    Raises RequestError when nothing was recorded. What is damaged in the recording is counted in the result.
    """
    recorded = Recorded(spark, store, request.instance, request.cluster)
    start, end = _window(store, request)
    manifest, worked_out, newest = update(recorded, state, request, start, end, name=name, say=say)
    if request.start is None and request.end is None:
        state.clean(now)
    inside = {u: h for u, h in manifest.hours.items() if inventory.unit_of(start) <= u < inventory.unit_of(end)}
    busy = weights.busiest_hours(inside)
    say(f"busiest hours of the day (UTC): {', '.join(f'{hour:02d}' for hour in busy) or 'none'}")
    observed = _observe(recorded, state, manifest, inside, busy, newest, request)
    say("choosing boundaries")
    result = conclude(request, observed, _seen(inside), now)
    return Outcome(result, worked_out, len(inside) - worked_out, busy, manifest, observed.today)


def update(
    recorded: Recorded, state: State, request: Request, start: datetime, end: datetime, *, name: str, say: Say
) -> tuple[Manifest, int, inventory.Hour | None]:
    """Bring the state of the hours in [start, end) up to date; it, the hours worked out, the newest hour."""
    for attempt in range(LISTINGS):
        found = inventory.hours(recorded.store, request.instance, request.cluster, start, end)
        manifest = state.load(request.parameters)
        known = {} if request.full else manifest.hours
        changed = [h for h in found if h.unit not in known or known[h.unit].digest != h.digest]
        say(f"{len(found)} hours recorded, {len(changed)} of them new or changed")
        try:
            fresh = work_out(recorded, state, name, changed, request.model, say) if changed else {}
            break
        except inventory.VanishedError:
            if attempt == LISTINGS - 1:
                raise
            say("files went while they were read: listing again")
    hours = manifest.hours | fresh
    if request.start is None and request.end is None:
        hours = {unit: hour for unit, hour in hours.items() if unit >= inventory.unit_of(start)}
    updated = Manifest(parameters=request.parameters, hours=dict(sorted(hours.items())))
    if updated != manifest:
        state.publish(updated)
    return updated, len(changed), next((hour for hour in reversed(found) if hour.traffic), None)


def _window(store: Store, request: Request) -> tuple[datetime, datetime]:
    days = inventory.recorded_days(store, request.instance, request.cluster)
    if not days:
        raise RequestError(
            f"no traffic of instance {request.instance!r}, cluster {request.cluster!r} below {store.root}: "
            "check root, instance and cluster, and whether the collector runs"
        )
    last = request.end or days[-1] + timedelta(days=1)
    return request.start or last - timedelta(days=request.window_days), last


def _observe(
    recorded: Recorded,
    state: State,
    manifest: Manifest,
    inside: dict[int, HourState],
    busy: tuple[int, ...],
    newest: inventory.Hour | None,
    request: Request,
) -> Observed:
    spark = recorded.spark

    def histograms(units: list[int]) -> DataFrame:
        return weights.read_histograms(spark, state.paths(manifest, HISTOGRAM, units))

    last = max((unit for unit, hour in inside.items() if hour.samples), default=None)
    of_newest = histograms([] if last is None else [last])
    of_busy = histograms([unit for unit in inside if unit % 24 in busy])
    topics = of_busy.transform(weights.topic_weights(of_newest, request.percentile, request.growth))
    topics = topics.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        told, placement = _latest_round(recorded, newest)
        now = today(placement)
        # From here on a row is a topic.
        with interpreted(spark):
            hottest = topics.transform(weights.hottest).toArrow().to_pylist()
            largest = max((row["topics"] for row in hottest), default=0)
            walls = weights.boundary_rows(spark, {name: each.boundaries for name, each in now.items()})
            cells = topics.transform(weights.cells(walls, largest=largest)).toArrow()
            total = sum(row["total"] for row in hottest)
            brokers = told.brokers or tuple(sorted({row["broker"] for row in placement}))
            limit = SHARE_OF_ADVICE * total / max(len(brokers), 1)
            hot = topics.transform(weights.related_to_hot(limit)).toArrow().to_pylist()
    finally:
        topics.unpersist()
    return Observed(
        brokers=brokers,
        today=now,
        cells=cells.sort_by([("namespace", "ascending"), ("position", "ascending")]).to_pylist(),
        hottest=hottest,
        hot_topics=sorted((row["topic"], row["weight"]) for row in hot),
        round=told.newest,
    )


def _latest_round(recorded: Recorded, newest: inventory.Hour | None) -> tuple[inventory.Markers, list[dict[str, Any]]]:
    if newest is None:
        return inventory.Markers(), []
    told = inventory.markers(recorded.store, inventory.readable(recorded.store, newest.markers, MARKERS)[0])
    good, _ = inventory.readable(recorded.store, newest.traffic, TRAFFIC)
    if told.newest is None or not good:
        return told, []
    rows = recorded.judged(good).transform(accepted).filter(F.col("sample_time") == F.lit(told.newest))
    return told, rows.transform(weights.placement).toArrow().to_pylist()


def _seen(inside: dict[int, HourState]) -> Seen:
    rejected: Counter[str] = Counter()
    for hour in inside.values():
        rejected.update(hour.rejected)
        rejected["row_duplicate"] += hour.duplicates
    expected, answered = (sum(getattr(h, name) for h in inside.values()) for name in ("expected", "answered"))
    announced = sum(hour.announced for hour in inside.values())
    # A broker's answer whose file is gone or damaged, or whose rows were rejected, is no answer.
    there = sum(min(hour.samples + hour.duplicates, hour.announced) for hour in inside.values())
    first, last = min(inside, default=0), max(inside, default=0)
    return Seen(
        samples=sum(hour.samples for hour in inside.values()),
        completeness=(answered / expected if expected else 0.0) * (there / announced if announced else 0.0),
        expected=expected,
        rejected={reason: count for reason, count in sorted(rejected.items()) if count},
        start=inventory.start_of(first),
        end=inventory.start_of(last + 1),
    )
