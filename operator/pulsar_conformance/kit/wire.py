"""Pulsar's binary protocol, as far as a transaction and a topic are asked for: what a client's error handling hides.

Commands are frames of two sizes and a BaseCommand, see PulsarApi.proto of Pulsar; only the fields in use are written.
"""

from __future__ import annotations

import socket
import struct
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pulsar_conformance.credentials import Access

NOT_ALLOWED = 22
"""ServerError.NotAllowedError."""
TOPIC_NOT_FOUND = 11
"""ServerError.TopicNotFound."""
CONNECT, ERROR, NEW_TRANSACTION, NEW_TRANSACTION_RESPONSE = 2, 14, 50, 51
PARTITIONED_METADATA, PARTITIONED_METADATA_RESPONSE = 21, 22
"""BaseCommand.Type; the command itself is in the field with the same number."""
PROTOCOL_VERSION = 21
LIMIT = 20.0
"""Seconds for each exchange."""


@dataclass(frozen=True)
class Refusal:
    """A broker's error: a ServerError's number and its text."""

    error: int
    message: str


@dataclass(frozen=True)
class Wire:
    """A connection by a service URL; a proxy there connects to ``broker`` (host:port), else answers itself."""

    service_url: str
    broker: str = ""
    access: Access = field(default_factory=Access)

    def new_transaction(self) -> Refusal | None:
        """Ask for a transaction of 10 s; None when there is one. Raises OSError when no broker answers."""
        return self._asked(NEW_TRANSACTION, _number(1, 1) + _number(2, 10) + _number(3, 0))

    def finds(self, topic: str) -> bool:
        """Whether the broker reports that a topic exists, without creating it, by the first answer of a connection.

        Raises OSError when nothing answers, or with another refusal than that it is not there.
        """
        refusal = self._asked(PARTITIONED_METADATA, _text(1, topic) + _number(2, 1) + _number(6, 0))
        if refusal is not None and refusal.error != TOPIC_NOT_FOUND:
            raise ConnectionError(f"asked for {topic}: {refusal}")
        return refusal is None

    def _asked(self, kind: int, question: bytes) -> Refusal | None:
        """Returns the error to one command on a separate connection; None if it was carried out."""
        with self._connected() as line:
            connect = _text(1, "conformance") + _number(4, PROTOCOL_VERSION)
            if self.broker:
                connect += _text(6, self.broker)
            if self.access.token is not None:
                connect += _text(3, self.access.token()) + _text(5, "token")
            line.sendall(_command(CONNECT, connect))
            # Connected, or why not: then the command is not carried out either.
            refusal = _refusal(line)
            if refusal is not None:
                return refusal
            line.sendall(_command(kind, question))
            return _refusal(line)

    def _connected(self) -> socket.socket:
        place = urllib.parse.urlsplit(self.service_url.split(",")[0])
        host, secure = place.hostname or "", place.scheme == "pulsar+ssl"
        line = socket.create_connection((host, place.port or (6651 if secure else 6650)), LIMIT)
        return self.access.context().wrap_socket(line, server_hostname=host) if secure else line


def _refusal(line: socket.socket) -> Refusal | None:
    """The error in the next command."""
    size, length = struct.unpack(">II", _exactly(line, 8))
    fields = dict(_fields(_exactly(line, size - 4)[:length]))
    kind = fields[1]
    # The numbers of the fields with the error and its text.
    where = {ERROR: (2, 3), NEW_TRANSACTION_RESPONSE: (4, 5), PARTITIONED_METADATA_RESPONSE: (4, 5)}.get(kind)
    values = dict(_fields(fields[kind]))
    if where is None or where[0] not in values:
        return None
    return Refusal(values[where[0]], values.get(where[1], b"").decode())


def _command(kind: int, body: bytes) -> bytes:
    whole = _number(1, kind) + _varint(kind << 3 | 2) + _varint(len(body)) + body
    return struct.pack(">II", len(whole) + 4, len(whole)) + whole


def _exactly(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection without an answer")
        data += more
    return data


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: whole numbers, and bytes for all else."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 2:
            size = number()
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            yield tag >> 3, number()


def _number(where: int, value: int) -> bytes:
    return _varint(where << 3) + _varint(value)


def _text(where: int, value: str) -> bytes:
    data = value.encode()
    return _varint(where << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
