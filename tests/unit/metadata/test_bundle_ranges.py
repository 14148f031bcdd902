"""Bundle ranges against the values Pulsar computes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.ranges import HASH_SPACE, LAST_BOUNDARY, even_boundaries


@pytest.mark.parametrize(
    ("n", "boundaries"),
    [
        (1, ["0x00000000", "0xffffffff"]),
        (2, ["0x00000000", "0x80000000", "0xffffffff"]),
        (3, ["0x00000000", "0x55555555", "0xaaaaaaaa", "0xffffffff"]),
        (4, ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]),
        (5, ["0x00000000", "0x33333333", "0x66666666", "0x99999999", "0xcccccccc", "0xffffffff"]),
        (16, [f"0x{i:x}0000000" for i in range(16)] + ["0xffffffff"]),
    ],
)
def test_boundaries_are_those_of_pulsar(n: int, boundaries: list[str]) -> None:
    assert even_boundaries(n) == boundaries


@given(st.integers(1, 5000))
def test_boundaries_cut_the_whole_space_into_n_parts_of_one_width_but_the_last(n: int) -> None:
    points = [int(text, 16) for text in even_boundaries(n)]
    assert len(points) == n + 1
    assert (points[0], points[-1]) == (0, LAST_BOUNDARY)
    widths = {b - a for a, b in itertools.pairwise(points[:-1])}
    assert widths <= {HASH_SPACE // n}
    assert points[-1] - points[-2] + 1 >= HASH_SPACE // n


@pytest.mark.parametrize("n", [0, -1, 1 << 32])
def test_a_number_of_bundles_out_of_range_is_named(n: int) -> None:
    with pytest.raises(ValueError, match=f"number of bundles is {n}"):
        even_boundaries(n)
