"""Decides whether the standing balancer acts now: patience, hysteresis, rest, and the least gain of a proposal.

Pure. The planner finds improvements; this module decides whether they are worth the moves. Times are seconds of any
monotonic clock. The simulator of the benchmarks and the operator use this same module.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from math import fsum
from typing import TypeVar

from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.advice import BUDGET_REACHED
from pulsar_operator.balance.planner.options import Budget
from pulsar_operator.balance.planner.proposal import Balance, Proposal

STANDING_BUDGET = Budget(max_moved_percent=60.0)
"""Budget per hour, so that added brokers are filled within one after their number doubles; the default of
spec.loadBalancing.rebalance."""
SETTLES = "the last step is still taking effect"
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class SteadyOptions:
    """Patience of the driver; the defaults are those that `benchmarks.balance shedding` measures."""

    act_above: float = 0.25
    """The balancer acts when the busiest broker exceeds the bound by this share of the level; a plan then aims for
    `plan_tolerance`."""
    plan_tolerance: float = 0.1
    """Tolerance of the plan itself (`options.Options.tolerance`): lower than `act_above`, so that one plan lasts."""
    patience: float = 300.0
    """Seconds for which a placement must have been uneven by `act_above`; half of it if twice as uneven."""
    overload: float = 0.85
    """Utilization of the busiest broker from which the shortest patience applies, any gain is worth its moves, and only
    what the plan itself excludes is left alone."""
    least_patience: float = 60.0
    """Shortest patience in seconds: two consecutive observations must agree, since a single figure may be the tail of a
    move."""
    idle_below: float = 0.5
    """Share of its possible load below which a broker is idle: new, restarted, or not considered before."""
    filled: float = 0.5
    """Share of an idle broker's missing load that its moves must bring to be worth it."""
    settle: float = 180.0
    """Seconds after a step in which nothing is judged: Pulsar's rates are 60 s old, those of moved bundles start at
    zero, and the prediction of the step is measured first."""
    retry: float = 120.0
    """Seconds after an unsuccessful plan in which no new one is computed: a hot topic stays hot, and planning costs
    CPU."""
    rest: float = 1800.0
    """Seconds for which a moved bundle is not moved again."""
    memory: float = 600.0
    """Seconds after which an observed weight counts 1/e in the smoothed one."""
    window: float = 3600.0
    """Seconds of the budget of moved traffic: earlier moves no longer count."""
    min_gain: float = 0.02
    """Load that a move must take off the busiest brokers on average, as a share of the mean: the part above the busiest
    one's load afterwards."""
    effect: float = 0.5
    """Share of a move's load that suffices instead, if that is less: the smaller the bundles, the less each one brings,
    and the fewer clients reconnect for it."""


@dataclass(frozen=True)
class History:
    """State of the driver between observations; an empty one after a restart is safe, only slower."""

    uneven_since: float | None = None
    idle_since: float | None = None
    """Time at which a broker became idle, which may last: it does not reduce the patience with an uneven placement."""
    acted: float | None = None
    """Time at which the last step ended."""
    refused: float | None = None
    """Time of the last plan without a useful step."""
    moved: Mapping[BundleId, float] = field(default_factory=dict)
    """Bundles with the times at which they moved."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to ask the planner now."""

    act: bool
    reason: str
    uneven: bool = False
    """Uneven for long enough: moves that lower the busiest broker are searched for, if they are worth it."""
    overloaded: bool = False
    """Uneven enough that any gain is worth its moves."""


def smooth(previous: Mapping[K, float], observed: Mapping[K, float], seconds: float, memory: float) -> dict[K, float]:
    """Returns the exponential average of weights, `seconds` after the previous one; new bundles start at their observed
    weight."""
    share = min(1.0, seconds / memory) if memory > 0 else 1.0
    return {
        key: (past + (weight - past) * share if (past := previous.get(key)) is not None else weight)
        for key, weight in observed.items()
    }


def settling(history: History, now: float, options: SteadyOptions) -> bool:
    """Whether the last step is so recent that the observation shows its effect."""
    return history.acted is not None and now - history.acted < options.settle


def observe(
    history: History, now: float, balance: Balance, level: float, idle: Mapping[str, float], options: SteadyOptions
) -> tuple[Verdict, History]:
    """Judges one observation of smoothed weights; returns the verdict and the new history.

    The excess of the busiest broker over the bound is given in shares of ``level``, its load if topics could be cut.
    ``idle`` are brokers with less than `SteadyOptions.idle_below` of their possible load, with their share of it. An
    idle broker counts as twice the bound.
    """
    if settling(history, now, options):
        return Verdict(False, SETTLES), history
    excess = (balance.busiest - balance.bound) / level if level > 0 else 0.0
    overloaded = balance.busiest > options.overload
    uneven = excess > (options.plan_tolerance if overloaded else options.act_above)
    history = replace(
        history,
        uneven_since=_since(history.uneven_since, now, lasts=uneven),
        idle_since=_since(history.idle_since, now, lasts=bool(idle)),
    )
    waits = [
        (since, _patience(degree, options, overloaded=overloaded))
        for since, degree in ((history.uneven_since, excess), (history.idle_since, 1.0))
        if since is not None
    ]
    if not waits:
        return Verdict(False, "the imbalance is within the tolerance"), history
    if history.refused is not None and now - history.refused < options.retry:
        return Verdict(False, "the last plan contained no step that helps"), history
    ready = [now - since >= patience for since, patience in waits]
    if not any(ready):
        since, patience = min(waits, key=sum)
        return Verdict(
            False, f"the load has been uneven for {now - since:.0f} s and the operator acts only after {patience:.0f} s"
        ), history
    reason = f"the busiest broker has {balance.ratio:.2f} times the mean load"
    if idle:
        reason += f" and the least busy broker has {min(idle.values()):.2f} of its share"
    uneven = uneven and ready[0]
    return Verdict(True, reason, uneven, uneven and overloaded), history


def _since(before: float | None, now: float, *, lasts: bool) -> float | None:
    return (now if before is None else before) if lasts else None


def _patience(degree: float, options: SteadyOptions, *, overloaded: bool) -> float:
    """Returns the seconds that a state must have lasted; ``degree`` is the excess of the busiest broker over the
    bound."""
    usual = 0.0 if overloaded else options.patience * options.act_above / degree
    return max(options.least_patience, usual)


def worthwhile(proposal: Proposal, verdict: Verdict, lacking: Mapping[str, float], options: SteadyOptions) -> bool:
    """Whether a proposal's gain is worth its moves.

    ``lacking`` is the load that each idle broker lacks: moves that fill it count for it. All other moves must lower the
    busiest broker, by any gain if it is overloaded, since no plan makes it worse.
    """
    if verdict.overloaded or not proposal.moves:
        return bool(proposal.moves)
    gets = {broker: fsum(m.weight for m in proposal.moves if m.destination == broker) for broker in lacking}
    ended = any(each.reason == BUDGET_REACHED for each in proposal.advice)
    filled = {b for b, weight in gets.items() if weight > 0 and (ended or weight >= options.filled * lacking[b])}
    if not filled and not verdict.uneven:
        return False
    mean = proposal.before.mean
    if not mean > 0:
        return False
    others = [move.weight / mean for move in proposal.moves if move.destination not in filled]
    cost = fsum(min(options.min_gain, options.effect * weight) for weight in others)
    return _relief(proposal) >= cost and (_relief(proposal) > 0 or not others)


def _relief(proposal: Proposal) -> float:
    """Returns the load that moves take off brokers above the busiest one's load afterwards, in shares of the mean. In a
    large cluster many brokers are above the others, and lowering the busiest one takes moves off each of them.
    """
    after = proposal.after.busiest / proposal.before.mean
    busiest = proposal.before.busiest / proposal.before.mean
    return max(busiest - after, fsum(max(before - after, 0.0) for before, _ in (b.load for b in proposal.brokers)))


def acted(history: History, now: float) -> History:
    """Records that the last step is done. Patience is not reset: after a plan that its budget cut short, the next one
    follows as soon as the cluster has settled."""
    return replace(history, acted=now, refused=None)


def moved(history: History, now: float, bundle: BundleId, options: SteadyOptions) -> History:
    """Records a move; bundles that rested long enough are dropped."""
    kept = {each: when for each, when in history.moved.items() if now - when < options.rest}
    return replace(history, moved=kept | {bundle: now})


def refused(history: History, now: float) -> History:
    """Records that the planner had no step, or none that is worth its moves."""
    return replace(history, refused=now)


def until(history: History, now: float) -> History:
    """Returns the history with future times set to now."""
    times = (history.uneven_since, history.idle_since, history.acted, history.refused)
    uneven, idle, done, vain = (None if at is None else min(at, now) for at in times)
    return History(uneven, idle, done, vain, {bundle: min(when, now) for bundle, when in history.moved.items()})


def cooling(history: History, now: float, options: SteadyOptions) -> frozenset[BundleId]:
    """Returns bundles that moved too recently to move again."""
    return frozenset(bundle for bundle, when in history.moved.items() if now - when < options.rest)
