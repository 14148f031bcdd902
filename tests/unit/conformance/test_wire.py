"""The binary protocol of the suite against a played server: what it asks, and how it reads the answers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.kit.wire import NOT_ALLOWED, PROTOCOL_VERSION, Refusal, Wire

TOPIC = "persistent://t/n/sub-RETRY"
CONNECTED = bytes([8, 3, 26, 0])
"""A BaseCommand of type CONNECTED with an empty body."""


def answer(kind: int, *fields: int, message: bytes = b"") -> bytes:
    """A BaseCommand: request 1, then pairs of field and small number, and field 5 as text."""
    body = bytes([fields[at] << 3 if at % 2 == 0 else fields[at] for at in range(len(fields))])
    if message:
        body += bytes([5 << 3 | 2, len(message)]) + message
    tag = kind << 3 | 2
    return bytes([8, kind, tag & 127 | 128, tag >> 7, len(body)]) + body


@contextmanager
def played(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers the commands of one connection in turn; its URL, and what it was sent."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line, line.makefile("rb") as incoming:
                for one in answers:
                    (size,) = struct.unpack(">I", incoming.read(4))
                    asked.append(incoming.read(size))
                    line.sendall(struct.pack(">II", len(one) + 4, len(one)) + one)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"pulsar://127.0.0.1:{server.getsockname()[1]}", asked
        thread.join()


def test_a_topic_that_is_answered_with_partitions_is_there() -> None:
    with played(CONNECTED, answer(22, 1, 0, 2, 1, 3, 0)) as (url, asked):
        assert Wire(url).finds(TOPIC)
    assert TOPIC.encode() in asked[1], "the topic is not in the question"
    assert asked[1].endswith(bytes([6 << 3, 0])), "the question allows the topic to be made"


def test_a_topic_that_is_not_found_is_not_there() -> None:
    with played(CONNECTED, answer(22, 2, 1, 3, 1, 4, 11)) as (url, _):
        assert not Wire(url).finds(TOPIC)


def test_another_refusal_says_nothing_of_the_topic() -> None:
    refused = answer(22, 2, 1, 3, 1, 4, 3, message=b"no leave")
    with played(CONNECTED, refused) as (url, _), pytest.raises(ConnectionError, match=r"error=3, message='no leave'"):
        Wire(url).finds(TOPIC)


@pytest.mark.parametrize(("broker", "named"), [("", False), ("broker-0:6650", True)])
def test_a_proxy_is_told_a_broker_only_where_there_is_one(broker: str, named: bool) -> None:
    with played(CONNECTED, answer(51, 1, 1, 4, NOT_ALLOWED, message=b"off")) as (url, asked):
        assert Wire(url, broker).new_transaction() == Refusal(NOT_ALLOWED, "off")
    assert (b"broker-0:6650" in asked[0]) is named
    ends_with_the_version = asked[0].endswith(bytes([4 << 3, PROTOCOL_VERSION]))
    assert ends_with_the_version is not named, "a broker without a name is named"


def test_the_token_goes_with_the_connection() -> None:
    with played(CONNECTED, answer(22, 1, 0, 2, 1, 3, 0)) as (url, asked):
        Wire(url, access=Access(Token("secret"))).finds(TOPIC)
    assert b"secret" in asked[0] and "secret" not in repr(Wire(url, access=Access(Token("secret"))))
