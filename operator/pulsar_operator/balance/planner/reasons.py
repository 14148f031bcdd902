"""Reasons of the steps, from the loads before each step.

The search knows why it moved a bundle, in one word, but neither the order of the steps nor the other steps of the plan.
So the sentences are written last, from the steps in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.planner.brokers import Sums, broker_loads, sums_of
from pulsar_operator.balance.planner.goals import BUSIEST, IDLE, AllowedBrokers, DrainingBrokers
from pulsar_operator.balance.planner.proposal import Move, Proposal, Split

NEW: Final = "NewBroker"
"""Cause of a move that fills a broker of mode AddBrokers."""
CAUSES: Final = frozenset({BUSIEST, IDLE, NEW, AllowedBrokers.name, DrainingBrokers.name})


def explained(model: ClusterModel, proposal: Proposal) -> Proposal:
    """Returns the proposal with a sentence on the reason of every step, for the loads at its time, and with the loads
    of all brokers before and after. ``model`` is the one of the proposal. A reason that is a sentence already stays.
    """
    state = _StepStates(model, proposal)
    began = state.sums()
    splits = tuple(replace(split, reason=state.of_split(split)) for split in proposal.splits)
    moves = tuple(replace(move, reason=state.of_move(n, move)) for n, move in enumerate(proposal.moves))
    return replace(proposal, splits=splits, moves=moves, brokers=broker_loads(model, began, state.sums(), state.mean))


class _StepStates:
    """Loads, owners and counts of bundles while the steps are applied in order."""

    def __init__(self, model: ClusterModel, proposal: Proposal) -> None:
        self._capacity = {broker.id: broker.capacity for broker in model.brokers}
        began = sums_of(model)
        self._load = dict(began.load)
        self._count = Counter(began.bundles)
        self._clients = Counter(began.clients)
        self.mean = proposal.before.mean
        self._moves: Sequence[Move] = proposal.moves
        self._owners: dict[BundleId, str] = {}
        if proposal.splits:
            self._owners = {b.id: b.owner for b in model.bundles if b.owner in self._load}
        self._end = dict(self._load)
        self._heaviest: dict[tuple[str, str], tuple[int, float]] = {}
        for number, move in enumerate(proposal.moves):
            if move.source in self._end:
                self._end[move.source] -= move.weight
                self._end[move.destination] += move.weight
                pair = (move.source, move.destination)
                if move.weight > self._heaviest.get(pair, (0, 0.0))[1]:
                    self._heaviest[pair] = number, move.weight

    def sums(self) -> Sums:
        """Returns what brokers carry now."""
        return Sums(dict(self._load), Counter(self._count), Counter(self._clients))

    def of_split(self, split: Split) -> str:
        """Returns why a bundle is split; the pieces stay on its broker."""
        owner = self._owners.pop(split.bundle, "")
        self._owners[split.bundle._replace(upper=split.boundary)] = owner
        self._owners[split.bundle._replace(lower=split.boundary)] = owner
        if owner in self._count:
            self._count[owner] += 1
        if split.reason != BUSIEST or not owner:
            return split.reason
        share = _share(self._load, self._capacity, owner, self.mean)
        return (
            f"{BUSIEST}: {owner} carries {share:.2f} of its fair share, and moving one of its whole bundles does not "
            "help"
        )

    def of_move(self, number: int, move: Move) -> str:
        """Returns why a bundle moves now, by the loads before the move."""
        if move.source is None or move.source not in self._load:
            return move.reason
        source, destination, cause = move.source, move.destination, move.reason
        sentence = f"{cause}: {self._sentence(number, move, source)}" if cause in CAUSES else cause
        self._load[source] -= move.weight
        self._load[destination] += move.weight
        self._count[source] -= 1
        self._count[destination] += 1
        self._clients[source] -= move.clients or 0
        self._clients[destination] += move.clients or 0
        return sentence

    def _sentence(self, number: int, move: Move, source: str) -> str:
        destination = move.destination
        if move.reason == DrainingBrokers.name:
            return f"{source} is being emptied and still has {_bundles(self._count[source])}"
        if move.reason == AllowedBrokers.name:
            return f"{source} may not serve {move.bundle.namespace}"
        own, other = (_share(self._load, self._capacity, each, self.mean) for each in (source, destination))
        loads = f"{source} carries {own:.2f} of its fair share and {destination} carries {other:.2f}"
        if own > other:
            return loads
        heavier = self._heaviest.get((destination, source), (0, 0.0))
        if heavier[1] > move.weight:
            return f"{loads}, and {source} {'makes' if heavier[0] > number else 'made'} room for a heavier bundle"
        ends = (_share(self._end, self._capacity, each, self.mean) for each in (source, destination))
        return "{}, and after all steps they carry {:.2f} and {:.2f}".format(loads, *ends)


def _share(load: dict[str, float], capacity: dict[str, float], broker: str, mean: float) -> float:
    """Returns the load of a broker over its fair share."""
    return load[broker] / capacity[broker] / mean if mean > 0 else 0.0


def _bundles(count: int) -> str:
    return f"{count} bundle{'' if count == 1 else 's'}"
