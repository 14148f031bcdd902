"""benchmarks/traffic: its brokers say the same of their topics and of their bundles, in a document that can be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.traffic.brokers import Cluster
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import BundleLoad
from pulsar_operator.balance.model.statistics import BundleTraffic, TopicTrafficByBundle


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(2000, [f"b{n}:1" for n in range(7)], namespaces=3, bundles=8, rate=1.0, delay=0.0)


def nothing(_: str) -> bool:
    return False


def read(make: Callable[..., Any], data: str) -> dict[Any, BundleLoad]:
    reader = make(CostModel(), nothing)
    reader.feed(data.encode())
    reader.end()
    bundles: dict[Any, BundleLoad] = reader.bundles
    return bundles


def test_topics_and_bundles_agree(cluster: Cluster) -> None:
    seen = 0
    for broker in cluster.brokers:
        topics = read(TopicTrafficByBundle, "".join(cluster.statistics(broker)))
        bundles = read(BundleTraffic, json.dumps(cluster.report(broker)))
        assert {str(each) for each in topics} == {
            f"{name}/{cluster.span(index)}" for name, index in cluster.owned(broker)
        }
        assert bundles.keys() == topics.keys()
        for bundle, load in topics.items():
            assert bundles[bundle] == (pytest.approx(load.weight, rel=1e-3), load.topics, load.clients)
        seen += sum(load.topics for load in topics.values())
    assert seen == 2000
    assert len(cluster.owned("b0:1")) > 2 * len(cluster.owned("b6:1")), "there is something to even out"
