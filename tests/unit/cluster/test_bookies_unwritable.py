"""Bookies that became read-only without the operator, and those that it made so, in memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Kind, Reason
from pulsar_operator.domain.bookkeeper.read_only_bookies import READ_ONLY_REASONS, UNSURE_SECONDS
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, READONLY
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH
from pulsar_operator.ports import PODS, DiskInfo, Json, Key, UnavailableError
from tests.support.cluster.affinity import bind, group
from tests.support.cluster.leaving_bookies import TWO
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, host
from tests.support.cluster.world import NS
from tests.support.core.journal import ZOOKEEPER, PortCall

HALF, NEARLY, FULL = DiskInfo(50, 100), DiskInfo(8, 100), DiskInfo(3, 100)


async def up() -> LedgerWorld:
    """Three bookies, of which a ledger takes two."""
    return await LedgerWorld.up(3, ensemble=TWO)


async def disk(world: LedgerWorld, ordinal: int, space: DiskInfo) -> None:
    """What the disk has, and what the bookie makes of it."""
    world.bookies.disks[host(ordinal)] = space
    await world.bookies.set_readonly(host(ordinal), space is FULL)


async def told(world: LedgerWorld) -> tuple[str, str, str]:
    return await world.condition(Kind.CLUSTER, "east", "BookKeeperReady")


def events(world: LedgerWorld) -> list[str]:
    """Reasons of events about read-only bookies, in order."""
    return [event.reason for event in world.journal.events if event.reason in READ_ONLY_REASONS]


async def test_a_full_disk_is_told_once_and_forgotten_when_there_is_room() -> None:
    world = await up()
    await disk(world, 1, FULL)
    await world.run()
    status, reason, text = await told(world)
    assert (status, reason) == ("True", "DisksFull")
    for words in (bookie(1), "97 %", "95 %", "spec.bookkeeper.replicas"):
        assert words in text, text
    row = await world.row(1)
    assert row is not None and (row["state"], row["reason"]) == ("ReadOnly", "DisksFull") and row["since"] in text
    for _ in range(4):
        await world.round()
    assert events(world) == ["DisksFull"], "once"
    assert await world.replicas() == 3 and world.lost() == []
    await disk(world, 1, HALF)
    await world.run()
    row = await world.row(1)
    assert (await told(world))[:2] == ("True", "Ready") and row is not None and "reason" not in row
    await disk(world, 1, FULL)
    await world.run()
    assert events(world) == ["DisksFull"] * 2, "it begins anew"


async def test_too_few_that_take_entries_are_no_ready_cluster() -> None:
    world = await up()
    for ordinal in (1, 2):
        await disk(world, ordinal, FULL)
    await world.settle(20)
    status, reason, text = await told(world)
    assert (status, reason) == ("False", "DisksFull") and "requires 2 writable bookies, but only 1 are writable" in text
    assert (await world.condition(Kind.CLUSTER, "east"))[:2] == ("False", "DisksFull")
    assert (await world.condition(Kind.CLUSTER, "east", "Stalled"))[0] == "True", "nobody empties them by waiting"
    await disk(world, 2, HALF)
    await world.run()
    assert (await told(world))[:2] == ("True", "DisksFull")
    assert (await world.condition(Kind.CLUSTER, "east"))[:2] == ("True", "Ready")


@pytest.mark.parametrize("by", ["a policy", "the brokers"])
async def test_a_namespace_whose_affinity_group_takes_no_entries_is_named(by: str) -> None:
    """Two bookies are left, and one of them is in the group."""
    world = await up()
    group(world, gold=(1, 2), default=(0,))
    bind(world, "gold" if by == "a policy" else "")
    if by == "the brokers":
        config = {"bookkeeperClientIsolationGroups": "gold"}
        await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].setdefault("config", {}).update(config))
        await world.settle()
    await disk(world, 1, FULL)
    await world.settle(20)
    status, reason, text = await told(world)
    assert (status, reason) == ("False", "DisksFull")
    whose = "shop/orders" if by == "a policy" else "public/default"
    assert f"Namespace {whose} requires 2 writable bookies of affinity group gold" in text
    await disk(world, 1, HALF)
    await world.run()
    assert (await told(world))[:2] == ("True", "Ready")


async def test_affinity_groups_that_cannot_be_read_change_nothing_of_what_was_known() -> None:
    world = await up()
    group(world, gold=(1, 2))
    bind(world, "gold")
    await disk(world, 1, FULL)
    await world.settle(20)
    assert (await told(world))[0] == "False"
    world.store.put("/bookies", "{")
    await world.settle(20)
    assert (await told(world))[0] == "False"


async def test_a_namespace_may_take_more_than_the_default() -> None:
    world = await up()
    policies = b'{"persistence":{"bookkeeperEnsemble":3},"replication_clusters":[]}'
    world.store.put(f"{POLICIES_PATH}/shop/wide", policies)
    await disk(world, 1, FULL)
    await world.settle(20)
    status, _, text = await told(world)
    assert status == "False" and "Namespace shop/wide requires 3" in text


async def test_somebody_made_it_read_only_by_hand() -> None:
    world = await up()
    await world.bookies.set_readonly(host(0), True)
    await world.run()
    status, reason, text = await told(world)
    assert (status, reason) == ("True", "BookieReadOnly")
    assert bookie(0) in text and "50 %" in text and "restart" in text
    assert events(world) == ["BookieReadOnly"]
    assert world.bookies.servers[host(0)].readonly, "nobody takes it back"
    world.bookies.disks[host(0)] = FULL
    await world.run()
    assert (await told(world))[1] == "DisksFull" and events(world) == ["BookieReadOnly", "DisksFull"]


async def test_one_that_does_not_answer_keeps_its_cause() -> None:
    world = await up()
    await disk(world, 1, FULL)
    await world.run()
    world.bookies.failing.add(host(1))
    await world.run()
    status, reason, text = await told(world)
    assert (status, reason) == ("True", "DisksFull") and "an unknown share" in text
    assert events(world) == ["DisksFull"]


async def test_of_one_that_does_not_say_how_full_it_is_nothing_is_said_at_once() -> None:
    """A pod that is not ready yet is not asked; a moment later it may say that its disks are full."""
    world = await up()
    await disk(world, 1, FULL)
    world.bookies.failing.add(host(1))
    for _ in range(3):
        await world.round()
    row = await world.row(1)
    assert row is not None and row["state"] == "ReadOnly" and "reason" not in row and events(world) == []
    world.bookies.failing.clear()
    await world.run()
    assert events(world) == ["DisksFull"]
    await disk(world, 2, FULL)
    world.bookies.failing.add(host(2))
    for _ in range(3):
        await world.round()
    assert events(world) == ["DisksFull"]
    world.clock.forward(UNSURE_SECONDS)
    await world.run()
    assert events(world) == ["DisksFull", "BookieReadOnly"], "for ever it is not waited for"


async def test_a_pass_that_does_not_get_so_far_says_nothing_else() -> None:
    world = await up()
    for ordinal in (1, 2):
        await disk(world, ordinal, FULL)
    await world.settle(20)
    before, failed = await told(world), list[PortCall]()

    def fail(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.name == AVAILABLE:
            failed.append(call)
            raise UnavailableError("connection loss")

    world.journal.before.append(fail)
    for _ in range(3):
        await world.round()
    assert failed and (await told(world)) == before
    row = await world.row(1)
    assert row is not None and row["reason"] == "DisksFull"


async def test_a_specification_that_is_refused_leaves_it_told() -> None:
    world = await up()
    await disk(world, 1, FULL)
    await world.run()

    def wrong(spec: Json) -> None:
        spec["bookkeeper"]["config"] = {"journalMaxBackups": "20000"}

    await world.change(Kind.CLUSTER, "east", wrong)
    await world.settle(10)
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[1] == "InvalidSpec"
    assert (await told(world))[1] == "DisksFull" and events(world) == ["DisksFull"]


@pytest.mark.parametrize("way", ["out", "back", "restarted", "volume"])
async def test_what_the_operator_makes_read_only_is_no_news(way: str) -> None:
    """A removal, one that is taken back, one that restarts on its way, and a new volume."""
    world = await up()
    for _ in range(3):
        world.ledger(state="CLOSED", on=(bookie(1), bookie(2)))
    world.copies = False
    if way == "volume":
        await world.backstage.edit(PODS, NS, f"{WORKLOAD}-2", replace_volume)
    else:
        await world.resize(2)
    await world.at("Copying")
    assert world.bookies.servers[host(2)].readonly and events(world) == []
    if way == "restarted":
        await world.backstage.remove(PODS, NS, f"{WORKLOAD}-2")
        for _ in range(4):
            await world.round()
    elif way == "back":
        await world.resize(3)
    world.copies = True
    await world.settle()
    assert events(world) == []
    assert (await told(world))[:2] == ("True", "Ready")
    assert await world.replicas() == (3 if way in ("back", "volume") else 2)


def replace_volume(pod: Json) -> None:
    pod["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = "a test"


async def test_full_disks_are_told_after_a_removal_that_was_taken_back() -> None:
    """The bookie's monitor keeps it read-only, whoever made it so first."""
    world = await up()
    world.ledger(state="CLOSED", on=(bookie(1), bookie(2)))
    world.copies = False
    await world.resize(2)
    await world.at("Copying")
    world.bookies.disks[host(2)] = FULL
    await world.round()
    assert events(world) == [], "it is the operator's still"
    await world.resize(3)
    await world.settle(20)
    await disk(world, 2, FULL)
    await world.run()
    assert events(world) == ["DisksFull"] and (await told(world))[1] == "DisksFull"


async def test_one_that_says_it_is_writable_is_believed() -> None:
    """The metadata store hears of it a moment later (class BookieStateManager)."""
    world = await up()
    world.store.put(f"{READONLY}/{bookie(1)}", b"")
    await world.reconcile(Key(Kind.CLUSTER, NS, "east"))
    assert events(world) == [] and (await told(world))[1] == "Ready"


async def test_it_is_told_before_it_comes_to_that() -> None:
    world = await up()
    await disk(world, 1, NEARLY)
    await world.run()
    status, reason, text = await told(world)
    assert (status, reason) == ("True", "Ready") and f"read-only at 95 %: {bookie(1)} (92 %)" in text
    assert events(world) == []


async def test_the_limit_is_that_of_the_configuration() -> None:
    world = await up()
    low = {"diskUsageThreshold": "0.3", "diskUsageWarnThreshold": "0.3"}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config=low))
    await world.run()
    await world.bookies.set_readonly(host(1), True)
    await world.run()
    assert events(world) == [Reason.DISKS_FULL.value] and "more than 30 % full (now 50 %)" in (await told(world))[2]
