"""Why a server waits for its own name: a real leader that knows itself by another address commits nothing.

If ZooKeeper fixes ZOOKEEPER-4708, the first test fails, and the wait of the start program may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.ensemble import LoopbackEnsemble

OWN, FORMER = "127.0.0.1", "127.0.0.9"
EVERYBODY = {0: OWN, 1: OWN, 2: OWN}
LAST = 2
"""The server that is elected: the highest id wins between servers without data."""
NEVER_COMMITS = "allowedToCommit = false"


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[LoopbackEnsemble]:
    with LoopbackEnsemble(tmp_path, 3, named=True) as servers:
        for ordinal in EVERYBODY:
            servers.resolves(ordinal, EVERYBODY)
        yield servers


def elects_the_last(servers: LoopbackEnsemble) -> None:
    def elected() -> bool:
        assert servers.modes() == {0: "follower", LAST: "leader"}, servers.modes()
        return True

    eventually(elected, within=60, what="server 3 leads server 1", every=LOCAL)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({**EVERYBODY, LAST: FORMER}, EVERYBODY),
        (EVERYBODY, {0: OWN, 1: OWN}),
    ],
    ids=["the address of the former pod at the start", "no name any more at the election"],
)
def test_a_leader_whose_own_address_changed_since_its_start_commits_nothing(
    ensemble: LoopbackEnsemble, before: dict[int, str], after: dict[int, str]
) -> None:
    ensemble.resolves(LAST, before)
    ensemble.start(LAST, founded=False)
    ensemble.resolves(LAST, after)
    ensemble.start(0, founded=False)
    elects_the_last(ensemble)
    eventually(lambda: NEVER_COMMITS in ensemble.log(LAST), within=30, what="the leader's verdict", every=LOCAL)


@pytest.mark.parametrize("after", [EVERYBODY, {0: OWN, LAST: OWN}], ids=["peers come late", "one peer never comes"])
def test_names_of_peers_may_resolve_late_or_never(ensemble: LoopbackEnsemble, after: dict[int, str]) -> None:
    ensemble.resolves(LAST, {LAST: OWN})
    ensemble.start(LAST, founded=False)
    ensemble.resolves(LAST, after)
    ensemble.start(0, founded=False)
    elects_the_last(ensemble)
    client = KazooClient(hosts=ensemble.client(LAST), timeout=10)
    client.start(timeout=30)
    try:
        client.create("/committed")
    finally:
        client.stop()
        client.close()
    assert NEVER_COMMITS not in ensemble.log(LAST)
