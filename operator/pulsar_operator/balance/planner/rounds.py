"""The part of a plan that fits the budget: the first round towards the outcome of the whole plan.

A search within a small budget ends where no small step helps any more. If the caller gives cuts that lead to a good end
(`Options.cuts`), the whole plan is made without the budget, and carried out in rounds, none of which makes the busiest
broker busier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import nlargest
from math import fsum

from pulsar_operator.balance.model.cluster import Bundle, BundleId, ClusterModel
from pulsar_operator.balance.planner.joining import affordable, joined, with_budget_advice
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.outcome import balance_of, outcome, utilizations
from pulsar_operator.balance.planner.proposal import Balance, Move, Proposal, Split

REQUESTED_CUT = "the sizing result has a boundary here"
ANEW = "the placement for which the splits were calculated has the bundle on this broker"
SAME = 1 + 1e-9
"""Utilizations nearer than this are equal."""


def towards(
    model: ClusterModel, options: Options, found: Proposal, planner: Callable[[ClusterModel, Options], Proposal]
) -> Proposal:
    """Returns a round of a plan without a budget of moves, if that leads further than ``found``.

    The first attempt uses whole bundles and the cuts that help immediately; the second all requested cuts, as their
    source did; the third these cuts from a placement from nothing.
    """
    if _near(found.after, options) or model.anti_affinity or any(broker.draining for broker in model.brokers):
        return found  # Half of a plan might put namespaces together that the whole one keeps apart.
    wide = replace(options, budget=replace(options.budget, max_moves=1 << 32, max_moved_percent=1e6))
    whole = planner(model, wide)
    if not _near(whole.after, options):
        splits = requested_cuts(model, wide)
        cut = outcome(model, splits, ())
        for moves in ((), placed_anew(cut, wide)):
            reached = outcome(cut, (), moves)
            finer = planner(reached, replace(wide, cuts={}))
            if not _near(whole.after, options) and finer.after.busiest * SAME < whole.after.busiest:
                begun = replace(finer, splits=(), moves=moves, moved_weight=fsum(move.weight for move in moves))
                both = replace(joined(cut, begun, finer), splits=splits, before=found.before, withheld="")
                whole = without_idle_cuts(both)
    if whole.empty or whole.after.busiest * SAME >= found.after.busiest:
        return found
    return first_round(model, whole, options) or found


def _near(balance: Balance, options: Options) -> bool:
    return balance.busiest <= balance.bound * (1 + options.tolerance) * SAME


def first_round(model: ClusterModel, whole: Proposal, options: Options) -> Proposal | None:
    """Returns the most effective moves of a plan within the budget, with the cuts that they need; None if no move is
    possible alone. A move without an effect alone, as half of a swap, waits for the other half to fit."""
    cut = outcome(model, whole.splits, ())
    begun = _Begun(cut, whole.splits)
    picked: list[Move] = []
    left = list(whole.moves)
    while left:
        best: tuple[float, float, Move] | None = None
        for move in left:
            busiest, falls = begun.with_move(move)
            if not falls or busiest > begun.busiest * SAME:
                continue
            rank = busiest, -move.weight
            if best is not None and rank >= best[:2]:
                continue
            if not begun.parts_nothing(move) and affordable(_part(whole, [*picked, move]), options, model):
                best = (*rank, move)
        if best is None:
            break
        picked.append(best[2])
        begun.make(best[2])
        left.remove(best[2])
    if not picked:
        return None
    part = _part(whole, picked)
    after = balance_of(outcome(model, part.splits, part.moves))
    return with_budget_advice(replace(part, after=after)) if left else replace(part, after=after)


class _Begun:
    """Loads of brokers and owners of bundles while the moves of a round are selected one by one. The effect of one more
    move is computed from its two brokers, so that a large plan is cheap.
    """

    def __init__(self, model: ClusterModel, splits: Sequence[Split]) -> None:
        self._capacity = {broker.id: broker.capacity for broker in model.brokers}
        self._used = utilizations(model.brokers, model.bundles)
        self._owners = {bundle.id: bundle.owner for bundle in model.bundles}
        self._pieces = {
            split.bundle: [each for each in self._owners if _inside(each, split.bundle)] for split in splits
        }
        self._rank()

    @property
    def busiest(self) -> float:
        """Returns the utilization of the busiest broker."""
        return self._used[self._order[0]]

    def with_move(self, move: Move) -> tuple[float, bool]:
        """Returns the utilization of the busiest broker with one more move, and whether loads are more even with it.

        More even means a lower utilization of the busier one of the two brokers, as in the search for moves
        (search.py): so both lower the list of utilizations in descending order, and neither undoes the other.
        """
        source, destination = self._after(move)
        concerned = {move.source: source, move.destination: destination}
        others = next((self._used[each] for each in self._order if each not in concerned), 0.0)
        was = max(self._used.get(move.source or "", 0.0), self._used[move.destination])
        return max(others, source, destination), max(source, destination) * SAME < was

    def parts_nothing(self, move: Move) -> bool:
        """Whether a cut that it needs would have all its pieces on one broker in the end."""
        owners = self._owners | {move.bundle: move.destination}
        return any(
            len({owners[each] for each in pieces}) == 1
            for whole, pieces in self._pieces.items()
            if whole != move.bundle and _inside(move.bundle, whole)
        )

    def make(self, move: Move) -> None:
        """Applies the move."""
        source, destination = self._after(move)
        if move.source in self._used:
            self._used[move.source] = source
        self._used[move.destination] = destination
        self._owners[move.bundle] = move.destination
        self._rank()

    def _after(self, move: Move) -> tuple[float, float]:
        source = 0.0
        if move.source in self._used:
            source = self._used[move.source] - move.weight / self._capacity[move.source]
        return source, self._used[move.destination] + move.weight / self._capacity[move.destination]

    def _rank(self) -> None:
        self._order = nlargest(3, self._used, key=lambda each: self._used[each])


def requested_cuts(model: ClusterModel, options: Options) -> tuple[Split, ...]:
    """Returns every permitted requested cut, of the heaviest bundles first."""
    counts = Counter(bundle.id.namespace for bundle in model.bundles)
    able = {broker.id for broker in model.brokers}
    found: list[Split] = []
    for bundle in sorted(model.bundles, key=lambda each: (-each.weight, each.id)):
        name = bundle.id.namespace
        if bundle.owner not in able or not bundle.cells or not _movable(bundle, model, options):
            continue
        rest = bundle.id
        for point in sorted((options.cuts or {}).get(name, ())):
            room = len(found) < options.budget.max_splits and counts[name] < options.budget.max_bundles
            if room and rest.lower < point < rest.upper:
                found.append(Split(rest, point, REQUESTED_CUT))
                counts[name] += 1
                rest = rest._replace(lower=point)
    return tuple(found)


def placed_anew(model: ClusterModel, options: Options) -> tuple[Move, ...]:
    """Returns the moves to a placement from nothing: the heaviest bundle first, to its current broker if that stays
    below the tolerance, else to the least utilized one. Only if every broker may serve every bundle; none otherwise."""
    brokers = {broker.id: broker.capacity for broker in model.brokers if not broker.draining}
    if model.allowed or model.anti_affinity or len(brokers) < len(model.brokers) or not brokers:
        return ()
    free = [b for b in model.bundles if b.owner in brokers and _movable(b, model, options)]
    stay = {bundle.id for bundle in free}
    loads = {broker.id: broker.base for broker in model.brokers}
    for bundle in model.bundles:
        if bundle.owner in loads and bundle.id not in stay:
            loads[bundle.owner] += bundle.weight
    most = balance_of(model).bound * (1 + options.tolerance / 2)
    moves = []
    for bundle in sorted(free, key=lambda each: (-each.weight, each.id)):
        weight, home = bundle.weight, bundle.owner or ""
        chosen = home
        if (loads[home] + weight) / brokers[home] > most:
            chosen = min(sorted(brokers), key=lambda each: (loads[each] + weight) / brokers[each])
        loads[chosen] += weight
        if chosen != home:
            moves.append(Move(bundle.id, home, chosen, weight, ANEW, bundle.topics, bundle.clients))
    return tuple(moves)


def _movable(bundle: Bundle, model: ClusterModel, options: Options) -> bool:
    name = bundle.id.namespace
    asked = options.namespaces is None or name in options.namespaces
    return asked and name not in model.pinned and bundle.id not in options.cooling


def without_idle_cuts(proposal: Proposal) -> Proposal:
    """Returns the plan without cuts whose pieces all stay."""
    moved = {move.bundle for move in proposal.moves}
    return replace(proposal, splits=tuple(split for split in proposal.splits if _needed(split, moved)))


def _inside(piece: BundleId, whole: BundleId) -> bool:
    return piece.namespace == whole.namespace and whole.lower <= piece.lower and piece.upper <= whole.upper


def _part(whole: Proposal, moves: list[Move]) -> Proposal:
    """Returns some moves of a plan, in its order, and the cuts that create their bundles."""
    chosen = {move.bundle for move in moves}
    splits = tuple(split for split in whole.splits if _needed(split, chosen))
    kept = tuple(move for move in whole.moves if move.bundle in chosen)
    return replace(whole, splits=splits, moves=kept, moved_weight=fsum(move.weight for move in kept))


def _needed(split: Split, moved: Iterable[BundleId]) -> bool:
    return any(_inside(each, split.bundle) and each != split.bundle for each in moved)
