"""The bootstrap keeps the quorums of ledgers on record: from the first write on, and by compare-and-set."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.render import Quorum
from pulsar_operator.ports import CONFIG_MAPS
from tests.support.cluster.bootstrap import NAMESPACE, BootstrapWorld, record_of


async def test_quorums_are_on_record_from_the_first_write_on_and_follow_what_is_asked() -> None:
    world = BootstrapWorld()
    result = await world.ensure(quorum=Quorum(3, 3, 2))
    assert result.ok and result.quorum == Quorum(3, 3, 2)
    assert result.actions[0].startswith("Wrote ConfigMap a-instance-id with instance id")
    assert (await record_of(world.kube, "a") or {})["ensemble"] == "3/3/2"
    world.switch.writes.clear()
    assert (await world.ensure(quorum=Quorum(3, 3, 2), known_quorum=Quorum(3, 3, 2))).ok
    assert world.switch.writes == []
    result = await world.ensure(quorum=Quorum(2, 2, 2), known_quorum=Quorum(3, 3, 2))
    assert (await record_of(world.kube, "a") or {})["ensemble"] == "2/2/2"
    assert [action.partition(", because ")[2] for action in result.actions] == [
        "new ledgers get ensemble size and quorums 2/2/2 instead of 3/3/2"
    ]
    world.switch.writes.clear()
    assert (await world.ensure()).ok  # somebody who records none takes none away
    assert (await record_of(world.kube, "a") or {})["ensemble"] == "2/2/2"
    assert world.switch.writes == []


async def test_quorums_are_added_to_a_record_without() -> None:
    world = BootstrapWorld()
    await world.ensure()
    before = await record_of(world.kube, "a") or {}
    planned = await world.ensure(quorum=Quorum(2, 2, 2), act=False)
    assert planned.pending == (
        f"Write ConfigMap a-instance-id with instance id {before['instanceId']}, because "
        "new ledgers get ensemble size and quorums 2/2/2",
    )
    assert await record_of(world.kube, "a") == before
    assert (await world.ensure(quorum=Quorum(2, 2, 2))).ok
    assert await record_of(world.kube, "a") == {**before, "ensemble": "2/2/2"}


async def test_quorums_that_somebody_recorded_meanwhile_stay() -> None:
    world = BootstrapWorld()
    await world.ensure(quorum=Quorum(3, 3, 2))
    result = await world.ensure(quorum=Quorum(2, 2, 2), known_quorum=Quorum(1, 1, 1))
    assert result.quorum == Quorum(3, 3, 2)
    assert (await record_of(world.kube, "a") or {})["ensemble"] == "3/3/2"


async def test_a_record_that_changes_between_read_and_write_is_read_again() -> None:
    world = BootstrapWorld()
    await world.ensure(quorum=Quorum(3, 3, 2))
    other: list[str] = ["5/3/2"]

    def interfere(call: Any) -> None:
        if call.verb == "apply" and other:
            text = other.pop()
            world.kube.edit(CONFIG_MAPS, NAMESPACE, "a-instance-id", lambda o: o["data"].update(ensemble=text))

    world.kube.before.append(interfere)
    result = await world.ensure(quorum=Quorum(2, 2, 2), known_quorum=Quorum(3, 3, 2))
    assert other == []
    assert result.quorum == Quorum(5, 3, 2)
    assert (await record_of(world.kube, "a") or {})["ensemble"] == "5/3/2"


async def test_damaged_quorums_are_told_and_nothing_is_written() -> None:
    world = BootstrapWorld()
    await world.ensure(quorum=Quorum(3, 3, 2))
    world.kube.edit(CONFIG_MAPS, NAMESPACE, "a-instance-id", lambda o: o["data"].update(ensemble="3/4/2"))
    world.switch.writes.clear()
    result = await world.ensure(quorum=Quorum(3, 3, 2))
    assert (result.ok, result.reason, result.quorum) == (False, Reason.METADATA_CONFLICT, None)
    assert "data.ensemble: '3/4/2' must satisfy ensembleSize >= writeQuorum >= ackQuorum" in result.message
    assert world.switch.writes == []
