"""Autoscaling of brokers, proxies and bookies: limits, targets, behaviour, rules of the structs that own them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.quantities import ByteSize
from pulsar_operator.api.v1alpha1.rebalance import SizingSource

Percent = Annotated[int, Field(ge=1, le=100)]
Amount = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[int, Field(ge=0, le=604800)]
Replicas = Annotated[int, Field(ge=1, le=1024)]
Bookies = Annotated[int, Field(ge=1, le=512)]

_LIMITS = (
    "self.minReplicas <= self.maxReplicas",
    "autoscaling.minReplicas must not exceed autoscaling.maxReplicas: lower minReplicas or raise maxReplicas",
)
_STILL = (
    "self.tolerancePercent > 0 || "
    "(self.scaleUp.stabilizationWindowSeconds > 0 && self.scaleDown.stabilizationWindowSeconds > 0)",
    "behavior.tolerancePercent 0 with a stabilizationWindowSeconds of 0 in behavior.scaleUp or behavior.scaleDown "
    "would follow every fluctuation: raise one of them above 0",
)


_AGREED = "All recommendations of so many seconds must agree that a change is needed; the least of them is made."
_PODS = "One change is at most so many pods, or maxPercent of them, whichever is more."
_PERCENT = "One change is at most this share of the pods, or maxPods, whichever is more."
_COOLDOWN = "Time between two changes. Upwards only the last change upwards counts, downwards any."
Window = Annotated[Seconds, Field(description=_AGREED)]
DiskWindow = Annotated[Seconds, Field(description=f"{_AGREED} A full disk waits for no window.")]
MaxPods = Annotated[int, Field(ge=1, le=1024, description=_PODS)]
MaxPercent = Annotated[int, Field(ge=1, le=1000, description=_PERCENT)]
Cooldown = Annotated[Seconds, Field(description=_COOLDOWN)]


class ScalingRules(ApiModel):
    """How fast the number of replicas changes in one direction."""

    stabilization_window_seconds: Window = 0
    max_pods: MaxPods = 4
    max_percent: MaxPercent = 100
    cooldown_seconds: Cooldown = 60


class DownRules(ScalingRules):
    """How fast replicas become fewer: each hands over what it carries."""

    stabilization_window_seconds: Window = 900
    max_pods: MaxPods = 1
    max_percent: MaxPercent = 10
    cooldown_seconds: Cooldown = 300


class BookieUpRules(ScalingRules):
    """How fast bookies become more."""

    stabilization_window_seconds: DiskWindow = 600
    max_pods: MaxPods = 2
    max_percent: MaxPercent = 50
    cooldown_seconds: Cooldown = 3600


class BookieDownRules(ScalingRules):
    """How fast bookies become fewer: all data of each is copied to the others."""

    stabilization_window_seconds: Window = 86400
    max_pods: MaxPods = 1
    max_percent: MaxPercent = 1
    cooldown_seconds: Cooldown = 21600


class Behavior(ApiModel):
    """When and how fast brokers and proxies change their number."""

    model_config = ConfigDict(json_schema_extra=validations(_STILL))

    tolerance_percent: Annotated[int, Field(ge=0, le=50)] = 10
    """A load this much above the target adds nothing; pods leave only if as much stays free below it."""
    scale_up: ScalingRules = Field(default=ScalingRules())
    """How fast replicas become more."""
    scale_down: DownRules = Field(default=DownRules())
    """How fast replicas become fewer."""


class BookieBehavior(ApiModel):
    """When and how fast bookies change their number."""

    model_config = ConfigDict(json_schema_extra=validations(_STILL))

    tolerance_percent: Annotated[int, Field(ge=0, le=50)] = 10
    """Disks this much above the target add nothing; bookies leave only if as much stays free below the low mark."""
    scale_up: BookieUpRules = Field(default=BookieUpRules())
    """How fast bookies become more."""
    scale_down: BookieDownRules = Field(default=BookieDownRules())
    """How fast bookies become fewer."""


_BANDWIDTH = (
    "has(self.bandwidthPercent) == has(self.bandwidthLimit)",
    "targets.bandwidthPercent is a share of targets.bandwidthLimit: give both, or neither",
)


class BrokerTargets(ApiModel):
    """What one broker should carry. The target that asks for most brokers counts."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            _BANDWIDTH,
            (
                "has(self.cpuPercent) || has(self.bandwidthPercent) || has(self.messagesPerSecond) || "
                "has(self.topics) || has(self.sessions)",
                "targets must name at least one of cpuPercent, bandwidthPercent, messagesPerSecond, topics, sessions; "
                "leave targets out for cpuPercent 70",
            ),
        )
    )

    cpu_percent: Percent | None = None
    """Share of the CPU limit of the broker's container, or of its request where it has no limit."""
    bandwidth_percent: Percent | None = None
    """Share of bandwidthLimit, in and out together."""
    bandwidth_limit: Annotated[int, ByteSize(ge=1)] | None = None
    """Bytes a second that one broker can carry: what a pod sees of its network card is no limit that holds for it."""
    messages_per_second: Amount | None = None
    """Messages in and out together."""
    topics: Amount | None = None
    """Topics, each partition one."""
    sessions: Amount | None = None
    """Producers and consumers."""


class ProxyTargets(ApiModel):
    """What one proxy should carry. The target that asks for most proxies counts."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            _BANDWIDTH,
            (
                "has(self.connections) || has(self.bandwidthPercent)",
                "targets must name at least one of connections and bandwidthPercent; leave targets out for "
                "connections 2000",
            ),
        )
    )

    connections: Amount | None = None
    """Connections of clients."""
    bandwidth_percent: Percent | None = None
    """Share of bandwidthLimit, in and out together."""
    bandwidth_limit: Annotated[int, ByteSize(ge=1)] | None = None
    """Bytes a second that one proxy can carry. Proxies count them only while config.proxyZeroCopyModeEnabled is
    false."""


class BookieTargets(ApiModel):
    """What bookies should store."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.lowDiskPercent < self.diskPercent && self.diskPercent < self.fullDiskPercent",
                "targets.lowDiskPercent must be below targets.diskPercent, and that below targets.fullDiskPercent",
            )
        )
    )

    disk_percent: Annotated[int, Field(ge=1, le=94)] = 75
    """Share of the ledger disks of all bookies that may be in use."""
    low_disk_percent: Annotated[int, Field(ge=1, le=94)] = 60
    """A bookie leaves only if the others are at most this full afterwards."""
    full_disk_percent: Annotated[int, Field(ge=1, le=94)] = 90
    """A disk this full asks for a bookie at once, whatever the windows. At 95 % a bookie takes no more writes
    (diskUsageThreshold)."""
    days_until_full: Annotated[int, Field(ge=1, le=365)] = 3
    """Days until the disks are full, at least, as what is stored grew lately. Growth is expected to go on for at most
    1.5 times as long as it was sampled, and asks for no bookie while the disks are below lowDiskPercent."""
    write_latency_milliseconds: Amount | None = None
    """Time that 99 % of the writes may take; absent = it does not count."""
    min_writable: Bookies | None = None
    """Bookies that must take writes; absent = the ensemble size."""


class ForecastSource(StrEnum):
    """Where a forecast comes from."""

    RECORDED = "Recorded"


class ForecastSizing(SizingSource):
    """Where the result of the Spark job is."""

    max_age_seconds: Annotated[int, Field(ge=60, le=31536000)] = 172800
    """A result older than this is no forecast."""


class Forecast(ApiModel):
    """What is known of the hours to come. The load of now is measured all the same: a forecast says by how much it
    grows."""

    traffic_source: ForecastSource
    """Recorded = the traffic that the collector recorded and the Spark job made a profile of."""
    sizing: ForecastSizing = Field(default=ForecastSizing())
    """Where the result is."""


class BrokerAutoscaling(ApiModel):
    """The operator decides how many brokers there are; replicas is only the initial number."""

    model_config = ConfigDict(json_schema_extra=validations(_LIMITS))

    min_replicas: Replicas
    """Never fewer. Two serve while one is replaced."""
    max_replicas: Replicas
    """Never more."""
    targets: BrokerTargets | None = None
    """What one broker should carry; absent = 70 % of its CPU."""
    forecast: Forecast | None = None
    """Brokers are there before a recorded peak; absent = nothing is foreseen."""
    behavior: Behavior = Field(default=Behavior())
    """When and how fast the number changes."""


class ProxyAutoscaling(ApiModel):
    """The operator decides how many proxies there are; replicas is only the initial number."""

    model_config = ConfigDict(json_schema_extra=validations(_LIMITS))

    min_replicas: Replicas
    """Never fewer."""
    max_replicas: Replicas
    """Never more."""
    targets: ProxyTargets | None = None
    """What one proxy should carry; absent = 2000 connections."""
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 30
    """A proxy that stops serves on for so long, out of its Service; pod.preStopSleepSeconds wins. It is in the pods:
    they are rolled once where it is new."""
    behavior: Behavior = Field(default=Behavior())
    """When and how fast the number changes."""


class BookieAutoscaling(ApiModel):
    """The operator decides how many bookies there are; replicas is only the initial number."""

    model_config = ConfigDict(json_schema_extra=validations(_LIMITS))

    min_replicas: Bookies
    """Never fewer."""
    max_replicas: Bookies
    """Never more, also where disks are full."""
    targets: BookieTargets = Field(default=BookieTargets())
    """What bookies should store."""
    behavior: BookieBehavior = Field(default=BookieBehavior())
    """When and how fast the number changes."""


FROZEN_REPLICAS = (
    "!has(self.autoscaling) || !has(oldSelf.autoscaling) || self.replicas == oldSelf.replicas",
    "replicas is only the initial number while autoscaling is set, and would have no effect: change "
    "autoscaling.minReplicas and autoscaling.maxReplicas, or remove autoscaling first. An HPA or KEDA on this object "
    "must go as well",
)
"""A CEL rule for Broker, Proxy, BookKeeper."""

CPU_KNOWN = (
    "!has(self.autoscaling) || "
    "(has(self.autoscaling.targets) && !has(self.autoscaling.targets.cpuPercent)) || !has(self.resources) || "
    "(has(self.resources.limits) && 'cpu' in self.resources.limits) || "
    "(has(self.resources.requests) && 'cpu' in self.resources.requests)",
    "autoscaling.targets.cpuPercent is a share of the CPU limit or request, and resources has neither: add "
    "resources.requests.cpu, or give another target",
)
"""A CEL rule for Broker. Resources that are absent come from the preset, which requests CPU."""

BYTES_COUNTED = (
    "!has(self.autoscaling) || !has(self.autoscaling.targets) || "
    "!has(self.autoscaling.targets.bandwidthPercent) || (has(self.config) && "
    "'proxyZeroCopyModeEnabled' in self.config && self.config['proxyZeroCopyModeEnabled'] == 'false')",
    "autoscaling.targets.bandwidthPercent needs config.proxyZeroCopyModeEnabled 'false': a proxy that copies nothing "
    "counts bytes by the gigabyte; set it, or use targets.connections",
)
"""A CEL rule for Proxy. Spliced connections count SPLICE_BYTES at once (Pulsar's class DirectProxyHandler)."""

ENSEMBLE_FITS = (
    "!has(self.autoscaling) || !has(self.ensemble.ensembleSize) || "
    "self.ensemble.ensembleSize <= self.autoscaling.minReplicas",
    "autoscaling.minReplicas must not be below ensemble.ensembleSize: ledgers need so many bookies; raise minReplicas "
    "or lower ensembleSize",
)
"""A CEL rule for BookKeeper."""

BROKER_RULES = (FROZEN_REPLICAS, CPU_KNOWN)
PROXY_RULES = (FROZEN_REPLICAS, BYTES_COUNTED)
BOOKKEEPER_RULES = (FROZEN_REPLICAS, ENSEMBLE_FITS)
"""What the structs that own an autoscaling need."""
