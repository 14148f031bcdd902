"""What an adversarial review of incarnations, clocks and refused specifications did. In memory."""

from __future__ import annotations

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH, parse_leaving_memo
from pulsar_operator.ports import PODS
from tests.support.cluster.leaving_bookies import well
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, host
from tests.support.cluster.world import NS


async def annotate(world: LedgerWorld, ordinal: int) -> None:
    def change(obj: dict) -> None:  # type: ignore[type-arg]
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = "a test"

    await world.backstage.edit(PODS, NS, f"{WORKLOAD}-{ordinal}", change)


async def discarded(world: LedgerWorld) -> None:
    """Rounds until claims are deleted and the pod is still there."""

    async def there() -> bool:
        node = world.store.nodes.get(MEMO_PATH)
        memo = parse_leaving_memo(node.data) if node is not None else None
        return memo is not None and memo.renewal is not None and bool(memo.renewal.claims)

    await world.until(there, rounds=200)


async def test_a_bookie_whose_claims_are_deleted_takes_no_entries_while_the_specification_is_refused() -> None:
    """They would be gone with its pod, whenever that ends."""
    world = await LedgerWorld.up(5, closed=3)
    await annotate(world, 4)
    await discarded(world)
    assert world.bookies.servers[host(4)].readonly, "nothing would be proved"
    await world.resize(2)  # 3 is the ensemble size on record
    await world.settle(30)
    assert (await world.progressing())[1] == "InvalidSpec"
    assert world.bookies.servers[host(4)].readonly, "four others take entries"
    await world.resize(5)
    await world.settle(300)
    await well(world, 5)
