"""Bookies that namespaces are bound to by affinity groups, and quorums that nobody declared: whether one may leave. In
memory."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.affinity import Bound, Groups, groups_of, local_groups, too_few_in_group
from pulsar_operator.ports import Json
from tests.support.cluster.affinity import bind, group
from tests.support.cluster.leaving_bookies import TWO, copying, left
from tests.support.cluster.ledgers import LedgerWorld, bookie, host, of_topic

FOUR = [bookie(n) for n in range(4)]


async def four() -> LedgerWorld:
    return await LedgerWorld.up(4, topics=(), ensemble=TWO)


async def test_a_group_keeps_as_many_bookies_as_its_namespaces_take() -> None:
    """Three others are left, and one of them is in the group."""
    world = await four()
    group(world, gold=(2, 3), default=(0, 1))
    bind(world, "gold")
    await world.resize(3)
    await world.settle(60)
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused")
    assert "namespace shop/orders requires 2 writable bookies of affinity group gold, and only 1 would be left" in text
    assert not world.bookies.servers[host(3)].readonly

    group(world, gold=(1, 2, 3), default=(0,))
    await world.settle()
    assert await world.replicas() == 3, await world.progressing()


async def test_a_group_that_shrinks_on_the_way_is_seen() -> None:
    world = await four()
    world.ledger(state="CLOSED", on=(bookie(1), bookie(3)))
    group(world, gold=(1, 2, 3))
    bind(world, "gold")
    await copying(world, 3)
    group(world, gold=(2, 3))
    world.copies = True
    await world.settle()
    assert await world.replicas() == 4, "no ledger of shop/orders can be made any more"


async def test_groups_that_cannot_be_read_are_waited_for() -> None:
    world = await four()
    bind(world, "gold")
    world.store.put("/bookies", "{")
    await world.resize(3)
    await world.settle(60)
    assert "The affinity groups of the bookies cannot be read" in (await world.progressing())[2]
    assert not world.bookies.servers[host(3)].readonly


async def test_the_groups_of_the_brokers_configuration_bind_all_namespaces() -> None:
    world = await four()
    group(world, gold=(2, 3), default=(0, 1))
    world.store.put("/admin/policies/shop/other", "{}")
    config = {"bookkeeperClientIsolationGroups": "gold"}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].setdefault("config", {}).update(config))
    await world.settle()
    await world.resize(3)
    await world.settle(60)
    assert (await world.progressing())[1] == "DecommissionRefused"
    assert "affinity group gold" in (await world.progressing())[2]


async def test_a_quorum_that_nobody_declared_shows_in_the_ledgers_of_its_topic() -> None:
    """A policy of a topic, set in Pulsar alone: with three bookies each ledger of three is on the one that leaves."""
    world = await LedgerWorld.up(3, topics=(), ensemble=TWO)
    world.ledger(on=[bookie(n) for n in range(3)], custom=of_topic("shop/orders/persistent/wide"))
    await world.resize(2)
    await world.settle(60)
    _, reason, text = await world.progressing()
    assert (
        reason == "DecommissionRefused"
        and "persistent://shop/orders/wide" in text
        and "requires 3 writable bookies" in text
    )


async def test_a_bookie_in_no_group_of_theirs_leaves() -> None:
    world = await LedgerWorld.up(3, topics=(), ensemble=TWO)
    group(world, gold=(0, 1), default=(2,))
    bind(world, "gold")
    await world.resize(2)
    await world.settle()
    await left(world)


async def test_a_rollout_reports_whose_writes_pause_in_a_group() -> None:
    """Three others are left, and one of them is in the group."""
    world = await four()
    group(world, gold=(2, 3), default=(0, 1))
    bind(world, "gold")
    config = {"journalMaxGroupWaitMSec": "2"}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].setdefault("config", {}).update(config))
    await world.settle()
    pauses = [event.message for event in world.journal.events if event.reason == "TooFewBookies"]
    assert [text.partition(" is replaced, ")[0] for text in pauses] == [
        "While pod east-bookie-3",
        "While pod east-bookie-2",
    ]
    text = "namespace shop/orders requires 2 writable bookies of affinity group gold, but only 1 are left"
    assert all(text in each for each in pauses), pauses


GOLD = Groups(frozenset({"gold"}), frozenset({"silver"}))
CASES = [
    (Bound("n", 2, GOLD, frozenset(FOUR[:3])), FOUR[0], None),
    (Bound("n", 3, GOLD, frozenset(FOUR[:3])), FOUR[0], "groups gold, silver, and only 2 would"),
    (Bound("n", 3, GOLD, frozenset(FOUR[:3])), FOUR[3], None),
    (Bound("n", 9, GOLD, frozenset()), FOUR[3], None),
]


@pytest.mark.parametrize(("found", "leaves", "said"), CASES)
def test_who_is_short_of_bookies(found: Bound, leaves: str, said: str | None) -> None:
    text = too_few_in_group(leaves, FOUR, [found])
    assert text is None if said is None else said in (text or "")


@pytest.mark.parametrize(
    ("policies", "groups"),
    [
        ({}, None),
        ({"bookieAffinityGroup": None}, None),
        ({"bookieAffinityGroup": {"bookkeeperAffinityGroupPrimary": ""}}, None),
        ({"bookieAffinityGroup": {"bookkeeperAffinityGroupPrimary": "a, b"}}, Groups(frozenset("ab"))),
        (
            {"bookieAffinityGroup": {"bookkeeperAffinityGroupPrimary": "a", "bookkeeperAffinityGroupSecondary": "c"}},
            Groups(frozenset("a"), frozenset("c")),
        ),
        ([], None),
        ({"bookieAffinityGroup": "x"}, None),
    ],
)
def test_what_local_policies_say(policies: Json, groups: Groups | None) -> None:
    assert local_groups(json.dumps(policies).encode()) == groups
    assert local_groups(b"\xff") is None


def test_which_groups_bind() -> None:
    assert groups_of("a", None).bind and not groups_of("*", None).bind and not groups_of(None, "b").bind
