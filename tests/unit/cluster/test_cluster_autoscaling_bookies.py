"""Bookies that follow what they store, in memory and virtual time: added at once or after a window. Removed:
test_cluster_autoscaling_bookies_leave.py."""

from __future__ import annotations

import copy

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE
from pulsar_operator.ports import PODS, PVCS, STATEFUL_SETS, Json, Key
from tests.support.bookkeeper.paths import under_replicated_path
from tests.support.cluster.ledgers import STORE, WORKLOAD, LedgerWorld, bookie, host
from tests.support.cluster.scaling_bookies import (
    HOUR,
    SOON,
    SPARSE,
    at_rest,
    events,
    fill,
    limits,
    looks,
    row,
    said,
    scaling,
    why,
)
from tests.support.cluster.world import NS, quickstart

TIMED = {"writeLatencyMilliseconds": 20}


async def test_a_full_disk_adds_a_bookie_at_once_and_no_second_one() -> None:
    world = await scaling(3, 60.0)
    spec = copy.deepcopy((await world.get(Kind.CLUSTER, "east"))["spec"])
    fill(world, {0: 91.0, 1: 70.0, 2: 70.0})
    await looks(world, 1)
    await at_rest(world, 4)
    assert len(events(world, "ScaledOut")) == 1 and "1 bookies are 90% full" in events(world, "ScaledOut")[0]
    assert await world.get(PVCS, f"ledgers-0-{WORKLOAD}-3") is not None
    fill(world, {0: 93.0, 3: 5.0})
    await looks(world, 5)
    await at_rest(world, 4)
    assert (await world.get(Kind.CLUSTER, "east"))["spec"] == spec, "spec is never written"
    assert (await row(world))["replicas"] == 3 and await said(world) == ("True", "WithinTarget")


async def test_all_disks_full_add_what_ensembles_need_but_never_more_than_the_maximum() -> None:
    world = await scaling(3, 60.0, most=4)
    fill(world, 92.0, 3)
    await looks(world, 1)
    await at_rest(world, 4)
    fill(world, 92.0, 4)
    await looks(world, 3)
    await at_rest(world, 4)
    assert await said(world) == ("False", "AtLimit") and (await row(world))["limitedBy"] == "maxReplicas"


async def test_what_grows_slowly_adds_one_after_the_window() -> None:
    world = await scaling(3, 70.0)
    fill(world, 84.0, 3)
    await looks(world, 5)
    assert await world.replicas() == 3 and await said(world) == ("False", "Stabilizing")
    assert (await row(world))["limitedBy"] == "behavior.scaleUp.stabilizationWindowSeconds"
    await looks(world, 7)
    await at_rest(world, 4)


async def test_growth_adds_before_disks_are_full() -> None:
    """40 % now, 3 % an hour: full within a day. None is added while there is room."""
    world = await scaling(3, 40.0, hours=1)
    for hour in range(10):
        assert await world.replicas() == 3 or hour > 6
        fill(world, 43.0 + 3 * hour, 3)
        await looks(world, int(HOUR / SPARSE), every=SPARSE)
    assert await world.replicas() > 3 and "90% full in" in await why(world)
    assert len((await row(world))["history"]["stored"]) >= 4


async def test_bookies_are_added_while_copies_are_missing_and_none_leaves() -> None:
    """Copies are made where there is room, and a ledger may lack them for ever."""
    world = await scaling(3, 60.0)
    ledger = world.ledger(state="CLOSED").ledger
    world.store.put(under_replicated_path(ledger))
    await looks(world, 2)
    assert await said(world) == ("False", "UnderReplicated")
    fill(world, 84.0, 3)
    await looks(world, 5)
    assert await world.replicas() == 3 and await said(world) == ("False", "Stabilizing")
    await looks(world, 8)
    assert await world.replicas() == 4 and await world.all_ready() == {}


async def test_a_full_disk_adds_one_at_once_while_copies_are_missing() -> None:
    world = await scaling(3, 60.0)
    world.store.put(under_replicated_path(world.ledger(state="CLOSED").ledger))
    fill(world, {0: 91.0, 1: 70.0, 2: 70.0})
    await looks(world, 2)
    assert await world.replicas() == 4 and await world.all_ready() == {}


async def test_a_full_disk_adds_one_while_bookies_are_rolled() -> None:
    world = await scaling(3, 60.0)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config={"flushInterval": "70000"}))
    seen: list[int] = []

    async def look() -> None:
        done = (await world.status(Kind.CLUSTER, "east")).get("rollout", {}).get("podsDone")
        if done:
            fill(world, {0: 91.0, 1: 70.0, 2: 70.0})
            seen.append(await world.replicas())

    await world.run(rounds=300, each=look)
    assert seen and max(seen) == 4, "not after the roll alone"
    await looks(world, 2)
    await at_rest(world, 4)


@pytest.mark.parametrize(("full", "number"), [(84.0, 13), (91.0, 2)])
async def test_bookies_are_added_while_the_configuration_store_is_away(full: float, number: int) -> None:
    """That of the instance, which bookies do not need: after their window, and at once for a full disk."""
    manifests: list[Json] = quickstart()
    manifests[0]["spec"]["configurationStore"] = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}
    manifests[1]["spec"]["bookkeeper"] |= {"replicas": 3, "autoscaling": limits()}
    world = LedgerWorld.empty()
    fill(world, 60.0, 3)
    await world.apply(*manifests)
    await world.run()
    world.unreachable.add(f"demo-configuration-store.{NS}.svc.cluster.local")
    await looks(world, 1)
    assert await said(world) == ("False", "ConfigurationStoreUnavailable")
    fill(world, full, 1)
    fill(world, full, 3)
    await looks(world, number)
    assert await world.replicas() >= 4 and world.dataplane is not None


async def test_one_that_is_added_gets_its_rack_by_ordinal() -> None:
    """Where racks go by ordinal, also that of one which the specification's own number does not have."""
    racks = {"byOrdinal": ["a", "b", "a", "b", "a", "b"]}
    world = await LedgerWorld.up(3, racks=racks)
    fill(world, 60.0, 3)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(autoscaling=limits()))
    await world.run(rounds=300)
    fill(world, 91.0, 1)
    await looks(world, 2)
    await at_rest(world, 4)
    assert ((await world.row(3)) or {}).get("rack") == "/b"


async def test_a_full_disk_adds_none_while_the_cluster_is_paused() -> None:
    world = await scaling(3, 60.0)
    await world.pause(Kind.CLUSTER, "east")
    fill(world, 91.0, 3)
    await looks(world, 3)
    assert await world.replicas() == 3 and await said(world) == ("False", "Paused")
    await world.pause(Kind.CLUSTER, "east", on=False)
    await looks(world, 1)
    assert await world.replicas() == 5


async def test_a_dry_run_tells_and_adds_none() -> None:
    world = await scaling(3, 60.0)
    await world.dry_run(Kind.CLUSTER, "east")
    fill(world, {0: 91.0, 1: 70.0, 2: 70.0})
    await looks(world, 3)
    assert await world.replicas() == 3 and await said(world) == ("False", "DryRun")
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert "Scale bookies from 3 to 4 (status.autoscaling has the reason)" in pending


@pytest.mark.parametrize("what", ["silent", "not registered", "no store"])
async def test_what_is_not_known_is_not_empty(what: str) -> None:
    world = await scaling(4, 30.0, hours=5, behavior=SOON, most=9, least=4)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"]["autoscaling"].update(minReplicas=2))
    fill(world, 91.0, 4)
    if what == "silent":
        world.bookies.failing.add(host(1))
    elif what == "not registered":
        world.store.remove(f"{AVAILABLE}/{bookie(1)}")
    else:
        world.unreachable.add(STORE.partition(":")[0])
    world.clock.forward(60.0)
    await world.reconcile(Key(Kind.CLUSTER, NS, "east"))
    reason = "ConfigurationStoreUnavailable" if what == "no store" else "NoData"
    assert await said(world) == ("False", reason) and (await row(world))["desired"] == 4


async def test_writes_that_take_long_add_one_where_that_is_asked_for() -> None:
    world = await scaling(3, 60.0, targets=TIMED)
    pages = await latency(world, "8.0")
    await looks(world, 2)
    assert await said(world) == ("True", "WithinTarget"), await why(world)
    told = {each["name"]: each.get("value") for each in (await row(world))["inputs"]}
    assert told["writeLatencyMilliseconds"] == "8"
    assert len(pages) == 3
    await latency(world, "35.5")
    for _ in range(14):
        await looks(world, 1)
        await latency(world, "35.5")
    assert await world.replicas() == 4


async def test_without_writes_nobody_waits_and_without_a_page_nothing_is_known() -> None:
    world = await scaling(3, 60.0, targets=TIMED)
    await latency(world, "NaN")
    await looks(world, 2)
    assert (await said(world))[1] in ("WithinTarget", "Stabilizing"), await why(world)
    world.counters.pages.clear()
    await looks(world, 5)
    assert await said(world) == ("False", "NoData") and "are" in await why(world)


async def latency(world: LedgerWorld, value: str) -> dict[str, str | int]:
    """Pages of metrics of all bookies that are up."""
    for pod in await world.backstage.all(PODS):
        if pod["metadata"]["name"].startswith(f"{WORKLOAD}-") and (pod.get("status") or {}).get("podIP"):
            labels = 'success="true",quantile="0.99", threadPool="ForceWriteThread",thread="0"'
            page = f"bookkeeper_server_ADD_ENTRY{{{labels}}} {value}\n"
            page += 'bookkeeper_server_ADD_ENTRY_count{success="true", threadPool="ForceWriteThread",thread="0"} 313\n'
            world.counters.pages[f"http://{pod['status']['podIP']}:8000/metrics"] = page
    return world.counters.pages


async def test_removed_it_leaves_the_number_until_replicas_changes() -> None:
    world = await scaling(3, 60.0)
    fill(world, {0: 91.0, 1: 70.0, 2: 70.0})
    await looks(world, 1)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].pop("autoscaling"))
    world.restart()
    await looks(world, 12, every=SPARSE)
    assert await world.replicas() == 4 and (await said(world))[0] == "absent"
    await world.resize(2)
    await world.settle()
    assert await world.replicas() == 2 and "autoscaling" not in await world.status(Kind.CLUSTER, "east")


async def test_limits_count_at_once_and_none_is_below_the_quorums() -> None:
    world = await scaling(4, 30.0, hours=5, behavior=SOON, least=4)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(autoscaling=limits(1, 1)))
    await looks(world, 4, every=SPARSE)
    await world.settle()
    await at_rest(world, 3), "quorums of four bookies are 3/3/2"
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(autoscaling=limits(5, 6)))
    await looks(world, 1)
    await at_rest(world, 5)


async def test_by_hand_the_workload_is_put_back() -> None:
    world = await scaling(3, 60.0)
    await world.backstage.edit(STATEFUL_SETS, NS, WORKLOAD, lambda there: there["spec"].update(replicas=5))
    await world.settle()
    await looks(world, 3, every=SPARSE)
    await at_rest(world, 3)


async def test_a_fresh_cluster_begins_within_its_limits() -> None:
    world = LedgerWorld.empty()
    manifests: list[Json] = quickstart()
    manifests[1]["spec"]["bookkeeper"] |= {"replicas": 1, "autoscaling": limits(3, 5)}
    await world.apply(*manifests)
    await world.run()
    assert await world.replicas() == 3 and await world.all_ready() == {}


async def test_at_rest_the_status_is_written_every_five_minutes_and_no_more() -> None:
    world = await scaling(3, 60.0)
    mark, begun = len(world.journal.attempts), world.clock.now()
    for number in range(30):
        fill(world, 60.0 + 0.1 * (number % 5), 3)
        await looks(world, 1)
    writes = [str(call) for call in world.journal.attempts[mark:]]
    most = (world.clock.now() - begun).total_seconds() / 300 + 2
    assert 2 <= len(writes) <= most and all("status" in each for each in writes), writes
