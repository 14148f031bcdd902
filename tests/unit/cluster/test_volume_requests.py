"""A request for a new volume whose pod is replaced before it begins: it goes on, once, and can be taken back."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_PAUSE, ANNOTATION_REPLACE_VOLUME, ANNOTATION_VOLUME_REQUESTED, Kind
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.domain.dataplane.decommission.volume_requests import (
    VolumeRequest,
    goes_on,
    parse_request,
    request_now,
)
from pulsar_operator.ports import PODS, PVCS, Json
from tests.support.cluster.leaving_bookies import well, world
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, claims
from tests.support.cluster.world import NS

__all__ = ["world"]

POD, WIDE = f"{WORKLOAD}-2", "/admin/policies/shop/wide"


async def annotate(world: LedgerWorld, value: str | None) -> None:
    """Somebody annotates the pod."""

    def change(obj: Json) -> None:
        found = obj["metadata"].setdefault("annotations", {})
        found.pop(ANNOTATION_REPLACE_VOLUME, None)
        if value is not None:
            found[ANNOTATION_REPLACE_VOLUME] = value

    await world.backstage.edit(PODS, NS, POD, change)


async def kept(world: LedgerWorld) -> list[VolumeRequest | None]:
    """The request at each claim of the bookie."""
    found = [(await world.get(PVCS, each))["metadata"].get("annotations") or {} for each in claims(2)]
    return [parse_request(each.get(ANNOTATION_VOLUME_REQUESTED)) for each in found]


def told(world: LedgerWorld) -> list[str]:
    return [event.message for event in world.journal.events if "was replaced before its volume" in event.message]


async def waits(world: LedgerWorld) -> None:
    """A policy keeps what is asked for from beginning, and a node drain takes the pod meanwhile."""
    world.store.put(WIDE, '{"persistence": {"bookkeeperEnsemble": 3}}')
    await annotate(world, "SMART errors")
    await world.run(rounds=50)
    assert DECOMMISSION_RECORD_PATH not in world.store.nodes
    uid = (await world.get(PODS, POD))["metadata"]["uid"]
    of = [(await world.get(PVCS, claim))["metadata"]["uid"] for claim in claims(2)]
    assert await kept(world) == [VolumeRequest("SMART errors", uid, claim=each) for each in of] and told(world) == []
    await world.backstage.remove(PODS, NS, POD)
    await world.run(rounds=50)
    assert (await world.get(PODS, POD))["metadata"]["uid"] != uid


async def goes_ahead(world: LedgerWorld) -> None:
    del world.store.nodes[WIDE]
    await world.run(rounds=300)
    await well(world)


async def test_it_goes_on_with_the_next_pod_and_is_done_once(world: LedgerWorld) -> None:
    before = world.volume(bookie(2))
    await waits(world)
    (text,) = told(world)
    assert "SMART errors" in text and f"{ANNOTATION_REPLACE_VOLUME}=false" in text
    world.restart()
    await goes_ahead(world)
    after = world.volume(bookie(2))
    assert after != before and await kept(world) == [None, None]
    await world.backstage.remove(PODS, NS, POD)
    await world.run(rounds=100)
    await well(world)
    assert world.volume(bookie(2)) == after and len(told(world)) == 1


async def test_it_is_taken_back_at_the_next_pod(world: LedgerWorld) -> None:
    before = world.volume(bookie(2))
    await waits(world)
    await annotate(world, "false")
    await world.run(rounds=50)
    assert await kept(world) == [None, None]
    await annotate(world, None)
    await goes_ahead(world)
    assert world.volume(bookie(2)) == before


async def test_taken_off_its_own_pod_it_is_taken_back(world: LedgerWorld) -> None:
    before = world.volume(bookie(2))
    world.store.put(WIDE, '{"persistence": {"bookkeeperEnsemble": 3}}')
    await annotate(world, "SMART errors")
    await world.run(rounds=50)
    await annotate(world, None)
    await world.run(rounds=50)
    assert await kept(world) == [None, None]
    await goes_ahead(world)
    assert world.volume(bookie(2)) == before


async def test_while_the_cluster_is_paused_nothing_is_kept(world: LedgerWorld) -> None:
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_PAUSE, "true")
    await world.run(rounds=50)
    await annotate(world, "SMART errors")
    await world.run(rounds=50)
    assert await kept(world) == [None, None]


@pytest.mark.parametrize(
    ("annotation", "pod", "before", "after"),
    [
        (None, "new", None, None),
        ("disk", "a", None, VolumeRequest("disk", "a")),
        ("", "a", None, VolumeRequest("no reason was given", "a")),
        ("x" * 300, "a", None, VolumeRequest("x" * 200, "a")),
        ("false", "a", VolumeRequest("disk", "a"), None),
        ("false", "new", VolumeRequest("disk", "a"), None),
        (None, "a", VolumeRequest("disk", "a"), None),
        (None, "new", VolumeRequest("disk", "a"), VolumeRequest("disk", "a")),
        (None, "new", VolumeRequest("disk", "a", "new"), VolumeRequest("disk", "a", "new")),
        (None, "", VolumeRequest("disk", "a"), VolumeRequest("disk", "a")),
        ("other", "a", VolumeRequest("disk", "a"), VolumeRequest("other", "a")),
        ("disk", "new", VolumeRequest("disk", "a", "new"), VolumeRequest("disk", "new")),
        ("disk", "a", VolumeRequest("disk", "a", ""), VolumeRequest("disk", "a")),
    ],
)
def test_what_is_kept(
    annotation: str | None, pod: str, before: VolumeRequest | None, after: VolumeRequest | None
) -> None:
    assert request_now(annotation, pod, before) == after
    if after is not None:
        assert parse_request(after.text()) == after


def test_who_is_told_that_it_goes_on() -> None:
    request = VolumeRequest("disk", "a")
    assert [goes_on(request, pod) for pod in ("", "a", "new")] == [False, False, True]
    assert not goes_on(VolumeRequest("disk", "a", "new"), "new")


@pytest.mark.parametrize("text", [None, "", "null", "[]", "{", '{"why": "x"}', '"x"'])
def test_what_cannot_be_read_is_no_request(text: str | None) -> None:
    assert parse_request(text) is None


async def test_a_request_that_an_older_operator_kept_is_done(world: LedgerWorld) -> None:
    """It names no claim."""
    volume = world.volume(world.id(2))
    await waits(world)

    def older(obj: Json) -> None:
        annotations = obj["metadata"]["annotations"]
        found = json.loads(annotations[ANNOTATION_VOLUME_REQUESTED])
        del found["claim"]
        annotations[ANNOTATION_VOLUME_REQUESTED] = json.dumps(found)

    for claim in claims(2):
        await world.backstage.edit(PVCS, NS, claim, older)
    await goes_ahead(world)
    assert world.volume(world.id(2)) != volume
