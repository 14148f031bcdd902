"""Who decides on the number of brokers: ours as it ships, the HPA's formula, a published rule of two thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Protocol

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.autoscaling import BrokerAutoscaling
from pulsar_operator.balance.autoscaling import brokers, policy
from pulsar_operator.balance.autoscaling.blocks import blocks
from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.outlook import Foreseen
from pulsar_operator.balance.autoscaling.policy import Measured
from pulsar_operator.balance.autoscaling.values import TrafficGrowth, Workload
from pulsar_operator.domain.dataplane.scaling.pod_loads import KEPT_SECONDS, Reading, Readings, added, measured

LEAST, MOST = 2, 40
INTERVAL = 60.0
EPOCH = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scaler sees in one minute."""

    minute: int
    replicas: int
    ready: frozenset[int]
    """Ordinals."""
    usage: Mapping[int, float]
    """Share of its CPU limit by ordinal; a pod that does not tell is absent."""
    age: float
    """Seconds."""
    lost: int
    """Pods that are not ready for longer than a start takes."""
    youngest: int
    """Minutes since the last pod became ready."""
    unsure: int = 0
    """Pods that may carry more than they tell."""
    traffic: Mapping[int, float] = field(default_factory=dict)
    """Bytes a second that ready brokers carry, by ordinal."""
    moving: bool = False
    """Whether bundles are being moved."""


class Scaler(Protocol):
    """A rule with a memory of its own."""

    name: str

    def replicas(self, seen: Seen) -> int:
        """Wanted from now on."""
        ...


@dataclass
class Ours:
    """The function that ships, with the defaults of its fields, its state written and read back like the operator's."""

    profile: Profile | None
    name: str = "operator"
    _state: State = field(default_factory=State)
    _readings: dict[int, Readings] = field(default_factory=dict)
    _gone: dict[int, Readings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._spec = BrokerAutoscaling(min_replicas=LEAST, max_replicas=MOST)
        self._policy = policy.policy_of(self._spec, INTERVAL)

    def replicas(self, seen: Seen) -> int:
        """The verdict's number."""
        pods = {ordinal: f"broker-{ordinal}" for ordinal in seen.ready}
        usage = {f"broker-{ordinal}": share for ordinal, share in seen.usage.items()}
        cpu = {"cpuPercent": Measured(usage, seen.age)}
        signals = policy.broker_signals(self._spec.targets, cpu, dict.fromkeys(pods.values(), 1.0), limited=True)
        held = blocks(Component.BROKER, [Reason.REBALANCING] * seen.moving)
        workload = Workload(seen.replicas, frozenset(pods.values()), seen.lost, held, seen.unsure)
        facts = brokers.BrokerFacts(workload, signals, Foreseen(self.profile), self._traffic(seen))
        verdict, self._state = brokers.decide(facts, self._policy, self._state, seen.minute * 60.0)
        return verdict.desired

    def _traffic(self, seen: Seen) -> TrafficGrowth | None:
        """As the operator reads it off the pages of the brokers."""
        at = EPOCH + timedelta(minutes=seen.minute)
        new = {
            each: Reading(at, {"bandwidthPercent": of, "messagesPerSecond": 0.0}, {})
            for each, of in seen.traffic.items()
        }
        before = self._gone | self._readings
        self._readings = {each: added(self._readings.get(each, ()), reading) for each, reading in new.items()}
        self._gone = {
            each: of
            for each, of in before.items()
            if each not in new and (at - of[-1].at).total_seconds() <= KEPT_SECONDS
        }
        figures = measured({str(each): of for each, of in self._readings.items()}, at, self._gone.values())
        return policy.traffic_growth({name: Measured(values, age) for name, (values, age) in figures.items()})


@dataclass
class Hpa:
    """HorizontalPodAutoscaler v2 on CPU with its defaults: tolerance 0.1, 300 s of stabilisation downwards.

    Source: Kubernetes documentation, Horizontal Pod Autoscaling, "Algorithm details" and "Configurable scaling
    behavior" (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/). It looks every 15 s, here
    every minute, so that its policy upwards (4 pods or 100 % in 15 s) never limits. Frozen figures it takes for new.
    """

    target: float
    name: str = ""
    _recommended: list[tuple[int, int]] = field(default_factory=list)

    TOLERANCE = 0.1
    DOWN_MINUTES = 5

    def __post_init__(self) -> None:
        self.name = f"HPA {self.target:.0%}"

    def replicas(self, seen: Seen) -> int:
        """The most that was recommended in the last five minutes, where that is less than there are."""
        wanted = min(max(self._wanted(seen), LEAST), MOST)
        since = seen.minute - self.DOWN_MINUTES
        self._recommended = [each for each in self._recommended if each[0] > since] + [(seen.minute, wanted)]
        return max(wanted, min(seen.replicas, max(number for _, number in self._recommended)))

    def _wanted(self, seen: Seen) -> int:
        told = [seen.usage[ordinal] for ordinal in seen.ready if ordinal in seen.usage]
        if not told:
            return seen.replicas
        missing = len(seen.ready) - len(told)
        unready = max(seen.replicas - len(seen.ready), 0)
        ratio = sum(told) / len(told) / self.target
        if not missing and not (unready and ratio > 1):
            return seen.replicas if self._within(ratio) else ceil(ratio * len(told) - 1e-9)
        # Pods that do not tell count as wanted where pods are to go, as idle where they are to come; pods that are not
        # ready as idle where they are to come.
        others = missing if ratio < 1 else missing + unready
        total = sum(told) + (missing * self.target if ratio < 1 else 0.0)
        again = total / (len(told) + others) / self.target
        if self._within(again) or (ratio > 1) != (again > 1):
            return seen.replicas
        return ceil(again * (len(told) + others) - 1e-9)

    def _within(self, ratio: float) -> bool:
        return abs(ratio - 1.0) <= self.TOLERANCE


@dataclass
class Published:
    """KAAP's broker autoscaler (class BrokerSetAutoscaler): one more if every broker is above 0.8, one less if every
    one is below 0.3, each minute, once all pods are ready and older than five minutes."""

    name: str = "0.3/0.8"

    UP, DOWN, SETTLED_MINUTES = 0.8, 0.3, 5

    def replicas(self, seen: Seen) -> int:
        """One more, one less, or the same."""
        told = [seen.usage[ordinal] for ordinal in seen.ready if ordinal in seen.usage]
        unsettled = len(seen.ready) != seen.replicas or seen.youngest < self.SETTLED_MINUTES
        if unsettled or len(told) != len(seen.ready):
            return seen.replicas
        change = 1 if min(told) > self.UP else -1 if max(told) < self.DOWN else 0
        return min(max(seen.replicas + change, LEAST), MOST)
