"""Finds content that deletionPolicy Retain left in Pulsar after its object was deleted. Used by deletion.py.

An object with Retain has no finalizer, so the operator does not see its deletion. But what the object managed still
names it in Pulsar: the owner record (owner_records.py) is a property of the topic or the namespace. Before a tenant or
a namespace is deleted by force, the operator searches it for records of objects that do not release their content. The
deletionPolicy of the parent at the time of their deletion does not matter. Content that Pulsar no longer has does not
block the deletion, and content that a successor manages has a record that names the successor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_RETAINED, Kind, Reason
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.core.objects import meta_of
from pulsar_operator.controllers.logical.deletion_results import Progress, keep
from pulsar_operator.controllers.logical.owner_records import TopicRecord, parsed
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope
from pulsar_operator.controllers.logical.topic_inventory import TopicInventory, read_inventory
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.owners import Owner
from pulsar_operator.domain.logical.pulsar_names import is_system_topic, namespace_path, topic_name, topic_path
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import CUSTOM, Deps, Json, Key, RefusedError

READS = 2000
"""Maximum number of topic records that one pass reads. The next pass continues with the others."""
SHOWN = 5


@dataclass(frozen=True, order=True, slots=True)
class Recorded:
    """A namespace or topic in Pulsar and the object that manages it."""

    name: str
    """Full name in Pulsar, of a namespace or a topic."""
    owner: Owner | None = field(compare=False)
    text: str
    """The owner as text, or why the record cannot be read."""


@dataclass(frozen=True, slots=True)
class _Topic:
    place: tuple[str, str]
    name: str
    clusters: tuple[str, ...]

    @property
    def full(self) -> str:
        return topic_name(True, *self.place, self.name)


@dataclass
class _Records:
    """The records of the topics inside one parent. No object starts to manage anything inside a parent that is being
    deleted, so a record that was read stays valid while the topic exists."""

    uid: str
    topics: dict[str, Recorded | None] = field(default_factory=dict)
    """Records by full name; None if no object manages the topic."""


class RetainedContent:
    """Finds content of objects that no longer exist inside a tenant or a namespace."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._records: dict[Key, _Records] = {}

    def forget(self, key: Key) -> None:
        """Forgets the records of a parent that no longer exists."""
        self._records.pop(key, None)

    async def blocker(
        self, kind: Kind, obj: Json, name: str, scope: Scope, giving_up: AbstractSet[Key]
    ) -> Blocker | Progress | None:
        """Returns what blocks the forced deletion of a raw object, which is called ``name`` in Pulsar; None if nothing
        does.

        ``giving_up`` are objects that are being deleted together with their content. Raises ObstacleError, PortError.
        """
        meta = meta_of(obj)
        key = Key(kind, meta.namespace, meta.name)
        records = self._records.get(key)
        if records is None or records.uid != meta.uid:
            records = self._records[key] = _Records(meta.uid)
        try:
            found, topics = await self._listed(kind, name, scope)
        except RefusedError as error:
            text = f"The content of {name} cannot be read, so the forced deletion could destroy retained content"
            return Blocker(Reason.REJECTED_BY_PULSAR, f"{text}: {error}")
        records.topics = {topic.full: records.topics[topic.full] for topic in topics if topic.full in records.topics}
        unread = [topic for topic in topics if topic.full not in records.topics]
        found += await self._read(scope, records, unread[:READS])
        if len(unread) > READS:
            return Progress(
                f"The operator still has to search {len(unread) - READS} topics of {name} for content that "
                "deletionPolicy Retain left in Pulsar"
            )
        found += [record for record in records.topics.values() if record is not None]
        left = sorted(await self._not_given_up(found, giving_up))
        answer = consent(meta.uid, left)
        if not left or meta.annotations.get(ANNOTATION_CONFIRM_RETAINED) == answer:
            return None
        return Blocker(Reason.NOT_EMPTY, _text(kind, obj, name, left, answer))

    async def _listed(self, kind: Kind, name: str, scope: Scope) -> tuple[list[Recorded], list[_Topic]]:
        """Returns the namespaces of a tenant that have an owner record, and all persistent topics."""
        names = [name]
        if kind is Kind.TENANT:
            answer = await scope.admin.find(Call("GET", ("namespaces", name)))
            names = sorted(answer[1] or ()) if answer is not None else []
        records: list[Recorded] = []
        topics: list[_Topic] = []

        async def check(full: str) -> None:
            tenant, _, local = full.partition("/")
            found = await scope.admin.find(Call("GET", namespace_path(tenant, local)))
            if found is None or found[1].get("deleted") is True:
                return  # its deletion has begun, and Pulsar lists nothing of it any more
            text = (found[1].get("properties") or {}).get(OWNER_PROPERTY)
            if text and kind is Kind.TENANT:
                records.append(_recorded(f"namespace {full}", text))
            inventory = await read_inventory(scope, tenant, local, left=True)
            if inventory is not None:
                topics.extend(_topics(scope, (tenant, local), inventory))

        await each_of(names, check)
        return records, topics

    async def _read(self, scope: Scope, records: _Records, topics: Sequence[_Topic]) -> list[Recorded]:
        """Reads the records of topics. Returns those that cannot be read."""
        unreadable: list[Recorded] = []

        async def read(topic: _Topic) -> None:
            try:
                owner = await TopicRecord(scope, topic_path(True, *topic.place, topic.name), topic.clusters).read()
            except ObstacleError as obstacle:
                unreadable.append(Recorded(topic.full, None, obstacle.message))
                return
            records.topics[topic.full] = Recorded(topic.full, owner, owner.text) if owner is not None else None

        await each_of(topics, read)
        return unreadable

    async def _not_given_up(self, found: Iterable[Recorded], giving_up: Collection[Key]) -> list[Recorded]:
        """Returns the content that its owner does not release, according to the API server. Raises PortError."""
        left: list[Recorded] = []

        async def check(record: Recorded) -> None:
            owner = record.owner
            key = Key(owner.kind, owner.namespace, owner.name) if owner is not None else None
            if key is None or key not in giving_up or not await self._gives_up(key, record.name):
                left.append(record)

        await each_of(list(found), check)
        return left

    async def _gives_up(self, key: Key, name: str) -> bool:
        obj = await self._deps.kube.get(CUSTOM[key.kind], key.namespace, key.name)
        managed = ((obj or {}).get("status") or {}).get("pulsarName")
        return obj is not None and gives_up(obj) and managed == name.removeprefix("namespace ")


def gives_up(obj: Json) -> bool:
    """Whether a raw object is being deleted by force together with its content."""
    meta = meta_of(obj)
    forced = (obj.get("spec") or {}).get("deletionPolicy") == DeletionPolicy.FORCE_DELETE.value
    return meta.deleting and forced and not (meta.paused or meta.dry_run)


def consent(uid: str, left: Iterable[Recorded]) -> str:
    """Returns the value of annotation confirm-retained that allows the operator to destroy exactly this content."""
    lines = sorted(f"{record.name} {record.text}" for record in left)
    digest = hashlib.sha256("\n".join((uid, *lines)).encode()).hexdigest()
    return f"{len(lines)}-{digest[:8]}"


def _recorded(name: str, text: object) -> Recorded:
    try:
        owner = parsed(text, name)
    except ObstacleError as obstacle:
        return Recorded(name, None, obstacle.message)
    return Recorded(name, owner, owner.text if owner is not None else "")


def _topics(scope: Scope, place: tuple[str, str], inventory: TopicInventory) -> list[_Topic]:
    """Returns the persistent topics with the clusters that have them. Non-persistent topics store nothing.

    Raises AdminUnreachableError if a cluster does not answer, since its topics are then unknown.
    """
    if inventory.unreachable:
        first = inventory.unreachable[0]
        why = f"The retained content of namespace {'/'.join(place)} is not known: {scope.admin.why(first)}"
        raise AdminUnreachableError(why).of(first)
    holders: dict[str, list[str]] = {}
    for cluster in sorted(inventory.topics):
        for name in {*inventory.topics[cluster], *inventory.partitioned.get(cluster, ())}:
            holders.setdefault(name, []).append(cluster)
    return [
        _Topic(place, name, tuple(clusters)) for name, clusters in sorted(holders.items()) if not is_system_topic(name)
    ]


def _text(kind: Kind, obj: Json, name: str, left: Sequence[Recorded], answer: str) -> str:
    meta = obj["metadata"]
    shown = ", ".join(f"{record.name} ({record.text})" for record in left[:SHOWN])
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    listing = "pulsar-admin namespaces list" if kind is Kind.TENANT else "pulsar-admin topics list"
    return (
        f"{name} contains {len(left)} objects that deletionPolicy Retain left in Pulsar: {shown}{more}. The "
        f"custom resources in parentheses managed them and no longer exist. The forced deletion of {name} would "
        f"destroy these objects. To list the content of {name}, run: {listing} {name}. To keep {name} with all of "
        f"its content, run: {keep(kind, obj)}. To destroy the retained objects, run: kubectl -n "
        f"{meta['namespace']} annotate --overwrite {kind.value.lower()}/{meta['name']} "
        f"{ANNOTATION_CONFIRM_RETAINED}={answer}"
    )
