"""Topics with real names at their real CRC positions, and their traffic minute by minute."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import fsum
from operator import mul, sub
from typing import NamedTuple, Protocol

from benchmarks.simulator.state import Rates
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY


@dataclass(frozen=True)
class Topic:
    """One topic or partition."""

    name: str
    """Full name with domain and partition suffix."""
    rate: float
    """Messages published per second in a quiet hour."""
    group: int = 0
    """Partitions of one topic have one group: their traffic moves together."""
    size: float = 1024.0
    """Bytes a message."""
    fanout: float = 1.0
    """Times a message is dispatched."""
    hidden: float = 1.0
    """What it truly costs a broker, over what its bytes and messages say (compression, batches, acknowledgements)."""
    position: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", topic_hash(self.name))

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        return "/".join(self.name.split("://")[1].split("/")[:2])


class Trace(Protocol):
    """Traffic as a function of the minute."""

    def factors(self, minute: int) -> Sequence[float]:
        """What to multiply each topic's rate with, in the order of the topics; asked once for each minute, in order."""
        ...


class Sample(NamedTuple):
    """One minute: sums of all topics before each index, so that any range of topics is one subtraction."""

    messages: list[float]
    messages_out: list[float]
    bytes_in: list[float]
    bytes_out: list[float]
    costs: list[float]
    """What the bytes and messages say (`load.CostModel`)."""
    paid: list[float]
    """What it truly costs a broker; nobody but the broker can see it, and only the sum of all it carries."""


class Recording:
    """Topics in the order of the hash space, and every minute of a trace, worked out once for all strategies."""

    def __init__(self, topics: Sequence[Topic], costs: CostModel | None = None) -> None:
        self.topics = sorted(topics, key=lambda topic: (topic.namespace, topic.position))
        self.namespaces: dict[str, tuple[int, int]] = {}
        for index, topic in enumerate(self.topics):
            first = self.namespaces.get(topic.namespace, (index, index))[0]
            self.namespaces[topic.namespace] = (first, index + 1)
        self.positions = [topic.position for topic in self.topics]
        self._fanouts = [topic.fanout for topic in self.topics]
        self._sizes = [topic.size for topic in self.topics]
        self._out_sizes = [topic.size * topic.fanout for topic in self.topics]
        model = costs or CostModel()
        self._idle = model.cost(Load(topics=1, sessions=2))
        self._message_costs = [
            model.cost(Load(1.0, topic.fanout, topic.size, topic.size * topic.fanout)) for topic in self.topics
        ]
        self._base = [topic.rate for topic in self.topics]
        self._hidden = [topic.hidden for topic in self.topics]
        self._minutes: list[Sample] = []
        self._hottest: list[float] = []

    def total_cost(self) -> float:
        """What all topics cost brokers per second at their quiet rate, hidden costs included."""
        costs = (cost + self._idle for cost in map(mul, self._base, self._message_costs))
        return fsum(map(mul, costs, self._hidden))

    def record(self, trace: Trace, minutes: int) -> None:
        """Work out all minutes of a trace."""
        for minute in range(minutes):
            rates = list(map(mul, self._base, trace.factors(minute)))
            costs = [cost + self._idle for cost in map(mul, rates, self._message_costs)]
            paid = list(map(mul, costs, self._hidden))
            self._hottest.append(max(paid))
            self._minutes.append(
                Sample(
                    *(
                        list(accumulate(values, initial=0.0))
                        for values in (
                            rates,
                            map(mul, rates, self._fanouts),
                            map(mul, rates, self._sizes),
                            map(mul, rates, self._out_sizes),
                            costs,
                            paid,
                        )
                    )
                )
            )

    def __len__(self) -> int:
        return len(self._minutes)

    def at(self, minute: int) -> Sample:
        """One recorded minute."""
        return self._minutes[minute]

    def slice(self, bundle: BundleId) -> tuple[int, int]:
        """First and last + 1 index of the topics in a bundle."""
        first, last = self.namespaces.get(bundle.namespace, (0, 0))
        start = bisect_left(self.positions, bundle.lower, first, last)
        return start, last if bundle.upper == LAST_BOUNDARY else bisect_left(self.positions, bundle.upper, start, last)

    def hottest(self, minute: int) -> float:
        """What the costliest topic costs its broker, hidden costs included: no cut can divide it."""
        return self._hottest[minute]


class Window:
    """One minute of a recording under the bundles of one world; fits `state.Traffic`."""

    def __init__(self, recording: Recording, slices: Mapping[BundleId, tuple[int, int]], minute: int) -> None:
        self._recording = recording
        self._slices = slices
        self._minute = minute
        self._sample = recording.at(minute)

    def rates(self, bundle: BundleId) -> Rates:
        """As Traffic."""
        start, end = self._slices[bundle]
        sums = self._sample
        return Rates(
            sums.messages[end] - sums.messages[start],
            sums.messages_out[end] - sums.messages_out[start],
            sums.bytes_in[end] - sums.bytes_in[start],
            sums.bytes_out[end] - sums.bytes_out[start],
        )

    def cost(self, bundle: BundleId) -> float:
        """As Traffic."""
        start, end = self._slices[bundle]
        return self._sample.costs[end] - self._sample.costs[start]

    def topics(self, bundle: BundleId) -> int:
        """As Traffic."""
        start, end = self._slices[bundle]
        return end - start

    def sessions(self, bundle: BundleId) -> int:
        """As Traffic: a producer and a consumer for each topic."""
        return 2 * self.topics(bundle)

    def positions(self, bundle: BundleId) -> tuple[int, ...]:
        """As Traffic."""
        start, end = self._slices[bundle]
        return tuple(self._recording.positions[start:end])

    def costs(self, bundle: BundleId) -> tuple[float, ...]:
        """As Traffic."""
        start, end = self._slices[bundle]
        sums = self._sample.costs[start : end + 1]
        return tuple(map(sub, sums[1:], sums))

    def bundles(self) -> Mapping[BundleId, tuple[int, int]]:
        """As Traffic."""
        return self._slices
