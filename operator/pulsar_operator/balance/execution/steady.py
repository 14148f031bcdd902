"""Whether the steady-state driver acts now: patience, hysteresis, rest, and what a proposal must be worth.

Pure. The planner says what would be better; this says whether better is worth the moves. Times are seconds of any clock
that only goes forward. The simulator of the benchmarks and the operator use this same module.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.options import Budget
from pulsar_operator.balance.planner.proposal import Balance, Proposal

STANDING_BUDGET = Budget(max_moved_percent=60.0)
"""By the hour, so that brokers that double are filled within one; the default of spec.loadBalancing.rebalance."""
SETTLES = "the last step settles"
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class SteadyOptions:
    """Patience of the driver; the defaults are those that `benchmarks.balance shedding` measures."""

    act_above: float = 0.25
    """Act when the busiest broker is this share above the bound; a plan then goes for `plan_tolerance`."""
    plan_tolerance: float = 0.1
    """Tolerance of the plan itself (`options.Options.tolerance`): lower than `act_above`, so that one plan lasts."""
    patience: float = 300.0
    """Seconds that a placement must have been uneven by `act_above`; twice as uneven, half as long."""
    overload: float = 0.85
    """Utilization of the busiest broker from which the least patience applies, any gain is worth its moves, and only
    what the plan itself would leave alone is left alone."""
    least_patience: float = 60.0
    """Two looks in a row must agree, whatever they see: one figure alone may be the tail of a move."""
    idle_below: float = 0.5
    """A broker with less than this share of the mean load stands idle: new, restarted, or passed over."""
    settle: float = 180.0
    """Seconds after a step in which nothing is judged: Pulsar's rates are 60 s old, moved ones start at nothing, and
    the promise of the step is measured first."""
    retry: float = 120.0
    """Seconds after a plan that came to nothing in which none is asked for: a hot topic stays hot, planning costs."""
    rest: float = 1800.0
    """Seconds a moved bundle stays where it is."""
    memory: float = 600.0
    """Seconds after which an observed weight counts 1/e in the smoothed one."""
    window: float = 3600.0
    """Seconds for which a budget of moved traffic is: what moved longer ago counts no more."""
    worth: float = 0.02
    """Least fall of the busiest broker's utilization, as a share of the mean, that a move must bring on average."""


@dataclass(frozen=True)
class History:
    """What the driver must remember from one look to the next; a fresh one after a restart is safe, only slower."""

    uneven_since: float | None = None
    acted: float | None = None
    """When the last step ended."""
    refused: float | None = None
    """When a plan last came to nothing."""
    moved: Mapping[BundleId, float] = field(default_factory=dict)
    """Bundles and when they moved."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to ask the planner now."""

    act: bool
    urgent: bool
    """A broker is overloaded or idle: any gain is worth its moves."""
    reason: str


def smooth(previous: Mapping[K, float], observed: Mapping[K, float], seconds: float, memory: float) -> dict[K, float]:
    """Exponential average of weights, `seconds` after the previous one; what is new starts at what was observed."""
    share = min(1.0, seconds / memory) if memory > 0 else 1.0
    return {
        key: (past + (weight - past) * share if (past := previous.get(key)) is not None else weight)
        for key, weight in observed.items()
    }


def settling(history: History, now: float, options: SteadyOptions) -> bool:
    """Whether the last step is so near that what is seen is its own doing."""
    return history.acted is not None and now - history.acted < options.settle


def look(
    history: History, now: float, balance: Balance, idlest: float, options: SteadyOptions
) -> tuple[Verdict, History]:
    """Judge one observation, of smoothed weights; the second value is the history from now on.

    `idlest`: the least utilization of a broker that may carry load. An idle broker counts as twice the bound.
    """
    if settling(history, now, options):
        return Verdict(False, False, SETTLES), history
    excess = balance.busiest / balance.bound - 1 if balance.bound > 0 else 0.0
    idle = idlest < balance.mean * options.idle_below
    overloaded = balance.busiest > options.overload
    if excess <= (options.plan_tolerance if overloaded else options.act_above) and not idle:
        return Verdict(False, False, "within the tolerance"), replace(history, uneven_since=None)
    since = now if history.uneven_since is None else history.uneven_since
    history = replace(history, uneven_since=since)
    patience = options.least_patience
    if not overloaded:
        patience = max(patience, options.patience * options.act_above / max(excess, 1.0 if idle else 0.0))
    if history.refused is not None and now - history.refused < options.retry:
        return Verdict(False, False, "the last plan came to nothing"), history
    if now - since < patience:
        return Verdict(False, False, f"uneven for {now - since:.0f} s, acts after {patience:.0f} s"), history
    reason = f"the busiest broker has {balance.ratio:.2f} times the mean load"
    if idle:
        reason += f", the idlest {idlest / balance.mean:.2f}"
    return Verdict(True, overloaded or idle, reason), history


def worthwhile(proposal: Proposal, options: SteadyOptions, *, urgent: bool) -> bool:
    """Whether a proposal's gain pays for its moves; an urgent one need only have some, as no plan ends worse."""
    if urgent or not proposal.moves:
        return bool(proposal.moves)
    mean = proposal.before.mean
    gain = (proposal.before.busiest - proposal.after.busiest) / mean if mean > 0 else 0.0
    return gain >= options.worth * len(proposal.moves)


def acted(history: History, now: float, moved: Iterable[BundleId], options: SteadyOptions) -> History:
    """Remember a step; what rested long enough is forgotten. Patience goes on: a plan cut short by its budget is
    followed by the next one as soon as it settled."""
    kept = {bundle: when for bundle, when in history.moved.items() if now - when < options.rest}
    return replace(history, acted=now, refused=None, moved=kept | dict.fromkeys(moved, now))


def refused(history: History, now: float) -> History:
    """Remember that the planner had nothing to offer, or nothing worth its moves."""
    return replace(history, refused=now)


def until(history: History, now: float) -> History:
    """The history without times to come."""
    since, done, vain = (
        None if at is None else min(at, now) for at in (history.uneven_since, history.acted, history.refused)
    )
    return History(since, done, vain, {bundle: min(when, now) for bundle, when in history.moved.items()})


def cooling(history: History, now: float, options: SteadyOptions) -> frozenset[BundleId]:
    """Bundles that moved too short ago to move again."""
    return frozenset(bundle for bundle, when in history.moved.items() if now - when < options.rest)
