"""Paths of BookKeeper's nodes, and what is in those that are no ledgers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.znodes import (
    Cookie,
    Mark,
    ledger_id,
    ledger_path,
    levels_below,
    lock_path,
    marked_ledger,
    parse_auditor,
    parse_bookie_id,
    parse_cookie,
    parse_delay,
    parse_mark,
    under_replicated_path,
)

IDS = st.integers(0, 2**63 - 1) | st.integers(0, 2**32)
COOKIE = b"""5
bookieHost: "c-bookie-0.h.ns.svc.cluster.local:3181"
journalDir: "/pulsar/data/journal-0"
ledgerDirs: "2\\t/pulsar/data/ledgers-0\\t/pulsar/data/ledgers-1"
instanceId: "the-id"
"""


@given(IDS)
def test_a_ledger_has_one_path(number: int) -> None:
    path = ledger_path(number)
    assert ledger_id(path) == number
    top, *levels = path.split("/")[2:-1]
    assert levels_below(top) == len(levels)


@pytest.mark.parametrize(
    ("number", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (2**31 - 2, "/ledgers/21/4748/L3646"),
        (2**31 - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_where_the_long_layout_begins(number: int, path: str) -> None:
    assert ledger_path(number) == path


@given(IDS)
def test_a_mark_tells_its_ledger(number: int) -> None:
    path = under_replicated_path(number)
    assert path.count("/") == 8
    name = path.rpartition("/")[2]
    assert marked_ledger(name) == number
    assert lock_path(number).endswith(f"/locks/{name}")


@given(st.text(max_size=30))
def test_other_paths_are_no_ledgers(text: str) -> None:
    with pytest.raises(UndecodableError):
        ledger_id(f"/ledgers/{text}")


@pytest.mark.parametrize(
    "path",
    [
        "/ledgers/00/0000/L0000/",
        "/ledgers/00/0000/0000",
        "/ledgers/00/000a/L0000",
        "/ledgers/٠٠/0000/L0000",
        "00/0000/L0",
    ],
)
def test_paths_that_are_no_ledgers(path: str) -> None:
    with pytest.raises(UndecodableError):
        ledger_id(path)


@pytest.mark.parametrize("number", [-1, 2**63])
def test_ids_that_no_ledger_has(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        ledger_path(number)


@pytest.mark.parametrize(
    ("name", "levels"),
    [("00", 1), ("21", 1), ("000", 3), ("922", 3), ("0", None), ("0000", None), ("available", None), ("٠٠", None)],
)
def test_branches_of_ledgers(name: str, levels: int | None) -> None:
    assert levels_below(name) == levels


@pytest.mark.parametrize("name", ["0000", "ffff", "locks", ""])
def test_a_level_is_no_mark(name: str) -> None:
    assert marked_ledger(name) is None


def test_a_cookie() -> None:
    cookie = Cookie(
        "c-bookie-0.h.ns.svc.cluster.local:3181",
        ("/pulsar/data/journal-0",),
        ("/pulsar/data/ledgers-0", "/pulsar/data/ledgers-1"),
        "the-id",
    )
    assert parse_cookie(COOKIE) == cookie
    assert parse_cookie(COOKIE.replace(b'instanceId: "the-id"\n', b"")).instance_id is None
    assert parse_cookie(COOKIE.replace(b"5\n", b"4\n", 1)) == cookie


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"5\n", b""),
        (b"5\n", b"3\n"),
        (b"5\n", b"6\n"),
        (b"5\n", b"five\n"),
        (b"5\n", b"5"),
        (b'journalDir: "/pulsar/data/journal-0"\n', b""),
        (b'"2\\t', b'"3\\t'),
        (b'"2\\t', b'"'),
        (b"c-bookie-0.h", b"c/bookie"),
        (b'"the-id"\n', b'"the-id"'),
        (b"instanceId", b"newField"),
    ],
)
def test_data_that_is_no_cookie(old: bytes, new: bytes) -> None:
    assert old in COOKIE
    with pytest.raises(UndecodableError):
        parse_cookie(COOKIE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("data", "mark"),
    [
        (b"", Mark((), None)),
        (b'replica: "a:1"\nreplica: "b:1"\nctime: 1700000000000\n', Mark(("a:1", "b:1"), 1700000000000)),
        (b"ctime: -1\n", Mark((), None)),
        (b'replica: "a:1"\n', Mark(("a:1",), None)),
    ],
)
def test_marks(data: bytes, mark: Mark) -> None:
    assert parse_mark(data) == mark


@pytest.mark.parametrize(
    "data", [b"x", b"ctime: 17", b"ctime: x\n", b'replica "a"\n', b"\xff", b"ctime: 1\nctime: 1\n"]
)
def test_data_that_is_no_mark(data: bytes) -> None:
    with pytest.raises(UndecodableError):
        parse_mark(data)


@pytest.mark.parametrize("text", ["", "a/b", "a b", "readonly", "ReadOnly", "ä:1", "a:1\n"])
def test_names_that_are_no_bookie(text: str) -> None:
    with pytest.raises(UndecodableError):
        parse_bookie_id(text)


@pytest.mark.parametrize("text", ["10.0.0.1:3181", "c-bookie-0.h.ns.svc.cluster.local:3181", "some_id"])
def test_names_of_bookies(text: str) -> None:
    assert parse_bookie_id(text) == text


@pytest.mark.parametrize("data", [b"", b" 5", b"5\n", b"1.5", b"0x5", b"five", "٥".encode(), b"99999999999"])
def test_data_that_is_no_delay(data: bytes) -> None:
    with pytest.raises(UndecodableError):
        parse_delay(data)


def test_delays() -> None:
    assert [parse_delay(data) for data in (b"0", b"600", b"-1")] == [0, 600, -1]


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_undecodable(data: bytes) -> None:
    for parse in (parse_cookie, parse_mark, parse_delay):
        with contextlib.suppress(UndecodableError):
            parse(data)
    assert isinstance(parse_auditor(data), str)


@given(st.text(max_size=40))
def test_the_auditor_is_a_string_of_json(text: str) -> None:
    import json

    assert parse_auditor(json.dumps(text).encode()) == text
