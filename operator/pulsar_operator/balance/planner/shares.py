"""The possible load of each broker if whole bundles were spread as evenly as possible: the measure of an idle broker.

The mean of all brokers does not describe a broker that isolation keeps empty, nor those beside a bundle that is heavier
than a broker's share. So the weight of each namespace is poured like water over the brokers that may serve it; a bundle
above the water level has a broker to itself, and the others share the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest
from math import fsum
from typing import Final

from pulsar_operator.balance.model.cluster import ClusterModel

ROUNDS: Final = 50
"""Maximum rounds of pouring the namespaces in turn; one suffices if they may go to the same brokers."""
NEAR: Final = 1e-6
"""Change of a level, relative to the mean, at which pouring ends."""

Pool = frozenset[str]
"""Brokers that may serve the same namespaces."""


def fair_shares(model: ClusterModel, namespaces: Collection[str] | None = None) -> dict[str, float]:
    """Returns the utilization of every broker that takes load, in the most even spread of the existing bundles.

    Pinned bundles, those that no broker may take, and those outside of ``namespaces`` (None for all) stay where they
    are. Bundles without a broker do not count.
    """
    shares = _Shares(model, namespaces)
    while shares.stand_out():
        pass
    return shares.levels


def idle_brokers(
    model: ClusterModel, used: Mapping[str, float], mean: float, below: float, namespaces: Collection[str] | None = None
) -> dict[str, float]:
    """Returns brokers used less than ``below`` times their possible load, which is given: their share, the mean at
    most."""
    low = [b.id for b in model.brokers if not b.draining and used[b.id] < below * mean]
    shares = fair_shares(model, namespaces) if low else {}
    return {broker: due for broker in low if used[broker] < below * (due := min(mean, shares[broker]))}


class _Shares:
    """Levels of the brokers, while bundles above the level are removed one after another."""

    def __init__(self, model: ClusterModel, namespaces: Collection[str] | None) -> None:
        self._capacity = {broker.id: broker.capacity for broker in model.brokers if not broker.draining}
        fixed = {broker.id: [broker.base] for broker in model.brokers if not broker.draining}
        everything = frozenset(self._capacity)
        known = {broker.id for broker in model.brokers}
        homes: dict[str, Pool] = {}
        found: dict[Pool, list[tuple[float, str]]] = {}
        for bundle in model.bundles:
            if bundle.owner is None or bundle.owner not in known:
                continue
            namespace = bundle.id.namespace
            if (pool := homes.get(namespace)) is None:
                moves = namespace not in model.pinned and (namespaces is None or namespace in namespaces)
                pool = homes[namespace] = (
                    model.allowed.get(namespace, everything) & everything if moves else frozenset()
                )
            if pool:
                found.setdefault(pool, []).append((bundle.weight, bundle.owner))
            elif bundle.owner in fixed:
                fixed[bundle.owner].append(bundle.weight)
        pools = dict(sorted(found.items(), key=lambda each: sorted(each[0])))
        self._fixed = {broker: fsum(weights) for broker, weights in fixed.items()}
        self._totals = {pool: fsum(weight for weight, _ in bundles) for pool, bundles in pools.items()}
        # More than there are brokers cannot stand out.
        self._heaviest = {pool: nlargest(len(everything), bundles) for pool, bundles in pools.items()}
        self._taken: set[str] = set()
        self.levels = self._pour()

    def stand_out(self) -> bool:
        """Gives each bundle above the level a broker to itself; returns whether there was one."""
        found = False
        for pool, bundles in self._heaviest.items():
            free = sorted(pool - self._taken)
            while bundles and free:
                room = {broker: self.levels[broker] * self._capacity[broker] - self._fixed[broker] for broker in free}
                widest = max(free, key=lambda broker: room[broker])
                weight, owner = bundles[0]
                if weight <= room[widest] * (1 + NEAR):
                    break
                home = owner if owner in room else widest
                bundles.pop(0)
                self._fixed[home] += weight
                self._totals[pool] -= weight
                self._taken.add(home)
                free.remove(home)
                found = True
        if found:
            self.levels = self._pour()
        return found

    def _pour(self) -> dict[str, float]:
        """Returns the levels after each pool's weight is spread over its brokers, beside fixed load and the load of
        other pools."""
        mean = (fsum(self._fixed.values()) + fsum(self._totals.values())) / max(fsum(self._capacity.values()), 1e-300)
        loads = dict(self._fixed)
        poured: dict[Pool, dict[str, float]] = {pool: dict.fromkeys(pool, 0.0) for pool in self._totals}
        for _ in range(ROUNDS if len(poured) > 1 else 1):
            change = 0.0
            for pool, own in poured.items():
                under = {broker: loads[broker] - own[broker] for broker in sorted(pool)}
                spread = self._spread(under, self._totals[pool])
                for broker, amount in spread.items():
                    change = max(change, abs(amount - own[broker]) / self._capacity[broker])
                    loads[broker] = under[broker] + amount
                poured[pool] = spread
            if change <= NEAR * mean:
                break
        return {broker: load / self._capacity[broker] for broker, load in loads.items()}

    def _spread(self, under: Mapping[str, float], total: float) -> dict[str, float]:
        """Spreads a weight over brokers that carry load already, up to one level."""
        level = _level(((under[broker] / self._capacity[broker], self._capacity[broker]) for broker in under), total)
        return {
            broker: max(level * self._capacity[broker] - carried, 0.0) if total > 0 else 0.0
            for broker, carried in under.items()
        }


def _level(grounds: Iterable[tuple[float, float]], total: float) -> float:
    """Returns the level of an amount of water over grounds with a height and a width each."""
    width = volume = level = 0.0
    for height, wide in sorted(grounds):
        if width and height * width - volume >= total:
            break
        width, volume = width + wide, volume + height * wide
        level = (total + volume) / width
    return level
