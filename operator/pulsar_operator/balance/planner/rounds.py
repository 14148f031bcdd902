"""What a budget has room for of a plan that needs more: the first round on the way to where the whole plan leads.

A search that has to keep to a small budget ends where no small step helps any more. Where somebody said which cuts lead
to a good end (`Options.cuts`), the way there is planned without the budget, and gone in rounds, none of which leaves
the busiest broker busier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import fsum

from pulsar_operator.balance.model.cluster import Bundle, BundleId, ClusterModel
from pulsar_operator.balance.planner.joining import affordable, joined, told
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.outcome import balance_of, outcome, utilizations
from pulsar_operator.balance.planner.proposal import Balance, Move, Proposal, Split

WANTED = "the sizing result has a boundary here"
ANEW = "the placement that the cuts were found for has it there"
SAME = 1 + 1e-9
"""Utilizations nearer than this are equal."""


def towards(
    model: ClusterModel, options: Options, found: Proposal, planner: Callable[[ClusterModel, Options], Proposal]
) -> Proposal:
    """A round of a plan that no budget of moves cuts short, where that leads further than what was ``found``.

    First whole bundles with the cuts that help at once; else with all cuts that were asked for, as whoever asked for
    them did; else with these from a placement from nothing.
    """
    if _near(found.after, options) or model.anti_affinity or any(broker.draining for broker in model.brokers):
        return found  # Half of a plan might put namespaces together that the whole one keeps apart.
    wide = replace(options, budget=replace(options.budget, max_moves=1 << 32, max_moved_percent=1e6))
    whole = planner(model, wide)
    if not _near(whole.after, options):
        splits = wanted_cuts(model, wide)
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
    """The moves of a plan that bring most, as far as the budget goes, with the cuts that they need; None where not one
    can be made alone.

    A move that brings nothing by itself, as half of a swap, waits for the other half to fit.
    """
    cut = outcome(model, whole.splits, ())
    busiest, spread = balance_of(cut).busiest, _spread(cut)
    picked: list[Move] = []
    left = list(whole.moves)
    while left:
        best: tuple[float, float, Move] | None = None
        for move in left:
            part = _part(whole, [*picked, move])
            reached = outcome(cut, (), part.moves)
            if _spread(reached) * SAME >= spread or _parts_nothing(part, reached):
                continue
            rank = balance_of(reached).busiest, -move.weight
            if rank[0] <= busiest * SAME and (best is None or rank < best[:2]) and affordable(part, options, model):
                best = (*rank, move)
        if best is None:
            break
        busiest = best[0]
        picked.append(best[2])
        spread = _spread(outcome(cut, (), picked))
        left.remove(best[2])
    if not picked:
        return None
    part = _part(whole, picked)
    after = balance_of(outcome(model, part.splits, part.moves))
    return told(replace(part, after=after)) if left else replace(part, after=after)


def wanted_cuts(model: ClusterModel, options: Options) -> tuple[Split, ...]:
    """Every cut that was asked for and may be made, of the heaviest bundles first."""
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
                found.append(Split(rest, point, WANTED))
                counts[name] += 1
                rest = rest._replace(lower=point)
    return tuple(found)


def placed_anew(model: ClusterModel, options: Options) -> tuple[Move, ...]:
    """Moves to a placement from nothing: the heaviest bundle first, to where it may stay below the tolerance, else to
    the broker that is least used with it. Only where every broker may serve every bundle; none otherwise."""
    brokers = {broker.id: broker.capacity for broker in model.brokers if not broker.draining}
    if model.allowed or model.anti_affinity or len(brokers) < len(model.brokers) or not brokers:
        return ()
    free = [b for b in model.bundles if b.owner in brokers and _movable(b, model, options)]
    stay = {bundle.id for bundle in free}
    loads = dict.fromkeys(brokers, 0.0)
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
            moves.append(Move(bundle.id, home, chosen, weight, ANEW))
    return tuple(moves)


def _movable(bundle: Bundle, model: ClusterModel, options: Options) -> bool:
    name = bundle.id.namespace
    asked = options.namespaces is None or name in options.namespaces
    return asked and name not in model.pinned and bundle.id not in options.cooling


def without_idle_cuts(proposal: Proposal) -> Proposal:
    """The plan without cuts none of whose pieces go anywhere."""
    moved = {move.bundle for move in proposal.moves}
    return replace(proposal, splits=tuple(split for split in proposal.splits if _needed(split, moved)))


def _spread(model: ClusterModel) -> float:
    """Sum of load squared / capacity: what falls with every step of a round, so that rounds come to an end."""
    used = utilizations(model.brokers, model.bundles)
    return fsum(broker.capacity * used[broker.id] ** 2 for broker in model.brokers)


def _parts_nothing(part: Proposal, reached: ClusterModel) -> bool:
    """Whether all that a cut makes of a bundle is at one broker in the end."""
    return any(
        len({each.owner for each in reached.bundles if _inside(each.id, split.bundle)}) == 1 for split in part.splits
    )


def _inside(piece: BundleId, whole: BundleId) -> bool:
    return piece.namespace == whole.namespace and whole.lower <= piece.lower and piece.upper <= whole.upper


def _part(whole: Proposal, moves: list[Move]) -> Proposal:
    """Some moves of a plan, in its order, and the cuts without which their bundles would not be there."""
    chosen = {move.bundle for move in moves}
    splits = tuple(split for split in whole.splits if _needed(split, chosen))
    kept = tuple(move for move in whole.moves if move.bundle in chosen)
    return replace(whole, splits=splits, moves=kept, moved_weight=fsum(move.weight for move in kept))


def _needed(split: Split, moved: Iterable[BundleId]) -> bool:
    return any(_inside(each, split.bundle) and each != split.bundle for each in moved)
