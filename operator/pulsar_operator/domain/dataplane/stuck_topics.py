"""Topics whose replicator is connected and delivers nothing of what waits: found by several looks. Pure.

Pulsar has had replicators that wait for nothing (apache/pulsar#25097; mended after 4.0.8); loading the topic anew
helps, and clients hardly feel it. So each is unloaded once; one that is stuck again within the hour is reported only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

STUCK_AFTER: Final = timedelta(minutes=5)
UNLOADED_AGAIN_AFTER: Final = timedelta(hours=1)
LOOKS_APART: Final = timedelta(minutes=2)
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


@dataclass(frozen=True)
class _Seen:
    since: datetime
    backlog: int


class StuckTopics:
    """What was seen of an instance's topics. Kept for the life of the process: one that was just started knows none."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], _Seen] = {}
        self._unloaded: dict[tuple[str, str], datetime] = {}
        self._at: datetime | None = None

    def follow(self, now: datetime, pairs: Mapping[tuple[str, str], Still]) -> None:
        """Take a look: what stands still by source and target, of sources and targets whose brokers all answer. A topic
        of which less waits than before is not stuck."""
        fresh = self._at is not None and timedelta(0) <= now - self._at <= LOOKS_APART
        before, self._seen, self._at = (self._seen if fresh else {}), {}, now
        for (source, target), still in pairs.items():
            for topic, backlog in still.items():
                old = before.get((source, target, topic))
                since = old.since if old is not None and backlog >= old.backlog else now
                self._seen[source, target, topic] = _Seen(since, backlog)
        self._unloaded = {key: at for key, at in self._unloaded.items() if now - at < UNLOADED_AGAIN_AFTER}

    def stuck(self) -> list[StuckTopic]:
        """Those that are, at the last look; which waits longest is first."""
        found = [
            StuckTopic(source, target, topic, seen.backlog, seen.since, self._unloaded.get((source, topic)))
            for (source, target, topic), seen in self._seen.items()
            if self._at is not None and self._at - seen.since >= STUCK_AFTER
        ]
        return sorted(found, key=lambda each: (each.since, each.source, each.topic, each.target))

    def due(self) -> dict[str, list[str]]:
        """Topics to be unloaded now, by the cluster that has them."""
        topics = dict.fromkeys((each.source, each.topic) for each in self.stuck() if each.unloaded is None)
        found: dict[str, list[str]] = {}
        for source, topic in list(topics)[:UNLOADS]:
            found.setdefault(source, []).append(topic)
        return found

    def unloaded(self, source: str, topic: str, now: datetime) -> None:
        """It was, or it was tried."""
        self._unloaded[source, topic] = now
