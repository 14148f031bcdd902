"""Bundles on brokers: a share to each that joins, all of one that leaves to others, and moves where it is uneven.

Every scaler gets these moves, also those whose users would wait for Pulsar's shedder to fill a new broker.
"""

from __future__ import annotations

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

    def __init__(self, brokers: int, chance: np.random.Generator) -> None:
        self._chance = chance
        weights = np.exp(chance.normal(0.0, SPREAD, BUNDLES))
        self._weights = weights / weights.sum()
        self._brokers = list(range(brokers))
        self._owner = np.zeros(BUNDLES, np.int64)
        self.moved = 0
        self._load: Floats = np.zeros(brokers)
        for bundle in np.argsort(-self._weights):
            self._give(int(bundle), int(np.argmin(self._load)))

    @property
    def brokers(self) -> list[int]:
        """Those that have bundles."""
        return self._brokers

    @property
    def shares(self) -> Floats:
        """Of the load, in the order of `brokers`."""
        return self._load

    def _give(self, bundle: int, place: int) -> None:
        self._owner[bundle] = self._brokers[place]
        self._load[place] += self._weights[bundle]

    def join(self, broker: int) -> None:
        """A broker gets its share from those with most."""
        self._brokers.append(broker)
        self._load = np.append(self._load, 0.0)
        place = len(self._brokers) - 1
        self._fill(place, 1.0 / len(self._brokers))

    def _fill(self, place: int, share: float) -> None:
        while self._load[place] < 0.98 * share:
            giver = int(np.argmax(self._load))
            if not self._move(giver, place, min(share - self._load[place], self._load[giver] - self._load[place])):
                return

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
        """All bundles of a broker go to those with least."""
        own = np.flatnonzero(self._owner == broker)
        place = self._brokers.index(broker)
        self._brokers.pop(place)
        self._load = np.delete(self._load, place)
        for bundle in own[np.argsort(-self._weights[own])]:
            self._give(int(bundle), int(np.argmin(self._load)))
        self.moved += len(own)

    def drift(self) -> None:
        """An hour passes."""
        self._weights *= np.exp(self._chance.normal(0.0, DRIFT, BUNDLES))
        self._weights /= self._weights.sum()
        places = {broker: place for place, broker in enumerate(self._brokers)}
        owners = np.array([places[int(owner)] for owner in self._owner])
        self._load = np.bincount(owners, self._weights, len(self._brokers)).astype(np.float64)
        if self._load.max() * len(self._brokers) > UNEVEN:
            self.even()

    def even(self) -> None:
        """Moves bundles from the busiest to the idlest while that helps."""
        for _ in range(BUNDLES):
            most, least = int(np.argmax(self._load)), int(np.argmin(self._load))
            if self._load[most] * len(self._brokers) <= EVEN:
                return
            if not self._move(most, least, (self._load[most] - self._load[least]) / 2):
                return
