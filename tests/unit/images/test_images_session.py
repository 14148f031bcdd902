"""The ZooKeeper session of the start program against sockets that answer rightly, wrongly, slowly or not at all."""

import socket
import threading
import time
import tracemalloc

import pytest
from kazoo.protocol.serialization import Close, Connect, Exists
from pulsar_start import session
from pulsar_start.session import LONGEST_ANSWER, Node, ProtocolError, Server, open_session, resolve

from tests.support.processes.zookeeper_socket import (
    NO_NODE,
    Script,
    SocketServer,
    Tree,
    frame,
    granted,
    hangs,
    read_frame,
    reply,
    says,
    stat,
)

LONG, SHORT = 20.0, 0.3
"""Seconds for what must come, and for what never comes."""


def opened(*servers: SocketServer, seconds: float = LONG) -> session.Session:
    return open_session([Server("127.0.0.1", each.port) for each in servers], lambda: seconds)


def test_what_is_sent_is_what_another_client_sends() -> None:
    tree = Tree({"/a/é": 9})
    with SocketServer(tree) as server:
        asked = opened(server)
        assert asked.node("/a/é", LONG) == Node("/a/é", ephemeral=True)
        asked.close()
    number = (1).to_bytes(4), (2).to_bytes(4)
    assert tree.requests == [
        bytes(Connect(0, 0, 10_000, 0, bytes(16), False).serialize()),
        number[0] + (3).to_bytes(4) + bytes(Exists("/a/é", None).serialize()),
        number[1] + (-11).to_bytes(4, signed=True) + Close.serialize(),
    ]


def test_a_node_of_a_session_one_of_none_and_none_at_all() -> None:
    with SocketServer(Tree({"/e": 9, "/p": 0, "/n": -5})) as server:
        asked = opened(server)
        assert asked.node("/e", LONG) == Node("/e", ephemeral=True)
        assert asked.node("/n", LONG) == Node("/n", ephemeral=True)
        assert asked.node("/p", LONG) == Node("/p", ephemeral=False)
        assert asked.node("/x", LONG) is None
        asked.close()


@pytest.mark.parametrize("more", [b"", b"\0", b"\1"])
def test_servers_with_and_without_the_flag_of_read_only(more: bytes) -> None:
    with SocketServer(says(granted(more=more), reply(1, NO_NODE))) as server:
        assert opened(server).node("/x", LONG) is None


def answers_later(connection: socket.socket) -> None:
    """Answers with a byte every while, each in time and all together not."""
    for byte in granted():
        connection.sendall(bytes([byte]))
        if threading.Event().wait(SHORT / 3):
            return


PASSING: dict[str, tuple[Script, str]] = {
    "closes at once": (says(), "closes the connection|reset"),
    "closes after the request": (says(b""), "closes the connection"),
    "half a length": (says(b"\0\0"), "closes the connection"),
    "half a session": (says(granted()[:20]), "closes the connection"),
    "half a node": (says(granted(), reply(1, body=stat(3))[:40]), "closes the connection"),
    "a session of no time": (says(granted(timeout=0)), "refuses the session"),
    "a session without a number": (says(granted(session=0)), "refuses the session"),
    "a session that expires": (says(granted(), reply(1, -112)), "session expired"),
    "nothing": (hangs, "timed out"),
    "nothing after the session": (says(granted(), stays=True), "timed out"),
    "byte by byte, too slowly": (answers_later, "timed out"),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_be_another_at_the_next_attempt(name: str) -> None:
    script, words = PASSING[name]
    with SocketServer(script) as server:
        begin = time.monotonic()
        with pytest.raises(OSError, match=f"127.0.0.1:{server.port}: .*({words})"):
            opened(server, seconds=SHORT if words == "timed out" else LONG).node(
                "/x", SHORT if words == "timed out" else LONG
            )
        assert time.monotonic() - begin < LONG


TLS_ALERT = bytes([0x15, 3, 3, 0, 2, 2, 10])
WRONG: dict[str, tuple[Script, str]] = {
    "a length below zero": (says(b"\xff\xff\xff\xff", stays=True), "begins an answer of -1 bytes"),
    "a huge length": (says(b"\x7f\xff\xff\xff", stays=True), "begins an answer of 2147483647 bytes"),
    "a byte too long": (says((LONGEST_ANSWER + 1).to_bytes(4), stays=True), "begins an answer of 1025 bytes"),
    "an alert of TLS": (says(TLS_ALERT, stays=True), "no ZooKeeper, or wants TLS"),
    "text": (says(b"HTTP/1.1 400 Bad Request", stays=True), "no ZooKeeper"),
    "an empty answer": (says(frame(b"")), "0 bytes where 20 belong"),
    "a short session": (says(frame(bytes(19))), "19 bytes where 20 belong"),
    "another protocol": (says(granted(version=1)), "not ZooKeeper's"),
    "a password of another length": (says(granted(password=8)), "not ZooKeeper's"),
    "more than a session": (says(granted(more=b"\0\0")), "not ZooKeeper's"),
    "a short header": (says(granted(), frame(bytes(15))), "15 bytes where 16 belong"),
    "a short node": (says(granted(), reply(1, body=stat(1)[:-1])), "67 bytes where 68 belong"),
    "a huge node": (says(granted(), b"\x7f\xff\xff\xff", stays=True), "begins an answer of 2147483647 bytes"),
    "the answer to another request": (says(granted(), reply(2, NO_NODE)), "answer 2 to request 1"),
    "a missing right": (says(granted(), reply(1, -102)), "error -102"),
    "SASL wanted": (says(granted(), reply(1, -124)), "error -124"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_answer_of_zookeepers(name: str) -> None:
    script, words = WRONG[name]
    with SocketServer(script) as server:
        tracemalloc.start()
        try:
            with pytest.raises(ProtocolError, match=f"127.0.0.1:{server.port}: .*{words}"):
                opened(server).node("/x", LONG)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 1 << 20, "nothing is allocated for a length that is only said"


def test_the_first_server_that_answers_counts() -> None:
    tree = Tree()
    with SocketServer(hangs) as silent, SocketServer(says()) as closing, SocketServer(tree) as third:
        asked = opened(silent, closing, third, seconds=SHORT)
        assert asked.node("/x", LONG) is None
        asked.close()
        assert (silent.connections, closing.connections, third.connections) == (1, 1, 1)


def test_what_each_server_did_is_told() -> None:
    with SocketServer(hangs) as silent, SocketServer(hangs) as gone:
        pass
    with SocketServer(hangs) as silent:
        servers = [Server("127.0.0.1", silent.port), Server("127.0.0.1", gone.port)]
        with pytest.raises(OSError) as told:
            open_session(servers, lambda: SHORT)
    assert str(told.value) == f"127.0.0.1:{silent.port}: timed out; 127.0.0.1:{gone.port}: Connection refused"


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with SocketServer(hangs) as gone:
        pass
    with SocketServer(Tree()) as server:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (gone.port, server.port)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        asked = open_session([Server("zoo", 2181)], lambda: LONG)
        assert asked.node("/x", LONG) is None
        asked.close()


def test_an_ipv6_address() -> None:
    try:
        server = SocketServer(Tree(), host="::1")
    except OSError:
        pytest.skip("this host has no IPv6")
    with server:
        asked = open_session([Server("::1", server.port)], lambda: LONG)
        assert asked.node("/x", LONG) is None
        asked.close()
    assert str(Server("::1", 2181)) == "[::1]:2181"


def test_a_name_service_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: never.wait(LONG))
    try:
        with pytest.raises(OSError, match=r"^zoo:2181: the name service does not answer"):
            resolve(Server("zoo", 2181), SHORT)
    finally:
        never.set()


@pytest.mark.parametrize("host", ["." * 3, "a" * 64 + ".invalid"])
def test_names_that_cannot_be(host: str) -> None:
    with pytest.raises(ProtocolError, match=f"{host}:2181: is no name of a host"):
        resolve(Server(host, 2181), LONG)


def test_a_name_that_is_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(OSError, match=r"^zoo:2181: Name or service not known"):
        resolve(Server("zoo", 2181), LONG)


def test_a_server_that_does_not_let_go_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CLOSE_SECONDS", SHORT)
    with SocketServer(says(granted(), stays=True)) as server:
        opened(server).close()


def test_the_connection_is_closed_where_no_session_comes() -> None:
    ended = threading.Event()

    def script(connection: socket.socket) -> None:
        read_frame(connection)
        connection.sendall(frame(b""))
        while connection.recv(1):
            pass
        ended.set()

    with SocketServer(script) as server:
        with pytest.raises(ProtocolError):
            opened(server)
        assert ended.wait(LONG)
