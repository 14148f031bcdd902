"""What a strategy of the simulator sees: settings, brokers, load reports and averages, as Pulsar's leader has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pulsar_operator.balance.model.cluster import BundleId

MIB = 1024 * 1024
SHORT_SAMPLES = 10
LONG_SAMPLES = 1000


class Randomness(Protocol):
    """Chance, injected: random.Random(seed) fits."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def randrange(self, stop: int, /) -> int:
        """A whole number in [0, stop)."""
        ...

    def gauss(self, mu: float, sigma: float) -> float:
        """A number of the normal distribution."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What a bundle may have before it is split, with Pulsar's defaults (class ServiceConfiguration, 4.0)."""

    topics: int = 1000
    sessions: int = 1000
    messages: float = 30000.0
    bytes: float = 100.0 * MIB
    """loadBalancerNamespaceBundleMax{Topics,Sessions,MsgRate,BandwidthMbytes}; rates per second, in and out."""
    bundles: int = 128
    """loadBalancerNamespaceMaximumBundles: no bundle of a namespace is split beyond it."""
    flow_threshold: float = 0.1
    """flowOrQpsDifferenceThresholdPercentage / 100."""


@dataclass(frozen=True)
class Settings:
    """Broker settings that the strategies read, with Pulsar's defaults (class ServiceConfiguration, 4.0)."""

    overloaded_percent: float = 85.0
    """loadBalancerBrokerOverloadedThresholdPercentage."""
    threshold_percent: float = 10.0
    """loadBalancerBrokerThresholdShedderPercentage."""
    lower_boundary: bool = False
    """lowerBoundarySheddingEnabled."""
    history: float = 0.9
    """loadBalancerHistoryResourcePercentage: weight of the past in the moving average."""
    min_throughput: float = 10.0 * MIB
    """loadBalancerBundleUnloadMinThroughputThreshold, bytes per second; ThresholdShedder."""
    rate_difference_percent: float = 50.0
    """loadBalancerMsgRateDifferenceShedderThreshold; UniformLoadShedder."""
    throughput_multiplier: float = 4.0
    """loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold; UniformLoadShedder."""
    min_unload_messages: float = 1000.0
    """minUnloadMessage; Uniform and Avg."""
    min_unload_throughput: float = 1.0 * MIB
    """minUnloadMessageThroughput; Uniform and Avg."""
    max_unload_share: float = 0.2
    """maxUnloadPercentage; Uniform and Avg."""
    avg_low: float = 15.0
    """loadBalancerAvgShedderLowThreshold, points."""
    avg_high: float = 40.0
    """loadBalancerAvgShedderHighThreshold, points."""
    avg_hits_low: int = 8
    avg_hits_high: int = 2
    placement_difference_percent: float = 10.0
    """loadBalancerAverageResourceUsageDifferenceThresholdPercentage."""
    distribute_evenly: bool = True
    """loadBalancerDistributeBundlesEvenlyEnabled."""
    grace_minutes: int = 30
    """loadBalancerSheddingGracePeriodMinutes."""
    target_std: float = 0.25
    """loadBalancerBrokerLoadTargetStd; TransferShedder."""
    transfer_hits: int = 3
    """loadBalancerSheddingConditionHitCountThreshold."""
    transfer_pairs: int = 3
    """loadBalancerMaxNumberOfBrokerSheddingPerCycle."""
    transfer_delay_minutes: int = 3
    """loadBalanceSheddingDelayInSeconds / 60."""
    data_ttl_minutes: int = 30
    """loadBalancerBrokerLoadDataTTLInSeconds / 60: TransferShedder leaves older reports out of mean and deviation."""
    top_bundles: int = 10
    """loadBalancerMaxNumberOfBundlesInBundleLoadReport: how many a broker reports to TransferShedder."""
    limits: Limits = Limits()
    split_hits: int = 3
    """loadBalancerNamespaceBundleSplitConditionHitCountThreshold; extensible manager."""
    split_unloads: bool = True
    """loadBalancerAutoUnloadSplitBundlesEnabled; modular manager."""
    report_percent: float = 10.0
    """loadBalancerReportUpdateThresholdPercentage: a report is written again when something moved by more."""
    report_minutes: int = 15
    """loadBalancerReportUpdateMaxIntervalMinutes."""


class Rates(NamedTuple):
    """Traffic per second, in and out together or apart."""

    messages_in: float = 0.0
    messages_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0

    @property
    def messages(self) -> float:
        """Messages per second, both ways."""
        return self.messages_in + self.messages_out

    @property
    def throughput(self) -> float:
        """Bytes per second, both ways."""
        return self.bytes_in + self.bytes_out


DEFAULT_RATES = Rates(50.0, 50.0, 50_000.0, 50_000.0)
"""What a bundle without history is taken for (Pulsar's class ModularLoadManagerImpl)."""


@dataclass(slots=True)
class Averages:
    """Running means of a bundle over the last 10 and 1000 samples (Pulsar's class TimeAverageMessageData)."""

    messages_short: float = DEFAULT_RATES.messages
    throughput_short: float = DEFAULT_RATES.throughput
    messages_long: float = DEFAULT_RATES.messages
    throughput_long: float = DEFAULT_RATES.throughput
    samples: int = 0

    def update(self, messages: float, throughput: float) -> None:
        """Take one sample; the first one replaces the default."""
        self.samples += 1
        short = min(self.samples, SHORT_SAMPLES)
        long = min(self.samples, LONG_SAMPLES)
        self.messages_short += (messages - self.messages_short) / short
        self.throughput_short += (throughput - self.throughput_short) / short
        self.messages_long += (messages - self.messages_long) / long
        self.throughput_long += (throughput - self.throughput_long) / long


@dataclass(slots=True)
class Report:
    """The load report of a broker as its peers see it (Pulsar's LocalBrokerData or BrokerLoadData)."""

    minute: int
    """When it was written; it may be `Settings.report_minutes` old."""
    cpu: float = 0.0
    """Used / available, 1 = full; so are the next two. One that is not known counts as 0 in Pulsar (class
    ResourceUsage, method percentUsage)."""
    cpu_known: bool = True
    """Whether the broker reports its CPU."""
    bandwidth_in: float = 0.0
    bandwidth_out: float = 0.0
    messages: float = 0.0
    throughput: float = 0.0
    bundles: dict[BundleId, Rates] = field(default_factory=dict)
    ema: float = 0.0
    """Moving average of the score as the extensible manager's broker keeps it."""
    throughput_ema: float = 0.0

    @property
    def score(self) -> float:
        """The broker's load to every shedder but Uniform (LocalBrokerData.getMaxResourceUsageWithWeight)."""
        return max(self.cpu, self.bandwidth_in, self.bandwidth_out)


@dataclass(frozen=True, slots=True)
class Host:
    """A broker's machine."""

    id: str
    capacity: float
    """Cost per second, hidden costs included, at which its processor is full."""
    nic: float
    """Bytes per second, each way."""
    foreign: float = 0.0
    """Of the capacity, what is used by something that is no traffic."""


@dataclass
class State:
    """The cluster; the world writes it, strategies read it."""

    settings: Settings
    minute: int = 0
    hosts: dict[str, Host] = field(default_factory=dict)
    """Brokers that live."""
    leaving: tuple[str, ...] = ()
    """Brokers that are about to be scaled in, known to who scales; Pulsar's balancers do not know."""
    reports: dict[str, Report] = field(default_factory=dict)
    """As the leader has them: up to `Settings.report_minutes` old."""
    fresh: dict[str, Report] = field(default_factory=dict)
    """What each broker measured of itself in the last minute, for who asks the broker."""
    averages: dict[BundleId, Averages] = field(default_factory=dict)
    owners: dict[BundleId, str] = field(default_factory=dict)
    preallocated: dict[str, dict[BundleId, None]] = field(default_factory=dict)
    """By broker: bundles given to it that its report does not show yet."""
    unloaded: dict[BundleId, int] = field(default_factory=dict)
    """Bundles that the shedder moved within the grace period, with the minute."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Bundles by namespace and broker, as the leader counts them for even distribution."""
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By namespace: the brokers that isolation permits; absent = every broker."""

    def permits(self, bundle: BundleId, broker: str) -> bool:
        """Whether a broker may serve a bundle."""
        allowed = self.allowed.get(bundle.namespace)
        return allowed is None or broker in allowed


class Unload(NamedTuple):
    """Take a bundle from its owner and hand it to a broker."""

    bundle: BundleId
    source: str
    destination: str


class Cut(NamedTuple):
    """Cut a bundle at positions strictly inside it."""

    bundle: BundleId
    positions: tuple[int, ...]
    unload: bool
    """Whether the pieces are unloaded and placed anew (Pulsar's automatic split of the modular manager)."""


Action = Unload | Cut


class Placement(Protocol):
    """Picks the broker of a bundle that has none (Pulsar's ModularLoadManagerStrategy)."""

    def select(self, candidates: list[str], bundle: BundleId, state: State) -> str:
        """One of the candidates, of which there is at least one."""
        ...


class Shedder(Protocol):
    """Picks bundles to unload (Pulsar's LoadSheddingStrategy)."""

    def select_bundles(self, state: State) -> list[tuple[str, BundleId]]:
        """Pairs of owner and bundle, in the order they are to be unloaded."""
        ...


class Traffic(Protocol):
    """Who asks the world for the figures of the last minute."""

    def rates(self, bundle: BundleId) -> Rates:
        """Of one bundle."""
        ...

    def cost(self, bundle: BundleId) -> float:
        """Cost (`load.CostModel`) per second of one bundle."""
        ...

    def topics(self, bundle: BundleId) -> int:
        """Topics in it."""
        ...

    def sessions(self, bundle: BundleId) -> int:
        """Producers and consumers in it."""
        ...

    def positions(self, bundle: BundleId) -> tuple[int, ...]:
        """Hash positions of its topics, ascending."""
        ...

    def costs(self, bundle: BundleId) -> tuple[float, ...]:
        """Cost of each of its topics (`load.CostModel`), in the order of the positions."""
        ...

    def bundles(self) -> Mapping[BundleId, tuple[int, int]]:
        """All bundles there are."""
        ...


class Policy(Protocol):
    """A balancer as a whole."""

    name: str

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """What to do at the end of a minute, on the figures of that minute."""
        ...

    def place(self, bundle: BundleId, state: State) -> str:
        """The broker of a bundle that has lost its own."""
        ...
