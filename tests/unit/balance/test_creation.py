"""Boundaries of a new namespace: partitions spread although CRC-32 does not spread them by itself."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.model.hashing import partition_name, topic_hash
from pulsar_operator.balance.model.ranges import boundary_points, even_boundaries
from pulsar_operator.balance.sizing.initial import boundaries_of_new


def brokers(count: int) -> list[Broker]:
    return [Broker(f"broker-{i}:8080") for i in range(count)]


def partitions(topic: str, count: int) -> list[str]:
    return [partition_name(f"persistent://shop/orders/{topic}", i) for i in range(count)]


def per_bundle(boundaries: tuple[str, ...] | list[str], names: list[str]) -> Counter[int]:
    """How many of the names each bundle holds, found as Pulsar does."""
    points = boundary_points(boundaries)
    return Counter(min(bisect_right(points, topic_hash(name)), len(points) - 1) - 1 for name in names)


def most_on_a_broker(held: Counter[int], bundles: int, brokers: int, rng: random.Random) -> int:
    """Names on the fullest broker when the bundles are dealt out evenly by number, as Pulsar does, else by chance."""
    order = list(range(bundles))
    rng.shuffle(order)
    loads = [sum(held[bundle] for bundle in order[start::brokers]) for start in range(brokers)]
    return max(loads)


@pytest.mark.parametrize(
    ("count", "even", "used", "most"),
    [
        (8, 16, 4, 2),
        (8, 32, 4, 2),
        (8, 64, 8, 1),
        (10, 16, 4, 3),
        (16, 16, 6.9, 3.4),
        (16, 64, 15.1, 1.2),
        (32, 16, 11.4, 4.5),
        (32, 64, 28.1, 1.7),
    ],
)
def test_even_bundles_gather_partitions(count: int, even: int, used: float, most: float) -> None:
    """The table of means over 200 topics that the reference gives: the reason for all that follows."""
    held = [per_bundle(even_boundaries(even), partitions(f"topic-{i}", count)) for i in range(200)]
    assert fmean(len(each) for each in held) == pytest.approx(used, rel=0.05)
    assert fmean(max(each.values()) for each in held) == pytest.approx(most, rel=0.08)


@pytest.mark.parametrize("count", [8, 10, 16, 32])
@pytest.mark.parametrize("number", [3, 4, 5, 8])
def test_partitions_of_a_declared_topic_are_even_over_brokers_however_pulsar_deals_the_bundles(
    count: int, number: int
) -> None:
    rng = random.Random(7)
    for i in range(20):
        names = partitions(f"topic-{i}", count)
        found = boundaries_of_new("shop/orders", brokers(number), topics=names)
        bundles = len(found.boundaries) - 1
        held = per_bundle(found.boundaries, names)
        worst = max(most_on_a_broker(held, bundles, number, rng) for _ in range(20))
        assert max(held.values()) == 1
        assert worst == -(-count // number)


@pytest.mark.parametrize("number", [3, 5])
def test_declared_names_come_in_bundles_of_like_number_and_the_bundles_are_a_multiple_of_the_brokers(
    number: int,
) -> None:
    names = [name for i in range(40) for name in partitions(f"t{i}", 8)] + [
        f"persistent://shop/orders/single-{i}" for i in range(100)
    ]
    found = boundaries_of_new("shop/orders", brokers(number), topics=names)
    held = per_bundle(found.boundaries, names)
    bundles = len(found.boundaries) - 1
    assert bundles % number == 0
    assert 64 <= bundles <= 2 * 66 + number
    assert len(held) == bundles
    assert max(held.values()) <= -(-len(names) // 64)
    for i in range(40):
        assert max(per_bundle(found.boundaries, partitions(f"t{i}", 8)).values()) == 1
    assert f"{bundles} bundles follow from 420 declared" in found.reason


def test_partitions_of_a_large_topic_are_nearly_even_over_brokers() -> None:
    rng = random.Random(7)
    names = partitions("large", 500)
    found = boundaries_of_new("shop/orders", brokers(5), topics=names)
    held = per_bundle(found.boundaries, names)
    assert most_on_a_broker(held, len(found.boundaries) - 1, 5, rng) <= 1.05 * 500 / 5


def test_very_many_declared_topics_do_not_make_very_many_bundles() -> None:
    # To part all partitions of a topic would take 400 bundles: CRC-32 puts many of 32 close together.
    names = [name for i in range(500) for name in partitions(f"t{i}", 32)]
    found = boundaries_of_new("shop/orders", brokers(3), topics=names)
    assert len(found.boundaries) - 1 <= 2 * 66 + 3


@pytest.mark.parametrize(
    ("number", "bundles"), [(0, 64), (1, 64), (3, 66), (4, 64), (5, 65), (10, 70), (16, 64), (20, 80), (100, 400)]
)
def test_without_knowledge_even_bundles_are_a_multiple_of_the_brokers(number: int, bundles: int) -> None:
    found = boundaries_of_new("shop/orders", brokers(number))
    assert list(found.boundaries) == even_boundaries(bundles)
    assert "no traffic and no topics are known" in found.reason


def test_fewer_topics_than_brokers_say_too_little() -> None:
    found = boundaries_of_new("shop/orders", brokers(5), topics=["persistent://shop/orders/one"])
    assert len(found.boundaries) - 1 == 65
    assert "only 1 topics are declared" in found.reason


def test_observed_traffic_comes_first_and_draining_brokers_do_not_count() -> None:
    cells = [Cell(i << 20, 1.0) for i in range(1000)]
    able = [*brokers(2), Broker("old:8080", draining=True)]
    found = boundaries_of_new("shop/orders", able, cells=cells, topics=partitions("t", 64))
    points = boundary_points(found.boundaries)
    # No bundle is more than 5 % of all traffic.
    assert 20 <= len(points) - 1 <= 24
    assert points[-2] <= 1000 << 20
    assert "observed traffic" in found.reason
    idle = [Cell(1, 0.0)]
    assert "declared" in boundaries_of_new("shop/orders", able, cells=idle, topics=partitions("t", 64)).reason


@settings(deadline=None)
@given(
    st.integers(1, 9),
    st.lists(st.tuples(st.text(min_size=1, max_size=8), st.integers(1, 40)), max_size=12, unique_by=lambda e: e[0]),
)
def test_any_declared_names_give_boundaries_that_pulsar_takes(number: int, topics: list[tuple[str, int]]) -> None:
    names = [name for topic, count in topics for name in partitions(topic, count)]
    found = boundaries_of_new("shop/orders", brokers(number), topics=names)
    points = boundary_points(found.boundaries)
    assert all(a < b for a, b in pairwise(points))
    if len(names) >= number:
        assert all(per_bundle(found.boundaries, names)[i] for i in range(len(points) - 1))
