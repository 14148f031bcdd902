"""Connections that the tests' requests keep: used again, replaced when the server closed them, no write sent twice."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.processes.keepalive import KeptConnections

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers as each connection's script says, then closes the connection; notes what it received, by connection."""

    def __init__(self, *scripts: list[bytes]) -> None:
        self._scripts = list(scripts)
        self.received: list[list[str]] = []
        self.closed = [threading.Event() for _ in scripts]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for script, closed in zip(self._scripts, self.closed, strict=True):
            connection, _ = self._listener.accept()
            lines: list[str] = []
            self.received.append(lines)
            with connection, connection.makefile("rb") as stream:
                for answer in script:
                    line = stream.readline()
                    while stream.readline().strip():
                        pass
                    if line:
                        lines.append(line.decode().strip())
                        connection.sendall(answer)
            closed.set()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def serving() -> Iterator[list[Server]]:
    servers: list[Server] = []
    yield servers
    for server in servers:
        server.close()


def kept(server: Server) -> KeptConnections:
    return KeptConnections(lambda: http.client.HTTPConnection("127.0.0.1", server.port))


def ask(connections: KeptConnections, method: str = "GET") -> tuple[int, bytes]:
    return connections.request(method, "/x", None, {}, timeout=30)


def test_requests_share_a_connection(serving: list[Server]) -> None:
    serving.append(Server([ANSWER] * 3))
    connections = kept(serving[0])
    assert [ask(connections, method) for method in ("GET", "POST", "GET")] == [(200, b"{}")] * 3
    assert serving[0].received == [["GET /x HTTP/1.1", "POST /x HTTP/1.1", "GET /x HTTP/1.1"]]
    connections.close()


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
@pytest.mark.parametrize("answer", [ANSWER, LAST], ids=["without a word", "as it said"])
def test_a_connection_that_was_closed_is_replaced(serving: list[Server], answer: bytes, method: str) -> None:
    serving.append(Server([answer], [ANSWER]))
    connections = kept(serving[0])
    ask(connections)
    assert serving[0].closed[0].wait(30)
    assert ask(connections, method) == (200, b"{}")
    assert serving[0].received == [["GET /x HTTP/1.1"], [f"{method} /x HTTP/1.1"]]
    connections.close()


def test_a_read_that_was_not_answered_is_sent_again(serving: list[Server]) -> None:
    serving.append(Server([ANSWER, b""], [ANSWER]))
    connections = kept(serving[0])
    ask(connections)
    assert ask(connections) == (200, b"{}")
    assert serving[0].received == [["GET /x HTTP/1.1"] * 2, ["GET /x HTTP/1.1"]]
    connections.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_that_may_have_been_received_is_not_sent_again(serving: list[Server], method: str) -> None:
    serving.append(Server([ANSWER, b""], [ANSWER]))
    connections = kept(serving[0])
    ask(connections)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        ask(connections, method)
    assert ask(connections) == (200, b"{}")
    assert serving[0].received == [["GET /x HTTP/1.1", f"{method} /x HTTP/1.1"], ["GET /x HTTP/1.1"]]
    connections.close()


def test_the_first_request_of_a_connection_is_sent_once(serving: list[Server]) -> None:
    serving.append(Server([b""]))
    with pytest.raises(http.client.RemoteDisconnected):
        ask(kept(serving[0]))
    assert serving[0].received == [["GET /x HTTP/1.1"]]


def test_threads_share_no_connection_while_they_ask(serving: list[Server]) -> None:
    """Each answer comes only when both were asked: on one connection, or one after the other, none would come."""
    both = threading.Barrier(2, timeout=30)

    class Held(http.client.HTTPConnection):
        def getresponse(self) -> http.client.HTTPResponse:
            both.wait()
            return super().getresponse()

    serving.append(Server([ANSWER], [ANSWER]))
    connections = KeptConnections(lambda: Held("127.0.0.1", serving[0].port))
    with ThreadPoolExecutor(2) as pool:
        assert [answer.result(30) for answer in [pool.submit(ask, connections) for _ in range(2)]] == [(200, b"{}")] * 2
    assert len(serving[0].received) == 2
    connections.close()
