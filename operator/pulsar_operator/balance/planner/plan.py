"""The planner: takes one observed state and one question, returns splits and moves with reasons. Pure and
deterministic.

The goals, in order of priority; a later one never undoes an earlier one:

1. hard: isolation policies, draining brokers, pinned and unselected namespaces, anti-affinity, the budget, rest after a
   move. Bundles that must leave their broker are placed first;
2. the utilization of the busiest broker falls to the bound, or near it (half the tolerance above it; nearer if few
   moves suffice);
3. with few and light moves: the busiest broker gives the lightest sufficient bundle, and a swap is used only if no move
   helps;
4. with few splits: only while the busiest broker is above the tolerance and no move or swap of whole bundles helps, or
   if one cut lowers it by a twentieth of the mean;
5. idle brokers get their possible share (shares.py), and light bundles go to brokers with few of them.

Nothing is done while the placement is within the tolerance. A plan is the difference between two placements, so
planning again on its outcome gives an empty plan, unless the budget cut the first one short. It ends with the check of
verify.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import fsum
from typing import Final

from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.advice import (
    COARSE_BUNDLES,
    budget_reached,
    coarse_bundles,
    hot_topics,
    not_emptied,
)
from pulsar_operator.balance.planner.bundle_placement import NO_BROKER, Placement
from pulsar_operator.balance.planner.finish import Finish
from pulsar_operator.balance.planner.goals import (
    BUSIEST,
    IDLE,
    AllowedBrokers,
    AntiAffinity,
    Cooling,
    DrainingBrokers,
    Goal,
    Limits,
    NewBrokers,
    PinnedNamespaces,
)
from pulsar_operator.balance.planner.inputs import check_input
from pulsar_operator.balance.planner.joining import affordable, joined, with_budget_advice
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import as_asked, balance_of, outcome
from pulsar_operator.balance.planner.proposal import Balance, Move, Proposal, Split
from pulsar_operator.balance.planner.reasons import NEW, explained
from pulsar_operator.balance.planner.rounds import towards
from pulsar_operator.balance.planner.search import Search
from pulsar_operator.balance.planner.shares import fair_shares
from pulsar_operator.balance.planner.splitting import Splitter
from pulsar_operator.balance.planner.verify import PlanError, check

__all__ = ["balance_of", "plan"]

IDLE_BELOW: Final = 0.5
"""Share of its possible load below which a broker is idle, however even the others are."""
ENDLESS: Final = Budget(max_moves=1 << 32, max_moved_percent=1e6, max_splits=1 << 32)
EMPTIED: Final = "the brokers to be emptied serve no bundle"
LARGE: Final = 5000
"""Number of bundles from which a model is searched only once."""
ROUNDS: Final = 8
TARGET_SHARES: Final = (0.25, 0.125, 0.0)
"""Shares of the tolerance above the bound at which a plan may end if further moves are not worth it."""
SAME: Final = 1 + 1e-9
"""Utilizations nearer than this are equal."""


def plan(model: ClusterModel, options: Options) -> Proposal:
    """Returns the splits and moves. Raises ValueError for invalid input, PlanError for an error of the planner."""
    check_input(model, options)
    asked = as_asked(model, options)
    before = balance_of(asked)
    if refusal := _refusal(asked):
        found = Proposal((), (), before, before, 0.0, (), refusal)
        return replace(found, emptied=options.mode is Mode.REMOVE_BROKERS and not _owned(asked, options.brokers))
    proposal = _completed(asked, options, _once(asked, options, before))
    if options.cuts is not None and options.mode is Mode.FULL and len(asked.bundles) <= LARGE:
        proposal = towards(asked, options, proposal, lambda m, o: _completed(m, o, _once(m, o, balance_of(m))))
    if proposal.splits and options.cuts is None and options.mode is Mode.FULL and len(asked.bundles) <= LARGE:
        whole = _once(asked, replace(options, mode=Mode.MOVE), before)
        if whole.after.busiest * SAME < proposal.after.busiest:  # a cut is permanent: none for a worse end
            proposal = replace(whole, advice=tuple(a for a in whole.advice if a.reason != COARSE_BUNDLES))
    proposal = explained(asked, proposal)
    check(model, proposal, options)
    return proposal


def _once(model: ClusterModel, options: Options, before: Balance) -> Proposal:
    planning = _Planning(model, options, before)
    planning.run()
    return planning.proposal()


def _completed(model: ClusterModel, options: Options, found: Proposal) -> Proposal:
    """Returns the proposal with the steps of a plan on its outcome: cuts enable moves that their own search did not
    consider. What exceeds the budget is reported. Large models are left as they are, since each round costs as much
    again.
    """
    if len(model.bundles) > LARGE:
        return found
    for _ in range(ROUNDS):
        if not found.splits:
            return found
        reached = outcome(model, found.splits, found.moves)
        more = _once(reached, options, balance_of(reached))
        if more.empty:
            return found
        both = joined(model, found, more)
        if not affordable(both, options, model):
            break
        found = both
    return with_budget_advice(found)


def _owned(model: ClusterModel, brokers: Collection[str]) -> bool:
    return any(bundle.owner in brokers for bundle in model.bundles)


def _refusal(model: ClusterModel) -> str:
    """Returns why no plan is possible; None if one is."""
    known = {broker.id for broker in model.brokers}
    able = [broker for broker in model.brokers if not broker.draining]
    if not known:
        return "no broker is known"
    if not any(bundle.owner in known for bundle in model.bundles):
        return "no broker serves a bundle"
    if not able:
        return "all brokers are being drained and none can take a bundle"
    if len(known) == 1:
        return "there is only one broker, so nothing can be moved"
    if not any(bundle.weight > 0 for bundle in model.bundles if bundle.owner in known) and len(able) == len(known):
        return "no traffic was observed"
    return ""


class _Planning:
    """One run of the planner."""

    def __init__(self, model: ClusterModel, options: Options, before: Balance) -> None:
        self._model, self._options, self._before = model, options, before
        self._placement = placement = Placement(model)
        self._bound, self._mean = placement.units(before.bound), placement.units(before.mean)
        self._tolerated = self._bound * (1 + options.tolerance) * SAME
        self._limits = Limits(options.budget, placement.total, options.mode)
        self._allowed = AllowedBrokers(model.allowed)
        self._selected = PinnedNamespaces(model.pinned, options.namespaces)
        goals: list[Goal] = [
            self._allowed,
            DrainingBrokers(),
            *([NewBrokers(options.brokers)] if options.mode is Mode.ADD_BROKERS else []),
            self._selected,
            AntiAffinity(),
            self._limits,
            Cooling(options.cooling),
        ]
        target = self._bound * (1 + options.tolerance / 2) * SAME
        self._search = Search(placement, model, goals, self._limits, target, options.budget.max_moves, self._tolerated)
        if options.mode is Mode.ADD_BROKERS:
            self._search.sources = [broker.id not in options.brokers for broker in placement.brokers]
        self._splitter = Splitter(self._search, options.budget, options.cuts)
        self._start = [placement.utilization(broker) for broker in range(len(placement.brokers))]
        self._stay: list[int] = []
        self._cause = NEW if options.mode is Mode.ADD_BROKERS else IDLE

    def run(self) -> None:
        """Runs all phases on the placement."""
        mode = self._options.mode
        evicting = mode not in (Mode.ADD_BROKERS, Mode.SPLIT)
        if evicting:
            self._evict()
        if mode is Mode.REMOVE_BROKERS:
            return
        uneven = self._uneven
        self._improve(evicting=evicting)
        if uneven and not self._uneven and mode in (Mode.FULL, Mode.MOVE):
            tolerance = self._options.tolerance
            levels = [self._bound * (1 + tolerance * share) * SAME for share in TARGET_SHARES]
            if Finish(self._search, self._splitter if mode is Mode.FULL else None, self._mean).run(levels):
                self._improve(evicting=evicting)

    def _improve(self, *, evicting: bool) -> None:
        """Runs all phases in turn, until none finds anything."""
        mode, ceiling = self._options.mode, self._placement.busiest
        # Each phase may open a way for the others; all of them lower the busier broker of a pair, so this ends. What
        # must leave does so once.
        acted = True
        while acted:
            acted = self._uneven and (self._search.level() or self._alone())
            if mode is not Mode.SPLIT:
                acted |= self._fill()
            if mode in (Mode.FULL, Mode.SPLIT):
                acted |= self._split()
            if evicting and self._stay and self._evict():
                acted, ceiling = True, max(ceiling, self._placement.busiest)
        if self._placement.busiest > ceiling:
            raise PlanError(BUSIEST, f"the search went from {ceiling:.6g} to {self._placement.busiest:.6g}")

    @property
    def _uneven(self) -> bool:
        return self._placement.busiest > self._tolerated

    def _alone(self) -> bool:
        """Moves a whole bundle that weighs more than the budget permits, if nothing else moves; returns whether one
        moved."""
        if self._placement.moves or self._placement.pieces or self._options.mode is Mode.SPLIT:
            return False
        self._limits.alone = True
        try:
            return self._search.level()
        finally:
            self._limits.alone = False

    def _evict(self) -> bool:
        """Moves bundles that must leave their broker, by the hard goals; returns whether anything moved. One move may
        enable another (anti-affinity), so this repeats until none is possible.
        """
        placement, options, acted = self._placement, self._options, False
        while True:
            draining = [
                index
                for index, broker in enumerate(placement.brokers)
                if broker.draining and (options.mode is not Mode.REMOVE_BROKERS or broker.id in options.brokers)
            ]
            evicted = placement.carried_by(draining)
            self._stay = self._search.evict(evicted, DrainingBrokers.name)
            misplaced = [] if options.mode is Mode.REMOVE_BROKERS else self._misplaced(draining)
            self._stay += self._search.evict(misplaced, AllowedBrokers.name)
            moved = len(evicted) + len(misplaced) - len(self._stay)
            acted |= moved > 0
            if not moved or not self._stay:
                return acted

    def _misplaced(self, draining: Collection[int]) -> list[int]:
        """Returns bundles on a broker that may not serve their namespace."""
        placement = self._placement
        return [
            index
            for index in placement.living()
            if (at := placement.at[index]) != NO_BROKER
            and at not in draining
            and not self._allowed.permits(placement.bundles[index].id.namespace, placement.brokers[at].id)
        ]

    def _fill(self) -> bool:
        """Fills idle or added brokers to their share; returns whether anything moved."""
        acted, placement, options = False, self._placement, self._options
        shares: Mapping[str, float] | None = None
        most = max(0.0, 1 - options.tolerance)
        below = most if options.mode is Mode.ADD_BROKERS else min(IDLE_BELOW, most)
        for broker in placement.ascending():
            if placement.utilization(broker) >= self._mean * below:
                break
            shares = shares or self._shares()
            due = min(self._mean, placement.units(shares[placement.brokers[broker].id]))
            if placement.utilization(broker) < due * below:
                floors = (due, due * max(0.0, 1 - options.tolerance / 2), 0.0)
                acted |= self._search.fill(broker, due * most, floors, self._cause)
        return acted

    def _shares(self) -> Mapping[str, float]:
        """Returns the possible load of each broker; nothing for those that are emptied. A bundle heavier than a
        broker's share counts on its current broker: otherwise a plan on the outcome would move more.
        """
        placement, model = self._placement, self._model
        moved = {
            bundle.id: placement.brokers[placement.at[index]].id
            for index, bundle in enumerate(placement.bundles[: len(model.bundles)])
            if index not in placement.pieces and placement.at[index] != placement.home[index]
        }
        bundles = tuple(replace(b, owner=moved[b.id]) if b.id in moved else b for b in model.bundles)
        return defaultdict(float, fair_shares(replace(model, bundles=bundles), self._options.namespaces))

    def _split(self) -> bool:
        """Cuts bundles and moves pieces while the busiest brokers are above the tolerance and a cut helps; returns
        whether one did."""
        placement, acted, again = self._placement, False, True
        while again:
            again = False
            for broker in placement.descending():
                if placement.utilization(broker) <= self._tolerated:
                    break
                while placement.utilization(broker) > self._tolerated and self._splitter.relieve(broker):
                    acted = again = True
                    while self._search.relieve(broker):
                        pass
        self._splitter.prune()
        return acted

    # The answer.

    def proposal(self) -> Proposal:
        """Returns the steps, in order."""
        splits = tuple(
            Split(self._placement.bundles[index].id, position, BUSIEST)
            for index, (position, _, _) in self._placement.pieces.items()
        )
        moves = () if self._options.mode is Mode.SPLIT else self._moves()
        after = balance_of(outcome(self._model, splits, moves)) if splits or moves else self._before
        found = Proposal(splits, moves, self._before, after, fsum(move.weight for move in moves))
        uneven, stay = self._uneven, list(self._stay)
        limited = self._limited()
        whole = self._options.mode in (Mode.ADD_BROKERS, Mode.REMOVE_BROKERS)
        advice = [*hot_topics(self._model, self._before, whole=whole), *not_emptied(self._placement, stay, self._stay)]
        if found.empty:
            emptied = self._options.mode is Mode.REMOVE_BROKERS and not stay
            withheld = EMPTIED if emptied else self._withheld(uneven, limited)
            return replace(found, advice=tuple(advice), withheld=withheld, emptied=emptied)
        if limited:
            advice.append(budget_reached())
        elif uneven and self._options.mode is Mode.MOVE:
            advice.append(coarse_bundles())
        return replace(found, advice=tuple(advice))

    def _moves(self) -> tuple[Move, ...]:
        """Returns what must leave first, then from the busiest broker on, the heaviest bundle first; reasons are causes
        yet."""
        placement, moved = self._placement, []
        for index in placement.living():
            home, at = placement.home[index], placement.at[index]
            if home != at:
                cause = placement.cause[index]
                bundle = placement.bundles[index]
                move = Move(
                    bundle.id,
                    placement.brokers[home].id,
                    placement.brokers[at].id,
                    bundle.weight,
                    cause,
                    bundle.topics,
                    bundle.clients,
                )
                urgent = cause in (DrainingBrokers.name, AllowedBrokers.name)
                moved.append(((not urgent, -self._start[home], -placement.weight[index], bundle.id), move))
        return tuple(move for _, move in sorted(moved, key=lambda each: each[0]))

    def _limited(self) -> bool:
        """Whether the budget alone stood in the way of a further step. Spoils the placement."""
        placement, search, mode = self._placement, self._search, self._options.mode
        self._limits.fresh = True
        blocked, self._stay = self._stay, search.evict(self._stay, DrainingBrokers.name)
        if len(self._stay) < len(blocked):
            return True
        if mode is Mode.REMOVE_BROKERS:
            return False
        if self._uneven:
            if self._splitter.exhausted or any(search.postponed(broker) for broker in placement.descending()):
                return True
            above = [b for b in placement.descending() if placement.utilization(b) > self._tolerated]
            if mode in (Mode.FULL, Mode.SPLIT) and any(self._splitter.relieve(broker) for broker in above):
                return True
        return mode is not Mode.SPLIT and self._fill()

    def _would_act(self, options: Options) -> bool:
        """Whether there are steps under other options."""
        other = _Planning(self._model, options, self._before)
        other.run()
        found = other._placement
        return bool(found.pieces or (found.moves and options.mode is not Mode.SPLIT))

    def _withheld(self, uneven: bool, limited: bool) -> str:
        """Returns why there are no steps."""
        before, options = self._before, self._options
        if limited:
            return "the budget allows no step that helps"
        if not before.busiest > before.bound * (1 + options.tolerance) * SAME:
            ratio = before.busiest / before.bound if before.bound else 1.0
            return (
                f"the busiest broker has {ratio:.2f} times the lowest possible load, which is within the "
                f"tolerance of {options.tolerance:.0%}"
            )
        if options.mode is Mode.SPLIT and not uneven:
            return "moving whole bundles is sufficient, and no bundle needs to be split"
        if self._would_act(replace(options, budget=ENDLESS)):
            return "the budget allows no step that helps"
        if options.cooling and self._would_act(replace(options, cooling=frozenset())):
            return f"{len(options.cooling)} bundles were moved recently and are not moved again yet"
        return "no allowed move, swap or split reduces the load of the busiest broker"
