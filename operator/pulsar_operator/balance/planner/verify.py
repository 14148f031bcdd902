"""Verifies a proposal against the model it was made for. Every plan ends with this check. It shares values with the
planner but no code of the search, so it can detect an error there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import fsum
from typing import Final

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, ClusterModel
from pulsar_operator.balance.model.cuts import split_bundle
from pulsar_operator.balance.planner.options import Mode, Options
from pulsar_operator.balance.planner.outcome import as_asked, outcome, utilizations
from pulsar_operator.balance.planner.proposal import Move, Proposal

EXACT: Final = 1e-9
"""Relative error of sums."""
STEPS: Final = "Steps"
MODE: Final = "Mode"
PROMISE: Final = "Promise"


class PlanError(Exception):
    """A proposal that must not be executed: an error of the planner, or a proposal for another model."""

    def __init__(self, goal: str, message: str) -> None:
        super().__init__(f"{goal}: {message}")
        self.goal = goal


def check(model: ClusterModel, proposal: Proposal, options: Options) -> None:
    """Raises PlanError, with the goal, for a proposal that does harm, breaks a rule or does not fit the model."""
    model = as_asked(model, options)
    if proposal.splits and options.mode not in (Mode.FULL, Mode.SPLIT):
        raise PlanError(MODE, f"a proposal in mode {options.mode} must not contain splits")
    if proposal.moves and options.mode is Mode.SPLIT:
        raise PlanError(MODE, f"a proposal in mode {options.mode} must not contain moves")
    bundles = _check_splits(model, proposal, options)
    brokers = {broker.id: broker for broker in model.brokers}
    checked: set[BundleId] = set()
    for move in proposal.moves:
        if move.bundle in checked:
            raise PlanError(STEPS, f"bundle {move.bundle} is moved more than once")
        checked.add(move.bundle)
        if move.bundle not in bundles:
            raise PlanError(STEPS, f"bundle {move.bundle} is to be moved, but does not exist after the splits")
        _check_move(model, move, bundles[move.bundle], brokers, options)
    _check_budget(model, proposal, options)
    final = outcome(model, proposal.splits, proposal.moves)
    if togetherness(final) > togetherness(model):
        raise PlanError("AntiAffinity", "more namespaces of a group would share a failure domain than before")
    _check_balance(model, final, proposal)


def togetherness(model: ClusterModel) -> int:
    """Returns how many namespaces share a failure domain (or broker) with another one of their anti-affinity group."""
    domain = {broker.id: broker.domain or broker.id for broker in model.brokers}
    met: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for bundle in model.bundles:
        group = model.anti_affinity.get(bundle.id.namespace)
        if group is not None and bundle.owner in domain:
            met[group, domain[bundle.owner]].add(bundle.id.namespace)
    return sum(len(namespaces) - 1 for namespaces in met.values())


def must_leave(model: ClusterModel, namespace: str, broker: Broker) -> bool:
    """Whether a bundle must leave its broker: the broker drains, or the isolation policy does not permit it."""
    allowed = model.allowed.get(namespace)
    return broker.draining or (allowed is not None and broker.id not in allowed)


def _check_splits(model: ClusterModel, proposal: Proposal, options: Options) -> dict[BundleId, Bundle]:
    """Returns all bundles after the splits, with their owner before the moves."""
    bundles = {bundle.id: bundle for bundle in model.bundles}
    count = Counter(bundle.id.namespace for bundle in model.bundles)
    budget = options.budget
    if len(proposal.splits) > budget.max_splits:
        raise PlanError(
            "Budget", f"the proposal has {len(proposal.splits)} splits, but only {budget.max_splits} are allowed"
        )
    for split in proposal.splits:
        bundle = bundles.pop(split.bundle, None)
        if bundle is None:
            raise PlanError(STEPS, f"bundle {split.bundle} is to be split, but does not exist")
        _check_touched(model, bundle.id, options)
        if bundle.id in options.cooling:
            raise PlanError("Cooling", f"bundle {bundle.id} was moved recently and must not be split")
        if options.cuts is not None and split.boundary not in options.cuts.get(bundle.id.namespace, ()):
            raise PlanError("Cuts", f"bundle {bundle.id} must not be cut at {split.boundary:#010x}")
        try:
            pieces = split_bundle(bundle, split.boundary)
        except ValueError as error:
            raise PlanError(STEPS, str(error)) from error
        bundles.update((piece.id, piece) for piece in pieces)
        count[bundle.id.namespace] += 1
        if count[bundle.id.namespace] > budget.max_bundles:
            raise PlanError("Budget", f"{bundle.id.namespace} would have more than {budget.max_bundles} bundles")
    return bundles


def _check_touched(model: ClusterModel, bundle: BundleId, options: Options) -> None:
    if bundle.namespace in model.pinned:
        raise PlanError("PinnedNamespaces", f"bundle {bundle} is pinned")
    if options.namespaces is not None and bundle.namespace not in options.namespaces:
        raise PlanError("PinnedNamespaces", f"the namespace of bundle {bundle} is not selected")


def _check_move(
    model: ClusterModel, move: Move, bundle: Bundle, brokers: Mapping[str, Broker], options: Options
) -> None:
    source, destination = brokers.get(bundle.owner or ""), brokers.get(move.destination)
    if source is None or move.source != bundle.owner:
        raise PlanError(STEPS, f"bundle {bundle.id} is on {bundle.owner or 'no broker'} instead of {move.source}")
    if destination is None or destination is source:
        raise PlanError(STEPS, f"bundle {bundle.id} cannot be moved from {source.id} to {move.destination}")
    if abs(move.weight - bundle.weight) > EXACT * bundle.weight:
        raise PlanError(STEPS, f"bundle {bundle.id} weighs {bundle.weight} instead of {move.weight}")
    _check_touched(model, bundle.id, options)
    leaves = must_leave(model, bundle.id.namespace, source)
    if bundle.id in options.cooling and not leaves:
        raise PlanError("Cooling", f"bundle {bundle.id} was moved recently and must not be moved")
    if destination.draining:
        raise PlanError("DrainingBrokers", f"broker {destination.id} is being drained and must not receive {bundle.id}")
    allowed = model.allowed.get(bundle.id.namespace)
    if allowed is not None and destination.id not in allowed:
        raise PlanError("AllowedBrokers", f"broker {destination.id} must not serve {bundle.id}")
    if options.mode is Mode.ADD_BROKERS and destination.id not in options.brokers:
        raise PlanError("NewBrokers", f"broker {destination.id} is not one of the brokers to fill")
    if options.mode is Mode.REMOVE_BROKERS and source.id not in options.brokers:
        raise PlanError(MODE, f"broker {source.id} is not one of the brokers to empty")


def _check_budget(model: ClusterModel, proposal: Proposal, options: Options) -> None:
    budget = options.budget
    if len(proposal.moves) > budget.max_moves:
        raise PlanError(
            "Budget", f"the proposal has {len(proposal.moves)} moves, but only {budget.max_moves} are allowed"
        )
    moved = fsum(move.weight for move in proposal.moves)
    if abs(moved - proposal.moved_weight) > EXACT * moved:
        raise PlanError(PROMISE, f"the moves weigh {moved} instead of the stated {proposal.moved_weight}")
    if options.mode is Mode.REMOVE_BROKERS:
        return
    known = {broker.id for broker in model.brokers}
    total = fsum(bundle.weight for bundle in model.bundles if bundle.owner in known)
    limit = total * budget.left_percent / 100
    # A bundle that weighs more goes alone: cut to the budget's measure it would stay split permanently.
    alone = len(proposal.moves) == 1 and budget.alone
    if moved > limit + EXACT * total and not alone:
        raise PlanError("Budget", f"the proposal moves {moved:.6g} of traffic, but only {limit:.6g} is allowed")


def _check_balance(model: ClusterModel, final: ClusterModel, proposal: Proposal) -> None:
    states = (("before", proposal.before, model), ("after", proposal.after, final))
    before, after = (utilizations(state.brokers, state.bundles) for _, _, state in states)
    busiest = max(before.values(), default=0.0)
    for (name, promised, state), found in zip(states, (before, after), strict=True):
        real = max(found.values(), default=0.0)
        if promised.bundles != len(state.bundles) or abs(promised.busiest - real) > EXACT * real:
            raise PlanError(
                PROMISE,
                f"{name} would have {real:.6g} and {len(state.bundles)} bundles instead of the stated {promised}",
            )
    brokers = {broker.id: broker for broker in model.brokers}
    # What must leave has to go somewhere, and what makes room for it as well; otherwise no broker gets busier.
    evicts = any(m.source and must_leave(model, m.bundle.namespace, brokers[m.source]) for m in proposal.moves)
    filled = {move.destination for move in proposal.moves} if evicts else set()
    for broker, utilization in after.items():
        if utilization > busiest * (1 + EXACT) and broker not in filled:
            raise PlanError(
                "BusiestBroker",
                f"{broker} would be at {utilization:.6g}, but the busiest broker is at {busiest:.6g} now",
            )
