"""The engine: events and time in, reconcile passes out.

Called by main.py (life cycle) and handlers/ (events). Knows nothing of the framework that watches and nothing of what
the controllers do; it decides when a key runs: at once, after a back-off, when the controller asked, or at the periodic
resync.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Protocol

from pulsar_operator.api.constants import LABEL_OWNER_KIND, LABEL_OWNER_NAME, PLURALS, Kind
from pulsar_operator.controllers.core.failures import Failure, of_exception, of_timeout, tell_failure
from pulsar_operator.controllers.core.freshness import Freshness
from pulsar_operator.controllers.core.index import NOTHING, Effect, RefIndex, key_of
from pulsar_operator.controllers.core.reconciler import Outcome, Reconciler
from pulsar_operator.controllers.core.watch_cache import WatchCache
from pulsar_operator.controllers.core.work_queue import WorkQueue
from pulsar_operator.ports import CUSTOM, Deps, Json, Key, PortError, RefusedError

log = logging.getLogger(__name__)

BACKOFF_SECONDS = 0.5
BACKOFF_LIMIT_SECONDS = 60.0
PARENT_DELAY_SECONDS = 1.0
"""Changes of children are collected for this long before their parent counts them."""
SITE_DELAY_SECONDS = 5.0
"""As PARENT_DELAY_SECONDS, for clusters, which have more to do in a pass and only count."""
CHILD_DELAY_SECONDS = 0.3
"""Events of pods and other owned objects are collected for this long before their owner looks."""
PASS_SECONDS = 300.0
"""Longest pass; one that takes longer is stopped (safe at any await) and tried again."""


class Hints(Protocol):
    """Tells which objects are worth a look now; nothing depends on it."""

    async def run(self, hint: Callable[[Key], None]) -> None:
        """Call ``hint`` with keys, until cancelled."""


class Engine:
    """Runs the reconcilers."""

    def __init__(
        self,
        deps: Deps,
        reconcilers: Mapping[Kind, Reconciler],
        *,
        workers: int = 10,
        resync_seconds: float = 600.0,
        rng: random.Random | None = None,
        pass_seconds: float = PASS_SECONDS,
        cache: WatchCache | None = None,
        hints: Hints | None = None,
    ) -> None:
        """``workers`` passes run at once; every object is looked at once per ``resync_seconds``.

        ``cache`` is told everything that is observed. ``hints`` says what others changed in Pulsar.
        """
        self._deps = deps
        self._reconcilers = dict(reconcilers)
        self._resync_seconds = resync_seconds
        self._rng = rng or random.Random()
        self._pass_seconds = pass_seconds
        self._workers = workers
        self._queue = WorkQueue(self._reconcilers, workers=workers, on_depth=deps.metrics.queue_depth)
        self._index = RefIndex()
        self._freshness = Freshness()
        self._cache = cache
        self._hints = hints
        self._failures: dict[Key, int] = {}
        self._passed: set[Key] = set()
        self._first_pass: set[Key] | None = None
        self.ready = asyncio.Event()
        """Set when every object found at start-up has had its first pass."""

    # ------------------------------------------------------------------------------------------------------ input

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Run the key's reconciler after ``delay`` seconds at the latest."""
        if key.kind in self._reconcilers:
            self._queue.add(key, delay)

    def observe(self, kind: Kind, obj: Json, *, deleted: bool = False) -> None:
        """Take in a watch event of a custom resource and run what it concerns."""
        key = key_of(kind, obj)
        if deleted and self._freshness.has_successor(key, obj):
            return
        self._spread(key, self._forget(key, obj) if deleted else self._learn(kind, obj))

    def observe_child(self, obj: Json) -> None:
        """Take in a watch event of an owned object (pod, StatefulSet, ...): its owner, named by labels, looks again."""
        meta = obj["metadata"]
        labels = meta.get("labels") or {}
        kind, name = labels.get(LABEL_OWNER_KIND), labels.get(LABEL_OWNER_NAME)
        if kind in PLURALS and name:
            self.enqueue(Key(Kind(kind), meta.get("namespace", ""), name), CHILD_DELAY_SECONDS)

    def _learn(self, kind: Kind, obj: Json) -> Effect:
        if not self._freshness.is_news(key_of(kind, obj), obj):
            return NOTHING
        if self._cache is not None:
            self._cache.update(kind, obj)
        return self._index.update(kind, obj)

    def _forget(self, key: Key, last: Json | None = None) -> Effect:
        self._freshness.bury(key, last)
        if self._cache is not None:
            self._cache.remove(key)
        return self._index.remove(key)

    def _lost(self, key: Key, known: tuple[str, int] | None) -> None:
        """A read of the object found none, and no event said so: whoever believes in it looks again.

        ``known`` is what it was known by before the read. One of its name that was seen since is another.
        """
        now = self._index.version_of(key)
        if now is not None and known is not None and now[0] == known[0]:
            log.info("%s is gone, and no watch said so", key, extra=_fields(key))
            self._spread(key, self._forget(key))

    def _spread(self, key: Key, effect: Effect) -> None:
        if effect.own and key.kind in self._reconcilers:
            self._queue.add(key, first=effect.changed)
        for referrer in effect.referrers:
            self.enqueue(referrer)
        for referred in effect.referred:
            if referred in self._index:  # one that appears later runs for its own sake
                self.enqueue(referred, PARENT_DELAY_SECONDS)
        for cluster in effect.sited:
            self.enqueue(cluster, SITE_DELAY_SECONDS)

    # ------------------------------------------------------------------------------------------------- life cycle

    async def run(self, stop: asyncio.Event, *, grace: float = 10.0) -> None:
        """Work until ``stop`` is set; then let running passes end for at most ``grace`` seconds.

        Cancelling this coroutine stops all passes at once (the Lease was lost).
        """
        workers = [asyncio.create_task(self._work(), name=f"worker {n}") for n in range(self._workers)]
        resync = asyncio.create_task(self._resync_forever(), name="resync")
        stopped = asyncio.create_task(stop.wait(), name="engine stop")
        hints = asyncio.create_task(self._follow_hints(), name="hints")
        tasks = [*workers, resync, stopped, hints]
        try:
            await asyncio.wait([*workers, resync, stopped], return_when=asyncio.FIRST_COMPLETED)
            resync.cancel()
            self._queue.close()
            if stop.is_set():
                await asyncio.wait(workers, timeout=grace)
        finally:
            self._queue.close()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _follow_hints(self) -> None:
        """A defect there is told and costs the hints alone."""
        await self.ready.wait()
        try:
            if self._hints is not None:
                await self._hints.run(self.enqueue)
        except Exception:
            log.exception("hints ended: drift is detected at the next resync")

    async def idle(self, *, within: float = 0.0) -> None:
        """Wait until nothing runs, waits for a worker or is due in the next ``within`` seconds. For tests."""
        await self._queue.idle(within=within)

    # ------------------------------------------------------------------------------------------------------- work

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            try:
                await self._pass(key)
            finally:
                self._queue.done(key)
                if not self.ready.is_set():
                    self._passed.add(key)
                    self._check_ready()

    async def _pass(self, key: Key) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        error: str | None = None
        least: float | None = None
        outcome = Outcome(backoff=True)
        failure: Failure | None = None
        looked_at = self._index.version_of(key)
        limit = asyncio.timeout(self._pass_seconds)
        try:
            async with limit:
                outcome = await self._reconcilers[key.kind].reconcile(key)
        except PortError as problem:
            error, least = f"{type(problem).__name__}: {problem}", problem.retry_after
            if isinstance(problem, RefusedError):  # no use in waiting for another answer
                failure = of_exception(problem)
        except Exception as problem:
            if limit.expired() and isinstance(problem, TimeoutError):
                error = f"the pass took longer than {self._pass_seconds:g} s and was stopped"
                failure = of_timeout(self._pass_seconds)
            else:
                error, failure = f"{type(problem).__name__}: {problem}", of_exception(problem)
                log.exception("reconcile of %s failed", key, extra=_fields(key))
        seconds = loop.time() - started
        if outcome.gone:
            self._lost(key, looked_at)
        if failure is not None:
            await tell_failure(self._deps, key, failure, looked_at)
        delay = self._delay(key, outcome, least)
        result = "error" if outcome.backoff else "requeue" if outcome.requeue_after is not None else "ok"
        self._deps.metrics.reconciled(key.kind.value, result, seconds)
        log.log(
            logging.WARNING if error else logging.INFO,
            "reconciled %s: %s",
            key,
            error or result,
            extra={**_fields(key), "seconds": round(seconds, 4), "result": result, "error": error, "again_in": delay},
        )
        if delay is not None:
            self._queue.add(key, delay)

    def _delay(self, key: Key, outcome: Outcome, least: float | None) -> float | None:
        """Seconds until the next run. Failures double it, with jitter so that what failed together returns apart."""
        if not outcome.backoff:
            self._failures.pop(key, None)
            return outcome.requeue_after
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        ceiling = min(BACKOFF_LIMIT_SECONDS, BACKOFF_SECONDS * 2.0 ** min(failures, 16))
        return round(max(ceiling * self._rng.uniform(0.5, 1.0), outcome.requeue_after or 0.0, least or 0.0), 3)

    # ----------------------------------------------------------------------------------------------------- resync

    async def _resync_forever(self) -> None:
        """Look at everything, now and then once per period: what the watch missed is found here at the latest."""
        await self._resync(first=True)
        while True:
            await asyncio.sleep(self._resync_seconds * self._rng.uniform(0.9, 1.0))
            await self._resync(first=False)

    async def _resync(self, *, first: bool) -> None:
        found: set[Key] = set()
        if first and self._cache is not None:
            self._cache.expect(self._reconcilers)
        for kind in self._reconcilers:
            keys = await self._resync_kind(kind, first=first)
            found |= keys
        if first:
            self._first_pass = found
            for key in found - self._passed:
                self._queue.add(key)
            self._check_ready()

    async def _resync_kind(self, kind: Kind, *, first: bool) -> set[Key]:
        # Only what was known before the list began can be missing from it.
        known = set(self._index.keys(kind))
        self._freshness.list_begins(kind)
        try:
            return await self._take_in(kind, await self._list(kind), known, first=first)
        finally:
            self._freshness.list_ends(kind)

    async def _take_in(self, kind: Kind, objects: list[Json], known: set[Key], *, first: bool) -> set[Key]:
        if first and self._cache is not None:
            self._cache.first_list(kind, objects)
        live: set[Key] = set()
        for obj in objects:
            key = key_of(kind, obj)
            live.add(key)
            effect = self._learn(kind, obj)
            if first:
                continue
            if effect.own:
                # Usually an event on its way; many of these lines say that a watch is losing events.
                log.info("resync found a change of %s the watch missed", key, extra=_fields(key))
            self._spread(key, effect)
            # Spread over the first half of the period, so that a resync is never a burst.
            self.enqueue(key, self._rng.uniform(0.0, self._resync_seconds / 2))
        for key in sorted(known - live):
            await self._check_gone(key)
        if self._cache is not None:
            self._cache.synced(kind)
        return live

    async def _check_gone(self, key: Key) -> None:
        """A known object was not in a list: only the API server's word on that very object makes it gone.

        An old or incomplete list must not look like a deletion: children would be told that their parent is gone.
        """
        known = self._index.version_of(key)
        try:
            obj = await self._deps.kube.get(CUSTOM[key.kind], key.namespace, key.name)
        except PortError as error:
            log.warning("resync does not know whether %s is gone: %s", key, error, extra=_fields(key))
            return
        if obj is None:
            self._lost(key, known)
            return
        log.warning("resync got a list without %s, which is there", key, extra=_fields(key))
        self._spread(key, self._learn(key.kind, obj))

    async def _list(self, kind: Kind) -> list[Json]:
        failures = 0
        while True:
            try:
                return await self._deps.kube.list(CUSTOM[kind], None)
            except PortError as error:
                delay = max(min(30.0, BACKOFF_SECONDS * 2.0**failures), error.retry_after or 0.0)
                failures = min(failures + 1, 16)
                log.warning("resync cannot list %s, again in %.1f s: %s", kind.value, delay, error)
                await asyncio.sleep(delay)

    def _check_ready(self) -> None:
        if self._first_pass is not None and self._first_pass <= self._passed:
            self.ready.set()
            self._passed.clear()
            self._first_pass.clear()

    def not_ready(self) -> str | None:
        """Why not every object found at start-up was looked at yet; None when they were."""
        if self.ready.is_set():
            return None
        if self._first_pass is None:
            return "the objects were not listed yet"
        return f"{len(self._first_pass - self._passed)} objects wait for their first pass"


def _fields(key: Key) -> dict[str, str]:
    # "name" is taken by logging itself.
    return {"kind": key.kind.value, "namespace": key.namespace, "object": key.name}
