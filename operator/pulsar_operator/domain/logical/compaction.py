"""When a topic is compacted by its schedule: what is due in which cluster, and what status keeps of it.

A due time that passed while the operator was down is done once, by the last of those that were missed. The time is kept
when the call was made: a pass that ends between the two makes the call again (at least once), which Pulsar takes or
answers that a compaction is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from pulsar_operator.api.v1alpha1.compaction import ClusterCompaction, CompactionStatus
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.cron import Schedule


@dataclass(frozen=True)
class Due:
    """What is to be done now."""

    status: CompactionStatus
    """As it is before anything is done."""
    clusters: Mapping[str, datetime]
    """Clusters in which the topic is to be compacted, and the time it was due."""


def due(schedule: str, before: CompactionStatus | None, clusters: Collection[str], now: datetime) -> Due:
    """Decide what is due in the clusters that have the topic. Raises ValueError for a schedule that is none.

    Times count from when the schedule was first seen, or was changed.
    """
    times = Schedule.parse(schedule)
    upcoming = times.next_after(now)
    next_time = timestamp(upcoming) if upcoming is not None else None
    if before is None or before.schedule != schedule:
        # What earlier schedules did stays on record.
        known = before.clusters if before is not None else []
        fresh = CompactionStatus(
            schedule=schedule, since_time=timestamp(now), next_schedule_time=next_time, clusters=known
        )
        return Due(fresh, {})
    status = before.model_copy(update={"next_schedule_time": next_time})
    found: dict[str, datetime] = {}
    for cluster in sorted(clusters):
        since = parse_time(status.since_time) or now
        last = next((parse_time(each.last_schedule_time) for each in status.clusters if each.name == cluster), None)
        moment = times.last_due(max(since, last) if last is not None else since, now)
        if moment is not None:
            found[cluster] = moment
    return Due(status, found)


def with_results(status: CompactionStatus, results: Collection[ClusterCompaction]) -> CompactionStatus:
    """Returns the status with what was done in some clusters."""
    known = {each.name: each for each in (*status.clusters, *results)}
    return status.model_copy(update={"clusters": [known[name] for name in sorted(known)]})
