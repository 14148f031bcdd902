"""The search for moves and swaps: the busiest broker first, with the fewest and lightest bundles that relieve it. Among
bundles of about the same effect, the one with the fewest topics and clients is moved. A bundle with little traffic and
many clients is moved only if nothing else relieves a broker above the tolerance.

Every step lowers the utilization of the busier broker of a pair and leaves the other one below where the busier was. So
the list of utilizations in descending order decreases with every step: the search ends, and a second search finds
nothing more to do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Final

from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.bundle_placement import NO_BROKER, Placement
from pulsar_operator.balance.planner.goals import BUSIEST, Cooling, Goal, Limits

SWAP_PARTNERS: Final = 32
"""Least busy brokers that a swap is tried with."""
MIN_GAIN: Final = 0.01
"""Share of the target that an expensive step (a swap, an overfull destination) must gain."""
MIN_SWAP_GAIN: Final = 0.05
"""A swap gains at least this share of the weight it moves."""
MIN_USEFUL_MOVE: Final = 0.1
"""Share of the work of an average move within the whole budget that a move must do to be useful."""
MANY: Final = 100
"""Number of bundles up to which a larger budget of moves does not lower the minimum weight of a move."""


ENOUGH: Final = 0.25
"""Bundles that all suffice have the same effect: of those heavier than the lightest by at most this share, the one with
the fewest reconnects is moved."""
PART: Final = 0.4
"""Bundles lighter than the heaviest by at most this share are compared by their effect for each reconnect."""
CHOICE: Final = 32
"""Maximum number of bundles that are compared."""
MIN_TRAFFIC_PER_CLIENT: Final = 0.1
"""A move is worth its reconnects if the bundle has at least this part of the traffic that the average one has for each
of its topics and clients."""

Entry = tuple[int, int]
"""Weight and number of a bundle."""


@dataclass(frozen=True, slots=True)
class Step:
    """Bundles that move together: one move, or the two of a swap."""

    moves: tuple[tuple[int, int], ...]
    """(bundle, destination)."""


class Search:
    """Moves on one placement; `target` is the utilization, in units, below which no broker needs to be."""

    def __init__(
        self,
        placement: Placement,
        model: ClusterModel,
        goals: Sequence[Goal],
        limits: Limits,
        target: float,
        max_moves: int,
        tolerated: float = inf,
    ) -> None:
        """``tolerated`` is the utilization, in units, above which a broker is relieved regardless of reconnects."""
        self.placement = placement
        self.limits = limits
        self.target = target
        self._tolerated = tolerated
        self._dear = False
        """Whether bundles are moved that are not worth their reconnects."""
        # Reconnects of an average bundle, and weight that pays for one.
        self._usual = (placement.interrupted_in_all or 1) / max(sum(placement.count), 1)
        self._per_reconnect = MIN_TRAFFIC_PER_CLIENT * placement.total / max(placement.interrupted_in_all, 1)
        self.least = 0.0
        """Utilization, in units, that a move takes off a broker at least, unless it needs less."""
        self.open = [not any(goal.closes(broker) for goal in goals) for broker in placement.brokers]
        self.sources = [True] * len(placement.brokers)
        self._goals = goals
        # Asked at the last moment: those that depend on the state, not on broker or namespace alone.
        self._vetoes = [goal for goal in goals if type(goal).vetoes is not Goal.vetoes]
        self._largest = max(placement.capacity, default=0.0)
        kinds: dict[frozenset[str] | None, int] = {}
        stock: dict[int, int] = {}
        for index in placement.living():
            bundle = placement.bundles[index]
            if placement.at[index] != NO_BROKER and not any(goal.keeps(bundle) for goal in goals):
                stock[index] = kinds.setdefault(model.allowed.get(bundle.id.namespace), len(kinds))
        placement.stock(stock, len(kinds))
        self._min_useful_move = MIN_USEFUL_MOVE / min(max(max_moves, 1), max(len(stock), MANY))
        self.suits: list[list[int]] = [
            [kind for allowed, kind in kinds.items() if allowed is None or broker.id in allowed]
            for broker in placement.brokers
        ]

    # Emptying brokers.

    def evict(self, bundles: Iterable[int], cause: str) -> list[int]:
        """Finds a new broker for each bundle, the heaviest first; returns those that no goal permits to move. Heavy
        ones go to where the utilization stays lowest, the many light ones to the broker with the fewest bundles.
        """
        placement, stay = self.placement, []
        light = placement.total / (100.0 * max(len(placement.brokers), 1))
        for index in sorted(bundles, key=lambda i: (-placement.weight[i], placement.bundles[i].id)):
            weight, best = placement.weight[index], None
            for broker in placement.ascending():
                if not self.open[broker] or broker == placement.at[index]:
                    continue
                after = (placement.load[broker] + weight) / placement.capacity[broker]
                level = max(after, self.target) if weight <= light else after
                rank = (level, placement.count[broker] / placement.capacity[broker], after, broker)
                if (best is None or rank < best[0]) and self.permitted(index, broker, evict=True):
                    best = rank, broker
            if best is None:
                stay.append(index)
            else:
                placement.move(index, best[1], cause)
        return stay

    # Levelling.

    def level(self) -> bool:
        """Lowers every broker above the target as far as possible; returns whether anything moved."""
        acted, again = False, True
        while again:
            again = False
            for broker in self.placement.descending():
                if self.placement.utilization(broker) <= self.target:
                    break
                while self.relieve(broker):
                    acted = again = True
        return acted

    def relieve(self, broker: int) -> bool:
        """Does the best step that takes load off one broker above the target; False if there is none."""
        step = self.relief(broker)
        if step is None:
            return False
        for index, destination in step.moves:
            self.placement.move(index, destination, BUSIEST)
        return True

    def relief(self, broker: int) -> Step | None:
        """Returns the best step that takes load off one broker above the target."""
        if not self.sources[broker] or self.placement.utilization(broker) <= self.target:
            return None
        if self.limits.left(self.placement) < 0:
            return None
        step = self._fitting(broker) or self._swap(broker) or self._overfull(broker)
        if step is None and self.placement.utilization(broker) > self._tolerated:
            with self._whatever_it_costs():
                step = self._fitting(broker) or self._overfull(broker)
        return step

    @contextmanager
    def _whatever_it_costs(self) -> Iterator[None]:
        """Permits moves that are not worth their reconnects, within the context."""
        self._dear = True
        try:
            yield
        finally:
            self._dear = False

    def postponed(self, broker: int) -> bool:
        """Whether only the used-up budget keeps one broker above the target."""
        was, self.limits.fresh = self.limits.fresh, True
        try:
            return self.relief(broker) is not None
        finally:
            self.limits.fresh = was

    def excess(self, broker: int) -> float:
        """Returns the load above the target."""
        return self.placement.load[broker] - self.target * self.placement.capacity[broker]

    def room(self, broker: int) -> float:
        """Returns the load that a broker can take up to the target."""
        return -self.excess(broker)

    def even(self, busy: int, idle: int) -> float:
        """Returns the weight that would make two brokers equally busy."""
        gap = self.placement.utilization(busy) - self.placement.utilization(idle)
        return gap / (1 / self.placement.capacity[busy] + 1 / self.placement.capacity[idle])

    def destinations(self, broker: int) -> Iterator[int]:
        """Returns brokers that may take bundles and are less busy than this one, the least busy first."""
        placement = self.placement
        for other in placement.ascending():
            if placement.utilization(other) >= placement.utilization(broker):
                return
            if self.open[other] and other != broker:
                yield other

    def _fitting(self, broker: int) -> Step | None:
        """Returns a bundle that fits below the target elsewhere: the lightest sufficient one, else the heaviest that
        fits."""
        placement, excess = self.placement, self.excess(broker)
        left = self.limits.left(placement)
        least = max(excess * self._min_useful_move, min(self.least * placement.capacity[broker], excess))
        enough: tuple[int, int, int, int] | None = None
        part: tuple[int, int, int, int] | None = None
        most = self._most(broker, excess, left)
        for other in self.destinations(broker):
            useful = least if part is None else max(least, -part[0])
            if (part is not None and -part[0] == most) or min(self._max_room(other), left) < useful:
                break  # nothing that is heavier is left to give, or no broker from here on has room for it
            fits = min(self.room(other), left)
            if fits < useful:
                continue
            for kind in self.suits[other]:
                entries = placement.sorted_bundles(broker, kind)
                found = self._first(entries, bisect_left(entries, (excess,)), fits, other)
                if found and (enough is None or found[:2] < enough[:2]):
                    enough = (*found, other)
                if enough is None:
                    found = self._last(entries, bisect_right(entries, (min(fits, excess), inf)), least, other)
                    if found and (part is None or -found[0] < part[0]):
                        part = (-found[0], found[1], found[2], other)
            if enough is not None:
                break
        best = enough or part
        return Step(((best[2], best[3]),)) if best else None

    def _most(self, broker: int, excess: float, left: float) -> float:
        """Returns the maximum that one bundle can take off a broker; infinite if one may suffice."""
        heaviest = -inf
        for entries in self.placement.bundles_by_kind(broker):
            at = bisect_right(entries, (left, inf))
            if at:
                heaviest = max(heaviest, entries[at - 1][0])
        return heaviest if heaviest < excess else inf

    def _max_room(self, other: int) -> float:
        """Returns an upper bound for the room of a broker, and of all busier ones, of any size."""
        return (self.target - self.placement.utilization(other)) * self._largest + 1

    def _overfull(self, broker: int) -> Step | None:
        """Returns a bundle that fits nowhere below the target, but leaves both brokers well below the busier one's
        present utilization."""
        placement, left = self.placement, self.limits.left(self.placement)
        before = placement.utilization(broker)
        limit = before - MIN_GAIN * self.target
        best: tuple[float, int, int, int] | None = None
        for other in self.destinations(broker):
            ideal = self.even(broker, other)
            most = min((limit - placement.utilization(other)) * placement.capacity[other], left)
            for kind in self.suits[other]:
                entries = placement.sorted_bundles(broker, kind)
                middle = bisect_left(entries, (ideal,))
                for found in (
                    self._first(entries, middle, most, other),
                    self._last(entries, min(middle, bisect_right(entries, (most, inf))), 0, other),
                ):
                    if found is None:
                        continue
                    index = found[2]
                    weight = placement.weight[index]
                    after = max(
                        (placement.load[broker] - weight) / placement.capacity[broker],
                        (placement.load[other] + weight) / placement.capacity[other],
                    )
                    if after <= limit and (best is None or (after, weight, index) < best[:3]):
                        best = (after, weight, index, other)
        return Step(((best[2], best[3]),)) if best else None

    def _swap(self, broker: int) -> Step | None:
        """Returns the swap of a heavier bundle against a lighter one, both brokers at or below the target or nearer to
        it."""
        best: tuple[float, int, int, int, int] | None = None
        for tried, other in enumerate(self.destinations(broker)):
            if tried == SWAP_PARTNERS:
                break
            found = self._swap_with(broker, other)
            if found and (best is None or found < best):
                best = found
        return Step(((best[2], best[4]), (best[3], broker))) if best else None

    def _swap_with(self, broker: int, other: int) -> tuple[float, int, int, int, int] | None:
        """Returns (excess left, weight moved, bundle out, bundle back, other broker) of the best swap with one
        broker."""
        placement = self.placement
        excess, room = self.excess(broker), self.room(other)
        min_gain = MIN_GAIN * self.target * placement.capacity[broker]
        left = self.limits.left(placement)
        if room < min(min_gain, excess) or not self.open[broker]:
            return None
        best: tuple[float, int, int, int, int] | None = None
        back = [placement.sorted_bundles(other, kind) for kind in self.suits[broker]]
        for kind in self.suits[other]:
            entries = placement.sorted_bundles(broker, kind)
            for weight, index in entries[bisect_right(entries, (room, inf)) :]:
                if weight > left or (best is not None and best[0] <= 0 and weight >= best[1]):
                    break
                for candidates in back:
                    # The lightest that makes enough room: a heavier one would gain less.
                    at = bisect_left(candidates, (weight - room,))
                    if at == len(candidates):
                        continue
                    lighter, returned = candidates[at]
                    gain, cost = min(weight - lighter, excess), weight + lighter
                    if gain < min(min_gain, excess) or gain < MIN_SWAP_GAIN * cost or cost > left:
                        continue
                    rank = (excess - gain, cost, index, returned, other)
                    if (best is None or rank < best) and self._swappable(index, returned, broker, other):
                        best = rank
        return best

    def _swappable(self, index: int, returned: int, broker: int, other: int) -> bool:
        placement = self.placement
        prices = placement.price(index, other), placement.price(returned, broker)
        if not self.limits.afford(placement, prices[0][0] + prices[1][0], prices[0][1] + prices[1][1]):
            return False
        return self.permitted(index, other) and self.permitted(returned, broker)

    # Filling.

    def fill(self, broker: int, full: float, floors: Sequence[float], cause: str) -> bool:
        """Raises one broker to the utilization `full` with bundles of busier ones; returns whether anything moved.
        Sources are not lowered below a floor; the floors are tried in turn.
        """
        if not self.open[broker]:
            return False
        acted = self._fed(broker, full, floors, cause)
        with self._whatever_it_costs():
            return self._fed(broker, full / 2, floors, cause) or acted

    def _fed(self, broker: int, full: float, floors: Sequence[float], cause: str) -> bool:
        acted = False
        for floor in floors:
            while self.placement.utilization(broker) < full and self._feed(broker, floor, floors[0], cause):
                acted = True
        return acted

    def _feed(self, broker: int, floor: float, ceiling: float, cause: str) -> bool:
        """Moves one bundle to an idle broker from the busiest one that can spare it."""
        placement, left = self.placement, self.limits.left(self.placement)
        if left < 0:
            return False
        missing = ceiling * placement.capacity[broker] - placement.load[broker]
        for other in placement.descending():
            if placement.utilization(other) <= max(floor, placement.utilization(broker)):
                return False
            if other == broker or not self.sources[other]:
                continue
            surplus = placement.load[other] - floor * placement.capacity[other]
            # The source stays at least as busy as the broker that it feeds.
            most = min(surplus, missing, self.even(other, broker), left)
            best: tuple[int, int, int] | None = None
            for kind in self.suits[broker]:
                entries = placement.sorted_bundles(other, kind)
                found = self._last(entries, bisect_right(entries, (most, inf)), missing * self._min_useful_move, broker)
                if found and (best is None or (found[0], -found[1], found[2]) > (best[0], -best[1], best[2])):
                    best = found
            if best:
                placement.move(best[2], broker, cause)
                return True
        return False

    # What the goals permit.

    def _first(self, entries: list[Entry], start: int, most: float, other: int) -> tuple[int, int, int] | None:
        """Returns the bundle with the fewest reconnects among the lightest permitted ones from `start` on that weigh at
        most `most`: the weight of the lightest of them, the reconnects, the bundle."""
        while start < len(entries) and (weight := entries[start][0]) <= most:
            stop = bisect_right(
                entries, (min(weight * (1 + ENOUGH), most), inf), start, min(start + CHOICE, len(entries))
            )
            if (found := self._best(entries[start:stop], other, self._few)) is not None:
                return weight, *found
            start = stop
        return None

    def _last(self, entries: list[Entry], end: int, least: float, other: int) -> tuple[int, int, int] | None:
        """Returns the bundle with the best effect for its reconnects among the heaviest permitted ones before `end`
        that weigh at least `least`, and more than 0: the weight of the heaviest of them, the reconnects, the bundle."""
        while end > 0 and (weight := entries[end - 1][0]) >= least and weight:
            start = bisect_left(entries, (max(weight * (1 - PART), least),), max(end - CHOICE, 0), end)
            if (found := self._best(entries[start:end][::-1], other, self._dense)) is not None:
                return weight, *found
            end = start
        return None

    def _best(self, entries: list[Entry], other: int, rank: Callable[[Entry], float]) -> tuple[int, int] | None:
        """Returns reconnects and number of the permitted bundle with the lowest rank; the first of equal ones."""
        found = min(entries, key=rank)
        if not self._may(found, other):
            others = (entry for entry in sorted(entries, key=rank)[1:] if self._may(entry, other))
            found = next(others, (0, NO_BROKER))
        return (self.placement.reconnects[found[1]], found[1]) if found[1] != NO_BROKER else None

    def _may(self, entry: Entry, other: int) -> bool:
        """Whether a bundle may be moved to a broker, and is worth its reconnects."""
        min_gain = self._dear or entry[0] >= self.placement.reconnects[entry[1]] * self._per_reconnect
        return min_gain and self.permitted(entry[1], other)

    def _few(self, entry: Entry) -> float:
        return self.placement.reconnects[entry[1]]

    def _dense(self, entry: Entry) -> float:
        """Returns a rank that is lower for more weight for each reconnect; the move itself counts like the reconnects
        of an average bundle."""
        return -entry[0] / (self._usual + self.placement.reconnects[entry[1]])

    def permitted(self, index: int, destination: int, *, evict: bool = False) -> bool:
        """Whether no goal vetoes a move. The caller offers no bundle that a goal keeps. With ``evict``, the move
        empties a broker: a bundle in its cooling period may then be moved, but none that another goal keeps."""
        if evict and any(g.keeps(self.placement.bundles[index]) for g in self._goals if not isinstance(g, Cooling)):
            return False
        return not any(goal.vetoes(self.placement, index, destination) for goal in self._vetoes)
