"""Bookies are removed and added: 3 -> 2 -> 3 in memory, and what may come between."""

from __future__ import annotations

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Kind
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH
from pulsar_operator.ports import PVCS, STATEFUL_SETS
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie

STEPS = ["ReadOnly", "Unloading", "Copying", "Verifying", "Stopping", "Forgetting"]
CLAIMS = ("journal-0", "ledgers-0")


async def replicas(world: LedgerWorld) -> int:
    return int((await world.get(STATEFUL_SETS, WORKLOAD))["spec"]["replicas"])


async def test_three_to_two_and_back() -> None:
    world, steps = await LedgerWorld.up(3), []
    before = dict(world.written)

    async def look() -> None:
        row = await world.row(2)
        steps.append((row or {}).get("step"))

    assert world.naming(2), "nothing would be proved"
    await world.resize(2)
    await world.run(rounds=200, each=look)
    assert [each for each in dict.fromkeys(steps) if each] == STEPS
    assert await replicas(world) == 2 and await world.row(2) is None
    assert f"/ledgers/cookies/{bookie(2)}" not in world.store.nodes and MEMO_PATH not in world.store.nodes
    for claim in CLAIMS:
        assert ANNOTATION_VERIFIED_EMPTY in (await world.get(PVCS, f"{claim}-{WORKLOAD}-2"))["metadata"]["annotations"]
    assert world.naming(2) == [] and world.lost() == []
    assert await world.all_ready() == {} and (await world.progressing())[:2] == ("False", "Ready")
    uid = world.volume(bookie(2))
    await world.resize(3)
    await world.run(rounds=200)
    assert await replicas(world) == 3 and await world.all_ready() == {}
    assert world.volume(bookie(2)) not in ("", uid), "a volume that ledgers were on starts no bookie again"
    assert world.lost() == [] and before.items() <= world.written.items()
    assert (await world.condition(Kind.CLUSTER, "east", "Replicated"))[0] == "True"
