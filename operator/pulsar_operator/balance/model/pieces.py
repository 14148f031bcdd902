"""JSON documents of any size, read piece by piece within the memory of one piece.

The operator and the collector read brokers' statistics with it. A broker's answer is not trusted to have a reasonable
size: a document is refused if it is too long, nested too deep, or has a name without an end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import ijson

from pulsar_operator.balance.model.hashing import topic_hash

SLICE_BYTES: Final = 16 * 1024
"""Bytes parsed in one step: the events of larger steps no longer fit in the processor's cache."""
Event = tuple[str, Any]
"""As ijson names it (map_key, start_map, end_map, start_array, end_array, string, number, boolean, null), and its
value."""


class FormatError(ValueError):
    """An answer is not the expected document; the message states the difference, to follow "its answer is"."""


@dataclass(frozen=True)
class Limits:
    """Limits of one document."""

    size: int = 1 << 32
    """Bytes."""
    token: int = 1 << 20
    """Bytes of one name or value, which is kept whole. Pulsar's frames, and so the names in them, end at 5 MiB."""
    depth: int = 64
    """Maps and lists around a value. Statistics of topics have 9."""
    topics: int = 4_000_000
    """Topics of one broker: 20 bytes each are kept."""
    bundles: int = 200_000
    """Bundles of one broker or namespace, and namespaces of one broker: some 500 bytes each are kept."""


DEFAULT: Final = Limits()


class Pieces:
    """The events of one document, from its pieces."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._events: Any = ijson.sendable_list()
        self._parser = ijson.basic_parse_coro(self._events, use_float=True)
        self._silent = 0
        self.size = 0
        """Bytes fed by now."""

    def feed(self, data: bytes) -> Iterator[list[Event]]:
        """Returns the events in the next piece, slice by slice; each list is to be used before the next one is asked
        for.

        Raises FormatError.
        """
        for at in range(0, len(data), SLICE_BYTES):
            part = data[at : at + SLICE_BYTES]
            self.size += len(part)
            if self.size > self._limits.size:
                raise FormatError(f"more than {self._limits.size} bytes long")
            try:
                self._parser.send(part)
            except (ijson.JSONError, ValueError, OverflowError) as error:
                raise FormatError(f"not JSON (the error after {self.size} bytes is: {first_line(error)})") from None
            self._silent = 0 if self._events else self._silent + len(part)
            if self._silent > self._limits.token:
                raise FormatError(f"not readable, because a name or value has more than {self._limits.token} bytes")
            yield self._events
            self._events.clear()

    def end(self) -> None:
        """The document ended. Raises FormatError where it is empty or cut."""
        if not self.size:
            raise FormatError("empty")
        try:
            self._parser.close()
        except (ijson.JSONError, ValueError, OverflowError) as error:
            raise FormatError(f"not complete (the error after {self.size} bytes is: {first_line(error)})") from None

    def deeper(self, depth: int) -> int:
        """Returns the next level. Raises FormatError where that is too deep."""
        if depth >= self._limits.depth:
            raise FormatError(f"nested more than {self._limits.depth} levels deep")
        return depth + 1


class TopicNames:
    """Positions of the topics in a list of their full names, as ``GET /persistent/{tenant}/{namespace}`` answers it."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._pieces = Pieces(limits)
        self._depth = 0
        self.positions = array("I")
        """In the order of the names."""

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises FormatError."""
        for events in self._pieces.feed(data):
            for event, value in events:
                if event == "string" and self._depth == 1:
                    self.positions.append(position_of(value))
                elif event == "start_array" and self._depth == 0:
                    self._depth = 1
                elif event == "end_array":
                    self._depth = 0
                else:
                    raise FormatError(
                        f"not a list of topics, because it contains a value of type {kind_of(event)} instead of a name"
                    )

    def end(self) -> None:
        """The document ended. Raises FormatError where it is cut."""
        self._pieces.end()


def position_of(topic: str) -> int:
    """Position of a topic's name. Raises FormatError for half of a surrogate pair, which no name of a topic has."""
    try:
        return topic_hash(topic)
    except UnicodeEncodeError:
        raise FormatError("not a list of topics, because a name is not text") from None


def kind_of(event: str) -> str:
    """Returns the name of what an event begins, for messages."""
    return event.removeprefix("start_")


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message."""
    return str(error).strip().partition("\n")[0]
