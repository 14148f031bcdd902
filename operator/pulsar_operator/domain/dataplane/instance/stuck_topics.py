"""Topics whose replicator is connected and delivers nothing of what waits: found by several looks. Pure.

Pulsar has had replicators that wait for nothing (apache/pulsar#25097; mended after 4.0.8); loading the topic anew
helps, and clients hardly feel it. So each is unloaded once; one that is stuck again within the hour is reported only.
Where bookies or the metadata store of either cluster are away that is why nothing is delivered: no unload helps, and in
the cluster that has the topic it could not be opened again. So these have to be well for as long.
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
"""What lies between two looks that are further apart is not known."""
UNLOADS: Final = 4
"""Topics that are unloaded after one look."""

Still = Mapping[str, int]
"""Of one look, by topic: messages that wait for a connected replicator that delivered nothing in the last minute."""


@dataclass(frozen=True)
class StuckTopic:
    """One of which nothing was delivered for STUCK_AFTER."""

    source: str
    target: str
    """Clusters."""
    topic: str
    """Full name."""
    backlog: int
    """Messages that wait."""
    since: datetime
    unloaded: datetime | None
    """When it was unloaded in the last hour; None = it was not."""
    well: datetime | None
    """Since when it is so although both clusters can store; None = one of them cannot."""


@dataclass(frozen=True)
class _Observation:
    since: datetime
    backlog: int
    well: datetime | None


class StuckTopics:
    """What was seen of an instance's topics. Kept for the life of the process: one that was just started knows none."""

    def __init__(self) -> None:
        self._observed: dict[tuple[str, str, str], _Observation] = {}
        self._unloaded: dict[tuple[str, str], datetime] = {}
        self._at: datetime | None = None

    def follow(self, now: datetime, pairs: Mapping[tuple[str, str], Still], well: Collection[str]) -> None:
        """Take a look: what stands still by source and target, of sources and targets whose brokers all answer. A topic
        of which less waits than before is not stuck. ``well`` are clusters that can store."""
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
        """Those that are, at the last look; which waits longest is first."""
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
        """Topics to be unloaded now, by the cluster that has them."""
        found = [each for each in self.stuck() if each.unloaded is None and self._long(each.well)]
        topics = dict.fromkeys((each.source, each.topic) for each in found)
        due: dict[str, list[str]] = {}
        for source, topic in list(topics)[:UNLOADS]:
            due.setdefault(source, []).append(topic)
        return due

    def unloaded(self, source: str, topic: str, now: datetime) -> None:
        """It was, or it was tried."""
        self._unloaded[source, topic] = now
