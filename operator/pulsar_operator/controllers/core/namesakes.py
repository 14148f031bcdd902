"""Who else declares an object of Pulsar, for deletions: never from the watch cache, and not one list for each deletion.

A list answers for every object that it already shows as being deleted: whoever declared the same before the deletion
was asked for is in it. So ten thousand deletions that were asked for together need few lists.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import key_of
from pulsar_operator.controllers.core.watch_cache import Identity, identity_of
from pulsar_operator.ports import CUSTOM, Deps, Json, Key


@dataclass
class _Listed:
    """What one list of a kind says."""

    deleting: set[str] = field(default_factory=set)
    """UIDs of the objects that are being deleted."""
    living: defaultdict[Identity, list[Key]] = field(default_factory=lambda: defaultdict(list))
    """The others, by what they declare."""


class Namesakes:
    """Objects that declare the same as one that is being deleted."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._listed: dict[Kind, _Listed] = {}
        self._locks: defaultdict[Kind, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def living(self, kind: Kind, obj: Json) -> list[Key]:
        """Objects of the kind that declare what ``obj``, which is being deleted, declares, and are not being deleted.

        Raises PortError.
        """
        uid = str(obj["metadata"]["uid"])
        async with self._locks[kind]:
            listed = self._listed.get(kind)
            if listed is None or uid not in listed.deleting:
                listed = self._listed[kind] = _taken(kind, await self._deps.kube.list(CUSTOM[kind], None))
        return sorted(set(listed.living.get(identity_of(kind, obj), ())) - {key_of(kind, obj)}, key=str)


def _taken(kind: Kind, objects: list[Json]) -> _Listed:
    listed = _Listed()
    for obj in objects:
        if "deletionTimestamp" in obj["metadata"]:
            listed.deleting.add(str(obj["metadata"]["uid"]))
        else:
            listed.living[identity_of(kind, obj)].append(key_of(kind, obj))
    return listed
