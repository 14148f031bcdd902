"""Inputs and results of the decisions on replicas. Times are seconds of any clock that survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulsar_operator.api.constants import Reason
from pulsar_operator.balance.planner.proposal import Advice


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure of every pod, and what it is judged by."""

    name: str
    """Field of the target, such as cpuPercent."""
    values: Mapping[str, float]
    """By the name of the pod, in ``unit``."""
    carries: Mapping[str, float] | float
    """What a pod can carry at most, or should carry, in the same unit; by the name of the pod where they differ."""
    target: float
    """Wanted share of what a pod carries, above 0."""
    age: float
    """Seconds since the oldest of the values was measured."""
    unit: str = ""
    saturates: bool = False
    """The figure cannot exceed what a pod carries, so that at the top it shows only the least demand."""


@dataclass(frozen=True, slots=True)
class HotTopic:
    """The topic, or partition of one, with most load."""

    name: str
    weight: float
    """Byte-equivalents a second."""
    carries: float
    """Byte-equivalents a second that the largest broker can carry."""
    target: float
    """Wanted share of that."""


@dataclass(frozen=True, slots=True)
class TrafficGrowth:
    """What the same brokers carry and carried, in byte-equivalents a second."""

    before: float
    """In the minutes before, above 0."""
    now: float

    @property
    def times(self) -> float:
        """By how many times it grew. Of hardly any traffic it says nothing: see `gained` too."""
        return self.now / self.before

    @property
    def gained(self) -> float:
        """Returns what there is more; below 0 where there is less."""
        return self.now - self.before


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a decision, as status shows it."""

    name: str
    value: float | None
    """Over all pods; None if not known."""
    target: float
    """What all pods that serve are wanted to carry together."""
    age: float
    """Seconds."""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A block: the number may not fall now, or not change at all, whatever was measured."""

    reason: Reason
    message: str
    growth: bool = True
    """Whether no pod is added either; False = only none leaves."""
    understates: bool = False
    """Whether figures may say less than pods carry while it lasts, so that no window counts a need for fewer."""
    window: float = 0.0
    """Seconds for which a need for more has to last, where pods may be added."""
    counts_twice: bool = False
    """Whether that is only because what moves is counted where it was and where it is: CPU is not."""


@dataclass(frozen=True)
class Workload:
    """The pods of one component as Kubernetes has them."""

    replicas: int
    """Those the workload asks for: the operator's last decision."""
    ready: frozenset[str]
    lost: int = 0
    """Pods that are not ready for longer than a start takes: their node is unavailable, or they crash."""
    blocks: tuple[Block, ...] = ()
    """Messages name the first one."""
    unsure: int = 0
    """Pods that carry more than is measured, or may: just ready, or not ready and yet running. While there are any no
    pod leaves."""
    stuck: int = 0
    """Of the pods that are about to be ready those that were not in the time that a start takes: no node has room, or
    something keeps all that are new from starting. None is added for them, for it would fare alike, and none is waited
    for."""

    @property
    def serving(self) -> int:
        """Returns pods that carry load, or will in a moment."""
        return max(self.replicas - self.lost, 0)

    @property
    def starting(self) -> int:
        """Returns pods that are about to be ready."""
        return max(self.serving - len(self.ready), 0)


@dataclass(frozen=True, slots=True)
class Ramp:
    """How fast the number changes in one direction."""

    window: float
    """Seconds over which all recommendations must agree that a change is needed; their least change is made."""
    pods: int
    percent: int
    """One change is at most so many pods, or this share of the pods, whichever is more."""
    cooldown: float
    """Seconds between two changes."""

    def most(self, replicas: int) -> int:
        """Returns the largest change from a number of replicas."""
        # Whole numbers: 100 % of 7 is 7, not 7.000000000000001.
        return max(self.pods, -(-replicas * self.percent // 100))


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of the decision."""

    least: int
    most: int
    tolerance: float
    """Share of the target within which a load is as wanted."""
    up: Ramp
    down: Ramp
    interval: float = 60.0
    """Seconds between two observations. Inputs older than two of them are not believed."""


@dataclass(frozen=True)
class Need:
    """What the load requires, before windows and limits."""

    replicas: int | None
    """Replicas; None if there is no decision, since something is not known."""
    message: str
    inputs: tuple[Input, ...] = ()
    urgent: int | None = None
    """Replicas that are required immediately, whatever windows and cool-down say."""
    floor: int = 0
    """Replicas below which stored data does not fit, whatever the maximum is."""
    shrink_blocker: str = ""
    """Why no pod may be removed now; empty = one may."""
    shrink_blocker_reason: Reason = Reason.STABILIZING
    """Reason that status shows while a pod would be removed and ``shrink_blocker`` keeps it."""
    advice: tuple[Advice, ...] = ()
    """What helps where replicas do not."""
    known: int | None = None
    """Replicas that the measured load asks for, where more are wanted for load that was not observed: CPU that is all
    in use, or a rise that is only recorded. None = what is wanted was measured."""
    plain: int | None = None
    """Replicas at which the measured load is at its target, with nothing kept free below it; None if not known."""
    used: bool = False
    """Whether what asks for more is CPU alone, which two pods never use for the same."""
    ahead: bool = False
    """Whether more are wanted, or kept, for a recorded rise."""


@dataclass(frozen=True)
class Verdict:
    """The decision."""

    desired: int
    """Replicas of the workload from now on."""
    reason: Reason
    message: str
    limited_by: str | None = None
    """The field that keeps ``desired`` from what the load asks for."""
    inputs: tuple[Input, ...] = ()
    advice: tuple[Advice, ...] = field(default=())
