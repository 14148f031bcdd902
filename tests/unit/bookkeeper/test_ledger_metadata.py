"""Metadata of ledgers: whatever a record says is read, and what is no whole record is never taken for one."""

from __future__ import annotations

import contextlib
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.bookkeeper.ledgers import (
    Ledger,
    LedgerState,
    LedgerUse,
    Segment,
    decode_ledger,
    topic_of,
)
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from tests.support.bookkeeper.encoding import bytes_field, framed, ledger_body, number_field

A, B, C = "a:3181", "b:3181", "c:3181"
HEADER = b"BookieMetadataFormatVersion\t"
PLAIN = ledger_body(segments=[(0, (A, B))])
TEXT = f"""BookieMetadataFormatVersion\t2
quorumSize: 2
ensembleSize: 2
length: 0
lastEntryId: -1
state: OPEN
segment {{
  ensembleMember: "{A}"
  ensembleMember: "{B}"
  firstEntryId: 0
}}
digestType: CRC32C
password: "\\001\\"\\\\"
ackQuorumSize: 1
ctime: 5
customMetadata {{
  key: "k"
  value: "\\303\\244\\n\\x41"
}}
"""


@st.composite
def ledgers(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of ledger_body."""
    ensemble = draw(st.integers(1, 4))
    write = draw(st.integers(1, ensemble))
    ids = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?:[0-9]{2,5}", fullmatch=True)
    steps = draw(st.lists(st.integers(1, 1 << 40), max_size=4))
    members = st.lists(ids, min_size=ensemble, max_size=ensemble)
    return {
        "state": draw(st.sampled_from(list(LedgerState))),
        "quorums": (ensemble, write, draw(st.integers(1, write))),
        "segments": [(first, tuple(draw(members))) for first in accumulate([0, *steps])],
        "last": draw(st.integers(-1, (1 << 62))),
        "length": draw(st.integers(0, (1 << 63) - 1)),
        "ctime": draw(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
        "custom": draw(st.dictionaries(st.text(max_size=10), st.binary(max_size=20), max_size=3)),
        "password": draw(st.binary(max_size=200)),
    }


@given(ledgers())
def test_what_is_written_is_read(arguments: dict[str, Any]) -> None:
    found = decode_ledger(framed(ledger_body(**arguments)))
    closed = arguments["state"] is LedgerState.CLOSED
    assert found == Ledger(
        arguments["state"],
        *arguments["quorums"],
        arguments["last"] if closed else None,
        arguments["length"] if closed else None,
        tuple(Segment(first, bookies) for first, bookies in arguments["segments"]),
        arguments["ctime"],
        arguments["custom"],
    )


@given(ledgers(), st.binary(min_size=1, max_size=3))
def test_a_record_cut_or_continued_is_none(arguments: dict[str, Any], more: bytes) -> None:
    whole = framed(ledger_body(**arguments))
    for length in range(len(whole)):
        with pytest.raises(UndecodableError):
            decode_ledger(whole[:length])
    with pytest.raises(UndecodableError):
        decode_ledger(whole + more)


@given(ledgers(), st.data())
def test_a_record_whose_message_is_cut_lacks_no_segment(arguments: dict[str, Any], data: st.DataObject) -> None:
    """Even where the length fits: one that is read has all segments that what is left of it has."""
    body = ledger_body(**arguments)
    cut = data.draw(st.integers(0, len(body) - 1))
    with contextlib.suppress(UndecodableError):
        found = decode_ledger(framed(body[:cut]))
        assert found.segments == tuple(Segment(*each) for each in arguments["segments"])[: len(found.segments)]
        assert found.ensemble_size == arguments["quorums"][0]


def consistent(found: Ledger) -> bool:
    """Whether it could be a ledger's."""
    firsts = [each.first_entry_id for each in found.segments]
    closed = found.state is LedgerState.CLOSED
    return (
        1 <= found.ack_quorum <= found.write_quorum <= found.ensemble_size
        and bool(firsts)
        and firsts == sorted(set(firsts))
        and firsts[0] >= 0
        and all(len(each.bookies) == found.ensemble_size and all(each.bookies) for each in found.segments)
        and (found.last_entry_id is not None) == (found.length is not None) == closed
    )


@given(st.binary(max_size=300), st.sampled_from([b"", HEADER + b"3\n", HEADER + b"2\n", HEADER]))
def test_any_bytes_are_undecodable_or_a_ledger(data: bytes, before: bytes) -> None:
    for each in (before + data, framed(data)):
        with contextlib.suppress(UndecodableError):
            assert consistent(decode_ledger(each))


@given(ledgers(), st.data())
def test_a_changed_byte_is_undecodable_or_a_ledger(arguments: dict[str, Any], data: st.DataObject) -> None:
    record = bytearray(framed(ledger_body(**arguments)))
    record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UndecodableError):
        assert consistent(decode_ledger(bytes(record)))


@given(st.text(max_size=60), st.integers(0, len(TEXT)))
def test_any_text_in_between_is_undecodable_or_a_ledger(text: str, place: int) -> None:
    with contextlib.suppress(UndecodableError):
        assert consistent(decode_ledger((TEXT[:place] + text + TEXT[place:]).encode()))


def test_version_2() -> None:
    found = decode_ledger(TEXT.encode())
    assert found == Ledger(LedgerState.OPEN, 2, 2, 1, None, None, (Segment(0, (A, B)),), 5, {"k": "ä\nA".encode()})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state: OPEN", "state: open"),
        ("state: OPEN\n", ""),
        ("state: OPEN", "state: 4"),
        ("quorumSize: 2", "quorumSize: 09"),
        ("quorumSize: 2", "quorumSize: 2.0"),
        ("quorumSize: 2", "quorumSize 2"),
        ("quorumSize: 2", "quorumSize: 3000000000"),
        ("quorumSize: 2", "quorumSize: 2\nquorumSize: 2"),
        ("ackQuorumSize: 1\n", ""),
        ("ctime", "newField"),
        ("  firstEntryId: 0\n}\n", "  firstEntryId: 0\n"),
        ("  firstEntryId: 0\n", ""),
        ("}\ndigest", "}}\ndigest"),
        (f'"{A}"', f'"{A}'),
        (f'"{A}"', '"\\377"'),
        (f'"{A}"', '"\\q"'),
        (f'"{A}"', '"a/b"'),
        (f'"{A}"', "5"),
        ("\\x41", "\\u0041"),
    ],
)
def test_texts_that_are_none(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(UndecodableError):
        decode_ledger(TEXT.replace(old, new, 1).encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state: OPEN", "state: 1"),
        ("quorumSize: 2", "quorumSize: 02"),
        ("segment {", "segment: {"),
        (f'"{A}"', f"'{A}'"),
        ("ctime: 5\n", "ctime: 5 # five\n"),
    ],
)
def test_texts_that_bookkeeper_reads_as_well(old: str, new: str) -> None:
    assert old in TEXT
    assert decode_ledger(TEXT.replace(old, new, 1).encode()) == decode_ledger(TEXT.encode())


def test_a_text_without_its_last_newline_is_cut() -> None:
    with pytest.raises(UndecodableError, match="line"):
        decode_ledger(TEXT.encode()[:-1])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}",
        HEADER,
        HEADER + b"3",
        HEADER + b"\n",
        HEADER + b"3\n",
        HEADER + b"-3\n" + framed(PLAIN)[len(HEADER) + 2 :],
        HEADER + b"2\n",
        framed(PLAIN, "1"),
        framed(PLAIN, "4"),
        framed(PLAIN).lower(),
        b" " + framed(PLAIN),
        framed(b""),
        framed(PLAIN) + number_field(13, 1),
        HEADER + b"3\n" + PLAIN,
        HEADER + b"3\n" + b"\x80" * 9 + b"\x02" + PLAIN,
    ],
)
def test_data_that_is_no_ledger(data: bytes) -> None:
    with pytest.raises(UndecodableError):
        decode_ledger(data)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (ledger_body(), "no segments"),
        (ledger_body(segments=[(0, (A,))]), "does not have 2 bookies"),
        (ledger_body(segments=[(0, (A, B)), (0, (A, C))]), "order"),
        (ledger_body(segments=[(5, (A, B)), (3, (A, C))]), "order"),
        (ledger_body(segments=[(-1, (A, B))]), "order"),
        (ledger_body(segments=[(0, (A, "readonly"))]), "is not a bookie id"),
        (ledger_body(segments=[(0, (A, ""))]), "is not a bookie id"),
        (ledger_body(segments=[(0, (A, "b/c"))]), "is not a bookie id"),
        (ledger_body(segments=[(0, (A, B))], quorums=(2, 3, 1)), "quorums"),
        (ledger_body(segments=[(0, (A, B))], quorums=(2, 1, 2)), "quorums"),
        (ledger_body(segments=[(0, (A, B))], quorums=(2, 2, 0)), "quorums"),
        (ledger_body(segments=[(0, (A, B))], state="CLOSED", last=-2), "last entry -2"),
        (ledger_body(segments=[(0, (A, B))], state="CLOSED", length=-1), "length -1"),
        (PLAIN + number_field(5, 3), "field twice"),
        (PLAIN + b"\x50" + b"\xff" * 9 + b"\x02", "out of range"),
        (PLAIN + b"\x50" + b"\x80" * 10 + b"\x00", "corrupt"),
        (PLAIN + number_field(13, 1)[:1], "corrupt"),
        (PLAIN + bytes_field(13, b"abc")[:-1], "corrupt"),
        (PLAIN + b"\x0b", "corrupt"),
        (PLAIN + b"\x00\x00", "corrupt"),
        (PLAIN + b"\x6e", "corrupt"),
        (PLAIN + bytes_field(10, b"\x01"), "no ctime"),
        (PLAIN + number_field(6, 1), "no segment"),
        (PLAIN.replace(number_field(5, 1), number_field(5, 4)), "has no state"),
        (PLAIN.replace(number_field(7, 3), number_field(7, 5)), "no digestType"),
        (PLAIN + number_field(1, 2), "field twice"),
        (PLAIN.replace(number_field(1, 2), number_field(1, -(1 << 33) + 2)), "out of range"),
        (PLAIN.replace(bytes_field(1, A.encode()), bytes_field(1, b"a:\xff181")), "not text"),
        (PLAIN.replace(number_field(5, 1), b""), "has no state"),
        (PLAIN.replace(number_field(3, 0), b""), "has no length"),
        (PLAIN.replace(number_field(1, 2), number_field(1, 1 << 31)), "out of range"),
        (ledger_body(segments=[(0, (A, B))], state="CLOSED").replace(number_field(4, -1), b""), "last entry None"),
        (PLAIN + bytes_field(11, bytes_field(1, b"k")) + bytes_field(11, bytes_field(1, b"k")), "twice"),
        (PLAIN + bytes_field(11, bytes_field(1, b"\xff")), "not text"),
    ],
)
def test_messages_that_are_no_ledger(body: bytes, why: str) -> None:
    with pytest.raises(UndecodableError, match=why):
        decode_ledger(framed(body))


@pytest.mark.parametrize(
    "more", [number_field(13, 1), bytes_field(1000, b"x"), b"\x6d1234", b"\x6912345678", number_field(12, 0)[:0]]
)
def test_fields_of_a_newer_version_are_passed_over(more: bytes) -> None:
    assert decode_ledger(framed(PLAIN + more)) == decode_ledger(framed(PLAIN))


def test_a_field_of_a_newer_version_in_a_segment_is_passed_over() -> None:
    members = b"".join(bytes_field(1, each.encode()) for each in (A, B))
    segment = members + number_field(2, 0)
    newer = PLAIN.replace(bytes_field(6, segment), bytes_field(6, segment + number_field(3, 7)))
    assert newer != PLAIN
    assert decode_ledger(framed(newer)) == decode_ledger(framed(PLAIN))


def test_the_ack_quorum_was_the_write_quorum_once() -> None:
    assert decode_ledger(framed(PLAIN.replace(number_field(9, 2), b""))).ack_quorum == 2


TWO = [(0, (A, B)), (5, (C, B))]


@pytest.mark.parametrize(
    ("state", "last", "segments", "named"),
    [
        ("OPEN", -1, [(0, (A, B))], {A, B}),
        ("OPEN", 3, [(0, (A, B))], {A, B}),  # lastEntryId counts for nothing before it is closed
        ("OPEN", -1, TWO, {A, B, C}),
        ("IN_RECOVERY", -1, [(0, (A, B))], {A, B}),
        ("IN_RECOVERY", -1, TWO, {A, B, C}),
        ("CLOSED", -1, [(0, (A, B))], set()),
        ("CLOSED", 0, [(0, (A, B))], {A, B}),
        ("CLOSED", -1, TWO, set()),
        ("CLOSED", 3, TWO, {A, B}),
        ("CLOSED", 4, TWO, {A, B}),
        ("CLOSED", 5, TWO, {A, B, C}),
        ("CLOSED", 900, TWO, {A, B, C}),
    ],
)
def test_who_is_named(state: str, last: int, segments: list[tuple[int, tuple[str, str]]], named: set[str]) -> None:
    found = decode_ledger(framed(ledger_body(state=state, last=last, segments=segments)))
    assert found.bookies == named
    assert {each for each in (A, B, C, "d:3181", "a", "a:318") if found.names(each)} == named
    assert found.named_of({A, C, "d:3181"}) == named & {A, C}


def test_an_ensemble_larger_than_the_write_quorum_counts_as_a_whole() -> None:
    """BookKeeper would ask whether an entry falls on the bookie; entry 0 falls on the first only."""
    body = ledger_body(state="CLOSED", last=0, quorums=(3, 1, 1), segments=[(0, (A, B, C))])
    assert decode_ledger(framed(body)).bookies == {A, B, C}


def test_the_password_is_not_kept() -> None:
    assert "hunter2" not in repr(decode_ledger(framed(ledger_body(segments=[(0, (A, B))], password=b"hunter2"))))


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("public/default/persistent/a", "persistent://public/default/a"),
        ("public/default/persistent/a%2Fb+c%25-partition-3", "persistent://public/default/a/b c%-partition-3"),
        ("prop/cluster/ns/persistent/a", "persistent://prop/cluster/ns/a"),
        ("public/default/non-persistent/a", None),
        ("public/default/persistent/", None),
        ("default/persistent/a", None),
        ("persistent/a", None),
        ("", None),
    ],
)
def test_topics(name: str, topic: str | None) -> None:
    assert topic_of(name) == topic


@pytest.mark.parametrize(
    ("custom", "use", "topic"),
    [
        ({}, LedgerUse.OTHER, None),
        ({"pulsar/managed-ledger": b"a/b/persistent/c"}, LedgerUse.OTHER, None),
        ({"application": b"pulsar"}, LedgerUse.OTHER, None),
        ({"application": b"pulsar", "component": b"new"}, LedgerUse.OTHER, None),
        ({"application": b"pulsar", "component": b"managed-ledger"}, LedgerUse.DATA, None),
        (
            {"application": b"pulsar", "component": b"managed-ledger", "pulsar/managed-ledger": b"\xff"},
            LedgerUse.DATA,
            None,
        ),
        ({"application": b"pulsar", "component": b"schema", "pulsar/schemaId": b"x"}, LedgerUse.SCHEMA, None),
    ],
)
def test_uses(custom: dict[str, bytes], use: LedgerUse, topic: str | None) -> None:
    found = decode_ledger(framed(ledger_body(segments=[(0, (A, B))], custom=custom)))
    assert (found.use, found.topic, found.cursor) == (use, topic, None)
