"""A bookie's pod that the API server would not create again: it is not deleted for a new volume. In memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Kind
from pulsar_operator.ports import PODS, PVCS, Json, RefusedError
from tests.support.cluster.leaving_bookies import by_hand, well, world
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, claims
from tests.support.cluster.world import NS
from tests.unit.cluster.test_pods_refused import kube, refusing, without_dry_run

__all__ = ["world"]

POD = f"{WORKLOAD}-2"
QUOTA = "no PriorityClass with name gold was found"


async def asked(world: LedgerWorld) -> None:
    """Somebody asks for a new volume."""

    def change(obj: Json) -> None:
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = "SMART errors"

    await world.backstage.edit(PODS, NS, POD, change)


def refuse(world: LedgerWorld) -> None:
    kube(world).admission.append(refusing(lambda: RefusedError(QUOTA, status=403), pods=WORKLOAD))


@pytest.mark.parametrize("late", [False, True], ids=["at once", "after its claims were deleted"])
async def test_a_bookie_that_is_to_have_a_new_volume_keeps_its_pod(world: LedgerWorld, late: bool) -> None:
    before, uid = world.volume(bookie(2)), (await world.get(PODS, POD))["metadata"]["uid"]
    if not late:
        refuse(world)
    await asked(world)
    if late:

        async def going() -> bool:
            return "deletionTimestamp" in (await world.get(PVCS, claims(2)[0]))["metadata"]

        await world.until(going, rounds=300)
        refuse(world)
    await world.run(rounds=200)
    assert (await world.get(PODS, POD))["metadata"]["uid"] == uid and world.volume(bookie(2)) == before
    if not late:
        assert not [each for each in claims(2) if "deletionTimestamp" in (await world.get(PVCS, each))["metadata"]]
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "PodRefused")
    assert f"Pod {POD} is not replaced" in text and QUOTA in text
    kube(world).admission.clear()
    await world.run(rounds=300)
    await well(world)
    assert world.volume(bookie(2)) != before


async def test_without_the_right_to_ask_the_volume_is_replaced(world: LedgerWorld) -> None:
    before = world.volume(bookie(2))
    kube(world).admission.append(without_dry_run)
    await asked(world)
    await world.run(rounds=300)
    await well(world)
    assert world.volume(bookie(2)) != before


async def test_a_pod_on_volumes_that_are_marked_as_empty_stays(world: LedgerWorld) -> None:
    """Somebody scaled by hand, and the pod never starts."""
    await world.resize(2)
    await world.run(rounds=200)
    await by_hand(world, 3)
    for _ in range(2):
        await world.workloads.step()
    uid = (await world.get(PODS, POD))["metadata"]["uid"]
    refuse(world)
    for _ in range(5):
        await world.reconcile((await world.keys())[1])
        await by_hand(world, 3)
    assert (await world.get(PODS, POD))["metadata"]["uid"] == uid
    assert POD not in world.journal.pods_gone()
    text = (await world.condition(Kind.CLUSTER, "east", "BookKeeperReady"))[2]
    assert f"Pod {POD} is not replaced" in text and QUOTA in text
