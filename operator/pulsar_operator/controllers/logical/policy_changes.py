"""Detects other writers of a tenant or a namespace by watches on their nodes in the configuration store.

A change is only a hint: the object is checked now instead of at the next resync. Without ZooKeeper, or while a session
is lost, nothing else changes. Each declared tenant and namespace that exists in Pulsar has one watch on its node below
``/admin/policies``, up to a limit for the process. Writes of the operator are hints too, and the pass they trigger
makes no change. Topic policies are messages in a topic instead of nodes, so they are left to the resync. Run by
engine.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import key_of, references
from pulsar_operator.controllers.core.stores import configuration_store
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.domain.logical.pulsar_names import policies_node
from pulsar_operator.ports import Deps, Json, Key, PortError, RefusedError, ZooKeeperSession

log = logging.getLogger(__name__)

SWEEP_SECONDS = 15.0
"""Seconds between two sweeps for new objects, and between two attempts to reach an unavailable ensemble."""
SETTLE_SECONDS = 1.0
"""Seconds from a change to the check, since brokers answer from a cache that follows the same watches. Further changes
within this time are the same hint, so that a busy writer costs one pass per second."""
LIMIT = 10_000
"""Maximum number of watches of the process."""
AT_ONCE = 32
"""Maximum number of concurrent requests for watches."""

Hint = Callable[[Key], None]


@dataclass(frozen=True, order=True)
class Place:
    """A node in a configuration store."""

    servers: str
    chroot: str
    path: str


class PolicyWatch:
    """Watches the nodes of declared tenants and namespaces, and sends a hint for each that changed."""

    def __init__(
        self,
        deps: Deps,
        *,
        limit: int = LIMIT,
        sweep_seconds: float = SWEEP_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._deps = deps
        self._limit = limit
        self._sweep_seconds = sweep_seconds
        self._settle_seconds = settle_seconds
        self._watched: dict[Place, set[Key]] = {}
        self._armed: set[Place] = set()
        """Places whose watch has not fired yet."""
        self._fired: set[Place] = set()
        self._refused: set[Place] = set()
        self._versions: dict[Place, int | None] = {}
        """The last state of each place. A different state is a hint, even if it changed while there was no session."""
        self._covered: set[Key] = set()
        """Objects that were checked after their node was first watched."""
        self._swept = False
        self._lost: set[str] = set()
        self._over = False
        self._wake = asyncio.Event()

    @property
    def armed(self) -> int:
        """Returns the current number of watches."""
        return len(self._armed)

    async def run(self, hint: Hint) -> None:
        """Watches until cancelled."""
        while True:
            try:
                await self.sweep(hint)
            except PortError as error:
                log.info("The policies to watch in ZooKeeper cannot be listed: %s", error)
            await self._follow(hint)

    async def _follow(self, hint: Hint) -> None:
        """Renews the watches that fire, until the next sweep is due."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._sweep_seconds
        while (left := end - loop.time()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                return
            await asyncio.sleep(self._settle_seconds)
            self._wake.clear()
            fired, self._fired = self._fired, set()
            await self._arm(sorted(fired & set(self._watched)), hint)

    async def sweep(self, hint: Hint) -> None:
        """Watches the declared objects that are not watched yet. Raises PortError if the objects cannot be listed."""
        self._watched = await self._places()
        self._refused &= set(self._watched)
        for place in set(self._versions) - set(self._watched):
            del self._versions[place]
        missing = sorted(set(self._watched) - self._armed - self._refused)
        over = len(self._armed) + len(missing) > self._limit
        if over and not self._over:
            log.warning(
                "There are more than %d tenants and namespaces. Changes of the others are detected at the next resync",
                self._limit,
            )
        self._over = over
        await self._arm(missing, hint)
        self._recheck_once(hint)

    def _recheck_once(self, hint: Hint) -> None:
        """Sends a hint for each object whose node is watched from now on. The first observed state may contain a change
        of another client since the last pass, and is not detected as one.

        Objects of the first sweep are left out, since they were checked when the process started.
        """
        watched = {key for place, keys in self._watched.items() if place in self._versions for key in keys}
        for key in sorted(watched - self._covered) if self._swept else ():
            hint(key)
        self._covered, self._swept = watched, True

    async def _places(self) -> dict[Place, set[Key]]:
        """Returns the nodes of the declared tenants and namespaces that exist in Pulsar."""
        reader = reader_of(self._deps)
        stores: dict[Key, tuple[str, str]] = {}
        for obj in await reader.every(Kind.INSTANCE):
            if (store := configuration_store(obj)) is not None:
                stores[key_of(Kind.INSTANCE, obj)] = store.servers, store.chroot or ""
        found: defaultdict[Place, set[Key]] = defaultdict(set)
        for kind in (Kind.TENANT, Kind.NAMESPACE):
            inside: dict[Key, tuple[str, str]] = {}
            for obj in await reader.every(kind):
                store_at = next((stores[each] for each in references(kind, obj) if each in stores), None)
                if store_at is None:
                    continue
                key = key_of(kind, obj)
                inside[key] = store_at
                path = _node(obj)
                if path is not None:
                    found[Place(*store_at, path)].add(key)
            stores = inside  # namespaces are where their tenant is
        return dict(found)

    async def _arm(self, places: Iterable[Place], hint: Hint) -> None:
        by_store: defaultdict[tuple[str, str], list[Place]] = defaultdict(list)
        for place in places:
            by_store[place.servers, place.chroot].append(place)
        for (servers, chroot), its in by_store.items():
            try:
                session = await self._deps.zookeeper.session(servers, chroot or None)
                for start in range(0, len(its), AT_ONCE):
                    some = [self._watch(session, each, hint) for each in its[start : start + AT_ONCE]]
                    for problem in await asyncio.gather(*some, return_exceptions=True):
                        if problem is not None:
                            raise problem
            except PortError as error:
                self._record_lost(servers, error)
            else:
                self._record_found(servers)

    async def _watch(self, session: ZooKeeperSession, place: Place, hint: Hint) -> None:
        if place in self._armed or len(self._armed) >= self._limit:
            return
        self._armed.add(place)  # before the call: the watch may fire before its answer is checked
        try:
            state = await session.watch(place.path, partial(self._fire, place))
        except RefusedError as error:
            self._armed.discard(place)
            self._refused.add(place)
            log.debug("%s is not watched: %s", place.path, error)
            return
        except BaseException:
            self._armed.discard(place)
            raise
        known = place in self._versions
        changed = known and self._versions[place] != state
        self._versions[place] = state
        if changed:
            for key in self._watched.get(place, ()):
                log.debug("%s was changed in ZooKeeper", place.path)
                hint(key)

    def _fire(self, place: Place) -> None:
        self._armed.discard(place)
        self._fired.add(place)
        self._wake.set()

    def _record_lost(self, servers: str, error: PortError) -> None:
        if servers not in self._lost:
            self._lost.add(servers)
            log.info("The policies at %s are not watched, so drift is detected at the next resync: %s", servers, error)

    def _record_found(self, servers: str) -> None:
        if servers in self._lost:
            self._lost.discard(servers)
            log.info("The policies at %s are watched again", servers)


def _node(obj: Mapping[str, Json]) -> str | None:
    """Returns the path of the node of a tenant or namespace; None while it is not known to exist in Pulsar."""
    name = (obj.get("status") or {}).get("pulsarName")
    return policies_node(*name.split("/")) if isinstance(name, str) else None
