"""What somebody tried who wanted the removal of bookies to lose data. In memory."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Kind
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PVCS
from tests.support.cluster.leaving_bookies import HOUR, TWO, by_hand, copying
from tests.support.cluster.ledgers import TOPICS, WORKLOAD, LedgerWorld, bookie, claims, cookie, of_topic
from tests.support.cluster.world import NS

CLAIMS, COOKIE = claims(2), cookie(2)


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
@pytest.mark.parametrize("stuck", [False, True])
async def test_a_volume_is_not_called_empty_without_a_look(reclaim: str, stuck: bool) -> None:
    """Somebody who wants it gone scales by hand and deletes the cookie while ledgers are on it."""
    world = await LedgerWorld.up(3, closed=3)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(reclaimPolicy=reclaim))
    await copying(world)
    if stuck:
        world.clock.forward(HOUR)
        await world.settle()
        assert (await world.progressing())[1] == "DecommissionStuck"
    await by_hand(world, 2)
    world.store.remove(COOKIE)
    await world.settle()
    assert world.naming(2), "ledgers are on it still"
    assert not [e for e in world.journal.events if "is removed and no ledger named it" in e.message]
    for name in CLAIMS:
        claim = await world.live(PVCS, name)
        assert claim is not None, f"{name} was deleted, with the only copies that ledgers {world.naming(2)} have there"
        assert ANNOTATION_VERIFIED_EMPTY not in (claim["metadata"].get("annotations") or {})


async def test_a_handle_on_a_ledger_that_auto_recovery_closed(  # apache/bookkeeper#4812
) -> None:
    """A bookie was away for a minute: auto-recovery fenced and closed an idle topic's ledger. Its broker does not know.
    Both bookies of its handle are removed and come back empty, with E = W = A = 2."""
    world = await LedgerWorld.up(4, ensemble=TWO, topics=())
    topic = TOPICS[0]
    custom = of_topic("shop/orders/persistent/payments")
    data = world.ledger(on=(bookie(2), bookie(3)), custom=custom)
    cursor = world.ledger(on=(bookie(0), bookie(1)), custom={**custom, "pulsar/cursor": b"sub"})
    world.handles[topic] = [data, cursor]
    world.put(data.ledger, "CLOSED", (bookie(2), bookie(3)), custom)
    await world.resize(2)
    await world.settle()
    assert await world.replicas() == 2
    await world.resize(4)
    await world.settle()
    assert await world.replicas() == 4
    assert world.lost() == []


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
async def test_a_memo_of_another_bookie_marks_no_claim(reclaim: str) -> None:
    """Deleted with its data kept while a bookie left, made again with another clusterDomain: ids are others, the memo
    is still there, and so is the volume with what ledgers need."""
    world = await LedgerWorld.up(2)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(reclaimPolicy=reclaim))
    mine = await world.get(PVCS, f"ledgers-0-{WORKLOAD}-1")
    for name in CLAIMS:
        meta = {"name": name, "namespace": NS, "labels": mine["metadata"]["labels"]}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": mine["spec"]}
        await world.backstage.put(claim)
    old = bookie(2).replace("cluster.local", "old.example.com")
    world.put(900, "CLOSED", (bookie(0), old), {})
    record = {"bookie": old, "ordinal": 2, "since": "2026-01-01T00:00:00Z", "ensemble": 2}
    world.store.put(DECOMMISSION_RECORD_PATH, json.dumps(record))
    await world.settle(60)
    for name in CLAIMS:
        claim = await world.live(PVCS, name)
        assert claim is not None, f"{name} was deleted"
        assert ANNOTATION_VERIFIED_EMPTY not in (claim["metadata"].get("annotations") or {})
