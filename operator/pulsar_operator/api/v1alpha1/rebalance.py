"""PulsarRebalance: a proposal of bundle splits and moves, computed, shown, approved, executed and measured."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import (
    ApiModel,
    CommonStatus,
    ObjectReference,
    ReadTime,
    immutable,
    validations,
)


class RebalanceMode(StrEnum):
    """Steps that a proposal may contain."""

    FULL = "Full"
    SPLIT = "Split"
    MOVE = "Move"
    ADD_BROKERS = "AddBrokers"
    REMOVE_BROKERS = "RemoveBrokers"


class TrafficSource(StrEnum):
    """Source of the traffic figures that a proposal is computed from."""

    LIVE = "Live"
    RECORDED = "Recorded"


class RebalanceBudget(ApiModel):
    """Limits of a proposal. A move disconnects every producer and consumer of a bundle for a moment."""

    max_moves: Annotated[int, Field(ge=0, le=10000)] = 1000
    """Maximum number of bundles that change their broker. A proposal has at most as many as fit in a ConfigMap."""
    max_traffic_moved_percent: Annotated[int, Field(ge=1, le=100)] = 100
    """Maximum percentage of the traffic that changes its broker, by one proposal, or with repeatSeconds by all
    proposals that are executed within an hour. A bundle that exceeds this percentage is moved alone instead of being
    split, because splits cannot be undone. The limit does not apply to mode RemoveBrokers. With 100, one proposal can
    balance any placement, and the pace of the moves protects the clients."""
    max_splits: Annotated[int, Field(ge=0, le=4096)] = 20
    """Maximum number of splits. A split cannot be undone, because Pulsar cannot merge bundles."""
    max_bundles_per_namespace: Annotated[int, Field(ge=1, le=65536)] = 4096
    """Maximum number of bundles that a namespace may have after splits."""
    moves_per_minute: Annotated[int, Field(ge=1, le=600)] = 600
    """Maximum number of moves per minute. Below it, the operator measures how long a bundle takes from the request
    until its new broker has it, and waits as long between two moves, but at most 30 seconds. In modes AddBrokers and
    RemoveBrokers, the operator does not wait."""


class SizingSource(ApiModel):
    """Location of the result of the Spark job."""

    url: Annotated[str, Field(min_length=8, max_length=512, pattern=r"^https?://[^\s?#]+$")] | None = None
    """Base URL of the collector that serves results. If unset, the URL is http://<instance>-sizing.<namespace>:8080,
    the Service that chart pulsar creates."""
    max_age_seconds: Annotated[int, Field(ge=60, le=31536000)] = 172800
    """Seconds after which a result is too old. Without a usable result there is no proposal."""


NamespacePattern = Annotated[
    str, Field(min_length=3, max_length=257, pattern=r"^[-=:.A-Za-z0-9_]+/([-=:.A-Za-z0-9_]+|\*)$")
]
BrokerName = Annotated[
    str, Field(min_length=1, max_length=300, pattern=r"^([-.A-Za-z0-9_]+:[0-9]+|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")
]
"""A broker by its id or by its pod."""


class PulsarRebalanceSpec(ApiModel):
    """A rebalance of the bundles of a cluster: what is balanced, how, and within which budget."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("clusterRef", why="a proposal belongs to one cluster", remedy="Create another PulsarRebalance"),
            (
                "!(self.mode in ['AddBrokers', 'RemoveBrokers']) || (has(self.brokers) && size(self.brokers) > 0)",
                "spec.brokers is required with modes AddBrokers and RemoveBrokers. Set it to pod names or broker "
                "ids (host:webPort)",
            ),
            (
                "self.mode in ['AddBrokers', 'RemoveBrokers'] || !has(self.brokers) || size(self.brokers) == 0",
                "spec.brokers is allowed only with modes AddBrokers and RemoveBrokers",
            ),
            (
                "self.mode == 'RemoveBrokers' || !has(self.excludedBrokers) || size(self.excludedBrokers) == 0",
                "spec.excludedBrokers is allowed only with mode RemoveBrokers",
            ),
            (
                "!has(self.sizing) || self.trafficSource == 'Recorded'",
                "spec.sizing is allowed only with trafficSource Recorded",
            ),
        )
    )

    cluster_ref: ObjectReference
    """PulsarCluster whose bundles are balanced."""
    mode: RebalanceMode = RebalanceMode.FULL
    """Steps that a proposal may contain. Full allows splits and moves. Split allows only splits, and Move only moves.
    AddBrokers allows only moves to spec.brokers, and RemoveBrokers only moves away from spec.brokers."""
    brokers: Annotated[
        list[BrokerName], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = Field(default_factory=list)
    """Brokers of modes AddBrokers and RemoveBrokers, by the names of their pods or by their IDs (host:webPort, as
    printed by pulsar-admin brokers list). Required with these modes, and must not be set otherwise."""
    excluded_brokers: Annotated[
        list[BrokerName], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = Field(default_factory=list)
    """Brokers that receive no bundles, such as those that are restarted next, by the names of their pods or by their
    IDs. The field is allowed only with mode RemoveBrokers. If empty, every other broker may receive bundles."""
    namespaces: Annotated[
        list[NamespacePattern], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = Field(default_factory=list)
    """Namespaces whose bundles may be split and moved, as tenant/namespace or tenant/*. If empty, all namespaces except
    Pulsar's own are included."""
    budget: RebalanceBudget = Field(default=RebalanceBudget())
    """Limits of a proposal."""
    tolerance_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """How close to the best possible balance a proposal comes, in percent. A placement whose busiest broker is within
    this tolerance is left unchanged."""
    traffic_source: TrafficSource = TrafficSource.LIVE
    """Source of the traffic figures. Live uses current statistics of the brokers, and Recorded uses the result of the
    Spark job."""
    sizing: SizingSource | None = None
    """Location of the result of the Spark job, which is allowed only with trafficSource Recorded. If unset, each
    field has its default."""
    auto_approve: bool = False
    """Whether a proposal is executed without approval by the annotation pulsaroperator.io/rebalance:
    approve-<status.proposal.id>."""
    expire_seconds: Annotated[int, Field(ge=30, le=604800)] = 3600
    """Seconds after which a proposal that was not approved is replaced by a new one."""
    repeat_seconds: Annotated[int, Field(ge=30, le=604800)] | None = None
    """Seconds from the end of one evaluation to the start of the next. In modes AddBrokers and RemoveBrokers, the
    interval applies only after a rebalance that ended unexpectedly. If unset, there is one evaluation."""


class BalanceStatus(ApiModel):
    """Balance of a placement. Ratios are decimal numbers as strings."""

    imbalance: str
    """Load of the busiest broker divided by the mean load. 1.00 is perfect."""
    bound: str
    """Lowest imbalance that a placement of whole topics can have."""
    bundles: int
    """Number of bundles that carry load or can carry it."""


class ProposalStatus(ApiModel):
    """Summary of a proposal. The ConfigMap contains the steps."""

    id: str
    """ID of the proposal. The annotation pulsaroperator.io/rebalance: approve-<id> approves only this one."""
    computed_time: ReadTime
    """Time at which the proposal was computed."""
    config_map_name: str | None = None
    """ConfigMap that contains each step with its reason. Unset if there are no steps."""
    splits: int = 0
    """Number of splits."""
    moves: int = 0
    """Number of bundles that change their broker."""
    traffic_moved_percent: str = "0"
    """Percentage of the traffic that changes its broker."""
    topics: Annotated[int, Field(ge=0)] | None = None
    """Number of topics that one broker closes and another one loads."""
    clients: Annotated[int, Field(ge=0)] | None = None
    """Number of producers and consumers that reconnect. Unset with recorded traffic, which does not contain this
    number."""
    expected_duration: Annotated[str, Field(max_length=32)] | None = None
    """Expected time from the approval until the last step is verified, such as about 3m20s. The time follows from the
    steps, the pace, and the duration of recent moves of bundles with clients in this cluster."""
    before: BalanceStatus | None = None
    """Balance before the steps."""
    after: BalanceStatus | None = None
    """Expected balance after the steps."""
    brokers: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=24)] = Field(default_factory=list)
    """Load of brokers before and after the steps, one per line: the ten busiest, the ten least busy, and all together.
    Load is relative to the mean, and 1.00 is perfect. The ConfigMap lists all brokers."""
    advice: Annotated[list[str], Field(max_length=50)] = Field(default_factory=list)
    """Problems that balancing cannot solve, such as a topic whose load exceeds that of a broker, and their remedies."""


class ProgressStatus(ApiModel):
    """Progress of the execution. Steps are executed in the order of the ConfigMap."""

    started_time: ReadTime | None = None
    """Time at which the proposal was approved."""
    done: int = 0
    """Number of steps that were verified in Pulsar."""
    total: int = 0
    """Number of steps."""
    summary: str | None = None
    """Verified steps of all steps, such as 2/7."""
    current: str | None = None
    """Description of the current step."""
    current_since: ReadTime | None = None
    """Time at which the current step was first requested. Between two steps, the time of the last request."""
    unload_seconds: Annotated[str, Field(max_length=32)] | None = None
    """Seconds from the request of a move until the new broker had the bundle, averaged over recent moves of bundles
    with clients, as a decimal number. The duration determines the pace."""
    blocked_since: ReadTime | None = None
    """Time at which the operator stopped executing steps, because the object is paused or brokers do not answer. After
    15 minutes Pulsar's own balancer and autoscaling are no longer blocked. Unset while steps are executed."""
    finished_time: ReadTime | None = None
    """Time at which the last step was verified."""
    duration: Annotated[str, Field(max_length=32)] | None = None
    """Time from the approval until the last step was verified, to compare with proposal.expectedDuration."""


class FailedExecutions(ApiModel):
    """Consecutive executions that ended before they moved a bundle, or, if only splits were planned, before they split
    one."""

    count: int = 0
    """Number of consecutive failed executions."""
    last_time: ReadTime | None = None
    """Time at which the last failed execution ended."""
    message: Annotated[str, Field(max_length=500)] | None = None
    """Reason why the last failed execution ended."""


class BrokerCapacity(ApiModel):
    """Capacity of a broker."""

    broker: Annotated[str, Field(max_length=300)]
    """ID of the broker."""
    capacity: str
    """Capacity relative to the mean of all brokers, as a decimal number."""


class CostStatus(ApiModel):
    """How well the weights of bundles explain the CPU usage of brokers, at the last evaluation."""

    brokers: int
    """Number of brokers whose CPU usage is high enough for a comparison."""
    deviation: str
    """Mean deviation of a broker's share of the CPU from its share of the traffic's cost. 0.30 means 30 %."""
    learned: str
    """Mean deviation with the learned cost of the bundles, which proposals use."""


class PulsarRebalanceStatus(CommonStatus):
    """Observed state of a PulsarRebalance."""

    capacities: Annotated[
        list[BrokerCapacity],
        Field(
            max_length=1024,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["broker"]},
        ),
    ] = Field(default_factory=list)
    """Capacities of the brokers. Empty if all are equal."""
    cost: CostStatus | None = None
    """Accuracy of the weights of bundles. Unset unless a standing rebalance of live traffic can measure the
    accuracy."""
    distrusted_figures: Annotated[list[str], Field(max_length=10)] = Field(default_factory=list)
    """Brokers whose CPU figure the operator ignores, with the reason: the figure is impossible, or contradicts the
    traffic of the broker. At most 10 are listed."""
    proposal: ProposalStatus | None = None
    """Current proposal."""
    progress: ProgressStatus | None = None
    """Progress of the execution."""
    failed_executions: FailedExecutions | None = None
    """Consecutive failed executions of a standing rebalance. From two on, Pulsar's own balancer is restored. Unset if
    the last execution completed its plan, or if there was no execution."""
    replaced_proposal: Annotated[str, Field(max_length=32)] | None = None
    """ID of the previous proposal, which was replaced while it waited for approval. The value is none if the operator
    could not read that ID, or if the approval was given before the first proposal. If this field is set, the annotation
    must contain the ID of the proposal that it approves."""
    approval_required: bool | None = None
    """Whether proposals need approval despite spec.autoApprove, because the operator could not read the status and so
    does not know what was executed. Unset once a proposal is approved."""
    measured: BalanceStatus | None = None
    """Balance that was measured at least two statistics periods after the last step."""
    measured_brokers: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=24)] = Field(
        default_factory=list
    )
    """Measured load of brokers, in the format of proposal.brokers."""
    summary: str | None = None
    """Imbalance before and after, and the lowest possible one, such as 2.81 -> 1.07 (best 1.02)."""
