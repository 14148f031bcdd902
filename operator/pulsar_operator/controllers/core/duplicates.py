"""Who else declares an object of Pulsar, for deletions: not from the watch cache alone, nor one list for each deletion.

A list answers for a few seconds, and only for objects that it already shows as being deleted: whoever declared the
same before the deletion was asked for is in it. So ten thousand deletions that were asked for together need few lists.
A deletion can be blocked for days, and a successor applied meanwhile: hence the seconds, and what the watches know.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import key_of
from pulsar_operator.controllers.core.parent_resolution import Site, Whereabouts, site_of
from pulsar_operator.controllers.core.watch_cache import name_of
from pulsar_operator.domain.conditions import seconds_since
from pulsar_operator.ports import CUSTOM, Deps, Json, Key

KEEP_SECONDS = 5.0
"""How long a list serves."""


@dataclass
class _Listed:
    """What one list of a kind says."""

    begun: datetime
    deleting: set[str] = field(default_factory=set)
    """UIDs of the objects that are being deleted."""
    living: defaultdict[str, list[tuple[Key, Site]]] = field(default_factory=lambda: defaultdict(list))
    """The others and where they are, by name inside Pulsar."""


class Namesakes:
    """Objects that declare the same as one that is being deleted."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._listed: dict[Kind, _Listed] = {}
        self._locks: defaultdict[Kind, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def living(self, kind: Kind, obj: Json) -> list[Key]:
        """Objects of the kind that declare, or may declare, what ``obj``, which is being deleted, declares, also by way
        of other parents that mean the same; look at each again. Raises PortError."""
        uid, mine = str(obj["metadata"]["uid"]), key_of(kind, obj)
        async with self._locks[kind]:
            listed, now = self._listed.get(kind), self._deps.clock.now()
            old = listed is None or seconds_since(listed.begun, now) > KEEP_SECONDS
            if listed is None or old or uid not in listed.deleting:
                listed = self._listed[kind] = _taken(kind, now, await self._deps.kube.list(CUSTOM[kind], None))
        watched = self._deps.reader
        known = await watched.namesakes(obj) if watched is not None else []
        site, whereabouts = site_of(kind, obj), Whereabouts(self._deps)
        others = listed.living.get(name_of(obj), ())
        alike = {key for key, other in others if key != mine and await whereabouts.may_be_same(site, other)}
        return sorted({*alike, *known} - {mine}, key=str)


def _taken(kind: Kind, begun: datetime, objects: list[Json]) -> _Listed:
    listed = _Listed(begun)
    for obj in objects:
        if "deletionTimestamp" in obj["metadata"]:
            listed.deleting.add(str(obj["metadata"]["uid"]))
        else:
            listed.living[name_of(obj)].append((key_of(kind, obj), site_of(kind, obj)))
    return listed
