"""Records that the classes of BookKeeper 4.17.2 write, read exactly: our own encoder may err as the reader does."""

from __future__ import annotations

import pytest

from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState, LedgerUse, Segment, decode_ledger
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.znodes import (
    ledger_id,
    ledger_path,
)
from tests.support.bookkeeper.classes import records
from tests.support.bookkeeper.paths import lock_path, under_replicated_path

CTIME = 1700000000123
PULSAR = {"application": b"pulsar"}
TOPIC = {**PULSAR, "component": b"managed-ledger", "pulsar/managed-ledger": b"public/default/persistent/a"}
SEGMENTS = ((0, (0, 1, 2)), (5, (3, 1, 2)), (9, (3, 4, 2)))


def bookie(ordinal: int) -> str:
    return f"c-bookie-{ordinal}.c-bookie-headless.pulsar.svc.cluster.local:3181"


def segments(*found: tuple[int, tuple[int, ...]]) -> tuple[Segment, ...]:
    return tuple(Segment(first, tuple(bookie(each) for each in members)) for first, members in found)


def one(custom: dict[str, bytes], ctime: int | None = CTIME) -> Ledger:
    return Ledger(LedgerState.OPEN, 1, 1, 1, None, None, segments((0, (0,))), ctime, custom)


IN_RECOVERY = {
    **TOPIC,
    "pulsar/managed-ledger": b"t/n/persistent/a+b%2Bc%C3%A4%25",
    "pulsar/cursor": b"sub/1",
}
COMPACTED = {
    **PULSAR,
    "component": b"compacted-ledger",
    "pulsar/compactedTopic": b"persistent://t/n/a b",
    "pulsar/compactedTo": b"\x00\xff\x7f",
}
DELAYED = {
    **PULSAR,
    "component": b"delayed-index-bucket",
    "pulsar/delayedIndexBucketKey": b"key",
    "pulsar/delayedIndexTopic": b"persistent://t/n/a",
    "pulsar/delayedIndexCursor": b"sub",
}
CLOSED, TWO = LedgerState.CLOSED, segments((0, (0, 1)))
EXPECTED: dict[str, Ledger] = {
    "open": Ledger(
        LedgerState.OPEN,
        2,
        2,
        1,
        None,
        None,
        TWO,
        CTIME,
        {**TOPIC, "pulsar/managed-ledger": b"public/default/persistent/a-partition-3"},
    ),
    "in-recovery": Ledger(
        LedgerState.IN_RECOVERY, 2, 2, 2, None, None, segments((0, (0, 1)), (12, (0, 2))), CTIME, IN_RECOVERY
    ),
    "closed": Ledger(CLOSED, 2, 2, 2, 0, 17, TWO, CTIME, {}),
    "closed-empty": Ledger(CLOSED, 2, 2, 2, -1, 0, TWO, CTIME, {}),
    "segments": Ledger(CLOSED, 3, 2, 1, 8, 1 << 40, segments(*SEGMENTS), CTIME, TOPIC),
    "text": Ledger(CLOSED, 3, 2, 1, 8, 1 << 40, segments(*SEGMENTS), CTIME, TOPIC),
    "text-open": one({}),
    "empty-password": one({}, None),
    "compacted": one(COMPACTED),
    "schema": one({**PULSAR, "component": b"schema", "pulsar/schemaId": b"t/n/a+b"}),
    "delayed": one(DELAYED),
    "foreign": one({"application": b"other", "": b""}),
}
MEANINGS = {
    "open": (LedgerUse.DATA, "persistent://public/default/a-partition-3", None),
    "in-recovery": (LedgerUse.CURSOR, "persistent://t/n/a b+cä%", "sub/1"),
    "compacted": (LedgerUse.COMPACTED, "persistent://t/n/a b", None),
    "schema": (LedgerUse.SCHEMA, "persistent://t/n/a b", None),
    "delayed": (LedgerUse.DELAYED, "persistent://t/n/a", None),
    "foreign": (LedgerUse.OTHER, None, None),
}
NAMED = {
    "open": {0, 1},
    "in-recovery": {0, 1, 2},
    "closed": {0, 1},
    "closed-empty": set(),
    "segments": {0, 1, 2, 3},
    "text": {0, 1, 2, 3},
}


@pytest.fixture(scope="module")
def written() -> dict[str, bytes]:
    return records()


def test_there_is_no_record_that_is_not_read(written: dict[str, bytes]) -> None:
    assert {name for name in written if " " not in name} == {*EXPECTED, "cookie", "first"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_ledger_is_read_exactly(written: dict[str, bytes], name: str) -> None:
    found = decode_ledger(written[name])
    assert found == EXPECTED[name]
    assert name not in MEANINGS or (found.use, found.topic, found.cursor) == MEANINGS[name]
    assert name not in NAMED or found.bookies == {bookie(each) for each in NAMED[name]}


def test_the_oldest_form_is_unknown(written: dict[str, bytes]) -> None:
    with pytest.raises(UndecodableError, match="version 1"):
        decode_ledger(written["first"])


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.startswith("text")])
def test_a_ledger_that_is_cut_anywhere_is_none(written: dict[str, bytes], name: str) -> None:
    for length in range(len(written[name])):
        with pytest.raises(UndecodableError):
            decode_ledger(written[name][:length])


@pytest.mark.parametrize("name", ["text", "text-open"])
def test_a_text_that_is_cut_is_none_or_has_all_its_segments(written: dict[str, bytes], name: str) -> None:
    whole = decode_ledger(written[name])
    for length in range(len(written[name])):
        try:
            found = decode_ledger(written[name][:length])
        except UndecodableError:
            continue
        assert (found.segments, found.state, found.last_entry_id) == (whole.segments, whole.state, whole.last_entry_id)


def test_paths(written: dict[str, bytes]) -> None:
    ids = [int(name.removeprefix("path ")) for name in written if name.startswith("path ")]
    assert len(ids) == 6
    for each in ids:
        assert ledger_path(each) == written[f"path {each}"].decode()
        assert ledger_id(ledger_path(each)) == each
        assert under_replicated_path(each) == written[f"mark {each}"].decode()
        assert lock_path(each) == written[f"lock {each}"].decode()
