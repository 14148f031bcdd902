"""What the reflectors do, in memory: a list at first, then event by event, and a new list after a break.

A list tells what is there, and what was there before and is not in it; that is no deletion, but a reason to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.index import key_of
from pulsar_operator.handlers.streams import Sink
from pulsar_operator.ports import CUSTOM, Json, Key
from tests.fakes.kube import FakeKube

LATENCY_SECONDS = 0.02
LATE_SECONDS = 5.0
"""How late a duplicate or an overtaken event comes."""
GAP_SECONDS = 3.0
"""Until a stream that ended with 410 Gone is open again."""
UNREACHABLE_SECONDS = 70.0
"""Until a stream without a byte is opened anew (a third of watch_silence_seconds)."""

DROPPED, DUPLICATED, REORDERED, GONE, SILENT = (
    "event dropped",
    "event duplicated",
    "event reordered",
    "watch 410",
    "watch silent",
)
WATCH_FAULTS = (DROPPED, DUPLICATED, REORDERED, GONE, SILENT)


@dataclass(frozen=True)
class WatchEvent:
    """An event of a stream."""

    type: str
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"watch      {self.type:12} {self.kind.value} {self.name}"


@dataclass
class Feed:
    """Watch streams of all custom resources, from a FakeKube to an engine."""

    kube: FakeKube
    sink: Sink | None = None
    """The operator that watches, if one runs."""
    seen: list[tuple[float, WatchEvent]] = field(default_factory=list)
    happened: bool = False
    _subscribed: bool = False
    _armed: tuple[int, str] | None = None
    _closed: set[Kind] = field(default_factory=set)
    _known: dict[Kind, set[Key]] = field(default_factory=lambda: {kind: set() for kind in CUSTOM})
    """What the operator that watches was told of."""

    def start(self, sink: Sink) -> None:
        """List everything, then watch. Another operator may start once the one before has ended."""
        if not self._subscribed:
            self._subscribed = True
            self.kube.subscribe(self._changed)
        self.sink = sink
        self._closed.clear()
        for kind in CUSTOM:
            self._known[kind].clear()
            self._list(kind)

    def arm(self, place: int, fault: str) -> None:
        """Let the fault happen at the event of this number, counted from 0."""
        self._armed = (place, fault)

    def _list(self, kind: Kind) -> None:
        objects = self.kube.all(CUSTOM[kind])
        for obj in objects:
            self._deliver(LATENCY_SECONDS, kind, obj, deleted=False)
        for key in sorted(self._known[kind] - {key_of(kind, obj) for obj in objects}):
            self._known[kind].discard(key)
            self._later(LATENCY_SECONDS, lambda sink, key=key: sink.recheck(key))

    def _changed(self, type_: str, obj: Json) -> None:
        kind = next((kind for kind in CUSTOM if kind.value == obj["kind"]), None)
        if kind is None or kind in self._closed:
            return
        number = len(self.seen)
        self.seen.append((asyncio.get_running_loop().time(), WatchEvent(type_, kind, obj["metadata"]["name"])))
        deleted = type_ == "DELETED"
        fault = self._armed[1] if self._armed is not None and self._armed[0] == number else None
        self.happened = self.happened or fault is not None
        if fault in (GONE, SILENT):
            self._closed.add(kind)
            loop = asyncio.get_running_loop()
            loop.call_later(GAP_SECONDS if fault == GONE else UNREACHABLE_SECONDS, self._reopen, kind)
        elif fault == REORDERED:
            self._deliver(LATE_SECONDS, kind, obj, deleted=deleted)
        elif fault != DROPPED:
            self._deliver(LATENCY_SECONDS, kind, obj, deleted=deleted)
            if fault == DUPLICATED:
                self._deliver(LATE_SECONDS, kind, obj, deleted=deleted)

    def _reopen(self, kind: Kind) -> None:
        self._closed.discard(kind)
        self._list(kind)

    def _deliver(self, seconds: float, kind: Kind, obj: Json, *, deleted: bool) -> None:
        known = self._known[kind]
        (known.discard if deleted else known.add)(key_of(kind, obj))
        self._later(seconds, lambda sink: sink.observe(kind, obj, deleted=deleted))

    def _later(self, seconds: float, tell: Callable[[Sink], None]) -> None:
        sink = self.sink

        def call() -> None:
            if sink is not None and sink is self.sink:  # what was on its way to an operator that ended is lost
                tell(sink)

        asyncio.get_running_loop().call_later(seconds, call)
