"""Lists all custom resources at the start, and then once per period.

Each kind is listed in each watched Kubernetes namespace separately. A list that fails is retried on its own, and its
objects are unknown, as opposed to absent: see watch_cache.py. Used by engine.py.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import Effect, key_of
from pulsar_operator.controllers.core.watch_cache import Place
from pulsar_operator.controllers.core.world import World, fields
from pulsar_operator.ports import CUSTOM, Deps, Json, Key, PortError

log = logging.getLogger(__name__)

BACKOFF_SECONDS = 0.5
BACKOFF_LIMIT_SECONDS = 30.0
SHOWN = 3


class Resync:
    """Lists objects, and passes the resulting keys to the engine."""

    def __init__(
        self,
        deps: Deps,
        world: World,
        kinds: Collection[Kind],
        namespaces: Sequence[str],
        *,
        seconds: float,
        rng: random.Random,
        spread: Callable[[Key, Effect], None],
        found: Callable[[set[Key]], None],
        recheck: Callable[[Key, float], None],
    ) -> None:
        """``namespaces`` are the watched Kubernetes namespaces; empty for all.

        ``spread`` receives the effect of each change, ``found`` the objects of each first list, and ``recheck`` each
        object with the delay in seconds after which it is reconciled although no change is known.
        """
        self._deps = deps
        self._world = world
        self._places: list[Place] = [(kind, namespace) for kind in kinds for namespace in namespaces or (None,)]
        self._seconds = seconds
        self._rng = rng
        self._spread = spread
        self._found = found
        self._recheck = recheck
        self._untried = set(self._places)
        self._failing: dict[Place, str] = {}

    @property
    def tried(self) -> bool:
        """Whether every list was tried at least once."""
        return not self._untried

    def problem(self) -> str | None:
        """Returns what cannot be listed and why; None if everything can be listed."""
        if not self._failing:
            return None
        failing = sorted(self._failing.items(), key=lambda each: (each[0][0], each[0][1] or ""))
        texts = [f"{_text(place)}: {why}" for place, why in failing[:SHOWN]]
        more = f"; and {len(failing) - SHOWN} more" if len(failing) > SHOWN else ""
        return f"cannot list {'; '.join(texts)}{more}"

    async def run(self) -> None:
        """Lists until cancelled, each place with its own interval. It only ends with a programming error."""
        if self._world.cache is not None:
            self._world.cache.expect(self._places)
        async with asyncio.TaskGroup() as group:
            for place in self._places:
                group.create_task(self._follow(place), name=f"lists of {_text(place)}")

    async def _follow(self, place: Place) -> None:
        first = True
        while True:
            await self._list(place, first=first)
            first = False
            await asyncio.sleep(self._seconds * self._rng.uniform(0.9, 1.0))

    async def _list(self, place: Place, *, first: bool) -> None:
        """Lists one place until it succeeds."""
        kind, namespace = place
        failures = 0
        while True:
            # Only what was known before the list began can be missing from it.
            known = {k for k in self._world.index.keys(kind) if namespace in (None, k.namespace)}
            begun = self._world.freshness.list_begins(kind)
            try:
                objects = await self._deps.kube.list(CUSTOM[kind], namespace)
                await self._take_in(place, objects, known, begun, first=first, late=failures > 0)
                return
            except PortError as error:
                delay = max(min(BACKOFF_LIMIT_SECONDS, BACKOFF_SECONDS * 2.0**failures), error.retry_after or 0.0)
                failures = min(failures + 1, 16)
                self._failed(place, error, delay)
            finally:
                self._world.freshness.list_ends(kind)
            await asyncio.sleep(delay)

    def _failed(self, place: Place, error: PortError, delay: float) -> None:
        why = f"{type(error).__name__}: {error}"
        # The same words every half a minute, for each kind, would hide the others.
        level = logging.DEBUG if self._failing.get(place) == why else logging.WARNING
        log.log(level, "The operator cannot list %s and tries again in %.1f s: %s", _text(place), delay, error)
        self._failing[place] = why
        if self._world.cache is not None:
            self._world.cache.unlisted(place)
        self._tried(place, set())

    def _tried(self, place: Place, found: set[Key]) -> None:
        self._untried.discard(place)
        self._found(found)

    async def _take_in(
        self, place: Place, objects: list[Json], known: set[Key], begun: int, *, first: bool, late: bool
    ) -> None:
        kind, cache = place[0], self._world.cache
        if first and cache is not None:
            cache.first_list(kind, objects)
        live: set[Key] = set()
        for obj in objects:
            key = key_of(kind, obj)
            live.add(key)
            effect = self._world.learn(kind, obj, since=begun)
            if first:
                if late:  # the other passes continued without it
                    self._spread(key, effect)
                continue
            if effect.own:
                # Usually an event on its way; many of these lines say that a watch is losing events.
                log.info("The resync found an update of %s that the watch missed", key, extra=fields(key))
            self._spread(key, effect)
            # Spread over the first half of the period, so that a resync is never a burst.
            self._recheck(key, self._rng.uniform(0.0, self._seconds / 2))
        for key in sorted(known - live):
            await self._check_gone(key)
        if cache is not None:
            cache.synced(kind, place[1])
        if self._failing.pop(place, None) is not None:
            log.info("%s can be listed again", _text(place))
        self._tried(place, live if first else set())

    async def _check_gone(self, key: Key) -> None:
        """Checks a known object that a list lacks. Only a read of that object decides that it no longer exists.

        An outdated or incomplete list must not look like a deletion, since children would act as if their parent were
        deleted.
        """
        known, begun = self._world.index.version_of(key), self._world.freshness.moment
        try:
            obj = await self._deps.kube.get(CUSTOM[key.kind], key.namespace, key.name)
        except PortError as error:
            log.warning("The resync cannot determine whether %s still exists: %s", key, error, extra=fields(key))
            return
        if obj is None:
            self._spread(key, self._world.missing(key, known))
            return
        log.warning(
            "%s is missing from the list but exists in the API server, so the list entry is ignored",
            key,
            extra=fields(key),
        )
        self._spread(key, self._world.learn(key.kind, obj, since=begun))


def _text(place: Place) -> str:
    kind, namespace = place
    return f"{kind.value} objects" + (f" of Kubernetes namespace {namespace}" if namespace is not None else "")
