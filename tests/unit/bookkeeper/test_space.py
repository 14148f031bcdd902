"""domain/bookkeeper/disk_space.py: whether the bookies that are left have room; and what a ledger says of its size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.bookkeeper.disk_space import (
    GUARD,
    MARGIN,
    describe_shortage,
    shortage,
    size_text,
    unknown_of,
)
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState, Segment
from pulsar_operator.domain.bookkeeper.storage_facts import Space

GIB = 1 << 30
MARK = 0.95
A, B, C = "a:3181", "b:3181", "c:3181"


def disk(percent: float, total: int = 100 * GIB) -> Space:
    return Space(int(total * percent / 100), total)


def peers(**sizes: int) -> dict[frozenset[str], int]:
    """Of ledgers that a, b, ... have too: by their letters."""
    return {frozenset(f"{letter}:3181" for letter in name if letter != "_"): size for name, size in sizes.items()}


CASES = [
    # what is on it, targets and how full they are, the one that is short, and what it would get
    ("room for all", peers(a=10 * GIB, b=10 * GIB), {A: 50, B: 50}, None, 0),
    ("93 % are used", peers(a=10 * GIB, b=10 * GIB), {A: 93, B: 93}, A, 10),
    ("room in all together, and not where it goes", peers(a=40 * GIB), {A: 10, B: 60}, B, 40),
    ("one that gets nothing may be full", peers(a=10 * GIB), {A: 94, B: 50}, None, 0),
    ("an even spread", peers(_=60 * GIB), {A: 60, B: 70, C: 72}, None, 0),
    ("an even spread, and one is too full", peers(_=60 * GIB), {A: 60, B: 70, C: 80}, C, 20),
    ("nothing is on it", {}, {A: 99, B: 99}, None, 0),
    ("beyond the line already", peers(_=GIB), {A: 94, B: 10}, A, 0),
]


@pytest.mark.parametrize(
    ("on", "used", "short", "takes"), [each[1:] for each in CASES], ids=[each[0] for each in CASES]
)
def test_who_is_short_of_room(
    on: dict[frozenset[str], int], used: dict[str, float], short: str | None, takes: int
) -> None:
    disks = {bookie: disk(percent) for bookie, percent in used.items()}
    found = shortage(on, frozenset(used), disks, MARK)
    assert (found.bookie if found is not None else None) == short
    if found is not None:
        assert found.takes // GIB == takes
        text = describe_shortage(found, MARK)
        assert size_text(found.moved) in text and short in text and "95 %" in text


@given(
    st.lists(st.tuples(st.sets(st.sampled_from([A, B, C])), st.integers(0, 200 * GIB)), max_size=5),
    st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 100), min_size=1),
)
def test_where_it_is_let_through_no_bookie_comes_beyond_the_line(
    ledgers: list[tuple[set[str], int]], used: dict[str, int]
) -> None:
    """Spread evenly, as it says."""
    on: dict[frozenset[str], int] = {}
    for others, size in ledgers:
        on[frozenset(others)] = on.get(frozenset(others), 0) + size
    disks = {bookie: disk(percent) for bookie, percent in used.items()}
    if shortage(on, frozenset(used), disks, MARK, MARGIN) is not None:
        return
    after = {bookie: float(space.used) for bookie, space in disks.items()}
    for others, size in on.items():
        eligible = set(used) - others
        for bookie in eligible:
            after[bookie] += size / len(eligible)
    for bookie, space in disks.items():
        if after[bookie] > space.used:
            assert after[bookie] <= (MARK - GUARD) * space.total + 1


def test_a_bookie_that_does_not_say_is_not_empty() -> None:
    on = peers(a=GIB)
    assert unknown_of(on, frozenset({A, B}), {A: disk(1)}) == B
    assert unknown_of(on, frozenset({A, B}), {B: disk(1)}) is None, "nothing goes to a"
    assert unknown_of({}, frozenset({A, B}), {}) is None


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 B"), (1536, "1.5 KiB"), (412 * GIB, "412 GiB"), (1 << 60, "1024 PiB")]
)
def test_sizes_in_words(size: int, text: str) -> None:
    assert size_text(size) == text


def ledger(ensemble: int, write: int, length: int, last: int, *segments: tuple[int, tuple[str, ...]]) -> Ledger:
    return Ledger(
        LedgerState.CLOSED, ensemble, write, write, last, length, tuple(Segment(n, names) for n, names in segments)
    )


def test_bytes_of_a_ledger_on_a_bookie() -> None:
    two = ledger(2, 2, 1000, 9, (0, (A, B)))
    assert two.bytes_on(A) == {frozenset({B}): 1000} and two.bytes_on(C) == {}
    assert two.bytes_on(A, 64) == {frozenset({B}): 1640}
    assert ledger(3, 2, 900, 8, (0, (A, B, C))).bytes_on(A) == {frozenset({B, C}): 600}, "two of three copies"
    moved = ledger(2, 2, 1000, 9, (0, (A, B)), (4, (A, C)), (10, (A, B)))
    assert moved.bytes_on(A) == {frozenset({B}): 400, frozenset({C}): 600}, "nothing was written from 10 on"
    assert ledger(2, 2, 0, -1, (0, (A, B))).bytes_on(A) == {}
    opened = Ledger(LedgerState.OPEN, 2, 2, 2, None, None, (Segment(0, (A, B)),))
    assert opened.bytes_on(A) == {}, "it does not tell"
