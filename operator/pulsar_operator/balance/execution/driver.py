"""The standing balancer: what it remembers, what it sees, and whether it acts now. One function, pure.

The operator calls it for every standing PulsarRebalance (controllers/rebalance/proposal.py), the simulator at every
minute of a trace: what is measured is what ships. Weights are smoothed, so that neither a minute of noise nor the tail
of a move is taken for a trend; steady.py has the patience, the planner the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pulsar_operator.balance.execution import steady
from pulsar_operator.balance.execution.steady import History, SteadyOptions
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.model.observation import weighing
from pulsar_operator.balance.planner.options import Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of, utilizations
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Balance, Proposal

LOOK_SECONDS = 60.0
"""What the first look stands for, and the period of Pulsar's statistics."""
Planner = Callable[[ClusterModel, Options], Proposal]


@dataclass(frozen=True)
class Memory:
    """What the balancer knows from one look to the next. A fresh one, after a restart, is safe and only slower."""

    history: History = field(default_factory=History)
    weights: Mapping[BundleId, float] = field(default_factory=dict)
    """Smoothed."""
    looked: float | None = None
    """When, in seconds of the clock of ``decide``."""


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
) -> tuple[Decision, Memory]:
    """Look at what was observed; the second value is the memory from now on.

    ``observed`` has the weights of the last minute, ``question`` what may be done: its tolerance is replaced by that of
    ``options``, and bundles that rest are added to those that it leaves alone.
    """
    if steady.settling(memory.history, now, options):
        # What moved counts nothing at first, which is no trend either.
        return Decision(False, balance_of(observed), steady.SETTLES), memory
    memory = _seen(memory, now, observed, options)
    model = smoothed(observed, memory.weights)
    balance = balance_of(model)
    used = utilizations([b for b in model.brokers if not b.draining], model.bundles)
    verdict, history = steady.look(memory.history, now, balance, min(used.values(), default=0.0), options)
    memory = replace(memory, history=history)
    if not verdict.act:
        return Decision(False, balance, verdict.reason), memory
    cooling = question.cooling | steady.cooling(history, now, options)
    proposal = planner(model, replace(question, tolerance=options.plan_tolerance, cooling=cooling))
    cuts = question.mode is Mode.SPLIT and bool(proposal.splits)
    if cuts or steady.worthwhile(proposal, options, urgent=verdict.urgent):
        return Decision(True, balance, verdict.reason, proposal), memory
    words = "what could be gained is not worth the moves" if proposal.moves else proposal.withheld
    return Decision(False, balance, words, proposal), replace(memory, history=steady.refused(history, now))


def acted(memory: Memory, now: float, moved: Iterable[BundleId], options: SteadyOptions) -> Memory:
    """Remember that the steps of a decision were done, and which bundles moved."""
    return replace(memory, history=steady.acted(memory.history, now, moved, options))


def smoothed(observed: ClusterModel, weights: Mapping[BundleId, float]) -> ClusterModel:
    """The model with other weights of its bundles; topics inside keep their proportions."""
    bundles = tuple(weighing(bundle, weights.get(bundle.id, bundle.weight)) for bundle in observed.bundles)
    return replace(observed, bundles=bundles)


def _seen(memory: Memory, now: float, observed: ClusterModel, options: SteadyOptions) -> Memory:
    seconds = LOOK_SECONDS if memory.looked is None else max(now - memory.looked, 0.0)
    found = {bundle.id: bundle.weight for bundle in observed.bundles}
    return replace(memory, weights=steady.smooth(memory.weights, found, seconds, options.memory), looked=now)
