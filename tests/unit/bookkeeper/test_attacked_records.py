"""Records in znodes and annotations that are damaged, out of range, or of a clock that was wrong."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pulsar_start.errors import StartError
from pulsar_start.identity import parse_record as read_by_the_bookie

from pulsar_operator.controllers.dataplane.bookkeeper.abandoned_ledgers import remember_given_up
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_count import parse_count
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import namespace_policies
from pulsar_operator.domain.bookkeeper.abandoned_ledgers import GIVEN_UP_PATH, parse_given_up
from pulsar_operator.domain.bookkeeper.affinity import local_groups
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies, parse_copy, parse_incarnations
from pulsar_operator.domain.bookkeeper.ledger_scan_record import parse_block, parse_chunk, parse_scan_record
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.rack_entries import parse_record as parse_racks
from pulsar_operator.domain.bookkeeper.znodes import parse_auditor
from pulsar_operator.domain.dataplane.decommission.decommission_facts import STALL_SECONDS, Act
from pulsar_operator.domain.dataplane.decommission.decommission_record import parse_copies, parse_decommission_record
from pulsar_operator.domain.dataplane.decommission.volume_claims import parse_empty_mark
from pulsar_operator.domain.dataplane.decommission.volume_replacement import next_step
from pulsar_operator.domain.dataplane.decommission.volume_requests import parse_request
from pulsar_operator.domain.dataplane.objects.template_record import parse_record as parse_template
from pulsar_operator.domain.dataplane.registration.metadata import parse_marker
from pulsar_operator.ports import PortError
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.bookkeeper.test_given_up import scan as naming_scan
from tests.unit.bookkeeper.test_leaving import leaving, row
from tests.unit.bookkeeper.test_leaving import scan as scan_of
from tests.unit.bookkeeper.test_ledger_examination import NOW as SCANNED
from tests.unit.bookkeeper.test_ledger_examination import TAKES_NOTHING, Ledgers
from tests.unit.bookkeeper.test_renewing import ASKED, NOW, asked, bookie, missed, scan

NESTED = "[" * 100_000
READERS: list[tuple[Callable[[Any], Any], bool, Any]] = [
    (parse_empty_mark, False, None),
    (parse_request, False, None),
    (parse_given_up, True, None),
    (parse_copies, True, None),
    (parse_decommission_record, True, None),
    (parse_racks, True, {}),
    (parse_count, True, None),
    (lambda data: parse_scan_record(zlib.compress(data)), True, None),
    (local_groups, True, None),
    (parse_auditor, True, NESTED),
    (lambda text: parse_template({"data": {"hash.json": text}}).kept, False, {}),
]


@pytest.mark.parametrize(("read", "binary", "nothing"), READERS)
def test_nested_json_without_end_ends_no_pass(read: Callable[[Any], Any], binary: bool, nothing: Any) -> None:
    assert read(NESTED.encode() if binary else NESTED) == nothing


@pytest.mark.parametrize("read", [parse_chunk, parse_block])
def test_nor_does_it_in_a_chunk(read: Callable[[bytes], Any]) -> None:
    with pytest.raises(ValueError):
        read(zlib.compress(NESTED.encode()))


def test_nor_in_a_marker() -> None:
    with pytest.raises(ValueError):
        parse_marker(NESTED.encode())


@pytest.mark.parametrize(
    ("read", "text"), [(parse_given_up, '{"a": {"ledgers": [1e999], "more": 0}}'), (parse_copies, '{"a": 1e999}')]
)
def test_a_number_without_end_is_none(read: Callable[[bytes], Any], text: str) -> None:
    assert read(text.encode()) is None


async def test_nor_in_the_policies_of_a_namespace() -> None:
    zookeeper = FakeZooKeeper()
    zookeeper.ensemble("z").put("/admin/policies/t/n", NESTED.encode())
    assert await namespace_policies(await zookeeper.session("z")) == {"t/n": {}}


async def test_what_was_given_up_and_cannot_be_read_is_not_written_over() -> None:
    """Condition Replicated is Unknown and tells to repair it from a backup: until then nothing more is given up."""
    zookeeper = FakeZooKeeper()
    zookeeper.ensemble("z").put(GIVEN_UP_PATH, b'{"a": {"ledgers": [1, 2')
    with pytest.raises(PortError, match=GIVEN_UP_PATH):
        await remember_given_up(await zookeeper.session("z"), "b", naming_scan(7))
    assert zookeeper.ensemble("z").nodes[GIVEN_UP_PATH].data == b'{"a": {"ledgers": [1, 2'


@pytest.mark.parametrize("key", ["number", "seen"])
def test_a_count_that_makes_no_id_is_damaged(key: str) -> None:
    """An incarnation of ten digits is the id of a bookie that nobody takes for the cluster's own."""
    most = OwnBookies.of("b-0.b.ns:3181", parse_copy('{"2": {"number": 999999999, "seen": 0}}'))
    assert most.slot(most.next_id(2)) == (2, 999_999_999)
    text = json.dumps({"2": {"number": 1, "seen": 0, key: 10**9}})
    with pytest.raises(ValueError):
        parse_copy(text)
    with pytest.raises(UndecodableError):
        parse_incarnations(text.encode())
    with pytest.raises(StartError):
        read_by_the_bookie(text.encode(), "2")


# ------------------------------------------------------------------------------------------------- times of the future

YEAR = timedelta(days=365)


def test_a_copy_that_was_asked_for_in_the_future_is_noted_again() -> None:
    """The clock was a year ahead, for which a copy that ended at its first ledger would not be asked for again."""
    found = asked(bookie(scan=scan(3)))
    assert found.record is not None
    assert next_step(replace(found, record=replace(found.record, asked_at=NOW + YEAR))).act is Act.NOTE  # type: ignore[union-attr]


def test_so_is_one_of_a_bookie_that_leaves() -> None:
    found = leaving(step="Copying", scan=scan_of(row()))
    helper = found.helpers[0]
    assert found.record is not None
    record = replace(found.record, asked=helper.uid, asked_at=found.now + YEAR, naming=1)
    chosen = next_step(replace(found, record=record))
    assert chosen is not None and (chosen.act, chosen.helper) == (Act.NOTE, helper)


def test_topics_that_were_tried_in_the_future_are_tried_again() -> None:
    found = missed(bookie(scan=scan(3)), tried_at=NOW + YEAR)
    assert next_step(found).act is Act.ROUND  # type: ignore[union-attr]
    later = missed(
        bookie(scan=scan(3), now=NOW + timedelta(seconds=STALL_SECONDS)), tried_at=NOW + timedelta(seconds=9)
    )
    assert next_step(later).act is not Act.ROUND  # type: ignore[union-attr]


@pytest.mark.xfail(strict=True, reason="known gap: a removal that began while the clock was ahead ends that much later")
def test_a_removal_that_began_in_the_future_times_out() -> None:
    """The time names the removal too, in the answer to LoseLedgers, and so is not written again."""
    found = leaving(step="Copying", scan=scan_of(row()))
    assert found.record is not None
    record = replace(found.record, since=found.now + YEAR)
    chosen = next_step(replace(found, record=record, now=found.now + timedelta(days=30)))
    assert chosen is not None and chosen.act is Act.STOP


async def test_an_examination_of_the_future_is_stale() -> None:
    ledgers = Ledgers()
    for number in range(10):
        ledgers.put(number, ("b:3181", "c:3181"))
    ledgers.now = SCANNED + YEAR
    await ledgers.whole()
    ledgers.now = SCANNED
    ledgers.put(3, ("a:3181", "b:3181"))
    assert (await ledgers.whole()).naming == 1, "a closed ledger was copied to the bookie meanwhile"


# ------------------------------------------------------------------------------------------- what was given up before


def test_what_is_still_on_a_volume_is_not_given_up_by_an_earlier_answer() -> None:
    """The first segment of a ledger was given up with another bookie. The second one is on this volume, which is there:
    its bookie alone is not up."""
    found = asked(bookie(ASKED, asked="smoke", scan=scan(1, only=1)))
    chosen = next_step(replace(found, given_up=frozenset({0})))
    assert (
        chosen is not None and chosen.act is Act.NOTHING and "1 ledgers have entries on no other bookie" in chosen.text
    )
    gone = next_step(replace(found, given_up=frozenset({0}), lost="gone"))
    assert gone is not None and gone.act is Act.DISCARD, "nobody is asked about the same loss twice"


async def test_what_is_nowhere_else_is_counted_whole_after_looks_that_did_not_count_it() -> None:
    """A bookie is emptied, another one ends, and then it is lost itself: few of its ledgers were read in between."""
    ledgers = Ledgers()
    for number in range(1000):
        ledgers.put(number, ("a:3181", "b:3181" if number % 2 else "c:3181"))
    for alive in (["b:3181", "c:3181"], ["c:3181"], ["c:3181"]):
        await ledgers.whole(alive=alive, token=TAKES_NOTHING)
    found = await ledgers.whole(alive=["c:3181"], token="not up/x", listed=True)
    assert (found.only, found.naming) == (500, 1000)
    ledgers.put(1000, ("a:3181", "b:3181"))
    assert (await ledgers.whole(alive=["c:3181"], token="not up/x", listed=True)).only == 501
