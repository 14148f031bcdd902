"""Finds other objects that declare the same object of Pulsar, for deletions.

Neither does the result rely on the watch cache alone, nor does each deletion need its own list. A list is reused for a
few seconds, and only for objects that are already being deleted in it: it then contains every object that declared the
same before the deletion was requested. So ten thousand deletions requested together need few lists. A deletion can be
blocked for days, and a successor applied in the meantime; hence the limit of some seconds, and the use of the watches.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import key_of
from pulsar_operator.controllers.core.parent_resolution import DeclaredLocation, ParentResolver, location_of
from pulsar_operator.controllers.core.watch_cache import name_of
from pulsar_operator.domain.conditions import seconds_since
from pulsar_operator.ports import CUSTOM, Deps, Json, Key

KEEP_SECONDS = 5.0
"""Seconds for which a list is used."""


@dataclass
class _Listed:
    """The content of one list of a kind."""

    begun: datetime
    deleting: set[str] = field(default_factory=set)
    """UIDs of the objects that are being deleted."""
    living: defaultdict[str, list[tuple[Key, DeclaredLocation]]] = field(default_factory=lambda: defaultdict(list))
    """The other objects with their locations, by name in Pulsar."""


class DuplicateFinder:
    """Finds objects that declare the same as one that is being deleted."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._listed: dict[Kind, _Listed] = {}
        self._locks: defaultdict[Kind, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def living(self, kind: Kind, obj: Json) -> list[Key]:
        """Returns the objects of the kind that declare, or may declare, the same as ``obj``, which is being deleted.

        This includes objects below other parents for the same object of Pulsar. The caller reads each of them again.
        Raises PortError.
        """
        uid, own = str(obj["metadata"]["uid"]), key_of(kind, obj)
        async with self._locks[kind]:
            listed, now = self._listed.get(kind), self._deps.clock.now()
            old = listed is None or seconds_since(listed.begun, now) > KEEP_SECONDS
            if listed is None or old or uid not in listed.deleting:
                listed = self._listed[kind] = _taken(kind, now, await self._deps.kube.list(CUSTOM[kind], None))
        watched = self._deps.reader
        known = await watched.duplicates_of(obj) if watched is not None else []
        location, resolver = location_of(kind, obj), ParentResolver(self._deps)
        others = listed.living.get(name_of(obj), ())
        alike = {key for key, other in others if key != own and await resolver.may_be_same(location, other)}
        return sorted({*alike, *known} - {own}, key=str)


def _taken(kind: Kind, begun: datetime, objects: list[Json]) -> _Listed:
    listed = _Listed(begun)
    for obj in objects:
        if "deletionTimestamp" in obj["metadata"]:
            listed.deleting.add(str(obj["metadata"]["uid"]))
        else:
            listed.living[name_of(obj)].append((key_of(kind, obj), location_of(kind, obj)))
    return listed
