"""The process's state of all custom resources: index, watch cache, and which of two states is the newer one.

Used by engine.py, which gets watch events, and by resync.py, which lists.
"""

from __future__ import annotations

import logging

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.freshness import Freshness
from pulsar_operator.controllers.core.index import NOTHING, Effect, RefIndex, key_of
from pulsar_operator.controllers.core.watch_cache import WatchCache
from pulsar_operator.ports import Json, Key

log = logging.getLogger(__name__)


class World:
    """Processes observed objects, and returns the keys that must be reconciled."""

    def __init__(self, cache: WatchCache | None) -> None:
        self.index = RefIndex()
        self.freshness = Freshness()
        self.cache = cache

    def learn(self, kind: Kind, obj: Json, *, since: int | None = None) -> Effect:
        """Processes the current, or a recent, state of an object. For ``since`` see Freshness.is_news."""
        if not self.freshness.is_news(key_of(kind, obj), obj, since=since):
            return NOTHING
        if self.cache is not None:
            self.cache.update(kind, obj)
        return self.index.update(kind, obj)

    def deleted(self, kind: Kind, last: Json) -> Effect:
        """Processes the watch event of a deletion. ``last`` is the last state of the object."""
        key = key_of(kind, last)
        return NOTHING if self.freshness.has_successor(key, last) else self._forget(key, last)

    def doubt(self, key: Key) -> None:
        """Records that an object may no longer exist. No pass may then use its state of the first list."""
        if self.cache is not None:
            self.cache.listed(key)

    def missing(self, key: Key, known: tuple[str, int] | None) -> Effect:
        """Processes that a read found no object although no watch reported its deletion.

        ``known`` are the UID and generation known before the read. An object of that name that was observed since is
        another one.
        """
        now = self.index.version_of(key)
        if now is None or known is None or now[0] != known[0]:
            return NOTHING
        log.info("%s was deleted, and the watch missed the deletion", key, extra=fields(key))
        return self._forget(key)

    def _forget(self, key: Key, last: Json | None = None) -> Effect:
        self.freshness.bury(key, last)
        if self.cache is not None:
            self.cache.remove(key)
        return self.index.remove(key)


def fields(key: Key) -> dict[str, str]:
    """Returns the fields that identify an object in a log line."""
    # "name" is taken by logging itself.
    return {"kind": key.kind.value, "namespace": key.namespace, "object": key.name}
