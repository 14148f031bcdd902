"""The standing balancer: its memory, its observations, and whether it acts now. One pure function.

The operator calls it for every standing PulsarRebalance (controllers/rebalance/proposal.py), the simulator at every
minute of a trace, so that what is measured is what ships. Weights are smoothed, so that neither a minute of noise nor
the tail of a move counts as a trend. steady.py decides on patience, the planner on the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import fsum, inf

from pulsar_operator.balance.execution import steady, trust
from pulsar_operator.balance.execution.learned import Learned, costed, forgotten, inherited, learn
from pulsar_operator.balance.execution.steady import History, SteadyOptions
from pulsar_operator.balance.execution.trust import Judged, Records
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.model.observation import Usage, weighing
from pulsar_operator.balance.planner.options import Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of, level_of, utilizations
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Balance, Proposal, Split
from pulsar_operator.balance.planner.shares import idle_brokers

OBSERVATION_SECONDS = 60.0
"""Seconds that the first observation counts for: the period of Pulsar's statistics."""
OVERLOADED = 0.85
"""Share of a resource from which a broker is overloaded; Pulsar's loadBalancerBrokerOverloadedThresholdPercentage."""
RELIEVED = 0.5
"""Share of the mean load from which moves can relieve a broker that uses much of a resource."""
EPSILON = 1e-9
Planner = Callable[[ClusterModel, Options], Proposal]


@dataclass(frozen=True)
class Memory:
    """State of the balancer between observations. An empty one, after a restart, is safe and only slower."""

    history: History = field(default_factory=History)
    weights: Mapping[BundleId, float] = field(default_factory=dict)
    """Smoothed weights."""
    learned: Learned = field(default_factory=Learned)
    """Observed costs of bundles beyond their weight, and of brokers without load (learned.py)."""
    records: Records = field(default_factory=Records)
    """Records of the figures that brokers report about themselves (trust.py)."""
    last_observed: float | None = None
    """Time of the last observation, in seconds of the clock of ``decide``."""
    planned: Mapping[BundleId, float] = field(default_factory=dict)
    """Bundles that the last plan still has to move, with their percent of all traffic."""
    spent: tuple[tuple[float, float], ...] = ()
    """Times at which traffic was moved, with its percent of all; entries older than the window are dropped."""


@dataclass(frozen=True)
class Decision:
    """Result of one observation."""

    act: bool
    balance: Balance
    """Balance by the smoothed weights."""
    reason: str
    """Why it acts or not, as a message."""
    planned: Proposal | None = None
    """The planner's proposal; None if it was not asked."""
    used: Mapping[str, Usage] | None = None
    """Smoothed usage of each broker, by the trusted figures; None if nothing was judged."""
    distrusted: Mapping[str, str] = field(default_factory=dict)
    """Why the CPU figure of a broker is distrusted, by broker, as the end of a sentence about it."""


def decide(
    memory: Memory,
    now: float,
    observed: ClusterModel,
    question: Options,
    options: SteadyOptions,
    planner: Planner = plan,
    usages: Mapping[str, Usage] | None = None,
) -> tuple[Decision, Memory]:
    """Judges one observation; returns the decision and the new memory.

    ``observed`` has the weights of the last minute, ``question`` what may be done: its tolerance is replaced by that of
    ``options``, bundles in their cooling period are added to ``cooling``, and traffic that moved within the last
    ``options.window`` seconds counts against its budget. ``usages`` are the figures that brokers report about
    themselves in that minute. As far as they are trusted (trust.py), they show the cost of bundles, and when a broker
    is overloaded. Weights that are averages of other hours (``options.memory`` 0) are not compared with them.
    """
    memory = _until(memory, now)
    memory = replace(memory, records=trust.noted(memory.records, now, usages or {}))
    if steady.settling(memory.history, now, options):
        # What moved counts nothing at first, which is no trend either.
        doubts = trust.distrusted(memory.records, now)
        return Decision(False, balance_of(observed), steady.SETTLES, distrusted=doubts), memory
    judged, memory = _with_observation(memory, now, observed, options, usages or {})
    decision, memory = _decided(memory, now, observed, judged, question, options, planner)
    return replace(decision, used=judged.used, distrusted=trust.distrusted(memory.records, now)), memory


def _decided(
    memory: Memory,
    now: float,
    observed: ClusterModel,
    judged: Judged,
    question: Options,
    options: SteadyOptions,
    planner: Planner,
) -> tuple[Decision, Memory]:
    """Decides whether to act, by the memory and the brokers' usage."""
    model = remembered(memory, observed)
    balance, able = balance_of(model), [broker for broker in model.brokers if not broker.draining]
    used = utilizations(able, model.bundles)
    due = idle_brokers(model, used, balance.mean, options.idle_below, question.namespaces)
    idle = {broker: used[broker] / share for broker, share in due.items()}
    # Where a topic is hotter than a broker, a share of the bound may be all that the others have.
    level = level_of(model) if balance.bound > balance.mean else balance.bound
    reached = [each for each, since in judged.over.items() if now - since >= options.least_patience]
    share = balance.bound + options.plan_tolerance * level
    options = replace(options, overload=min(options.overload, _overload(reached, model, used, share)))
    verdict, history = steady.observe(memory.history, now, balance, level, idle, options)
    memory = replace(memory, history=history)
    if not verdict.act:
        return Decision(False, balance, verdict.reason), memory
    cooling = question.cooling | steady.cooling(history, now, options)
    asked = within_budget(memory, now, question, options)
    # The planner's tolerance is a share of the bound.
    tolerance = options.plan_tolerance * level / balance.bound if balance.bound > 0 else 0.0
    asked = replace(asked, tolerance=tolerance, cooling=cooling)
    proposal = _planned(planner, model, asked, weighted(observed, memory.weights))
    lacking = {b.id: due[b.id] * b.capacity - used[b.id] * b.capacity for b in able if b.id in due}
    cuts = question.mode is Mode.SPLIT and verdict.uneven and bool(proposal.splits)
    if cuts or steady.worthwhile(proposal, verdict, lacking, options):
        return Decision(True, balance, verdict.reason, proposal), intending(memory, model, proposal)
    words = "the improvement would not justify the moves" if proposal.moves else proposal.withheld
    if asked.budget.spent_percent and not proposal.moves:
        words += (
            f" ({asked.budget.spent_percent:.1f} % of the traffic was already moved within the last "
            f"{options.window / 60:.0f} minutes)"
        )
    return Decision(False, balance, words, proposal), replace(memory, history=steady.refused(history, now))


def acted(memory: Memory, now: float, moves: Iterable[BundleId], options: SteadyOptions) -> Memory:
    """Records that the steps of a decision ended, and the bundles that moved unless that was recorded before."""
    for bundle in moves:
        memory = moved(memory, now, bundle, options)
    return replace(memory, history=steady.acted(memory.history, now), planned={})


def moved(memory: Memory, now: float, bundle: BundleId, options: SteadyOptions) -> Memory:
    """Records one move, whatever happens to the others: it counts against the budget once, and the bundle rests."""
    memory = replace(memory, history=steady.moved(memory.history, now, bundle, options))
    if bundle not in memory.planned:
        return memory
    kept = [each for each in memory.spent if now - each[0] < options.window]
    rest = {each: share for each, share in memory.planned.items() if each != bundle}
    return replace(memory, planned=rest, spent=(*kept, (now, memory.planned[bundle])))


def intending(memory: Memory, model: ClusterModel, proposal: Proposal) -> Memory:
    """Records what a proposal for this model is to move, to charge it to the budget once it is done."""
    known = {broker.id for broker in model.brokers}
    total = fsum(bundle.weight for bundle in model.bundles if bundle.owner in known)
    shares = {move.bundle: 100 * move.weight / total for move in proposal.moves} if total > 0 else {}
    return replace(memory, planned=shares)


def within_budget(memory: Memory, now: float, question: Options, options: SteadyOptions) -> Options:
    """Returns the question with its budget reduced by the traffic that moved within the window."""
    return replace(question, budget=replace(question.budget, spent_percent=spent_percent(memory, now, options)))


def spent_percent(memory: Memory, now: float, options: SteadyOptions) -> float:
    """Returns the percent of all traffic that moved within the window."""
    return fsum(share for when, share in memory.spent if now - when < options.window)


def cpu_of(usages: Mapping[str, Usage]) -> dict[str, float]:
    """Returns the used share of its CPU of each broker that reports it."""
    return {broker: used.cpu for broker, used in usages.items() if used.cpu is not None}


def remembered(memory: Memory, observed: ClusterModel) -> ClusterModel:
    """Returns the model with smoothed weights of its bundles, corrected by what was learned of their cost, and of the
    brokers; topics in a bundle keep their proportions."""
    return believed(observed, memory.weights, memory.learned)


def believed(observed: ClusterModel, weights: Mapping[BundleId, float], learned: Learned) -> ClusterModel:
    """Returns the model with what was learned, for the given weights of bundles or the observed ones; pieces have the
    factor of their bundle."""
    factors, bases = inherited(learned.factors, observed.bundles), learned.loads(observed)
    model = weighted(observed, costed(observed, weights, factors))
    return replace(model, brokers=tuple(replace(broker, base=bases[broker.id]) for broker in model.brokers))


def weighted(observed: ClusterModel, weights: Mapping[BundleId, float]) -> ClusterModel:
    """Returns the model with other weights of its bundles."""
    return replace(observed, bundles=tuple(weighing(bundle, weights[bundle.id]) for bundle in observed.bundles))


def _planned(planner: Planner, model: ClusterModel, asked: Options, plain: ClusterModel) -> Proposal:
    """Returns the proposal for a model, without cuts that the traffic alone, in ``plain``, does not need. What was
    learned may be wrong, and is forgotten in time; a cut is permanent.
    """
    if asked.mode is Mode.SPLIT:
        return planner(plain, asked)
    proposal = planner(model, asked)
    states = (plain, replace(plain, brokers=model.brokers))
    if not proposal.splits or all(_calls_for(proposal.splits, state, asked.tolerance) for state in states):
        return proposal
    return planner(model, replace(asked, mode=Mode.MOVE))


def _calls_for(splits: Iterable[Split], state: ClusterModel, tolerance: float) -> bool:
    """Whether a placement is uneven, and the brokers of all bundles that are to be cut are overloaded."""
    balance, used = balance_of(state), utilizations(state.brokers, state.bundles)
    pieces = [split.bundle for split in splits]
    namespaces = {piece.namespace for piece in pieces}
    wholes = [bundle for bundle in state.bundles if bundle.id.namespace in namespaces]
    owners = {
        whole.owner
        for piece in pieces
        for whole in wholes
        if whole.id.namespace == piece.namespace and whole.id.lower <= piece.lower < whole.id.upper
    }
    over = all(used.get(owner or "", 0.0) > balance.bound for owner in owners)
    return over and balance.busiest > balance.bound * (1 + tolerance)


def _until(memory: Memory, now: float) -> Memory:
    """Returns the memory with future times set to now: no decision waits for a clock that was set back."""
    last_observed = memory.last_observed if memory.last_observed is None else min(memory.last_observed, now)
    spent = tuple((min(when, now), share) for when, share in memory.spent)
    history, records = steady.until(memory.history, now), trust.until(memory.records, now)
    return replace(memory, history=history, records=records, last_observed=last_observed, spent=spent)


def _overload(reached: Iterable[str], model: ClusterModel, used: Mapping[str, float], share: float) -> float:
    """Returns the utilization above which brokers are overloaded: just below that of the least loaded one that reached
    its limit and that moves relieve; infinite without one. Moves relieve a broker with more than ``share`` of the mean
    load; one that is busy with little traffic does not count.
    """
    carried = {each.id: used[each.id] - each.base / each.capacity for each in model.brokers if each.id in used}
    least = RELIEVED * fsum(carried.values()) / max(len(carried), 1)
    found = (used[broker] for broker in reached if carried.get(broker, 0.0) >= least and used[broker] > share)
    return min(found, default=inf) * (1 - EPSILON)


def _with_observation(
    memory: Memory, now: float, observed: ClusterModel, options: SteadyOptions, usages: Mapping[str, Usage]
) -> tuple[Judged, Memory]:
    seconds = OBSERVATION_SECONDS if memory.last_observed is None else max(now - memory.last_observed, 0.0)
    found = {bundle.id: bundle.weight for bundle in observed.bundles}
    judged, records = trust.judge(
        memory.records, now, seconds, observed, usages, OVERLOADED, current=options.memory > 0
    )
    learned = forgotten(memory.learned, observed, judged.drifting)
    if options.memory > 0:
        learned = learn(learned, observed, cpu_of(judged.used), seconds, errors=judged.errors)
    weights = steady.smooth(memory.weights, found, seconds, options.memory)
    return judged, replace(memory, weights=weights, learned=learned, records=records, last_observed=now)
