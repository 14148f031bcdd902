"""Paths of BookKeeper's nodes, and what is in those that are no ledgers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.znodes import (
    Mark,
    ledger_id,
    ledger_path,
    levels_below,
    marked_ledger,
    parse_auditor,
    parse_mark,
)
from tests.support.bookkeeper.paths import lock_path, under_replicated_path

IDS = st.integers(0, 2**63 - 1) | st.integers(0, 2**32)


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


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_undecodable(data: bytes) -> None:
    with contextlib.suppress(UndecodableError):
        parse_mark(data)
    assert isinstance(parse_auditor(data), str)


@given(st.text(max_size=40))
def test_the_auditor_is_a_string_of_json(text: str) -> None:
    import json

    assert parse_auditor(json.dumps(text).encode()) == text
