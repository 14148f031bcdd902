"""The readiness probe against a socket that answers like ZooKeeper."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pulsar_start.probe import probe_zookeeper

SRVR = "Zookeeper version: 3.9.4\nLatency min/avg/max: 0/0.0/0\nMode: {}\nNode count: 5\n"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"


@contextmanager
def zookeeper(answers: dict[str, str]) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)

    def serve() -> None:
        for _ in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                command = connection.recv(4).decode()
                text = answers[command]
                # In two pieces, as a network may deliver it.
                connection.sendall(text[:7].encode())
                connection.sendall(text[7:].encode())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join(5)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"ruok": "imok", "srvr": SRVR.format("leader")}, (True, "mode leader")),
        ({"ruok": "imok", "srvr": SRVR.format("follower")}, (True, "mode follower")),
        ({"ruok": "imok", "srvr": SRVR.format("observer")}, (True, "mode observer")),
        ({"ruok": "imok", "srvr": SRVR.format("standalone")}, (False, "mode standalone")),
        ({"ruok": "imok", "srvr": NOT_SERVING}, (False, NOT_SERVING.strip())),
        ({"ruok": ""}, (False, "ruok answered nothing")),
        ({"ruok": "ruok is not executed because it is not in the whitelist."}, None),
    ],
)
def test_probe(answers: dict[str, str], expected: tuple[bool, str] | None) -> None:
    with zookeeper(answers) as port:
        ready, reason = probe_zookeeper(port=port, timeout=5)
    if expected is None:
        assert not ready
        assert "whitelist" in reason
    else:
        assert (ready, reason) == expected
    assert "\n" not in reason


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ready, reason = probe_zookeeper(port=port, timeout=1)
    assert not ready
    assert reason.startswith(f"no answer on 127.0.0.1:{port}")
