"""Lists the topics of a set in Pulsar, one list for each cluster, and finds topics that other objects declare.

Used by controller.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.topic_set import PulsarTopicSetSpec, PulsarTopicSetStatus
from pulsar_operator.controllers.core.index import key_of, references
from pulsar_operator.controllers.core.parent_resolution import ParentResolver, location_of
from pulsar_operator.controllers.core.watch_cache import DirectReader, name_of, reader_of
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.owner_records import TopicRecord
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope
from pulsar_operator.controllers.logical.topic_inventory import TopicInventory, read_inventory
from pulsar_operator.controllers.topicset.removal import Removal, there
from pulsar_operator.controllers.topicset.round import NO_PARTITION, Listing
from pulsar_operator.controllers.topicset.topic_schedule import PERIOD_SECONDS, SMALL, TopicSchedule
from pulsar_operator.domain.logical.owners import Owner, owner_of
from pulsar_operator.domain.logical.pulsar_names import (
    is_system_namespace,
    is_system_topic,
    split_partition,
    topic_path,
)
from pulsar_operator.domain.logical.topic_set import (
    Duplicate,
    Left,
    Rivals,
    Selection,
    contested,
    rivals_of,
    taken_by,
)
from pulsar_operator.ports import Json

SetPass = LogicalPass[Any, PulsarTopicSetStatus]

LIST_SECONDS = PERIOD_SECONDS / 2
"""Seconds for which a list of a larger set is used. The set updates it with its own changes. A small set is listed in
each pass."""
RECORDS = 500
"""Maximum number of owner records of topics read in a pass."""
AT_ONCE = 8
UNREACHABLE_SECONDS = 15.0
UNREACHABLE_LIMIT_SECONDS = 240.0
"""A cluster that did not answer is asked again after UNREACHABLE_SECONDS, then at growing intervals up to this, in
seconds."""


@dataclass
class Outage:
    """A cluster that does not answer."""

    since: datetime
    wait: float = UNREACHABLE_SECONDS
    until: float = 0.0
    """Time at which it is asked again, in seconds since the epoch."""


@dataclass
class Known:
    """The in-memory state of one set."""

    schedule: TopicSchedule
    removal: Removal
    selection: Selection
    generation: int
    counted: bool = False
    """Whether this process has scheduled the topics of the set."""
    listing: Listing | None = None
    outages: dict[str, Outage] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)
    """Hash of the template that all topics were given, by cluster."""
    rivals: frozenset[str] = frozenset()
    """UIDs of the other sets to which ``recorded`` applies."""
    recorded: dict[str, Owner | None] = field(default_factory=dict)
    """The set that Pulsar's record names, for each topic that several sets select; None if it names none."""
    broken: int = 0
    """Number of consecutive rounds that ended because Pulsar stopped answering."""

    @property
    def small(self) -> bool:
        """Whether the set is small enough to be listed in each pass."""
        return max(len(self.selection.names), len(self.schedule.each), len(self.removal.schedule)) <= SMALL


async def list_topics(
    ctx: SetPass, scope: Scope, known: Known, place: tuple[str, str], left: Left, now: float
) -> Listing:
    """Returns the topics of the set in Pulsar. Raises ObstacleError if the namespace does not exist.

    A cluster that does not answer is listed as unreachable.
    """
    listing = known.listing
    if listing is not None and not known.small:
        again = any(outage.until <= now for outage in known.outages.values())
        if not again and now - listing.at < LIST_SECONDS:
            return listing
    waiting = {name for name, outage in known.outages.items() if outage.until > now}
    inventory: TopicInventory | None
    try:
        inventory = await read_inventory(scope, *place, without=waiting, left=bool(left.number))
    except AdminUnreachableError:
        names = tuple(cluster.name for cluster in ctx.before.clusters) or scope.admin.usable
        inventory = TopicInventory(names, {}, names)
    if inventory is None:
        text = f"Namespace {'/'.join(place)} does not exist in Pulsar. The set is applied once it exists"
        raise ObstacleError(Reason.PARENT_NOT_READY, text, known=True)
    for name in [name for name in known.outages if name not in inventory.unreachable]:
        del known.outages[name]
    for name in inventory.unreachable:
        if name in waiting:
            continue
        outage = known.outages.get(name)
        if outage is None:
            outage = known.outages[name] = Outage(ctx.deps.clock.now())
        else:
            outage.wait = min(outage.wait * 2, UNREACHABLE_LIMIT_SECONDS) if outage.until else outage.wait
        outage.until = now + outage.wait
    known.listing = _listing(known.selection, _without_system_topics(inventory, place), left, now)
    return known.listing


def _without_system_topics(inventory: TopicInventory, place: tuple[str, str]) -> TopicInventory:
    """Returns the inventory without Pulsar's system topics: a set neither manages nor deletes them."""
    own = (lambda name: True) if is_system_namespace(*place) else is_system_topic
    return replace(
        inventory,
        topics={
            cluster: {name: count for name, count in counts.items() if not own(name)}
            for cluster, counts in inventory.topics.items()
        },
        partitioned={
            cluster: frozenset(name for name in names if not own(name))
            for cluster, names in inventory.partitioned.items()
        },
    )


def _listing(selection: Selection, inventory: TopicInventory, left: Left, now: float) -> Listing:
    """Returns the part of a topic inventory that concerns the set."""
    own: dict[str, dict[str, int]] = {}
    orphans: dict[str, dict[str, list[str]]] = {}
    partitioned = selection.spec.template.partitions is not None
    for cluster, counts in inventory.topics.items():
        here: dict[str, int] = {}
        lost = orphans.setdefault(cluster, {})
        if cluster not in inventory.further:
            own[cluster] = here
        for name, count in counts.items():
            # Of topics without partitions none can be left: what is named like one is another client's own.
            part = split_partition(name) if left.number and partitioned else None
            if part is not None and left.has(part[0]):
                lost.setdefault(part[0], []).append(name)
            elif cluster in inventory.further:
                if left.number and left.has(name):
                    lost[name] = [f"{name}-partition-{i}" for i in range(count)] if count else [name]
            elif _concerns(selection, left, name):
                here[name] = count
        bare = (name for name in inventory.partitioned.get(cluster, ()) if name not in counts)
        here.update({name: NO_PARTITION for name in bare if _concerns(selection, left, name)})
    for name in {name for here in own.values() for name, count in here.items() if count == NO_PARTITION}:
        # The number of partitions is shared; they come into being where another client uses them.
        number = max(here.get(name, NO_PARTITION) for here in own.values())
        for here in own.values():
            if here.get(name) == NO_PARTITION and number > 0:
                here[name] = number
            elif selection.by_pattern:
                here.pop(name, None)
    return Listing(tuple(sorted(own)), inventory.unreachable, own, now, orphans)


def _concerns(selection: Selection, left: Left, name: str) -> bool:
    if selection.by_pattern and split_partition(name) is not None:
        return False  # a partition whose topic is gone: Pulsar takes no policies for it
    return name in selection or (bool(left.number) and left.has(name))


async def taken_by_others(ctx: SetPass, scope: Scope, known: Known, listing: Listing, left: Left) -> Mapping[str, str]:
    """Returns the topics that a PulsarTopic or a prior set declares, with that object, according to the watch
    caches."""
    reader = reader_of(ctx.deps)
    namespace = scope.chain[0]
    topics = {name: f"{key.namespace}/{key.name}" for name, key in (await reader.named(namespace, Kind.TOPIC)).items()}
    own = _duplicate(ctx.obj)
    sets = []
    at = key_of(Kind.NAMESPACE, namespace)
    for other in await reader.every(Kind.TOPIC_SET, allowed_by=namespace):
        duplicate, selection = _duplicate(other), _selection(other)
        if at in references(Kind.TOPIC_SET, other) and duplicate.uid != own.uid and selection is not None:
            sets.append((duplicate, selection))
    if not topics and not sets:
        return {}
    rivals = rivals_of(own, sets)
    names = known.selection.names if not known.selection.by_pattern else listing.anywhere()
    names = [name for name in names if name in known.selection]
    here = listing.anywhere()
    asked = contested((name for name in names if name in here), topics, rivals) if sets else []
    recorded = await _recorded(ctx, scope, known, listing, asked, rivals)
    taken = dict(taken_by(names, topics, rivals, own=own.text, recorded=recorded))
    # A topic that left is left to the object that declares it by now, older or not.
    gone = [name for name in listing.anywhere() if left.number and left.has(name)]
    return taken | dict(taken_by(gone, topics, _keeping(sets)))


async def _recorded(
    ctx: SetPass, scope: Scope, known: Known, listing: Listing, names: Collection[str], rivals: Rivals
) -> Mapping[str, str | None]:
    """Returns the set that Pulsar's record names for topics that other sets select too, as namespace/name; "" if it
    names none, None if it is unknown.

    Each record is read once while the other sets are the same: only a change of these sets, or of a PulsarTopic,
    changes the manager of a topic. A pass reads at most RECORDS records.
    """
    who = frozenset(duplicate.uid for duplicate, _ in (*rivals.older, *rivals.younger))
    if known.rivals != who:
        known.rivals, known.recorded = who, {}
    own, place = owner_of(ctx.obj), scope.place
    each = known.schedule.each
    new = [name for name in names if name not in known.recorded and not (name in each and each[name].recorded)]
    pending = iter(new[:RECORDS])

    async def work() -> None:
        for name in pending:
            try:
                found = await TopicRecord(scope, topic_path(True, *place, name), listing.clusters).read()
            except (AdminUnreachableError, ObstacleError):
                continue
            known.recorded[name] = found if found is not None and found.kind is Kind.TOPIC_SET else None

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    out: dict[str, str | None] = {}
    for name in names:
        if name in each and each[name].recorded:
            out[name] = f"{own.namespace}/{own.name}"
        elif name in known.recorded:
            owner = known.recorded[name]
            out[name] = f"{owner.namespace}/{owner.name}" if owner is not None else ""
        else:
            out[name] = None
    return out


async def declared_by_others(ctx: SetPass, listing: Listing, left: Left) -> Mapping[str, str]:
    """Returns the topics that left the set, still exist, and are declared by another object, with that object.

    This is for a deletion, so the API server is asked: a topic that a cache lacks would be deleted. An object that
    refers to another PulsarNamespace counts if that is, or may be, the same namespace of Pulsar. Raises PortError.
    """
    gone = there(listing, left) if left.number else set()
    if not gone:
        return {}
    resolver, reader = ParentResolver(ctx.deps), DirectReader(ctx.deps)
    site, own = location_of(Kind.TOPIC_SET, ctx.obj), _duplicate(ctx.obj)
    topics: dict[str, str] = {}
    for other in await reader.every(Kind.TOPIC):
        name = name_of(other)
        if name in gone and name not in topics and await resolver.may_be_same(site, location_of(Kind.TOPIC, other)):
            topics[name] = _duplicate(other).text
    sets: list[tuple[Duplicate, Selection]] = []
    for other in await reader.every(Kind.TOPIC_SET):
        duplicate, selection = _duplicate(other), _selection(other)
        if duplicate.uid == own.uid or selection is None:
            continue
        if await resolver.may_be_same(site, location_of(Kind.TOPIC_SET, other)):
            sets.append((duplicate, selection))
    return dict(taken_by(gone, topics, _keeping(sets)))


def _keeping(sets: list[tuple[Duplicate, Selection]]) -> Rivals:
    """Returns the sets that keep topics which leave this one, whether or not they are older.

    A set by pattern declares no topic. Its topics are recorded for it and are not deleted for that reason, see
    removal.py.
    """
    return Rivals(older=[each for each in sets if not each[1].by_pattern])


def _selection(obj: Json) -> Selection | None:
    """Returns the selection of a set; None if its specification cannot be read."""
    try:
        return Selection(PulsarTopicSetSpec.model_validate(obj.get("spec") or {}))
    except ValidationError:
        return None


def _duplicate(obj: Json) -> Duplicate:
    meta = obj["metadata"]
    return Duplicate(str(meta.get("creationTimestamp") or ""), str(meta["uid"]), f"{meta['namespace']}/{meta['name']}")
