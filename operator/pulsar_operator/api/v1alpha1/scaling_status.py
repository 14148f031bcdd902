"""Status of autoscaling: what was decided, from what, and what the next decision has to know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel, ReadTime, Time

Epoch = Annotated[int, Field(ge=0, le=2**40)]


class ScalingInputStatus(ApiModel):
    """One figure of all pods together."""

    name: Annotated[str, Field(max_length=64)]
    """The target that it is judged by, such as cpuPercent; forecast = by how many times recorded traffic grows until a
    new broker serves."""
    value: Annotated[str, Field(max_length=64)] | None = None
    """What the pods have; absent = not known."""
    target: Annotated[str, Field(max_length=64)]
    """What they are wanted to have."""
    unit: Annotated[str, Field(max_length=32)] | None = None
    """Unit of both; absent for a number of things."""
    measured_time: Time
    """When the oldest of the pods' figures was measured; of a forecast, until when traffic was recorded."""


class RecommendationStatus(ApiModel):
    """A number of replicas that was recommended."""

    since: Epoch
    """Second of the epoch, UTC."""
    replicas: Annotated[int, Field(ge=0, le=1048576)]
    """The number."""


Recommendations = Annotated[
    list[RecommendationStatus],
    Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
]


class StoredStatus(ApiModel):
    """What all bookies stored at a time."""

    time: Epoch
    """Second of the epoch, UTC."""
    used_bytes: Annotated[int, Field(ge=0, le=2**62)]
    """Of all ledger disks."""


class ScalingRefusalStatus(ApiModel):
    """Why a bookie stayed that was to leave, so that the number was put back."""

    since: Epoch
    """When. Second of the epoch, UTC."""
    reason: Annotated[str, Field(max_length=64)]
    """DecommissionRefused or DecommissionStuck."""
    message: Annotated[str, Field(max_length=1024)]
    """The reason in words."""
    generation: Annotated[int, Field(ge=0)]
    """Of the specification: another one is another attempt."""


class ExpectedStatus(ApiModel):
    """What a forecast said, while its hour is not over."""

    since: Epoch
    """When. Second of the epoch, UTC."""
    base_milli: Annotated[int, Field(ge=0, le=2**53)]
    """The most that the load asked for in the first minutes, in thousandths of a replica."""
    promised_percent: Annotated[int, Field(ge=0, le=1000)]
    """By how many percent the load is to grow within the hour."""
    most_milli: Annotated[int, Field(ge=0, le=2**53)]
    """The most that the load asked for since, in thousandths of a replica."""


class ScalingHistoryStatus(ApiModel):
    """What the next decision has to know, so that a new operator decides the same. Seconds of the epoch."""

    since: Epoch | None = None
    """Begin of the recommendations without a gap."""
    seen: Epoch | None = None
    """A time of a recommendation, at most some intervals before the last one."""
    highs: Recommendations = Field(default_factory=list)
    """The most that was recommended from each time on."""
    lows: Recommendations = Field(default_factory=list)
    """The least that was recommended from each time on."""
    scaled: Epoch | None = None
    """When the number was last changed."""
    upwards: bool = False
    """Whether that was to more."""
    known: Annotated[int, Field(ge=0, le=1048576)] | None = None
    """Replicas that the measured load asked for when more than that were decided: for CPU that was all in use, or
    before a recorded rise. Absent once the number is not above it."""
    guessed: Epoch | None = None
    """When that was."""
    came: bool | None = None
    """Whether the measured load asked for all of them since; absent = not."""
    pressed: Epoch | None = None
    """Since when CPU asks for more replicas; absent = it does not."""
    saturated: Epoch | None = None
    """Since when the pods use all CPU that they may; absent = they do not."""
    saturated_pods: Annotated[int, Field(ge=0, le=1048576)] | None = None
    """How many pods were ready then."""
    peaks: Annotated[
        list[Epoch],
        Field(max_length=3, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = Field(default_factory=list)
    """When the load came back to where it had been, the last times."""
    dip: Annotated[int, Field(ge=0, le=1048576)] | None = None
    """The least that was recommended since the last peak."""
    trust_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """How much of what the forecast says is believed, by what came of it in earlier hours; absent = all of it."""
    expected: ExpectedStatus | None = None
    """What the forecast said of the hour that is not over."""
    stored: Annotated[
        list[StoredStatus],
        Field(max_length=48, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = Field(default_factory=list)
    """Of bookies: what they stored, hour by hour, from which growth is told."""
    refusal: ScalingRefusalStatus | None = None
    """Of bookies: why the last one that was to leave stayed."""


class ComponentScalingStatus(ApiModel):
    """Replicas of one component, as autoscaling decided last."""

    current: Annotated[int, Field(ge=0, le=1048576)]
    """Replicas of the workload. More than desired: those that are too many hand over what they carry."""
    desired: Annotated[int, Field(ge=0, le=1048576)]
    """Replicas that were decided. Without autoscaling they stay until replicas is changed."""
    replicas: Annotated[int, Field(ge=0, le=1048576)]
    """The specification's replicas meanwhile."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Reason of the last decision; absent once autoscaling is removed."""
    message: Annotated[str, Field(max_length=2048)] | None = None
    """The reason in words."""
    limited_by: Annotated[str, Field(max_length=128)] | None = None
    """Field that keeps desired from what the load asks for."""
    inputs: Annotated[
        list[ScalingInputStatus],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """What was decided from."""
    last_scale_time: Time | None = None
    """When desired was last changed."""
    updated_time: ReadTime | None = None
    """When this was written; at rest it is every five minutes. A decision that was not done by then counts for half an
    hour more."""
    history: ScalingHistoryStatus | None = None
    """For the next decision."""


class AutoscalingStatus(ApiModel):
    """Replicas that autoscaling decided."""

    broker: ComponentScalingStatus | None = None
    """Brokers."""
    proxy: ComponentScalingStatus | None = None
    """Proxies."""
    bookkeeper: ComponentScalingStatus | None = None
    """Bookies."""
