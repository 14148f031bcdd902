"""Replication between the clusters of an instance, read from the brokers' metrics. Pure: the time is an argument.

A replicator sends one topic to one other cluster. A broker reports it while the topic is loaded (class
AggregatedReplicationStats, under the names of class TopicStats; observed on 4.0.8). A broker that reports only
namespaces (exposeTopicLevelMetricsInPrometheus) gives sums; the backlog of a namespace with a disconnected replicator
counts for that replicator. A disconnected replicator loses nothing: messages wait in its topic. Trouble shows in how
the backlog changes, so detecting it takes several observations; a process that has just started has none and reports
what it sees so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.conditions import seconds_since
from pulsar_operator.domain.dataplane.instance.stuck_topics import StuckTopics
from pulsar_operator.domain.dataplane.observed.pod_counters import Sample

_PREFIX: Final = "pulsar_replication_"
_ALWAYS: Final = "log4j2_appender_total"
"""A series on every broker's page: if it is there, missing series of replicators mean that there is no replicator."""
NAMES: Final = frozenset(
    {
        f"{_PREFIX}{each}"
        for each in ("backlog", "connected_count", "disconnected_count", "rate_out", "rate_expired", "delay_in_seconds")
    }
    | {_ALWAYS}
)
"""Series that are read from a broker's page."""
READINGS: Final = 3
"""Consecutive observations in which the backlog must grow until replication counts as falling behind."""
MOST_STILL: Final = 256
"""Maximum number of stalled topics that are followed for each target cluster; those with the largest backlog."""
MOST_SHOWN: Final = 5
"""Number of namespaces, and of topics, with the largest backlog that are reported."""
BEHIND_SECONDS: Final = 60.0
BEHIND_MESSAGES: Final = 100
"""Backlog in messages up to which replication counts as keeping up, as does a backlog that is delivered within that
time at the rate of the last minute."""


@dataclass(frozen=True)
class Reading:
    """One observation of all replicators from one cluster to another."""

    replicators: int = 0
    connected: int = 0
    backlog: int = 0
    """Messages that wait."""
    stranded: int = 0
    """Messages among them whose replicator is not connected."""
    delay_seconds: float = 0.0
    """Age in seconds of the oldest message that was sent and not confirmed."""
    rate_out: float = 0.0
    """Messages a second that were delivered in the last minute."""
    rate_expired: float = 0.0
    """Messages a second that were dropped in the last minute because their time to live was over."""
    still: tuple[tuple[str, int], ...] = ()
    """Backlog by topic, of topics with a connected replicator that delivered nothing in the last minute."""
    namespaces: Mapping[str, int] = field(default_factory=dict)
    """Backlog by namespace."""
    topics: tuple[tuple[str, int], ...] = ()
    """Topics with the largest backlog."""

    def plus(self, other: Reading) -> Reading:
        """Returns the sum of two observations."""
        return Reading(
            self.replicators + other.replicators,
            self.connected + other.connected,
            self.backlog + other.backlog,
            self.stranded + other.stranded,
            max(self.delay_seconds, other.delay_seconds),
            self.rate_out + other.rate_out,
            self.rate_expired + other.rate_expired,
            _most((*self.still, *other.still), MOST_STILL) if other.still else self.still,
            _sums(self.namespaces, other.namespaces) if other.namespaces else self.namespaces,
            _most((*self.topics, *other.topics), MOST_SHOWN) if other.topics else self.topics,
        )

    def most_in(self) -> tuple[tuple[str, int], ...]:
        """Namespaces with the largest backlog."""
        return _most(self.namespaces.items(), MOST_SHOWN)


def _most(rows: Iterable[tuple[str, int]], count: int) -> tuple[tuple[str, int], ...]:
    """Returns the largest, each name once: a topic that moves between two observations is on the pages of both
    brokers."""
    largest: dict[str, int] = {}
    for name, number in rows:
        largest[name] = max(number, largest.get(name, number))
    return tuple(sorted(largest.items(), key=lambda each: (-each[1], each[0]))[:count])


def _sums(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {
        name: left.get(name, 0) + right.get(name, 0) for name in (*left, *(each for each in right if each not in left))
    }


Targets = Mapping[str, Reading]
"""By name of the target cluster."""


def readings(samples: Iterable[Sample]) -> dict[str, Reading]:
    """Parses one broker's page into observations by target cluster."""
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    for each in samples:
        if each.name.startswith(_PREFIX) and (target := each.labels.get("remote_cluster")):
            where = (target, each.labels.get("namespace", ""), each.labels.get("topic", ""))
            rows.setdefault(where, {})[each.name.removeprefix(_PREFIX)] = each.value
    found: dict[str, Reading] = {}
    still: dict[str, list[tuple[str, int]]] = {}
    topics: dict[str, list[tuple[str, int]]] = {}
    namespaces: dict[str, dict[str, int]] = {}
    for (target, namespace, topic), values in rows.items():
        reading = _reading(values)
        found[target] = found.get(target, Reading()).plus(reading)
        sums = namespaces.setdefault(target, {})
        if namespace and reading.backlog:
            sums[namespace] = sums.get(namespace, 0) + reading.backlog
        if topic and reading.backlog:
            topics.setdefault(target, []).append((topic, reading.backlog))
            if reading.connected == reading.replicators and values.get("rate_out") == 0.0:
                still.setdefault(target, []).append((topic, reading.backlog))
    return {
        target: replace(
            reading,
            still=_most(still.get(target, ()), MOST_STILL),
            namespaces=namespaces[target],
            topics=_most(topics.get(target, ()), MOST_SHOWN),
        )
        for target, reading in found.items()
    }


def _reading(values: Mapping[str, float]) -> Reading:
    connected, backlog = int(values.get("connected_count", 0.0)), int(values.get("backlog", 0.0))
    apart = int(values.get("disconnected_count", 0.0 if connected else 1.0))
    return Reading(
        replicators=connected + apart,
        connected=connected,
        backlog=backlog,
        stranded=backlog if apart else 0,
        delay_seconds=values.get("delay_in_seconds", 0.0),
        rate_out=values.get("rate_out", 0.0),
        rate_expired=values.get("rate_expired", 0.0),
    )


def together(pages: Iterable[Targets]) -> dict[str, Reading]:
    """Sums the observations of all brokers of a cluster; each topic is on one of them."""
    found: dict[str, Reading] = {}
    for page in pages:
        for target, reading in page.items():
            found[target] = found.get(target, Reading()).plus(reading)
    return found


def trouble(readings: Sequence[Reading], before: Reason | None = None) -> Reason | None:
    """Returns the trouble of a pair by its last observations, the newest at the end; None if there is none, or it is
    too early to judge.

    Trouble (``before``) lasts until the backlog was taken or is being delivered: a topic without new messages is no
    cure.
    """
    if not readings:
        return None
    last = readings[-1]
    if last.rate_expired > 0:
        return Reason.EXPIRING
    cut_off = last.connected < last.replicators and last.stranded > 0
    if cut_off and (
        before is Reason.NOT_CONNECTED or (len(readings) > 1 and last.stranded > readings[-2].stranded > 0)
    ):
        return Reason.NOT_CONNECTED
    far = last.backlog > max(BEHIND_MESSAGES, last.rate_out * BEHIND_SECONDS)
    steps = [now.backlog - then.backlog for then, now in pairwise(readings)][-(READINGS - 1) :]
    several = len(steps) == READINGS - 1
    if several and far and all(step > 0 for step in steps):
        return Reason.FALLING_BEHIND
    catches_up = several and all(step < 0 for step in steps)
    return Reason.FALLING_BEHIND if before is Reason.FALLING_BEHIND and far and not catches_up else None


@dataclass
class _Known:
    at: datetime
    answers: dict[str, dict[str, Reading] | None]
    """By name of the source cluster; None if not all of its brokers answered."""
    readings: dict[tuple[str, str], tuple[Reading, ...]] = field(default_factory=dict)
    troubles: dict[tuple[str, str], Reason | None] = field(default_factory=dict)
    topics: StuckTopics = field(default_factory=StuckTopics)


class ReplicationReadings:
    """The last observations of each instance. Kept for the life of the process."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def due(self, instance: str, now: datetime, *, every: float) -> bool:
        """Whether the last observation of an instance, by UID, is at least this number of seconds old."""
        known = self._known.get(instance)
        return known is None or seconds_since(known.at, now) >= every

    def keep(self, instance: str, now: datetime, answers: Mapping[str, Targets | None], well: Collection[str]) -> None:
        """Stores an observation. Earlier observations of a cluster that is unknown now are discarded, since what
        happened since is not known. ``well`` are clusters whose bookies and metadata store are healthy."""
        old = self._known.get(instance)
        now_known = _Known(now, {source: None if each is None else dict(each) for source, each in answers.items()})
        for source, targets in answers.items():
            for target, reading in (targets or {}).items():
                pair = (source, target)
                readings = (*(old.readings.get(pair, ()) if old is not None else ()), reading)[-READINGS:]
                now_known.readings[pair] = readings
                now_known.troubles[pair] = trouble(readings, old.troubles.get(pair) if old is not None else None)
        if old is not None:
            now_known.topics = old.topics
        now_known.topics.follow(now, _still(answers), well)
        self._known[instance] = now_known

    def answers(self, instance: str) -> Mapping[str, Targets | None]:
        """Returns the last observation by name of the source cluster; empty before the first."""
        known = self._known.get(instance)
        return known.answers if known is not None else {}

    def trouble(self, instance: str, source: str, target: str) -> Reason | None:
        """Returns the trouble of a pair, by the last observations."""
        known = self._known.get(instance)
        return known.troubles.get((source, target)) if known is not None else None

    def topics(self, instance: str) -> StuckTopics:
        """Returns the stalled topics, by the last observations."""
        known = self._known.get(instance)
        return known.topics if known is not None else StuckTopics()

    def forget(self, instance: str) -> None:
        """Discards the observations of an instance that is deleted, or has only one cluster."""
        self._known.pop(instance, None)


def _still(answers: Mapping[str, Targets | None]) -> dict[tuple[str, str], dict[str, int]]:
    """Returns the topics that are stalled between clusters whose brokers all answer: a target that does not answer
    explains a stall."""
    return {
        (source, target): dict(reading.still)
        for source, targets in answers.items()
        for target, reading in (targets or {}).items()
        if reading.still and answers.get(target) is not None
    }
