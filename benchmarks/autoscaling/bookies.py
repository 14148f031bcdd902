"""A week of bookies under one scaler, in steps of ten minutes: what is written stays for two days, and fills disks."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Protocol

import numpy as np

from benchmarks.autoscaling.figures import Flaps, Run
from benchmarks.autoscaling.traces import Floats, Telemetry, Trace
from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.autoscaling import BookieAutoscaling
from pulsar_operator.balance.autoscaling import bookies, policy, trend
from pulsar_operator.balance.autoscaling.blocks import blocks
from pulsar_operator.balance.autoscaling.bookies import BookieFacts, Disk
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.values import Workload

STEP = 10
"""Minutes."""
RETENTION = 2 * 144
"""Steps."""
FIRST = 0.7
"""How full disks are in the beginning, of those of the week before; there are eight at least."""
READ_ONLY = 0.95
"""BookKeeper's diskUsageThreshold: such a bookie takes no more writes."""
ENSEMBLE, MOST = 3, 30
DRAIN = 6
"""Steps from the decision to a bookie that is empty."""
LOST_AFTER = 3
"""Steps after which a bookie that is away counts as lost, and the others get copies of what it had."""
COPY = 6
"""Steps until they have them."""
FLAP_MINUTES = 1440
"""A bookie more takes a share of new writes: an hour is nothing."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scaler sees in one step."""

    step: int
    replicas: int
    disks: dict[int, Disk]
    """By ordinal; one that does not tell is absent."""
    ready: frozenset[int]
    age: float
    under_replicated: bool
    unsettled: bool
    """A bookie starts or is being emptied."""
    lost: int


class Scaler(Protocol):
    """A rule with a memory of its own."""

    name: str

    def replicas(self, seen: Seen) -> int:
        """Wanted from now on."""
        ...


@dataclass
class Ours:
    """The function that ships, with the defaults of its fields."""

    name: str = "operator"
    _state: State = field(default_factory=State)
    _samples: trend.Samples = ()

    def __post_init__(self) -> None:
        self._spec = BookieAutoscaling(min_replicas=ENSEMBLE, max_replicas=MOST)
        self._policy = policy.policy_of(self._spec, STEP * 60.0)
        self._targets = policy.bookie_targets(self._spec.targets, ENSEMBLE)

    def replicas(self, seen: Seen) -> int:
        """The verdict's number."""
        now = seen.step * STEP * 60.0
        disks = {f"bookie-{ordinal}": disk for ordinal, disk in seen.disks.items()}
        if seen.ready <= seen.disks.keys() and not seen.lost and len(seen.ready) == seen.replicas:
            self._samples = trend.sampled(self._samples, now, sum(disk.used for disk in disks.values()))
        reasons = [Reason.DECOMMISSIONING_BOOKIE] * seen.unsettled + [Reason.UNDER_REPLICATED] * seen.under_replicated
        ready = frozenset(f"bookie-{ordinal}" for ordinal in seen.ready)
        workload = Workload(seen.replicas, ready, seen.lost, blocks(Component.BOOKIE, reasons))
        facts = BookieFacts(workload, disks, seen.age, trend.trend(self._samples), self._targets)
        verdict, self._state = bookies.decide(facts, self._policy, self._state, now)
        return verdict.desired


@dataclass
class Published:
    """KAAP's bookie autoscaler (class BookKeeperSetAutoscaler): more where too few take writes, or one has its disk
    above 0.92 and too few are below; one less where all are below 0.75 and no copy is missing."""

    name: str = "0.75/0.92"

    HIGH, LOW = 0.92, 0.75

    def replicas(self, seen: Seen) -> int:
        """One more, one less, or the same; once all are ready."""
        if seen.unsettled or len(seen.disks) != seen.replicas:
            return seen.replicas
        writable = [disk for disk in seen.disks.values() if disk.writable]
        change = max(ENSEMBLE - len(writable), 0)
        risky = sum(disk.share >= self.HIGH for disk in writable)
        if risky and len(writable) - risky < ENSEMBLE - change:
            change += 1
        calm = all(disk.share < self.LOW for disk in writable) and not seen.under_replicated
        if not change and len(writable) > ENSEMBLE and calm:
            change = -1
        return min(max(seen.replicas + change, ENSEMBLE), MOST)


class World:
    """Bookies of one StatefulSet. What each wrote lies in rows by step, so that it is deleted with its age."""

    def __init__(self, trace: Trace) -> None:
        recorded = np.repeat(trace.recorded, 3)[::2]
        mean = float(recorded.mean())
        self.writes = trace.load.reshape(-1, STEP).mean(axis=1) / mean * (trace.stored / RETENTION)
        self.away = [bool(each.any()) for each in trace.away.reshape(-1, STEP)]
        self.telemetry = trace.telemetry.reshape(-1, STEP).max(axis=1)
        self.trims = frozenset(each // STEP for each in trace.trims)
        self.replicas = max(ceil(trace.stored / FIRST), 8 if trace.stored < 5 else ENSEMBLE)
        before = recorded[-RETENTION:] / mean * (trace.stored / RETENTION)
        self.retention = trace.days_kept * 144
        self.rows = np.zeros((self.retention, MOST + 1))
        self.rows[-RETENTION:, : self.replicas] = before[:, None] / self.replicas
        self.copied = 0.0
        self.starts: frozenset[int] = frozenset()
        self.drains: tuple[int, int] | None = None
        """The ordinal that is emptied, and when it is empty."""
        self.gone: int | None = None
        """Since when ordinal 0 is away."""
        self.lacking_until = -1
        self.frozen: tuple[int, dict[int, Disk]] = (0, {})

    def used(self) -> Floats:
        """Of each disk."""
        return np.asarray(self.rows[:, : self.replicas].sum(axis=0))

    def able(self) -> list[int]:
        """Ordinals that take writes."""
        used = self.used()
        out = {0} if self.gone is not None else set()
        out |= {self.drains[0]} if self.drains else set()
        out |= self.starts
        return [each for each in range(self.replicas) if each not in out and used[each] < READ_ONLY]

    def advance(self, step: int) -> None:
        """What is due: a bookie is there, empty, away or back; then ten minutes are written, and ten deleted."""
        self.starts = frozenset()
        if self.drains is not None and step >= self.drains[1]:
            self._spread(self.drains[0])
            self.replicas, self.drains = self.replicas - 1, None
        if self.away[step] and self.gone is None:
            self.gone, self.lacking_until = step, step + LOST_AFTER + COPY
        elif self.gone is not None and not self.away[step]:
            self.lacking_until = min(self.lacking_until, step)
            self.gone = None
        if self.gone is not None and step == self.gone + LOST_AFTER:
            self._spread(0)
        able = self.able()
        if step in self.trims:
            self.rows *= 0.5
        self.rows[step % self.retention] = 0.0
        if able:
            self.rows[step % self.retention, able] = self.writes[step] / len(able)

    def _spread(self, ordinal: int) -> None:
        """What a bookie has is copied to those that take writes; its own is deleted."""
        able = [each for each in self.able() if each != ordinal]
        column = self.rows[:, ordinal].copy()
        self.copied += float(column.sum())
        self.rows[:, ordinal] = 0.0
        self.rows[:, able] += column[:, None] / max(len(able), 1)

    def violated(self) -> bool:
        """A disk takes no more, or fewer bookies than an ensemble take writes."""
        return bool(self.used().max() >= READ_ONLY) or len(self.able()) < ENSEMBLE

    def seen(self, step: int) -> Seen:
        """What the scaler sees."""
        ready = frozenset(range(self.replicas)) - self.starts - ({0} if self.gone is not None else set())
        used, able = self.used(), set(self.able())
        disks, age = {each: Disk(min(float(used[each]), 1.0), 1.0, each in able) for each in ready}, 30.0
        kind = Telemetry(int(self.telemetry[step]))
        if kind is Telemetry.NONE:
            disks = {}
        elif kind is Telemetry.HALF:
            disks = {ordinal: disk for ordinal, disk in disks.items() if ordinal % 2}
        elif kind is Telemetry.FROZEN:
            since, disks = self.frozen
            age += (step - since) * STEP * 60.0
        if kind is not Telemetry.FROZEN:
            self.frozen = step, disks
        lost = int(self.gone is not None and step - self.gone >= LOST_AFTER)
        lacking = step < self.lacking_until
        unsettled = bool(self.starts) or self.drains is not None
        return Seen(step, self.replicas, disks, ready, age, lacking, unsettled, lost)

    def scale(self, step: int, replicas: int) -> None:
        """More are there in the next step; of fewer one is emptied, the one with the highest ordinal."""
        if self.drains is not None:
            return
        if replicas > self.replicas:
            self.starts = frozenset(range(self.replicas, replicas))
            self.rows[:, self.replicas : replicas] = 0.0
            self.replicas = replicas
        elif replicas < self.replicas:
            self.drains = self.replicas - 1, step + DRAIN


def scalers() -> list[Scaler]:
    """Those compared, ours first. An HPA is none of them: it takes the disk of a bookie away with the bookie."""
    return [Ours(), Published()]


def run(trace: Trace, scaler: Scaler) -> Run:
    """The week under a scaler."""
    world, flaps = World(trace), Flaps(FLAP_MINUTES)
    violated, hours, least = 0, 0, 0.0
    for step in range(len(world.writes)):
        world.advance(step)
        violated += world.violated()
        hours += world.replicas
        least += max(ceil(float(world.used().sum()) / READ_ONLY - 1e-9), ENSEMBLE) + int(world.away[step])
        wanted = scaler.replicas(world.seen(step))
        if wanted != world.replicas and world.drains is None:
            stored = float(world.used().sum())
            flaps.change(step * STEP, 1 if wanted > world.replicas else -1, stored, int(world.away[step]))
            world.scale(step, wanted)
    return Run(
        world="bookies",
        trace=trace.name,
        seed=trace.seed,
        scaler=scaler.name,
        violated=violated * STEP,
        hours=hours * STEP / 60,
        flaps=flaps.flaps,
        changes=flaps.changes,
        bundles=0,
        copied=world.copied,
        bound=least * STEP / 60,
    )
