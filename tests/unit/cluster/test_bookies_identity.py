"""No bookie returns empty under an id that was used, whoever deletes what. In memory."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Kind
from pulsar_operator.domain.bookkeeper.bookie_ids import INCARNATIONS_PATH, Count, OwnBookies, parse_incarnations
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, COOKIES, READONLY_NAME
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PODS, PVCS, STATEFUL_SETS
from tests.support.cluster.leaving_bookies import TWO, by_hand, copying, forgotten, left, lose, well, world
from tests.support.cluster.ledgers import TOPICS, WORKLOAD, LedgerWorld, bookie, claims, cookie, of_topic
from tests.support.cluster.world import NS
from tests.support.core.journal import ZOOKEEPER

__all__ = ["world"]

OWN = OwnBookies.of(bookie(0))
POD = f"{WORKLOAD}-2"


def counts(world: LedgerWorld) -> dict[int, Count]:
    return parse_incarnations(world.store.nodes[INCARNATIONS_PATH].data)


def empty_again(world: LedgerWorld, seen: dict[str, str]) -> list[str]:
    """Ids that took entries with another volume than at an earlier look; ``seen`` are the volumes by id."""
    up = [name for name in world.store.children(AVAILABLE) if name != READONLY_NAME]
    return [name for name in up if seen.setdefault(name, world.volume(name)) != world.volume(name)]


async def annotate(world: LedgerWorld, why: str) -> None:
    """Somebody wants another volume for the bookie."""

    def change(obj: dict) -> None:  # type: ignore[type-arg]
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = why

    await world.backstage.edit(PODS, NS, POD, change)


async def cookie_deleted_by_hand(world: LedgerWorld) -> None:
    """``bookkeeper shell decommissionbookie``: the bookie is ended first, and does not start afterwards."""
    world.store.remove(cookie(2))
    await world.backstage.remove(PODS, NS, POD)
    for _ in range(6):
        await world.round()


async def test_what_is_there_is_counted_and_keeps_its_id(world: LedgerWorld) -> None:
    assert counts(world) == {ordinal: Count(0, 0) for ordinal in range(3)}
    before = (await world.get(STATEFUL_SETS, WORKLOAD))["metadata"]["generation"]
    world.store.remove(INCARNATIONS_PATH)
    await world.run()
    assert counts(world) == {ordinal: Count(0, 0) for ordinal in range(3)}, "as with the upgrade of the operator"
    assert (await world.get(STATEFUL_SETS, WORKLOAD))["metadata"]["generation"] == before
    await well(world)


async def test_every_return_is_under_another_id(world: LedgerWorld) -> None:
    seen: dict[str, str] = {}
    for number in (2, 3, 2, 3):
        await world.resize(number)
        await world.run(rounds=200)
        assert empty_again(world, seen) == []
    await well(world)
    assert world.cookies(2) == [OWN.of_incarnation(2, 2)]
    assert counts(world)[2] == Count(2, 2)
    rows = (await world.status(Kind.CLUSTER, "east"))["bookies"]
    assert [(row["ordinal"], row["id"]) for row in rows] == [
        (0, bookie(0)),
        (1, bookie(1)),
        (2, OWN.of_incarnation(2, 2)),
    ]


@pytest.mark.parametrize("lost", [True, False])
async def test_a_new_volume_is_another_bookie(world: LedgerWorld, lost: bool) -> None:
    seen: dict[str, str] = {}
    empty_again(world, seen)
    if lost:
        await lose(world, 2)
    else:
        await annotate(world, "a test")
    await world.run(rounds=200, each=None)
    assert empty_again(world, seen) == []
    await well(world)
    assert world.cookies(2) == [OWN.of_incarnation(2, 1)]


async def test_an_image_that_knows_no_incarnations_serves_as_before(world: LedgerWorld) -> None:
    world.dataplane.knows_incarnations = False
    await world.resize(2)
    await world.run(rounds=200)
    await world.resize(3)
    await world.run(rounds=200)
    await well(world)
    await annotate(world, "a test")
    await world.run(rounds=200)
    await well(world)
    assert world.cookies(2) == [bookie(2)]


@pytest.mark.parametrize("count", [1, 2])
async def test_whoever_deletes_cookie_and_volume_by_hand_gets_another_bookie(world: LedgerWorld, count: int) -> None:
    seen: dict[str, str] = {}
    for _ in range(count):
        empty_again(world, seen)
        world.store.remove(f"{COOKIES}/{world.id(2)}")
        await lose(world, 2)
        await world.run(rounds=200)
        assert empty_again(world, seen) == []
    assert OWN.of_incarnation(2, count) in world.store.children(AVAILABLE)
    assert await world.all_ready() == {}


async def test_the_number_is_raised_before_the_cookie_is_deleted(world: LedgerWorld) -> None:
    await world.resize(2)
    await forgotten(world)
    writes = [call for call in world.journal.effects if call.port == ZOOKEEPER]
    places = {each.name: place for place, each in enumerate(writes) if each.name in (INCARNATIONS_PATH, cookie(2))}
    assert places[INCARNATIONS_PATH] < places[cookie(2)]
    assert counts(world)[2] == Count(1, 0)


async def test_a_number_that_was_raised_for_nothing_is_no_harm(world: LedgerWorld) -> None:
    """The operator ended between the two writes, and the bookie is wanted again: it returns with what it has."""
    uid = world.volume(bookie(2))
    await world.resize(2)
    await world.at("Forgetting")
    world.store.put(INCARNATIONS_PATH, json.dumps({"2": {"number": 1, "seen": 0}}))
    await world.resize(3)
    await world.run(rounds=200)
    await well(world)
    assert world.cookies(2) == [bookie(2)] and world.volume(bookie(2)) == uid
    assert counts(world)[2] == Count(1, 0)


async def test_a_record_that_cannot_be_read_stops_and_is_named(world: LedgerWorld) -> None:
    kept = world.store.nodes[INCARNATIONS_PATH].data
    await world.resize(2)
    await world.at("Copying")
    world.store.put(INCARNATIONS_PATH, b"garbage")
    for _ in range(20):
        await world.round()
    assert cookie(2) in world.store.nodes and await world.replicas() == 3
    status, _, text = await world.condition(Kind.CLUSTER, "east", "Replicated")
    assert status == "Unknown" and f"znode {INCARNATIONS_PATH} does not hold a count" in text
    assert world.store.nodes[INCARNATIONS_PATH].data == b"garbage", "nothing is written over it"
    world.store.put(INCARNATIONS_PATH, kept)
    await world.run(rounds=200)
    await left(world)


async def test_a_former_incarnation_is_shown_and_forgotten_once_no_ledger_names_it(world: LedgerWorld) -> None:
    """Its memo was lost on the way."""
    former, path = OWN.of_incarnation(2, 0), cookie(2)
    await annotate(world, "a test")
    await world.run(rounds=200)
    volume, uids = world.volume(world.id(2)), [(await world.get(PVCS, each))["metadata"]["uid"] for each in claims(2)]
    world.store.put(path, "cookie")
    world.put(900, "CLOSED", (bookie(0), former), {})
    for _ in range(20):
        await world.round()
    assert path in world.store.nodes, "a ledger names it"
    rows = [(row["id"], row["state"]) for row in (await world.status(Kind.CLUSTER, "east"))["bookies"]]
    assert (former, "Missing") in rows and (world.id(2), "Writable") in rows
    told = await world.progressing()
    assert told[1] == "DecommissionRefused" and former in told[2] and "900" in told[2]
    world.put(900, "CLOSED", (bookie(0), bookie(1)), {})
    await world.run(rounds=200)
    await well(world)
    assert world.volume(world.id(2)) == volume
    assert [(await world.get(PVCS, each))["metadata"]["uid"] for each in claims(2)] == uids
    assert DECOMMISSION_RECORD_PATH not in world.store.nodes


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
async def test_volumes_of_the_later_incarnation_are_never_called_empty(world: LedgerWorld, reclaim: str) -> None:
    """The operator ended when it had deleted the cookie of the former one; then somebody scales by hand."""
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(reclaimPolicy=reclaim))
    await annotate(world, "a test")
    await world.run(rounds=200)
    later = world.id(2)
    for number in range(900, 905):
        world.put(number, "CLOSED", (bookie(0), later), {})
    record = {"bookie": bookie(2), "ordinal": 2, "since": "2026-01-01T00:00:00Z", "ensemble": 2, "forgot": True}
    world.store.put(DECOMMISSION_RECORD_PATH, json.dumps(record))
    uid = world.volume(later)
    await by_hand(world, 2)
    for _ in range(3):
        await world.round()
    assert world.volume(later) == uid
    await world.settle(200)
    await well(world)
    assert world.volume(later) == uid and world.cookies(2) == [later]
    assert not [e for e in world.journal.events if e.message.startswith("Marked PersistentVolumeClaim")]


async def test_racks_are_written_for_every_id_that_a_pod_may_come_up_with() -> None:
    world = await LedgerWorld.up(3, racks={"byOrdinal": ["a", "b"]})
    for number in (2, 3):
        await world.resize(number)
        await world.settle(400)
    assert await world.replicas() == 3 and world.dataplane.unplaced == []
    written = json.loads(world.store.nodes["/bookies"].data)["default"]
    assert sorted(written) == sorted([bookie(0), bookie(1), OWN.of_incarnation(2, 1)])
    assert written[OWN.of_incarnation(2, 1)]["hostname"] == bookie(2).rpartition(":")[0]


# ------------------------------------------------------------------------------- a cookie that was deleted by hand


async def test_a_bookie_without_a_cookie_gets_a_new_volume(world: LedgerWorld) -> None:
    uid = world.volume(bookie(2))
    await cookie_deleted_by_hand(world)
    assert bookie(2) not in world.store.children(AVAILABLE)
    await annotate(world, "its cookie is gone")
    await world.settle(300)
    await well(world)
    assert world.volume(world.id(2)) != uid and world.cookies(2) == [OWN.of_incarnation(2, 1)]


async def test_one_that_no_ledger_names_is_removed() -> None:
    world = await LedgerWorld.up(3, topics=())
    await cookie_deleted_by_hand(world)
    await world.resize(2)
    await world.settle(300)
    assert await world.replicas() == 2 and (await world.progressing())[:2] == ("False", "Ready")
    assert DECOMMISSION_RECORD_PATH not in world.store.nodes


async def test_one_that_ledgers_name_says_what_to_do_and_is_removed_once_none_does(world: LedgerWorld) -> None:
    await cookie_deleted_by_hand(world)
    named = world.naming(2)
    assert named
    world.copies = False
    await world.resize(2)
    await world.settle(100)
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused")
    assert bookie(2) in text and f"{named[0]}" in text
    assert "Auto-recovery copies the entries that other bookies have" in text and "cookie_create" in text
    assert await world.replicas() == 3
    for number in named:
        world.store.remove(f"/ledgers/00/0000/L{number:04d}")
    await world.settle(300)
    assert await world.replicas() == 2, await world.progressing()


async def test_its_cookie_written_again_it_starts_with_its_volume(world: LedgerWorld) -> None:
    uid, data = world.volume(bookie(2)), world.store.nodes[cookie(2)].data
    await cookie_deleted_by_hand(world)
    assert counts(world)[2] == Count(1, 0)
    world.store.put(cookie(2), data)
    await world.run(rounds=100)
    await well(world)
    assert world.volume(bookie(2)) == uid and world.cookies(2) == [bookie(2)]


# ---------------------------------------------------------------- open writers that ledger metadata no longer shows


async def test_a_topic_whose_empty_ledger_auto_recovery_closed_is_unloaded() -> None:
    world = await LedgerWorld.up(4, ensemble=TWO, topics=())
    topic, custom = TOPICS[0], of_topic("shop/orders/persistent/payments")
    data = world.ledger(on=(bookie(2), bookie(3)), custom=custom)
    cursor = world.ledger(on=(bookie(0), bookie(1)), custom={**custom, "pulsar/cursor": b"sub"})
    world.handles[topic] = [data, cursor]
    world.put(data.ledger, "CLOSED", (bookie(2), bookie(3)), custom, last=-1)
    await world.resize(2)
    await world.settle()
    assert await world.replicas() == 2
    assert world.unloaded_times(topic) >= 1, "its broker had a handle still"
    await world.resize(4)
    await world.settle()
    assert await world.replicas() == 4 and world.lost() == []


async def test_an_older_open_ledger_that_reaches_the_bookie_after_a_restart_is_unloaded(world: LedgerWorld) -> None:
    await copying(world)
    topic, custom = TOPICS[0], of_topic("shop/orders/persistent/payments")
    (data, cursor), times = world.handles[topic], world.unloaded_times(topic)
    assert bookie(2) not in data.bookies
    await world.backstage.remove(PODS, NS, POD)
    for _ in range(3):
        await world.workloads.step()
    await world.dataplane.step(world.workloads.ready)
    assert bookie(2) in world.store.children(AVAILABLE), "it restarted, and takes entries"
    world.put(data.ledger, "OPEN", (bookie(0), bookie(2)), custom)
    world.look()
    on = {bookie(0): world.volume(bookie(0)), bookie(2): world.volume(bookie(2))}
    world.handles[topic] = [type(data)(data.ledger, on), cursor]
    world.copies = True
    await world.run(rounds=300)
    await left(world)
    assert world.unloaded_times(topic) > times
