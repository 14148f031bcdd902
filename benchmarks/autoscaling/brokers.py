"""A week of brokers under one scaler."""

from __future__ import annotations

from math import ceil

import numpy as np

from benchmarks.autoscaling.figures import Flaps, Run
from benchmarks.autoscaling.placement import Placement
from benchmarks.autoscaling.scalers import LEAST, MOST, Hpa, Ours, Published, Scaler, Seen
from benchmarks.autoscaling.traces import QUARTER, Floats, Telemetry, Trace
from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.outlook import HOUR

COST = 1e8
"""Byte-equivalents a second of a broker's worth of traffic, as the job counts it."""
LIMIT = 0.85
"""Share of its CPU from which a broker violates: that of the table of balancers."""
START = 3
"""Minutes from the decision to a broker that has its share."""
LOST_AFTER = 5
"""Minutes after which a pod that is not ready counts as lost."""
FLAP_MINUTES = 60


class World:
    """Brokers of one StatefulSet: ordinals 0 to replicas - 1. The one that may be away is ordinal 0."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.replicas = min(max(ceil(float(trace.load[0]) / 0.7), LEAST), MOST)
        self.placement = Placement(self.replicas, np.random.default_rng([trace.seed, 99]))
        self.ready_at: dict[int, int] = {}
        """Of pods that start."""
        self.youngest = -(10**6)
        self.away_since: int | None = None
        self.frozen: dict[int, float] = {}
        self.frozen_at = 0

    def advance(self, minute: int) -> None:
        """Pods that became ready take their share, one goes away or comes back, an hour passes."""
        if minute % 60 == 59:
            self.placement.drift()
        for ordinal in [each for each, ready in self.ready_at.items() if ready <= minute]:
            del self.ready_at[ordinal]
            self.placement.join(ordinal)
            self.youngest = minute
        away = bool(self.trace.away[minute])
        if away and self.away_since is None:
            self.away_since = minute
            self.placement.leave(0)
        elif not away and self.away_since is not None:
            self.away_since = None
            self.placement.join(0)
            self.youngest = minute

        if self.overloaded(minute):
            # So does the balancer that ships, and does it for every scaler: what is left no move helps.
            self.placement.even()

    def overloaded(self, minute: int) -> bool:
        """Whether a broker has more than it can carry well."""
        return bool(self.trace.load[minute] * self.placement.shares.max() > LIMIT)

    def usage(self, minute: int) -> dict[int, float]:
        """What ready brokers say: more than all of its CPU none can."""
        shares = np.minimum(self.trace.load[minute] * self.placement.shares, 1.0)
        brokers = self.placement.brokers
        told = np.minimum(shares * self.trace.measured[minute, [each % 64 for each in brokers]], 1.0)
        return dict(zip(brokers, told.tolist(), strict=True))

    def seen(self, minute: int) -> Seen:
        """What the scaler sees."""
        usage, age = self.usage(minute), 30.0
        kind = Telemetry(int(self.trace.telemetry[minute]))
        if kind is Telemetry.NONE:
            usage = {}
        elif kind is Telemetry.HALF:
            usage = {ordinal: share for ordinal, share in usage.items() if ordinal % 2}
        elif kind is Telemetry.FROZEN:
            usage, age = self.frozen, 30.0 + 60.0 * (minute - self.frozen_at)
        if kind is not Telemetry.FROZEN:
            self.frozen, self.frozen_at = usage, minute
        since = self.away_since
        lost = int(since is not None and minute - since >= LOST_AFTER)
        ready = frozenset(self.placement.brokers)
        return Seen(minute, self.replicas, ready, usage, age, lost, minute - self.youngest)

    def scale(self, minute: int, replicas: int) -> None:
        """The StatefulSet adds ordinals at the end and takes them from there."""
        for ordinal in range(self.replicas, replicas):
            self.ready_at[ordinal] = minute + START
        for ordinal in range(self.replicas - 1, replicas - 1, -1):
            if self.ready_at.pop(ordinal, None) is None:
                self.placement.leave(ordinal)
        self.replicas = replicas


def profile_of(trace: Trace) -> Profile:
    """What the sizing job would have made of the week before: means of hours, which stand for their middles."""
    hours = trace.recorded.reshape(-1, 60 // QUARTER).mean(axis=1)
    return Profile(HOUR, tuple((hours * COST).tolist()), HOUR / 2)


def scalers(trace: Trace, *, forecast: bool = True) -> list[Scaler]:
    """Those compared, ours first, with a forecast or without."""
    return [
        Ours(profile_of(trace) if forecast else None),
        *(Hpa(target) for target in (0.5, 0.6, 0.7, 0.8)),
        Published(),
    ]


def run(trace: Trace, scaler: Scaler) -> Run:
    """The week under a scaler."""
    world, flaps = World(trace), Flaps(FLAP_MINUTES)
    violated, hours = 0, 0
    for minute in range(len(trace.load)):
        world.advance(minute)
        violated += world.overloaded(minute)
        hours += world.replicas
        wanted = scaler.replicas(world.seen(minute))
        if wanted != world.replicas:
            direction = 1 if wanted > world.replicas else -1
            flaps.change(minute, direction, float(trace.load[minute]), int(trace.away[minute]))
            world.scale(minute, wanted)
    return Run(
        world="brokers",
        trace=trace.name,
        seed=trace.seed,
        scaler=scaler.name,
        violated=violated,
        hours=hours / 60,
        flaps=flaps.flaps,
        changes=flaps.changes,
        bundles=world.placement.moved,
        copied=0.0,
        bound=float(bound_of(trace).sum()) / 60,
    )


def bound_of(trace: Trace) -> Floats:
    """Brokers of one who knows the week, cuts topics anywhere, and moves them for nothing: no minute violates."""
    need = np.maximum(np.ceil(trace.load / LIMIT - 1e-9) + trace.away, LEAST)
    # A broker is asked for when its start begins.
    padded = np.concatenate([need, np.full(START, need[-1])])
    soon: list[Floats] = [padded[shift : shift + len(need)] for shift in range(START + 1)]
    return np.asarray(np.max(soon, axis=0), np.float64)
