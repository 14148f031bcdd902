"""Whole documents of brokers' statistics, read the plain way: what the readers of pieces are held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Cell
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.load import CostModel, Load, figure
from tests.fakes.broker_stats import FakeTopic, topic_stats

Json = dict[str, Any]


def topic_load(stats: Mapping[str, Any]) -> Load:
    """Load of one topic, from its entry in ``GET /broker-stats/topics``."""
    subscriptions = stats.get("subscriptions") or {}
    consumers = sum(len(each.get("consumers") or ()) for each in subscriptions.values())
    replication = (stats.get("replication") or {}).values()
    return Load(
        messages_in=figure(stats.get("msgRateIn")),
        messages_out=figure(stats.get("msgRateOut")) + sum(figure(r.get("msgRateOut")) for r in replication),
        bytes_in=figure(stats.get("msgThroughputIn")),
        bytes_out=figure(stats.get("msgThroughputOut")) + sum(figure(r.get("msgThroughputOut")) for r in replication),
        topics=1,
        sessions=int(figure(stats.get("producerCount"))) + consumers,
    )


def whole_cells(documents: list[Json], cost: CostModel) -> dict[str, tuple[Cell, ...]]:
    """The cells of each namespace, of the documents of some brokers."""
    found: dict[str, dict[int, Cell]] = {}
    for document in documents:
        for namespace, bundles in document.items():
            for domains in bundles.values():
                for topics in domains.values():
                    for name, stats in topics.items():
                        load, at = topic_load(stats), topic_hash(name)
                        before = found.setdefault(namespace, {}).get(at, Cell(at, 0.0, 0, 0))
                        weight = before.weight + cost.cost(load)
                        found[namespace][at] = Cell(at, weight, before.topics + 1, before.clients + load.sessions)
    return {name: tuple(cells[at] for at in sorted(cells)) for name, cells in found.items()}


RATE = st.floats(1e-3, 1e13) | st.sampled_from([0, 1, -1.5, 1e12, 2e12])
COUNT = st.integers(0, 3)


@st.composite
def topics(draw: st.DrawFn) -> FakeTopic:
    """One topic of one of a few namespaces."""
    domain = draw(st.sampled_from(["persistent", "non-persistent"]))
    namespace = draw(st.sampled_from(["t/n", "t/m", "other/n"]))
    subscriptions = draw(st.lists(COUNT, max_size=3))
    name = draw(st.text(min_size=1, max_size=6, alphabet='ab-\u00e9\u2192"\\'))
    return FakeTopic(
        f"{domain}://{namespace}/{name}",
        *(draw(RATE) for _ in range(4)),
        producers=draw(COUNT),
        consumers=subscriptions,
        backlog=draw(st.lists(COUNT, max_size=3)),
        replication=draw(st.lists(st.sampled_from(["b", "c"]), max_size=2, unique=True)),
    )


@st.composite
def documents(draw: st.DrawFn) -> Json:
    """What one broker answers, of up to a dozen topics; a topic is in any bundle, and may be in two."""
    found: Json = {}
    for topic in draw(st.lists(topics(), max_size=12)):
        span = draw(st.sampled_from(["0x00000000_0x80000000", "0x80000000_0xffffffff"]))
        domains = found.setdefault(topic.namespace, {}).setdefault(span, {})
        domains.setdefault(topic.domain, {})[topic.name] = topic_stats(topic)
    return found
