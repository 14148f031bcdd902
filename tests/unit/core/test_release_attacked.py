"""The release at an uninstallation that is disturbed: what it says is so, and what it did is remembered."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.controllers.dataplane.bookkeeper.recovery_delay import DELAY_PATH, DELAY_RECORD_PATH
from pulsar_operator.domain.bookkeeper.znodes import READONLY
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    DecommissionRecord,
    parse_decommission_record,
)
from pulsar_operator.ports import ConflictError
from tests.unit.core.test_release_storage import BOOKIE, HOST, NOW, World, cluster


@pytest.fixture
def world() -> World:
    return World()


async def test_a_memo_that_cannot_be_written_is_no_bookie_that_is_read_only(world: World) -> None:
    """The bookie takes entries by then: to say that it does not is untrue."""
    world.raised()
    world.leaves()
    real = world.zookeeper.session

    async def session(servers: str, chroot: str | None) -> Any:
        found = await real(servers, chroot)
        put = found.set

        async def failing(path: str, data: bytes, *, version: int) -> Any:
            if path == DECOMMISSION_RECORD_PATH:
                raise ConflictError("the znode changed")
            return await put(path, data, version=version)

        found.set = failing
        return found

    world.zookeeper.session = session  # type: ignore[method-assign]
    said = await world.released()
    assert not world.readonly
    assert not any("NOT made writable" in line for line in said), said
    assert not any("NOT restored" in line for line in said), said


async def test_killed_between_bookie_and_memo_the_next_release_remembers(world: World) -> None:
    world.leaves()
    world.bookies.servers[HOST].readonly = False  # was made writable, and the process ended
    world.store.remove("/east/ledgers/available/readonly/" + BOOKIE)
    await world.released()
    record = parse_decommission_record(world.data(DECOMMISSION_RECORD_PATH) or b"")
    assert record is not None and record.restored


async def test_killed_between_the_intent_and_the_bookie_the_next_release_goes_on(world: World) -> None:
    world.leaves()
    world.bookies.failing.add(HOST)
    await world.released()
    record = parse_decommission_record(world.data(DECOMMISSION_RECORD_PATH) or b"")
    assert record is not None and record.restoring and not record.restored and world.readonly
    world.bookies.failing.clear()
    await world.released()
    record = parse_decommission_record(world.data(DECOMMISSION_RECORD_PATH) or b"")
    assert record is not None and record.restored and not record.restoring and not world.readonly


async def test_a_later_incarnation_is_asked_at_the_host_of_its_pod(world: World) -> None:
    later = HOST.replace(".", ".i3.", 1)
    world.put(DECOMMISSION_RECORD_PATH, DecommissionRecord(later, 2, NOW, run="uid/0").data())
    world.put(f"{READONLY}/{later}")
    assert await world.released() == [f"PulsarCluster pulsar/east: Bookie {later} was made writable"]
    assert not world.readonly


@pytest.mark.parametrize(
    "data", ["", "[]", "null", '{"bookie": 5}', '{"before": "x"}', '{"before": 1e400, "raised": 1}', "[" * 100000]
)
async def test_a_memo_that_cannot_be_read_keeps_no_other(world: World, data: str) -> None:
    world.put(DELAY_PATH, b"660")
    world.put(DECOMMISSION_RECORD_PATH, data.encode())
    world.put(DELAY_RECORD_PATH, data.encode())
    await world.released()


async def test_a_bookie_that_was_read_only_before_it_left_stays_so(world: World) -> None:
    """The operator has not made it read-only yet: its disks are full, or somebody did."""
    world.leaves(run="")
    assert await world.released() == [] and world.readonly


@pytest.mark.parametrize("status", [{"recoveryDelay": {"before": None}}, {"bookies": {}}])
async def test_a_status_of_another_release_keeps_no_other(world: World, status: dict[str, Any]) -> None:
    world.store.reachable = False
    await world.released(cluster(**status))


async def test_repeated_it_says_nothing_and_changes_nothing(world: World) -> None:
    world.raised()
    world.leaves()
    await world.released()
    before = {path: node.data for path, node in world.store.nodes.items()}
    world.store.remove("/east/ledgers/available/readonly/" + BOOKIE)
    assert await world.released() == []
    before.pop("/east/ledgers/available/readonly/" + BOOKIE, None)
    assert {path: node.data for path, node in world.store.nodes.items()} == before
