"""An examination of all ledgers in slices finds what one look at all of them finds. In memory."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.controllers.dataplane.bookkeeper.ledger_scan import examine_ledgers
from pulsar_operator.controllers.dataplane.bookkeeper.scan_answers import SOME
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import Unwritten, forget_examination, took_entries
from pulsar_operator.controllers.dataplane.bookkeeper.scan_sweep import Slice, Subject
from pulsar_operator.domain.bookkeeper import ledger_scan_record
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles, LedgerScan
from pulsar_operator.domain.bookkeeper.ledger_scan_record import SCAN_PATH, Examining, parse_scan_record
from pulsar_operator.domain.bookkeeper.ledgers import decode_ledger
from pulsar_operator.domain.bookkeeper.znodes import LEDGERS, ledger_path
from tests.fakes.zookeeper import Call, FakeZooKeeper
from tests.support.bookkeeper.encoding import framed, ledger_body
from tests.support.bookkeeper.every_ledger import ledgers_naming

ME, B, C, D = "a:3181", "b:3181", "c:3181", "d:3181"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHOLE = Slice(10**9, 1e9)
TAKES_NOTHING = "read-only/uid/0"


class KilledError(Exception):
    """The operator's process ends."""


class Ledgers:
    """Ledgers in a metadata store, and examinations of them."""

    def __init__(self) -> None:
        self.zookeeper = FakeZooKeeper()
        self.store = self.zookeeper.ensemble("z")
        self.store.put("/ledgers/available")
        self.now = NOW
        self.kill_after: int | None = None
        self.zookeeper.before.append(self._count)
        self.reads: list[str] = []

    def _count(self, call: Call) -> None:
        if call.op == "get" and call.path.startswith(f"{LEDGERS}/"):
            self.reads.append(call.path)
        if self.kill_after is not None and (call.is_write or call.path.startswith(LEDGERS)):
            self.kill_after -= 1
            if self.kill_after < 0:
                raise KilledError

    def put(self, number: int, on: Sequence[str], state: str = "CLOSED", topic: int | None = None) -> None:
        name = f"t/n/persistent/x{number if topic is None else topic:05}".encode()
        custom = {"application": b"pulsar", "component": b"managed-ledger", "pulsar/managed-ledger": name}
        size, last = len(on), 9 if state == "CLOSED" else -1
        body = ledger_body(state=state, quorums=(size, size, size), segments=[(0, on)], last=last, custom=custom)
        self.store.put(ledger_path(number), framed(body))

    def garble(self, number: int) -> None:
        self.store.put(ledger_path(number), b"garbage")

    def naming(self) -> list[int]:
        found = []
        for path, data in self.store.tree(LEDGERS).items():
            if data and data != b"garbage" and ME in decode_ledger(data).bookies:
                found.append(int(path.replace("/", "").replace("L", "").removeprefix("ledgers")))
        return found

    async def examine(
        self,
        limit: Slice = WHOLE,
        *,
        token: str = "",
        final: bool = False,
        handles: Handles | None = None,
        alive: Sequence[str] = (B, C, D),
        begun: bool | None = None,
        moved: bool = False,
        listed: bool = False,
    ) -> LedgerScan | Examining:
        subject = Subject(
            ME,
            frozenset(alive),
            handles or Handles(),
            self.now,
            bool(token) if begun is None else begun,
            token,
            final,
            uuid4().hex,
            listed,
            moved,
        )
        return await examine_ledgers(await self.zookeeper.session("z"), subject, limit)

    async def whole(self, limit: Slice = WHOLE, **how: object) -> LedgerScan:
        """Pass after pass, until it is through."""
        for _ in range(10_000):
            found = await self.examine(limit, **how)  # type: ignore[arg-type]
            if isinstance(found, LedgerScan):
                return found
        raise AssertionError("no end")

    async def at_once(self, handles: Handles | None = None) -> LedgerScan:
        session = await self.zookeeper.session("z")
        return await ledgers_naming(session, frozenset({ME}), alive=frozenset({B, C, D}), handles=handles)


def filled(count: int = 300, **how: object) -> Ledgers:
    found = Ledgers()
    for number in range(count):
        on = [(ME, B), (B, C), (C, D)][number % 3]
        found.put(number, on, "OPEN" if number % 10 == 0 else "CLOSED", topic=number // 7)
    return found


def same(found: LedgerScan, expected: LedgerScan) -> None:
    assert (found.scanned, found.naming, found.unfinished, found.undecodable, found.only) == (
        expected.scanned,
        expected.naming,
        expected.unfinished,
        expected.undecodable,
        expected.only,
    )
    assert (found.writers, found.highest, found.unreadable) == (
        expected.writers,
        expected.highest,
        expected.unreadable,
    )
    assert (found.widest is None) is (expected.widest is None)
    assert found.bytes_by_peers == expected.bytes_by_peers


async def test_in_slices_as_at_once() -> None:
    for size in (1, 7, 100, 299, 300, 301):
        ledgers = filled()
        ledgers.garble(17)
        ledgers.put(2**31 + 5, (ME, C))
        ledgers.store.put("/ledgers/hob", b"x")
        same(await ledgers.whole(Slice(size, 1e9)), await ledgers.at_once())


@pytest.mark.parametrize("begun", [False, True])
async def test_in_a_pause_the_same_is_found_and_nothing_is_written(begun: bool) -> None:
    ledgers = filled()
    ledgers.garble(17)
    if begun:
        await ledgers.examine(Slice(100, 1e9))
    before = dict(ledgers.store.nodes)
    unwritten = Unwritten(await ledgers.zookeeper.session("z"))
    subject = Subject(ME, frozenset({B, C, D}), Handles(), NOW, False, "", False, uuid4().hex)
    found = await examine_ledgers(unwritten, subject)
    assert isinstance(found, Examining) is begun
    found = await examine_ledgers(unwritten, subject)
    assert isinstance(found, LedgerScan)
    same(found, await ledgers.at_once())
    assert ledgers.store.nodes == before


async def test_how_far_it_is() -> None:
    ledgers, said = filled(), []
    for _ in range(3):
        said.append(str(await ledgers.examine(Slice(100, 1e9))))
    assert said == [f"The ledgers are being examined: {done} of about 300" for done in (100, 200, 300)]


async def test_each_ledger_is_read_once_whatever_the_slices() -> None:
    ledgers = filled()
    for _ in range(300):
        if isinstance(await ledgers.examine(Slice(13, 1e9)), LedgerScan):
            break
    assert len(ledgers.reads) <= 300 + 2 * SOME and len(set(ledgers.reads)) == 300


@pytest.mark.parametrize(("least", "percent"), [(1, 1), (100, 10)], ids=["as of many ledgers", "a hundred of few"])
async def test_a_killed_operator_repeats_little(monkeypatch: pytest.MonkeyPatch, least: int, percent: int) -> None:
    """The head is written after 0.5 % of all ledgers, and of few ledgers after a hundred."""
    monkeypatch.setattr(ledger_scan_record, "LEAST", least)
    ledgers = filled(1000)
    for after in (700, 333):
        ledgers.kill_after = after
        with pytest.raises(KilledError):
            await ledgers.examine()
        ledgers.kill_after = None
        before = set(ledgers.reads)
        ledgers.reads.clear()
        record = parse_scan_record(ledgers.store.nodes[SCAN_PATH].data)
        assert record is not None and not record.done and len(before) > 100
        repeated = len([path for path in before if int(path[-4:]) > record.after])
        assert 0 < repeated <= 10 * percent
    await ledgers.examine()
    assert len(ledgers.reads) == 1000 - 1 - record.after, "goes on where the record ends"


async def test_what_is_settled_is_not_read_again() -> None:
    ledgers = filled(600)
    await ledgers.whole()
    await ledgers.whole(token=TAKES_NOTHING)
    ledgers.reads.clear()
    for _ in range(20):
        found = await ledgers.whole(token=TAKES_NOTHING, handles=Handles(unloaded=600))
    assert found.naming == 200 and len(ledgers.reads) <= 20 * (2 * SOME)


async def test_a_look_that_finds_nothing_new_writes_nothing() -> None:
    ledgers = filled(60)
    await ledgers.whole(token=TAKES_NOTHING)
    await ledgers.whole(token=TAKES_NOTHING)
    ledgers.zookeeper.writes.clear()
    await ledgers.whole(token=TAKES_NOTHING)
    assert ledgers.zookeeper.writes == []


async def test_a_removal_reads_every_ledger_twice_and_what_named_the_bookie_a_bit_more() -> None:
    """Counted: 900 ledgers of which 300 name it, 20 looks while they are copied in a strange order."""
    ledgers = filled(900)
    before = await ledgers.whole(Slice(250, 1e9))
    assert before.naming == 300
    moved = sorted(ledgers.naming(), key=lambda number: number * 7919 % 301)
    handles = Handles(unloaded=900)
    for round_ in range(20):
        found = await ledgers.whole(token=TAKES_NOTHING, handles=handles)
        assert found.naming >= len(ledgers.naming())
        for number in moved[round_ * 15 : (round_ + 1) * 15]:
            ledgers.put(number, (C, B), topic=number // 7)
    while found.naming:
        found = await ledgers.whole(token=TAKES_NOTHING, handles=handles)
    gone = await ledgers.whole(Slice(250, 1e9), token="gone/5", final=True, handles=handles)
    assert gone.clear
    opens, waste = 60, 21 * 2 * SOME
    assert len(ledgers.reads) <= 2 * 900 + 300 + opens + waste
    reads = len(ledgers.reads)
    for _ in range(5):
        assert (await ledgers.whole(token="gone/5", final=True, handles=handles)).clear
    assert len(ledgers.reads) == reads, "what is settled"


async def test_the_second_examination_finds_what_the_first_could_not() -> None:
    """A closed ledger came to the bookie by replication, after it was read and before the bookie was read-only."""
    ledgers = filled(30)
    await ledgers.whole()
    ledgers.put(4, (ME, B))
    for number in [each for each in ledgers.naming() if each != 4]:
        ledgers.put(number, (C, B))
    assert (await ledgers.whole(token=TAKES_NOTHING)).naming == 0
    assert (await ledgers.whole(Slice(11, 1e9), token="gone/5", final=True)).naming == 1


async def test_an_open_ledger_that_came_to_name_it_before_it_was_read_only_is_found() -> None:
    ledgers = filled(30)
    await ledgers.whole()
    ledgers.put(10, (ME, D), "OPEN", topic=77)
    found = await ledgers.whole(token=TAKES_NOTHING)
    assert found.naming == 11 and "persistent://t/n/x00077" in found.writers


@pytest.mark.parametrize(("relies", "begins"), [(False, False), (True, True)], ids=["not yet counted on", "counted on"])
async def test_a_bookie_that_takes_entries_makes_it_void(relies: bool, begins: bool) -> None:
    ledgers = filled(30)
    await ledgers.whole()
    if relies:
        await ledgers.whole(token=TAKES_NOTHING)
    await took_entries(await ledgers.zookeeper.session("z"), ME)
    assert (SCAN_PATH not in ledgers.store.nodes) is begins


async def test_what_a_quiet_one_found_does_not_outlive_what_it_counted_on() -> None:
    ledgers = filled(30)
    for number in ledgers.naming():
        ledgers.put(number, (C, B))
    assert (await ledgers.whole(token="gone/5", final=True)).clear
    ledgers.put(4, (ME, B))
    assert (await ledgers.whole(token="gone/5", final=True)).clear, "control: this is what would be missed"
    assert (await ledgers.whole(token="gone/6", final=True)).naming == 1, "somebody changed the StatefulSet"
    ledgers.put(4, (C, B))
    assert (await ledgers.whole(token="gone/6", final=True)).clear
    assert (await ledgers.whole(token="gone/7", final=True, moved=True)).clear


async def test_one_for_a_bookie_that_does_not_leave_grows_old() -> None:
    ledgers = filled(30)
    await ledgers.whole()
    ledgers.put(4, (ME, B))
    assert (await ledgers.whole()).naming == 10
    ledgers.now += timedelta(hours=2)
    assert (await ledgers.whole()).naming == 11


async def test_the_rest_of_what_was_written_is_deleted() -> None:
    ledgers = filled(300)
    before = dict(ledgers.store.nodes)
    await ledgers.whole(Slice(50, 1e9))
    await forget_examination(await ledgers.zookeeper.session("z"))
    assert set(ledgers.store.nodes) - set(before) == {"/pulsar-operator"}


@pytest.mark.parametrize("data", [b"", b"x", b"[]"])
@pytest.mark.parametrize("name", ["", "/ledgers-000000", "/topics-000000"])
async def test_what_cannot_be_read_there_is_examined_anew(data: bytes, name: str) -> None:
    ledgers = filled(60)
    expected = await ledgers.whole()
    ledgers.store.put(f"{SCAN_PATH}{name}", data)
    for _ in range(3):
        try:
            same(await ledgers.whole(), expected)
        except Exception as error:
            assert "starts again" in str(error)
    same(await ledgers.whole(), expected)


async def test_unreadable_ledgers_are_known_until_they_can_be_read() -> None:
    ledgers = filled(30)
    ledgers.garble(4)
    ledgers.garble(5)
    assert (await ledgers.whole()).unreadable == (ledger_path(4), ledger_path(5))
    ledgers.put(4, (ME, C))
    found = await ledgers.whole()
    assert (found.undecodable, found.naming) == (1, 11)
    ledgers.store.remove(ledger_path(5))
    assert (await ledgers.whole()).undecodable == 0


async def test_only_there_is_counted_for_the_bookies_that_are_alive() -> None:
    """In three chunks, of which a look reads some of one again."""
    ledgers = Ledgers()
    for number in range(300):
        ledgers.put(number, (ME, B))
    assert (await ledgers.whole(alive=[C])).only == 300
    assert (await ledgers.whole(alive=[B, C])).only == 0, "nothing is given up that another bookie has"
    found = await ledgers.whole(alive=[C])
    assert found.only < 300, "known after all were read again"
    found = await ledgers.whole(alive=[C], listed=True)
    assert (found.only, found.naming) == (300, 300)


async def test_an_operator_that_is_killed_before_it_writes_the_head_of_a_look() -> None:
    """The chunk is written by then, and counts as it is."""
    ledgers = filled(30)
    await ledgers.whole(token=TAKES_NOTHING)
    for number in ledgers.naming():
        ledgers.put(number, (C, B))

    def kill(call: Call) -> None:
        if (call.op, call.path) == ("set", SCAN_PATH):
            raise KilledError

    ledgers.zookeeper.before.append(kill)
    with pytest.raises(KilledError):
        await ledgers.examine(token=TAKES_NOTHING)
    ledgers.zookeeper.before.remove(kill)
    assert (await ledgers.whole(token=TAKES_NOTHING)).naming == 0


async def test_what_is_to_be_copied_is_known_after_a_kill() -> None:
    """The chunk says that a ledger is copied, and the head counts its bytes still."""
    ledgers = filled(30)
    assert (await ledgers.whole(token=TAKES_NOTHING)).bytes_by_peers != {}
    for number in ledgers.naming()[1:]:
        ledgers.put(number, (C, B))

    def kill(call: Call) -> None:
        if (call.op, call.path) == ("set", SCAN_PATH):
            raise KilledError

    ledgers.zookeeper.before.append(kill)
    with pytest.raises(KilledError):
        await ledgers.examine(token=TAKES_NOTHING)
    ledgers.zookeeper.before.remove(kill)
    found = await ledgers.whole(token=TAKES_NOTHING)
    assert found.bytes_by_peers == (await ledgers.at_once()).bytes_by_peers


async def test_what_unloaded_topics_closed_is_weighed_in_the_next_look() -> None:
    """Before it is copied, however many others name the bookie."""
    ledgers = Ledgers()
    for number in range(300):
        ledgers.put(number, (ME, B), "CLOSED" if number < 200 else "OPEN")
    await ledgers.whole(token=TAKES_NOTHING)
    for number in range(200, 300):
        ledgers.put(number, (ME, C))
    found = await ledgers.whole(token=TAKES_NOTHING)
    assert (found.unfinished, found.bytes_by_peers) == (0, (await ledgers.at_once()).bytes_by_peers)


async def test_the_ledgers_of_a_lost_bookie_are_listed() -> None:
    ledgers = filled(300)
    await ledgers.whole(token="not up/a", alive=[C, D])
    found = await ledgers.whole(token="not up/a", alive=[C, D], listed=True)
    rows = (*found.not_closed, *found.closed)
    assert sorted(row.ledger for row in rows) == ledgers.naming() and len(found.only_there) == found.only == 100


async def test_topics_come_by_name_without_those_that_are_gone_or_went_on() -> None:
    ledgers = Ledgers()
    for number in range(6):
        ledgers.put(number, (ME, B), "OPEN" if number % 2 else "CLOSED")
    names = [f"persistent://t/n/x{number:05}" for number in range(6)]
    assert list((await ledgers.whole()).writers) == names
    ledgers.store.remove(ledger_path(1))
    ledgers.put(9, (C, B), "OPEN", topic=2)
    found = await ledgers.whole(token=TAKES_NOTHING)
    assert list(found.writers) == [names[0], *names[3:]]
    after = await ledgers.whole(token=TAKES_NOTHING, handles=Handles(after=names[3]))
    assert list(after.writers) == names[4:]
    done = await ledgers.whole(token=TAKES_NOTHING, handles=Handles(unloaded=9))
    assert done.writers == ()


async def test_another_suspect_is_another_examination() -> None:
    ledgers = filled(30)
    handles = Handles(suspect=20)
    await ledgers.whole()
    same(await ledgers.whole(handles=handles), await ledgers.at_once(handles))


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("slice"), st.integers(1, 40)),
        st.tuples(st.just("kill"), st.integers(0, 60)),
        st.tuples(st.just("make"), st.sampled_from(["OPEN", "CLOSED"])),
        st.tuples(st.just("copy"), st.integers(0, 10)),
        st.tuples(st.just("close"), st.integers(0, 10)),
        st.tuples(st.just("delete"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(acts=ACTS, count=st.integers(0, 120))
async def test_any_order_of_slices_kills_and_changes(acts: list[tuple[str, object]], count: int) -> None:
    """While the bookie takes nothing: no look ever knows of fewer ledgers than there are, nor of fewer topics."""
    ledgers, highest = filled(count), count
    await ledgers.whole(Slice(30, 1e9))
    for verb, value in acts:
        naming = ledgers.naming()
        if verb == "slice":
            assert isinstance(value, int)
            found = await ledgers.examine(Slice(value, 1e9), token=TAKES_NOTHING)
            if isinstance(found, LedgerScan):
                truth = await ledgers.at_once()
                assert found.naming >= truth.naming and set(found.writers) >= set(truth.writers)
        elif verb == "kill":
            assert isinstance(value, int)
            ledgers.kill_after = value
            with contextlib.suppress(KilledError):
                await ledgers.examine(Slice(30, 1e9), token=TAKES_NOTHING)
            ledgers.kill_after = None
        elif verb == "make":
            ledgers.put(highest, (B, C), str(value), topic=highest // 3)
            highest += 2
        elif verb == "delete" and naming:
            ledgers.store.remove(ledger_path(naming[0]))  # by retention, the oldest first
        elif verb in ("copy", "close") and naming:
            number = naming[int(str(value)) % len(naming)]
            ledgers.put(number, (C, D) if verb == "copy" else (ME, B), topic=number // 7)
    for _ in range(6):
        found = await ledgers.whole(token=TAKES_NOTHING)
    assert found.naming == len(ledgers.naming())
    assert found.bytes_by_peers == (await ledgers.at_once()).bytes_by_peers
    final = await ledgers.whole(Slice(17, 1e9), token="gone/1", final=True)
    assert final.naming == len(ledgers.naming())
    record = parse_scan_record(ledgers.store.nodes[SCAN_PATH].data)
    assert record is not None and record.done and (record.quiet or final.naming)
