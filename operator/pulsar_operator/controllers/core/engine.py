"""The engine turns events and timers into reconcile passes.

Called by runtime.py (life cycle) and handlers/ (events). It depends neither on the framework that watches nor on what
the controllers do. It decides when a key runs: immediately, after a back-off, at the time the controller requested, or
at the periodic resync.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pulsar_operator.api.constants import LABEL_OWNER_KIND, LABEL_OWNER_NAME, PLURALS, Kind
from pulsar_operator.controllers.core.failures import (
    Failure,
    of_denied,
    of_exception,
    of_failures,
    of_timeout,
    report_failure,
)
from pulsar_operator.controllers.core.index import Effect, key_of
from pulsar_operator.controllers.core.reconciler import Outcome, Reconciler
from pulsar_operator.controllers.core.resync import Resync
from pulsar_operator.controllers.core.watch_cache import WatchCache
from pulsar_operator.controllers.core.work_queue import WorkQueue
from pulsar_operator.controllers.core.world import World, fields
from pulsar_operator.domain.texts import quoted
from pulsar_operator.ports import AccessError, Deps, ForbiddenError, Json, Key, PortError, RefusedError

log = logging.getLogger(__name__)

BACKOFF_SECONDS = 0.5
BACKOFF_LIMIT_SECONDS = 60.0
PATIENCE = 6
"""Number of consecutive passes (about half a minute) that may fail because a server does not answer before the status
reports it."""
PARENT_DELAY_SECONDS = 1.0
"""Seconds for which changes of children are collected before their parent counts them."""
SITE_DELAY_SECONDS = 5.0
"""The same as PARENT_DELAY_SECONDS for clusters, whose passes are longer and which only count."""
CHILD_DELAY_SECONDS = 0.3
"""Seconds for which events of pods and other owned objects are collected before their owner is reconciled."""
PASS_SECONDS = 300.0
"""Maximum duration of a pass in seconds. A longer one is stopped (safe at any await) and retried."""


class Hints(Protocol):
    """Suggests objects to reconcile now. Nothing depends on it."""

    async def run(self, hint: Callable[[Key], None]) -> None:
        """Calls ``hint`` with keys until cancelled."""


class Engine:
    """Runs the reconcilers."""

    def __init__(
        self,
        deps: Deps,
        reconcilers: Mapping[Kind, Reconciler],
        *,
        namespaces: Sequence[str] = (),
        workers: int = 20,
        resync_seconds: float = 600.0,
        rng: random.Random | None = None,
        pass_seconds: float = PASS_SECONDS,
        cache: WatchCache | None = None,
        hints: Hints | None = None,
    ) -> None:
        """Runs at most ``workers`` passes concurrently. Every object is reconciled at least once per
        ``resync_seconds``.

        ``namespaces`` are the watched Kubernetes namespaces; empty for all. ``cache`` receives everything that is
        observed. ``hints`` reports objects that other clients changed in Pulsar.
        """
        self._deps = deps
        self._reconcilers = dict(reconcilers)
        self._rng = rng or random.Random()
        self._pass_seconds = pass_seconds
        self._workers = workers
        self._queue = WorkQueue(self._reconcilers, workers=workers, on_depth=deps.metrics.queue_depth)
        self._world = World(cache)
        self._resync = Resync(
            deps,
            self._world,
            self._reconcilers,
            namespaces,
            seconds=resync_seconds,
            rng=self._rng,
            spread=self._spread,
            found=self._found,
            recheck=self.enqueue,
        )
        self._hints = hints
        self._failures: dict[Key, int] = {}
        self._passed: set[Key] = set()
        self._first_pass: set[Key] = set()
        self.ready = asyncio.Event()
        """Set when every object found at start-up has had its first pass. Lists that fail do not delay it."""

    # ------------------------------------------------------------------------------------------------------ input

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Runs the key's reconciler after ``delay`` seconds at the latest."""
        if key.kind in self._reconcilers:
            self._queue.add(key, delay)

    def observe(self, kind: Kind, obj: Json, *, deleted: bool = False) -> None:
        """Processes a watch event of a custom resource, and queues the objects it concerns."""
        effect = self._world.deleted(kind, obj) if deleted else self._world.learn(kind, obj)
        self._spread(key_of(kind, obj), effect)

    def observe_child(self, obj: Json) -> None:
        """Processes a watch event of an owned object (pod, StatefulSet, ...): its owner, named by labels, is
        reconciled."""
        meta = obj["metadata"]
        labels = meta.get("labels") or {}
        kind, name = labels.get(LABEL_OWNER_KIND), labels.get(LABEL_OWNER_NAME)
        if kind in PLURALS and name:
            self.enqueue(Key(Kind(kind), meta.get("namespace", ""), name), CHILD_DELAY_SECONDS)

    def recheck(self, key: Key, delay: float = 0.0) -> None:
        """Queues an object that is missing in a list of a watch. Its pass reads it from the API server, which alone
        decides."""
        self._world.doubt(key)
        self.enqueue(key, delay)

    def _spread(self, key: Key, effect: Effect) -> None:
        if effect.own and key.kind in self._reconcilers:
            self._queue.add(key, first=effect.changed)
        for referrer in effect.referrers:
            self.enqueue(referrer)
        for referred in effect.referred:
            if referred in self._world.index:  # one that appears later runs for its own sake
                self.enqueue(referred, PARENT_DELAY_SECONDS)
        for cluster in effect.sited:
            self.enqueue(cluster, SITE_DELAY_SECONDS)

    # ------------------------------------------------------------------------------------------------- life cycle

    async def run(self, stop: asyncio.Event, *, grace: float = 10.0) -> None:
        """Runs until ``stop`` is set, then lets running passes end for at most ``grace`` seconds.

        Cancelling this coroutine stops all passes immediately (the Lease was lost).
        """
        workers = [asyncio.create_task(self._work(), name=f"worker {n}") for n in range(self._workers)]
        resync = asyncio.create_task(self._resync.run(), name="resync")
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
        """Follows the hints. An error in them is logged and only ends the hints."""
        await self.ready.wait()
        try:
            if self._hints is not None:
                await self._hints.run(self.enqueue)
        except Exception:
            log.exception("Hints have ended, so drift is detected at the next resync")

    async def idle(self, *, within: float = 0.0) -> None:
        """Waits until no key runs, is ready to run, or is due in the next ``within`` seconds. For tests."""
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
        observed_version = self._world.index.version_of(key)
        limit = asyncio.timeout(self._pass_seconds)
        try:
            async with limit:
                outcome = await self._reconcilers[key.kind].reconcile(key)
        except PortError as problem:
            error, least = f"{type(problem).__name__}: {quoted(str(problem))}", problem.retry_after
            if isinstance(problem, ForbiddenError | AccessError):
                failure = of_denied(problem)
            elif isinstance(problem, RefusedError):  # no use in waiting for another answer
                failure = of_exception(problem)
            elif self._failures.get(key, 0) >= PATIENCE:
                failure = of_failures(problem)
        except Exception as problem:
            if limit.expired() and isinstance(problem, TimeoutError):
                error = f"The pass took longer than {self._pass_seconds:g} s and was stopped"
                failure = of_timeout(self._pass_seconds)
            else:
                error, failure = f"{type(problem).__name__}: {quoted(str(problem))}", of_exception(problem)
                log.exception("The reconcile of %s failed", key, extra=fields(key))
        seconds = loop.time() - started
        if outcome.gone:
            self._spread(key, self._world.missing(key, observed_version))
        if failure is not None:
            await report_failure(self._deps, key, failure, observed_version)
        delay = self._delay(key, outcome, least)
        result = "error" if outcome.backoff else "requeue" if outcome.requeue_after is not None else "ok"
        self._deps.metrics.reconciled(key.kind.value, result, seconds)
        log.log(
            logging.WARNING if error else logging.DEBUG,
            "Reconciled %s: %s",
            key,
            error or result,
            extra={**fields(key), "seconds": round(seconds, 4), "result": result, "error": error, "again_in": delay},
        )
        if delay is not None:
            self._queue.add(key, delay)

    def _delay(self, key: Key, outcome: Outcome, least: float | None) -> float | None:
        """Returns the seconds until the next run. Failures double the delay, with jitter so that keys that failed
        together are retried at different times."""
        if not outcome.backoff:
            self._failures.pop(key, None)
            return outcome.requeue_after
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        ceiling = min(BACKOFF_LIMIT_SECONDS, BACKOFF_SECONDS * 2.0 ** min(failures, 16))
        return round(max(ceiling * self._rng.uniform(0.5, 1.0), outcome.requeue_after or 0.0, least or 0.0), 3)

    # ------------------------------------------------------------------------------------------------------ start

    def _found(self, keys: set[Key]) -> None:
        """Queues the objects of the first list of a kind in a namespace; none if the list failed."""
        for key in keys - self._passed:
            self._queue.add(key)
        if not self.ready.is_set():
            self._first_pass |= keys
            self._check_ready()

    def _check_ready(self) -> None:
        if self._resync.tried and self._first_pass <= self._passed:
            self.ready.set()
            self._passed.clear()
            self._first_pass.clear()

    def tally(self) -> Mapping[tuple[str, str], int]:
        """Returns the number of objects by kind and reason of condition Ready."""
        return self._world.index.tally()

    def not_ready(self) -> str | None:
        """Returns a message about objects that are not reconciled since the start, or cannot be listed; None if there
        are none."""
        problem = self._resync.problem()
        if problem is not None or self.ready.is_set():
            return problem
        if not self._resync.tried:
            return "The objects are not listed yet"
        return f"{len(self._first_pass - self._passed)} objects wait for their first pass"
