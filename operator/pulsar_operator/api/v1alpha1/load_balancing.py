"""spec.loadBalancing of a PulsarCluster: who splits and moves bundles, and how."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel, Quantity
from pulsar_operator.api.v1alpha1.rebalance import RebalanceBudget, TrafficSource


class LoadManager(StrEnum):
    """Load manager of Pulsar."""

    MODULAR = "Modular"
    EXTENSIBLE = "Extensible"


class BalancingDriver(StrEnum):
    """Component that splits and moves bundles."""

    PULSAR = "Pulsar"
    OPERATOR = "Operator"


class StandingBudget(RebalanceBudget):
    """Limits of a standing rebalance. The traffic limit applies to each hour, the others apply to each proposal."""

    max_traffic_moved_percent: Annotated[int, Field(ge=1, le=100)] = 60
    """Maximum percentage of the traffic that changes its broker within an hour. A bundle that exceeds this percentage
    is moved alone instead of being split, because splits cannot be undone."""


class StandingRebalance(ApiModel):
    """Settings of the PulsarRebalance that the operator maintains for a cluster."""

    auto_approve: bool = True
    """Whether proposals are executed without approval."""
    repeat_seconds: Annotated[int, Field(ge=30, le=604800)] = 60
    """Seconds from the end of one evaluation to the start of the next. Brokers update their statistics every 60
    seconds."""
    tolerance_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """How close to the best possible balance a proposal comes, in percent. The operator acts when the load of the
    busiest broker has exceeded the best possible by 2.5 times tolerancePercent for five minutes, or earlier if the
    imbalance is severe or a broker is idle."""
    traffic_source: TrafficSource = TrafficSource.LIVE
    """Source of the traffic figures. Live uses current statistics of the brokers, and Recorded uses the result of the
    Spark job."""
    budget: StandingBudget = Field(default=StandingBudget())
    """Limits of the moves and splits."""


class LoadBalancing(ApiModel):
    """Load balancing of bundles over brokers."""

    manager: LoadManager = LoadManager.MODULAR
    """Load manager that the brokers run."""
    driver: BalancingDriver = BalancingDriver.PULSAR
    """Component that splits and moves bundles. With Pulsar, the brokers balance automatically. With Operator, the
    operator disables this balancing by dynamic configuration and balances with a PulsarRebalance named
    <cluster>-balancer. The operator restores the dynamic configuration when this field changes back to Pulsar."""
    capacities: Annotated[dict[str, Quantity], Field(max_length=1024)] | None = None
    """Capacities of brokers as amounts of CPU, by pod name, for brokers whose CPU does not reflect the load that they
    can carry. If unset, the CPU limit of a pod is its capacity, or the CPU request if the pod has no limit."""
    rebalance: StandingRebalance = Field(default=StandingRebalance())
    """Settings of balancing by the operator, which driver Operator uses."""
