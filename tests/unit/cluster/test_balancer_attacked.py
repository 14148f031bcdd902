"""The balancer's settings under attack: refusals of Pulsar, records and statuses that were edited, and lost turns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, Json, RefusedError, UnavailableError
from tests.support.cluster.copies import ready_world
from tests.support.cluster.world import NS, ClusterWorld
from tests.support.core.journal import ADMIN, PortCall
from tests.unit.cluster.test_cluster_balancer import NAME, RECORD, SHEDDING, SPLITTING, drive, held, leave
from tests.unit.cluster.test_cluster_given_back import BEFORE, condition, given_back, handover, minutes


async def test_a_driver_that_changes_while_pulsar_balances_leaves_no_standing_rebalance() -> None:
    world = await given_back()
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert await world.live(Kind.REBALANCE, NAME) is None


def refuse(world: ClusterWorld, name: str, error: Exception) -> Callable[[], None]:
    def hook(call: PortCall) -> None:
        if call.port == ADMIN and name in call.name and "configuration" in call.name and call.verb == "POST":
            raise error

    world.journal.before.append(hook)
    return lambda: world.journal.before.remove(hook)


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_settings_that_pulsar_does_not_change_are_told(status: int) -> None:
    world = await ready_world()
    world.pulsar.dynamic["east"] = dict(BEFORE)
    error = UnavailableError("HTTP 500", status=500) if status == 500 else RefusedError("HTTP no", status=status)
    refuse(world, SPLITTING, error)
    await world.change(Kind.CLUSTER, "east", drive)
    await minutes(world, 5)
    assert (await condition(world))[0] == "False"


@pytest.mark.parametrize("count", ["99999999999999999999999", "-4", "1e3", "9223372036854775807"])
async def test_a_number_in_the_record_is_no_error(count: str) -> None:
    world = await given_back()
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].update(handovers=count))
    await minutes(world, 3)
    found = (await handover(world)).get("count")
    assert found is None or abs(found) < 2**31
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00Z",
        "garbage",
        "2026-01-01T00:00:00",
    ],
)
@pytest.mark.parametrize("lost", [False, True])
async def test_a_time_is_no_error(text: str, lost: bool) -> None:
    world = await given_back()

    def edit(obj: Json) -> None:
        if lost:
            obj.pop("status", None)
        else:
            obj["status"]["handover"]["restoredTime"] = text

    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].update(restoredTime=text))
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", edit)
    await minutes(world, 3)
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


@pytest.mark.parametrize("saved", [[], [{"name": SPLITTING}], None])
async def test_a_status_that_forgot_settings_loses_none(saved: object) -> None:
    world = await held(BEFORE)

    def edit(obj: Json) -> None:
        obj["status"]["balancer"]["saved"] = saved

    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", edit)
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == BEFORE


@pytest.mark.parametrize("values", [{SHEDDING: True}, {SHEDDING: "x" * 300}, {SHEDDING: {"a": 1}}])
async def test_values_that_are_none(values: object) -> None:
    world = await ready_world()
    world.pulsar.dynamic["east"] = values  # type: ignore[assignment]
    await world.change(Kind.CLUSTER, "east", drive)
    await minutes(world, 5)
    status, reason, message = await condition(world)
    assert (status, reason) == ("False", "AdminUnreachable") and SHEDDING in message
