"""Compaction of a topic by a schedule."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel

CRON = r"^[0-9*,/-]+( [0-9*,/-]+){4}$"
_Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Compaction(ApiModel):
    """Compaction at fixed times, besides that of policies.compactionThreshold."""

    schedule: Annotated[str, Field(max_length=100, pattern=CRON)]
    """Minute, hour, day of the month, month and day of the week as in cron, UTC: "0 3 * * *" is every day at three.
    Numbers only; 0 and 7 are Sunday."""


class CompactionResult(StrEnum):
    """What came of it."""

    TRIGGERED = "Triggered"
    ALREADY_RUNNING = "AlreadyRunning"
    NO_TOPIC = "NoTopic"
    REFUSED = "Refused"


class ClusterCompaction(ApiModel):
    """The last scheduled compaction in one cluster."""

    name: str
    """Name of the cluster inside Pulsar."""
    last_schedule_time: _Time
    """When it was due."""
    result: CompactionResult
    """Triggered = Pulsar took it; AlreadyRunning = another compaction was under way; NoTopic = the cluster has no such
    topic; Refused = Pulsar refused it. It is tried again at the next time only."""
    message: Annotated[str, Field(max_length=1024)] | None = None
    """Pulsar's words."""


class CompactionStatus(ApiModel):
    """Compactions by the schedule."""

    schedule: str
    """The schedule these times are of."""
    since_time: _Time
    """When it was first seen; earlier times do not count."""
    next_schedule_time: _Time | None = None
    """When it is due again."""
    clusters: Annotated[
        list[ClusterCompaction],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """The last one in each cluster."""
