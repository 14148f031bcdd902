"""The accounts: what each event does to the counts, and that they agree with a plain model in any order."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_conformance.counting.ledger import Ledger
from pulsar_conformance.counting.message import Stamp, decode, encode
from pulsar_conformance.counting.report import Pause


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Book:
    """A ledger with its clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ledger = Ledger("run", "topic", clock=self.clock)

    def after(self, seconds: float) -> Ledger:
        self.clock.now += seconds
        return self.ledger

    def stored(self, count: int, *, key: int = 0) -> list[Stamp]:
        """Messages sent and confirmed."""
        stamps = [self.ledger.sent(0, key) for _ in range(count)]
        for stamp in stamps:
            self.ledger.confirmed(stamp)
        return stamps


@pytest.fixture
def book() -> Book:
    return Book()


@given(
    st.builds(
        Stamp,
        run=st.text("0123456789abcdef", min_size=1),
        producer=st.integers(0),
        key=st.integers(0),
        number=st.integers(0),
        micros=st.integers(0),
    ),
    st.integers(0, 300),
)
def test_stamp_survives_the_text(stamp: Stamp, size: int) -> None:
    text = encode(stamp, size)
    assert decode(text) == stamp
    assert len(text) == max(size, len(encode(stamp)))


@pytest.mark.parametrize(
    "data", [b"", b"counting|", b"counting|r|0|0|x|0|", b"other|r|0|0|0|0|", b"\xff\xfe", b"a|" * 9]
)
def test_other_text_has_no_stamp(data: bytes) -> None:
    assert decode(data) is None


def test_clean_run(book: Book) -> None:
    for stamp in book.stored(3):
        book.after(0.5).received(stamp, position=stamp.number)
    report = book.ledger.report()
    assert (report.sent, report.confirmed, report.unconfirmed, report.received) == (3, 3, 0, 3)
    assert (report.lost, report.duplicated, report.redelivered, report.out_of_order, report.foreign) == (0,) * 5
    assert report.violations() == []
    assert report.delivery_rate == 3 / 1.5


def test_confirmed_and_never_received_is_lost(book: Book) -> None:
    stamps = book.stored(4)
    book.ledger.received(stamps[0])
    book.ledger.received(stamps[3])
    report = book.ledger.report()
    assert report.lost == 2
    assert [example.number for example in report.lost_examples] == [1, 2]
    assert "2 confirmed messages were not received, first producer 0 key 0 number 1" in report.violations()[0]
    assert "VIOLATION" in report.text()


def test_failed_send_may_arrive_and_is_never_lost(book: Book) -> None:
    arrived, vanished = book.ledger.sent(0, 0), book.ledger.sent(0, 0)
    book.ledger.failed(arrived, "Timeout")
    book.ledger.failed(vanished, "Timeout")
    book.ledger.received(arrived)
    report = book.ledger.report()
    assert (report.unconfirmed, report.unconfirmed_received, report.lost) == (2, 1, 0)
    assert report.errors == {"send failed: Timeout": 2}
    assert report.violations() == []


def test_a_pause_that_never_ends_counts_as_long_as_something_failed_in_it(book: Book) -> None:
    """Or a client that lost its connection for good would have had no pause at all."""
    book.stored(1)
    lost = book.ledger.sent(0, 0)
    book.clock.now += 30
    book.ledger.failed(lost, "Timeout")
    report = book.ledger.report()
    assert report.publish_pause.seconds >= 30 and report.key_publish_pause.seconds >= 30


def test_arrival_may_come_before_its_confirmation(book: Book) -> None:
    stamp = book.ledger.sent(0, 0)
    book.ledger.received(stamp)
    assert book.ledger.report().unconfirmed_received == 1
    book.ledger.confirmed(stamp)
    report = book.ledger.report()
    assert (report.unconfirmed_received, report.lost, report.confirmed) == (0, 0, 1)
    assert book.ledger.pending() == 0


def test_second_arrival_is_told_by_the_brokers_count_and_by_its_position(book: Book) -> None:
    stamp, other = book.stored(2)
    book.ledger.received(stamp, position=7)
    book.ledger.received(stamp, redeliveries=1, position=7)
    report = book.ledger.report()
    assert (report.redelivered, report.duplicated) == (1, 0)
    book.ledger.received(stamp, position=7)
    book.ledger.received(stamp, position=8)
    report = book.ledger.report()
    assert (report.duplicated, report.stored_twice, report.redelivered) == (2, 1, 1)
    book.ledger.received(other, redeliveries=2, position=9)
    report = book.ledger.report()
    assert (report.received, report.redelivered, report.lost) == (2, 2, 0)


def test_order_is_of_first_arrivals_of_a_producer_and_key(book: Book) -> None:
    first, second, third = book.stored(3)
    elsewhere = book.stored(1, key=1)[0]
    book.ledger.received(second)
    book.ledger.received(elsewhere)
    assert book.ledger.report().out_of_order == 0
    book.ledger.received(first)
    book.ledger.received(first)
    book.ledger.received(third)
    report = book.ledger.report()
    assert report.out_of_order == 1 and report.out_of_order_keys == {0: 1}


def test_redelivered_message_is_not_out_of_order(book: Book) -> None:
    first, second = book.stored(2)
    book.ledger.received(second)
    book.ledger.received(first, redeliveries=1)
    assert book.ledger.report().out_of_order == 0


def test_foreign_messages_change_nothing_else(book: Book) -> None:
    stamp = book.stored(1)[0]
    for strange in (None, stamp._replace(run="other"), stamp._replace(number=1), stamp._replace(key=5)):
        book.ledger.received(strange)
    report = book.ledger.report()
    assert (report.foreign, report.received, report.lost) == (4, 0, 1)


def test_outcome_of_what_was_not_sent_is_refused(book: Book) -> None:
    with pytest.raises(ValueError, match="was not sent by run run"):
        book.ledger.confirmed(Stamp("run", 0, 0, 0, 0))


def test_pauses_are_found_with_their_time_and_key(book: Book) -> None:
    slow, quick = book.ledger.sent(0, 0), book.ledger.sent(0, 1)
    book.after(1).confirmed(quick)
    book.after(2).confirmed(slow)
    book.after(0.5).received(quick)
    book.after(4).received(slow)
    report = book.ledger.report()
    assert report.publish_pause == Pause(2, 1)
    assert report.key_publish_pause == Pause(3, 0, 0)
    assert report.delivery_pause == Pause(4, 3.5)
    assert report.key_delivery_pause == Pause(7.5, 0, 0)


def test_silence_counts_only_while_something_is_waited_for(book: Book) -> None:
    stamp = book.ledger.sent(0, 0)
    assert book.after(3).progress().publish_pause == 3
    book.ledger.confirmed(stamp)
    assert book.after(2).progress().delivery_pause == 5
    book.ledger.received(stamp)
    book.after(60)
    report = book.ledger.report()
    assert report.publish_pause.seconds == 3
    assert report.delivery_pause.seconds == 5


def test_latency_is_close_and_its_maximum_exact(book: Book) -> None:
    stamps = book.stored(100)
    for stamp in stamps[:98]:
        book.ledger.received(stamp)
    for stamp in stamps[98:]:
        book.after(0.25).received(stamp)
    latency = book.ledger.report().latency
    assert latency.p50 <= 2e-6
    assert latency.p99 == pytest.approx(0.25, rel=0.02)
    assert latency.max == pytest.approx(0.5)


def test_duplicate_needs_an_operation_that_explains_it(book: Book) -> None:
    old, early = book.stored(2)
    for stamp in (old, early):
        book.ledger.received(stamp)
    book.ledger.received(early)
    assert book.ledger.report().unprovoked == 1, "nothing was done yet"

    book.ledger.operation_began("roll")
    book.ledger.received(old)
    during = book.stored(1)[0]
    ends = book.ledger.operation_ended()
    assert not book.ledger.through(ends)
    book.ledger.received(during)
    assert book.ledger.through(ends)
    book.ledger.settled()
    book.ledger.received(during)
    assert book.ledger.report().unprovoked == 1, "all of them were sent before the roll had settled"

    late = book.stored(1)[0]
    for _ in range(2):
        book.after(1).received(late)
    report = book.ledger.report()
    assert report.unprovoked == 2
    assert report.unprovoked_examples[-1].number == late.number
    assert "2 messages came again while nothing was done to the cluster" in report.violations()[0]


@pytest.mark.parametrize("outcome", ["none", "received without an answer", "confirmed", "failed then confirmed"])
def test_run_has_not_settled_while_a_message_is_open(book: Book, outcome: str) -> None:
    book.ledger.operation_began("kill")
    stamp = book.ledger.sent(0, 0)
    if outcome == "received without an answer":
        book.ledger.received(stamp)
    if outcome == "failed then confirmed":
        book.ledger.failed(stamp, "Timeout")
    if outcome.endswith("confirmed"):
        book.ledger.confirmed(stamp)
    ends = book.ledger.operation_ended()
    book.ledger.sent(0, 0)
    assert not book.ledger.through(ends)
    book.ledger.confirmed(stamp)
    book.ledger.received(stamp)
    assert book.ledger.through(ends), "what was sent afterwards is not waited for"


def test_report_is_a_table_and_json(book: Book) -> None:
    book.ledger.operation_began("roll")
    stamp = book.stored(1)[0]
    book.after(2).received(stamp)
    book.ledger.operation_ended()
    report = book.ledger.report()
    lines = report.text().splitlines()
    assert lines[0] == "counting run run on topic"
    assert next(line for line in lines if "operation" in line).endswith("0.0 s to 2.0 s, did not settle")
    ends = {re.match(r"  .{22}  ( *\S+( s)?)", line).end() for line in lines[1:] if line[:2] == "  "}  # type: ignore[union-attr]
    assert len(ends) == 1, report.text()
    data = json.loads(json.dumps(report.as_json()))
    assert data["received"] == 1 and data["delivery_pause"] == {"seconds": 2.0, "at": 0.0, "key": None}
    assert "sent         1  confirmed         1" in book.ledger.progress().line()


def test_empty_run_reports(book: Book) -> None:
    report = book.ledger.report()
    assert report.sent == report.lost == 0 and report.text() and report.violations() == []


def test_a_million_messages_stay_small(book: Book) -> None:
    tracemalloc.start()
    try:
        for _ in range(50_000):
            stamp = book.ledger.sent(0, 0)
            book.ledger.confirmed(stamp)
            book.ledger.received(stamp, position=2**60 + stamp.number)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 50_000 * 16


@dataclass
class Model:
    """The same accounts by sets."""

    sent: set[Stamp] = field(default_factory=set)
    confirmed: set[Stamp] = field(default_factory=set)
    failed: set[Stamp] = field(default_factory=set)
    arrivals: Counter[Stamp] = field(default_factory=Counter)
    duplicated: int = 0
    redelivered: int = 0


EVENT = st.tuples(
    st.sampled_from(["send", "send", "confirm", "fail", "receive", "receive", "redeliver"]),
    st.integers(0, 1),
    st.integers(0, 2),
    st.integers(0, 30),
)


@given(st.lists(EVENT, max_size=80))
def test_any_order_of_events_agrees_with_the_model(events: list[tuple[str, int, int, int]]) -> None:
    book, model = Book(), Model()
    order: list[Stamp] = []
    for what, producer, key, choice in events:
        ledger = book.after(0.001)
        if what == "send" or not order:
            stamp = ledger.sent(producer, key)
            order.append(stamp)
            model.sent.add(stamp)
            continue
        stamp = order[choice % len(order)]
        if what == "confirm":
            ledger.confirmed(stamp)
            model.confirmed.add(stamp)
        elif what == "fail":
            ledger.failed(stamp, "Timeout")
            model.failed.add(stamp)
        else:
            flagged = what == "redeliver"
            ledger.received(stamp, redeliveries=int(flagged))
            model.redelivered += flagged
            model.duplicated += stamp in model.arrivals and not flagged
            model.arrivals[stamp] += 1
    report = book.ledger.report()
    got = set(model.arrivals)
    assert (report.sent, report.confirmed, report.received) == (len(model.sent), len(model.confirmed), len(got))
    assert report.lost == len(model.confirmed - got)
    assert {(e.producer, e.key, e.number) for e in report.lost_examples} <= {s[1:4] for s in model.confirmed - got}
    assert report.unconfirmed_received == len(got - model.confirmed)
    assert (report.duplicated, report.redelivered) == (model.duplicated, model.redelivered)
    assert book.ledger.pending() == len(model.sent - model.confirmed - model.failed)
    assert report.sent == report.confirmed + report.unconfirmed
    assert report.confirmed == report.received - report.unconfirmed_received + report.lost
    assert report.stored_twice <= report.duplicated and report.unprovoked == report.duplicated
    assert report.out_of_order <= report.received
    assert all(pause.seconds <= report.seconds for pause in (report.publish_pause, report.key_delivery_pause))


@given(st.integers(1, 60), st.sets(st.integers(0, 59)), st.randoms(use_true_random=False))
def test_a_dropped_confirmed_message_is_always_lost(count: int, dropped: set[int], random: object) -> None:
    book = Book()
    stamps = book.stored(count)
    arriving = [stamp for stamp in stamps if stamp.number not in dropped]
    random.shuffle(arriving)  # type: ignore[attr-defined]
    for stamp in arriving:
        book.ledger.received(stamp)
    lost = sorted(dropped & set(range(count)))
    report = book.ledger.report()
    assert report.lost == len(lost)
    assert [example.number for example in report.lost_examples] == lost[:5]


@given(st.lists(st.integers(0, 3), max_size=60))
def test_order_kept_in_each_key_is_never_out_of_order(keys: list[int]) -> None:
    """However the keys interleave."""
    book = Book()
    waiting = {key: book.stored(keys.count(key), key=key) for key in set(keys)}
    for key in keys:
        book.ledger.received(waiting[key].pop(0))
    report = book.ledger.report()
    assert (report.out_of_order, report.duplicated, report.lost) == (0, 0, 0)
