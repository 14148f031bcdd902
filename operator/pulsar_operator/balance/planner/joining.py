"""Joins two proposals, the second planned on the outcome of the first; and checks the budget of the result."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import replace
from math import fsum

from pulsar_operator.balance.model.cluster import Bundle, BundleId, ClusterModel
from pulsar_operator.balance.planner.advice import BUDGET_REACHED, budget_reached
from pulsar_operator.balance.planner.options import Mode, Options
from pulsar_operator.balance.planner.outcome import outcome
from pulsar_operator.balance.planner.proposal import Move, Proposal

ROUNDING = 1e-9


def joined(model: ClusterModel, first: Proposal, second: Proposal) -> Proposal:
    """Returns all cuts, then one move for every piece whose broker changes."""
    middle = outcome(model, first.splits, first.moves)
    final = outcome(middle, second.splits, second.moves)
    began, before = _Parts(model.bundles), {move.bundle: move for move in first.moves}
    between, last = _Parts(middle.bundles), {move.bundle: move for move in second.moves}
    moves: list[Move] = []
    for bundle in final.bundles:
        source = began.holding(bundle.id).owner
        if bundle.owner is None or bundle.owner == source:
            continue
        why = last.get(bundle.id) or before[between.holding(bundle.id).id]
        counts = bundle.topics, bundle.clients
        moves.append(Move(bundle.id, source, bundle.owner, bundle.weight, why.reason, *counts))
    return replace(
        second,
        splits=(*first.splits, *second.splits),
        moves=tuple(sorted(moves, key=lambda move: (-move.weight, move.bundle))),
        before=first.before,
        moved_weight=fsum(move.weight for move in moves),
    )


def affordable(proposal: Proposal, options: Options, model: ClusterModel) -> bool:
    """Whether a proposal is within the budget. Mode Split must move nothing in the end."""
    budget = options.budget
    if len(proposal.splits) > budget.max_splits:
        return False
    bundles = Counter(bundle.id.namespace for bundle in model.bundles)
    bundles.update(split.bundle.namespace for split in proposal.splits)
    if any(bundles[name] > budget.max_bundles for name in {split.bundle.namespace for split in proposal.splits}):
        return False
    if options.mode is Mode.SPLIT:
        return True
    known = {broker.id for broker in model.brokers}
    carried = fsum(bundle.weight for bundle in model.bundles if bundle.owner in known)
    share = carried * budget.left_percent / 100
    alone = len(proposal.moves) == 1 and budget.alone
    return len(proposal.moves) <= budget.max_moves and (alone or proposal.moved_weight <= share * (1 + ROUNDING))


def with_budget_advice(proposal: Proposal) -> Proposal:
    """Returns the proposal with the advice to request another one."""
    if any(each.reason == BUDGET_REACHED for each in proposal.advice):
        return proposal
    return replace(proposal, advice=(*proposal.advice, budget_reached()))


class _Parts:
    """Bundles by their hash range."""

    def __init__(self, bundles: tuple[Bundle, ...]) -> None:
        self._bundles: dict[str, list[Bundle]] = defaultdict(list)
        for bundle in sorted(bundles, key=lambda each: each.id):
            self._bundles[bundle.id.namespace].append(bundle)

    def holding(self, piece: BundleId) -> Bundle:
        """Returns the bundle that a piece is part of."""
        bundles = self._bundles[piece.namespace]
        return bundles[bisect_right(bundles, piece.lower, key=lambda each: each.id.lower) - 1]
