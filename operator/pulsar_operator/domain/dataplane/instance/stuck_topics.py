"""Topics whose replicator is connected and delivers nothing of its backlog, found by several observations. Pure.

Pulsar had replicators that stall without a cause (apache/pulsar#25097; fixed after 4.0.8). Loading the topic again
helps, and clients hardly notice it. So each such topic is unloaded once; one that stalls again within the hour is only
reported. If bookies or the metadata store of either cluster are unavailable, that is the cause: no unload helps, and in
the source cluster the topic could not be opened again. So these must be healthy for the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.domain.conditions import seconds_since

STUCK_AFTER: Final = timedelta(minutes=5)
UNLOADED_AGAIN_AFTER: Final = timedelta(hours=1)
READINGS_APART: Final = timedelta(minutes=2)
"""Maximum seconds between two observations; what happened in a longer interval is not known."""
UNLOADS: Final = 4
"""Maximum number of topics that are unloaded after one observation."""

Still = Mapping[str, int]
"""One observation, by topic: backlog of a connected replicator that delivered nothing in the last minute."""


@dataclass(frozen=True)
class StuckTopic:
    """A topic of which nothing was delivered for STUCK_AFTER."""

    source: str
    target: str
    """Source and target clusters."""
    topic: str
    """Full name."""
    backlog: int
    """Messages that wait."""
    since: datetime
    unloaded: datetime | None
    """Time at which it was unloaded in the last hour; None if it was not."""
    well: datetime | None
    """Time at which it stalled although both clusters are healthy; None if one is not."""


@dataclass(frozen=True)
class _Observation:
    since: datetime
    backlog: int
    well: datetime | None


class StuckTopics:
    """The stalled topics of an instance. Kept for the life of the process; a new process knows none."""

    def __init__(self) -> None:
        self._observed: dict[tuple[str, str, str], _Observation] = {}
        self._unloaded: dict[tuple[str, str], datetime] = {}
        self._at: datetime | None = None

    def follow(self, now: datetime, pairs: Mapping[tuple[str, str], Still], well: Collection[str]) -> None:
        """Adds an observation: the stalled topics by source and target, of clusters whose brokers all answer. A topic
        whose backlog shrank is not stalled. ``well`` are clusters whose bookies and metadata store are healthy."""
        fresh = self._at is not None and timedelta(0) <= now - self._at <= READINGS_APART
        before, self._observed, self._at = (self._observed if fresh else {}), {}, now
        for (source, target), still in pairs.items():
            for topic, backlog in still.items():
                old = before.get((source, target, topic))
                if old is None or backlog < old.backlog:
                    old = _Observation(now, backlog, None)
                since = (old.well or now) if {source, target} <= set(well) else None
                self._observed[source, target, topic] = _Observation(old.since, backlog, since)
        again = UNLOADED_AGAIN_AFTER.total_seconds()
        self._unloaded = {key: at for key, at in self._unloaded.items() if seconds_since(at, now) < again}

    def stuck(self) -> list[StuckTopic]:
        """Returns the stuck topics of the last observation, longest first."""
        found = [
            StuckTopic(
                source,
                target,
                topic,
                observation.backlog,
                observation.since,
                self._unloaded.get((source, topic)),
                observation.well,
            )
            for (source, target, topic), observation in self._observed.items()
            if self._long(observation.since)
        ]
        return sorted(found, key=lambda each: (each.since, each.source, each.topic, each.target))

    def _long(self, since: datetime | None) -> bool:
        return self._at is not None and since is not None and self._at - since >= STUCK_AFTER

    def due(self) -> dict[str, list[str]]:
        """Returns the topics to unload now, by source cluster."""
        found = [each for each in self.stuck() if each.unloaded is None and self._long(each.well)]
        topics = dict.fromkeys((each.source, each.topic) for each in found)
        due: dict[str, list[str]] = {}
        for source, topic in list(topics)[:UNLOADS]:
            due.setdefault(source, []).append(topic)
        return due

    def unloaded(self, source: str, topic: str, now: datetime) -> None:
        """Records that it was unloaded, or that this was tried."""
        self._unloaded[source, topic] = now
