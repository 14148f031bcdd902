"""The worked examples that Pulsar's authors published, worked with the re-built strategies.

A benchmark calls `verify` before it compares anything: a strategy that misses its example is not Pulsar's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.simulator.placement import (
    LeastLongTermMessageRate,
    LeastResourceUsageExtensible,
    LeastResourceUsageWithWeight,
)
from benchmarks.simulator.shedders import (
    AvgShedder,
    ThresholdShedder,
    TransferShedder,
    UniformLoadShedder,
)
from benchmarks.simulator.state import MIB, Averages, Host, Rates, Report, Settings, State
from pulsar_operator.balance.model.cluster import BundleId

DAY = 1440


@dataclass(frozen=True, slots=True)
class Example:
    """One published figure and ours."""

    source: str
    about: str
    published: object
    found: object

    @property
    def holds(self) -> bool:
        """Whether the re-built strategy gives the published answer."""
        return self.published == self.found


class MissedExampleError(Exception):
    """A re-built strategy does not give the answer that Pulsar's authors published."""


def verify() -> list[Example]:
    """All examples; raises MissedExampleError, naming each that does not hold."""
    examples = [*_threshold(), *_usage_placement(), *_rate_placement(), *_uniform(), *_avg(), *_transfer()]
    missed = [
        f"{example.source}: {example.about}: published {example.published}, found {example.found}"
        for example in examples
        if not example.holds
    ]
    if missed:
        raise MissedExampleError("; ".join(missed))
    return examples


def state_of(
    scores: Mapping[str, float],
    *,
    bundles: Mapping[str, Sequence[Rates]] | None = None,
    settings: Settings | None = None,
) -> State:
    """Brokers with the given scores (1 = full) and bundles; without any, ten equal ones, 10 MiB/s for each point."""
    state = State(settings or Settings())
    for broker, score in scores.items():
        share = Rates(0.0, 10_000.0, 0.0, score * 100 * MIB)
        rates = bundles[broker] if bundles is not None else [share] * 10
        state.hosts[broker] = Host(broker, 1.0, 1.0)
        report = Report(0, cpu=score, ema=score)
        for number, rate in enumerate(rates):
            bundle = BundleId(f"t/{broker}", number << 16, (number + 1) << 16)
            report.bundles[bundle] = rate
            average = state.averages[bundle] = Averages()
            average.update(rate.messages, rate.throughput)
            state.owners[bundle] = broker
        report.messages = sum(rate.messages for rate in rates)
        report.throughput = report.throughput_ema = sum(rate.throughput for rate in rates)
        state.reports[broker] = report
    return state


def _sources(picked: Sequence[tuple[str, BundleId]]) -> set[str]:
    return {broker for broker, _ in picked}


def _threshold() -> list[Example]:
    shedder = ThresholdShedder()
    rounds: list[tuple[float, float, set[str]]] = []
    for busy, idle in ((0.9, 0.1), (0.5, 0.5), (0.14, 0.86)):
        picked = shedder.select_bundles(state_of({"broker1": busy, "broker2": idle}))
        scores = shedder.scores
        rounds.append((round(scores["broker1"] * 100, 9), round(scores["broker2"] * 100, 9), _sources(picked)))
    only = {"broker1"}
    idle_one = {f"broker{number}": 0.8 for number in range(10)} | {"idle": 0.0}
    state = state_of(idle_one)
    patient = ThresholdShedder()
    shed = sum(len(patient.select_bundles(state)) for _ in range(DAY))
    mean = sum(patient.scores.values()) / len(patient.scores) * 100
    lower = ThresholdShedder().select_bundles(replace(state, settings=Settings(lower_boundary=True)))
    three = ThresholdShedder().select_bundles(state_of({"broker1": 0.4, "broker2": 0.1, "broker3": 0.1}))
    return [
        Example(
            "PIP-364",
            "Threshold, 90/10 made even and still shed: scores and source of three rounds",
            [(90.0, 10.0, only), (86.0, 14.0, only), (78.8, 21.2, only)],
            rounds,
        ),
        Example("#17456", "ten brokers at 80 %, one idle: mean and limit", (72.73, 82.73), _two(mean, mean + 10)),
        Example("#17456", "ten brokers at 80 %, one idle: bundles that Threshold sheds in a day", 0, shed),
        Example("#17456", "the same with lowerBoundarySheddingEnabled: sheds from one busiest broker", 1, len(lower)),
        Example("documentation", "Threshold, brokers at 40, 10, 10: source", only, _sources(three)),
    ]


def _two(*values: float) -> tuple[float, ...]:
    return tuple(round(value, 2) for value in values)


def _usage_placement() -> list[Example]:
    crowded = {f"broker{number + 1}": score / 100 for number, score in enumerate((40, 40, 40, 40, 69, 70))}
    state = state_of(crowded)
    draws = iter(range(6))
    drawing = LeastResourceUsageWithWeight(lambda stop: next(draws) % stop)
    bundle = BundleId("t/n", 0, 1)
    drawn = [drawing.select(sorted(crowded), bundle, state) for _ in crowded]
    apart = state_of({"broker1": 0.1, "broker2": 0.3, "broker3": 0.8})
    wide = state_of(
        {f"broker{number + 1}": score / 100 for number, score in enumerate((10, 60, 70, 80, 80))},
        settings=Settings(placement_difference_percent=0.0),
    )
    fresh = LeastResourceUsageWithWeight(lambda stop: 0)
    last = LeastResourceUsageExtensible(lambda stop: stop - 1)
    return [
        Example("PIP-364", "40, 40, 40, 40, 69, 70: candidates", [], fresh.candidates(sorted(crowded), state)),
        Example("PIP-364", "40, 40, 40, 40, 69, 70: drawn from all six", sorted(crowded), sorted(drawn)),
        Example(
            "PIP-364", "the same in the extensible manager", "broker6", last.select(sorted(crowded), bundle, state)
        ),
        Example(
            "PIP-364",
            "10, 30, 80: candidates",
            ["broker1", "broker2"],
            LeastResourceUsageWithWeight(lambda stop: 0).candidates(sorted(apart.hosts), apart),
        ),
        Example(
            "PIP-364",
            "10, 60, 70, 80, 80 and no threshold: candidates",
            ["broker1", "broker2"],
            LeastResourceUsageWithWeight(lambda stop: 0).candidates(sorted(wide.hosts), wide),
        ),
    ]


def _rate_placement() -> list[Example]:
    state = state_of(
        {"broker1": 0.5, "broker2": 0.5},
        bundles={"broker1": [Rates(100_000.0)], "broker2": [Rates(110_000.0)]},
    )
    placement = LeastLongTermMessageRate(lambda stop: 0)
    chosen = []
    for number in range(2):
        bundle = BundleId("t/new", number, number + 1)
        average = state.averages[bundle] = Averages()
        average.update(20_000.0, 0.0)
        broker = placement.select(["broker1", "broker2"], bundle, state)
        state.preallocated.setdefault(broker, {})[bundle] = None
        chosen.append(broker)
    about = "100 and 110, two bundles of 20: where they go"
    return [Example("PIP-364", about, ["broker1", "broker2"], chosen)]


def _uniform() -> list[Example]:
    shed = UniformLoadShedder().select_bundles
    rates = {"broker1": [Rates(5_000.0)] * 10, "broker2": [Rates(3_000.0)] * 10}
    flat = [Rates(100.0, 0.0, 10.0 * MIB)] * 45
    bytes_ = {"broker1": flat, "broker2": [Rates(450.0, 0.0, 10.0 * MIB)] * 10}
    many = {f"hot{number}": 0.5 for number in range(100)} | {f"new{number}": 0.0 for number in range(100)}
    state = state_of(
        many,
        bundles={broker: [Rates(1_000.0 * score, 0.0, 1.0)] * 20 for broker, score in many.items()},
    )
    return [
        Example(
            "PIP-364",
            "Uniform, 50k and 30k messages/s (66 % apart): source",
            {"broker1"},
            _sources(shed(state_of({"broker1": 0.5, "broker2": 0.3}, bundles=rates))),
        ),
        Example(
            "PIP-364",
            "Uniform, 450 and 100 MB/s (4.5 times): source",
            {"broker1"},
            _sources(shed(state_of({"broker1": 0.5, "broker2": 0.3}, bundles=bytes_))),
        ),
        Example("PIP-364", "Uniform, 100 hot and 100 new brokers: sources a minute", 1, len(_sources(shed(state)))),
    ]


def _avg() -> list[Example]:
    """Figures of Pulsar's AvgShedderTest: 80 and 30 points, 20000 and 2000 messages/s, eleven bundles of 900."""
    state = state_of(
        {"broker1": 0.8, "broker2": 0.3, "broker3": 0.5},
        bundles={
            "broker1": [Rates(450.0, 450.0)] * 11,
            "broker2": [Rates(1_000.0, 1_000.0)],
            "broker3": [Rates(5_000.0, 5_000.0)],
        },
        settings=Settings(max_unload_share=0.5),
    )
    state.reports["broker1"].messages = 20_000.0
    shedder = AvgShedder(lambda stop: 0)
    rounds = [shedder.select_bundles(state) for _ in range(2)]
    to = {shedder.select(["broker1", "broker2", "broker3"], bundle, state) for _, bundle in rounds[1]}
    return [
        Example("AvgShedderTest", "bundles shed in the first two rounds", [0, 10], [len(picked) for picked in rounds]),
        Example("AvgShedderTest", "from, to", ({"broker1"}, {"broker2"}), (_sources(rounds[1]), to)),
    ]


TRANSFER_BUNDLES = {
    "broker1": (1, 2),
    "broker2": (1, 3),
    "broker3": (2, 4),
    "broker4": (2, 6),
    "broker5": (2, 7),
}
"""MB/s of the two bundles of each broker in Pulsar's own TransferShedderTest."""


def _transfer_state(points: Sequence[int], heavy: Sequence[str] = (), settings: Settings | None = None) -> State:
    """Brokers at some points; the heavy ones report two bundles of 1 GB/s, more than their own throughput."""
    state = state_of(
        {broker: point / 100 for broker, point in zip(TRANSFER_BUNDLES, points, strict=True)},
        bundles={
            broker: [Rates(0.0, 500.0, 0.0, megabytes * 1e6) for megabytes in both]
            for broker, both in TRANSFER_BUNDLES.items()
        },
        settings=settings or Settings(transfer_hits=0),
    )
    for report in state.reports.values():
        report.throughput += 1.0  # that test gives every broker one byte per second inward
    for broker in heavy:
        state.reports[broker].bundles = dict.fromkeys(state.reports[broker].bundles, Rates(0.0, 500.0, 0.0, 1e9))
    return state


def _transferred(state: State) -> set[tuple[str, str, float]]:
    return {
        (move.source, move.destination, state.reports[move.source].bundles[move.bundle].bytes_out)
        for move in TransferShedder().transfers(state)
    }


def _transfer() -> list[Example]:
    source = "TransferShedderTest"
    patient, slow = TransferShedder(), _transfer_state((2, 4, 6, 80, 90), settings=Settings())
    waits = [len(patient.transfers(slow)) for _ in range(4)]
    return [
        Example(
            source,
            "2, 4, 6, 80, 90: from, to, bytes/s",
            {("broker5", "broker1", 2e6), ("broker4", "broker2", 2e6)},
            _transferred(_transfer_state((2, 4, 6, 80, 90))),
        ),
        Example(
            source,
            "2, 4, 6, 55, 65: one transfer meets the target deviation",
            {("broker5", "broker1", 2e6)},
            _transferred(_transfer_state((2, 4, 6, 55, 65))),
        ),
        Example(
            source,
            "bundles of the two busiest too big: the third gives",
            {("broker3", "broker1", 2e6)},
            _transferred(_transfer_state((2, 4, 6, 80, 90), ("broker4", "broker5"))),
        ),
        Example("PIP-192", "transfers in the first four minutes: more than 3 hits are needed", [0, 0, 0, 2], waits),
    ]
