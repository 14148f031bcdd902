"""Topics with real names and their traffic: Zipf over logical topics, some partitioned, some with a hot partition."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_operator.balance.model.cluster import Cell
from pulsar_operator.balance.model.hashing import partition_name, topic_hash
from pulsar_operator.balance.model.load import CostModel, Load

PARTITIONS = (4, 8, 10, 16, 32)
PARTITIONED_SHARE = 0.5
"""Of the logical topics."""
HOT_SHARE = 0.05
"""Of the partitioned topics, when there are hot partitions: those whose keys are uneven."""
HOT_PARTITION = 0.5
"""Of such a topic's traffic goes through one partition."""
WORDS = ("order", "payment", "click", "device", "audit", "invoice", "shipment", "session", "metric", "alert")


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic or partition: what Pulsar hashes, and its messages in and out (as many) and bytes in and out."""

    namespace: str
    position: int
    logical: int
    messages: float
    bytes: float


@dataclass(frozen=True)
class World:
    """All topics of one case."""

    topics: tuple[Topic, ...]

    def cells(self, drift: Mapping[int, float] | None = None) -> dict[str, list[Cell]]:
        """By namespace and ascending position, the cost; `drift` multiplies the traffic of logical topics."""
        cost = CostModel()
        found: dict[str, dict[int, Cell]] = defaultdict(dict)
        for each in self.topics:
            factor = drift[each.logical] if drift else 1.0
            half = each.messages * factor / 2, each.bytes * factor / 2
            weight = cost.cost(Load(half[0], half[0], half[1], half[1], topics=1, sessions=2))
            before = found[each.namespace].get(each.position, Cell(each.position, 0.0, 0))
            found[each.namespace][each.position] = Cell(each.position, before.weight + weight, before.topics + 1)
        return {namespace: [cells[p] for p in sorted(cells)] for namespace, cells in found.items()}

    def drift(self, rng: random.Random, by: float) -> dict[int, float]:
        """A factor for each logical topic, log-normal: its partitions get busier or idler together."""
        return {each: rng.lognormvariate(0.0, by) for each in {topic.logical for topic in self.topics}}


def make(topics: int, namespaces: int, exponent: float, hot: bool, messages: float, rng: random.Random) -> World:
    """About `topics` topics and partitions; `messages` per second in and out together, 1 KiB each."""
    shapes: list[int] = []
    made = 0
    while made < topics:
        shapes.append(rng.choice(PARTITIONS) if rng.random() < PARTITIONED_SHARE else 0)
        made += max(shapes[-1], 1)
    ranks = list(range(1, len(shapes) + 1))
    rng.shuffle(ranks)
    shares = [rank**-exponent for rank in ranks]
    whole = sum(shares)
    found: list[Topic] = []
    for logical, (count, share) in enumerate(zip(shapes, shares, strict=True)):
        chosen = rng.randrange(namespaces)
        namespace = f"tenant-{chosen % 3}/ns-{chosen}"
        name = f"persistent://{namespace}/{rng.choice(WORDS)}-{logical}"
        rate = messages * share / whole
        for full, part in _parts(name, count, hot, rng):
            found.append(Topic(namespace, topic_hash(full), logical, rate * part, rate * part * 1024))
    return World(tuple(found))


def _parts(name: str, count: int, hot: bool, rng: random.Random) -> list[tuple[str, float]]:
    """Full names and shares of a topic's partitions."""
    if count == 0:
        return [(name, 1.0)]
    names = [partition_name(name, index) for index in range(count)]
    if not (hot and rng.random() < HOT_SHARE):
        return [(each, 1.0 / count) for each in names]
    chosen = rng.randrange(count)
    rest = (1.0 - HOT_PARTITION) / (count - 1)
    return [(each, HOT_PARTITION if index == chosen else rest) for index, each in enumerate(names)]
