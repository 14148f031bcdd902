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
    """Which steps a proposal may hold."""

    FULL = "Full"
    SPLIT = "Split"
    MOVE = "Move"
    ADD_BROKERS = "AddBrokers"
    REMOVE_BROKERS = "RemoveBrokers"


class TrafficSource(StrEnum):
    """Where the traffic comes from that the proposal is computed from."""

    LIVE = "Live"
    RECORDED = "Recorded"


class RebalanceBudget(ApiModel):
    """How much one proposal may disturb: a move closes every producer and consumer of a bundle for a moment."""

    max_moves: Annotated[int, Field(ge=0, le=10000)] = 1000
    """Bundles that may change their broker. As many as fit in a ConfigMap are proposed at once."""
    max_traffic_moved_percent: Annotated[int, Field(ge=1, le=100)] = 100
    """Share of all traffic that may change its broker: by one proposal, or, with repeatSeconds, within an hour, in all
    that are executed. The default lets one proposal even out any placement; the pace of the moves protects the clients.
    A bundle with more goes alone, rather than being cut for ever. Does not apply to mode RemoveBrokers."""
    max_splits: Annotated[int, Field(ge=0, le=4096)] = 20
    """Cuts; there is no merge in Pulsar, so a cut is for ever."""
    max_bundles_per_namespace: Annotated[int, Field(ge=1, le=65536)] = 4096
    """Bundles a namespace may reach."""
    moves_per_minute: Annotated[int, Field(ge=1, le=600)] = 600
    """Upper bound of the pace. Below it the operator measures how long a bundle takes from the request until its new
    broker has it, and leaves as much time between two moves as one takes, 30 seconds at most. Modes AddBrokers and
    RemoveBrokers leave none."""


class SizingSource(ApiModel):
    """Where the result of the Spark job is."""

    url: Annotated[str, Field(min_length=8, max_length=512, pattern=r"^https?://[^\s?#]+$")] | None = None
    """Base URL of the collector that serves results; absent = http://<instance>-sizing.<namespace>:8080, the Service
    chart pulsar makes."""
    max_age_seconds: Annotated[int, Field(ge=60, le=31536000)] = 172800
    """A result older than this is not used: no data, no proposal."""


NamespacePattern = Annotated[
    str, Field(min_length=3, max_length=257, pattern=r"^[-=:.A-Za-z0-9_]+/([-=:.A-Za-z0-9_]+|\*)$")
]
BrokerName = Annotated[
    str, Field(min_length=1, max_length=300, pattern=r"^([-.A-Za-z0-9_]+:[0-9]+|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")
]
"""A broker by its id or by its pod."""


class PulsarRebalanceSpec(ApiModel):
    """What to balance, how, and how much it may cost."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("clusterRef", why="a proposal belongs to one cluster", remedy="create another PulsarRebalance"),
            (
                "!(self.mode in ['AddBrokers', 'RemoveBrokers']) || (has(self.brokers) && size(self.brokers) > 0)",
                "spec.brokers is required with mode AddBrokers and RemoveBrokers: name pods, or ids host:webPort",
            ),
            (
                "self.mode in ['AddBrokers', 'RemoveBrokers'] || !has(self.brokers) || size(self.brokers) == 0",
                "spec.brokers belongs to the modes AddBrokers and RemoveBrokers",
            ),
            (
                "self.mode == 'RemoveBrokers' || !has(self.excludedBrokers) || size(self.excludedBrokers) == 0",
                "spec.excludedBrokers belongs to the mode RemoveBrokers",
            ),
            (
                "!has(self.sizing) || self.trafficSource == 'Recorded'",
                "spec.sizing belongs to trafficSource Recorded",
            ),
        )
    )

    cluster_ref: ObjectReference
    """The PulsarCluster to balance."""
    mode: RebalanceMode = RebalanceMode.FULL
    """Full: splits and moves. Split, Move: one of them. AddBrokers: only moves onto spec.brokers. RemoveBrokers: only
    moves off spec.brokers."""
    brokers: Annotated[
        list[BrokerName], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = Field(default_factory=list)
    """Brokers of the modes AddBrokers and RemoveBrokers: names of their pods, or their ids (host:webPort, as
    pulsar-admin brokers list prints them)."""
    excluded_brokers: Annotated[
        list[BrokerName], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = Field(default_factory=list)
    """Brokers, named alike, that get no bundles, such as those that will be restarted next; of the mode
    RemoveBrokers."""
    namespaces: Annotated[
        list[NamespacePattern], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = Field(default_factory=list)
    """Namespaces whose bundles may be split and moved, tenant/namespace or tenant/*; empty = all but Pulsar's own."""
    budget: RebalanceBudget = Field(default=RebalanceBudget())
    """How much one proposal may disturb."""
    tolerance_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """A placement whose busiest broker is within this of the best possible is left alone."""
    traffic_source: TrafficSource = TrafficSource.LIVE
    """Live: what the brokers count now. Recorded: the Spark job's result from recorded traffic."""
    sizing: SizingSource | None = None
    """Where the result of trafficSource Recorded is."""
    auto_approve: bool = False
    """Execute a proposal without waiting for the annotation pulsaroperator.io/rebalance: approve-<status.proposal.id>.
    """
    expire_seconds: Annotated[int, Field(ge=30, le=604800)] = 3600
    """A proposal that was not approved after this long is computed anew."""
    repeat_seconds: Annotated[int, Field(ge=30, le=604800)] | None = None
    """Look again this long after each end, as a standing balancer; absent = once. With mode AddBrokers or
    RemoveBrokers: only after an end by surprise."""


class BalanceStatus(ApiModel):
    """How even a placement is; ratios are decimal numbers as text."""

    imbalance: str
    """Load of the busiest broker over the mean; 1.00 is perfect."""
    bound: str
    """The least imbalance that any placement of whole topics can have."""
    bundles: int
    """Bundles that carry load or could."""


class ProposalStatus(ApiModel):
    """Summary of a proposal; the steps are in the ConfigMap."""

    id: str
    """Identifies the proposal. The annotation pulsaroperator.io/rebalance: approve-<id> approves this one and no
    other."""
    computed_time: ReadTime
    """When it was computed."""
    config_map_name: str | None = None
    """ConfigMap with every step and its reason; absent when there is none to do."""
    splits: int = 0
    """Cuts."""
    moves: int = 0
    """Bundles that change their broker."""
    traffic_moved_percent: str = "0"
    """Share of all traffic that changes its broker."""
    topics: Annotated[int, Field(ge=0)] | None = None
    """Topics that one broker closes and another one loads."""
    clients: Annotated[int, Field(ge=0)] | None = None
    """Producers and consumers that reconnect. If unset, nobody counted them: recorded traffic does not tell."""
    expected_duration: Annotated[str, Field(max_length=32)] | None = None
    """Expected time from the approval until the last step is verified, such as about 3m20s. It follows from the steps,
    the pace and the time that the last moves of bundles with clients took in this cluster."""
    before: BalanceStatus | None = None
    """As it was found."""
    after: BalanceStatus | None = None
    """As the proposal promises."""
    brokers: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=24)] = Field(default_factory=list)
    """Load of brokers now and after the steps, a line each: the ten busiest, the ten idlest, and all together. Load is
    in shares of the mean: 1.00 is perfect. The ConfigMap has all brokers."""
    advice: Annotated[list[str], Field(max_length=50)] = Field(default_factory=list)
    """What bundles cannot solve: topics hotter than a broker, and what helps instead."""


class ProgressStatus(ApiModel):
    """How far the execution is. Steps are done in the order of the ConfigMap."""

    started_time: ReadTime | None = None
    """When the proposal was approved."""
    done: int = 0
    """Steps verified in Pulsar."""
    total: int = 0
    """Steps in all."""
    summary: str | None = None
    """Steps verified of all, for the eye: 2/7."""
    current: str | None = None
    """The step under way, in words."""
    current_since: ReadTime | None = None
    """When it was asked of Pulsar first; between two steps, when the last one was."""
    unload_seconds: Annotated[str, Field(max_length=32)] | None = None
    """Seconds from the request of a move until its new broker had the bundle, averaged over the last moves of bundles
    with clients, as a decimal number. It decides the pace."""
    blocked_since: ReadTime | None = None
    """Since when the operator does no step, because the object is paused or brokers do not answer. After 15 minutes the
    PulsarRebalance holds neither Pulsar's own balancer nor autoscaling. If unset, steps go on."""
    finished_time: ReadTime | None = None
    """When the last step was verified."""
    duration: Annotated[str, Field(max_length=32)] | None = None
    """Time from the approval until the last step was verified, to hold against proposal.expectedDuration."""


class FailedExecutions(ApiModel):
    """Executions in a row that ended before they moved a bundle, or, where only splits were planned, split one."""

    count: int = 0
    """How many."""
    last_time: ReadTime | None = None
    """When the last one ended."""
    message: Annotated[str, Field(max_length=500)] | None = None
    """Why the last one ended."""


class BrokerCapacity(ApiModel):
    """What a broker can carry."""

    broker: Annotated[str, Field(max_length=300)]
    """Its id."""
    capacity: str
    """Relative to the mean of all, as a decimal number."""


class CostStatus(ApiModel):
    """How well the weights of bundles explain the CPU that brokers use, as seen at the last look."""

    brokers: int
    """How many told: those that use enough of their CPU to tell anything."""
    deviation: str
    """By how much, on average, a broker's share of the CPU is off its share of the traffic's cost; 0.30 = 30 %."""
    learned: str
    """The same with what was learned of the bundles' cost, which counts in proposals."""


class PulsarRebalanceStatus(CommonStatus):
    """Observed state of a PulsarRebalance."""

    capacities: Annotated[
        list[BrokerCapacity],
        Field(
            max_length=1024,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["broker"]},
        ),
    ] = Field(default_factory=list)
    """What the brokers can carry, where that differs."""
    cost: CostStatus | None = None
    """Of a standing rebalance of live traffic, where brokers tell."""
    distrusted_figures: Annotated[list[str], Field(max_length=10)] = Field(default_factory=list)
    """Brokers whose CPU figure the operator ignores, with the reason: the figure cannot be true, or disagrees with the
    traffic of the broker. At most 10 are named."""
    proposal: ProposalStatus | None = None
    """The proposal."""
    progress: ProgressStatus | None = None
    """How far its execution is."""
    failed_executions: FailedExecutions | None = None
    """Of a standing rebalance. From two on, Pulsar's own balancer is given back. If unset, the last execution did what
    it was to do, or there was none."""
    replaced_proposal: Annotated[str, Field(max_length=32)] | None = None
    """Id of a proposal that waited for approval until this one took its place. The annotation must then name the id of
    the proposal that it approves."""
    measured: BalanceStatus | None = None
    """As it was measured, at least two statistics periods after the last step."""
    measured_brokers: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=24)] = Field(
        default_factory=list
    )
    """Load of brokers as it was measured, as in proposal.brokers."""
    summary: str | None = None
    """Before, after and what is possible, for the eye: 2.81 -> 1.07 (best 1.02)."""
