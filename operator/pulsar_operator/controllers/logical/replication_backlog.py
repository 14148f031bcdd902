"""Reads the replication backlog of the topics of a namespace to, and from, clusters that leave its replication.

The backlog is read from Pulsar topic by topic, so that no undelivered message is lost. See
domain/logical/replication_backlog.py for what counts as delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope
from pulsar_operator.controllers.logical.topic_content import asked_of_listed
from pulsar_operator.domain.conditions import seconds_since
from pulsar_operator.domain.logical.pulsar_names import namespace_path
from pulsar_operator.domain.logical.replication_backlog import Delivery, Position, delivery, is_asked, undelivered
from pulsar_operator.domain.policies import Call
from pulsar_operator.domain.texts import two_digits
from pulsar_operator.ports import PortError

FRESH_SECONDS: Final = 600.0
"""Seconds for which a topic without backlog is not read again while others have one. Before the cluster leaves, each
topic is read again: see ReplicationBacklogs._last_check."""
LAST_MOST: Final = 5000
"""Maximum number of topics read in the last check, in each cluster, and half of the reads that it may take."""
LAST_CHECKS: Final = 10
"""Maximum number of reads of a topic until it has delivered what it had at the first of them."""
LAST_SECONDS: Final = 0.2
"""Seconds between two of these reads."""
ROUND_SECONDS: Final = 60.0
"""Maximum seconds until a topic is read again, per MOST topics."""
AT_ONCE: Final = 8
"""Number of topics read concurrently in each cluster."""
MOST: Final = 1000
"""Number of topics read in one pass in each cluster. The following passes read the others."""
NAMED: Final = 3
"""Maximum number of topics that a message names."""


@dataclass(frozen=True)
class ClusterRemoval:
    """A change of a namespace's replication."""

    namespace: str
    """tenant/namespace."""
    replicating: frozenset[str]
    """Clusters that currently replicate."""
    gone: frozenset[str]
    """Clusters that are to leave the replication."""

    def towards(self, cluster: str) -> frozenset[str]:
        """Returns the clusters for which the backlog of ``cluster`` is checked."""
        return self.replicating - {cluster} if cluster in self.gone else self.gone


@dataclass
class _Known:
    removal: ClusterRemoval
    goals: dict[tuple[str, str], tuple[Position, datetime]] = field(default_factory=dict)
    """The last entry of a topic in a cluster, and when it was read."""
    done: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """Topics in clusters that have delivered all messages they had at a time."""

    def keep(self, cluster: str, topics: Collection[str]) -> None:
        """Forgets the topics of a cluster that no longer exist."""
        there = set(topics)
        for where in [each for each in self.done if each[0] == cluster and each[1] not in there]:
            del self.done[where]

    def is_done(self, where: tuple[str, str], now: datetime, fresh: float) -> bool:
        """Whether a topic has delivered all messages it had less than ``fresh`` seconds ago."""
        moment = self.done.get(where)
        return moment is not None and seconds_since(moment, now) < fresh

    def is_recent(self, where: tuple[str, str], now: datetime, seconds: float) -> bool:
        """Whether a topic is known to have delivered all messages it had at most ``seconds`` ago."""
        return where in self.done and seconds_since(self.done[where], now) <= seconds

    def take(self, where: tuple[str, str], found: Delivery, now: datetime, fresh: float) -> dict[str, int] | None:
        """Returns the undelivered messages of a topic by cluster, of those that it had a short time ago; None if there
        are none."""
        goal, since = self.goals.setdefault(where, (found.last, now))
        waiting = undelivered(found, goal)
        if not waiting and seconds_since(since, now) >= fresh:
            goal, since = self.goals[where] = (found.last, now)
            waiting = undelivered(found, goal)
        if waiting:
            return waiting
        del self.goals[where]
        self.done[where] = since
        return None


class ReplicationBacklogs:
    """Tracks the delivery of the topics of each namespace that clusters are to leave. The state is in memory; a new
    process reads the topics again."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def forget(self, uid: str) -> None:
        """Forgets a namespace that no cluster is leaving."""
        self._known.pop(uid, None)

    async def undelivered(self, uid: str, scope: Scope, removal: ClusterRemoval, now: datetime) -> str | None:
        """Returns the backlog as a message; None if all topics have delivered what they had a short time ago."""
        known = self._known.get(uid)
        if known is None or known.removal != removal:
            known = self._known[uid] = _Known(removal)
        texts = await asyncio.gather(*(_in_cluster(known, scope, each, now) for each in sorted(removal.replicating)))
        if not any(texts):
            checks = (self._last_check(known, scope, each, now) for each in sorted(removal.replicating))
            texts = await asyncio.gather(*checks)
        return "; ".join(filter(None, texts)) or None

    async def _last_check(self, known: _Known, scope: Scope, cluster: str, now: datetime) -> str | None:
        """Returns the backlog in one cluster right before clusters leave, as a message; None if there is none.

        Topics that had delivered everything in an earlier pass may have received more since, and their replicator may
        have stopped. They are read again, those with the oldest read first. A topic with continuous producers is read
        until it has delivered what it had at the first of these reads. A topic that does not fit into one pass must
        have been read in the last minute, or in as many minutes as the number of passes that reading all topics takes.
        """
        towards = known.removal.towards(cluster)
        delivered = [where for where in known.done if where[0] == cluster] if towards else []
        delivered = sorted(
            (each for each in delivered if known.done[each] != now), key=lambda each: (known.done[each], each)
        )
        later, left = delivered[LAST_MOST:], delivered[:LAST_MOST]
        recent = ROUND_SECONDS * (len(delivered) // LAST_MOST + 1)
        unasked = sum(not known.is_recent(each, now, recent) for each in later)
        goals: dict[tuple[str, str], Position] = {}
        waiting: dict[str, dict[str, int]] = {}
        budget = 2 * LAST_MOST
        for attempt in range(LAST_CHECKS):
            if not left or len(left) > budget:
                break
            if attempt:
                await asyncio.sleep(LAST_SECONDS)
            budget -= len(left)
            try:
                found = await each_of(left, lambda each: _topic(scope, cluster, each[1], towards), AT_ONCE)
            except PortError as error:
                return f"the backlog of {cluster} for {', '.join(sorted(towards))} is not known: {error}"
            waiting = {}
            for where, each in zip(left, found, strict=True):
                counts = undelivered(each, goals.setdefault(where, each.last))
                if counts:
                    waiting[where[1]] = counts
                else:
                    known.done[where] = now
            left = [each for each in left if each[1] in waiting]
        for where in left:
            known.goals[where] = (goals[where], now)
            del known.done[where]
        return _describe(cluster, waiting, unasked)


async def _in_cluster(known: _Known, scope: Scope, cluster: str, now: datetime) -> str | None:
    """Returns the backlog in one cluster, as a message; None if there is none."""
    towards = known.removal.towards(cluster)
    if not towards:
        return None
    names = ", ".join(sorted(towards))
    if cluster not in scope.names:
        return f"the backlog of {cluster} for {names} is not known, because {cluster} is no cluster of the instance"
    tenant, name = known.removal.namespace.split("/", 1)
    try:
        listed = await scope.admin.listed(cluster, Call("GET", (*namespace_path(tenant, name), "topics")))
        asked = sorted(filter(is_asked, listed))
        known.keep(cluster, asked)
        fresh = max(FRESH_SECONDS, ROUND_SECONDS * (len(asked) / MOST + 1))
        left = [each for each in asked if not known.is_done((cluster, each), now, fresh)]
        found = await each_of(left[:MOST], lambda each: _topic(scope, cluster, each, towards), AT_ONCE)
    except PortError as error:
        return f"the backlog of {cluster} for {names} is not known: {error}"
    waiting = {
        topic: counts
        for topic, each in zip(left, found, strict=False)
        if (counts := known.take((cluster, topic), each, now, fresh))
    }
    return _describe(cluster, waiting, len(left) - MOST)


async def _topic(scope: Scope, cluster: str, topic: str, towards: frozenset[str]) -> Delivery:
    """Returns the delivery state of a topic. The state of a topic that is listed and not found is unknown: the next
    list shows whether it was deleted. Raises AdminUnreachableError."""
    domain, _, path = topic.partition("://")
    stats = await asked_of_listed(scope, cluster, (domain, *path.split("/", 2)), "internalStats")
    try:
        return delivery(stats, towards)
    except ValueError as error:
        raise AdminUnreachableError(f"topic {topic} gives {error}", status=200) from error


def _describe(cluster: str, waiting: Mapping[str, Mapping[str, int]], unasked: int) -> str | None:
    """Returns a message that names the topics with the largest backlog first; None if no backlog is left to report."""
    if not waiting:
        return f"{unasked} more topics of {cluster} are not checked yet" if unasked > 0 else None
    ranked = sorted(waiting, key=lambda topic: (-sum(waiting[topic].values()), topic))
    texts = [f"{topic} ({_counts(waiting[topic])})" for topic in ranked[:NAMED]]
    more = f" and {len(ranked) - NAMED} more" if len(ranked) > NAMED else ""
    return f"in {cluster} {', '.join(texts)}{more}"


def _counts(counts: Mapping[str, int]) -> str:
    texts = {name: two_digits(count) if count > 0 else "an unknown number" for name, count in counts.items()}
    return ", ".join(f"{count} for {name}" for name, count in sorted(texts.items()))
