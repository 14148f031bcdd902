"""The accounts of a counting run, fed with events; knows no Pulsar. About 10 bytes of memory for each message."""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from pulsar_conformance.counting.message import Stamp
from pulsar_conformance.counting.report import Example, Latency, Operation, Pause, Progress, Report

CONFIRMED, FAILED, RECEIVED = 1, 2, 4
_WAITING = (CONFIRMED, CONFIRMED | FAILED)
_NO_OUTCOME = (0, RECEIVED)
_EXAMPLES = 5
_STEP = math.log(1.02)


class _Gap:
    """The longest time between two events, from ``since`` on."""

    def __init__(self, since: float) -> None:
        self.last = since
        self.longest = 0.0
        self.began = since

    def event(self, now: float) -> None:
        if now - self.last > self.longest:
            self.longest, self.began = now - self.last, self.last
        self.last = now

    def failed(self, now: float) -> None:
        """Nothing came until now, and what was waited for never will."""
        if now - self.last > self.longest:
            self.longest, self.began = now - self.last, self.last

    def until(self, now: float, *, waiting: bool) -> tuple[float, float]:
        """Length and beginning of the longest; the time since the last event counts where something is waited for."""
        if waiting and now - self.last > self.longest:
            return now - self.last, self.last
        return self.longest, self.began


class _Stream:
    """The messages of one producer with one key: a byte of marks and a position each."""

    def __init__(self, since: float) -> None:
        self.marks = bytearray()
        self.positions = array("Q")
        self.highest = -1
        self.settled = 0
        self.out_of_order = 0
        self.pending = 0
        self.behind = 0
        self.publish = _Gap(since)
        self.delivery = _Gap(since)

    def open_before(self, end: int) -> bool:
        """True while a message below ``end`` has no outcome, or is confirmed and not received."""
        return any(self.marks.find(state, 0, end) >= 0 for state in (*_NO_OUTCOME, *_WAITING))

    def lost(self) -> Iterator[int]:
        for number, mark in enumerate(self.marks):
            if mark in _WAITING:
                yield number


class Ledger:
    """Takes events from any thread. ``clock`` gives seconds and never goes back.

    ``send_timeout`` and ``ordered`` are facts of the run that its report has to judge by.
    """

    def __init__(
        self,
        run: str,
        topic: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        send_timeout: float = 30,
        ordered: bool = True,
    ) -> None:
        self.run = run
        self.topic = topic
        self._send_timeout = send_timeout
        self._ordered = ordered
        self._clock = clock
        self._lock = threading.Lock()
        self._origin = clock()
        self._start: float | None = None
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._latencies: Counter[int] = Counter()
        self._latency_max = 0.0
        self._publish = _Gap(self._origin)
        self._delivery = _Gap(self._origin)
        self._operations: list[Operation] = []
        self._quiet = True
        self._duplicated: list[Example] = []
        self._unprovoked: list[Example] = []

    def sent(self, producer: int, key: int) -> Stamp:
        """The next message of a producer and key, to be handed to the client now."""
        with self._lock:
            now = self._clock()
            if self._start is None:
                self._start = now
                self._publish, self._delivery = _Gap(now), _Gap(now)
            stream = self._streams.get((producer, key))
            if stream is None:
                stream = self._streams[producer, key] = _Stream(now)
            stream.marks.append(0)
            stream.positions.append(0)
            stream.pending += 1
            self._counts["sent"] += 1
            self._counts["pending"] += 1
            return Stamp(self.run, producer, key, len(stream.marks) - 1, int((now - self._origin) * 1e6))

    def confirmed(self, stamp: Stamp) -> None:
        """The broker acknowledged the send; takes precedence over a failure reported before."""
        with self._lock:
            stream = self._stream(stamp)
            mark = stream.marks[stamp.number]
            if mark & CONFIRMED:
                return
            now = self._clock()
            self._publish.event(now)
            stream.publish.event(now)
            stream.marks[stamp.number] = mark | CONFIRMED
            self._counts["confirmed"] += 1
            if not mark & FAILED:
                self._no_longer_pending(stream)
            if mark & RECEIVED:
                self._counts["unconfirmed_received"] -= 1
            else:
                self._behind(stream, 1)

    def failed(self, stamp: Stamp, reason: str) -> None:
        """The send failed or timed out: the outcome is unknown. Ignored after a confirmation."""
        with self._lock:
            stream = self._stream(stamp)
            mark = stream.marks[stamp.number]
            if mark & (CONFIRMED | FAILED):
                return
            stream.marks[stamp.number] = mark | FAILED
            now = self._clock()
            self._publish.failed(now)
            stream.publish.failed(now)
            self._errors[f"send failed: {reason}"] += 1
            self._no_longer_pending(stream)

    def received(self, stamp: Stamp | None, *, redeliveries: int = 0, position: int = 0) -> None:
        """A message arrived; None where it has no stamp. ``position`` is any number that stands for its place."""
        with self._lock:
            known = self._streams.get((stamp.producer, stamp.key)) if stamp and stamp.run == self.run else None
            if stamp is None or known is None or not 0 <= stamp.number < len(known.marks):
                self._counts["foreign"] += 1
                return
            now = self._clock()
            self._delivery.event(now)
            known.delivery.event(now)
            self._counts["arrivals"] += 1
            if redeliveries > 0:
                self._counts["redelivered"] += 1
            mark = known.marks[stamp.number]
            if not mark & RECEIVED:
                self._first_arrival(known, stamp, mark, now, position, flagged=redeliveries > 0)
            elif redeliveries <= 0:
                self._duplicate(known, stamp, now, position)
            known.highest = max(known.highest, stamp.number)

    def note_error(self, what: str) -> None:
        """Count something that went wrong in a client; ``what`` is one of few words."""
        with self._lock:
            self._errors[what] += 1

    def operation_began(self, name: str) -> None:
        """From now on duplicates have a reason."""
        with self._lock:
            self._operations.append(Operation(name, self._since(self._clock())))
            self._quiet = False

    def operation_ended(self) -> dict[tuple[int, int], int]:
        """The last operation is over. Returns what has to be through before the run has settled."""
        with self._lock:
            self._operations[-1] = replace(self._operations[-1], ended=self._since(self._clock()))
            return {name: len(stream.marks) for name, stream in self._streams.items()}

    def through(self, ends: dict[tuple[int, int], int]) -> bool:
        """True when every message below these numbers has an outcome, and is received if it was confirmed."""
        with self._lock:
            return not any(self._streams[name].open_before(end) for name, end in ends.items())

    def settled(self) -> None:
        """Records that the last operation no longer has an effect: a later duplicate has no reason."""
        with self._lock:
            self._operations[-1] = replace(self._operations[-1], settled=self._since(self._clock()))
            self._quiet = True
            for stream in self._streams.values():
                stream.settled = len(stream.marks)

    def pending(self) -> int:
        """Sends without an answer yet."""
        with self._lock:
            return self._counts["pending"]

    def progress(self) -> Progress:
        """The counts so far."""
        with self._lock:
            now = self._clock()
            count = self._counts
            publish, _ = self._publish.until(now, waiting=count["pending"] > 0)
            delivery, _ = self._delivery.until(now, waiting=count["behind"] > 0)
            return Progress(
                self._since(now), count["sent"], count["confirmed"], count["received"], count["behind"],
                publish, delivery,
            )  # fmt: skip

    def report(self) -> Report:
        """The accounts as they are now; what is confirmed and not received counts as lost."""
        with self._lock:
            now = self._clock()
            count = self._counts
            by_key: Counter[int] = Counter()
            for (_, key), stream in self._streams.items():
                if stream.out_of_order:
                    by_key[key] += stream.out_of_order
            return Report(
                run=self.run,
                topic=self.topic,
                seconds=self._since(now),
                sent=count["sent"],
                confirmed=count["confirmed"],
                unconfirmed=count["sent"] - count["confirmed"],
                received=count["received"],
                unconfirmed_received=count["unconfirmed_received"],
                lost=count["behind"],
                duplicated=count["duplicated"],
                stored_twice=count["stored_twice"],
                unprovoked=count["unprovoked"],
                redelivered=count["redelivered"],
                out_of_order=by_key.total(),
                foreign=count["foreign"],
                publish_rate=_rate(count["confirmed"], self._since(self._publish.last)),
                delivery_rate=_rate(count["arrivals"], self._since(self._delivery.last)),
                publish_pause=self._pause(self._publish, now, waiting=count["pending"] > 0),
                delivery_pause=self._pause(self._delivery, now, waiting=count["behind"] > 0),
                key_publish_pause=self._worst(now, lambda stream: (stream.publish, stream.pending > 0)),
                key_delivery_pause=self._worst(now, lambda stream: (stream.delivery, stream.behind > 0)),
                latency=Latency(self._percentile(0.50), self._percentile(0.99), self._latency_max),
                operations=tuple(self._operations),
                send_timeout=self._send_timeout,
                ordered=self._ordered,
                errors=dict(self._errors),
                out_of_order_keys=dict(by_key),
                lost_examples=self._lost_examples(),
                duplicated_examples=tuple(self._duplicated),
                unprovoked_examples=tuple(self._unprovoked),
            )

    def _stream(self, stamp: Stamp) -> _Stream:
        stream = self._streams.get((stamp.producer, stamp.key))
        if stamp.run != self.run or stream is None or not 0 <= stamp.number < len(stream.marks):
            raise ValueError(f"{stamp} was not sent by run {self.run}: only what sent() returned has an outcome")
        return stream

    def _no_longer_pending(self, stream: _Stream) -> None:
        stream.pending -= 1
        self._counts["pending"] -= 1

    def _behind(self, stream: _Stream, change: int) -> None:
        stream.behind += change
        self._counts["behind"] += change

    def _first_arrival(
        self, stream: _Stream, stamp: Stamp, mark: int, now: float, position: int, *, flagged: bool
    ) -> None:
        stream.marks[stamp.number] = mark | RECEIVED
        stream.positions[stamp.number] = position
        self._counts["received"] += 1
        if mark & CONFIRMED:
            self._behind(stream, -1)
        else:
            self._counts["unconfirmed_received"] += 1
        if stamp.number < stream.highest and not flagged:
            stream.out_of_order += 1
        latency = max(now - self._origin - stamp.micros / 1e6, 1e-6)
        self._latencies[math.floor(math.log(latency) / _STEP)] += 1
        self._latency_max = max(self._latency_max, latency)

    def _duplicate(self, stream: _Stream, stamp: Stamp, now: float, position: int) -> None:
        example = Example(stamp.producer, stamp.key, stamp.number, self._since(now))
        self._counts["duplicated"] += 1
        if len(self._duplicated) < _EXAMPLES:
            self._duplicated.append(example)
        if stream.positions[stamp.number] != position:
            self._counts["stored_twice"] += 1
        if self._quiet and stamp.number >= stream.settled:
            self._counts["unprovoked"] += 1
            if len(self._unprovoked) < _EXAMPLES:
                self._unprovoked.append(example)

    def _since(self, now: float) -> float:
        return 0.0 if self._start is None else now - self._start

    def _pause(self, gap: _Gap, now: float, *, waiting: bool, key: int | None = None) -> Pause:
        if self._start is None:
            return Pause()
        seconds, began = gap.until(now, waiting=waiting)
        return Pause(seconds, self._since(began), key)

    def _worst(self, now: float, of: Callable[[_Stream], tuple[_Gap, bool]]) -> Pause:
        pauses = []
        for (_, key), stream in self._streams.items():
            gap, waiting = of(stream)
            pauses.append(self._pause(gap, now, waiting=waiting, key=key))
        return max(pauses, key=lambda pause: pause.seconds, default=Pause())

    def _percentile(self, share: float) -> float:
        rank = math.ceil(share * self._latencies.total())
        counted = 0
        for bucket in sorted(self._latencies):
            counted += self._latencies[bucket]
            if counted >= rank:
                return min(math.exp((bucket + 1) * _STEP), self._latency_max)
        return 0.0

    def _lost_examples(self) -> tuple[Example, ...]:
        found: list[Example] = []
        for (producer, key), stream in sorted(self._streams.items()):
            for number in stream.lost() if stream.behind else ():
                if len(found) == _EXAMPLES:
                    return tuple(found)
                found.append(Example(producer, key, number))
        return tuple(found)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
