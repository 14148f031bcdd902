"""Bookies are removed and added: 3 -> 2 -> 3 in memory, and what keeps one."""

from __future__ import annotations

import copy
import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Kind
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, ledger_path
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PODS, PVCS, Json, UnavailableError
from tests.fakes.admin import AdminCall
from tests.support.cluster.leaving_bookies import (
    HOUR,
    STEPS,
    TWO,
    copies_asked,
    copying,
    forgotten,
    leaving,
    left,
    lowered,
    well,
    world,
)
from tests.support.cluster.ledgers import TOPICS, WORKLOAD, LedgerWorld, bookie, claims, cookie, of_topic
from tests.support.cluster.rolls import CLOSED
from tests.support.cluster.world import NS
from tests.support.core.journal import BOOKIES

__all__ = ["world"]

CLAIMS, COOKIE = claims(2), cookie(2)


async def test_three_to_two_and_back(world: LedgerWorld) -> None:
    steps: list[str | None] = []

    async def look() -> None:
        steps.append(((await world.row(2)) or {}).get("step"))

    before = dict(world.written)
    await world.resize(2)
    await world.run(rounds=200, each=look)
    assert [each for each in dict.fromkeys(steps) if each] == STEPS
    await left(world)
    uid = world.volume(bookie(2))
    await world.resize(3)
    await world.run(rounds=200)
    await well(world)
    assert world.volume(bookie(2)) not in ("", uid), "a volume that ledgers were on starts no bookie again"
    assert before.items() <= world.written.items()


@pytest.mark.parametrize("step", STEPS)
async def test_raised_again_it_stays(step: str) -> None:
    """With what it has, until its cookie is gone."""
    world = await leaving(step)
    uid = world.volume(bookie(2))
    assert COOKIE in world.store.nodes
    await world.resize(3)
    await world.run(rounds=200)
    await well(world)
    assert world.volume(bookie(2)) == uid
    assert len([event for event in world.journal.events if " no longer empties bookie " in event.message]) == 1, (
        "said once"
    )


async def test_raised_again_when_its_cookie_is_gone_it_comes_back_as_a_new_one(world: LedgerWorld) -> None:
    uid = world.volume(bookie(2))
    await world.resize(2)
    await forgotten(world)
    await world.resize(3)
    await world.run(rounds=200)
    await well(world)
    assert world.volume(bookie(2)) not in ("", uid)


async def test_a_restart_undoes_read_only_and_it_is_told_again(world: LedgerWorld) -> None:
    await copying(world)
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-2")
    await world.workloads.step()
    await world.workloads.step()
    await world.workloads.step()
    await world.dataplane.step(world.workloads.ready)
    assert bookie(2) in world.store.children(AVAILABLE), "it restarted, and takes entries"
    late = world.ledger(state="CLOSED", on=(bookie(0), bookie(2)))
    world.copies = True
    await world.run(rounds=200)
    await left(world)
    assert len([c for c in world.journal.effects if (c.port, c.verb) == (BOOKIES, "set_readonly")]) >= 2
    assert late.ledger in world.ledgers()


async def test_what_was_placed_on_it_at_the_last_moment_brings_it_back(world: LedgerWorld) -> None:
    """A broker that did not know yet that it is read-only: the second look finds it."""
    await world.resize(2)
    await lowered(world)
    late = world.ledger(state="CLOSED", on=(bookie(1), bookie(2)))
    await world.run(rounds=300)
    await left(world)
    assert late.ledger in world.ledgers()
    assert [event for event in world.journal.events if event.message.startswith("Deleted the cookie")][1:] == []


async def test_after_its_time_it_is_writable_again_until_something_changes(world: LedgerWorld) -> None:
    await copying(world)
    world.clock.forward(HOUR)
    await world.run(rounds=200)
    status, reason, message = await world.progressing()
    assert (status, reason) == ("False", "DecommissionStuck")
    assert f"{world.naming(2)[0]}" in message and "step Copying" in message
    assert bookie(2) in world.store.children(AVAILABLE) and await world.replicas() == 3
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True", "it serves"
    assert [event.reason for event in world.journal.events].count("DecommissionStuck") == 1
    world.copies = True
    world.clock.forward(10 * HOUR)
    await world.run()
    assert await world.replicas() == 3, "not by time alone"
    await world.change(
        Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(decommission={"timeoutSeconds": 7200})
    )
    await world.run(rounds=200)
    await left(world)


async def test_a_copy_is_asked_for_once_and_again_without_progress(world: LedgerWorld) -> None:
    await copying(world)
    for _ in range(10):
        await world.round()
    assert len(copies_asked(world)) == 1
    world.clock.forward(301)
    await world.round()
    await world.round()
    assert len(copies_asked(world)) == 2


async def test_a_topic_that_does_not_close_its_ledgers_keeps_the_bookie(world: LedgerWorld) -> None:
    """apache/bookkeeper#4812: a copy would close the ledger behind its broker's back."""

    def refuses(call: AdminCall) -> None:
        if call.path[-1] == "unload" and not world.unloads:
            raise UnavailableError("HTTP 500", status=500)

    world.unloads = False
    world.admin.before.append(refuses)
    await world.resize(2)
    for _ in range(40):
        await world.round()
    assert await world.replicas() == 3 and ((await world.row(2)) or {})["step"] == "Unloading"
    assert copies_asked(world) == []
    assert world.lost() == []
    world.unloads = True
    await world.run(rounds=200)
    await left(world)


async def test_a_ledger_whose_topic_is_gone_is_closed_by_the_copy(world: LedgerWorld) -> None:
    orphan = world.ledger(on=(bookie(1), bookie(2)), custom=of_topic("shop/orders/persistent/gone"))
    await world.resize(2)
    await world.run(rounds=200)
    await left(world)
    assert orphan.ledger in world.ledgers()


async def test_many_topics_are_unloaded_a_few_at_a_time(world: LedgerWorld) -> None:
    for number in range(45):
        topic = f"persistent://shop/orders/many-{number}"
        world.pulsar.topics["east"][topic] = copy.deepcopy(world.pulsar.topics["east"][TOPICS[0]])
        world.load(topic)
    await world.resize(2)
    most = 0
    mark = len(world.admin.writes)
    for _ in range(60):
        await world.round()
        most = max(most, len([path for _, path in world.admin.writes[mark:] if path.endswith("/unload")]))
        mark = len(world.admin.writes)
    await world.run(rounds=200)
    assert 10 < most <= 20
    await left(world)


@pytest.mark.parametrize("what", ["namespace", "ledger", "undecodable"])
async def test_what_cannot_be_done_without_it_is_named(world: LedgerWorld, what: str) -> None:
    if what == "namespace":
        path, data = "/admin/policies/shop/wide", json.dumps({"persistence": {"bookkeeperEnsemble": 3}})
        said = "namespace shop/wide requires 3"
    elif what == "ledger":
        wide = world.ledger(state="CLOSED", size=3)
        path, data = ledger_path(wide.ledger), ""
        said = f"ledger {wide.ledger}"
    else:
        path, data = ledger_path(4711), "garbage"
        said = ledger_path(4711)
    if data:
        world.store.put(path, data)
    await world.resize(2)
    await world.run()
    status, reason, message = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused") and said in message
    assert await world.replicas() == 3 and DECOMMISSION_RECORD_PATH not in world.store.nodes
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
    assert (await world.condition(Kind.CLUSTER, "east", "Stalled"))[:2] == ("True", "DecommissionRefused")
    world.store.remove(path)
    await world.run(rounds=200)
    await left(world)


async def test_a_cookie_of_nobody_is_forgotten_once_no_ledger_names_it(world: LedgerWorld) -> None:
    path = cookie(11)
    world.store.put(path, "cookie")
    await world.run()
    assert path not in world.store.nodes and await world.replicas() == 3


async def test_a_cookie_without_a_volume_is_kept_while_ledgers_name_it(world: LedgerWorld) -> None:
    path = cookie(11)
    world.store.put(path, "cookie")
    world.put(900, "CLOSED", (bookie(0), bookie(11)), {})
    await world.run()
    assert path in world.store.nodes and await world.replicas() == 3
    told = await world.progressing()
    assert told[:2] == ("False", "DecommissionRefused") and "900" in told[2]


async def test_a_volume_that_is_not_marked_starts_no_bookie(world: LedgerWorld) -> None:
    await world.resize(2)
    await world.run(rounds=200)
    uid = world.volume(bookie(2))

    def strip(obj: Json) -> None:
        del obj["metadata"]["annotations"][ANNOTATION_VERIFIED_EMPTY]

    await world.backstage.edit(PVCS, NS, CLAIMS[1], strip)
    await world.resize(3)
    await world.run()
    told = await world.progressing()
    assert told[:2] == ("False", "ForeignVolume") and CLAIMS[1] in told[2]
    assert await world.replicas() == 2 and world.volume(bookie(2)) == uid
    await world.backstage.remove(PVCS, NS, CLAIMS[1])
    await world.run(rounds=200)
    await well(world)


async def test_claims_go_where_the_data_may(world: LedgerWorld) -> None:
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(reclaimPolicy="Delete"))
    await world.resize(2)
    await world.run(rounds=200)
    assert not set(CLAIMS) & set(await world.names(PVCS))
    assert await world.replicas() == 2 and COOKIE not in world.store.nodes and world.lost() == []


async def test_bookies_that_running_brokers_need_stay_until_those_are_replaced() -> None:
    """The ensemble is lowered together with the bookies, and brokers learn of it only when the window opens."""
    world = await LedgerWorld.up(3, ensemble={"ensembleSize": 3, "writeQuorum": 2, "ackQuorum": 2})

    def lower(spec: Json) -> None:
        spec["maintenanceWindows"] = CLOSED
        spec["bookkeeper"] |= {"replicas": 2, "ensemble": TWO}

    await world.change(Kind.CLUSTER, "east", lower)
    await world.run(rounds=200)
    assert await world.replicas() == 3 and not ((await world.row(2)) or {}).get("step")
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    assert reason in ("DecommissionRefused", "MaintenanceWindow"), (status, reason, message)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.pop("maintenanceWindows"))
    await world.run(rounds=300)
    await lowered(world)
    assert await world.all_ready() == {}
