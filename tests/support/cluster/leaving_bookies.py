"""Bookies that are to leave, or lost their volumes: how a test brings them there, and what is true at rest."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import pytest
import yaml

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Kind
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, READONLY
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PODS, PVCS, STATEFUL_SETS, Json
from tests.support.cluster.copies import made_once
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, claims, cookie
from tests.support.cluster.world import NS
from tests.support.core.journal import BOOKIES, PortCall

STEPS = ["ReadOnly", "Unloading", "Copying", "Verifying", "Stopping", "Forgetting"]
HOUR = 3600.0
"""How long a bookie may take to leave."""
TWO = {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}


@pytest.fixture
async def world() -> LedgerWorld:
    """Three bookies, with ledgers of two topics and closed ones on each pair of them."""
    found = await LedgerWorld.up(3, closed=3)
    assert found.naming(2), "nothing would be proved"
    return found


@made_once
async def leaving(step: str) -> LedgerWorld:
    """Three bookies with ledgers, of which the third is at a step of leaving."""
    passed = STEPS[: STEPS.index(step)]
    if passed:
        world = await leaving(passed[-1])
    else:
        world = await LedgerWorld.up(3, closed=3)
        await world.resize(2)
    await world.at(step)
    return world


async def copying(world: LedgerWorld, ordinal: int = 2) -> None:
    """The last bookie is to leave, and no copy of what it has is made."""
    world.copies = False
    await world.resize(ordinal)
    await world.at("Copying", ordinal)


async def lowered(world: LedgerWorld, bookies: int = 2) -> None:
    """Rounds until the StatefulSet wants that many."""

    async def there() -> bool:
        return await world.replicas() == bookies

    await world.until(there)


async def forgotten(world: LedgerWorld, ordinal: int = 2) -> None:
    """Rounds until a bookie's cookie is gone; its claims are not marked yet."""

    async def there() -> bool:
        return cookie(ordinal) not in world.store.nodes

    await world.until(there, rounds=200)
    assert DECOMMISSION_RECORD_PATH in world.store.nodes


async def by_hand(world: LedgerWorld, number: int) -> None:
    """Somebody scales the StatefulSet."""
    await world.backstage.edit(STATEFUL_SETS, NS, WORKLOAD, lambda obj: obj["spec"].update(replicas=number))


async def lose(world: LedgerWorld, ordinal: int, *only: str) -> None:
    """Its volumes, or those of these claims alone, are gone with their claims, and its pod starts on new ones."""
    for claim in only or claims(ordinal):
        await world.backstage.remove(PVCS, NS, claim)
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-{ordinal}")


async def entry_asked_for(world: LedgerWorld) -> Json:
    """The entry of spec.confirmations that condition Progressing asks for, as a person pastes it."""
    text = (await world.progressing())[2]
    found = re.search(r"add this entry to spec\.confirmations: (\{.*?\})", text)
    assert found is not None, text
    entry = yaml.safe_load(found[1])
    assert isinstance(entry, dict)
    return entry


async def confirm(world: LedgerWorld, **changes: Any) -> Json:
    """A user pastes it, perhaps with other values; None leaves a field out."""
    entry = {**await entry_asked_for(world), **changes}
    entry = {key: value for key, value in entry.items() if value is not None}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(confirmations=[entry]))
    return entry


def copies_asked(world: LedgerWorld) -> list[PortCall]:
    """Requests to auto-recovery."""
    return [call for call in world.journal.effects if (call.port, call.verb) == (BOOKIES, "recover")]


async def well(world: LedgerWorld, bookies: int = 3, *, given_up: Collection[int] = ()) -> None:
    """So many bookies, all writable, and nothing is under way, or lost but ledgers whose loss was confirmed."""
    assert (await world.progressing())[:2] == ("False", "Ready"), await world.progressing()
    assert await world.replicas() == bookies and await world.all_ready() == {}
    assert {world.id(n) for n in range(bookies)} <= set(world.store.children(AVAILABLE))
    assert all(len(world.cookies(n)) == 1 for n in range(bookies)), "nothing is left of what they were before"
    assert world.store.children(READONLY) == [] and DECOMMISSION_RECORD_PATH not in world.store.nodes
    assert not [n for n in range(bookies) if "step" in ((await world.row(n)) or {})]
    expected = tuple(f"ledger {number} on " for number in given_up)
    assert [each for each in world.lost() if not each.startswith(expected)] == []


async def left(world: LedgerWorld) -> None:
    """Two bookies, and nothing of the third but its claims, which are marked."""
    assert await world.replicas() == 2 and await world.row(2) is None
    assert cookie(2) not in world.store.nodes and DECOMMISSION_RECORD_PATH not in world.store.nodes
    for claim in claims(2):
        text = (await world.get(PVCS, claim))["metadata"]["annotations"][ANNOTATION_VERIFIED_EMPTY]
        assert json.loads(text).keys() == {"bookieId", "instanceId", "ledgersVerifiedEmpty"}
        assert json.loads(text)["bookieId"] == bookie(2)
    assert world.naming(2) == [] and world.lost() == [] and world.cookies(2) == []
    assert await world.all_ready() == {} and (await world.progressing())[:2] == ("False", "Ready")
