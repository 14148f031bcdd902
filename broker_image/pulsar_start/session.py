"""A ZooKeeper session that asks which nodes exist and what is in them, over a plain socket: the images have no library
of Python for that.

A frame is its length in four bytes and then records, big-endian and without padding; a string is its length and UTF-8
(source: zookeeper.jute of ZooKeeper 3.9, classes ZooDefs.OpCode and KeeperException.Code; ZooKeeper Programmer's Guide,
"ZooKeeper Sessions").
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

SESSION_MILLISECONDS = 10_000
"""What a session may be silent for, and outlives this program where it is not closed."""
CLOSE_SECONDS = 1.0
LONGEST_ANSWER = 1024
"""Bytes; without the content of a node the longest expected answer has 84. Whatever says more does not speak this
protocol."""
LONGEST_CONTENT = 1 << 20
"""Bytes; what a ZooKeeper server lets a node have (jute.maxbuffer)."""

_SOON = 0.001
"""Seconds; zero would be a socket that does not wait at all."""
_EXISTS, _GET_DATA, _CLOSE = 3, 4, -11
_OK, _NO_NODE = 0, -101
_PASSING = {
    -4: "connection loss",
    -7: "timeout of an operation",
    -112: "session expired",
    -118: "session moved",
    -127: "throttled",
}
_LENGTH = struct.Struct(">i")
_CONNECT_REQUEST = struct.Struct(">iqiqi16s?")
"""protocolVersion, lastZxidSeen, timeOut, sessionId, passwd; then readOnly, which every server since 3.4 reads."""
_CONNECT_RESPONSE = struct.Struct(">iiqi")
"""protocolVersion, timeOut, sessionId, length of passwd."""
_REQUEST_HEADER = struct.Struct(">ii")
"""xid, type."""
_REPLY_HEADER = struct.Struct(">iqi")
"""xid, zxid, err."""
_STAT = struct.Struct(">qqqqiiiqiiq")
_EPHEMERAL_OWNER = 7


class ProtocolError(Exception):
    """The other side answers, but not as ZooKeeper answers a client without TLS and authentication."""


@dataclass(frozen=True)
class Server:
    """Where a ZooKeeper server listens for clients; an IPv6 address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Node:
    """A node that exists."""

    path: str
    ephemeral: bool
    """Whether it goes with a session."""


class Session:
    """One session on one connection. Raises OSError where another server, or the same one later, may answer, and
    ProtocolError where waiting does not help; both name the server."""

    def __init__(self, connection: socket.socket, server: Server) -> None:
        self._connection, self._server, self._xid = connection, server, 0

    def begin(self, seconds: float) -> None:
        """Ask for a new session. It is a transaction of the ensemble, so a server that grants one has applied all that
        was agreed on before: what the first questions find is no older than the session."""
        with _named(self._server):
            body = _CONNECT_REQUEST.pack(0, 0, SESSION_MILLISECONDS, 0, 16, bytes(16), False)
            answer = self._ask(body, seconds)
            version, granted, number, password = _unpack(_CONNECT_RESPONSE, answer)
            # Old servers leave readOnly out.
            if version != 0 or len(answer) - _CONNECT_RESPONSE.size - password not in (0, 1):
                raise ProtocolError("its answer to the first request is not ZooKeeper's")
            if granted <= 0 or number == 0:
                raise ConnectionError("refuses the session")

    def node(self, path: str, seconds: float) -> Node | None:
        """What is at a path; None for nothing."""
        name = path.encode()
        with _named(self._server):
            answer = self._call(_EXISTS, _LENGTH.pack(len(name)) + name + b"\0", seconds)
            return None if answer is None else Node(path, _unpack(_STAT, answer)[_EPHEMERAL_OWNER] != 0)

    def data(self, path: str, seconds: float) -> bytes | None:
        """The content of the node at a path; None where there is none."""
        name = path.encode()
        with _named(self._server):
            record = _LENGTH.pack(len(name)) + name + b"\0"
            answer = self._call(_GET_DATA, record, seconds, LONGEST_ANSWER + LONGEST_CONTENT)
            if answer is None:
                return None
            (length,) = _unpack(_LENGTH, answer)
            content = answer[_LENGTH.size :]
            # A node may have no content at all, whose length is -1.
            if not -1 <= length <= len(content) - _STAT.size:
                raise ProtocolError(f"says that {length} bytes are in {len(content)}")
            return content[: max(length, 0)]

    def close(self) -> None:
        """End the session, if the server still listens, and the connection."""
        with suppress(OSError, ProtocolError), self._connection:
            self._call(_CLOSE, b"", CLOSE_SECONDS)

    def drop(self) -> None:
        """End the connection; the session expires."""
        with suppress(OSError):
            self._connection.close()

    def _call(self, kind: int, record: bytes, seconds: float, longest: int = LONGEST_ANSWER) -> bytes | None:
        """The record of the answer, None where there is no such node."""
        self._xid += 1
        answer = self._ask(_REQUEST_HEADER.pack(self._xid, kind) + record, seconds, longest)
        xid, _, error = _unpack(_REPLY_HEADER, answer)
        if xid != self._xid:
            raise ProtocolError(f"answer {xid} to request {self._xid}")
        if error in _PASSING:
            raise ConnectionError(_PASSING[error])
        if error not in (_OK, _NO_NODE):
            raise ProtocolError(f"error {error}")
        return answer[_REPLY_HEADER.size :] if error == _OK else None

    def _ask(self, body: bytes, seconds: float, longest: int = LONGEST_ANSWER) -> bytes:
        end = time.monotonic() + seconds
        self._connection.settimeout(max(seconds, _SOON))
        self._connection.sendall(_LENGTH.pack(len(body)) + body)
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, end))
        if not 0 <= length <= longest:
            raise ProtocolError(f"begins an answer of {length} bytes: it is no ZooKeeper, or wants TLS")
        return self._read(length, end)

    def _read(self, count: int, end: float) -> bytes:
        data = b""
        while len(data) < count:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(left)
            chunk = self._connection.recv(count - len(data))
            if not chunk:
                raise ConnectionError("closes the connection")
            data += chunk
        return data


def open_session(servers: Sequence[Server], left: Callable[[], float]) -> Session:
    """A session with the first of the servers that grants one, each address of a name in turn.

    ``left`` tells how many seconds the next step may take; with none left each step fails at once. Raises OSError with
    what each server did, and ProtocolError.
    """
    problems: list[str] = []
    for server in servers:
        try:
            for family, address in resolve(server, left()):
                try:
                    return _session_at(server, family, address, left)
                except OSError as error:
                    problems.append(str(error))
        except OSError as error:
            problems.append(str(error))
    raise ConnectionError("; ".join(dict.fromkeys(problems)))


def resolve(server: Server, seconds: float) -> list[tuple[socket.AddressFamily, Any]]:
    """Family and address of each address of a server's name. Raises OSError.

    In a thread of its own: the C library is not to be interrupted, neither by a clock nor by a signal.
    """
    found: SimpleQueue[list[tuple[Any, ...]] | Exception] = SimpleQueue()

    def look() -> None:
        try:
            found.put(socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM))
        except Exception as error:
            found.put(error)

    Thread(target=look, daemon=True).start()
    with _named(server):
        try:
            answer = found.get(timeout=max(seconds, 0))
        except Empty:
            raise TimeoutError("the name service does not answer") from None
        if isinstance(answer, OSError):
            raise answer
        if isinstance(answer, Exception):
            # Such as a label of more than 63 letters.
            raise ProtocolError(f"is no name of a host: {answer}")
        return [(entry[0], entry[4]) for entry in answer]


def _session_at(server: Server, family: socket.AddressFamily, address: Any, left: Callable[[], float]) -> Session:
    with _named(server):
        connection = socket.socket(family, socket.SOCK_STREAM)
    session = Session(connection, server)
    try:
        with _named(server):
            connection.settimeout(max(left(), _SOON))
            connection.connect(address)
        session.begin(left())
    except BaseException:
        session.drop()
        raise
    return session


@contextmanager
def _named(server: Server) -> Iterator[None]:
    """Puts the server in front of what it did."""
    try:
        yield
    except OSError as error:
        raise ConnectionError(f"{server}: {error.strerror or error}") from error
    except ProtocolError as error:
        raise ProtocolError(f"{server}: {error}") from error


def _unpack(record: struct.Struct, data: bytes) -> tuple[Any, ...]:
    """The record that data begins with."""
    if len(data) < record.size:
        raise ProtocolError(f"{len(data)} bytes where {record.size} belong")
    return record.unpack_from(data)
