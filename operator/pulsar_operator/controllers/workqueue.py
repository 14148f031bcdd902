"""A queue of keys for several workers: each key once, never in two workers, no kind starves another.

Pure asyncio; time is the event loop's, so tests may run it on a virtual clock. Used by engine.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import Key


class WorkQueue:
    """Keys ready to run, keys waiting for their time, keys running."""

    def __init__(
        self, kinds: Iterable[Kind], *, workers: int, on_depth: Callable[[int], None] = lambda depth: None
    ) -> None:
        """``workers`` is how many keys may run at once; ``on_depth`` is told the number of keys ready to run."""
        self._ready: dict[Kind, deque[Key]] = {kind: deque() for kind in kinds}
        self._order: deque[Kind] = deque(self._ready)
        self._queued: set[Key] = set()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._delayed: dict[Key, tuple[float, asyncio.TimerHandle]] = {}
        self._workers = workers
        self._on_depth = on_depth
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def depth(self) -> int:
        """Keys ready to run."""
        return len(self._queued)

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Run the key after ``delay`` seconds at the latest; a key that runs now runs again after.

        Of several requests for one key the earliest wins and the others are the same run.
        """
        if self._closed or key in self._queued:
            return
        if delay > 0:
            self._add_later(key, delay)
            return
        self._cancel_timer(key)
        if key in self._running:
            self._again.add(key)
            return
        self._queued.add(key)
        self._ready[key.kind].append(key)
        self._notify()

    def _add_later(self, key: Key, delay: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        if key in self._again or (key in self._delayed and self._delayed[key][0] <= due):
            return
        self._cancel_timer(key)
        self._delayed[key] = (due, loop.call_at(due, self._due, key))

    def _due(self, key: Key) -> None:
        self._delayed.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: Key) -> None:
        waiting = self._delayed.pop(key, None)
        if waiting is not None:
            waiting[1].cancel()

    async def get(self) -> Key | None:
        """The next key; None when the queue was closed. The caller calls ``done`` with it afterwards."""
        while not self._closed:
            key = self._take()
            if key is not None:
                return key
            self._wake.clear()
            await self._wake.wait()
        return None

    def done(self, key: Key) -> None:
        """The key's run ended."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        self._notify()

    def _take(self) -> Key | None:
        """The first key of the next kind whose turn it is.

        Kinds take turns, and nearly half of the workers stay free for kinds that have nothing running: ten thousand
        slow topics never keep a cluster waiting.
        """
        running = {kind: 0 for kind in self._ready}
        for key in self._running:
            running[key.kind] += 1
        free = self._workers - len(self._running)
        for _ in range(len(self._order)):
            kind = self._order[0]
            self._order.rotate(-1)
            if not self._ready[kind]:
                continue
            idle = sum(1 for other, count in running.items() if other is not kind and count == 0)
            if running[kind] > 0 and free <= min(idle, (self._workers - 1) // 2):
                continue
            key = self._ready[kind].popleft()
            self._queued.discard(key)
            self._running.add(key)
            self._notify()
            return key
        return None

    def close(self) -> None:
        """Hand out nothing more; what runs may end."""
        self._closed = True
        for _, handle in self._delayed.values():
            handle.cancel()
        self._delayed.clear()
        for keys in self._ready.values():
            keys.clear()
        self._queued.clear()
        self._again.clear()
        self._notify()

    async def idle(self, *, within: float = 0.0) -> None:
        """Wait until nothing runs, is ready to run, or is due within the next ``within`` seconds."""
        while not self._is_idle(within):
            self._changed.clear()
            await self._changed.wait()

    def _is_idle(self, within: float) -> bool:
        if self._queued or self._running:
            return False
        horizon = asyncio.get_running_loop().time() + within
        return all(due > horizon for due, _ in self._delayed.values())

    def _notify(self) -> None:
        self._on_depth(len(self._queued))
        self._wake.set()
        self._changed.set()
