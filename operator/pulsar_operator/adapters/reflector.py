"""One list-and-watch loop for each kind and namespace. An error in one does not end another.

The rules are those of client-go's reflector: list in pages, watch from the list's resourceVersion with bookmarks. After
an abnormal end it lists again, or watches again if nothing can have been missed, with exponential back-off. An object
that is missing from a list does not count as deleted; the object itself is requested instead. Built by runtime.py.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from pulsar_operator.adapters.watch_monitor import SETTLED_SECONDS, StreamHealth
from pulsar_operator.adapters.watch_requests import (
    BOOKMARK,
    DEFECT,
    EXPIRED,
    GARBAGE,
    LOST,
    SHORT,
    SILENT,
    Requests,
    WatchError,
)
from pulsar_operator.domain.texts import without_secrets
from pulsar_operator.ports import Json, ResourceType
from pulsar_operator.ports.errors import RETRY_AFTER_LIMIT_SECONDS

log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 0.8
LIMIT_SECONDS: Final = 30.0
RESET_SECONDS: Final = 120.0
"""Seconds without a failure after which the back-off starts from its minimum."""
JITTER: Final = 0.2
SERVER_SECONDS: Final = (300, 600)
"""Range in seconds from which the duration of a stream is chosen at random, so that streams do not all reopen at the
same time."""
PAGE: Final = 500
SILENT_STREAMS: Final = 3
"""Number of consecutive silent streams before a list: their connection may lead to a server without current data."""
GONE_LISTS: Final = 3
"""Number of lists whose continue token may expire before all objects are requested without paging."""
BARREN_PAGES: Final = 3
"""Number of consecutive pages without a new object after which a list counts as endless."""
SLICE: Final = 20
"""Number of objects that are passed on before the event loop runs other tasks."""
MISSING_SECONDS: Final = 0.02
"""Seconds between two objects that a list lacks: an incorrect list must not cause a burst of passes."""

K = TypeVar("K")


class Receiver(Protocol[K]):
    """Receives the objects of a kind."""

    def keep(self, obj: Json) -> K:
        """Returns what must be known of an object, besides its name, if a list lacks it later. It is kept for every
        existing object."""

    def observed(self, obj: Json, *, deleted: bool) -> None:
        """Receives the current state of an object, or its last state if it was deleted."""

    def missing(self, namespace: str, name: str, kept: K, delay: float) -> None:
        """Receives an object that a list lacks. Its existence should be checked in ``delay`` seconds."""


class Backoff:
    """The delay after a failure."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next = FIRST_SECONDS
        self._until = 0.0

    def after(self, now: float, least: float | None) -> float:
        """Returns the seconds to wait after a failure at ``now``. ``least`` is the delay that the API server
        requested."""
        if now - self._until > RESET_SECONDS:
            self._next = FIRST_SECONDS
        delay = self._next * (1 + self._rng.uniform(0, JITTER))
        self._next = min(self._next * 2, LIMIT_SECONDS)
        delay = max(delay, min(least or 0.0, RETRY_AFTER_LIMIT_SECONDS))
        self._until = now + delay
        return delay


class Reflector(Generic[K]):
    """Keeps a receiver up to date with one kind in one namespace, or in all."""

    def __init__(
        self,
        requests: Requests,
        kind: ResourceType,
        receiver: Receiver[K],
        health: StreamHealth,
        *,
        silence: float,
        selector: str | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``silence`` is the time in seconds without an event or a bookmark after which a stream is reopened.
        ``selector`` is a label selector."""
        self._requests, self._kind, self._receiver, self._health = requests, kind, receiver, health
        self._silence = silence
        self._filter = {"labelSelector": selector} if selector else {}
        self._rng = rng or random.Random()
        self._backoff = Backoff(self._rng)
        self._known: dict[tuple[str, str], K] = {}
        """Every known existing object, by namespace and name."""
        self._version: str | None = None
        """resourceVersion from which to watch. If None, the next step is a list."""
        self._gone = 0
        self._silent = 0
        self._reported: str | None = None
        """The last failure that was logged; None once the stream works."""

    async def run(self) -> NoReturn:
        """Lists and watches until cancelled."""
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                await self._watch(self._version)
            except WatchError as error:
                await self._recover(error)
            except Exception as error:  # a defect in what reads this kind must not end it
                log.exception("The watch of %s ended with an error", self._health.path)
                await self._recover(WatchError(DEFECT, f"{type(error).__name__}: {error}"))

    async def _recover(self, error: WatchError) -> None:
        if not error.version_good:
            self._version = None
        self._health.failed(error)
        delay = self._backoff.after(asyncio.get_running_loop().time(), error.retry_after)
        # The same message at every attempt would hide those of other kinds.
        level = logging.DEBUG if self._reported == str(error) else logging.WARNING
        self._reported = str(error)
        log.log(
            level,
            "The watch of %s failed, %s again in %.1f s: %s",
            self._health.path,
            "watching" if self._version is not None else "listing",
            delay,
            without_secrets(str(error)),
            extra={"kind": self._kind.kind, "reason": error.reason},
        )
        await asyncio.sleep(delay)

    # -------------------------------------------------------------------------------------------------------- list

    async def _list(self) -> str:
        """Passes on every existing object. Returns the resourceVersion from which to watch. Raises WatchError."""
        self._health.listing()
        query = {**self._filter} if self._gone >= GONE_LISTS else {**self._filter, "limit": str(PAGE)}
        listed: set[tuple[str, str]] = set()
        tokens: set[str] = set()
        barren = 0
        while True:
            try:
                page = await self._requests.page(self._health.path, query)
            except WatchError as error:
                if error.reason == EXPIRED and "continue" in query:
                    self._gone += 1
                raise
            before = len(listed)
            for number, item in enumerate(page["items"]):
                # Items of a list do not repeat what the list says about all of them.
                obj = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **item}
                listed.add(self._pass_on(obj, deleted=False))
                if number % SLICE == 0:
                    await asyncio.sleep(0)
            self._health.progressed()
            version, token = str(page["metadata"]["resourceVersion"]), page["metadata"].get("continue")
            del page  # one page in memory at a time
            if not token:
                break
            barren = 0 if len(listed) > before else barren + 1
            if token in tokens or barren >= BARREN_PAGES:  # as from a proxy that answers without regard to the query
                raise WatchError(GARBAGE, "the list returned a continue token twice, or pages without new objects")
            tokens.add(token)
            query["continue"] = str(token)
        self._gone = 0
        self._miss(set(self._known) - listed)
        return version

    def _miss(self, keys: Iterable[tuple[str, str]]) -> None:
        for number, key in enumerate(sorted(keys)):
            self._receiver.missing(*key, self._known.pop(key), number * MISSING_SECONDS)

    # ------------------------------------------------------------------------------------------------------- watch

    async def _watch(self, version: str) -> None:
        """Passes on events until the stream ends. Returns normally if the next stream may be opened immediately. Raises
        WatchError."""
        loop = asyncio.get_running_loop()
        query = {
            **self._filter,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(self._rng.randint(*SERVER_SECONDS)),
        }
        async with self._requests.watch(self._health.path, query, self._silence) as events:
            accepted = loop.time()
            self._health.accepted()
            end: WatchError | None = None
            number = 0
            try:
                async for type_, obj in events:
                    self._take(type_, obj)
                    number += 1
                    if number % SLICE == 0:
                        await asyncio.sleep(0)
            except WatchError as error:
                if error.reason not in (LOST, SILENT):
                    raise
                end = error
        silent = end is not None and end.reason == SILENT
        if not silent and loop.time() - accepted < SETTLED_SECONDS:
            raise end or WatchError(SHORT, "the stream was closed as soon as it was open", version_good=True)
        self._works()
        self._health.ended(end.reason if end is not None else None)
        if silent:
            self._count_silence()

    def _works(self) -> None:
        if self._reported is not None:
            log.info("%s is watched again", self._health.path)
        self._reported = None

    def _take(self, type_: str, obj: Json) -> None:
        if type_ != BOOKMARK:
            self._pass_on(obj, deleted=type_ == "DELETED")
        self._version = str(obj["metadata"]["resourceVersion"])
        self._silent = 0
        self._works()
        self._health.delivered()

    def _count_silence(self) -> None:
        self._silent += 1
        if self._silent >= SILENT_STREAMS:
            self._silent, self._version = 0, None

    def _pass_on(self, obj: Json, *, deleted: bool) -> tuple[str, str]:
        key = str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])
        try:
            if deleted:
                self._known.pop(key, None)
            else:
                self._known[key] = self._receiver.keep(obj)
            self._receiver.observed(obj, deleted=deleted)
        except Exception:  # one odd object must not hide those after it
            log.exception("An event of %s %s/%s could not be processed", self._kind.kind, *key)
        return key


async def follow(reflectors: Iterable[Reflector[Any]]) -> None:
    """Runs all reflectors until cancelled."""
    async with asyncio.TaskGroup() as group:
        for reflector in reflectors:
            group.create_task(reflector.run())
