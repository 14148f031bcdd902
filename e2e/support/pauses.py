"""Where the time goes while a bundle moves: the pauses that producers see, laid over what brokers and the client log.

One producer a topic, all of one client, as an application has them. A pause is the time between two answers to one
producer while it waited for one. Broker lines are those of Pulsar 4.0.8 at level INFO, with the time that the node's
container runtime has for them; the client's are those of pulsar-client-cpp at level INFO. Both clocks are this
machine's.
"""

from __future__ import annotations

import logging
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import pulsar

from e2e.support.podlog import NANOS, Line

LEAST_SECONDS: Final = 0.1
"""Shorter ones are no pauses; a message each 1 / rate seconds has an answer."""


class Pause(NamedTuple):
    """A producer without an answer."""

    began: int
    """Nanoseconds since 1970."""
    topic: str
    seconds: float

    @property
    def ended(self) -> int:
        """Nanoseconds since 1970."""
        return self.began + int(self.seconds * NANOS)


class Mark(NamedTuple):
    """Something that a line says happened."""

    at: int
    """Nanoseconds since 1970."""
    what: str
    subject: str
    """Bundle or topic, as the line names it."""


DISABLED, RELEASED, ACQUIRED, LOADED = "disabled", "released", "acquired", "loaded"
RETRY, UNLOADING, FOUND, CREATED = "retry", "unloading", "found", "created"
_BROKER: Final = (
    (DISABLED, re.compile(r"\bOwnedBundle - Disabling ownership: (\S+)")),
    (RELEASED, re.compile(r"\bOwnedBundle - Unloading (\S+) namespace-bundle with \d+ topics completed")),
    (ACQUIRED, re.compile(r"\bOwnershipCache - Successfully acquired ownership of OwnedBundle\(bundle=([^,]+),")),
    (LOADED, re.compile(r"\bBrokerService - Created topic (\S+) - ")),
)
_CLIENT: Final = (
    (RETRY, re.compile(r"^\[(\S+?), [^\]]*\] Schedule reconnection in ")),
    (UNLOADING, re.compile(r"^Lookup failed for (\S+?), result Retryable .* is being unloaded")),
    (FOUND, re.compile(r"^Lookup response for (\S+?), ")),
    (CREATED, re.compile(r"^\[(\S+?), [^\]]*\] Created producer on broker ")),
)


def marks_of(at: int, text: str, patterns: Sequence[tuple[str, re.Pattern[str]]]) -> list[Mark]:
    """What a line says; most say nothing."""
    return [Mark(at, what, found[1]) for what, pattern in patterns if (found := pattern.search(text))]


def broker_marks(line: Line) -> list[Mark]:
    """What a broker's line says."""
    return marks_of(line.at, line.text, _BROKER)


def client_marks(at: int, text: str) -> list[Mark]:
    """What the client's line says."""
    return marks_of(at, text, _CLIENT)


@dataclass(frozen=True)
class Stages:
    """One pause cut up, in seconds; a stage that no line tells is None."""

    pause: Pause
    closing: float | None
    """From the last answer until the old broker has let the bundle go."""
    finding: float | None
    """From there until a lookup names the new broker: what the client's back-off costs."""
    loading: float | None
    """From there until the new broker has the topic open."""
    opening: float | None
    """From there until the producer is there and has its first answer."""
    refused: int
    """Lookups that were answered with: being unloaded."""


def stages(pause: Pause, bundle: str, marks: Iterable[Mark]) -> Stages:
    """Cut a pause up by what happened in it to its topic and bundle."""
    margin = NANOS // 2
    inside = sorted(m for m in marks if pause.began - margin <= m.at <= pause.ended + margin)
    released = _last(inside, RELEASED, bundle)
    found = _last(inside, FOUND, pause.topic)
    loaded = _last(inside, LOADED, pause.topic)
    return Stages(
        pause,
        _between(pause.began, released),
        _between(released, found),
        _between(found, loaded),
        _between(loaded if loaded is not None else found, pause.ended),
        sum(m.what == UNLOADING and m.subject == pause.topic for m in inside),
    )


def _last(marks: Sequence[Mark], what: str, subject: str) -> int | None:
    return max((m.at for m in marks if m.what == what and m.subject == subject), default=None)


def _between(begin: int | None, end: int | None) -> float | None:
    return None if begin is None or end is None else max((end - begin) / NANOS, 0.0)


def table(found: Sequence[Stages]) -> str:
    """Median and most of each stage, and of the whole."""
    rows = [f"{len(found)} pauses of {LEAST_SECONDS} s and more", "stage      median      most"]
    named: Mapping[str, list[float]] = {
        "closing": [s.closing for s in found if s.closing is not None],
        "finding": [s.finding for s in found if s.finding is not None],
        "loading": [s.loading for s in found if s.loading is not None],
        "opening": [s.opening for s in found if s.opening is not None],
        "all": [s.pause.seconds for s in found],
    }
    for name, values in named.items():
        if values:
            rows.append(f"{name:8} {statistics.median(values):7.2f} s {max(values):7.2f} s  of {len(values)}")
    if found:
        rows.append(f"lookups refused while the bundle was unloading: {sum(s.refused for s in found)}")
    return "\n".join(rows)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of them does not exceed. Raises ValueError for none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class _Said(logging.Handler):
    """Hands the client's lines over."""

    def __init__(self, take: Callable[[int, str], None]) -> None:
        super().__init__(logging.INFO)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        """From the client's threads."""
        self._take(time.time_ns(), record.getMessage())


class Publishing:
    """Publishes on each topic at a rate, and takes down pauses, failures and what the client says."""

    def __init__(self, service_url: str, topics: Sequence[str], *, rate: float = 20.0, send_timeout: float = 60.0):
        self._url, self.topics, self._rate, self._send_timeout = service_url, tuple(topics), rate, send_timeout
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._waiting: dict[str, int] = dict.fromkeys(topics, 0)
        self._last: dict[str, int] = {}
        self._pauses: list[Pause] = []
        self._marks: list[Mark] = []
        self._thread = threading.Thread(target=self._work, name="publishing", daemon=True)
        self.failed: Counter[str] = Counter()
        self.sent = 0

    def __enter__(self) -> Self:
        logger = logging.Logger("pulsar-client", logging.INFO)
        logger.addHandler(_Said(self._said))
        self._client = pulsar.Client(self._url, operation_timeout_seconds=30, logger=logger)
        self._producers = {
            topic: self._client.create_producer(
                topic,
                batching_enabled=False,
                block_if_queue_full=False,
                max_pending_messages=20_000,
                send_timeout_millis=int(self._send_timeout * 1000),
            )
            for topic in self.topics
        }
        self._last = dict.fromkeys(self.topics, time.time_ns())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        end = time.monotonic() + self._send_timeout
        while any(self._waiting.values()) and time.monotonic() < end:
            time.sleep(0.05)
        self._client.close()

    def _said(self, at: int, text: str) -> None:
        found = client_marks(at, text)
        with self._lock:
            self._marks.extend(found)

    def note(self, line: Line) -> None:
        """Take down what a broker says."""
        found = broker_marks(line)
        with self._lock:
            self._marks.extend(found)

    def _work(self) -> None:
        while not self._stop.wait(1 / self._rate):
            for topic in self.topics:
                self._send(topic)

    def _send(self, topic: str) -> None:
        with self._lock:
            if not self._waiting[topic]:
                self._last[topic] = time.time_ns()
            self._waiting[topic] += 1

        def answered(result: Any, _: object) -> None:
            self._answered(topic, None if result == pulsar.Result.Ok else result.name)

        try:
            self._producers[topic].send_async(b"x" * 100, answered)
        except pulsar.PulsarException as error:
            self._answered(topic, type(error).__name__)

    def _answered(self, topic: str, reason: str | None) -> None:
        now = time.time_ns()
        with self._lock:
            self._waiting[topic] -= 1
            if reason is not None:
                self.failed[reason] += 1
                return
            self.sent += 1
            seconds = (now - self._last[topic]) / NANOS
            if seconds >= LEAST_SECONDS:
                self._pauses.append(Pause(self._last[topic], topic, seconds))
            self._last[topic] = now

    @property
    def pauses(self) -> list[Pause]:
        """Those so far, by their beginning."""
        with self._lock:
            return sorted(self._pauses)

    @property
    def marks(self) -> list[Mark]:
        """What was said so far."""
        with self._lock:
            return list(self._marks)
