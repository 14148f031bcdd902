"""Bundles on brokers: a share to each that joins, all of one that leaves to others, and moves where it is uneven.

Every scaler gets these moves, also those whose users would wait for Pulsar's shedder to fill a new broker. The
operator's pace limits them: at most `spec.broker.drain.movesPerMinute` bundles a minute.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks.autoscaling.traces import Floats

BUNDLES = 256
SPREAD = 0.8
"""Standard deviation of the logarithm of a bundle's weight."""
DRIFT = 0.03
"""The same of what an hour does to it."""
UNEVEN, EVEN = 1.25, 1.08
"""Busiest over mean load from which bundles are moved, and to which."""


class Placement:
    """Which broker has which bundle."""

    def __init__(self, brokers: int, chance: np.random.Generator, bundles: int = BUNDLES) -> None:
        self._chance = chance
        self._bundles = bundles
        weights = np.exp(chance.normal(0.0, SPREAD, bundles))
        self._weights = weights / weights.sum()
        self._brokers = list(range(brokers))
        self._owner = np.zeros(bundles, np.int64)
        self.moved = 0
        self._filling: list[int] = []
        self._draining: list[int] = []
        self._load: Floats = np.zeros(brokers)
        for bundle in np.argsort(-self._weights):
            self._give(int(bundle), int(np.argmin(self._load)))

    @property
    def brokers(self) -> list[int]:
        """Those that are ready, also without a bundle yet."""
        return self._brokers

    @property
    def shares(self) -> Floats:
        """Of the load, in the order of `brokers`."""
        return self._load

    @property
    def changing(self) -> bool:
        """Whether a broker gets its share, or hands over what it has."""
        return bool(self._filling or self._draining)

    def _give(self, bundle: int, place: int) -> None:
        self._owner[bundle] = self._brokers[place]
        self._load[place] += self._weights[bundle]

    def join(self, broker: int) -> None:
        """A broker is ready, and gets its share by `work`."""
        self._brokers.append(broker)
        self._load = np.append(self._load, 0.0)
        self._filling.append(broker)

    def drain(self, brokers: Iterable[int]) -> None:
        """These hand over what they have by `work`, and no others."""
        self._draining = [broker for broker in brokers if broker in self._brokers]
        self._filling = [broker for broker in self._filling if broker not in self._draining]

    def empty(self, broker: int) -> bool:
        """Whether it has no bundle."""
        return not bool((self._owner == broker).any())

    def work(self, most: int) -> int:
        """Move up to ``most`` bundles, first off brokers that leave; return the number of bundles moved."""
        before = self.moved
        for broker in self._draining:
            self._drained(broker, most - (self.moved - before))
        for broker in list(self._filling):
            if self._filled(broker, most - (self.moved - before)):
                self._filling.remove(broker)
        return self.moved - before

    def _staying(self) -> list[int]:
        return [place for place, broker in enumerate(self._brokers) if broker not in self._draining]

    def _drained(self, broker: int, most: int) -> None:
        own, staying = np.flatnonzero(self._owner == broker), self._staying()
        place = self._brokers.index(broker)
        for bundle in own[np.argsort(-self._weights[own])][: max(most, 0)]:
            self._load[place] -= self._weights[bundle]
            self._give(int(bundle), staying[int(np.argmin(self._load[staying]))])
            self.moved += 1

    def _filled(self, broker: int, most: int) -> bool:
        """Whether it has its share."""
        place, share = self._brokers.index(broker), 1.0 / len(self._staying())
        end = self.moved + most
        while self._load[place] < 0.98 * share:
            giver = int(np.argmax(self._load))
            if self.moved >= end:
                return False
            if not self._move(giver, place, min(share - self._load[place], self._load[giver] - self._load[place])):
                return True
        return True

    def _move(self, giver: int, taker: int, most: float) -> bool:
        """The heaviest bundle of at most so much."""
        own = np.flatnonzero(self._owner == self._brokers[giver])
        fitting = own[self._weights[own] <= most]
        if giver == taker or not len(fitting):
            return False
        bundle = int(fitting[np.argmax(self._weights[fitting])])
        self._load[giver] -= self._weights[bundle]
        self._give(bundle, taker)
        self.moved += 1
        return True

    def leave(self, broker: int) -> None:
        """A broker is gone; what it still has Pulsar gives to those with least."""
        own = np.flatnonzero(self._owner == broker)
        place = self._brokers.index(broker)
        self._brokers.pop(place)
        self._load = np.delete(self._load, place)
        for each in (self._filling, self._draining):
            if broker in each:
                each.remove(broker)
        for bundle in own[np.argsort(-self._weights[own])]:
            self._give(int(bundle), int(np.argmin(self._load)))
        self.moved += len(own)

    def drift(self) -> bool:
        """An hour passes; whether it left them uneven."""
        self._weights *= np.exp(self._chance.normal(0.0, DRIFT, self._bundles))
        self._weights /= self._weights.sum()
        places = {broker: place for place, broker in enumerate(self._brokers)}
        owners = np.array([places[int(owner)] for owner in self._owner])
        self._load = np.bincount(owners, self._weights, len(self._brokers)).astype(np.float64)
        return bool(self._load.max() * len(self._brokers) > UNEVEN)

    def even(self, most: int) -> int:
        """Move up to ``most`` bundles from the busiest to the idlest broker while that helps; return their number."""
        before = self.moved
        while self.moved - before < most:
            staying = self._staying()
            busiest = int(np.argmax(self._load))
            idlest = staying[int(np.argmin(self._load[staying]))]
            if self._load[busiest] * len(staying) <= EVEN:
                break
            if not self._move(busiest, idlest, (self._load[busiest] - self._load[idlest]) / 2):
                break
        return self.moved - before
