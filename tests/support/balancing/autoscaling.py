"""Brokers in virtual time: a load minute by minute, the shipped decision, pods that start and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pulsar_operator.api.v1alpha1.autoscaling import BrokerAutoscaling
from pulsar_operator.balance.autoscaling import brokers
from pulsar_operator.balance.autoscaling.decide import decide
from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.history import State, from_status, to_status
from pulsar_operator.balance.autoscaling.outlook import Foreseen
from pulsar_operator.balance.autoscaling.policy import policy_of
from pulsar_operator.balance.autoscaling.values import (
    Block,
    Need,
    Policy,
    Ramp,
    Signal,
    TrafficGrowth,
    Verdict,
    Workload,
)

MINUTE = 60.0
POLICY = Policy(2, 20, 0.1, Ramp(0.0, 4, 100, 60.0), Ramp(900.0, 1, 10, 300.0))
"""As the defaults of the fields of brokers, and slower downwards, so that window and ramp are seen."""
DEFAULTS = policy_of(BrokerAutoscaling(min_replicas=2, max_replicas=20))
TARGET = 0.7
DOUBLED = TrafficGrowth(1e9, 2e9)
"""As much traffic as many brokers carry, and as much again."""


def pods(count: int) -> list[str]:
    """Names of so many brokers."""
    return [f"broker-{ordinal}" for ordinal in range(count)]


def cpu(shares: Sequence[float], *, age: float = 30.0, target: float = TARGET, saturates: bool = True) -> Signal:
    """CPU of brokers by ordinal, each with one core."""
    values = dict(zip(pods(len(shares)), shares, strict=True))
    return Signal("cpuPercent", values, 1.0, target, age, "cores", saturates)


def settled(wanted: int, *, minutes: int = 60, policy: Policy = POLICY) -> State:
    """A state in which the same was recommended for long."""
    state = State()
    for minute in range(minutes):
        there = Workload(wanted, frozenset(pods(wanted)))
        _, state = decide(Need(wanted, "load"), there, policy, state, minute * MINUTE)
    return state


@dataclass
class Brokers:
    """A StatefulSet whose pods start within a minute, under the decision that ships."""

    policy: Policy = POLICY
    replicas: int = 4
    profile: Profile | None = None
    state: State = field(default_factory=State)
    now: float = 0.0
    restarts: bool = False
    """Whether the operator is a new one at each look: it has what stands in status."""
    blocks: tuple[Block, ...] = ()
    limited: bool = False
    """Whether a broker uses no more than its limit, whatever is asked of it."""
    traffic: float | None = 2.0
    """By how many times traffic grew, which bears out CPU that grew."""
    carried: float = 1e9
    """Byte-equivalents a second before it grew."""

    def look(self, load: float, *, age: float = 30.0) -> Verdict:
        """One look at a load in brokers that are fully used, spread evenly; a minute passes."""
        share = min(load / self.replicas, 1.0) if self.limited else load / self.replicas
        signal = cpu([share] * self.replicas, age=age, saturates=self.limited)
        workload = Workload(self.replicas, frozenset(pods(self.replicas)), blocks=self.blocks)
        facts = brokers.BrokerFacts(workload, (signal,), Foreseen(self.profile), self._growth())
        if self.restarts:
            self.state = from_status(to_status(self.state), self.now)
        verdict, self.state = brokers.decide(facts, self.policy, self.state, self.now)
        self.replicas = verdict.desired
        self.now += MINUTE
        return verdict

    def _growth(self) -> TrafficGrowth | None:
        return None if self.traffic is None else TrafficGrowth(self.carried, self.traffic * self.carried)

    def week(self, loads: Sequence[float]) -> list[int]:
        """Replicas after each look."""
        return [self.look(load).desired for load in loads]
