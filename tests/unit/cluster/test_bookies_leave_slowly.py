"""Bookies whose ledgers take more than one pass to examine: what is said meanwhile, and what it costs. In memory."""

from __future__ import annotations

import re

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Kind
from pulsar_operator.controllers.dataplane.bookkeeper import ledger_count, ledger_scan
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_count import COUNT_PATH
from pulsar_operator.domain.bookkeeper.ledger_scan_record import SCAN_PATH
from pulsar_operator.domain.bookkeeper.znodes import LEDGERS
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PODS, UnavailableError
from tests.support.cluster.leaving_bookies import HOUR, left, lose, well
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie
from tests.support.cluster.world import NS
from tests.support.core.journal import ZOOKEEPER, PortCall

LEDGER = re.compile(rf"{LEDGERS}/[0-9]{{2}}/[0-9]{{4}}/L[0-9]{{4}}")


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass examines ten ledgers."""
    monkeypatch.setattr(ledger_scan, "SLICE", ledger_scan.Slice(10, 1e9))
    monkeypatch.setattr(ledger_count, "SLICE", ledger_count.Slice(10, 1e9))


def reads_of(world: LedgerWorld) -> list[str]:
    found: list[str] = []

    def note(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.verb == "get" and LEDGER.fullmatch(call.name):
            found.append(call.name)

    world.journal.before.append(note)
    return found


async def test_before_a_removal_begins_the_cluster_says_how_far_it_is() -> None:
    world = await LedgerWorld.up(3, closed=60)
    said: list[tuple[str, str, str]] = []

    async def look() -> None:
        said.append(await world.progressing())

    await world.resize(2)
    await world.run(rounds=200, each=look)
    await left(world)
    texts = [text for _, _, text in said]
    examining = [place for place, text in enumerate(texts) if "are being examined" in text]
    waiting = "The ledgers are being examined: 20 of about 64"
    assert f"Bookie {bookie(2)} is to be removed, but this cannot begin yet. {waiting}" in texts
    again = f"Bookie {bookie(2)} is being decommissioned (step Stopping). The ledgers are being examined"
    assert [text for text in texts if text.startswith(again)], "examined once more when its pod is gone"
    between = said[examining[0] : examining[-1]]
    assert all(status == "True" and bookie(2) in text for status, _, text in between), between
    assert SCAN_PATH not in world.store.nodes, "nothing is left behind"


async def test_a_removal_reads_every_ledger_twice() -> None:
    """Two full scans, and what named the bookie a bit more: counted with 400 ledgers, a third of them on it each."""
    world = await LedgerWorld.up(4, closed=400)
    naming, there = len(world.naming(3)), len(world.ledgers())
    reads = reads_of(world)
    await world.resize(3)
    await world.run(rounds=400)
    assert await world.replicas() == 3 and world.naming(3) == []
    each = [reads.count(path) for path in set(reads)]
    full = len(reads) / there
    assert min(each) >= 2, "a ledger was read less than before and after it left"
    assert full <= 2.0 + (naming + 300) / there, f"{full:.2f} scans"


async def test_the_deadline_does_not_wait_for_the_examination() -> None:
    world = await LedgerWorld.up(3, closed=60)
    await world.resize(2)
    await world.at("ReadOnly")
    # The bookie restarts: what was known of it is void.
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-2")
    for _ in range(6):
        await world.round()

    async def examines() -> bool:
        return "are being examined" in (await world.progressing())[2]

    await world.until(examines, rounds=100)
    world.clock.forward(HOUR)
    await world.settle(20)
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "DecommissionStuck")
    assert re.search(r"At that time \d+ of about 64 ledgers had been examined\. The operator retries", text)
    assert bookie(2) in world.store.children(f"{LEDGERS}/available"), "it takes entries again"


async def test_a_store_that_does_not_answer_is_said_before_a_removal_begins() -> None:
    world = await LedgerWorld.up(3, closed=60)

    def fail(call: PortCall) -> None:
        if call.port == ZOOKEEPER and LEDGER.fullmatch(call.name):
            raise UnavailableError("connection loss")

    world.journal.before.append(fail)
    await world.resize(2)
    for _ in range(4):
        await world.round()
    status, reason, text = await world.progressing()
    assert (status, text) == (
        "True",
        "A bookie is to be decommissioned, but the decommission cannot begin. Connection loss",
    ), reason


async def test_a_bookie_gets_a_new_volume() -> None:
    world = await LedgerWorld.up(3, closed=60)
    uid, reads = world.volume(bookie(2)), reads_of(world)

    def annotate(obj: dict[str, dict[str, dict[str, str]]]) -> None:
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = "slow disk"

    await world.backstage.edit(PODS, NS, f"{WORKLOAD}-2", annotate)
    await world.run(rounds=300)
    await well(world)
    assert world.volume(bookie(2)) not in ("", uid) and DECOMMISSION_RECORD_PATH not in world.store.nodes
    assert len(reads) <= 2 * len(world.ledgers()) + len(world.ledgers()) + 200


async def test_a_bookie_that_lost_its_volume() -> None:
    world = await LedgerWorld.up(4, closed=60)
    uid = world.volume(bookie(3))
    await lose(world, 3)
    await world.run(rounds=400)
    assert world.volume(bookie(3)) not in ("", uid)
    assert world.lost() == []


async def test_ledgers_in_too_few_racks_are_counted_over_many_passes() -> None:
    world = await LedgerWorld.up(4, topics=())
    for number in range(35):
        world.ledger(state="CLOSED", on=[bookie(0), bookie(2 if number % 5 else 1)])
    said: list[str] = []

    async def look() -> None:
        said.append((await world.condition(Kind.CLUSTER, "east", "RacksKnown"))[2])

    reads = reads_of(world)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(racks={"byOrdinal": ["a", "b"]}))
    await world.run(rounds=100, each=look)
    assert any(text.endswith(". The ledgers are being examined: 20 of about 35") for text in said), said
    assert "of 35 ledgers have copies in too few racks" in said[-1]
    assert len(reads) == 35 and COUNT_PATH not in world.store.nodes
