"""A bookie that comes with a smaller volume than its siblings have is told of, before its claim is made and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.decommission.volume_sizes import new_claims, smaller_claims
from pulsar_operator.ports import PVCS, Json
from tests.support.cluster.leaving_bookies import world
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, claims
from tests.support.cluster.world import NS

__all__ = ["world"]


def of_size(size: str) -> Callable[[Json], Any]:
    return lambda obj: obj["spec"]["resources"]["requests"].update(storage=size)


async def ledgers_grow(world: LedgerWorld, *ordinals: int, size: str = "100Gi") -> None:
    """Somebody expands the ledger volumes."""
    for ordinal in ordinals:
        (name,) = [each for each in claims(ordinal) if each.startswith("ledgers-")]
        await world.backstage.edit(PVCS, NS, name, of_size(size))


async def bookkeeper(world: LedgerWorld) -> Json:
    conditions = (await world.status(Kind.CLUSTER, "east"))["conditions"]
    return next(each for each in conditions if each["type"] == "BookKeeperReady")  # type: ignore[no-any-return]


def told(world: LedgerWorld) -> list[str]:
    return [event.message for event in world.journal.events if event.reason == "SmallerVolume"]


async def test_a_bookie_that_is_added_beside_expanded_ones(world: LedgerWorld) -> None:
    await ledgers_grow(world, 0, 1, 2)
    await world.run()
    assert told(world) == [] and "differ in size" not in (await bookkeeper(world))["message"]
    await world.resize(4)
    await world.run()
    (event,) = told(world)
    size = (await world.get(PVCS, f"ledgers-0-{WORKLOAD}-3"))["spec"]["resources"]["requests"]["storage"]
    assert f"PersistentVolumeClaim ledgers-0-{WORKLOAD}-3 of {size}" in event and "100Gi" in event
    said = await bookkeeper(world)
    assert said["status"] == "True"
    assert f"ledgers-0-{WORKLOAD}-3 ({size}) and ledgers-0-{WORKLOAD}-0 (100Gi)" in said["message"]
    await ledgers_grow(world, 3)
    await world.run()
    assert "differ in size" not in (await bookkeeper(world))["message"]


async def test_equal_sizes_are_not_told_of(world: LedgerWorld) -> None:
    await world.resize(4)
    await world.run()
    assert told(world) == [] and "differ in size" not in (await bookkeeper(world))["message"]


def claim(name: str, size: str | None, **meta: Any) -> Json:
    requests = {"storage": size} if size is not None else {}
    return {"metadata": {"name": name, **meta}, "spec": {"resources": {"requests": requests}}}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ([claim("l-0-b-0", "2Gi"), claim("l-0-b-1", "2048Mi")], None),
        ([claim("l-0-b-0", "2Gi"), claim("j-0-b-0", "1Gi")], None),
        ([claim("l-0-b-0", "2Gi"), claim("l-0-b-1", None)], None),
        ([claim("l-0-b-0", "2Gi"), claim("l-0-b-9", "1Gi")], None),
        ([claim("l-0-b-0", "2Gi"), claim("l-0-other-1", "1Gi")], None),
        ([claim("l-0-b-0", "2Gi"), claim("l-0-b-1", "1Gi", deletionTimestamp="x")], None),
        ([claim("l-0-b-0", "2Gi"), claim("l-0-b-1", "1Gi")], "l-0-b-1 (1Gi) and l-0-b-0 (2Gi)"),
        (
            [claim("l-0-b-0", "9Gi"), *(claim(f"l-0-b-{n}", "1Gi") for n in range(1, 6))],
            "l-0-b-1 (1Gi), l-0-b-2 (1Gi), l-0-b-3 (1Gi) and 2 others and l-0-b-0 (9Gi)",
        ),
    ],
)
def test_claims_are_compared_with_those_of_the_same_template(there: list[Json], said: str | None) -> None:
    found = smaller_claims(there, "b", 8)
    assert said in found if said is not None and found is not None else found is None and said is None


def test_a_bookie_that_comes_back_to_its_claims_gets_no_new_ones() -> None:
    templates = [claim("l-0", "1Gi")]
    there = [claim("l-0-b-0", "2Gi"), claim("l-0-b-2", "1Gi")]
    (text,) = new_claims(templates, there, "b", [1, 2])
    assert text.startswith("Bookie 1 gets PersistentVolumeClaim l-0-b-1 of 1Gi, but l-0-b-0 has 2Gi")
    assert new_claims(templates, [], "b", [0]) == []
