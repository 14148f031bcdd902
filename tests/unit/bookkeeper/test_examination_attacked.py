"""What an adversarial review did to the examination of ledgers. In memory."""

from __future__ import annotations

import pytest

from pulsar_operator.controllers.dataplane import ledger_scan
from pulsar_operator.controllers.dataplane.ledger_scan import Slice
from pulsar_operator.domain.bookkeeper.scan import LedgerScan
from pulsar_operator.domain.bookkeeper.scan_record import SCAN_PATH
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.ports import PortError
from tests.unit.bookkeeper.test_ledger_examination import ME, TAKES_NOTHING, B, C, D, Ledgers, filled

GONE = "gone/5"


async def looks(ledgers: Ledgers) -> list[LedgerScan]:
    """What some looks say; an examination may begin again."""
    found = []
    for _ in range(4):
        try:
            found.append(await ledgers.whole(token=GONE, final=True))
        except PortError as error:
            assert "begins again" in str(error)
    return found


async def test_more_unreadable_ledgers_than_are_listed_are_not_forgotten() -> None:
    ledgers = Ledgers()
    for number in range(1100):
        ledgers.garble(number)
    assert (await ledgers.whole(token=GONE, final=True)).undecodable == 1100
    for number in range(1000):
        ledgers.store.remove(ledger_path(number))
    assert [found.clear for found in await looks(ledgers) if found.clear] == [], "100 cannot be read still"


async def test_a_chunk_that_a_slower_operator_writes_after_a_faster_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both go on from the same head; the head of the slower one is refused, its chunk is not."""
    monkeypatch.setattr(ledger_scan, "MARGIN", 10)
    ledgers = filled(300)
    await ledgers.examine(Slice(100, 1e9), token=GONE, final=True)
    before = {path: node.data for path, node in ledgers.store.nodes.items() if path.startswith(SCAN_PATH)}
    await ledgers.examine(Slice(10, 1e9), token=GONE, final=True)
    (late,) = [path for path in ledgers.store.nodes if path.startswith(SCAN_PATH) and path not in before]
    data = ledgers.store.nodes[late].data
    ledgers.store.remove(late)
    for path, content in before.items():
        ledgers.store.put(path, content)
    await ledgers.whole(Slice(100, 1e9), token=GONE, final=True)
    ledgers.store.put(late, data)
    assert {found.naming for found in await looks(ledgers)} == {100}


async def test_ledgers_made_since_where_others_have_ids_of_the_long_layout() -> None:
    ledgers = filled(30)
    for power in range(32, 37):
        ledgers.put(2**power, (B, C))
    await ledgers.whole()
    ledgers.put(31, (ME, B), "OPEN", topic=99)
    found = await ledgers.whole(token=TAKES_NOTHING)
    assert found.naming == 11 and "persistent://t/n/x00099" in found.writers


@pytest.mark.xfail(strict=True, reason="known gap: a look asks again about 32 ledgers alone once another bookie is up")
async def test_few_looks_tell_what_is_nowhere_else_once_another_bookie_is_up() -> None:
    ledgers = Ledgers()
    for number in range(2000):
        ledgers.put(number, (ME, B))
    assert (await ledgers.whole(alive=[C], token="not up/a", listed=True)).only == 2000
    for _ in range(10):
        found = await ledgers.whole(alive=[C, D], token="not up/a", listed=True)
    assert found.only == 2000
