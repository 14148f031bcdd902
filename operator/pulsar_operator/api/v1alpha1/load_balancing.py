"""spec.loadBalancing of a PulsarCluster: who splits and moves bundles, and how."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel, Quantity
from pulsar_operator.api.v1alpha1.rebalance import RebalanceBudget, TrafficSource


class LoadManager(StrEnum):
    """Pulsar's load manager implementation."""

    MODULAR = "Modular"
    EXTENSIBLE = "Extensible"


class BalancingDriver(StrEnum):
    """Who splits and moves bundles."""

    PULSAR = "Pulsar"
    OPERATOR = "Operator"


class StandingBudget(RebalanceBudget):
    """How much a standing balancer may disturb; all but the traffic counts for each proposal."""

    max_traffic_moved_percent: Annotated[int, Field(ge=1, le=100)] = 60
    """Share of all traffic that may change its broker within an hour. A bundle with more goes alone, rather than being
    cut for ever."""


class StandingRebalance(ApiModel):
    """How the operator balances while it drives: the settings of the PulsarRebalance it keeps for the cluster."""

    auto_approve: bool = True
    """Execute proposals without asking."""
    repeat_seconds: Annotated[int, Field(ge=30, le=604800)] = 60
    """How long after the end of one look the next begins; brokers make their statistics every 60 s."""
    tolerance_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """How near to the best possible a plan goes. The operator acts when the busiest broker has been 2.5 times this
    above it for five minutes, or less where it is very uneven or a broker stands idle."""
    traffic_source: TrafficSource = TrafficSource.LIVE
    """Where the traffic comes from."""
    budget: StandingBudget = Field(default=StandingBudget())
    """How much one proposal may disturb."""


class LoadBalancing(ApiModel):
    """How bundles are balanced over brokers."""

    manager: LoadManager = LoadManager.MODULAR
    """Which of Pulsar's load managers the brokers run."""
    driver: BalancingDriver = BalancingDriver.PULSAR
    """Pulsar: its own automatic split and shedding. Operator: those are switched off (dynamic configuration, restored
    when this changes back) and a PulsarRebalance named <cluster>-balancer splits and moves instead."""
    capacities: Annotated[dict[str, Quantity], Field(max_length=1024)] | None = None
    """What brokers can carry where the CPU of their pods does not tell, as amounts of CPU by the name of a pod. Absent:
    the limit of the pod's CPU counts, else the request; a broker with twice the CPU gets twice the load."""
    rebalance: StandingRebalance = Field(default=StandingRebalance())
    """How the operator balances while it drives."""
