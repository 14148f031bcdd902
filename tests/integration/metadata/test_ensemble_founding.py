"""Real ZooKeeper servers, prepared by the start program: empty ones join an ensemble that was founded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.ensemble import LoopbackEnsemble

LOOKS = 400
"""At servers that must not elect anybody; 20 s and more, an election of two takes one."""


class ElectedError(Exception):
    """Somebody leads; none of the errors that are waited on at."""


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[LoopbackEnsemble]:
    with LoopbackEnsemble(tmp_path, 3) as servers:
        for ordinal in range(3):
            servers.start(ordinal, founded=False)
        servers.settles(leader=1, follower=2)
        client = KazooClient(hosts=servers.client(0), timeout=10)
        client.start(timeout=30)
        client.create("/precious", b"data")
        client.stop()
        client.close()
        yield servers


def content(servers: LoopbackEnsemble, ordinal: int) -> bytes | None:
    """What a server says of the node."""
    client = KazooClient(hosts=servers.client(ordinal), timeout=10)
    client.start(timeout=30)
    try:
        client.sync("/precious")
        return bytes(client.get("/precious")[0]) if client.exists("/precious") else None
    finally:
        client.stop()
        client.close()


def test_a_server_that_lost_its_volume_gets_the_data_from_the_others(ensemble: LoopbackEnsemble) -> None:
    ensemble.stop(1)
    ensemble.wipe(1)
    assert ensemble.start(1, founded=True).lost
    ensemble.settles(leader=1, follower=2)
    assert content(ensemble, 1) == b"data"


def lose_two(ensemble: LoopbackEnsemble) -> None:
    for ordinal in range(3):
        ensemble.stop(ordinal)
    for ordinal in (0, 1):
        ensemble.wipe(ordinal)


def test_two_empty_servers_of_three_are_no_quorum(ensemble: LoopbackEnsemble) -> None:
    """They would serve an empty store to everybody, and the third would throw its data away to follow them."""
    lose_two(ensemble)
    for ordinal in (0, 1):
        assert ensemble.start(ordinal, founded=True).lost
    looks = iter(range(LOOKS))

    def nobody() -> bool:
        if any(ensemble.modes().values()):
            raise ElectedError(str(ensemble.modes()))
        return next(looks, None) is None

    eventually(nobody, within=120, what="looks at servers that elect nobody", every=LOCAL)


def test_what_the_record_prevents(ensemble: LoopbackEnsemble) -> None:
    """Without it the same two servers are a quorum, and empty."""
    lose_two(ensemble)
    for ordinal in (0, 1):
        assert not ensemble.start(ordinal, founded=False).lost
    ensemble.settles(leader=1, follower=1)
    assert content(ensemble, 0) is None
