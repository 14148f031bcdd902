"""Caches the custom resources around the object of a pass: parents, clusters, duplicates, dependents.

A pass reads its own object from the API server. Related objects come from the watches, so that ten thousand topics do
not read their namespace ten thousand times. The cache may lag by the delay of an event, and the event then runs again
whatever depends on it. Fed by engine.py. Without a cache (tests) every read is a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import PARENT_FIELD, allows_references, key_of, references
from pulsar_operator.ports import CUSTOM, Deps, Json, Key, ReaderPort

T = TypeVar("T")

FIRST_LIST_SECONDS: Final = 20.0
"""Seconds after the start for which a pass waits for the running lists instead of requesting them itself. Otherwise
every namespace that counts its topics would load the topics of all namespaces into memory."""
KEPT = frozenset(Kind) - {Kind.TOPIC}
"""Kinds whose objects are kept as a whole: others read them, and there are few compared to topics."""


def name_of(obj: Json) -> str:
    """Returns the name in Pulsar: spec.name, or metadata.name if it is unset."""
    spec = obj.get("spec")
    given = spec.get("name") if isinstance(spec, dict) else None
    return str(given or obj["metadata"]["name"])


Place = tuple[Kind, str | None]
"""A kind and a watched Kubernetes namespace; None if all are watched."""

Identity = tuple[Kind, frozenset[Key], str]
"""Kind, parents, name in Pulsar. Objects of different parents for the same object of Pulsar have different identities:
only one of these parents may have children."""


def identity_of(kind: Kind, obj: Json) -> Identity:
    """Returns the identity that an object of the logical plane declares."""
    return kind, references(kind, obj), name_of(obj)


def _counts(target: Json, namespace: str) -> bool:
    """Whether children in a Kubernetes namespace count."""
    return allows_references(target, target_namespace=target["metadata"]["namespace"], from_namespace=namespace)


class DirectReader:
    """Reads from the API server every time."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """See ports.ReaderPort."""
        return await self._deps.kube.get(CUSTOM[kind], namespace, name)

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """See ports.ReaderPort."""
        namespace: str | None = None
        # Other Kubernetes namespaces are only read where the target allows them.
        if allowed_by is not None and not (allowed_by.get("spec") or {}).get("allowedKubernetesNamespaces"):
            namespace = allowed_by["metadata"]["namespace"]
        return await self._deps.kube.list(CUSTOM[kind], namespace)

    async def duplicates_of(self, obj: Json) -> list[Key]:
        """See ports.ReaderPort."""
        kind = Kind(obj["kind"])
        own = identity_of(kind, obj)
        found = {key_of(kind, each) for each in await self.every(kind) if identity_of(kind, each) == own}
        return sorted(found - {key_of(kind, obj)}, key=str)

    async def dependents(self, target: Json, child: Kind) -> int:
        """See ports.ReaderPort."""
        return len(await self._children(target, child))

    async def named(self, target: Json, child: Kind) -> dict[str, Key]:
        """See ports.ReaderPort."""
        return {name_of(obj): key_of(child, obj) for obj in await self._children(target, child)}

    async def _children(self, target: Json, child: Kind) -> list[Json]:
        key = key_of(Kind(target["kind"]), target)
        objects = await self.every(child, allowed_by=target)
        named = (obj for obj in objects if key in references(child, obj))
        return [obj for obj in named if _counts(target, obj["metadata"]["namespace"])]

    def listed(self, key: Key) -> Json | None:
        """See ports.ReaderPort."""
        return None


class WatchCache:
    """Answers from the watches.

    A kind that was not listed yet in a Kubernetes namespace is unknown there, not absent. If an answer depends on it,
    the API server is asked; if that does not answer, PortError is raised.
    """

    def __init__(self, direct: ReaderPort) -> None:
        self._direct = direct
        self._objects: dict[Kind, dict[Key, Json]] = {kind: {} for kind in KEPT}
        self._names: dict[Key, Identity] = {}
        self._named: defaultdict[Identity, set[Key]] = defaultdict(set)
        self._parents: dict[Key, frozenset[Key]] = {}
        self._children: defaultdict[tuple[Key, Kind], Counter[str]] = defaultdict(Counter)
        """Number of children of a kind by parent and Kubernetes namespace. It is updated incrementally, since ten
        thousand children would otherwise be counted at every change of one."""
        self._synced: set[Place] = set()
        self._whole: set[Kind] = set()
        """Kinds of which every place is synced."""
        self._places: frozenset[Place] = frozenset((kind, None) for kind in Kind)
        self._coming: dict[Place, asyncio.Event] = {}
        self._waited_until = 0.0
        self._listed: dict[Key, tuple[str, bytes]] = {}
        """Version and JSON of the objects of the first list that are not reconciled yet, for kinds that are not kept.
        Text takes a quarter of the memory."""
        self._versions: dict[Key, str | None] = {}
        """Version that the watches reported of such objects before that list; None if deleted."""

    def expect(self, places: Iterable[Place]) -> None:
        """Announces the first lists of all kinds in all watched Kubernetes namespaces (None for all). For a while,
        reads of them wait for the list."""
        self._places = frozenset(places)
        self._coming = {place: asyncio.Event() for place in self._places}
        self._waited_until = asyncio.get_running_loop().time() + FIRST_LIST_SECONDS

    def unlisted(self, place: Place) -> None:
        """Records that a list failed and is retried. No pass waits for it any longer."""
        if place in self._coming:
            self._coming.pop(place).set()

    def _needed(self, kind: Kind, target: Json | None) -> frozenset[Place]:
        """Returns the places that must have been listed to know the objects of a kind: all, or those that ``target``
        allows to refer to it."""
        return frozenset(
            (each, namespace)
            for each, namespace in self._places
            if each is kind and (target is None or namespace is None or _counts(target, namespace))
        )

    async def _is_synced(self, kind: Kind, target: Json | None = None) -> bool:
        """Whether all objects of a kind are known. Waits for its first lists if they are running."""
        return kind in self._whole or await self._are_synced(self._needed(kind, target))

    async def _are_synced(self, places: frozenset[Place]) -> bool:
        coming = [self._coming[place] for place in places - self._synced if place in self._coming]
        if coming:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._waited_until):
                    for each in coming:
                        await each.wait()
        return places <= self._synced

    def first_list(self, kind: Kind, objects: Iterable[Json]) -> None:
        """Keeps the objects of the first list, so that each is reconciled once without a read."""
        for obj in objects if kind not in KEPT else ():
            key, version = key_of(kind, obj), _version(obj)
            if version is not None and self._versions.get(key, version) == version:
                self._listed[key] = version, json.dumps(_lean(kind, obj)).encode()

    def listed(self, key: Key) -> Json | None:
        """See ports.ReaderPort."""
        found = self._listed.pop(key, None)
        obj: Json | None = json.loads(found[1]) if found is not None else None
        return obj

    def _heard(self, key: Key, version: str | None) -> None:
        if key.kind not in self._whole:
            self._versions[key] = version
        found = self._listed.get(key)
        if found is not None and found[0] != version:
            del self._listed[key]

    def update(self, kind: Kind, obj: Json) -> None:
        """Stores the state of an object. The caller (world.py) ensures that it is not an older state."""
        key = key_of(kind, obj)
        if kind not in KEPT:
            self._heard(key, _version(obj))
        if kind in KEPT:
            self._objects[kind][key] = _lean(kind, obj)
        self._index(key, identity_of(kind, obj), references(kind, obj) if kind in PARENT_FIELD else frozenset())

    def remove(self, key: Key) -> None:
        """Removes an object that no longer exists."""
        if key.kind in KEPT:
            self._objects[key.kind].pop(key, None)
        else:
            self._heard(key, None)
        self._index(key, None, frozenset())

    def synced(self, kind: Kind, namespace: str | None = None) -> None:
        """Records that every object of the kind, in a watched Kubernetes namespace or in all, was stored once."""
        place = kind, namespace
        if place not in self._synced:
            self._synced.add(place)
            if place in self._coming:
                self._coming.pop(place).set()
            if self._needed(kind, None) <= self._synced:
                self._whole.add(kind)
                self._versions = {key: version for key, version in self._versions.items() if key.kind is not kind}

    def _index(self, key: Key, name: Identity | None, parents: frozenset[Key]) -> None:
        before = self._names.pop(key, None)
        if before is not None and before != name:
            _discard(self._named, before, key)
        if name is not None:
            self._names[key] = name
            self._named[name].add(key)
        old = self._parents.pop(key, frozenset())
        for parent in old - parents:
            self._one_less((parent, key.kind), key.namespace)
        for parent in parents - old:
            self._children[parent, key.kind][key.namespace] += 1
        if parents:
            self._parents[key] = parents

    def _one_less(self, at: tuple[Key, Kind], namespace: str) -> None:
        counted = self._children[at]
        counted[namespace] -= 1
        if not counted[namespace]:
            del counted[namespace]
        if not counted:
            del self._children[at]

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """See ports.ReaderPort."""
        there = self._places & {(kind, None), (kind, namespace)}
        if kind not in KEPT or not (kind in self._whole or await self._are_synced(there)):
            return await self._direct.get(kind, namespace, name)
        return self._objects[kind].get(Key(kind, namespace, name))

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """See ports.ReaderPort."""
        if kind not in KEPT or not await self._is_synced(kind, allowed_by):
            return await self._direct.every(kind, allowed_by=allowed_by)
        return list(self._objects[kind].values())

    async def duplicates_of(self, obj: Json) -> list[Key]:
        """See ports.ReaderPort."""
        kind = Kind(obj["kind"])
        # An object of another parent is another one, and only one that its parent allows is fit to have children.
        parents = [self._objects[each.kind].get(each) for each in references(kind, obj)] or [None]
        if not all([await self._is_synced(kind, each) for each in parents]):
            return await self._direct.duplicates_of(obj)
        return sorted(self._named.get(identity_of(kind, obj), set()) - {key_of(kind, obj)}, key=str)

    async def dependents(self, target: Json, child: Kind) -> int:
        """See ports.ReaderPort."""
        if not await self._is_synced(child, target):
            return await self._direct.dependents(target, child)
        key = key_of(Kind(target["kind"]), target)
        counted: Mapping[str, int] = self._children.get((key, child), {})
        return sum(number for namespace, number in counted.items() if _counts(target, namespace))

    async def named(self, target: Json, child: Kind) -> dict[str, Key]:
        """See ports.ReaderPort."""
        if not await self._is_synced(child, target):
            return await self._direct.named(target, child)
        key = key_of(Kind(target["kind"]), target)
        # Asked by sets of topics alone, a few times a minute, so that going through all of them is cheap enough.
        found = [each for each, parents in self._parents.items() if each.kind is child and key in parents]
        return {self._names[each][2]: each for each in found if _counts(target, each.namespace)}


def _discard(index: defaultdict[T, set[Key]], at: T, key: Key) -> None:
    found = index.get(at)
    if found is not None:
        found.discard(key)
        if not found:
            del index[at]


def _lean(kind: Kind, obj: Json) -> Json:
    """Returns an object in the form in which it is kept: without metadata.managedFields, which is large and not
    used."""
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "kind": kind.value, "metadata": meta}


def _version(obj: Json) -> str | None:
    version: str | None = obj["metadata"].get("resourceVersion")
    return version


def reader_of(deps: Deps) -> ReaderPort:
    """Returns the cache of the process, or a reader of the API server if there is none."""
    return deps.reader or DirectReader(deps)
