"""Bookies that follow what they store, in memory and virtual time: added at once or after a window, and removed by the
way every bookie leaves."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Kind
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, ledger_path, under_replicated_path
from pulsar_operator.ports import PODS, PVCS, STATEFUL_SETS, DiskInfo, Json, Key
from tests.support.cluster.ledgers import STORE, WORKLOAD, LedgerWorld, bookie, host
from tests.support.cluster.scaling_bookies import (
    DAY_OF_LOOKS,
    GIB,
    HOUR,
    SOON,
    SPARSE,
    events,
    fill,
    limits,
    looks,
    row,
    said,
    scaling,
    why,
)
from tests.support.cluster.workloads import is_ready
from tests.support.cluster.world import NS, quickstart

TIMED = {"writeLatencyMilliseconds": 20}


async def at_rest(world: LedgerWorld, number: int) -> None:
    """So many bookies, all up, no copy lost, and nothing is under way."""
    found = await row(world)
    assert await world.replicas() == found["desired"] == found["current"] == number, found
    assert await world.all_ready() == {} and world.lost() == [] and MEMO_PATH not in world.store.nodes
    assert {bookie(n) for n in range(number)} <= set(world.store.children(AVAILABLE))


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
    """40 % now, 3 % an hour: full within a day."""
    world = await scaling(3, 40.0, hours=1)
    for hour in range(7):
        fill(world, 43.0 + 3 * hour, 3)
        await looks(world, int(HOUR / SPARSE), every=SPARSE)
    assert await world.replicas() > 3 and "90% full in" in await why(world)
    assert len((await row(world))["history"]["stored"]) >= 4


async def test_what_is_deleted_lets_one_leave_after_a_day() -> None:
    """With the defaults, through all steps to the end; of four that are 30 % full three are 40 %, and two 60 %."""
    world = await scaling(4, 55.0, hours=5)
    assert await said(world) == ("True", "WithinTarget")
    fill(world, 30.0, 4)
    await looks(world, int(DAY_OF_LOOKS * 0.9), every=SPARSE)
    await at_rest(world, 4)
    assert await said(world) == ("False", "Stabilizing")
    steps: list[str | None] = []

    async def look() -> None:
        steps.append(((await world.row(3)) or {}).get("step"))

    await looks(world, int(DAY_OF_LOOKS * 0.2), every=SPARSE, each=look)
    await at_rest(world, 3)
    order = ["ReadOnly", "Unloading", "Copying", "Verifying", "Stopping", "Forgetting"]
    assert [each for each in dict.fromkeys(steps) if each] == order
    assert len(events(world, "ScaledIn")) == 1 and f"Bookie {bookie(3)} is removed" in events(world, "BookieRemoved")
    assert any("autoscaling wants 3" in each for each in events(world, "BookieLeaving"))
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)


@pytest.mark.parametrize(("full", "words"), [(46.0, "WithinTarget"), ({0: 80.0, 1: 5.0, 2: 5.0, 3: 5.0}, "one is 80%")])
async def test_none_leaves_that_does_not_fit(full: Any, words: str) -> None:
    world = await scaling(4, 55.0, hours=5, behavior=SOON)
    fill(world, full, 4)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 4)
    assert words in f"{await said(world)} {await why(world)}"


async def test_none_leaves_before_growth_is_known() -> None:
    """A new operator reads it from the status; where that is lost it learns anew."""
    world = await scaling(4, 30.0, behavior=SOON)
    await looks(world, 12, every=SPARSE)
    assert await world.replicas() == 4 and "is not known yet" in await why(world)
    for _ in range(36):
        world.restart()
        await looks(world, 1, every=SPARSE)
    await at_rest(world, 3)


async def to_leave() -> LedgerWorld:
    """Four bookies of which one may leave within the hour: they were emptied a moment ago."""
    world = await scaling(4, 55.0, hours=5, behavior=SOON)
    fill(world, 30.0, 4)
    return world


async def until(world: LedgerWorld, reason: str, *, most: int = 24) -> None:
    """Looks until there is an event of a reason."""
    for _ in range(most):
        if events(world, reason):
            return
        await looks(world, 1, every=SPARSE)
    raise AssertionError(f"no {reason}: {await why(world)}")


async def test_one_that_may_not_leave_is_put_back_and_tried_again_a_day_later() -> None:
    world = await to_leave()
    wide = world.ledger(state="CLOSED", size=4).ledger
    await until(world, "DecommissionRefused")
    assert "takes 4 bookies" in events(world, "DecommissionRefused")[0]
    await at_rest(world, 4)
    for _ in range(24):
        world.restart()
        await looks(world, 1, every=SPARSE)
    await at_rest(world, 4)
    assert await said(world) == ("False", "DecommissionRefused") and "none is tried for a day" in await why(world)
    assert (await world.progressing())[:2] == ("False", "Ready")
    assert [len(events(world, each)) for each in ("ScaledIn", "DecommissionRefused", "BookieLeaving")] == [1, 1, 0]
    world.clock.forward(22 * HOUR)
    await looks(world, 12, every=SPARSE)
    assert [len(events(world, each)) for each in ("ScaledIn", "DecommissionRefused")] == [2, 2], "once a day"
    world.store.remove(ledger_path(wide))
    await looks(world, 24, every=SPARSE)
    await at_rest(world, 4)
    world.clock.forward(22 * HOUR)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)


async def test_a_change_of_the_specification_is_another_attempt() -> None:
    world = await to_leave()
    wide = world.ledger(state="CLOSED", size=4).ledger
    await until(world, "DecommissionRefused")
    world.store.remove(ledger_path(wide))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"]["autoscaling"].update(maxReplicas=6))
    await looks(world, 10, every=SPARSE)
    await at_rest(world, 3)


async def test_one_that_is_not_empty_in_time_is_put_back_and_not_tried_by_time_alone() -> None:
    world = await to_leave()
    world.copies = False
    await until(world, "ScaledIn")
    assert (await row(world))["desired"] == 3 and await said(world) == ("False", "BookieLeaving")
    await until(world, "DecommissionStuck")
    assert len(events(world, "DecommissionStuck")) == 2, "of the bookie, and of the number"
    world.copies = True
    await world.settle()
    await at_rest(world, 4)
    world.clock.forward(30 * HOUR)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 4)
    assert await said(world) == ("False", "DecommissionStuck") and len(events(world, "ScaledIn")) == 1
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"]["autoscaling"].update(maxReplicas=6))
    await looks(world, 30, every=SPARSE)  # growth is to be known again
    await at_rest(world, 3)


async def leaves(world: LedgerWorld, step: str) -> None:
    """One is at a step of its way out."""
    await until(world, "ScaledIn")

    async def there() -> bool:
        return ((await world.row(3)) or {}).get("step") == step

    await world.until(there)


@pytest.mark.parametrize("step", ["ReadOnly", "Unloading", "Copying", "Verifying", "Stopping", "Forgetting"])
async def test_an_operator_that_starts_anew_goes_on(step: str) -> None:
    world = await to_leave()
    world.copies = step != "Copying"
    await until_begun(world)
    await leaves(world, step)
    world.restart()
    world.copies = True
    await world.settle()
    await looks(world, 3, every=SPARSE)
    await at_rest(world, 3)
    assert len(events(world, "ScaledIn")) == 1


async def until_begun(world: LedgerWorld) -> None:
    """The decision, and no pass after it."""
    for _ in range(24):
        if (await row(world))["desired"] == 3:
            return
        world.clock.forward(SPARSE)
        await world.round()
    raise AssertionError(await why(world))


async def test_an_operator_that_was_away_for_long_lets_it_stay() -> None:
    """What was decided does not count any more; the load decides anew."""
    world = await to_leave()
    world.copies = False
    await until_begun(world)
    await leaves(world, "Copying")
    world.clock.forward(2 * HOUR)
    world.restart()
    world.copies = True
    await world.settle()
    await at_rest(world, 4)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)


async def test_a_disk_that_fills_while_one_leaves_keeps_it() -> None:
    world = await to_leave()
    world.copies = False
    await until_begun(world)
    await leaves(world, "Copying")
    fill(world, {0: 91.0, 1: 70.0, 2: 70.0})
    world.bookies.failing.add(host(3))
    await looks(world, 2)
    assert (await row(world))["desired"] >= 4, "how full the one is that leaves does not matter"
    world.bookies.failing.clear()
    world.copies = True
    await world.settle()
    await looks(world, 5)
    number = await world.replicas()
    await at_rest(world, number)
    assert number in (4, 5)


async def test_a_full_disk_adds_one_while_copies_are_missing() -> None:
    """They are made where there is room."""
    world = await scaling(3, 60.0)
    ledger = world.ledger(state="CLOSED").ledger
    world.store.put(under_replicated_path(ledger))
    fill(world, 84.0, 3)
    await looks(world, 15)
    assert await world.replicas() == 3 and await said(world) == ("False", "UnderReplicated")
    fill(world, 91.0, 1)
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


async def test_a_full_disk_adds_one_while_the_configuration_store_is_away() -> None:
    """That of the instance, which bookies do not need. What is not urgent waits for it."""
    manifests: list[Json] = quickstart()
    manifests[0]["spec"]["configurationStore"] = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}
    manifests[1]["spec"]["bookkeeper"] |= {"replicas": 3, "autoscaling": limits()}
    world = LedgerWorld.empty()
    fill(world, 60.0, 3)
    await world.apply(*manifests)
    await world.run()
    world.unreachable.add(f"demo-configuration-store.{NS}.svc.cluster.local")
    fill(world, 84.0, 3)
    await looks(world, 15)
    assert await world.replicas() == 3 and await said(world) == ("False", "ConfigurationStoreAway")
    fill(world, 91.0, 1)
    await looks(world, 2)
    assert await world.replicas() == 4 and world.dataplane is not None
    pods = {pod["metadata"]["name"] for pod in await world.backstage.all(PODS) if is_ready(pod)}
    assert f"{WORKLOAD}-3" in pods


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
    assert "Scale bookies from 3 to 4 (status.autoscaling says why)" in pending


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
    reason = "ConfigurationStoreAway" if what == "no store" else "NoData"
    assert await said(world) == ("False", reason) and (await row(world))["desired"] == 4


async def test_one_that_lost_its_volume_or_gets_another_keeps_the_number() -> None:
    world = await to_leave()
    world.copies = False
    asked = {ANNOTATION_REPLACE_VOLUME: "slow disk"}
    await world.backstage.edit(PODS, NS, f"{WORKLOAD}-1", lambda pod: pod["metadata"].update(annotations=asked))
    await world.settle()
    await looks(world, 2)
    assert await said(world) == ("False", "ReplacingVolume") and await world.replicas() == 4


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


@pytest.mark.parametrize("step", ["ReadOnly", "Copying"])
async def test_a_minimum_that_is_raised_keeps_the_one_that_leaves(step: str) -> None:
    world = await to_leave()
    world.copies = False
    await until_begun(world)
    await leaves(world, step)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"]["autoscaling"].update(minReplicas=4))
    await looks(world, 2)
    world.copies = True
    await world.settle()
    await at_rest(world, 4)
    assert events(world, "BookieRemoved") == []


async def test_one_disk_that_is_larger_is_no_room_on_the_others() -> None:
    """All together are 2 % full; the third would leave 90 % on the second."""
    world = await scaling(3, 60.0, hours=5, behavior=SOON)
    world.bookies.disks[host(0)] = DiskInfo(90 * 100 * GIB, 90 * 100 * GIB)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)
    assert "what is stored needs 3" in await why(world)


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
