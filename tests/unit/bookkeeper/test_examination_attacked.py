"""What an adversarial review did to the examination of ledgers. In memory."""

from __future__ import annotations

import json
import zlib

import pytest

from pulsar_operator.controllers.dataplane.bookkeeper import ledger_scan
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import forget_examination
from pulsar_operator.controllers.dataplane.bookkeeper.scan_sweep import Slice
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.bookkeeper.ledger_scan_record import SCAN_PATH
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
            assert "starts again" in str(error)
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


async def test_few_looks_tell_what_is_nowhere_else_once_another_bookie_is_up() -> None:
    ledgers = Ledgers()
    for number in range(2000):
        ledgers.put(number, (ME, B))
    assert (await ledgers.whole(alive=[C], token="not up/a", listed=True)).only == 2000
    for _ in range(10):
        found = await ledgers.whole(alive=[C, D], token="not up/a", listed=True)
    assert found.only == 2000


async def test_what_is_nowhere_else_is_counted_in_slices_part_by_part() -> None:
    """Each pass counts one part at least, says how far it is, and goes on where the last one ended."""
    ledgers = Ledgers()
    for number in range(2000):
        ledgers.put(number, (ME, B) if number % 2 else (ME, D))
    await ledgers.whole(alive=[C], token="not up/a", listed=True)
    ledgers.reads.clear()
    told = list[str]()
    for _ in range(40):
        found = await ledgers.examine(Slice(150, 1e9), alive=[C, D], token="not up/a", listed=True)
        if isinstance(found, LedgerScan):
            break
        told.append(str(found))
    assert isinstance(found, LedgerScan) and found.only == 1000
    assert told[0] == f"The ledgers of bookie {ME} are being examined: 200 of about 2,000" and len(told) == len(
        set(told)
    )
    assert len(ledgers.reads) <= 2000 + 150 * 2, "no ledger is read twice for it"


async def test_a_bookie_that_leaves_does_not_ask_what_is_nowhere_else() -> None:
    ledgers = Ledgers()
    for number in range(2000):
        ledgers.put(number, (ME, B))
    await ledgers.whole(alive=[B, C], token=TAKES_NOTHING)
    ledgers.reads.clear()
    await ledgers.whole(alive=[B, C, D], token=TAKES_NOTHING)
    assert len(ledgers.reads) < 200


@pytest.mark.parametrize("name", ["ledgers-000000", "topics-000000", "unreadable"])
async def test_what_another_examination_wrote_counts_for_nothing(name: str) -> None:
    """A slower operator writes of the examination before, in which no ledger named the bookie."""
    ledgers = Ledgers()
    for number in range(300):
        ledgers.put(number, (ME, B) if number == 200 else (B, C), topic=number)
    assert (await ledgers.whole(token=GONE, final=True)).naming == 1
    late = ledgers.store.nodes[f"{SCAN_PATH}/{name}"].data
    await forget_examination(await ledgers.zookeeper.session("z"))
    for number in range(100):
        ledgers.put(number, (ME, B), "OPEN", topic=number)
    ledgers.garble(299)
    found = await ledgers.whole(token=GONE, final=True)
    assert (found.naming, found.undecodable, len(found.writers)) == (101, 1, 101)
    ledgers.store.put(f"{SCAN_PATH}/{name}", late)
    assert {(each.naming, each.undecodable, len(each.writers)) for each in await looks(ledgers)} == {(101, 1, 101)}


async def test_an_examination_of_an_operator_that_gave_no_id_goes_on() -> None:
    """After an upgrade nothing is read again."""
    ledgers = filled(300)
    await ledgers.examine(Slice(100, 1e9), token=GONE, final=True)
    for path, node in [*ledgers.store.nodes.items()]:
        if path.startswith(SCAN_PATH):
            ledgers.store.put(path, without_id(node.data))
    ledgers.reads.clear()
    assert (await ledgers.whole(token=GONE, final=True)).naming == 100
    assert len(ledgers.reads) < 300


def without_id(data: bytes) -> bytes:
    """As an operator wrote it that gave examinations no id."""
    found = json.loads(zlib.decompress(data))
    found.pop("ident", None)
    found.pop("examination", None)
    return zlib.compress(json.dumps(found.get("block", found)).encode())
