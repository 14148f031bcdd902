"""Status of autoscaling: what was decided, from what, and what the next decision has to know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel, ReadTime, Rows, Time

Epoch = Annotated[int, Field(ge=0, le=2**40)]


class ScalingInputStatus(ApiModel):
    """An input of a decision, over all pods."""

    name: Annotated[str, Field(max_length=64)]
    """Name of the target, such as cpuPercent. The input forecast is the factor by which recorded traffic grows until a
    new broker serves."""
    value: Annotated[str, Field(max_length=64)] | None = None
    """Current value. Unset if the value is unknown."""
    target: Annotated[str, Field(max_length=64)]
    """Target value."""
    unit: Annotated[str, Field(max_length=32)] | None = None
    """Unit of both values. Unset for a count."""
    measured_time: Time
    """Time at which the oldest value of a pod was measured. For a forecast, the end of the recorded traffic."""


class RecommendationStatus(ApiModel):
    """A recommended number of replicas."""

    since: Epoch
    """Time of the recommendation, in seconds since the epoch."""
    replicas: Annotated[int, Field(ge=0, le=1048576)]
    """Recommended number."""


Recommendations = Annotated[
    list[RecommendationStatus],
    Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
]


class StoredStatus(ApiModel):
    """Data stored by all bookies."""

    time: Epoch
    """Time of the sample, in seconds since the epoch."""
    used_bytes: Annotated[int, Field(ge=0, le=2**62)]
    """Used bytes of all ledger disks."""


class ScalingRefusalStatus(ApiModel):
    """Reason why a bookie was not removed and the number of bookies was restored."""

    since: Epoch
    """Time of the refusal, in seconds since the epoch."""
    reason: Annotated[str, Field(max_length=64)]
    """DecommissionRefused or DecommissionStuck."""
    message: Annotated[str, Field(max_length=1024)]
    """Explanation of the reason."""
    generation: Annotated[int, Field(ge=0)]
    """Value of metadata.generation at the time of the refusal. The operator retries after metadata.generation
    changes."""


class ExpectedStatus(ApiModel):
    """A forecast whose hour has not ended."""

    since: Epoch
    """Time of the forecast, in seconds since the epoch."""
    base_milli: Annotated[int, Field(ge=0, le=2**53)]
    """Highest demand in the first minutes after the time in since, in thousandths of a replica."""
    promised_percent: Annotated[int, Field(ge=0, le=1000)]
    """Growth of the load that was forecast for the hour, in percent."""
    most_milli: Annotated[int, Field(ge=0, le=2**53)]
    """Highest demand since the time in since, in thousandths of a replica."""


class ScalingHistoryStatus(ApiModel):
    """Data for the next decision, so that a restarted operator decides the same. Times are seconds since the epoch."""

    since: Epoch | None = None
    """Time of the first recommendation after the last gap between recommendations."""
    observed: Epoch | None = None
    """Time of a recent recommendation, at most a few intervals before the last one."""
    highs: Recommendations = Field(default_factory=list)
    """Highest recommendations, each valid from its time."""
    lows: Recommendations = Field(default_factory=list)
    """Lowest recommendations, each valid from its time."""
    scaled: Epoch | None = None
    """Time at which the number of replicas last changed."""
    upwards: bool = False
    """Whether the last change was a scale-up."""
    known: Annotated[int, Field(ge=0, le=1048576)] | None = None
    """Replicas that the measured load required when more were added, because all CPU was in use or before a recorded
    peak. Unset once the number of replicas is at most this number."""
    guessed: Epoch | None = None
    """Time of the change that added more replicas than the measured load required."""
    came: bool | None = None
    """Whether the measured load has required all replicas at some time after the time in guessed. Unset if it has
    not."""
    pressed: Epoch | None = None
    """Time at which CPU began to require more replicas. Unset while CPU does not require more replicas."""
    saturated: Epoch | None = None
    """Time at which the pods began to use all CPU of their limit. Unset while the pods do not use all CPU."""
    saturated_pods: Annotated[int, Field(ge=0, le=1048576)] | None = None
    """Number of pods that were ready at the time in saturated."""
    trust_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Weight of the forecast in percent, which follows from its accuracy in earlier hours. Unset if the forecast has
    full weight."""
    expected: ExpectedStatus | None = None
    """Forecast that is compared with the measured load until its hour ends."""
    stored: Annotated[
        list[StoredStatus],
        Field(max_length=48, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = Field(default_factory=list)
    """Hourly samples of the data that the bookies stored, from which growth is calculated."""
    refusal: ScalingRefusalStatus | None = None
    """Reason why the last bookie was not removed."""


class ComponentScalingStatus(ApiModel):
    """Last decision of autoscaling for a component."""

    current: Annotated[int, Field(ge=0, le=1048576)]
    """Replicas of the workload. If there are more than desired, the surplus pods are being drained."""
    desired: Annotated[int, Field(ge=0, le=1048576)]
    """Replicas that were decided. If autoscaling is removed, they stay until replicas changes."""
    replicas: Annotated[int, Field(ge=0, le=1048576)]
    """Value of replicas in the spec at the time of the decision."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Reason of the last decision. Without autoscaling, the reason is StatusUnreadable if the operator could not read
    the last decision, and unset otherwise."""
    message: Annotated[str, Field(max_length=2048)] | None = None
    """Explanation of the reason."""
    limited_by: Annotated[str, Field(max_length=128)] | None = None
    """Field of the spec that limits desired."""
    inputs: Annotated[
        list[ScalingInputStatus],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Inputs of the decision."""
    last_scale_time: Time | None = None
    """Time at which desired last changed."""
    updated_time: ReadTime | None = None
    """Time of this status, which is written at least every five minutes. A decision that was not carried out expires
    after half an hour."""
    history: ScalingHistoryStatus | None = None
    """Data for the next decision."""


class AutoscalingStatus(Rows):
    """Decisions of autoscaling."""

    broker: ComponentScalingStatus | None = None
    """Brokers."""
    proxy: ComponentScalingStatus | None = None
    """Proxies."""
    bookkeeper: ComponentScalingStatus | None = None
    """Bookies."""
    unreadable: (
        Annotated[
            list[Annotated[str, Field(max_length=64)]],
            Field(max_length=8, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Components whose last decision the operator could not read, such as broker. These components keep their number of
    pods until the next decision. Unset if there are none."""
