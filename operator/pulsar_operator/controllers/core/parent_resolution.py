"""Decides whether objects that refer to different parents have the same location in Pulsar.

A PulsarNamespace is renamed by applying it under its new name together with its content. For a while two objects then
stand for one namespace, each with its own children. For the management of an object only one of the two counts, since
the other is a duplicate and its children wait. For a deletion both count. Used by duplicates.py, logical/topic.py,
logical/declared_inside.py, topicset/listing.py and dataplane/observed/quorums.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import references
from pulsar_operator.controllers.core.stores import share_store
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.ports import CUSTOM, Deps, Json, Key


@dataclass(frozen=True, slots=True)
class DeclaredLocation:
    """The declared location of an object: its parents."""

    parents: frozenset[Key]
    reported_parent: str | None
    """Path of its parent in Pulsar, from its status; None if the status has none."""


@dataclass(frozen=True, slots=True)
class ResolvedLocation:
    """The location after its parents were read."""

    instance: Key | None
    """None if it is unknown, because a parent does not exist or is not named."""
    path: str | None
    """Path of names in Pulsar, such as ``tenant/namespace``."""


def location_of(kind: Kind, obj: Json) -> DeclaredLocation:
    """Returns the declared location of a raw object."""
    name = (obj.get("status") or {}).get("pulsarName")
    reported_parent: str | None = None
    if isinstance(name, str) and kind is Kind.TOPIC_SET:
        reported_parent = name  # that of its namespace
    elif isinstance(name, str) and kind in (Kind.TOPIC, Kind.NAMESPACE):
        reported_parent = name.rpartition("://")[2].rpartition("/")[0]
    return DeclaredLocation(references(kind, obj), reported_parent)


class ParentResolver:
    """Compares locations. It caches the parents it has read, so it is used for one pass only."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._parents: dict[Key, Json | None] = {}

    async def may_be_same(self, one: DeclaredLocation, other: DeclaredLocation) -> bool:
        """Whether two locations are, or may be, the same in Pulsar. Raises PortError."""
        found = await self._are_same(one.parents, other.parents)
        if found is None:
            return (
                one.reported_parent is None
                or other.reported_parent is None
                or one.reported_parent == other.reported_parent
            )
        return found

    async def resolve(self, location: DeclaredLocation) -> ResolvedLocation:
        """Returns the resolved location, as far as its parents exist. Raises PortError."""
        names: list[str] = []
        above = location.parents
        while len(above) == 1:
            (key,) = above
            if key.kind is Kind.INSTANCE:
                return ResolvedLocation(key, "/".join(reversed(names)))
            parent = await self.parent(key)
            if parent is None:
                break
            names.append(name_of(parent))
            above = references(key.kind, parent)
        return ResolvedLocation(None, None)

    async def _are_same(self, one: frozenset[Key], other: frozenset[Key]) -> bool | None:
        """Whether the parents are the same in Pulsar; None if a parent does not exist or is not named. Raises
        PortError."""
        if len(one) != 1 or len(other) != 1:
            return None
        (first,), (second,) = one, other
        if first == second:
            return True
        parents = await self.parent(first), await self.parent(second)
        if parents[0] is None or parents[1] is None or first.kind is not second.kind:
            return None
        if first.kind is Kind.INSTANCE:
            return share_store(parents[0], parents[1])
        if name_of(parents[0]) != name_of(parents[1]):
            return False
        return await self._are_same(references(first.kind, parents[0]), references(first.kind, parents[1]))

    async def parent(self, key: Key) -> Json | None:
        """Returns a parent from the watch cache, otherwise from the API server; None if it does not exist. Raises
        PortError."""
        if key not in self._parents:
            found = await reader_of(self._deps).get(key.kind, key.namespace, key.name)
            # The watches may be late with what was just applied.
            found = found or await self._deps.kube.get(CUSTOM[key.kind], key.namespace, key.name)
            self._parents[key] = found
        return self._parents[key]
