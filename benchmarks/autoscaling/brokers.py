"""A week of brokers under one scaler."""

from __future__ import annotations

from math import ceil, isnan

import numpy as np

from benchmarks.autoscaling.figures import Flaps, Run
from benchmarks.autoscaling.placement import Placement
from benchmarks.autoscaling.scalers import LEAST, MOST, Hpa, Ours, Published, Scaler, Seen
from benchmarks.autoscaling.traces import PODS, QUARTER, Floats, Telemetry, Trace
from pulsar_operator.api.v1alpha1.cluster import Drain
from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.outlook import HOUR

COST = 1e8
"""Byte-equivalents a second of a broker's worth of traffic, as the job counts it."""
LIMIT = 0.85
"""Share of its CPU from which a broker violates: that of the table of balancers."""
START = 3
"""Minutes from the decision to a broker that has its share, of one who knows the week."""
READY = 2
"""Minutes from the decision to a broker that is ready; then bundles are moved to it."""
MOVES = Drain().moves_per_minute
"""Bundles a minute, for every scaler: the pace that ships."""
YOUNG = 2
"""Minutes for which a broker that became ready may carry more than it tells."""
LOST_AFTER = 5
"""Minutes after which a pod that is not ready counts as lost."""
FLAP_MINUTES = 60


class World:
    """Brokers of one StatefulSet: ordinals 0 to there - 1. The one that may be away is ordinal 0."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.replicas = self.there = min(max(ceil(float(trace.load[0]) / 0.7), LEAST), MOST)
        """Decided, and pods that exist: those that are too many leave once they have no bundle."""
        self.placement = Placement(self.there, np.random.default_rng([trace.seed, 99]), trace.bundles)
        self.ready_at: dict[int, int] = {}
        """Of pods that start."""
        self.joined: dict[int, int] = {}
        """When pods became ready, of those that did lately."""
        self.moving = False
        """Whether bundles are moved in this minute."""
        self.away_since: int | None = None
        self.frozen: dict[int, float] = {}
        self.frozen_at = 0

    def advance(self, minute: int) -> None:
        """Pods that became ready join, one goes away or comes back, bundles are moved, an hour passes."""
        uneven = self.placement.drift() if minute % 60 == 59 else False
        for ordinal in [each for each, ready in self.ready_at.items() if ready <= minute]:
            del self.ready_at[ordinal]
            self._join(ordinal, minute)
        away = bool(self.trace.away[minute])
        if away and self.away_since is None:
            self.away_since = minute
            self.placement.leave(0)
        elif not away and self.away_since is not None:
            self.away_since = None
            self._join(0, minute)
        moved = self.placement.work(MOVES)
        leaving = range(self.replicas, self.there)
        if leaving and all(self.placement.empty(ordinal) for ordinal in leaving):
            self._remove()
        if uneven or self.overloaded(minute):
            # So does the balancer that ships, and does it for every scaler: what is left no move helps.
            moved += self.placement.even(MOVES - moved)
        self.moving = bool(moved) or self.placement.changing

    def _join(self, ordinal: int, minute: int) -> None:
        self.placement.join(ordinal)
        self.joined[ordinal] = minute

    def _remove(self) -> None:
        for ordinal in range(self.replicas, self.there):
            if self.ready_at.pop(ordinal, None) is None:
                self.placement.leave(ordinal)
        self.there = self.replicas

    def overloaded(self, minute: int) -> bool:
        """Whether a broker has more than it can carry well."""
        return bool(self.trace.load[minute] * self.placement.shares.max() > LIMIT)

    def usage(self, minute: int) -> dict[int, float]:
        """What ready brokers say: more than all of its CPU none can, and one that is broken says anything."""
        brokers = self.placement.brokers
        places = [each % PODS for each in brokers]
        shares = np.minimum(self.trace.load[minute] * self.placement.shares, 1.0)
        told = np.minimum(shares * self.trace.measured[minute, places], 1.0)
        if self.trace.added is not None:
            told = np.minimum(told + self.trace.added[minute, places], 1.0)
        if self.trace.scaled is not None:
            told = told * self.trace.scaled[minute, places]
        return {broker: share for broker, share in zip(brokers, told.tolist(), strict=True) if not isnan(share)}

    def traffic(self, minute: int) -> dict[int, float]:
        """Bytes a second that ready brokers carry, as they count it: their own pages tell it, whatever is wrong with
        CPU."""
        if Telemetry(int(self.trace.telemetry[minute])) in (Telemetry.NONE, Telemetry.HALF, Telemetry.FROZEN):
            return {}
        brokers = self.placement.brokers
        shares = np.minimum(self.trace.load[minute] * self.placement.shares, 1.0)
        told = COST * shares * self.trace.measured[minute, [(each + 1) % PODS for each in brokers]]
        silent = self.trace.scaled[minute] if self.trace.scaled is not None else np.ones(PODS)
        return {
            each: value for each, value in zip(brokers, told.tolist(), strict=True) if not np.isnan(silent[each % PODS])
        }

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
        elif kind is Telemetry.STUCK:
            usage = {ordinal: self.frozen.get(ordinal, share) for ordinal, share in usage.items()}
        if kind not in (Telemetry.FROZEN, Telemetry.STUCK):
            self.frozen, self.frozen_at = usage, minute
        since = self.away_since
        lost = int(since is not None and minute - since >= LOST_AFTER)
        ready = frozenset(self.placement.brokers)
        youngest = minute - max(self.joined.values(), default=-(10**6))
        unsure = sum(minute - at < YOUNG for at in self.joined.values())
        return Seen(minute, self.replicas, ready, usage, age, lost, youngest, unsure, self.traffic(minute), self.moving)

    def scale(self, replicas: int, minute: int) -> None:
        """The StatefulSet adds ordinals at the end and takes them from there, once they have no bundle."""
        self.replicas = replicas
        for ordinal in range(self.there, replicas):
            self.ready_at[ordinal] = minute + READY
        self.there = max(self.there, replicas)
        self.placement.drain(range(replicas, self.there))


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
        hours += world.there
        wanted = scaler.replicas(world.seen(minute))
        if wanted != world.replicas:
            direction = 1 if wanted > world.replicas else -1
            flaps.change(minute, direction, float(trace.load[minute]), int(trace.away[minute]))
            world.scale(wanted, minute)
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
