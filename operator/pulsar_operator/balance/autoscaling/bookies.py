"""Decides the number of bookies from stored data and its growth, write latency, and the number of writable bookies.

Pure. A new bookie gets a share of the new writes; existing data is not moved to it. The data of a removed bookie is
copied to the others, so a bookie is removed only if they have ample space for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, fsum, inf, isfinite

from pulsar_operator.api.constants import Reason
from pulsar_operator.balance.autoscaling.decide import MAX
from pulsar_operator.balance.autoscaling.decide import decide as decided
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.pressure import ROUNDING, STALE_INTERVALS, replicas_for
from pulsar_operator.balance.autoscaling.trend import Trend
from pulsar_operator.balance.autoscaling.values import Input, Need, Policy, Verdict, Workload

DAY = 86400.0
LARGEST_DISK = 2.0**64
"""Maximum bytes of a disk. Shared file systems report about 2^63; more is an error of the source."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a bookie was not removed, so that the number was restored. The removal of another bookie would be refused for
    the same reason."""

    reason: Reason
    message: str
    generation: int
    """Generation of the specification."""
    at: float

    def applies(self, generation: int, now: float) -> bool:
        """Whether no bookie is removed yet. After a refusal a removal is retried a day later, since the obstacle may be
        resolved; after a timeout only after a change of the specification, since each attempt moves the bookie's
        data."""
        if generation != self.generation:
            return False
        return self.reason is Reason.DECOMMISSION_STUCK or 0 <= now - self.at < DAY


@dataclass(frozen=True, slots=True)
class Disk:
    """Disk usage of one bookie, all ledger volumes together."""

    used: float
    total: float
    """Bytes."""
    writable: bool
    latency: float | None = None
    """99th percentile of its write latency in seconds; None if not reported."""

    @property
    def share(self) -> float:
        """Returns the used share of the disk."""
        return self.used / self.total


@dataclass(frozen=True, slots=True)
class BookieTargets:
    """Targets of bookies, as shares of the disks of all bookies, except ``full``, which applies to each bookie."""

    disk: float = 0.75
    """Target share for all bookies."""
    low: float = 0.6
    """Maximum share after one is removed."""
    full: float = 0.9
    """Share of one disk at which a bookie is added immediately. BookKeeper stops writing at 95 %
    (diskUsageThreshold)."""
    days: float = 3.0
    """Minimum seconds until they are full."""
    latency: float | None = None
    """Maximum write latency in seconds; None if it is not considered."""
    writable: int = 1
    """Number of bookies that must be writable: the largest ensemble."""


@dataclass(frozen=True)
class BookieFacts:
    """Measured facts."""

    workload: Workload
    disks: Mapping[str, Disk]
    """Disks by pod name."""
    age: float
    """Seconds since the oldest figure was measured."""
    trend: Trend | None
    """Growth of the stored data; None if it is unknown, in which case no bookie is removed."""
    targets: BookieTargets = BookieTargets()
    refused: Refused | None = None
    """The last refusal, while no bookie is removed because of it; otherwise None."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """The stored data of all ready bookies."""

    used: float
    each: float
    """Mean disk size of a bookie in bytes."""
    trend: Trend | None

    @property
    def growth(self) -> float:
        """Returns the growth in bytes per second, at least 0; 0 if the data no longer grows."""
        return max(self.trend.slope, 0.0) if self.trend is not None and self.trend.recent > 0 else 0.0

    def bookies(self, share: float, seconds: float = 0.0) -> float:
        """Returns the number of bookies that hold all data after ``seconds`` with a ``share`` of their disks used."""
        ahead = self.trend.ahead(seconds) if self.trend is not None else 0.0
        return (self.used + ahead) / (share * self.each)


def decide(facts: BookieFacts, policy: Policy, state: State, now: float) -> tuple[Verdict, State]:
    """Returns the decision on bookies and the state to keep. ``now`` is in seconds."""
    return decided(need(facts, policy), facts.workload, policy, state, now)


def taken_back(found: Refused, there: int, current: int, policy: Policy) -> tuple[Verdict, State]:
    """Returns the decision after a refused removal: the ``there`` existing bookies are kept. The windows restart, so
    the next removal is at least a whole window later."""
    text = f"{found.message} The number of replicas is restored from {current} to {there}, and {_again(found)}."
    limit = MAX if there > policy.most else None
    return Verdict(there, found.reason, text, limit), State(scaled=found.at)


def _again(found: Refused) -> str:
    if found.reason is Reason.DECOMMISSION_STUCK:
        return "no bookie is removed until the specification changes"
    return "no bookie is removed for a day, or until the specification changes"


def need(facts: BookieFacts, policy: Policy) -> Need:
    """Returns the number of bookies that stored data and its growth require."""
    why = _unbelievable(facts, policy)
    if why is not None:
        return Need(None, why)
    workload, targets = facts.workload, facts.targets
    disks = [facts.disks[pod] for pod in sorted(workload.ready)]
    total = fsum(disk.total for disk in disks)
    stored = _Stored(fsum(disk.used for disk in disks), total / len(disks), facts.trend)
    by_days = stored.bookies(targets.full, targets.days * DAY)
    kept = max(stored.bookies(targets.low), by_days)
    count = replicas_for(stored.bookies(targets.disk), kept, workload, policy.tolerance)
    grown = replicas_for(max(stored.bookies(targets.disk), by_days), kept, workload, policy.tolerance)
    if stored.used >= targets.low * total:
        # For what is not stored yet one at a time, and none while there is room: then growth is measured again.
        count = max(count, min(grown, workload.replicas + 1))
    latency = max((disk.latency for disk in disks if disk.writable and disk.latency is not None), default=None)
    if _above(latency, targets.latency, 1 + policy.tolerance):
        count = max(count, workload.replicas + 1)
    urgent, words = _urgent(facts, disks)
    return Need(
        count if urgent is None else max(count, urgent),
        ". ".join([_message(stored, total, targets), *words]),
        tuple(_inputs(facts, stored, latency)),
        urgent,
        max(ceil(kept - ROUNDING), _fitting(facts)),
        ", and ".join(_shrink_blockers(facts, disks, latency)),
        Reason.STABILIZING if facts.refused is None else facts.refused.reason,
    )


def _unbelievable(facts: BookieFacts, policy: Policy) -> str | None:
    ready = facts.workload.ready
    if not ready:
        return "no bookie is ready"
    missing = sorted(ready - facts.disks.keys())
    if missing:
        more = f", and {len(missing) - 1} more" if missing[1:] else ""
        return f"disk usage or writability is not known for {missing[0]}{more}"
    if not 0 <= facts.age <= STALE_INTERVALS * policy.interval:
        return (
            f"the figures of bookies are {facts.age:.0f} s old, which is more than "
            f"{STALE_INTERVALS * policy.interval:.0f} s"
        )
    trend = facts.trend
    if trend is not None and not (isfinite(trend.slope) and isfinite(trend.recent)):
        return f"the growth of {trend.slope} bytes per second is not a valid value"
    for pod in sorted(ready):
        disk = facts.disks[pod]
        # More used than there is: two figures of different times, or of different disks.
        if not (0 <= disk.used <= disk.total and 0 < disk.total <= LARGEST_DISK):
            return f"{pod} uses {disk.used} of {disk.total} bytes, which is impossible"
        if facts.targets.latency is not None and not 0 <= (-1 if disk.latency is None else disk.latency) < inf:
            return f"the write latency of {pod} is not known"
    return None


def _fitting(facts: BookieFacts) -> int:
    """Returns the smallest number of bookies that can hold the stored data once the highest ordinals are removed.

    The data of the removed bookies is spread evenly over the others, as BookKeeper places it, so free space on a large
    disk does not help the small ones.
    """
    ready = sorted((int(pod.rpartition("-")[2]), facts.disks[pod]) for pod in facts.workload.ready)
    for number in range(facts.workload.replicas - 1, 0, -1):
        stay = [disk for ordinal, disk in ready if ordinal < number and disk.writable]
        share = fsum(disk.used for ordinal, disk in ready if ordinal >= number) / max(len(stay), 1)
        if not stay or any(disk.used + share > facts.targets.disk * disk.total for disk in stay):
            return number + 1
    return 1


def _urgent(facts: BookieFacts, disks: list[Disk]) -> tuple[int | None, list[str]]:
    """Returns the bookies to add immediately, and why: too few are writable, or a disk is full and no bookie has room.

    A starting bookie counts as one with room, and so does one below the low mark, which was added for the full one.
    Existing data does not move, so the full disk stays full for long, and must not cause another bookie a minute later.
    """
    targets, workload = facts.targets, facts.workload
    able = sum(disk.writable and disk.share < targets.full for disk in disks) + workload.starting
    found, words = workload.replicas, []
    if able < targets.writable:
        found += targets.writable - able
        words.append(f"{able} bookies are writable and not full, but ensembles need {targets.writable}")
    full = sum(disk.share >= targets.full for disk in disks)
    room = sum(disk.writable and disk.share < targets.low for disk in disks) + workload.starting
    if full and not room:
        found = max(found, workload.replicas + 1)
        words.append(f"{full} bookies are {targets.full:.0%} full, and no bookie is less than {targets.low:.0%} full")
    return (found if words else None), words


def _shrink_blockers(facts: BookieFacts, disks: list[Disk], latency: float | None) -> Iterator[str]:
    """Yields the reasons why no bookie may be removed."""
    targets = facts.targets
    if facts.trend is None:
        yield "the growth of stored data is not known yet"
    fullest = max(disk.share for disk in disks)
    if fullest > targets.disk:
        yield f"a bookie is {fullest:.0%} full and would store a share of the data of the removed bookie"
    if _above(latency, targets.latency, 0.5):
        yield "writes take more than half of their target latency"
    if sum(disk.writable for disk in disks) <= targets.writable:
        yield f"ensembles require {targets.writable} writable bookies"
    if facts.refused is not None:
        yield f"the last removal was refused, and {_again(facts.refused)}: {facts.refused.message.rstrip('.')}"


def _above(latency: float | None, limit: float | None, share: float) -> bool:
    return latency is not None and limit is not None and latency > limit * share


def _message(stored: _Stored, total: float, targets: BookieTargets) -> str:
    text = f"the bookies are {stored.used / total:.0%} full on average and the target is {targets.disk:.0%}"
    if stored.growth > 0:
        left = max(total * targets.full - stored.used, 0.0) / stored.growth / DAY
        text += f". At the present growth they are {targets.full:.0%} full in {left:.1f} days"
    return text


def _inputs(facts: BookieFacts, stored: _Stored, latency: float | None) -> Iterator[Input]:
    targets, serving = facts.targets, facts.workload.serving
    yield Input("diskPercent", stored.used, stored.each * targets.disk * serving, facts.age, "bytes")
    if facts.trend is not None:
        room = max(stored.each * targets.full * serving - stored.used, 0.0)
        yield Input("daysUntilFull", room / stored.growth / DAY if stored.growth > 0 else None, targets.days, facts.age)
    if targets.latency is not None:
        measured = None if latency is None else latency * 1000
        yield Input("writeLatencyMilliseconds", measured, targets.latency * 1000, facts.age, "ms")
    writable = sum(facts.disks[pod].writable for pod in facts.workload.ready)
    yield Input("writable", writable, targets.writable, facts.age)
