"""A queue of keys for several workers: each key once, never in two workers, and no kind starves another.

Within a kind, objects that another client changed go before those that only have to be checked, such as ten thousand
new ones. Every few keys one of the others is taken, so that constant change does not starve them. The queue is pure
asyncio; its time is that of the event loop, so tests may run it on a virtual clock. Used by engine.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import Key

CHANGED_IN_A_ROW = 4
"""Number of changed objects of a kind that go before one that has waited longer."""


class WorkQueue:
    """Keys that are ready, delayed or running."""

    def __init__(
        self, kinds: Iterable[Kind], *, workers: int, on_depth: Callable[[int], None] = lambda depth: None
    ) -> None:
        """``workers`` is the maximum number of running keys. ``on_depth`` receives the number of keys that are ready to
        run."""
        self._ready: dict[Kind, deque[Key]] = {kind: deque() for kind in kinds}
        self._first: dict[Kind, deque[Key]] = {kind: deque() for kind in self._ready}
        self._in_a_row: dict[Kind, int] = dict.fromkeys(self._ready, 0)
        self._order: deque[Kind] = deque(self._ready)
        self._queued: dict[Key, bool] = {}
        """Ready keys, and whether they have priority. A prioritized key is in both lines and is taken from the
        first."""
        self._running: set[Key] = set()
        self._busy: Counter[Kind] = Counter()
        """Number of running keys by kind. Kinds without any are absent."""
        self._again: dict[Key, bool] = {}
        self._delayed: dict[Key, tuple[float, asyncio.TimerHandle]] = {}
        self._workers = workers
        self._on_depth = on_depth
        self._idle: deque[asyncio.Future[None]] = deque()
        """Workers that found nothing to do. They are woken one at a time: with a long queue most additions are not for
        them, since some workers stay free for other kinds."""
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def depth(self) -> int:
        """Returns the number of keys that are ready to run."""
        return len(self._queued)

    def add(self, key: Key, delay: float = 0.0, *, first: bool = False) -> None:
        """Runs the key after ``delay`` seconds at the latest. A key that is running runs again afterwards.

        Several requests for one key result in one run, at the earliest of their times. With ``first`` it runs before
        the other keys of its kind.
        """
        if self._closed:
            return
        if key in self._queued:
            if first and not self._queued[key]:
                self._queued[key] = True
                self._first[key.kind].append(key)
            return
        if delay > 0:
            self._add_later(key, delay)
            return
        self._cancel_timer(key)
        if key in self._running:
            self._again[key] = first or self._again.get(key, False)
            return
        self._queued[key] = first
        (self._first if first else self._ready)[key.kind].append(key)
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
        """Returns the next key; None if the queue was closed. The caller calls ``done`` with it afterwards."""
        while not self._closed:
            key = self._take()
            if key is not None:
                self._wake_one()  # there may be work for one more
                return key
            await self._woken()
        return None

    async def _woken(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._idle:
                self._idle.remove(waiter)
            else:
                self._wake_one()  # what it was woken for is for another
            raise

    def _wake_one(self) -> None:
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():  # its worker may have been cancelled
                waiter.set_result(None)
                return

    def done(self, key: Key) -> None:
        """Records that the run of the key ended."""
        if key in self._running:
            self._running.discard(key)
            self._busy[key.kind] -= 1
            if not self._busy[key.kind]:
                del self._busy[key.kind]
        if key in self._again:
            self.add(key, first=self._again.pop(key))
        self._notify()

    def _take(self) -> Key | None:
        """Returns the first key of the next kind; None if no key may run now.

        Kinds take turns, and nearly half of the workers stay free for kinds that have nothing running: ten thousand
        slow topics never keep a cluster waiting.
        """
        if not self._queued:
            return None
        free = self._workers - len(self._running)
        for _ in range(len(self._order)):
            kind = self._order[0]
            self._order.rotate(-1)
            if not self._waiting(kind):
                continue
            reserved = self._reserved(kind)
            hurried = free <= reserved
            if hurried and not (self._first[kind] and free > reserved // 2):
                continue
            key = self._first[kind].popleft() if hurried else self._pop(kind)
            del self._queued[key]
            self._running.add(key)
            self._busy[kind] += 1
            self._count()
            return key
        return None

    def _reserved(self, kind: Kind) -> int:
        """Returns the number of workers that a kind leaves to others. Half of them are for changed objects, whose
        client waits."""
        if not self._busy[kind]:
            return 0
        idle = len(self._ready) - len(self._busy)  # every other kind with nothing running
        return min(idle, (self._workers - 1) // 2)

    def _waiting(self, kind: Kind) -> bool:
        """Whether a key of the kind is ready. Removes keys that were prioritized or have run since."""
        line = self._ready[kind]
        while line and self._queued.get(line[0]) is not False:
            line.popleft()
        return bool(line or self._first[kind])

    def _pop(self, kind: Kind) -> Key:
        """Returns the next key of a kind that has one."""
        first, line = self._first[kind], self._ready[kind]
        if first and not (line and self._in_a_row[kind] >= CHANGED_IN_A_ROW):
            self._in_a_row[kind] += 1
            return first.popleft()
        self._in_a_row[kind] = 0
        return line.popleft()

    def close(self) -> None:
        """Hands out no further key. Running keys may end."""
        self._closed = True
        for _, handle in self._delayed.values():
            handle.cancel()
        self._delayed.clear()
        for keys in (*self._ready.values(), *self._first.values()):
            keys.clear()
        self._queued.clear()
        self._again.clear()
        self._count()
        while self._idle:
            self._wake_one()

    async def idle(self, *, within: float = 0.0) -> None:
        """Waits until no key runs, is ready to run, or is due within the next ``within`` seconds."""
        while not self._is_idle(within):
            self._changed.clear()
            await self._changed.wait()

    def _is_idle(self, within: float) -> bool:
        if self._queued or self._running:
            return False
        horizon = asyncio.get_running_loop().time() + within
        return all(due > horizon for due, _ in self._delayed.values())

    def _notify(self) -> None:
        self._count()
        self._wake_one()

    def _count(self) -> None:
        self._on_depth(len(self._queued))
        self._changed.set()
