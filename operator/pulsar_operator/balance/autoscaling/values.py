"""Inputs and results of the decisions on replicas. Times are seconds of any clock that survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulsar_operator.api.constants import Reason
from pulsar_operator.balance.planner.proposal import Advice


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure of every pod, with its target."""

    name: str
    """Field of the target, such as cpuPercent."""
    values: Mapping[str, float]
    """Values by pod name, in ``unit``."""
    carries: Mapping[str, float] | float
    """Capacity of a pod in the same unit; by pod name if they differ."""
    target: float
    """Target share of the capacity, above 0."""
    age: float
    """Seconds since the oldest of the values was measured."""
    unit: str = ""
    saturates: bool = False
    """Whether the figure cannot exceed a pod's capacity, so that near it the figure is only a lower bound of the
    demand."""


@dataclass(frozen=True, slots=True)
class HotTopic:
    """The topic, or partition of one, with the highest load."""

    name: str
    weight: float
    """Byte equivalents per second."""
    carries: float
    """Byte equivalents per second that the largest broker can carry."""
    target: float
    """Target share of that capacity."""


@dataclass(frozen=True, slots=True)
class TrafficGrowth:
    """Traffic of the same brokers now and before, in byte equivalents per second."""

    before: float
    """In the minutes before, above 0."""
    now: float

    @property
    def times(self) -> float:
        """Returns the growth as a factor. It means little for negligible traffic: see `gained` too."""
        return self.now / self.before

    @property
    def gained(self) -> float:
        """Returns the growth as a difference; negative if the traffic fell."""
        return self.now - self.before


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a decision, for the status."""

    name: str
    value: float | None
    """Total of all pods; None if unknown."""
    target: float
    """Target of all serving pods together."""
    age: float
    """Age of the value in seconds."""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A block: the number may not decrease now, or not change at all, regardless of the measured load."""

    reason: Reason
    message: str
    growth: bool = True
    """Whether no pod is added either; if False, only removals are blocked."""
    understates: bool = False
    """Whether figures may be too low while it lasts, so that no window counts a need for fewer."""
    window: float = 0.0
    """Seconds for which a need for more must last, if pods may be added."""
    counts_twice: bool = False
    """Whether moved load is counted at both its old and its new broker; CPU is not."""


@dataclass(frozen=True)
class Workload:
    """The pods of one component, as reported by Kubernetes."""

    replicas: int
    """Replicas of the workload: the operator's last decision."""
    ready: frozenset[str]
    lost: int = 0
    """Pods that have not been ready for longer than a start takes: their node is unavailable, or they crash."""
    blocks: tuple[Block, ...] = ()
    """Blocks in effect. Messages name the first one."""
    unsure: int = 0
    """Pods that carry, or may carry, more than is measured: just ready, or running and not ready. While there are any,
    no pod is removed."""
    stuck: int = 0
    """Starting pods that exceed the usual start time: no node has room, or new pods cannot start. No pod is added for
    them, since it would not start either, and no decision waits for them."""

    @property
    def serving(self) -> int:
        """Returns the number of pods that carry load, or will soon."""
        return max(self.replicas - self.lost, 0)

    @property
    def starting(self) -> int:
        """Returns the number of pods that are about to be ready."""
        return max(self.serving - len(self.ready), 0)


@dataclass(frozen=True, slots=True)
class Ramp:
    """How fast the number changes in one direction."""

    window: float
    """Seconds over which all recommendations must agree that a change is needed; the smallest change is applied."""
    pods: int
    percent: int
    """Maximum change in percent of the pods. The larger one of this and ``pods`` applies."""
    cooldown: float
    """Seconds between two changes."""

    def most(self, replicas: int) -> int:
        """Returns the largest change from a number of replicas."""
        # Whole numbers: 100 % of 7 is 7, not 7.000000000000001.
        return max(self.pods, -(-replicas * self.percent // 100))


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of the decisions."""

    least: int
    most: int
    tolerance: float
    """Share of the target within which the load is acceptable."""
    up: Ramp
    down: Ramp
    interval: float = 60.0
    """Seconds between two observations. Inputs older than two of them are not trusted."""


@dataclass(frozen=True)
class Need:
    """The replicas that the load needs, before windows and limits."""

    replicas: int | None
    """Replicas; None if there is no decision, since a fact is unknown."""
    message: str
    inputs: tuple[Input, ...] = ()
    urgent: int | None = None
    """Replicas that are needed immediately, regardless of windows and cool-down."""
    floor: int = 0
    """Replicas below which stored data does not fit, regardless of the maximum."""
    shrink_blocker: str = ""
    """Why no pod may be removed now; empty if one may."""
    shrink_blocker_reason: Reason = Reason.STABILIZING
    """Reason that status shows while a pod would be removed and ``shrink_blocker`` keeps it."""
    advice: tuple[Advice, ...] = ()
    """Remedies that more replicas cannot provide."""
    known: int | None = None
    """Replicas that the measured load needs, if more are needed for load that was not measured: saturated CPU, or a
    recorded rise. None if all of it was measured."""
    plain: int | None = None
    """Replicas at which the measured load is at its target, with nothing kept free below it; None if unknown."""
    used: bool = False
    """Whether only CPU requires more, which two pods never use for the same work."""
    ahead: bool = False
    """Whether more are needed, or kept, for a recorded rise."""


@dataclass(frozen=True)
class Verdict:
    """The decision."""

    desired: int
    """Replicas of the workload from now on."""
    reason: Reason
    message: str
    limited_by: str | None = None
    """The field that prevents ``desired`` from meeting the need; None if none does."""
    inputs: tuple[Input, ...] = ()
    advice: tuple[Advice, ...] = field(default=())
