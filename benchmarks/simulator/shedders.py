"""Pulsar's load shedding strategies, re-built from their published rules (not their code).

Sources: classes of the same names in org.apache.pulsar.broker.loadbalance.impl and .extensions.scheduler as compiled in
4.0.8; PIP-364; issue #17456.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt

from benchmarks.simulator.state import Averages, Rates, Report, Settings, State, Unload
from pulsar_operator.balance.model.cluster import BundleId

__all__ = ["AvgShedder", "OverloadShedder", "ThresholdShedder", "TransferShedder", "UniformLoadShedder"]

MARGIN = 0.05
"""Share that Threshold and Overload shed beyond their target."""
LOWER_BOUNDARY_MARGIN = 0.5
SLACK = 1000.0
"""By how much a bundle may exceed what UniformLoadShedder still wants to shed."""


def _movable(state: State, broker: str, weigh: Callable[[Averages], float]) -> list[tuple[BundleId, float]]:
    """Bundles of a broker's report that were not unloaded lately, the heaviest first, by their short-term average."""
    known = state.averages
    found = [
        (bundle, weigh(known[bundle]))
        for bundle in state.reports[broker].bundles
        if bundle in known and bundle not in state.unloaded
    ]
    return sorted(found, key=lambda pair: -pair[1])


def _until(state: State, broker: str, wanted: float) -> list[tuple[str, BundleId]]:
    """The heaviest bundles until their throughput reaches what is wanted, at least one."""
    picked: list[tuple[str, BundleId]] = []
    marked = 0.0
    for bundle, throughput in _movable(state, broker, lambda average: average.throughput_short):
        if picked and marked >= wanted:
            break
        picked.append((broker, bundle))
        marked += throughput
    return picked


class OverloadShedder:
    """Sheds from every broker at or above 85 %, down to 80 %, wherever the others stand."""

    def select_bundles(self, state: State) -> list[tuple[str, BundleId]]:
        """As Shedder."""
        limit = state.settings.overloaded_percent / 100
        picked: list[tuple[str, BundleId]] = []
        for broker, report in state.reports.items():
            if report.score >= limit and len(report.bundles) > 1:
                picked += _until(state, broker, report.throughput * (report.score - limit + MARGIN))
        return picked


@dataclass
class ThresholdShedder:
    """Sheds from brokers whose moving average lies 10 points above the cluster's mean; Pulsar's default up to 4.x.

    It forgets the average of a broker that is gone (class ThresholdShedder, method onActiveBrokersChange).
    """

    scores: dict[str, float] = field(default_factory=dict)

    def score(self, broker: str, usage: float, history: float) -> float:
        """The moving average after one more observation."""
        past = self.scores.get(broker)
        self.scores[broker] = usage if past is None else past * history + (1 - history) * usage
        return self.scores[broker]

    def _mean(self, state: State) -> float:
        usages = [self.score(broker, report.score, state.settings.history) for broker, report in state.reports.items()]
        return sum(usages) / len(usages) if usages else 0.0

    def select_bundles(self, state: State) -> list[tuple[str, BundleId]]:
        """As Shedder."""
        settings = state.settings
        threshold = settings.threshold_percent / 100
        self.scores = {broker: score for broker, score in self.scores.items() if broker in state.reports}
        mean = self._mean(state)
        picked: list[tuple[str, BundleId]] = []
        if mean == 0:
            return picked
        for broker, report in state.reports.items():
            usage = self.scores[broker]
            wanted = report.throughput * (usage - mean - threshold + MARGIN)
            if usage >= mean + threshold and wanted >= settings.min_throughput and len(report.bundles) > 1:
                picked += _until(state, broker, wanted)
        if not picked and settings.lower_boundary:
            picked = self._lower_boundary(state, threshold)
        return picked

    def _lower_boundary(self, state: State, threshold: float) -> list[tuple[str, BundleId]]:
        """If a broker is far below the mean, the busiest one sheds a twentieth; averages are taken once more."""
        mean = self._mean(state)
        if all(self.scores[broker] >= mean - threshold for broker in state.reports):
            return []
        many = [broker for broker, report in state.reports.items() if len(report.bundles) > 1]
        busiest = max(many, key=lambda broker: self.scores[broker], default=None)
        if busiest is None or self.scores[busiest] <= mean - threshold:
            return []
        wanted = state.reports[busiest].throughput * threshold * LOWER_BOUNDARY_MARGIN
        return _until(state, busiest, wanted) if wanted >= state.settings.min_throughput else []


class UniformLoadShedder:
    """Sheds from the one broker with the highest message rate (or throughput), by a fifth of the gap to the lowest.

    Every bundle that fits into what is left goes, one without traffic too; what is left is a whole number (class
    UniformLoadShedder, method findBundlesForUnloading). AvgShedder leaves bundles without traffic alone.
    """

    def select_bundles(self, state: State) -> list[tuple[str, BundleId]]:
        """As Shedder."""
        settings = state.settings
        reports = state.reports
        if not reports:
            return []
        by_rate = max(reports, key=lambda broker: reports[broker].messages)
        by_throughput = max(reports, key=lambda broker: reports[broker].throughput)
        high_rate, low_rate = reports[by_rate].messages, min(report.messages for report in reports.values())
        high, low = reports[by_throughput].throughput, min(report.throughput for report in reports.values())
        low_rate, low = low_rate or 1.0, low or 1.0
        if (high_rate - low_rate) * 100 / low_rate > settings.rate_difference_percent:
            wanted = float(int((high_rate - low_rate) * settings.max_unload_share))
            return self._pick(state, by_rate, wanted, settings.min_unload_messages, lambda a: a.messages_short)
        if high / low > settings.throughput_multiplier:
            wanted = float(int((high - low) * settings.max_unload_share))
            return self._pick(
                state, by_throughput, wanted, settings.min_unload_throughput, lambda a: a.throughput_short
            )
        return []

    @staticmethod
    def _pick(
        state: State, broker: str, wanted: float, least: float, weigh: Callable[[Averages], float]
    ) -> list[tuple[str, BundleId]]:
        picked: list[tuple[str, BundleId]] = []
        if len(state.reports[broker].bundles) <= 1 or wanted < least:
            return picked
        for bundle, traffic in _movable(state, broker, weigh):
            if traffic <= wanted + SLACK:
                wanted -= int(traffic)
                picked.append((broker, bundle))
        return picked


@dataclass
class AvgShedder:
    """Pairs the busiest broker with the idlest, the second with the second, and moves between them (PIP-364).

    It is its own placement: the destination of what it sheds is decided here. The plan is kept by the bundle's name, as
    #26246 has it, not by its mutable figures.
    """

    choose: Callable[[int], int]
    """A random index below a number: the broker of a bundle without a plan."""
    hits_low: dict[str, int] = field(default_factory=dict)
    hits_high: dict[str, int] = field(default_factory=dict)
    planned: dict[BundleId, str] = field(default_factory=dict)

    def select_bundles(self, state: State) -> list[tuple[str, BundleId]]:
        """As Shedder."""
        settings = state.settings
        scores = {broker: report.score * 100 for broker, report in state.reports.items()}
        order = sorted(scores, key=lambda broker: scores[broker])
        pairs: list[tuple[str, str]] = []
        for low, high in zip(order[: (len(order) + 1) // 2], reversed(order), strict=False):
            gap = scores[high] - scores[low]
            if gap < settings.avg_low:
                self._forget(self.hits_low, low, high)
                self._forget(self.hits_high, low, high)
                continue
            pairs.append((low, high))
            self._count(self.hits_low, low, high)
            if gap < settings.avg_high:
                self._forget(self.hits_high, low, high)
            else:
                self._count(self.hits_high, low, high)
        if not pairs:
            self.hits_low.clear()
            self.hits_high.clear()
        picked: list[tuple[str, BundleId]] = []
        for low, high in pairs:
            if self._reached(settings, low, high):
                self._forget(self.hits_low, low, high)
                self._forget(self.hits_high, low, high)
                picked += self._pick(state, low, high)
        return picked

    @staticmethod
    def _forget(hits: dict[str, int], *brokers: str) -> None:
        for broker in brokers:
            hits.pop(broker, None)

    @staticmethod
    def _count(hits: dict[str, int], *brokers: str) -> None:
        for broker in brokers:
            hits[broker] = hits.get(broker, 0) + 1

    def _reached(self, settings: Settings, *brokers: str) -> bool:
        return any(
            self.hits_high.get(broker, 0) >= settings.avg_hits_high
            or self.hits_low.get(broker, 0) >= settings.avg_hits_low
            for broker in brokers
        )

    def _pick(self, state: State, low: str, high: str) -> list[tuple[str, BundleId]]:
        settings = state.settings
        idle, busy = state.reports[low], state.reports[high]
        messages = (busy.messages - idle.messages) * settings.max_unload_share
        throughput = (busy.throughput - idle.throughput) * settings.max_unload_share
        weigh: Callable[[Averages], float]
        if messages > settings.min_unload_messages:
            wanted, weigh = messages, lambda average: average.messages_short
        elif throughput > settings.min_unload_throughput:
            wanted, weigh = throughput, lambda average: average.throughput_short
        else:
            return []
        picked: list[tuple[str, BundleId]] = []
        for bundle, traffic in _movable(state, high, weigh):
            if 0 < traffic <= wanted:
                wanted -= traffic
                picked.append((high, bundle))
                self.planned[bundle] = low
        return picked

    def select(self, candidates: list[str], bundle: BundleId, state: State) -> str:
        """As Placement: the planned broker, or a random one when there is no plan or the broker is no candidate."""
        if self.planned.get(bundle) not in candidates:
            self.planned[bundle] = sorted(candidates)[self.choose(len(candidates))]
        return self.planned[bundle]


@dataclass
class _Spread:
    """Sum, mean and deviation of the brokers' averages while a cycle of TransferShedder goes on."""

    order: list[str]
    reports: dict[str, Report]
    fresh: list[str]
    """Those whose reports are young enough for the mean and the deviation (class TransferShedder.LoadStats)."""
    idle: int = 0
    """Index of the least loaded broker that gets load next."""
    busy: int = 0
    done: int = 0
    squares: float = 0.0
    mean: float = 0.0

    def __post_init__(self) -> None:
        loads = [self.reports[broker].ema for broker in self.fresh]
        self.busy = len(self.order) - 1
        self.mean = sum(loads) / len(loads)
        self.squares = sum(load * load for load in loads)

    @property
    def deviation(self) -> float:
        return sqrt(abs(self.squares / len(self.fresh) - self.mean * self.mean))

    def offload(self, high: float, low: float, amount: float) -> None:
        self.squares += max(0.0, high - amount) ** 2 + (low + amount) ** 2 - high * high - low * low
        self.done += 1
        self.idle += 1


@dataclass
class TransferShedder:
    """Moves half the gap from the busiest to the idlest brokers, named in advance; the extensible manager (PIP-192)."""

    hits: int = 0
    last: dict[str, int] = field(default_factory=dict)
    """Minute of the last transfer off a broker."""

    def transfers(self, state: State) -> list[Unload]:
        """Bundles with source and destination."""
        settings, reports = state.settings, state.reports
        if len(reports) < 2 or set(reports) != set(state.hosts):
            return []
        for broker, minute in list(self.last.items()):
            if broker in reports:
                if reports[broker].minute - minute < settings.transfer_delay_minutes:
                    return []
                del self.last[broker]
        order = sorted(reports, key=lambda broker: reports[broker].ema)
        fresh = [each for each in order if state.minute - reports[each].minute <= settings.data_ttl_minutes]
        if not fresh:
            return []
        spread = _Spread(order, reports, fresh)
        if not self._uneven(spread, settings):
            self.hits = 0
            return []
        self.hits += 1
        if self.hits <= settings.transfer_hits:
            return []
        moves: list[Unload] = []
        while spread.done < settings.transfer_pairs and spread.idle < spread.busy and self._uneven(spread, settings):
            high, low = spread.order[spread.busy], spread.order[spread.idle]
            spread.busy -= 1
            found, amount = self._pair(state, high, low)
            if found:
                moves += found
                spread.offload(reports[high].ema, reports[low].ema, amount)
        if moves:
            self.hits = 0
            for move in moves:
                self.last[move.source] = state.minute
        return moves

    @staticmethod
    def _uneven(spread: _Spread, settings: Settings) -> bool:
        """Deviation above the target, or an idle broker, or an overloaded one."""
        reports = spread.reports
        low, high = reports[spread.order[spread.idle]], reports[spread.order[spread.busy]]
        share = min(0.5, max(0.0, settings.target_std / 2))
        limit = max(settings.overloaded_percent / 100, spread.mean + settings.target_std)
        return (
            spread.deviation > settings.target_std
            or low.ema < spread.mean * share
            or low.throughput_ema < high.throughput_ema * share
            or high.ema > limit
        )

    @staticmethod
    def _top(state: State, broker: str) -> list[tuple[BundleId, float]]:
        """The top bundles a broker reports, the busiest first by bytes in, then out, to 100 kB/s (TopKBundles)."""

        def rank(pair: tuple[BundleId, Rates]) -> tuple[int, int, int]:
            rates = pair[1]
            return -round(rates.bytes_in / 1e5), -round(rates.bytes_out / 1e5), -round(rates.messages / 100)

        busy = [pair for pair in state.reports[broker].bundles.items() if pair[1].messages > 0]
        ranked = sorted(busy, key=rank)[: state.settings.top_bundles]
        return [(bundle, rates.throughput) for bundle, rates in reversed(ranked)]

    def _pair(self, state: State, high: str, low: str) -> tuple[list[Unload], float]:
        """What goes from one broker to another, least of the top bundles first, and by how much the score falls.

        Bundles that isolation does not let go there are passed over (method isTransferable).
        """
        busy, idle = state.reports[high], state.reports[low]
        top = self._top(state, high)
        wanted = busy.throughput * ((busy.ema - idle.ema) / 2) / busy.ema if busy.ema else 0.0
        moves: list[Unload] = []
        marked = 0.0
        left = len(top)
        candidates = iter(self._top(state, low))
        for bundle, throughput in top if left > 1 else []:
            if state.owners.get(bundle) != high or bundle in state.unloaded or not state.permits(bundle, low):
                continue
            if left <= 1:
                break
            back: list[Unload] = []
            gained = 0.0
            if marked + throughput > wanted:
                after_high = busy.throughput - marked - throughput
                after_low = idle.throughput + marked + throughput
                fits = False
                for other, weight in candidates:
                    if not state.permits(other, high):
                        continue
                    if after_high + weight < busy.throughput and after_low - weight < busy.throughput:
                        back.append(Unload(other, low, high))
                        gained += weight
                        after_high += weight
                        after_low -= weight
                        if after_low <= after_high < busy.throughput * 0.75:
                            fits = True
                            break
                if not fits:
                    break
            moves += [*back, Unload(bundle, high, low)]
            marked += throughput - gained
            left -= 1
        return moves, marked * busy.ema / busy.throughput if busy.throughput else 0.0
