"""Whether objects that refer to different parents are in the same place of Pulsar.

A PulsarNamespace is renamed by applying it under its new name together with what is in it: for a while two objects
stand for one namespace, each with its own children. For the management of an object only one of the two counts, since
the other is a duplicate and its children wait. For a deletion both do. Used by duplicates.py, logical/topic.py,
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
class Site:
    """Where an object is."""

    parents: frozenset[Key]
    told: str | None
    """What it is in, as its status says by names inside Pulsar; None where it does not."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a site is found to be."""

    instance: Key | None
    """None where nobody can tell, since a parent is not there, or not named."""
    path: str | None
    """Of names inside Pulsar, such as ``tenant/namespace``."""


def site_of(kind: Kind, obj: Json) -> Site:
    """The site of a raw object."""
    name = (obj.get("status") or {}).get("pulsarName")
    told: str | None = None
    if isinstance(name, str) and kind is Kind.TOPIC_SET:
        told = name  # that of its namespace
    elif isinstance(name, str) and kind in (Kind.TOPIC, Kind.NAMESPACE):
        told = name.rpartition("://")[2].rpartition("/")[0]
    return Site(references(kind, obj), told)


class Whereabouts:
    """Compares sites; remembers the parents it has read, so it is for one pass."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._parents: dict[Key, Json | None] = {}

    async def may_be_same(self, one: Site, other: Site) -> bool:
        """Whether two sites are the same place of Pulsar, or nobody can tell. Raises PortError."""
        found = await self._are_same(one.parents, other.parents)
        if found is None:
            return one.told is None or other.told is None or one.told == other.told
        return found

    async def place_of(self, site: Site) -> Place:
        """Where a site is, as far as its parents are there. Raises PortError."""
        names: list[str] = []
        above = site.parents
        while len(above) == 1:
            (key,) = above
            if key.kind is Kind.INSTANCE:
                return Place(key, "/".join(reversed(names)))
            parent = await self.parent(key)
            if parent is None:
                break
            names.append(name_of(parent))
            above = references(key.kind, parent)
        return Place(None, None)

    async def _are_same(self, one: frozenset[Key], other: frozenset[Key]) -> bool | None:
        """None = a parent is not there, or not named."""
        if len(one) != 1 or len(other) != 1:
            return None
        (mine,), (theirs,) = one, other
        if mine == theirs:
            return True
        parents = await self.parent(mine), await self.parent(theirs)
        if parents[0] is None or parents[1] is None or mine.kind is not theirs.kind:
            return None
        if mine.kind is Kind.INSTANCE:
            return share_store(parents[0], parents[1])
        if name_of(parents[0]) != name_of(parents[1]):
            return False
        return await self._are_same(references(mine.kind, parents[0]), references(mine.kind, parents[1]))

    async def parent(self, key: Key) -> Json | None:
        """A parent as the watches know it, or else the API server; None where there is none. Raises PortError."""
        if key not in self._parents:
            found = await reader_of(self._deps).get(key.kind, key.namespace, key.name)
            # The watches may be late with what was just applied.
            found = found or await self._deps.kube.get(CUSTOM[key.kind], key.namespace, key.name)
            self._parents[key] = found
        return self._parents[key]
