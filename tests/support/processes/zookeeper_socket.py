"""A socket that answers like ZooKeeper, byte by byte as a test wants it; in threads of the test's own process."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType

EXISTS, GET_DATA, CLOSE = 3, 4, -11
NO_NODE = -101
STEP_SECONDS = 20.0
"""What a socket of a test waits for at most."""


def frame(body: bytes) -> bytes:
    """The length and the records."""
    return struct.pack(">i", len(body)) + body


def granted(
    timeout: int = 10_000, session: int = 7, version: int = 0, password: int = 16, more: bytes = b"\0"
) -> bytes:
    """ConnectResponse; ``password`` is the length that it says."""
    return frame(struct.pack(">iiqi", version, timeout, session, password) + bytes(16) + more)


def reply(xid: int, error: int = 0, body: bytes = b"") -> bytes:
    """ReplyHeader, and a record."""
    return frame(struct.pack(">iqi", xid, 5, error) + body)


def stat(owner: int) -> bytes:
    """Stat of a node that belongs to a session, 0 = to none."""
    return struct.pack(">qqqqiiiqiiq", 1, 1, 1, 1, 0, 0, 0, owner, 0, 0, 1)


def read_frame(connection: socket.socket) -> bytes:
    """The records of the next frame. Raises ConnectionError at the end of the connection."""
    (length,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, length)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (chunk := connection.recv(count - len(data))):
            raise ConnectionError("ended")
        data += chunk
    return data


Script = Callable[[socket.socket], None]
"""What is done with one connection, which is closed afterwards."""


def says(*answers: bytes, stays: bool = False) -> Script:
    """Answers each request with the next of these bytes, and then closes or waits for the other side."""

    def script(connection: socket.socket) -> None:
        for answer in answers:
            read_frame(connection)
            connection.sendall(answer)
        if stays:
            hangs(connection)

    return script


def hangs(connection: socket.socket) -> None:
    """Reads and never answers."""
    while connection.recv(4096):
        pass


class SocketServer:
    """Listens on loopback; connections get the scripts in turn, and then the last for ever. A context manager."""

    def __init__(self, *scripts: Script, host: str = "127.0.0.1") -> None:
        self._scripts, self._taken = scripts, 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._connections: list[socket.socket] = []

    @property
    def connections(self) -> int:
        """How many there were."""
        return self._taken

    def __enter__(self) -> SocketServer:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(STEP_SECONDS)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(STEP_SECONDS)
                script = self._scripts[min(self._taken, len(self._scripts) - 1)]
                self._taken += 1
                self._connections.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(script, connection), daemon=True))
                self._threads[-1].start()

    @staticmethod
    def _serve(script: Script, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            script(connection)


class Tree:
    """A script: nodes by path with the sessions that they belong to, which a test may change; takes down what it is
    asked."""

    def __init__(self, nodes: Mapping[str, int] | None = None, contents: Mapping[str, bytes] | None = None) -> None:
        self.nodes, self.contents = dict(nodes or {}), dict(contents or {})
        self.requests: list[bytes] = []

    def __call__(self, connection: socket.socket) -> None:
        self.requests.append(read_frame(connection))
        connection.sendall(granted())
        while True:
            request = read_frame(connection)
            self.requests.append(request)
            xid, kind = struct.unpack_from(">ii", request)
            if kind == CLOSE:
                connection.sendall(reply(xid))
                return
            if kind == GET_DATA:
                content = self.contents.get(request[12:-1].decode())
                framed = None if content is None else struct.pack(">i", len(content)) + content + stat(0)
                connection.sendall(reply(xid, NO_NODE) if framed is None else reply(xid, body=framed))
                continue
            assert kind == EXISTS
            owner = self.nodes.get(request[12:-1].decode())
            connection.sendall(reply(xid, NO_NODE) if owner is None else reply(xid, body=stat(owner)))

    @property
    def kinds(self) -> Sequence[int]:
        """Types of the requests after the first."""
        return [struct.unpack_from(">ii", request)[1] for request in self.requests[1:]]
