"""The planner's working state: the owner of each bundle, the loads of brokers, and the changes since the start.
Mutable, private.

Weights are whole units here, `UNITS` for all weight that brokers carry: sums are exact whatever their order, so the
order and the scale of the input do not change a plan. Brokers and bundles are numbered in the order of their ids.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from math import fsum
from typing import Final

from pulsar_operator.balance.model.cluster import Broker, Bundle, ClusterModel
from pulsar_operator.balance.model.cuts import split_bundle

UNITS: Final = 1 << 44
"""Fine enough for a topic of 1e-12 of the traffic, and exact as a float."""
NO_BROKER: Final = -1


class Placement:
    """Brokers, bundles and their owners. Bundles without an owner in the model are known and carried by no broker.
    `movable` are the bundles that a search may move: the others only count as load.
    """

    def __init__(self, model: ClusterModel) -> None:
        self.brokers: list[Broker] = sorted(model.brokers, key=lambda broker: broker.id)
        self.number: dict[str, int] = {broker.id: index for index, broker in enumerate(self.brokers)}
        self.capacity: list[float] = [broker.capacity for broker in self.brokers]
        self.bundles: list[Bundle] = sorted(model.bundles, key=lambda bundle: bundle.id)
        self.at: list[int] = [self.number.get(b.owner, NO_BROKER) if b.owner else NO_BROKER for b in self.bundles]
        self.home: list[int] = list(self.at)
        self.total_weight = fsum(b.weight for b, at in zip(self.bundles, self.at, strict=True) if at != NO_BROKER)
        """Weight of all bundles with an owner, in the model's unit."""
        self.weight: list[int] = [
            round(self.units(bundle.weight)) if at != NO_BROKER else 0
            for bundle, at in zip(self.bundles, self.at, strict=True)
        ]
        """Weights in units; 0 for a bundle without an owner, which does not count in the sum."""
        self.reconnects: list[int] = [b.reconnects for b in self.bundles]
        """Topics and clients that a move of each bundle interrupts."""
        self.load: list[int] = [0] * len(self.brokers)
        self.count: list[int] = [0] * len(self.brokers)
        for weight, at in zip(self.weight, self.at, strict=True):
            if at != NO_BROKER:
                self.load[at] += weight
                self.count[at] += 1
        self.total: int = sum(self.load)
        """Weight of all bundles in units."""
        if self.total_weight > 0:
            self.load = [each + round(self.units(b.base)) for each, b in zip(self.load, self.brokers, strict=True)]
        self.interrupted_in_all: int = sum(n for n, at in zip(self.reconnects, self.at, strict=True) if at != NO_BROKER)
        """Topics and clients of all bundles that a broker carries."""
        self.per_namespace: Counter[str] = Counter(bundle.id.namespace for bundle in self.bundles)
        self.moves = 0
        """Bundles that are not on their original broker."""
        self.moved: int = 0
        """Their weight."""
        self.cause: dict[int, str] = {}
        """Reason of the last move, by bundle."""
        self.pieces: dict[int, tuple[int, int, int]] = {}
        """Position, lower and upper piece of each bundle that was cut."""
        self._order: list[tuple[float, int]] = sorted((self.utilization(b), b) for b in range(len(self.brokers)))
        self._kind: dict[int, int] = {}
        self._sorted_bundles: list[list[list[tuple[int, int]]]] = [[] for _ in self.brokers]
        self._group_domains = _GroupDomains(self, model)

    # What there is.

    def utilization(self, broker: int) -> float:
        """Returns the load / capacity, in units."""
        return self.load[broker] / self.capacity[broker]

    @property
    def busiest(self) -> float:
        """Returns the highest utilization, 0 without brokers."""
        return self._order[-1][0] if self._order else 0.0

    def descending(self) -> list[int]:
        """Brokers, the busiest first."""
        return [broker for _, broker in reversed(self._order)]

    def ascending(self) -> list[int]:
        """Brokers, the least busy first."""
        return [broker for _, broker in self._order]

    def units(self, weight: float) -> float:
        """Returns a weight of the model in units."""
        return weight / self.total_weight * UNITS if self.total_weight > 0 else 0.0

    def living(self) -> Iterator[int]:
        """Returns all bundles as they are after the cuts."""
        return (index for index in range(len(self.bundles)) if index not in self.pieces)

    def carried_by(self, brokers: Iterable[int]) -> list[int]:
        """Returns bundles of some brokers."""
        chosen = set(brokers)
        return [index for index in self.living() if self.at[index] in chosen]

    # What a search may take.

    def stock(self, kinds: dict[int, int], number: int) -> None:
        """Sets which bundles may be moved: bundle -> kind, below `number`. Bundles of a kind fit the same brokers."""
        self._kind = dict(kinds)
        bundles_by_kind: list[list[list[tuple[int, int]]]] = [[[] for _ in range(number)] for _ in self.brokers]
        for index, kind in kinds.items():
            if self.at[index] != NO_BROKER:
                bundles_by_kind[self.at[index]][kind].append((self.weight[index], index))
        for broker in bundles_by_kind:
            for sorted_bundles in broker:
                sorted_bundles.sort()
        self._sorted_bundles = bundles_by_kind

    def sorted_bundles(self, broker: int, kind: int) -> list[tuple[int, int]]:
        """Returns the movable bundles of a broker and kind as (weight, bundle), ascending; not to be changed."""
        return self._sorted_bundles[broker][kind]

    def bundles_by_kind(self, broker: int) -> list[list[tuple[int, int]]]:
        """Returns the sorted bundles of a broker, one list for each kind."""
        return self._sorted_bundles[broker]

    @property
    def kinds(self) -> int:
        """Returns how many kinds there are."""
        return len(self._sorted_bundles[0]) if self._sorted_bundles else 0

    def kind(self, index: int) -> int:
        """Returns the kind of a movable bundle."""
        return self._kind[index]

    # Changes.

    def price(self, index: int, destination: int) -> tuple[int, int]:
        """Returns what a move adds to `moves` and `moved`: 0 for a bundle that was moved before, a negative amount for
        a move back."""
        was, will = self.at[index] != self.home[index], destination != self.home[index]
        return int(will) - int(was), self.weight[index] * (int(will) - int(was))

    def move(self, index: int, destination: int, cause: str) -> None:
        """Moves a bundle to a broker."""
        source = self.at[index]
        moves, weight = self.price(index, destination)
        self.moves += moves
        self.moved += weight
        self.cause[index] = cause
        self._group_domains.remove(index)
        self._change(source, -self.weight[index], -1)
        self.at[index] = destination
        self._change(destination, self.weight[index], 1)
        self._group_domains.add(index)
        if index in self._kind:
            entry, kind = (self.weight[index], index), self._kind[index]
            sorted_bundles = self._sorted_bundles[source][kind]
            del sorted_bundles[bisect_left(sorted_bundles, entry)]
            insort(self._sorted_bundles[destination][kind], entry)

    def cut(self, index: int, position: int) -> tuple[int, int]:
        """Cuts a bundle; both pieces stay on its broker. Returns the numbers of the lower and the upper piece. Raises
        ValueError as split_bundle."""
        lower, upper = split_bundle(self.bundles[index], position)
        first = len(self.bundles)
        weight = round(min(self.units(lower.weight), self.weight[index]))
        self.bundles += (lower, upper)
        self.weight += (weight, self.weight[index] - weight)
        self.reconnects += (lower.reconnects, upper.reconnects)
        self.at += (self.at[index],) * 2
        self.home += (self.home[index],) * 2
        self.pieces[index] = (position, first, first + 1)
        self.per_namespace[lower.id.namespace] += 1
        if index in self.cause:
            self.cause[first] = self.cause[first + 1] = self.cause[index]
        if self.at[index] != self.home[index]:
            self.moves += 1
        self._replace((index,), (first, first + 1))
        return first, first + 1

    def join(self, index: int) -> None:
        """Undo a cut whose pieces are whole and at one broker."""
        _, lower, upper = self.pieces.pop(index)
        self.at[index] = self.at[lower]
        self.per_namespace[self.bundles[index].id.namespace] -= 1
        if self.at[index] != self.home[index]:
            self.moves -= 1
            self.cause[index] = self.cause[lower]
        self._replace((lower, upper), (index,))
        self.at[lower] = self.at[upper] = self.home[lower] = self.home[upper] = NO_BROKER

    def conflicts(self, index: int, destination: int) -> bool:
        """Whether a move would put more namespaces of one anti-affinity group together than there are now."""
        return self._group_domains.worse(index, destination)

    def _replace(self, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        """Replaces bundles by others of the same weight, place and kind."""
        broker = self.at[new[0]]
        if broker != NO_BROKER:
            self.count[broker] += len(new) - len(old)
        for index in old:
            self._group_domains.remove(index)
        for index in new:
            self._group_domains.add(index)
        kinds = [self._kind.pop(index) for index in old if index in self._kind]
        for index in new if kinds else ():
            self._kind[index] = kinds[0]
            if broker != NO_BROKER:
                insort(self._sorted_bundles[broker][kinds[0]], (self.weight[index], index))
        for index in old if kinds and broker != NO_BROKER else ():
            sorted_bundles = self._sorted_bundles[broker][kinds[0]]
            del sorted_bundles[bisect_left(sorted_bundles, (self.weight[index], index))]

    def _change(self, broker: int, weight: int, bundles: int) -> None:
        del self._order[bisect_left(self._order, (self.utilization(broker), broker))]
        self.load[broker] += weight
        self.count[broker] += bundles
        insort(self._order, (self.utilization(broker), broker))


class _GroupDomains:
    """How many bundles of which namespace of an anti-affinity group are in which failure domain."""

    def __init__(self, placement: Placement, model: ClusterModel) -> None:
        self._placement = placement
        self._group = model.anti_affinity
        self._domain = [broker.domain or broker.id for broker in placement.brokers]
        self._members: dict[tuple[str, str], Counter[str]] = {}
        if self._group:
            for index in placement.living():
                self.add(index)

    def _where(self, index: int, broker: int) -> tuple[str, Counter[str]] | None:
        namespace: str = self._placement.bundles[index].id.namespace
        group = self._group.get(namespace)
        if group is None or broker == NO_BROKER:
            return None
        return namespace, self._members.setdefault((group, self._domain[broker]), Counter())

    def add(self, index: int) -> None:
        if self._group and (found := self._where(index, self._placement.at[index])):
            found[1][found[0]] += 1

    def remove(self, index: int) -> None:
        if self._group and (found := self._where(index, self._placement.at[index])):
            found[1][found[0]] -= 1
            if not found[1][found[0]]:
                del found[1][found[0]]

    def worse(self, index: int, destination: int) -> bool:
        if not self._group or (target := self._where(index, destination)) is None:
            return False
        namespace, there = target
        if namespace in there or not there:
            return False
        origin = self._where(index, self._placement.at[index])
        if origin is None or origin[1][namespace] > 1:
            return True
        return len(there) > len(origin[1]) - 1
