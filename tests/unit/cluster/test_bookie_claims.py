"""Which PersistentVolumeClaims a pass asks for: those of its own bookies, and no other of the namespace."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import LABEL_OWNER_NAME
from pulsar_operator.ports import PVCS, Json, ResourceType
from tests.fakes.kube import FakeKube
from tests.support.cluster.leaving_bookies import lose, well, world
from tests.support.cluster.ledgers import LedgerWorld, bookie, claims
from tests.support.cluster.world import NS

__all__ = ["world"]


@pytest.fixture
def selectors(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The label selector of each list of claims."""
    found: list[str | None] = []
    listed = FakeKube.list

    async def recorded(
        self: FakeKube, kind: ResourceType, namespace: str | None, *, selector: str | None = None
    ) -> list[Json]:
        if kind is PVCS:
            found.append(selector)
        return await listed(self, kind, namespace, selector=selector)

    monkeypatch.setattr(FakeKube, "list", recorded)
    return found


def unlabelled(obj: Json) -> None:
    obj["metadata"].pop("labels", None)


async def test_a_pass_lists_the_claims_of_its_own_bookies_once(world: LedgerWorld, selectors: list[str | None]) -> None:
    await world.run()
    selectors.clear()
    await world.round()
    assert len(selectors) == 1 and LABEL_OWNER_NAME in (selectors[0] or "")


async def test_no_claim_of_others_is_asked_for_while_a_bookie_is_removed_and_comes_back(
    world: LedgerWorld, selectors: list[str | None]
) -> None:
    await world.resize(2)
    await world.run(rounds=200)
    await world.resize(3)
    await world.run(rounds=200)
    await well(world)
    assert all(LABEL_OWNER_NAME in (each or "") for each in selectors)


async def test_a_volume_that_was_brought_back_without_labels_is_seen(world: LedgerWorld) -> None:
    """A StatefulSet takes a claim by its name alone."""
    for ordinal in range(3):
        for claim in claims(ordinal):
            await world.backstage.edit(PVCS, NS, claim, unlabelled)
    await world.run()
    before = world.volume(bookie(2))
    await lose(world, 2, *claims(2))
    await world.idle_steps(2)
    for claim in claims(2):
        await world.backstage.edit(PVCS, NS, claim, unlabelled)
    await world.run(rounds=200)
    assert [event for event in world.journal.events if event.reason == "VolumeLost"]
    assert world.volume(bookie(2)) != before
    await well(world)
