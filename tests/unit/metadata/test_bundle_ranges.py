"""Bundle ranges against the values Pulsar computes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.observation import full_bundle
from pulsar_operator.balance.model.ranges import HASH_SPACE, LAST_BOUNDARY, even_boundaries, range_points


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


@given(st.lists(st.integers(0, LAST_BOUNDARY), min_size=2, max_size=2, unique=True))
def test_a_range_reads_as_it_is_written(points: list[int]) -> None:
    bundle = BundleId("t/n", *sorted(points))
    assert range_points(bundle.range) == (bundle.lower, bundle.upper)
    assert full_bundle(str(bundle)) == bundle


@pytest.mark.parametrize(
    "text",
    [
        *("", "_", "0x00000000", "0x00000000_", "_0x40000000", "0x00000000_0x40000000_0x80000000"),
        *("0x40000000_0x00000000", "0x40000000_0x40000000", "-0x1000000_0x40000000", "0x0000000_0x40000000"),
        *("0x00000000_0x140000000", "00000000_40000000", "0x00000000_0x4000_000", "0x00000000_0x4000000\u0660"),
    ],
)
def test_what_is_no_range_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range of a bundle"):
        range_points(text)
    assert full_bundle(f"t/n/{text}") is None
