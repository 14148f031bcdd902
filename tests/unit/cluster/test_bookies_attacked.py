"""What somebody tried who wanted the removal of bookies to lose data. In memory."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Kind
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH
from pulsar_operator.domain.bookkeeper.znodes import COOKIES
from pulsar_operator.ports import PVCS, STATEFUL_SETS
from tests.support.cluster.ledgers import PULSAR, TOPICS, WORKLOAD, LedgerWorld, bookie
from tests.support.cluster.world import NS

CLAIMS = (f"journal-0-{WORKLOAD}-2", f"ledgers-0-{WORKLOAD}-2")
COOKIE = f"{COOKIES}/{bookie(2)}"
HOUR = 3600.0
TWO = {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
@pytest.mark.parametrize("stuck", [False, True])
async def test_a_volume_is_not_called_empty_without_a_look(reclaim: str, stuck: bool) -> None:
    """Somebody who wants it gone scales by hand and deletes the cookie while ledgers are on it."""
    world = await LedgerWorld.up(3)
    for _ in range(3):
        world.ledger(state="CLOSED")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(reclaimPolicy=reclaim))
    world.copies = False
    await world.resize(2)
    await world.at("Copying")
    if stuck:
        world.clock.forward(HOUR)
        await world.settle()
        assert (await world.progressing())[1] == "DecommissionStuck"
    await world.backstage.edit(STATEFUL_SETS, NS, WORKLOAD, lambda obj: obj["spec"].update(replicas=2))
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
    custom = {**PULSAR, "pulsar/managed-ledger": b"shop/orders/persistent/payments"}
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
    names = [f"{volume}-{WORKLOAD}-2" for volume in ("journal-0", "ledgers-0")]
    for name in names:
        meta = {"name": name, "namespace": NS, "labels": mine["metadata"]["labels"]}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": mine["spec"]}
        await world.backstage.put(claim)
    old = bookie(2).replace("cluster.local", "old.example.com")
    world.put(900, "CLOSED", (bookie(0), old), {})
    memo = {"bookie": old, "ordinal": 2, "since": "2026-01-01T00:00:00Z", "ensemble": 2}
    world.store.put(MEMO_PATH, json.dumps(memo))
    await world.settle(60)
    for name in names:
        claim = await world.live(PVCS, name)
        assert claim is not None, f"{name} was deleted"
        assert ANNOTATION_VERIFIED_EMPTY not in (claim["metadata"].get("annotations") or {})
