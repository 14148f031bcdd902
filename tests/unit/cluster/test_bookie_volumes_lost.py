"""A bookie stays and gets a new volume: its own was lost, or somebody wants another. In memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, ANNOTATION_REPLACE_VOLUME, API_VERSION, Kind
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, COOKIES
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.domain.dataplane.decommission.volume_record import VOLUMES_PATH, parse_volumes
from pulsar_operator.ports import CUSTOM, PODS, PVCS
from tests.support.cluster.copies import made_once
from tests.support.cluster.leaving_bookies import HOUR, STEPS, TWO, confirm, copying, entry_asked_for, lose, well, world
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, claims, cookie
from tests.support.cluster.world import NS

__all__ = ["world"]

POD = f"{WORKLOAD}-2"
CLAIMS, COOKIE = claims(2), cookie(2)
PAST, LATER = "2020-01-01T00:00:00Z", "2126-01-01T00:00:00Z"


async def annotate(world: LedgerWorld, value: str | None) -> None:
    """Somebody annotates the pod."""

    def change(obj: dict) -> None:  # type: ignore[type-arg]
        found = obj["metadata"].setdefault("annotations", {})
        found.pop(ANNOTATION_REPLACE_VOLUME, None)
        if value is not None:
            found[ANNOTATION_REPLACE_VOLUME] = value

    await world.backstage.edit(PODS, NS, POD, change)


async def test_the_volumes_of_bookies_are_on_record(world: LedgerWorld) -> None:
    await world.run()
    found = parse_volumes(world.store.nodes[VOLUMES_PATH].data)
    assert found.keys() == {bookie(n) for n in range(3)}
    for claim in CLAIMS:
        obj = await world.get(PVCS, claim)
        there = found[bookie(2)][claim]
        assert (there.claim, there.name) == (obj["metadata"]["uid"], obj["spec"]["volumeName"])


@pytest.mark.parametrize("claims", [CLAIMS, CLAIMS[:1], CLAIMS[1:]])
async def test_a_lost_volume_gets_its_copies_from_others_and_the_bookie_starts_anew(
    world: LedgerWorld, claims: tuple[str, ...]
) -> None:
    before, seen = world.volume(bookie(2)), []
    named = set(world.naming(2))
    await lose(world, 2, *claims)

    async def look() -> None:
        seen.append(((await world.row(2)) or {}).get("step"))

    await world.run(rounds=200, each=look)
    await well(world)
    assert COOKIE not in world.store.nodes and world.id(2) != bookie(2), "it is another one, for whoever had a handle"
    assert world.volume(bookie(2)) != before
    assert not named & set(world.naming(2)), "all that was there is elsewhere now"
    assert [each for each in dict.fromkeys(seen) if each][-2:] == ["Stopping", "Forgetting"]
    told = [event for event in world.journal.events if event.reason == "VolumeLost"]
    assert len(told) == 1 and claims[0] in told[0].message
    assert not [event for event in world.journal.events if event.reason == "ForeignVolume"]


async def test_what_is_nowhere_else_is_named_and_waits_for_a_confirmation(world: LedgerWorld) -> None:
    only = world.ledger(state="CLOSED", on=(bookie(2),))
    await lose(world, 2, *CLAIMS)
    await world.run(rounds=200)
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "VolumeLost")
    assert f"1 ledgers have entries on no other bookie: {only.ledger}." in text
    assert world.naming(2) == [only.ledger], "the others have their copies"
    assert COOKIE in world.store.nodes
    uids = {claim: (await world.get(PVCS, claim))["metadata"]["uid"] for claim in CLAIMS}

    for other in ({"bookie": 1}, {"answers": None}, {"answers": "2026-01-01T00:00:00Z/1"}, {"expiresTime": PAST}):
        await confirm(world, **other)
        await world.run(rounds=50)
        status, reason, text = await world.progressing()
        assert (status, reason) == ("False", "VolumeLost"), f"{other} is no answer"
        assert "The existing confirmation LoseLedgers is not used, because it" in text, (other, text)
    pasted = await confirm(world)
    await world.run(rounds=200)
    assert (await world.progressing())[:2] == ("False", "Ready")
    for claim in CLAIMS:
        assert (await world.get(PVCS, claim))["metadata"]["uid"] != uids[claim]
    (used,) = (await world.status(Kind.CLUSTER, "east"))["usedConfirmations"]
    assert {key: used[key] for key in pasted} == pasted


@made_once
async def answered_once() -> LedgerWorld:
    """A loss was confirmed, and the bookie is back; the confirmation is still in the specification."""
    world = await LedgerWorld.up(3, closed=3)
    world.ledger(state="CLOSED", on=(bookie(2),))
    await lose(world, 2, *CLAIMS)
    await world.run(rounds=200)
    await confirm(world, expiresTime=LATER)
    await world.run(rounds=200)
    assert (await world.progressing())[:2] == ("False", "Ready")
    return world


async def nothing(world: LedgerWorld) -> None:
    """The object stays as it is."""


async def status_lost(world: LedgerWorld) -> None:
    """A backup without status is restored."""
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj.pop("status", None))


async def made_again(world: LedgerWorld) -> None:
    """The object is deleted with Retain, and applied again from Git with its confirmation."""
    spec = (await world.get(Kind.CLUSTER, "east"))["spec"]
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_CONFIRM_DELETE, "east")
    await world.delete(Kind.CLUSTER, "east")
    await world.run(rounds=200)
    assert await world.live(Kind.CLUSTER, "east") is None
    await world.apply(
        {
            "apiVersion": API_VERSION,
            "kind": Kind.CLUSTER.value,
            "metadata": {"name": "east", "namespace": NS},
            "spec": spec,
        }
    )
    await world.run(rounds=200)


@pytest.mark.parametrize("between", [nothing, status_lost, made_again])
async def test_a_confirmation_does_not_answer_the_next_loss_of_that_bookie(
    between: Callable[[LedgerWorld], Awaitable[None]],
) -> None:
    world = await answered_once()
    await between(world)
    world.clock.forward(60)
    again, cookie = world.ledger(state="CLOSED", on=(world.id(2),)), f"{COOKIES}/{world.id(2)}"
    await lose(world, 2, *CLAIMS)
    await world.run(rounds=200)
    assert (await world.progressing())[1] == "VolumeLost", await world.progressing()
    assert again.ledger in world.naming(2) and cookie in world.store.nodes
    await confirm(world, expiresTime=LATER)
    await world.run(rounds=200)
    assert (await world.progressing())[:2] == ("False", "Ready")


async def test_a_confirmation_does_not_answer_for_more_ledgers_than_it_names(world: LedgerWorld) -> None:
    world.ledger(state="CLOSED", on=(bookie(2),))
    await lose(world, 2, *CLAIMS)
    await world.run(rounds=200)
    entry = await entry_asked_for(world)
    more = world.ledger(state="CLOSED", on=(bookie(2),))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(confirmations=[entry]))
    await world.run(rounds=200)
    assert (await world.progressing())[1] == "VolumeLost" and more.ledger in world.naming(2)
    await confirm(world)
    await world.run(rounds=200)
    assert (await world.progressing())[:2] == ("False", "Ready")


async def test_a_volume_that_is_asked_for(world: LedgerWorld) -> None:
    """The disk fails, and is up still."""
    before, seen = world.volume(bookie(2)), []
    await annotate(world, "SMART errors")

    async def look() -> None:
        seen.append(((await world.row(2)) or {}).get("step"))

    await world.run(rounds=200, each=look)
    await well(world)
    assert world.volume(bookie(2)) != before
    assert [each for each in dict.fromkeys(seen) if each] == STEPS
    assert any("SMART errors" in event.message for event in world.journal.events if event.reason == "ReplacingVolume")


@pytest.mark.parametrize("value", [None, "false"])
@pytest.mark.parametrize("step", ["ReadOnly", "Unloading", "Copying", "Verifying"])
async def test_taken_back_it_keeps_its_volume(world: LedgerWorld, step: str, value: str | None) -> None:
    before = world.volume(bookie(2))
    await annotate(world, "a test")
    await world.at(step)
    await annotate(world, value)
    await world.run(rounds=200)
    await well(world)
    assert world.volume(bookie(2)) == before


async def test_its_pod_may_be_evicted_meanwhile(world: LedgerWorld) -> None:
    before = world.volume(bookie(2))
    world.copies = False
    await annotate(world, "a test")
    await world.at("Copying")
    await world.backstage.remove(PODS, NS, POD)
    for _ in range(4):
        await world.round()
    world.copies = True
    await world.run(rounds=300)
    await well(world)
    assert world.volume(bookie(2)) != before


async def test_a_bookie_that_comes_back_with_its_volume_is_left_alone(world: LedgerWorld) -> None:
    """A claim was made anew for the volume that it had."""
    obj = await world.get(PVCS, CLAIMS[0])
    world.copies = False
    await lose(world, 2, *CLAIMS)
    await world.at("Copying")
    assert obj["metadata"]["uid"] != (await world.get(PVCS, CLAIMS[0]))["metadata"]["uid"]
    kept = {}
    for claim in CLAIMS:
        kept[claim] = await world.get(PVCS, claim)

    def back(name: str, volume: str):  # type: ignore[no-untyped-def]
        def change(found: dict) -> None:  # type: ignore[type-arg]
            found["spec"]["volumeName"] = volume
            found["metadata"].setdefault("annotations", {})["tests.example.com/cookie"] = obj["metadata"][
                "annotations"
            ]["tests.example.com/cookie"]

        return change

    known = parse_volumes(world.store.nodes[VOLUMES_PATH].data)[bookie(2)]
    for claim in CLAIMS:
        await world.backstage.edit(PVCS, NS, claim, back(claim, known[claim].name))
    world.copies = True
    await world.run(rounds=200)
    assert (await world.progressing())[:2] == ("False", "Ready")
    assert DECOMMISSION_RECORD_PATH not in world.store.nodes
    for claim in CLAIMS:
        assert (await world.get(PVCS, claim))["metadata"]["uid"] == kept[claim]["metadata"]["uid"]


async def test_it_is_refused_where_too_few_bookies_are_left(world: LedgerWorld) -> None:
    world.store.put("/admin/policies/shop/wide", '{"persistence": {"bookkeeperEnsemble": 3}}')
    await annotate(world, "a test")
    await world.run(rounds=50)
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused")
    assert "cannot be given a new volume" in text and "shop/wide" in text


async def test_a_lost_volume_comes_before_a_removal(world: LedgerWorld) -> None:
    await copying(world)
    world.copies = True
    await lose(world, 0)
    await world.run(rounds=400)
    assert world.lost() == [] and (await world.progressing())[:2] == ("False", "Ready")
    assert COOKIE not in world.store.nodes
    reasons = [event.reason for event in world.journal.events]
    assert reasons.index("VolumeReplaced") < reasons.index("BookieDecommissioned")


async def test_one_that_is_to_be_removed_and_lost_its_volume_keeps_nobody_else_from_leaving() -> None:
    """5 to 3 bookies, and number 3 has a new volume: number 4 waits for it to be writable."""
    world = await LedgerWorld.up(5, closed=5, ensemble=TWO)
    await lose(world, 3)
    await world.resize(3)
    await world.run(rounds=500)
    assert (await world.progressing())[:2] == ("False", "Ready"), await world.progressing()
    assert sorted(name for name in world.store.children(COOKIES)) == [bookie(n) for n in range(3)]
    assert world.lost() == []


async def test_a_registration_that_outlives_its_process_is_no_bookie_that_came_up(world: LedgerWorld) -> None:
    """A session ends half a minute after its process was killed; by then the pod is there again, with new claims."""
    await world.run()
    known = world.store.nodes[VOLUMES_PATH].data
    await lose(world, 2, *CLAIMS)
    await world.workloads.step()
    await world.workloads.step()
    assert await world.live(PVCS, CLAIMS[0]) is not None and bookie(2) in world.store.children(AVAILABLE)
    (key,) = [each for each in await world.keys() if each.kind is Kind.CLUSTER]
    await world.reconcile(key)
    assert world.store.nodes[VOLUMES_PATH].data == known
    await world.run(rounds=200)
    await well(world)
    assert [event.reason for event in world.journal.events].count("VolumeLost") == 1


async def test_a_bookie_on_a_copy_of_its_volume_is_told(world: LedgerWorld) -> None:
    """A restored snapshot has the cookie and lacks what came after it."""
    await world.run()

    def change(obj: dict) -> None:  # type: ignore[type-arg]
        obj["spec"]["volumeName"] = "from-a-snapshot"

    await world.backstage.edit(PVCS, NS, CLAIMS[1], change)
    await world.run(rounds=50)
    world.clock.forward(HOUR)
    await world.run(rounds=50)
    told = [event for event in world.journal.events if event.reason == "ForeignVolume"]
    assert len(told) == 1 and "from-a-snapshot" in told[0].message
    await well(world)


async def test_a_record_that_cannot_be_read_is_a_condition_and_stays_as_it_is(world: LedgerWorld) -> None:
    await world.run()
    kept = world.store.nodes[VOLUMES_PATH].data
    world.store.put(VOLUMES_PATH, b"garbage")
    await lose(world, 2)
    for _ in range(10):
        await world.round()
    status, reason, text = await world.condition(Kind.CLUSTER, "east", "Replicated")
    assert (status, reason) == ("Unknown", "Unknown")
    assert f"Znode {VOLUMES_PATH} cannot be read" in text and "Restore the znode from a backup" in text
    assert world.store.nodes[VOLUMES_PATH].data == b"garbage", "what is lost could not be told any more"
    world.store.put(VOLUMES_PATH, kept)
    await world.run(rounds=200)
    await well(world)
    assert [event.reason for event in world.journal.events].count("VolumeLost") == 1
