"""Whether the steady-state driver acts now: patience, hysteresis, rest, and what a proposal must be worth.

Pure. The planner says what would be better; this says whether better is worth the moves. Times are seconds of any clock
that only goes forward. The simulator (`simulator.operator_policy`) and the operator use this same module.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pulsar_operator.balance.model import BundleId
from pulsar_operator.balance.proposal import Balance, Proposal

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class SteadyOptions:
    """Patience of the driver; the defaults are those that `benchmarks.balance shedding` measures."""

    act_above: float = 0.25
    """Act when the busiest broker is this share above the bound; a plan then goes for `plan_tolerance`."""
    plan_tolerance: float = 0.1
    """Tolerance of the plan itself (`options.Options.tolerance`): lower than `act_above`, so that one plan lasts."""
    patience: float = 600.0
    """Seconds that an uneven placement must have lasted."""
    overload: float = 0.85
    """Utilization of the busiest broker from which patience is shorter."""
    overload_patience: float = 120.0
    """Two stats periods: one figure alone may be the tail of a move."""
    settle: float = 120.0
    """Seconds after a step in which nothing is judged: Pulsar's rates are 60 s old, the moved ones start at nothing."""
    rest: float = 1800.0
    """Seconds a moved bundle stays where it is."""
    memory: float = 600.0
    """Seconds after which an observed weight counts 1/e in the smoothed one."""
    worth: float = 0.02
    """Least fall of the busiest broker's utilization, as a share of the mean, that a move must bring on average."""


@dataclass(frozen=True)
class History:
    """What the driver must remember from one look to the next; a fresh one after a restart is safe, only slower."""

    uneven_since: float | None = None
    overloaded_since: float | None = None
    acted: float | None = None
    """When the last step ended."""
    moved: Mapping[BundleId, float] = field(default_factory=dict)
    """Bundles and when they moved."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to ask the planner now."""

    act: bool
    urgent: bool
    """A broker is overloaded."""
    reason: str


def smooth(previous: Mapping[K, float], observed: Mapping[K, float], seconds: float, memory: float) -> dict[K, float]:
    """Exponential average of weights, `seconds` after the previous one; what is new starts at what was observed."""
    share = min(1.0, seconds / memory) if memory > 0 else 1.0
    return {key: (past + (weight - past) * share if (past := previous.get(key)) is not None else weight)
            for key, weight in observed.items()}


def look(history: History, now: float, balance: Balance, options: SteadyOptions) -> tuple[Verdict, History]:
    """Judge one observation, of smoothed weights; the second value is the history from now on."""
    if history.acted is not None and now - history.acted < options.settle:
        return Verdict(False, False, "the last step settles"), history
    uneven = balance.busiest > balance.bound * (1 + options.act_above)
    overloaded = uneven and balance.busiest > options.overload
    history = replace(
        history,
        uneven_since=(now if history.uneven_since is None else history.uneven_since) if uneven else None,
        overloaded_since=(now if history.overloaded_since is None else history.overloaded_since)
        if overloaded
        else None,
    )
    if history.overloaded_since is not None and now - history.overloaded_since >= options.overload_patience:
        return Verdict(True, True, f"a broker is at {balance.busiest:.0%}"), history
    if history.uneven_since is None:
        return Verdict(False, False, "within the tolerance"), history
    if now - history.uneven_since < options.patience:
        return Verdict(False, False, "uneven, but not for long enough"), history
    return Verdict(True, False, f"the busiest broker has {balance.ratio:.2f} times the mean load"), history


def worthwhile(proposal: Proposal, options: SteadyOptions, *, urgent: bool) -> bool:
    """Whether a proposal's gain pays for its moves; any gain does for an overloaded broker."""
    if proposal.empty or not proposal.moves:
        return False
    gain = (proposal.before.busiest - proposal.after.busiest) / proposal.before.mean if proposal.before.mean else 0.0
    return gain > 0 and (urgent or gain >= options.worth * len(proposal.moves))


def acted(history: History, now: float, moved: Iterable[BundleId], options: SteadyOptions) -> History:
    """Remember a step; what rested long enough is forgotten."""
    kept = {bundle: when for bundle, when in history.moved.items() if now - when < options.rest}
    return History(acted=now, moved=kept | dict.fromkeys(moved, now))


def cooling(history: History, now: float, options: SteadyOptions) -> frozenset[BundleId]:
    """Bundles that moved too short ago to move again."""
    return frozenset(bundle for bundle, when in history.moved.items() if now - when < options.rest)
