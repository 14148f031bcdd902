"""Scheduled compaction of a topic: which is due in which cluster, and how the status records it.

If due times passed while the operator was down, the topic is compacted once, for the last of them. The time is recorded
after the call. A pass that ends between the two makes the call again (at least once); Pulsar then accepts it or answers
that a compaction is running.
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
    """The compactions that are due now."""

    status: CompactionStatus
    """The status before any compaction is triggered."""
    clusters: Mapping[str, datetime]
    """Clusters in which the topic must be compacted, with the due time."""


def due(schedule: str, before: CompactionStatus | None, clusters: Collection[str], now: datetime) -> Due:
    """Returns the compactions that are due in the clusters that have the topic. Raises ValueError for an invalid
    schedule.

    Due times count from when the schedule was first observed or was changed.
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
    """Returns the status with the results in some clusters."""
    known = {each.name: each for each in (*status.clusters, *results)}
    return status.model_copy(update={"clusters": [known[name] for name in sorted(known)]})
