"""Extracts the traffic of topics and bundles, and the usage of brokers, from the pieces of brokers' statistics.

``GET /broker-stats/load-report`` has the figures of ``GET /broker-stats/topics`` (topic_statistics.py) by bundle, under
``lastStats``, where the modular load manager runs (Pulsar's classes LocalBrokerData and NamespaceBundleStats).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from pulsar_operator.balance.model.cells import CellBuffer
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.load import CostModel, figure
from pulsar_operator.balance.model.observation import NOTHING, RESOURCES, BundleLoad, full_bundle
from pulsar_operator.balance.model.pieces import DEFAULT, FormatError, Limits, Pieces, kind_of, position_of
from pulsar_operator.balance.model.topic_statistics import RATES, TopicFigures, TopicsReader

BUNDLE_FIELDS: Final = frozenset({*RATES, "topics", "producerCount", "consumerCount"})
"""Of a bundle in a load report; a document without an end may have any number of others."""


class _TopicStatistics(ABC):
    """Feed it a broker's ``GET /broker-stats/topics`` piece by piece; it keeps something of each topic."""

    def __init__(self, cost: CostModel, skips: Callable[[str], bool], limits: Limits = DEFAULT) -> None:
        """``skips`` says which namespaces are left out."""
        self._cost, self._most = cost, limits.bundles
        self._reader = TopicsReader(self._add, skips, limits)

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises FormatError."""
        self._reader.feed(data)

    def end(self) -> None:
        """The document ended. Raises FormatError where it is empty or cut."""
        self._reader.end()

    @abstractmethod
    def _add(self, namespace: str, bundle: str, topic: str, figures: TopicFigures) -> None:
        """Take one topic. Raises FormatError where there are too many namespaces or bundles."""


class TopicTraffic(_TopicStatistics):
    """It keeps 20 bytes of each topic."""

    def __init__(self, cost: CostModel, skips: Callable[[str], bool], limits: Limits = DEFAULT) -> None:
        """See _TopicStatistics."""
        super().__init__(cost, skips, limits)
        self.namespaces: dict[str, CellBuffer] = {}

    def _add(self, namespace: str, bundle: str, topic: str, figures: TopicFigures) -> None:
        clients = clients_of(figures)
        found = self.namespaces.get(namespace)
        if found is None:
            if len(self.namespaces) >= self._most:
                raise FormatError(f"of more than {self._most} namespaces")
            found = self.namespaces.setdefault(namespace, CellBuffer())
        found.add(position_of(topic), topic_cost(self._cost, figures, clients), 1, clients)


class TopicTrafficByBundle(_TopicStatistics):
    """It keeps the weight of each bundle."""

    def __init__(self, cost: CostModel, skips: Callable[[str], bool], limits: Limits = DEFAULT) -> None:
        """See _TopicStatistics."""
        super().__init__(cost, skips, limits)
        self._place: tuple[str, str] = ("", "")
        self._bundle: BundleId | None = None
        self.bundles: dict[BundleId, BundleLoad] = {}

    def _add(self, namespace: str, bundle: str, topic: str, figures: TopicFigures) -> None:
        if (namespace, bundle) != self._place:
            self._place, self._bundle = (namespace, bundle), full_bundle(f"{namespace}/{bundle}")
        if self._bundle is not None:
            weight, topics, before = self.bundles.get(self._bundle, NOTHING)
            clients = clients_of(figures)
            weight += topic_cost(self._cost, figures, clients)
            self.bundles[self._bundle] = BundleLoad(weight, topics + 1, before + clients)
            if len(self.bundles) > self._most:
                raise FormatError(f"of more than {self._most} bundles")


def clients_of(figures: TopicFigures) -> int:
    """Producers and consumers of one topic."""
    return int(figure(figures.producers)) + figures.consumers


def topic_cost(cost: CostModel, figures: TopicFigures, clients: int) -> float:
    """Returns what one topic costs a broker. What replicators send to other clusters is traffic out as well."""
    return cost.of(
        messages_in=figure(figures.messages_in),
        messages_out=figure(figures.messages_out) + figures.replicated_messages,
        bytes_in=figure(figures.bytes_in),
        bytes_out=figure(figures.bytes_out) + figures.replicated_bytes,
        topics=1,
        sessions=clients,
    )


class _Figures(ABC):
    """Feed it a document piece by piece."""

    def __init__(self, limits: Limits) -> None:
        self._pieces = Pieces(limits)
        self._depth = 0

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises FormatError."""
        for events in self._pieces.feed(data):
            for event, value in events:
                self._read(event, value)

    def end(self) -> None:
        """The document ended. Raises FormatError where it is empty or cut."""
        self._pieces.end()

    @abstractmethod
    def _read(self, event: str, value: Any) -> None:
        """Take one event of the parser. Raises FormatError where the document is of another form."""


class BundleTraffic(_Figures):
    """Feed it a broker's ``GET /broker-stats/load-report`` piece by piece; it keeps the weight of each bundle."""

    def __init__(self, cost: CostModel, skips: Callable[[str], bool], limits: Limits = DEFAULT) -> None:
        """``skips`` says which namespaces are left out."""
        super().__init__(limits)
        self._cost, self._skips, self._most = cost, skips, limits.bundles
        self._section = self._bundle = self._field = ""
        self._fields: dict[str, float] = {}
        self.bundles: dict[BundleId, BundleLoad] = {}
        self.found = False
        """Whether there are statistics of bundles at all."""

    def end(self) -> None:
        """The document ended. Raises FormatError where it is cut or has no statistics of bundles."""
        super().end()
        if not self.found:
            raise FormatError("not a load report with statistics of bundles")

    def _read(self, event: str, value: Any) -> None:
        if event == "map_key":
            if self._depth == 1:
                self._section = value
                self.found |= value == "lastStats"
            elif self._depth == 2:
                self._bundle = value
            elif self._depth == 3:
                self._field = value
        elif event in {"start_map", "start_array"}:
            if self._depth == 0 and event == "start_array":
                raise FormatError("not a load report, because the value at the top is of type list instead of map")
            self._depth = self._pieces.deeper(self._depth)
            self._fields = {} if self._depth == 3 else self._fields
        elif event in {"end_map", "end_array"}:
            self._depth -= 1
            if self._depth == 2 and self._section == "lastStats":
                self._add()
        elif self._depth == 3:
            if self._field in BUNDLE_FIELDS:
                self._fields[self._field] = figure(value)
        elif self._depth == 0:
            raise FormatError(
                f"not a load report, because the value at the top is of type {kind_of(event)} instead of map"
            )

    def _add(self) -> None:
        bundle, fields = full_bundle(self._bundle), self._fields
        if bundle is None or self._skips(bundle.namespace):
            return
        topics = int(fields.get("topics", 0.0))
        clients = int(fields.get("producerCount", 0.0)) + int(fields.get("consumerCount", 0.0))
        weight = self._cost.of(
            messages_in=fields.get("msgRateIn", 0.0),
            messages_out=fields.get("msgRateOut", 0.0),
            bytes_in=fields.get("msgThroughputIn", 0.0),
            bytes_out=fields.get("msgThroughputOut", 0.0),
            topics=topics,
            sessions=clients,
        )
        self.bundles[bundle] = BundleLoad(weight, topics, clients)
        if len(self.bundles) > self._most:
            raise FormatError(f"of more than {self._most} bundles")


class UsageFigures(_Figures):
    """Feed it a broker's ``GET /broker-stats/metrics`` piece by piece: a list of dimensions with metrics, of which many
    brokers have one for each namespace. It keeps the largest figure of each resource that a broker can run out of."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        super().__init__(limits)
        self._section = self._name = ""
        self._most: dict[str, float] = {}

    @property
    def report(self) -> list[dict[str, dict[str, float]]]:
        """Returns an item with these figures, as observation.usage_of takes it; none where there are none."""
        return [{"metrics": dict(self._most)}] if self._most else []

    def _read(self, event: str, value: Any) -> None:
        if event == "map_key":
            if self._depth == 2:
                self._section = value
            elif self._depth == 3:
                self._name = value
        elif event in {"start_map", "start_array"}:
            if self._depth == 0 and event == "start_map":
                raise FormatError("not a broker-stats/metrics document, because it is a map instead of a list")
            self._depth = self._pieces.deeper(self._depth)
        elif event in {"end_map", "end_array"}:
            self._depth -= 1
        elif self._depth == 3 and self._section == "metrics" and self._name in RESOURCES:
            self._most[self._name] = max(self._most.get(self._name, 0.0), figure(value))
        elif self._depth == 0:
            raise FormatError(
                f"not a broker-stats/metrics document, because it is a {kind_of(event)} instead of a list"
            )
