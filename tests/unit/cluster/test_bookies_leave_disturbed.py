"""A bookie leaves, and something else happens on the way: users scale, pause and roll, statuses and stores are lost."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.ledger_scan_record import SCAN_PATH
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import CUSTOM, PODS, STATEFUL_SETS, Json, UnavailableError
from tests.support.cluster.leaving_bookies import (
    STEPS,
    by_hand,
    copying,
    leaving,
    left,
    well,
    world,
)
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, claims, cookie
from tests.support.cluster.world import NS
from tests.support.core.journal import BOOKIES, ZOOKEEPER, PortCall

__all__ = ["world"]

CLAIMS, COOKIE = claims(2), cookie(2)


@pytest.mark.parametrize("wanted", [2, 3])
async def test_lowered_by_hand_it_is_raised_again_and_emptied_first(world: LedgerWorld, wanted: int) -> None:
    uid = world.volume(bookie(2))
    await by_hand(world, 2)
    await world.resize(wanted)
    seen: set[int] = set()

    async def look() -> None:
        seen.add(await world.replicas())
        assert COOKIE in world.store.nodes or world.naming(2) == []

    await world.run(rounds=200, each=look)
    assert 3 in seen
    if wanted == 2:
        await left(world)
    else:
        await well(world)
    assert world.volume(bookie(2)) == uid


@pytest.mark.parametrize("how", ["pause", "dry_run"])
@pytest.mark.parametrize("step", ["ReadOnly", "Copying", "Stopping"])
async def test_paused_nothing_goes_on(how: str, step: str) -> None:
    world = await leaving(step)
    hold = getattr(world, how)
    await hold(Kind.CLUSTER, "east")
    await world.round()
    mark = len(world.journal.attempts)
    for _ in range(5):
        await world.round()
    writes = [call for call in world.journal.attempts[mark:] if call.verb != "status"]
    assert writes == [] and ((await world.row(2)) or {})["step"] == step
    await hold(Kind.CLUSTER, "east", on=False)
    await world.run(rounds=200)
    await left(world)


@pytest.mark.parametrize("how", ["pause", "dry_run"])
async def test_an_examination_in_a_pause_is_not_on_record(world: LedgerWorld, how: str) -> None:
    """It tells whether the bookie may leave, and nothing of it is written to the metadata store."""
    await getattr(world, how)(Kind.CLUSTER, "east")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(replicas=2))
    for _ in range(5):
        await world.round()
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert [each for each in pending if "is decommissioned, because spec.bookkeeper.replicas is 2" in each], pending
    assert not [path for path in world.store.nodes if path.startswith(SCAN_PATH)]


@pytest.mark.parametrize("step", STEPS)
async def test_a_lost_status_changes_nothing(step: str) -> None:
    world = await leaving(step)
    world.kube.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {})
    assert await world.row(2) is None
    await world.run(rounds=200)
    await left(world)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_roll_waits_for_it(world: LedgerWorld, lost: bool) -> None:
    """Also when the status, by which templates are held, is lost again and again."""
    await copying(world)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "7"}))
    for _ in range(20):
        if lost:
            world.kube.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {})
        await world.round()
    assert world.journal.pods_gone() == []
    rollout = (await world.status(Kind.CLUSTER, "east"))["rollout"]
    assert rollout["blockedBy"] == "DecommissioningBookie" and f"Bookie {bookie(2)} is being" in rollout["message"]
    world.copies = True

    async def gone() -> bool:
        return bool(world.journal.pods_gone())

    await world.until(gone, rounds=200)
    assert await world.replicas() == 2 and COOKIE not in world.store.nodes
    await world.run(rounds=300)
    await left(world)


async def test_it_waits_for_a_roll(world: LedgerWorld) -> None:
    def both(spec: Json) -> None:
        spec["broker"]["config"] = {"maxProducersPerTopic": "7"}
        spec["bookkeeper"]["replicas"] = 2

    await world.change(Kind.CLUSTER, "east", both)

    async def begun() -> bool:
        return DECOMMISSION_RECORD_PATH in world.store.nodes

    await world.until(begun, rounds=200)
    assert [name for name in world.journal.pods_gone() if "broker" in name], "the roll came first"
    await world.run(rounds=300)
    await left(world)


@pytest.mark.parametrize("step", ["Unloading", "Stopping", "Forgetting"])
async def test_while_the_store_is_away_nothing_is_done(step: str) -> None:
    world = await leaving(step)

    def away(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.verb in ("get", "children"):
            raise UnavailableError("no server answers")

    world.journal.before.append(away)
    before = (await world.replicas(), COOKIE in world.store.nodes)
    await world.round()
    mark = len(world.journal.attempts)
    for _ in range(5):
        await world.round()
    assert [call for call in world.journal.attempts[mark:] if call.port in (ZOOKEEPER, BOOKIES)] == []
    assert (await world.replicas(), COOKIE in world.store.nodes) == before
    world.journal.before.remove(away)
    await world.run(rounds=200)
    await left(world)


@pytest.mark.parametrize("verb", ["get", "apply"])
async def test_scaled_by_hand_right_before_it_is_lowered(verb: str) -> None:
    """Two replicas less at once would take a bookie that was not emptied."""
    world = await leaving("Stopping")
    looks: list[str] = []

    def hand(call: PortCall) -> None:
        if (call.verb, call.kind, call.name) == (verb, "StatefulSet", WORKLOAD) and not looks:
            looks.append(call.name)
            world.kube.edit(STATEFUL_SETS, NS, WORKLOAD, lambda obj: obj["spec"].update(replicas=5))

    world.journal.before.append(hand)
    seen: list[int] = []

    async def look() -> None:
        seen.append(await world.replicas())

    await world.run(rounds=400, each=look)
    assert looks and 5 in seen
    numbers = [number for number, before in zip(seen, [3, *seen], strict=False) if number != before]
    assert numbers == [5, 4, 3, 2], "one at a time"
    await left(world)


async def test_a_cluster_that_is_made_again_takes_no_marked_volume(world: LedgerWorld) -> None:
    await world.resize(2)
    await world.run(rounds=200)
    uid = world.volume(bookie(2))
    for name in (f"{WORKLOAD}-{n}" for n in range(3)):
        await world.backstage.remove(PODS, NS, name)
    await world.resize(3)
    await world.backstage.remove(STATEFUL_SETS, NS, WORKLOAD)
    await world.run(rounds=200)
    await well(world)
    assert world.volume(bookie(2)) not in ("", uid)


async def test_a_statefulset_that_is_made_again_takes_no_foreign_volume(world: LedgerWorld) -> None:
    await world.backstage.remove(STATEFUL_SETS, NS, WORKLOAD)
    for _ in range(3):
        await world.workloads.step()
    node = world.store.nodes.pop(COOKIE)
    for ledger in world.naming(2):
        world.store.remove(ledger_path(ledger))
    await world.run()
    told = await world.progressing()
    assert told[:2] == ("False", "ForeignVolume") and CLAIMS[0] in told[2]
    assert await world.replicas() == 2, "the others have what is theirs"
    world.store.put(COOKIE, node.data)
    await world.run(rounds=200)
    assert await world.replicas() == 3
