"""The lower bound for every placement: the least possible utilization of the busiest broker, given that topics cannot
be divided.

Three arguments, and the strongest of them counts: the mean (all load / all capacity); the j heaviest cells sit on at
most j brokers; and the pigeonhole: of the n heaviest cells some broker holds more than its share, in the best case the
lightest of them. Each also holds for a subset of brokers and the namespaces that are restricted to them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace, nlargest
from itertools import accumulate, chain, combinations
from math import fsum, inf

from pulsar_operator.balance.model.cells import weights_of
from pulsar_operator.balance.model.cluster import Broker, ClusterModel

ROUNDS = 4
"""Cells of a broker that the pigeonhole considers; with more of them the mean is nearly always the stronger bound."""
MOST_SETS = 64
"""Maximum number of sets of brokers; leaving some out weakens the bound, which remains valid."""


class Heaviest:
    """Sum and heaviest weights of a stream of cells, in bounded memory."""

    __slots__ = ("_keep", "top", "total")

    def __init__(self, brokers: int) -> None:
        self._keep = ROUNDS * brokers + 1
        self.top: list[float] = []
        """The heaviest ones, descending."""
        self.total = 0.0

    def add(self, weights: Iterable[float]) -> None:
        """Take more weights."""
        sizes = weights if isinstance(weights, array) else array("d", weights)
        self.total += fsum(weight for weight in sizes)  # in Python: a million weights leave the interpreter to others
        self.top = nlargest(self._keep, chain(self.top, sizes))

    def merge(self, other: Heaviest) -> None:
        """Take all weights of another stream."""
        self.total += other.total
        self.top = nlargest(self._keep, [*self.top, *other.top])

    def bound(self, capacities: Sequence[float], base: float = 0.0) -> float:
        """Least possible busiest utilization on brokers of these capacities; infinite with weight and no broker.

        ``base`` is load that is on them whatever is placed.
        """
        if not capacities:
            return inf if self.total > 0 else 0.0
        descending = sorted(capacities, reverse=True)
        best = (self.total + base) / fsum(descending)
        for weight, capacity in zip(accumulate(self.top), accumulate(descending), strict=False):
            best = max(best, weight / capacity)
        return max(best, _pigeonhole(self.top, descending))


def _pigeonhole(heaviest: Sequence[float], capacities: Sequence[float]) -> float:
    """Returns the bound by the pigeonhole principle.

    The n heaviest cells all fit below utilization u only if the brokers have n places below it. A broker of capacity c
    has j places if even the j lightest of the n cells fit: their sum <= u * c. So u is at least the n-th smallest of
    (sum of the j lightest) / c over all brokers and all j.
    """
    classes = Counter(capacities)
    one_class, brokers = len(classes) == 1, len(capacities)
    # On equal brokers another place is needed just beyond each full round; the other n say less.
    step = brokers if one_class else 1
    best = 0.0
    for n in range(brokers + 1, min(len(heaviest), ROUNDS * brokers + 1) + 1, step):
        lightest = list(accumulate(reversed(heaviest[:n])))
        places = [(lightest[0] / capacity, 0, capacity) for capacity in classes]
        heapify(places)
        left, level = n, 0.0
        while left > 0:
            level, j, capacity = places[0]
            left -= classes[capacity]
            heapreplace(places, (lightest[j + 1] / capacity if j + 1 < n else inf, j + 1, capacity))
        best = max(best, level)
    return best


def least_busiest_allowed(groups: Mapping[frozenset[str] | None, Heaviest], brokers: Iterable[Broker]) -> float:
    """Lower bound of the busiest utilization when every weight is whole and each group of weights may only go to some
    brokers (by id; None for all).

    `draining` brokers take nothing. Infinite when a group with weight has no broker left.
    """
    able = {broker.id: broker for broker in brokers if not broker.draining}
    capacities = {name: broker.capacity for name, broker in able.items()}
    everything = frozenset(able)
    limited: dict[frozenset[str], list[Heaviest]] = {}
    for allowed, heaviest in groups.items():
        limited.setdefault(everything if allowed is None else allowed & everything, []).append(heaviest)
    sets = {everything, *sorted(limited, key=lambda s: (len(s), sorted(s)))[: MOST_SETS - 1]}
    unions = sorted({a | b for a, b in combinations(sets, 2)} - sets, key=lambda s: (len(s), sorted(s)))
    sets.update(unions[: max(0, MOST_SETS - len(sets))])
    best = max((broker.base / broker.capacity for broker in able.values()), default=0.0)
    for subset in sets:
        inside = Heaviest(len(capacities))
        for allowed, inhabitants in limited.items():
            if allowed <= subset:
                for each in inhabitants:
                    inside.merge(each)
        base = fsum(able[name].base for name in subset)
        best = max(best, inside.bound([capacities[name] for name in subset], base))
    return best


def bound_of(model: ClusterModel, *, liquid: bool = False) -> float:
    """Least possible busiest utilization of a cluster when every topic is whole, or, ``liquid``, if they were not.

    A bundle whose cells are not known counts whole, a pinned one stays with its owner.
    """
    capacities = {broker.id for broker in model.brokers if not broker.draining}
    weights: dict[frozenset[str] | None, array[float]] = {}
    for bundle in model.bundles:
        allowed = model.allowed.get(bundle.id.namespace)
        if bundle.id.namespace in model.pinned and bundle.owner in capacities:
            allowed = frozenset((bundle.owner,))
        found = weights.setdefault(allowed, array("d"))
        if bundle.cells and bundle.id.namespace not in model.pinned:
            found.extend(weights_of(bundle.cells))
        else:
            found.append(bundle.weight)
    groups: dict[frozenset[str] | None, Heaviest] = {}
    for allowed, found in weights.items():
        groups[allowed] = Heaviest(len(capacities))
        if liquid:
            groups[allowed].total = fsum(found)
        else:
            groups[allowed].add(found)
    return least_busiest_allowed(groups, model.brokers)
