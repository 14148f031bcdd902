"""Initial placement: the heaviest bundle first, each onto the broker that is least utilized with it.

This is the classical rule "longest processing time first" for machines of different speed. It shows what a set of
bundles can achieve; the planner decides what to move in a running cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from math import inf
from typing import NamedTuple

from pulsar_operator.balance.model.cluster import Broker


class Piece(NamedTuple):
    """One bundle to place."""

    weight: float
    allowed: frozenset[str] | None = None
    """Ids of the permitted brokers; None for all."""


class _Pool:
    """The brokers of one capacity that a piece may go to, the least loaded first. Loads only grow."""

    __slots__ = ("_heap", "capacity")

    def __init__(self, capacity: float, brokers: Iterable[str], loads: Mapping[str, float]) -> None:
        self.capacity = capacity
        self._heap = [(loads[broker], broker) for broker in brokers]
        heapify(self._heap)

    def least(self, loads: Mapping[str, float]) -> tuple[float, str]:
        """Returns the load and id of the least loaded broker. Other pools place on the same brokers, so outdated
        entries are skipped."""
        while True:
            load, broker = self._heap[0]
            if loads[broker] == load:
                return load, broker
            heapreplace(self._heap, (loads[broker], broker))


def place(pieces: Sequence[Piece], brokers: Iterable[Broker]) -> tuple[list[str], dict[str, float]]:
    """Returns the broker of each piece, and the load of each broker. Draining brokers are left out.

    Raises ValueError if there is no broker for a piece.
    """
    capacities = {broker.id: broker.capacity for broker in brokers if not broker.draining}
    loads = dict.fromkeys(capacities, 0.0)
    pools: dict[frozenset[str] | None, list[_Pool]] = {}
    placed = [""] * len(pieces)
    for index in sorted(range(len(pieces)), key=lambda i: -pieces[i].weight):
        weight, allowed = pieces[index]
        if allowed not in pools:
            pools[allowed] = _pools(allowed, capacities, loads)
        best, chosen = inf, ""
        for pool in pools[allowed]:
            load, broker = pool.least(loads)
            if (utilization := (load + weight) / pool.capacity) < best:
                best, chosen = utilization, broker
        loads[chosen] += weight
        placed[index] = chosen
    return placed, loads


def _pools(allowed: frozenset[str] | None, capacities: Mapping[str, float], loads: Mapping[str, float]) -> list[_Pool]:
    able = sorted(capacities if allowed is None else allowed & capacities.keys())
    if not able:
        names = "any broker" if allowed is None else f"brokers {', '.join(sorted(allowed))}"
        raise ValueError(
            f"a bundle that is allowed only on {names} cannot be placed, because none of these brokers serves bundles"
        )
    by_capacity: dict[float, list[str]] = defaultdict(list)
    for broker in able:
        by_capacity[capacities[broker]].append(broker)
    return [_Pool(capacity, names, loads) for capacity, names in sorted(by_capacity.items(), reverse=True)]


def busiest(loads: Mapping[str, float], brokers: Iterable[Broker]) -> float:
    """Returns the highest utilization; 0 without brokers."""
    return max((loads.get(broker.id, 0.0) / broker.capacity for broker in brokers), default=0.0)
