"""The standing balancer: what it remembers, what it sees, and whether it acts now. One function, pure.

The operator calls it for every standing PulsarRebalance (controllers/rebalance/proposal.py), the simulator at every
minute of a trace: what is measured is what ships. Weights are smoothed, so that neither a minute of noise nor the tail
of a move is taken for a trend; steady.py has the patience, the planner the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import fsum

from pulsar_operator.balance.execution import steady
from pulsar_operator.balance.execution.learned import Factors, costed, learn
from pulsar_operator.balance.execution.steady import History, SteadyOptions
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.model.observation import Usage, overload_load, weighing
from pulsar_operator.balance.planner.options import Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of, utilizations
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Balance, Proposal

LOOK_SECONDS = 60.0
"""What the first look stands for, and the period of Pulsar's statistics."""
OVERLOADED = 0.85
"""Share of a resource from which a broker has too much; Pulsar's loadBalancerBrokerOverloadedThresholdPercentage."""
Planner = Callable[[ClusterModel, Options], Proposal]


@dataclass(frozen=True)
class Memory:
    """What the balancer knows from one look to the next. A fresh one, after a restart, is safe and only slower."""

    history: History = field(default_factory=History)
    weights: Mapping[BundleId, float] = field(default_factory=dict)
    """Smoothed."""
    factors: Factors = field(default_factory=dict)
    """What bundles were seen to cost beyond their weight (learned.py); 1 where nothing is said."""
    looked: float | None = None
    """When, in seconds of the clock of ``decide``."""
    planned: Mapping[BundleId, float] = field(default_factory=dict)
    """Bundles that the last plan is to move and did not yet, with their percent of all traffic."""
    spent: tuple[tuple[float, float], ...] = ()
    """When traffic was moved, and how many percent of all; what is older than the window is forgotten."""


@dataclass(frozen=True)
class Decision:
    """What one look led to."""

    act: bool
    balance: Balance
    """Of the smoothed weights."""
    reason: str
    """In words, why it acts or not."""
    planned: Proposal | None = None
    """What the planner offered; None = it was not asked."""


def decide(
    memory: Memory,
    now: float,
    observed: ClusterModel,
    question: Options,
    options: SteadyOptions,
    planner: Planner = plan,
    usages: Mapping[str, Usage] | None = None,
) -> tuple[Decision, Memory]:
    """Look at what was observed; the second value is the memory from now on.

    ``observed`` has the weights of the last minute, ``question`` what may be done: its tolerance is replaced by that of
    ``options``, bundles that rest are added to those that it leaves alone, and what moved within the last
    ``options.window`` seconds counts against its budget of moved traffic. ``usages`` are what brokers measure of
    themselves in that minute: what bundles cost is learned from them, and when a broker has too much. Weights that are
    averages of other hours (``options.memory`` 0) are not held against them.
    """
    memory = _until(memory, now)
    if steady.settling(memory.history, now, options):
        # What moved counts nothing at first, which is no trend either.
        return Decision(False, balance_of(observed), steady.SETTLES), memory
    memory = _seen(memory, now, observed, options, usages or {})
    model = remembered(memory, observed)
    balance = balance_of(model)
    used = utilizations([b for b in model.brokers if not b.draining], model.bundles)
    options = replace(options, overload=min(options.overload, overload_load(used, usages or {}, OVERLOADED)))
    verdict, history = steady.look(memory.history, now, balance, min(used.values(), default=0.0), options)
    memory = replace(memory, history=history)
    if not verdict.act:
        return Decision(False, balance, verdict.reason), memory
    cooling = question.cooling | steady.cooling(history, now, options)
    asked = within_budget(memory, now, question, options)
    proposal = planner(model, replace(asked, tolerance=options.plan_tolerance, cooling=cooling))
    cuts = question.mode is Mode.SPLIT and bool(proposal.splits)
    if cuts or steady.worthwhile(proposal, options, urgent=verdict.urgent):
        return Decision(True, balance, verdict.reason, proposal), intending(memory, model, proposal)
    words = "what could be gained is not worth the moves" if proposal.moves else proposal.withheld
    if asked.budget.spent_percent and not proposal.moves:
        words += f"; {asked.budget.spent_percent:.1f} % of the traffic moved within {options.window / 60:.0f} minutes"
    return Decision(False, balance, words, proposal), replace(memory, history=steady.refused(history, now))


def acted(memory: Memory, now: float, moved: Iterable[BundleId], options: SteadyOptions) -> Memory:
    """Remember that the steps of a decision were done, and which bundles moved."""
    bundles = tuple(moved)
    for bundle in bundles:
        memory = charged(memory, now, bundle, options)
    return replace(memory, history=steady.acted(memory.history, now, bundles, options), planned={})


def intending(memory: Memory, model: ClusterModel, proposal: Proposal) -> Memory:
    """Remember what a proposal for this model is to move, to charge it to the budget when it is done."""
    known = {broker.id for broker in model.brokers}
    total = fsum(bundle.weight for bundle in model.bundles if bundle.owner in known)
    shares = {move.bundle: 100 * move.weight / total for move in proposal.moves} if total > 0 else {}
    return replace(memory, planned=shares)


def charged(memory: Memory, now: float, bundle: BundleId, options: SteadyOptions) -> Memory:
    """Charge one move to the budget, once: it is made, whatever becomes of the others."""
    if bundle not in memory.planned:
        return memory
    kept = [each for each in memory.spent if now - each[0] < options.window]
    rest = {each: share for each, share in memory.planned.items() if each != bundle}
    return replace(memory, planned=rest, spent=(*kept, (now, memory.planned[bundle])))


def within_budget(memory: Memory, now: float, question: Options, options: SteadyOptions) -> Options:
    """The question with what moved within the window taken off its budget of moved traffic."""
    return replace(question, budget=replace(question.budget, spent_percent=spent_percent(memory, now, options)))


def spent_percent(memory: Memory, now: float, options: SteadyOptions) -> float:
    """Percent of all traffic that moved within the window."""
    return fsum(share for when, share in memory.spent if now - when < options.window)


def cpu_of(usages: Mapping[str, Usage]) -> dict[str, float]:
    """Share of its CPU of each broker that says it."""
    return {broker: used.cpu for broker, used in usages.items() if used.cpu is not None}


def remembered(memory: Memory, observed: ClusterModel) -> ClusterModel:
    """The model with the weights that are known of its bundles, smoothed and with what was learned of their cost;
    topics inside keep their proportions."""
    return weighted(observed, costed(observed, memory.weights, memory.factors))


def weighted(observed: ClusterModel, weights: Mapping[BundleId, float]) -> ClusterModel:
    """The model with other weights of its bundles."""
    return replace(observed, bundles=tuple(weighing(bundle, weights[bundle.id]) for bundle in observed.bundles))


def _until(memory: Memory, now: float) -> Memory:
    """The memory without times to come, which happened just now: a clock that was set back is not waited for."""
    looked = memory.looked if memory.looked is None else min(memory.looked, now)
    spent = tuple((min(when, now), share) for when, share in memory.spent)
    return replace(memory, history=steady.until(memory.history, now), looked=looked, spent=spent)


def _seen(
    memory: Memory, now: float, observed: ClusterModel, options: SteadyOptions, usages: Mapping[str, Usage]
) -> Memory:
    seconds = LOOK_SECONDS if memory.looked is None else max(now - memory.looked, 0.0)
    found = {bundle.id: bundle.weight for bundle in observed.bundles}
    factors = memory.factors
    if options.memory > 0:
        factors = learn(factors, observed, cpu_of(usages), seconds)
    weights = steady.smooth(memory.weights, found, seconds, options.memory)
    return replace(memory, weights=weights, factors=factors, looked=now)
