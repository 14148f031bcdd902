"""One run of the job: bring the state up to date, then answer from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pulsar_operator.balance.model.capacity import capacities_of
from pulsar_operator.balance.sizing.result import SizingResult, TrafficProfile
from pulsar_sizing.job import answer, costs, inventory, profile, weights
from pulsar_sizing.job.compute import Say, work_out
from pulsar_sizing.job.conclude import Observed, Seen, Today, conclude, today
from pulsar_sizing.job.request import Request, RequestError
from pulsar_sizing.job.state import HourState, Manifest, State, completeness
from pulsar_sizing.store import Store

LISTINGS = 3
"""Times the files are listed anew when some went while they were read."""


@dataclass(frozen=True)
class Recorded:
    """Traffic of one cluster, and what reads it."""

    spark: SparkContext
    store: Store


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
    recorded = Recorded(spark.sparkContext, store)
    start, end = _window(store, request, now)
    # Today is not whole: the same hours of a week ago are on the day before the window.
    reach = start if request.start is not None else start - timedelta(days=1)
    manifest, worked_out, newest = update(recorded, state, request, reach, end, name=name, say=say)
    if request.start is None and request.end is None:
        state.clean(now)
    reached = {u: h for u, h in manifest.hours.items() if inventory.unit_of(reach) <= u < inventory.unit_of(end)}
    inside = {unit: hour for unit, hour in reached.items() if unit >= inventory.unit_of(start)}
    busy = weights.busiest_hours(inside)
    say(f"busiest hours of the day (UTC): {', '.join(f'{hour:02d}' for hour in busy) or 'none'}")
    observed = _observe(recorded, state, manifest, inside, busy, newest, request)
    repeated = profile.profile(reached, inventory.unit_of(now), request.min_completeness)
    say(f"traffic by the hour: {_in_words(repeated)}")
    say("choosing boundaries")
    result = conclude(request, replace(observed, profile=repeated), _seen(inside), now)
    return Outcome(result, worked_out, len(reached) - worked_out, busy, manifest, observed.today)


def update(
    recorded: Recorded, state: State, request: Request, start: datetime, end: datetime, *, name: str, say: Say
) -> tuple[Manifest, int, inventory.Hour | None]:
    """Bring the state of the hours in [start, end) up to date; it, the hours worked out, the newest hour."""
    for attempt in range(LISTINGS):
        found = inventory.hours(recorded.store, request.instance, request.cluster, start, end)
        manifest = state.load(request.parameters)
        known = {} if request.full else manifest.hours
        newest = next((hour for hour in reversed(found) if hour.traffic), None)
        changed = [h for h in found if _is_new(h, known.get(h.unit), newest)]
        say(f"{len(found)} hours recorded, {len(changed)} of them new or changed")
        try:
            fresh = (
                work_out(recorded.spark, recorded.store, state, name, changed, newest, request.model, say)
                if changed
                else {}
            )
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
    return updated, len(changed), newest


def _is_new(hour: inventory.Hour, known: HourState | None, newest: inventory.Hour | None) -> bool:
    """Whether an hour is to be worked out: of the newest one the bundles must be known as well."""
    return known is None or known.digest != hour.digest or (hour == newest and not known.placed)


def _window(store: Store, request: Request, now: datetime) -> tuple[datetime, datetime]:
    days = inventory.recorded_days(store, request.instance, request.cluster)
    if not days:
        raise RequestError(
            f"no traffic of instance {request.instance!r}, cluster {request.cluster!r} below {store.root}: "
            "check root, instance and cluster, and whether the collector runs"
        )
    last = request.end or inventory.newest_day(days, now) + timedelta(days=1)
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
    told, placed = _latest_round(recorded.store, state, manifest, newest)
    now = today(placed)
    brokers = told.brokers or tuple(sorted({row["broker"] for row in placed}))
    counted = [unit for unit, hour in inside.items() if hour.samples]
    of_busy = [unit for unit in counted if unit % 24 in busy]
    capacities = capacities_of(brokers, (), request.capacities)
    cost = costs.learned(recorded.spark, recorded.store, state, manifest, counted, capacities)
    found = answer.heaviest(
        recorded.spark,
        recorded.store,
        answer.shards(recorded.store, state, manifest, of_busy, max(counted, default=None)),
        request.percentile,
        request.growth,
        {name: each.boundaries for name, each in now.items()},
        len(brokers),
        costs.factors_of(cost),
    )
    return Observed(
        brokers=brokers,
        today=now,
        cells=[
            {"namespace": name, "position": position, "weight": weight, "topics": topics}
            for name, top in found.namespaces.items()
            for position, weight, topics in zip(
                *(each.tolist() for each in (top.cells.positions, top.cells.weights, top.cells.topics)), strict=True
            )
        ],
        hottest=[
            {"namespace": name, "topic": top.topic, "weight": top.weight, "total": top.total, "topics": top.topics}
            for name, top in found.namespaces.items()
        ],
        hot_topics=found.hot,
        round=told.newest,
        cost=costs.section(cost),
    )


def _latest_round(
    store: Store, state: State, manifest: Manifest, newest: inventory.Hour | None
) -> tuple[inventory.Markers, list[dict[str, Any]]]:
    if newest is None:
        return inventory.Markers(), []
    return inventory.markers(store, newest.markers), answer.placement(store, state, manifest, newest.unit)


def _in_words(found: TrafficProfile | None) -> str:
    if found is None:
        return "too little was recorded for a profile of a week or a day"
    gaps = f", {found.filled} hours filled from their neighbours" if found.filled else ""
    return f"profile of a {found.period.lower()} from {found.recorded} hours{gaps}"


def _seen(inside: dict[int, HourState]) -> Seen:
    rejected: Counter[str] = Counter()
    for hour in inside.values():
        rejected.update(hour.rejected)
        rejected["row_duplicate"] += hour.duplicates
    first, last = min(inside, default=0), max(inside, default=0)
    return Seen(
        samples=sum(hour.samples for hour in inside.values()),
        completeness=completeness(inside.values()),
        expected=sum(hour.expected for hour in inside.values()),
        rejected={reason: count for reason, count in sorted(rejected.items()) if count},
        start=inventory.start_of(first),
        end=inventory.start_of(last + 1),
    )
