"""Answers of any size: what is kept of them is bounded, and whoever says more is unknown."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import boundaries_of
from pulsar_operator.balance.model.pieces import FormatError, Limits
from pulsar_operator.balance.model.statistics import BundleTraffic, TopicTraffic, TopicTrafficByBundle
from pulsar_operator.controllers.core import broker_reads, namespace_reads, traffic
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint, UnavailableError
from tests.support.balancing.answers import answering
from tests.support.balancing.world import LAST, URL, BalancingWorld

FEW = Limits(bundles=3)


@pytest.fixture
def world() -> BalancingWorld:
    made = BalancingWorld()
    made.skewed()
    return made


def traffic_of(world: BalancingWorld) -> Traffic:
    return Traffic(world.deps, AdminEndpoint("east", URL))


def topics(namespaces: int, bundles: int) -> bytes:
    topic = '{"msgRateIn":1,"msgRateOut":1,"msgThroughputIn":1,"msgThroughputOut":1}'
    spans = ",".join(
        f'"0x{number * 16:08x}_0x{number * 16 + 16:08x}":{{"persistent":{{"t{number}":{topic}}}}}'
        for number in range(bundles)
    )
    return ("{" + ",".join(f'"t/n{number}":{{{spans}}}' for number in range(namespaces)) + "}").encode()


def report(bundles: int) -> bytes:
    spans = ",".join(f'"t/n/0x{n * 16:08x}_0x{n * 16 + 16:08x}":{{"topics":1}}' for n in range(bundles))
    return f'{{"lastStats":{{{spans}}}}}'.encode()


@pytest.mark.parametrize(
    ("reader", "fits", "much", "what"),
    [
        (TopicTraffic, topics(3, 5), topics(4, 1), "namespaces"),
        (TopicTrafficByBundle, topics(1, 3), topics(2, 2), "bundles"),
        (BundleTraffic, report(3), report(4), "bundles"),
    ],
)
def test_statistics_without_an_end_are_not_kept(reader: Any, fits: bytes, much: bytes, what: str) -> None:
    for document in (fits, much):
        each = reader(CostModel(), lambda _: False, FEW)
        with contextlib.nullcontext() if document is fits else pytest.raises(FormatError, match=f"more than 3 {what}"):
            each.feed(document)
            each.end()


@pytest.mark.parametrize(
    "boundaries",
    [["0x0", "0x8", "0x4", "0xffffffff"], ["0x0", "0x0", "0xffffffff"], ["0x0"], [], ["0x0", "0x8"], ["0x1ffffffff"]],
)
def test_boundaries_that_bound_nothing_are_none(boundaries: list[str]) -> None:
    with pytest.raises(ValueError, match="no boundaries"):
        boundaries_of({"boundaries": boundaries})


async def test_a_namespace_with_too_many_bundles_is_unknown_and_no_more(
    world: BalancingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_reads, "DEFAULT", Limits(bundles=20))
    world.pulsar.namespace("bank/odd", [0, LAST], world.pulsar.brokers[2])
    many = {"boundaries": [f"{number:#010x}" for number in (*range(30), LAST)]}
    answering(world, lambda asked, path: path[-3:] == ["bank", "odd", "bundles"], many)
    observed = await traffic_of(world).observe()
    assert observed.unread == {"bank/odd": "namespace bank/odd has more than 20 bundles"}
    assert observed.boundaries["bank/odd"] == (0, LAST)


async def test_a_broker_with_too_many_bundles_is_unknown_and_no_more(
    world: BalancingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "DEFAULT", Limits(bundles=20))
    odd = world.pulsar.brokers[1]
    many = {f"bank/odd/{low:#010x}_{low + 1:#010x}": {} for low in range(30)}
    answering(world, lambda asked, path: asked == odd and path[-1] == "ownedNamespaces", many)
    assert set((await traffic_of(world).observe()).silent) == {odd}


async def test_all_brokers_and_namespaces_together_are_bounded(
    world: BalancingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "MOST_BUNDLES", 9)
    observed = await traffic_of(world).observe()
    assert set(observed.silent) == {world.pulsar.brokers[2]}, "each has four"
    monkeypatch.setattr(namespace_reads, "MOST_BUNDLES", 9)
    with pytest.raises(UnavailableError, match="more than 10 bundles"):
        await traffic_of(world).observe()


@pytest.mark.parametrize("answer", [{"a": 1}, "text", 7, [1], [f"b{n}:8080" for n in range(1025)]])
async def test_brokers_that_are_no_list_or_too_many_are_no_answer(world: BalancingWorld, answer: Any) -> None:
    assert broker_reads.MOST_BROKERS == 1024
    answering(world, lambda asked, path: path[1:] == ["brokers"], answer)
    with pytest.raises(UnavailableError):
        await traffic_of(world).observe()
