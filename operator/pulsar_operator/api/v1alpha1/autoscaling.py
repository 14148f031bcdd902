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
    "autoscaling.minReplicas must not exceed autoscaling.maxReplicas. Lower minReplicas or raise maxReplicas",
)
_STILL = (
    "self.tolerancePercent > 0 || "
    "(self.scaleUp.stabilizationWindowSeconds > 0 && self.scaleDown.stabilizationWindowSeconds > 0)",
    "behavior.tolerancePercent must be above 0, or both stabilizationWindowSeconds of behavior.scaleUp and "
    "behavior.scaleDown must be, because otherwise the number of pods would follow every fluctuation. Raise one "
    "of these values",
)


_WINDOW = (
    "Seconds over which recommendations are considered. Scale-up uses the lowest one of this window, and scale-down "
    "the highest."
)
_PODS = "Maximum number of pods that one change adds or removes, unless maxPercent allows more."
_PERCENT = "Maximum percentage of the pods that one change adds or removes, unless maxPods allows more."
_COOLDOWN = (
    "Seconds between two changes. Scale-up counts them from the last scale-up, and scale-down from the last change."
)
Window = Annotated[Seconds, Field(description=_WINDOW)]
DiskWindow = Annotated[Seconds, Field(description=f"{_WINDOW} A full disk does not wait for this window.")]
PeakWindow = Annotated[
    Seconds,
    Field(
        description=f"{_WINDOW} A window longer than the time between two peaks keeps the pods that a peak needs, such "
        "as 6000 for a job that runs every 80 minutes."
    ),
]
MaxPods = Annotated[int, Field(ge=1, le=1024, description=_PODS)]
MaxPercent = Annotated[int, Field(ge=1, le=1000, description=_PERCENT)]
Cooldown = Annotated[Seconds, Field(description=_COOLDOWN)]


class ScalingRules(ApiModel):
    """Scale-up of brokers or proxies: how fast their number changes."""

    stabilization_window_seconds: Window = 0
    max_pods: MaxPods = 4
    max_percent: MaxPercent = 100
    cooldown_seconds: Cooldown = 60


class DownRules(ScalingRules):
    """Scale-down of brokers or proxies."""

    stabilization_window_seconds: PeakWindow = 300
    max_pods: MaxPods = 1
    max_percent: MaxPercent = 100
    cooldown_seconds: Cooldown = 60


class BookieUpRules(ScalingRules):
    """Scale-up of bookies."""

    stabilization_window_seconds: DiskWindow = 600
    max_pods: MaxPods = 2
    max_percent: MaxPercent = 50
    cooldown_seconds: Cooldown = 3600


class BookieDownRules(ScalingRules):
    """Scale-down of bookies, each of which has its data copied to the others."""

    stabilization_window_seconds: Window = 86400
    max_pods: MaxPods = 1
    max_percent: MaxPercent = 1
    cooldown_seconds: Cooldown = 21600


class Behavior(ApiModel):
    """Scale-up and scale-down of brokers or proxies."""

    model_config = ConfigDict(json_schema_extra=validations(_STILL))

    tolerance_percent: Annotated[int, Field(ge=0, le=50)] = 10
    """Percentage by which the load must exceed the target before pods are added, and by which it must stay below the
    target after pods are removed."""
    scale_up: ScalingRules = Field(default=ScalingRules())
    """Scale-up behavior."""
    scale_down: DownRules = Field(default=DownRules())
    """Scale-down behavior."""


class BookieBehavior(ApiModel):
    """Scale-up and scale-down of bookies."""

    model_config = ConfigDict(json_schema_extra=validations(_STILL))

    tolerance_percent: Annotated[int, Field(ge=0, le=50)] = 10
    """Percentage by which disk usage must exceed the target before bookies are added, and by which it must stay below
    lowDiskPercent after bookies are removed."""
    scale_up: BookieUpRules = Field(default=BookieUpRules())
    """Scale-up behavior."""
    scale_down: BookieDownRules = Field(default=BookieDownRules())
    """Scale-down behavior."""


_BANDWIDTH = (
    "has(self.bandwidthPercent) == has(self.bandwidthLimit)",
    "targets.bandwidthPercent is a percentage of targets.bandwidthLimit. Set both fields, or neither",
)


class BrokerTargets(ApiModel):
    """Targets of one broker. The target that requires the most brokers determines their number."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            _BANDWIDTH,
            (
                "has(self.cpuPercent) || has(self.bandwidthPercent) || has(self.messagesPerSecond) || "
                "has(self.topics) || has(self.sessions)",
                "targets must contain at least one of cpuPercent, bandwidthPercent, messagesPerSecond, topics "
                "and sessions. To use cpuPercent 70, remove targets",
            ),
        )
    )

    cpu_percent: Percent | None = None
    """CPU usage of a broker as a percentage of its CPU limit, or of its CPU request if it has no limit. If unset, CPU
    usage is not a target."""
    bandwidth_percent: Percent | None = None
    """Inbound and outbound traffic of a broker as a percentage of bandwidthLimit. If unset, traffic is not a target."""
    bandwidth_limit: Annotated[int, ByteSize(ge=1)] | None = None
    """Network bandwidth available to one broker, in bytes per second, which a pod cannot detect. Required with
    bandwidthPercent, and must not be set without bandwidthPercent."""
    messages_per_second: Amount | None = None
    """Inbound and outbound messages of a broker per second. If unset, messages are not a target."""
    topics: Amount | None = None
    """Topics of a broker, where each partition counts. If unset, topics are not a target."""
    sessions: Amount | None = None
    """Producers and consumers of a broker. If unset, producers and consumers are not a target."""


class ProxyTargets(ApiModel):
    """Targets of one proxy. The target that requires the most proxies determines their number."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            _BANDWIDTH,
            (
                "has(self.connections) || has(self.bandwidthPercent)",
                "targets must contain at least one of connections and bandwidthPercent. To use connections 2000, "
                "remove targets",
            ),
        )
    )

    connections: Amount | None = None
    """Client connections of a proxy. If unset, connections are not a target."""
    bandwidth_percent: Percent | None = None
    """Inbound and outbound traffic of a proxy as a percentage of bandwidthLimit. If unset, traffic is not a target."""
    bandwidth_limit: Annotated[int, ByteSize(ge=1)] | None = None
    """Network bandwidth available to one proxy, in bytes per second. The target requires
    config.proxyZeroCopyModeEnabled to be false. Required with bandwidthPercent, and must not be set without
    bandwidthPercent."""


class BookieTargets(ApiModel):
    """Targets of the bookies."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.lowDiskPercent < self.diskPercent && self.diskPercent < self.fullDiskPercent",
                "targets.lowDiskPercent must be below targets.diskPercent, and targets.diskPercent must be below "
                "targets.fullDiskPercent",
            )
        )
    )

    disk_percent: Annotated[int, Field(ge=1, le=94)] = 75
    """Usage of the ledger disks of all bookies together, in percent, above which bookies are added."""
    low_disk_percent: Annotated[int, Field(ge=1, le=94)] = 60
    """Disk usage in percent that the remaining bookies must not exceed for a bookie to be removed."""
    full_disk_percent: Annotated[int, Field(ge=1, le=94)] = 90
    """Disk usage in percent at which a bookie is added regardless of stabilization windows. At 95 % a bookie becomes
    read-only (diskUsageThreshold)."""
    days_until_full: Annotated[int, Field(ge=1, le=365)] = 3
    """Days for which the disks must last at the recent growth; otherwise a bookie is added. Growth is extrapolated for
    at most 1.5 times as long as it was sampled, and adds no bookie while usage is below lowDiskPercent."""
    write_latency_milliseconds: Amount | None = None
    """99th percentile of the write latency in milliseconds. If unset, write latency is not a target."""
    min_writable: Bookies | None = None
    """Minimum number of writable bookies. If unset, the ensemble size is used."""


class ForecastSource(StrEnum):
    """Source of a forecast."""

    RECORDED = "Recorded"


class ForecastSizing(SizingSource):
    """Location of the result of the Spark job."""

    max_age_seconds: Annotated[int, Field(ge=60, le=31536000)] = 172800
    """Seconds after which a result is too old for a forecast."""


class Forecast(ApiModel):
    """Forecast of the load: the factor by which the current load will grow."""

    traffic_source: ForecastSource
    """Source of the forecast. Recorded uses the traffic that the collector recorded, as analyzed by the Spark job."""
    sizing: ForecastSizing = Field(default=ForecastSizing())
    """Location of the result of the Spark job."""


class BrokerAutoscaling(ApiModel):
    """Autoscaling of brokers. The field replicas is only their initial number."""

    model_config = ConfigDict(json_schema_extra=validations(_LIMITS))

    min_replicas: Replicas
    """Minimum number of brokers. With 2 or more, one serves while another restarts."""
    max_replicas: Replicas
    """Maximum number of brokers, which is never exceeded."""
    targets: BrokerTargets | None = None
    """Targets of one broker. If unset, cpuPercent 70 applies."""
    forecast: Forecast | None = None
    """Forecast by which brokers are added before a recorded peak. If unset, only the current load counts."""
    behavior: Behavior = Field(default=Behavior())
    """When and how fast brokers are added and removed."""


class ProxyAutoscaling(ApiModel):
    """Autoscaling of proxies. The field replicas is only their initial number."""

    model_config = ConfigDict(json_schema_extra=validations(_LIMITS))

    min_replicas: Replicas
    """Minimum number of proxies, which is always kept."""
    max_replicas: Replicas
    """Maximum number of proxies, which is never exceeded."""
    targets: ProxyTargets | None = None
    """Targets of one proxy. If unset, connections 2000 applies."""
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 30
    """Seconds for which a stopping proxy continues to serve after it left its Service, unless pod.preStopSleepSeconds
    is set. Changing this value restarts the proxies."""
    behavior: Behavior = Field(default=Behavior())
    """When and how fast proxies are added and removed."""


class BookieAutoscaling(ApiModel):
    """Autoscaling of bookies. The field replicas is only their initial number."""

    model_config = ConfigDict(json_schema_extra=validations(_LIMITS))

    min_replicas: Bookies
    """Minimum number of bookies, which is always kept."""
    max_replicas: Bookies
    """Maximum number of bookies, which is not exceeded even if disks are full."""
    targets: BookieTargets = Field(default=BookieTargets())
    """Targets of the bookies."""
    behavior: BookieBehavior = Field(default=BookieBehavior())
    """When and how fast bookies are added and removed."""


FROZEN_REPLICAS = (
    "!has(self.autoscaling) || !has(oldSelf.autoscaling) || self.replicas == oldSelf.replicas",
    "replicas cannot be changed while autoscaling is set, because replicas is then only the initial number. "
    "Change autoscaling.minReplicas and autoscaling.maxReplicas, or remove autoscaling first. Remove any HPA or "
    "KEDA scaler of this object as well",
)
"""A CEL rule for Broker, Proxy, BookKeeper."""

CPU_KNOWN = (
    "!has(self.autoscaling) || "
    "(has(self.autoscaling.targets) && !has(self.autoscaling.targets.cpuPercent)) || !has(self.resources) || "
    "(has(self.resources.limits) && 'cpu' in self.resources.limits) || "
    "(has(self.resources.requests) && 'cpu' in self.resources.requests)",
    "autoscaling.targets.cpuPercent is a percentage of the CPU limit or request, but resources has neither. Add "
    "resources.requests.cpu, or set another target",
)
"""A CEL rule for Broker. Resources that are absent come from the preset, which requests CPU."""

BYTES_COUNTED = (
    "!has(self.autoscaling) || !has(self.autoscaling.targets) || "
    "!has(self.autoscaling.targets.bandwidthPercent) || (has(self.config) && "
    "'proxyZeroCopyModeEnabled' in self.config && self.config['proxyZeroCopyModeEnabled'] == 'false')",
    "autoscaling.targets.bandwidthPercent requires config.proxyZeroCopyModeEnabled 'false', because a proxy in "
    "zero-copy mode counts only whole gigabytes. Set this key of config, or use targets.connections",
)
"""A CEL rule for Proxy. Spliced connections count SPLICE_BYTES per update (Pulsar's class DirectProxyHandler)."""

ENSEMBLE_FITS = (
    "!has(self.autoscaling) || !has(self.ensemble.ensembleSize) || "
    "self.ensemble.ensembleSize <= self.autoscaling.minReplicas",
    "autoscaling.minReplicas must not be below ensemble.ensembleSize, because every ledger needs that many "
    "bookies. Raise minReplicas or lower ensembleSize",
)
"""A CEL rule for BookKeeper."""

BROKER_RULES = (FROZEN_REPLICAS, CPU_KNOWN)
PROXY_RULES = (FROZEN_REPLICAS, BYTES_COUNTED)
BOOKKEEPER_RULES = (FROZEN_REPLICAS, ENSEMBLE_FITS)
"""What the structs that own an autoscaling need."""
