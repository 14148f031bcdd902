"""How an hour is cut: every row is in exactly one piece, and few are read twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_sizing.job.compute import dealt
from pulsar_sizing.job.pieces import END, Group, Piece, cut, positions_of

SPAN = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (min(pair), max(pair)))
SPANS = st.one_of(SPAN, st.just((-1, END - 1)))
GROUPS = st.lists(st.tuples(st.integers(1, 9), SPANS, SPANS), min_size=1, max_size=12)


def reads(piece: Piece, path: str, position: int, time: int) -> bool:
    low, high = piece.positions
    begin, end = piece.times
    return any(name == path for name, _ in piece.groups) and low <= position < high and begin <= time < end


@given(GROUPS, st.integers(1, 20))
def test_every_row_is_in_one_piece(content: list[tuple[int, tuple[int, int], tuple[int, int]]], most: int) -> None:
    groups = [Group(f"f{n}", 0, *each) for n, each in enumerate(content)]
    pieces = cut(7, groups, None, most)
    assert len({piece.name for piece in pieces}) == len(pieces), "each has a file of its own"
    assert all(piece.groups for piece in pieces)
    for group in groups:
        for position in group.positions:
            for time in group.times:
                assert sum(reads(piece, group.path, position, time) for piece in pieces) == 1
    assert sum(map(len, dealt(pieces, 3))) == len(pieces)


@pytest.mark.parametrize(
    ("positions", "said"), [((-1, END), (0, 1 << 32)), ((0, 30), (0, 30)), ((30, END), (30, 1 << 32))]
)
def test_the_name_of_a_file_tells_its_positions(positions: tuple[int, int], said: tuple[int, int]) -> None:
    name = Piece(7, (), 0, positions, (5, END)).name
    assert positions_of(f"{name}.parquet") == said


@pytest.mark.parametrize("name", ["", "0x00000000_0x80000000", "0-80000000-0", "00000000a-00000000a-0", "_SUCCESS"])
def test_another_name_tells_nothing(name: str) -> None:
    with pytest.raises(ValueError, match="no file of the state"):
        positions_of(name)


def test_a_sorted_hour_is_cut_by_position_without_reading_twice() -> None:
    groups = [Group("hour", n, 100, (10 * n, 10 * n + 9), (0, 3600)) for n in range(9)]
    pieces = cut(7, groups, None, 300)
    assert [piece.groups for piece in pieces] == [(("hour", tuple(range(n, n + 3))),) for n in (0, 3, 6)]
    assert [piece.positions for piece in pieces] == [(-1, 30), (30, 60), (60, END)]


def test_rounds_of_an_hour_that_is_not_compacted_are_cut_by_time() -> None:
    groups = [Group(f"{minute}-{broker}", 0, 100, (0, 99), (minute, minute)) for minute in range(6) for broker in "ab"]
    pieces = cut(7, groups, None, 400)
    assert [piece.times for piece in pieces] == [(-1, 2), (2, 4), (4, END)]
    assert [piece.rows for piece in pieces] == [400, 400, 400]


def test_no_files_no_pieces() -> None:
    assert cut(7, [], None) == []
