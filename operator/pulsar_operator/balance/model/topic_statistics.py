"""Reads ``GET /broker-stats/topics`` piece by piece.

The document nests namespace, bundle, domain, topic (Pulsar's classes PulsarStats, PersistentTopic.updateRates and
NonPersistentTopic.updateRates): ``{ns: {range: {"persistent": {topic: {...}}, "non-persistent": {topic: {...}}}}}``.

A decoder reads whole topics and skips the fields that are not requested. It is ten times as fast as the events of a
parser. Documents that the decoder refuses are read event by event, which finds the error in them and does not need
whole topics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from pulsar_operator.balance.model.load import figure
from pulsar_operator.balance.model.pieces import DEFAULT, Event, FormatError, Limits, Pieces, kind_of

RATES: Final = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
FIELDS: Final = frozenset({*RATES, "producerCount", "storageSize"})
PLACES: Final = ("at the top", "for a namespace", "for a bundle", "for a domain", "for a topic")
STARTS: Final = (b'},"persistent://', b'{"persistent://', b'},"non-persistent://', b'{"non-persistent://')
"""Bytes with which a topic starts, after another topic and as the first of its domain."""
CLOSING: Final = b"}}}}"
"""Ends the maps of a domain, a bundle, a namespace and the document."""
LONGEST_OPENING: Final = 4096
"""Bytes of the names of a place up to which a decoder reads on: it reads them again with every piece. Pulsar's longest
path of a namespace is far shorter."""


class TopicFigures(NamedTuple):
    """Figures of one topic. A rate is None if the document lacks it, because the broker failed while it wrote the
    topic."""

    messages_in: Any
    messages_out: Any
    bytes_in: Any
    bytes_out: Any
    producers: Any
    storage_bytes: Any
    subscriptions: int
    consumers: int
    backlog: Any
    """Messages, over all subscriptions."""
    replicated_messages: float
    """A second, to other clusters."""
    replicated_bytes: float


class TakeTopic(Protocol):
    """Called with every topic of a document, in its order."""

    def __call__(self, namespace: str, bundle: str, topic: str, figures: TopicFigures) -> None:
        """``topic`` is the full name."""


class TopicsReader:
    """Reads a document of topic statistics piece by piece. It buffers the bytes after the last start of a topic, up to
    the limit of a token.

    If a map of the document has a key twice, which Pulsar does not write, the first of the two values may be lost, and
    topics of later pieces may be passed on under another namespace, bundle or domain of the document.
    """

    def __init__(self, take: TakeTopic, skips: Callable[[str], bool], limits: Limits = DEFAULT) -> None:
        """``skips`` says which namespaces are left out."""
        self._take, self._skips, self._limits = take, skips, limits
        self._events: _TopicEvents | None = None
        self._place: tuple[str, str, str] | None = None
        self._opening = b""
        self._pending = bytearray()
        self._size = self._topics = 0

    @property
    def size(self) -> int:
        """Returns the bytes fed by now."""
        return self._events.pieces.size if self._events is not None else self._size

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises FormatError, and what ``take`` raises."""
        if self._events is not None:
            self._events.feed(data)
            return
        if self._size + len(data) > self._limits.size:
            raise FormatError(f"more than {self._limits.size} bytes long")
        self._size += len(data)
        known = max(len(self._pending) - max(map(len, STARTS)), 0)
        self._pending += data
        at = next((found for start in STARTS if (found := self._pending.rfind(start, known)) >= 0), -1)
        if at >= 0:
            self._decode(at)
            if len(self._opening) > LONGEST_OPENING and self._events is None:
                self._read_events()
        elif len(self._pending) > self._limits.token:
            self._read_events()

    def end(self) -> None:
        """The document ended. Raises FormatError where it is empty or cut."""
        if not self.size:
            raise FormatError("empty, because the broker has no statistics yet (it computes them once a minute)")
        if self._events is None and not self._taken(self._opening + self._pending):
            self._read_events()
        if self._events is not None:
            self._events.pieces.end()

    def _decode(self, at: int) -> None:
        """Decodes the pending bytes before a place where a topic seems to start. If they are a document once four maps
        are closed, the place is between two topics: the same bytes elsewhere have more or fewer maps around them."""
        between = at + 1
        if not self._taken(self._opening + self._pending[:between] + CLOSING):
            self._read_events()
            return
        del self._pending[: between + (self._pending[between] == ord(","))]

    def _taken(self, text: bytes | bytearray) -> bool:
        """Passes the topics of a document on. Returns False, and passes none on, if the text is not a document."""
        try:
            found = _DECODER.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        place = ("", "", "")
        for namespace, bundles in found.items():
            skipped = self._skips(namespace)
            for bundle, domains in bundles.items():
                for domain, topics in domains.items():
                    place = (namespace, bundle, domain)
                    if skipped:
                        continue
                    self._topics += len(topics)
                    if self._topics > self._limits.topics:
                        raise FormatError(f"of more than {self._limits.topics} topics")
                    for topic, entry in topics.items():
                        self._take(namespace, bundle, topic, entry.figures())
        if place != self._place:
            self._place = place
            self._opening = b"".join(b"{%b:" % msgspec.json.encode(name) for name in place) + b"{"
        return True

    def _read_events(self) -> None:
        """Reads the rest of the document event by event, from the pending bytes on."""
        self._events = _TopicEvents(self._take, self._skips, self._limits, topics=self._topics)
        self._events.feed(self._opening)
        self._events.pieces.size = self._size - len(self._pending)
        self._events.feed(bytes(self._pending))
        self._pending.clear()


class _Consumer(msgspec.Struct, gc=False):
    """A consumer, which is only counted."""


class _Subscription(msgspec.Struct, rename="camel", gc=False):
    msg_backlog: int = 0
    consumers: list[_Consumer] = []


class _Replicator(msgspec.Struct, rename="camel", gc=False):
    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0


class _Topic(msgspec.Struct, rename="camel", gc=False):
    msg_rate_in: float | None = None
    msg_rate_out: float | None = None
    msg_throughput_in: float | None = None
    msg_throughput_out: float | None = None
    producer_count: int = 0
    storage_size: int = 0
    subscriptions: dict[str, _Subscription] = {}
    replication: dict[str, _Replicator] = {}

    def figures(self) -> TopicFigures:
        consumers = backlog = 0
        for subscription in self.subscriptions.values():
            consumers += len(subscription.consumers)
            backlog += subscription.msg_backlog
        messages = size = 0.0
        for replicator in self.replication.values():
            messages += figure(replicator.msg_rate_out)
            size += figure(replicator.msg_throughput_out)
        return TopicFigures(
            self.msg_rate_in,
            self.msg_rate_out,
            self.msg_throughput_in,
            self.msg_throughput_out,
            self.producer_count,
            self.storage_size,
            len(self.subscriptions),
            consumers,
            backlog,
            messages,
            size,
        )


_DECODER: Final = msgspec.json.Decoder(dict[str, dict[str, dict[str, dict[str, _Topic]]]])


class _TopicEvents:
    """Reads topics event by event."""

    def __init__(self, take: TakeTopic, skips: Callable[[str], bool], limits: Limits, topics: int) -> None:
        """``topics`` were read before."""
        self.pieces = Pieces(limits)
        self._take, self._skips, self._limits, self._topics = take, skips, limits, topics
        self._state = (0, "", "", "", "", "", False)
        self._counted: tuple[int, int, Any, float, float] = (0, 0, 0, 0.0, 0.0)
        self._fields: dict[str, Any] = {}

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises FormatError, and what ``take`` raises."""
        for events in self.pieces.feed(data):
            self._read(events)

    def _read(self, events: list[Event]) -> None:
        """Depth is the number of maps and lists around the value:

        1 namespaces, 2 bundles, 3 domains, 4 topics, 5 fields of a topic, 6 subscriptions, 7 fields of a subscription,
        8 its consumers. What lies elsewhere (publishers) is skipped.
        """
        # A hundred events for each topic: local names, and the most frequent events first.
        depth, namespace, bundle, topic, field, detail, skip = self._state
        subscriptions, consumers, backlog, replicated_messages, replicated_bytes = self._counted
        fields = self._fields
        for event, value in events:
            if depth >= 6:
                if event == "map_key":
                    if depth == 7:
                        detail = value
                    elif depth == 6 and field == "subscriptions":
                        subscriptions += 1
                elif event in {"start_map", "start_array"}:
                    if depth == 8 and detail == "consumers" and field == "subscriptions" and event == "start_map":
                        consumers += 1
                    depth = self.pieces.deeper(depth)
                elif event in {"end_map", "end_array"}:
                    depth -= 1
                elif depth == 7:
                    if detail == "msgBacklog" and field == "subscriptions" and event == "number":
                        backlog += value
                    elif field == "replication" and event == "number":
                        if detail == "msgRateOut":
                            replicated_messages += figure(value)
                        elif detail == "msgThroughputOut":
                            replicated_bytes += figure(value)
            elif event == "map_key":
                if depth == 5:
                    field = value
                elif depth == 4:
                    topic = value
                elif depth == 2:
                    bundle = value
                elif depth == 1:
                    namespace, skip = value, self._skips(value)
            elif event == "end_map":
                depth -= 1
                if depth == 4 and not skip:
                    self._topics += 1
                    if self._topics > self._limits.topics:
                        raise FormatError(f"of more than {self._limits.topics} topics")
                    figures = TopicFigures(
                        fields.get("msgRateIn"),
                        fields.get("msgRateOut"),
                        fields.get("msgThroughputIn"),
                        fields.get("msgThroughputOut"),
                        fields.get("producerCount", 0),
                        fields.get("storageSize", 0),
                        subscriptions,
                        consumers,
                        backlog,
                        replicated_messages,
                        replicated_bytes,
                    )
                    self._take(namespace, bundle, topic, figures)
            elif event == "start_map":
                if depth == 4:
                    subscriptions = consumers = backlog = 0
                    replicated_messages = replicated_bytes = 0.0
                    fields = {}
                depth += 1
            elif depth < 5:
                raise FormatError(
                    f"not a broker-stats/topics document, because the value {PLACES[depth]} is of type "
                    f"{kind_of(event)} instead of map"
                )
            elif event == "start_array":
                depth += 1
            elif event == "end_array":
                depth -= 1
            elif event == "number" and field in FIELDS:
                fields[field] = value
        self._state = (depth, namespace, bundle, topic, field, detail, skip)
        self._counted = (subscriptions, consumers, backlog, replicated_messages, replicated_bytes)
        self._fields = fields
