"""What the servers of a real ensemble say of themselves while some of them go and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from e2e.support.eventually import LOCAL, eventually_async
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState, leader_of, unsynced
from pulsar_operator.domain.render.zookeeper import METRICS
from pulsar_operator.ports import UnavailableError
from tests.support.processes.ensemble import LoopbackEnsemble
from tests.support.processes.launching import free_ports

SERVERS = 3


@pytest.fixture
async def port() -> AsyncIterator[KazooZooKeeper]:
    found = KazooZooKeeper()
    yield found
    await found.close()


@pytest.fixture(params=["as rendered", "with metrics"])
def settings(request: pytest.FixtureRequest) -> dict[int, dict[str, str]]:
    """By ordinal. With Prometheus's metrics mntr has floating numbers."""
    if request.param == "as rendered":
        return {ordinal: {} for ordinal in range(SERVERS)}
    ports = free_ports(SERVERS)
    return {n: {**METRICS, "metricsProvider.httpPort": str(ports[n])} for n in range(SERVERS)}


@pytest.fixture
def ensemble(tmp_path: Path, settings: dict[int, dict[str, str]]) -> Iterator[LoopbackEnsemble]:
    with LoopbackEnsemble(tmp_path, SERVERS) as servers:
        for ordinal in range(SERVERS):
            servers.start(ordinal, founded=False, settings=settings[ordinal])
        yield servers


async def asked(port: KazooZooKeeper, ensemble: LoopbackEnsemble) -> dict[str, ServerState | None]:
    """Every server's state, by the name of its pod; None where it does not answer."""

    async def one(ordinal: int) -> ServerState | None:
        try:
            return await port.server_state(ensemble.client(ordinal))
        except UnavailableError:
            return None

    found = await asyncio.gather(*(one(ordinal) for ordinal in range(SERVERS)))
    return {f"zk-{ordinal}": state for ordinal, state in enumerate(found)}


async def settles(port: KazooZooKeeper, ensemble: LoopbackEnsemble) -> dict[str, ServerState | None]:
    """Wait until nothing more is waited for."""

    async def nothing_left() -> dict[str, ServerState | None]:
        states = await asked(port, ensemble)
        waiting = unsynced(states, SERVERS)
        assert waiting is None, waiting
        return states

    return await eventually_async(nothing_left, within=60, what="a synced ensemble", every=LOCAL)


async def test_who_leads_and_who_follows(
    port: KazooZooKeeper, ensemble: LoopbackEnsemble, settings: dict[int, dict[str, str]]
) -> None:
    states = await settles(port, ensemble)
    leader = leader_of(states)
    assert leader is not None
    others = [name for name in states if name != leader]
    first = states[leader]
    assert first is not None and (first.mode, first.synced_followers) == ("leader", SERVERS - 1)
    for name in others:
        state = states[name]
        assert state is not None and (state.mode, state.synced_followers) == ("follower", None)

    await asyncio.to_thread(write, ensemble.client(0))
    again = (await settles(port, ensemble))[leader]
    assert again is not None and again.zxid > first.zxid and again.zxid >> 32 == first.zxid >> 32

    number = {name: int(name.removeprefix("zk-")) for name in states}
    await asyncio.to_thread(ensemble.stop, number[others[0]])

    async def missed() -> bool:
        found = await asked(port, ensemble)
        assert leader_of(found) == leader and found[others[0]] is None
        assert unsynced(found, SERVERS) == f"ZooKeeper server {others[0]} does not answer"
        one = found[leader]
        assert one is not None and one.synced_followers == SERVERS - 2, one
        return True

    await eventually_async(missed, within=60, what="one follower less", every=LOCAL)

    await asyncio.to_thread(ensemble.stop, number[others[1]])

    async def without_quorum() -> bool:
        try:
            await port.server_state(ensemble.client(number[leader]))
        except UnavailableError as error:
            return "not currently serving requests" in str(error)
        return False

    await eventually_async(without_quorum, within=60, what="the leader to serve no more", every=LOCAL)

    for name in others:
        await asyncio.to_thread(ensemble.start, number[name], founded=True, settings=settings[number[name]])
    assert leader_of(await settles(port, ensemble)) is not None


def write(server: str) -> None:
    """A transaction."""
    client = KazooClient(hosts=server, timeout=10)
    client.start(timeout=30)
    try:
        client.create("/written", b"")
        client.sync("/written")
    finally:
        client.stop()
        client.close()
