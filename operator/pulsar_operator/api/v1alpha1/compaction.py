"""Compaction of a topic by a schedule."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel

CRON = r"^[0-9*,/-]+( [0-9*,/-]+){4}$"
_Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Compaction(ApiModel):
    """Scheduled compaction, in addition to policies.compactionThreshold."""

    schedule: Annotated[str, Field(max_length=100, pattern=CRON)]
    """Schedule in UTC: minute, hour, day of the month, month and day of the week as in cron, such as "0 3 * * *" for
    every day at three. Only numbers are allowed; 0 and 7 are Sunday."""


class CompactionResult(StrEnum):
    """Result of a scheduled compaction."""

    TRIGGERED = "Triggered"
    ALREADY_RUNNING = "AlreadyRunning"
    NO_TOPIC = "NoTopic"
    REFUSED = "Refused"


class ClusterCompaction(ApiModel):
    """The last scheduled compaction in one cluster."""

    name: str
    """Name of the cluster in Pulsar."""
    last_schedule_time: _Time
    """Time at which the compaction was due."""
    result: CompactionResult
    """Triggered: Pulsar accepted the compaction. AlreadyRunning: another compaction was in progress. NoTopic: the
    cluster does not have the topic. Refused: Pulsar refused the compaction. The operator retries only at the next
    scheduled time."""
    message: Annotated[str, Field(max_length=1024)] | None = None
    """Message from Pulsar."""


class CompactionStatus(ApiModel):
    """Scheduled compactions of a topic."""

    schedule: str
    """Schedule that the times belong to."""
    since_time: _Time
    """Time at which the schedule was first observed. Earlier times do not count."""
    next_schedule_time: _Time | None = None
    """Time at which the next compaction is due."""
    clusters: Annotated[
        list[ClusterCompaction],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Last scheduled compaction in each cluster."""
