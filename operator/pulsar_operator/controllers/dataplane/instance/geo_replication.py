"""Replication between the clusters of an instance: reads the metrics of every broker, and reports a row for each pair
of clusters and condition ReplicationHealthy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.instance import MAX_PAIRS, ReplicationPair, Waiting
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import broker_endpoint, by_name, pulsar_name, serving_endpoint
from pulsar_operator.controllers.core.objects import meta_of
from pulsar_operator.controllers.core.status import condition_of, is_true
from pulsar_operator.controllers.dataplane.objects.topic_unloading import unload
from pulsar_operator.domain.conditions import FALSE, UNKNOWN, ConditionSet, timestamp
from pulsar_operator.domain.dataplane.instance.geo_replication import NAMES, Reading, Targets, readings, together
from pulsar_operator.domain.dataplane.instance.stuck_topics import StuckTopic
from pulsar_operator.domain.dataplane.observed.pod_counters import PATHS
from pulsar_operator.domain.texts import two_digits
from pulsar_operator.ports import AdminEndpoint, Deps, Json, PortError

OBSERVE_SECONDS: Final = 30.0
"""Seconds between two observations: three make a trend, and brokers count their rates once a minute."""
ASK_SECONDS: Final = 5.0
STORES: Final = (ConditionType.METADATA_READY, ConditionType.BOOKKEEPER_READY)
"""Conditions of a cluster that can store messages, and open a topic again."""
AT_ONCE: Final = 8
"""Pages that are read at the same time."""
MAX_NAME: Final = 2048
"""Maximum length of a topic's name in the status."""
SHOWN: Final = 5
"""Number of pairs and clusters that a message names."""
WORDS: Final[Mapping[Reason, str]] = {
    Reason.NOT_CONNECTED: (
        "Replication from {pair}: {apart} of {replicators} replicators are not connected, and their backlog "
        "({backlog} messages) grows. Check the brokers of {target}, and whether the brokers of {source} "
        "can reach the addresses that {target} publishes"
    ),
    Reason.FALLING_BEHIND: (
        "Replication from {pair}: the replication backlog ({backlog} messages) grows, because more messages are "
        "published than replicated ({rate} messages per second). Check the network between both clusters, the "
        "load of the brokers of {target}, and replicatorDispatchRate"
    ),
    Reason.NOT_DELIVERING: (
        "Replication from {pair}: {stuck} topics have a replication backlog, and no message was replicated for 5 "
        "minutes although their replicators are connected: {topics}. The operator unloads each of these topics once an "
        "hour while the bookies of both clusters are ready. If the backlog remains, check the log of the topic's "
        "broker, and whether {target} accepts messages (backlog quotas)"
    ),
    Reason.EXPIRING: (
        "Replication from {pair}: messages expire before they are replicated ({backlog} messages are waiting), "
        "so {target} never receives them. Raise messageTTLSeconds of the replicated namespaces. If {target} is "
        "unavailable, restore it before more messages expire"
    ),
}
"""Messages for each trouble, the worst last."""


async def observe_replication(actor: Actor, instance: Json, clusters: Iterable[Json], conditions: ConditionSet) -> None:
    """Reads all brokers of all clusters if an observation is due, and sets condition ReplicationHealthy if there is
    more than one cluster. The observation is kept in ``deps.replication``."""
    found = list(by_name(clusters).values())
    await _observe(actor.deps, instance["metadata"]["uid"], found)
    if conditions.is_true(ConditionType.CONFIGURATION_STORE_READY):  # else nothing can be unloaded
        await _unload_stuck(actor, instance["metadata"]["uid"], found)
    await _report(actor, instance, conditions)


async def _observe(deps: Deps, uid: str, found: list[Json]) -> None:
    if len(found) < 2 or deps.counters is None:
        deps.replication.forget(uid)
        return
    now = deps.clock.now()
    if not deps.replication.due(uid, now, every=OBSERVE_SECONDS):
        return
    limit = asyncio.Semaphore(AT_ONCE)
    answers = await asyncio.gather(*(_cluster(deps, each, limit) for each in found))
    well = {pulsar_name(each) for each in found if all(is_true(each, kind) for kind in STORES)}
    deps.replication.keep(uid, now, dict(zip(map(pulsar_name, found), answers, strict=True)), well)


async def _cluster(deps: Deps, cluster: Json, limit: asyncio.Semaphore) -> Targets | None:
    """Returns the sum over all brokers of a cluster; None if one of them does not answer: its topics are not known
    then."""
    endpoint = serving_endpoint(cluster)
    if endpoint is None or deps.reachability.of(endpoint.url).since is not None:
        return None
    try:
        brokers = await deps.admin.call(endpoint, "GET", ("brokers",), deadline=ASK_SECONDS)
        if not brokers:
            return None
        return together(await asyncio.gather(*(_page(deps, endpoint, each, limit) for each in brokers)))
    except PortError:
        return None


async def _page(deps: Deps, endpoint: AdminEndpoint, broker: str, limit: asyncio.Semaphore) -> Targets:
    assert deps.counters is not None
    async with limit:
        url = f"{broker_endpoint(endpoint, broker).url}{PATHS[Component.BROKER]}"
        return readings((await deps.counters.read(url, NAMES)).samples)


async def _unload_stuck(actor: Actor, uid: str, clusters: list[Json]) -> None:
    """Unloads topics that are connected and deliver nothing, each topic once an hour."""
    deps, topics = actor.deps, actor.deps.replication.topics(uid)
    for source, names in topics.due().items():
        found = [each for each in clusters if pulsar_name(each) == source]
        if not actor.act or any(meta.paused or meta.dry_run for meta in map(meta_of, found)):
            actor.pending += [
                (f"Unload {name} in {source}, because none of its messages is replicated") for name in names
            ]
            continue
        tried = await unload(deps, serving_endpoint(found[0]) if found else None, names)
        for name in names:
            topics.unloaded(source, name, deps.clock.now())
        done, failed = tried.done, tried.failures
        text = (
            f"Unloaded {', '.join(done) or 'nothing'} in {source}, because none of their messages was replicated for "
            "5 minutes"
        )
        await actor.warn(
            Reason.NOT_DELIVERING,
            (f"{text}. These topics could not be unloaded: {'; '.join(failed)}") if failed else text,
        )


def replication_rows(deps: Deps, uid: str, before: Iterable[ReplicationPair]) -> list[ReplicationPair] | None:
    """Returns a row for each pair of an instance's clusters as last observed; ``before`` are the stored ones. None if
    there is none."""
    answers = deps.replication.answers(uid)
    stored = {(row.source, row.target): row for row in before}
    now = timestamp(deps.clock.now())
    rows = [
        _row(source, target, reading, stored.get((source, target)), now)
        for source, targets in answers.items()
        for target, reading in (targets or {}).items()
    ]
    # What a cluster said before it fell silent says nothing of now, but that there are such pairs.
    rows += [
        _row(source, target, None, row, now)
        for (source, target), row in stored.items()
        if source in answers and answers[source] is None
    ]
    return sorted(rows, key=lambda row: (row.source, row.target))[:MAX_PAIRS] or None


def _row(source: str, target: str, reading: Reading | None, old: ReplicationPair | None, now: str) -> ReplicationPair:
    connected = None if reading is None else reading.connected == reading.replicators
    return ReplicationPair(
        source=source,
        target=target,
        connected=connected,
        replicators=reading.replicators if reading else None,
        backlog=two_digits(reading.backlog) if reading else None,
        delay_seconds=two_digits(reading.delay_seconds) if reading else None,
        rate_out=two_digits(reading.rate_out) if reading else None,
        since=old.since if old is not None and old.connected == connected and old.since else now,
        namespaces=_waiting(reading.most_in() if reading else ()),
        topics=_waiting(reading.topics if reading else ()),
    )


def _waiting(rows: Iterable[tuple[str, int]]) -> list[Waiting]:
    """Returns the waiting topics in the order of the reported figures, so that a count that changes by a message
    changes nothing."""
    found: dict[str, Waiting] = {}
    for name, backlog in rows:  # the largest first; names that are cut may be alike
        found.setdefault(name[:MAX_NAME], Waiting(name=name[:MAX_NAME], backlog=two_digits(backlog)))
    return sorted(found.values(), key=lambda each: (-each.backlog, each.name))


async def _report(actor: Actor, instance: Json, conditions: ConditionSet) -> None:
    """Sets the condition, and records an event for each new trouble."""
    deps, uid, kind = actor.deps, instance["metadata"]["uid"], ConditionType.REPLICATION_HEALTHY
    answers = deps.replication.answers(uid)
    if not answers:
        return
    stuck: dict[tuple[str, str], list[StuckTopic]] = {}
    for topic in deps.replication.topics(uid).stuck():
        stuck.setdefault((topic.source, topic.target), []).append(topic)
    found = [
        (each, source, target, reading)
        for source, targets in answers.items()
        for target, reading in (targets or {}).items()
        for each in _troubles(deps.replication.trouble(uid, source, target), (source, target) in stuck)
    ]
    silent = [source for source, targets in answers.items() if targets is None]
    if found:
        reason = [each for each in WORDS if any(each is one[0] for one in found)][-1]
        text = ". ".join(_message(*each, stuck.get((each[1], each[2]), [])) for each in found[:SHOWN])
        known = condition_of(instance, kind)
        conditions.set(kind, FALSE, reason, text)
        if known is None or known["reason"] != reason:
            await actor.warn(reason, text)
    elif silent:
        text = (
            f"The replication from {', '.join(silent[:SHOWN])} is not known, because brokers do not answer or are "
            "not ready"
        )
        conditions.set(kind, UNKNOWN, Reason.ADMIN_UNREACHABLE, text)
    else:
        total = sum(reading.replicators for targets in answers.values() for reading in (targets or {}).values())
        text = "No messages are replicated yet" if not total else "All messages are replicated or are being replicated"
        conditions.set(kind, True, Reason.REPLICATING, text)


def _troubles(pair: Reason | None, stuck: bool) -> list[Reason]:
    """Returns the trouble of a pair: of the pair as a whole, and of single topics."""
    return [*([pair] if pair is not None else []), *([Reason.NOT_DELIVERING] if stuck else [])]


def _message(trouble: Reason, source: str, target: str, reading: Reading, stuck: list[StuckTopic]) -> str:
    return WORDS[trouble].format(
        pair=f"{source} to {target}",
        source=source,
        target=target,
        apart=reading.replicators - reading.connected,
        replicators=reading.replicators,
        backlog=two_digits(reading.backlog),
        rate=two_digits(reading.rate_out),
        stuck=len(stuck),
        topics=", ".join(_topic(each) for each in stuck[:SHOWN]),
    )


def _topic(stuck: StuckTopic) -> str:
    return f"{stuck.topic} (unloaded {timestamp(stuck.unloaded)})" if stuck.unloaded is not None else stuck.topic
