"""Decides who balances with spec.loadBalancing.driver Operator: the operator, or Pulsar while it cannot. Pure.

Pulsar's own balancer is off while the operator balances. Where the operator cannot decide, because brokers do not
answer or a user paused it, or Pulsar does not execute its decisions, no balancer is active. After UNDECIDED_SECONDS
Pulsar's balancer is restored, once, and switched off again after a while (RETURN_SECONDS and DECIDED_SECONDS). A
PulsarRebalance that executes no longer keeps Pulsar's balancer off after HOLD_SECONDS without a step. Times are seconds
of a clock; no decision waits for one that was set back. The cluster controller keeps the value in the cluster's status
and in the record of the settings (controllers/dataplane/balancing/balancer_record.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import (
    ANNOTATION_DRY_RUN,
    ANNOTATION_PAUSE,
    ANNOTATION_REBALANCE,
    ConditionType,
    Reason,
)
from pulsar_operator.domain.conditions import parse_time, reason_named, seconds_since, timestamp

UNDECIDED_SECONDS: Final = 900.0
"""Seconds without a balancer before Pulsar's balancer is restored. Each second in which the operator could decide
reduces them by CREDIT seconds."""
CREDIT: Final = 3.0
"""Factor with which a second of deciding counts: a balancer that can decide for a quarter of the time suffices, since
it moves a bundle at most every few minutes."""
CLEAR_SECONDS: Final = UNDECIDED_SECONDS / CREDIT
"""Maximum seconds after which an earlier time of not deciding no longer counts."""
SHORT_SECONDS: Final = 120.0
"""A time of not deciding shorter than these seconds is dropped immediately: one or two failed observations."""
RETURN_SECONDS: Final = 1800.0
"""Minimum seconds for which Pulsar balances once its balancer was restored."""
DECIDED_SECONDS: Final = 600.0
"""Seconds for which the operator must have been able to decide before it switches Pulsar's balancer off again."""
GAP_SECONDS: Final = 300.0
"""Seconds without an observation after which earlier ones do not count: the stored state may be outdated."""
NOTE_SECONDS: Final = 60.0
"""Minimum seconds between two writes of the time of the last observation."""
HOLD_SECONDS: Final = 900.0
"""Seconds without a step after which an executing PulsarRebalance no longer keeps Pulsar's balancer off."""
FAILED: Final = 2
"""Consecutive executions that moved nothing after which the operator counts as unable to balance. An execution ends,
for example, when another client changes a bundle."""
TRIAL_SECONDS: Final = 14400.0
"""Seconds after the last of them until the operator tries again. Each trial is some 20 minutes without a balancer."""

ABLE: Final = frozenset(
    {
        Reason.ALREADY_DRAINED,
        Reason.APPROVED,
        Reason.AUTO_APPROVED,
        Reason.BALANCED,
        Reason.COMPLETED,
        Reason.EXECUTING,
        Reason.EXPIRED,
        Reason.MEASURING,
        Reason.NO_IMPROVEMENT_POSSIBLE,
        Reason.PROPOSED,
        Reason.PULSAR_BALANCES,
        Reason.REFRESHED,
        Reason.WAITING_FOR_APPROVAL,
        Reason.WAITING_FOR_BALANCER,
    }
)
"""Reasons of condition Ready with which a standing PulsarRebalance could decide at its last observation.

A proposal that waits for approval counts: a user who wants to approve moves wants none before that, not by Pulsar
either. Any other reason, also one of a later version, means that it cannot decide.
"""
IDLE: Final = frozenset(
    {Reason.ALREADY_DRAINED, Reason.BALANCED, Reason.NO_IMPROVEMENT_POSSIBLE, Reason.WAITING_FOR_APPROVAL}
)
"""Reasons among them with which nothing is to be moved now, or a user decides, so that it does not matter whether
Pulsar executes decisions."""
NEITHER: Final = frozenset({Reason.BROKERS_CHANGING, Reason.CONFIGURATION_STORE_UNAVAILABLE, Reason.PLAN_INVALIDATED})
"""Reasons that are neither: brokers are being replaced or removed, no bundle can be moved at all, or an execution ended
and the next proposal is not computed yet."""


@dataclass(frozen=True)
class Handover:
    """The state between observations; an empty one, as at the start, means that the operator balances."""

    undecided_since: float | None = None
    """Time at which the operator became unable to decide, moved forward by times in which it could (CREDIT); None if it
    can."""
    decided_since: float | None = None
    """Time at which it became able to decide again, as long as that matters."""
    last_observed: float | None = None
    """Approximate time of the last observation, as long as that matters."""
    restored_at: float | None = None
    """When Pulsar's balancer was restored; None if the operator balances."""
    count: int = 0
    """How often it was restored."""


@dataclass(frozen=True)
class Ability:
    """Whether the standing PulsarRebalance can decide."""

    decides: bool | None
    """None if its last observation does not show it."""
    reason: Reason
    message: str
    """Why it cannot, as a sentence without a period."""


def judge(known: Handover, now: float, decides: bool | None) -> Handover:
    """Returns the value after one observation. ``decides``: whether the operator can decide now; None if this
    observation does not count."""
    known = _until(known, now)
    if decides is None:
        return known
    continuous = known.last_observed is not None and now - known.last_observed <= GAP_SECONDS
    found = _able(known, now, continuous) if decides else _unable(known, now, continuous)
    counting = found.decided_since if found.restored_at is not None else found.undecided_since
    if counting is None:
        return replace(found, last_observed=None)
    noted = continuous and known.last_observed is not None and now - known.last_observed < NOTE_SECONDS
    return replace(found, last_observed=known.last_observed if noted else now)


def _able(known: Handover, now: float, continuous: bool) -> Handover:
    since = known.decided_since if continuous and known.decided_since is not None else now
    if known.restored_at is not None:
        if now - known.restored_at >= RETURN_SECONDS and now - since >= DECIDED_SECONDS:
            return Handover(count=known.count)
        return replace(known, decided_since=since)
    before = known.undecided_since
    if before is None or not continuous or since - before < max(SHORT_SECONDS, CREDIT * (now - since)):
        return Handover(count=known.count)
    return replace(known, decided_since=since)


def _unable(known: Handover, now: float, continuous: bool) -> Handover:
    if known.restored_at is not None:
        return replace(known, decided_since=None)
    since = known.undecided_since if continuous and known.undecided_since is not None else now
    if known.decided_since is not None:
        since = min(since + (1 + CREDIT) * (now - known.decided_since), now)
    if now - since >= UNDECIDED_SECONDS:
        return Handover(undecided_since=since, restored_at=now, count=known.count + 1)
    return replace(known, undecided_since=since, decided_since=None)


def _until(known: Handover, now: float) -> Handover:
    """Returns the value with future times set to now."""
    undecided, decided, observed, back = (
        None if at is None else min(at, now)
        for at in (known.undecided_since, known.decided_since, known.last_observed, known.restored_at)
    )
    return Handover(undecided, decided, observed, back, known.count)


def returns_at(known: Handover) -> float | None:
    """Returns when the operator switches Pulsar's balancer off again at the earliest, as far as is known; None if it
    balances."""
    if known.restored_at is None:
        return None
    decided = known.decided_since
    return max(known.restored_at + RETURN_SECONDS, decided + DECIDED_SECONDS if decided is not None else 0.0)


def ability_of(rebalance: Mapping[str, Any] | None, name: str, now: datetime, *, changing: bool) -> Ability:
    """Whether the standing PulsarRebalance ``name`` can decide, by its status, and Pulsar executes its decisions.
    ``changing``: whether brokers are being replaced or removed now, by a rollout that continues.
    """
    if rebalance is None or "deletionTimestamp" in rebalance["metadata"]:
        return Ability(False, Reason.PENDING, f"PulsarRebalance {name} of this cluster does not exist")
    if mark := user_hold(rebalance):
        return Ability(False, Reason.PAUSED, f"PulsarRebalance {name} has annotation {mark}")
    ready = _condition(rebalance, ConditionType.READY)
    if not ready:
        return Ability(None, Reason.PENDING, f"PulsarRebalance {name} is not reconciled yet")
    reason = reason_named(str(ready.get("reason")))
    message = f"PulsarRebalance {name} reports {reason.value}: {str(ready.get('message') or '').rstrip('.')[:500]}"
    if reason in (ABLE - IDLE) | {Reason.PLAN_INVALIDATED} and (failure := _failing(rebalance, now)):
        return Ability(False, Reason.PLAN_INVALIDATED, f"PulsarRebalance {name} moves no bundles, because {failure}")
    neither = reason in NEITHER and (changing or reason is not Reason.BROKERS_CHANGING)
    return Ability(None if neither else reason in ABLE, reason, message)


def _failing(rebalance: Mapping[str, Any], now: datetime) -> str | None:
    """Returns why another execution is not expected to move bundles, as a message; None if it is."""
    failed = (rebalance.get("status") or {}).get("failedExecutions") or {}
    count, last = failed.get("count"), parse_time(failed.get("lastTime"))
    if not isinstance(count, int) or count < FAILED or last is None or seconds_since(last, now) >= TRIAL_SECONDS:
        return None
    again = timestamp(last + timedelta(seconds=TRIAL_SECONDS))
    why = str(failed.get("message") or "").rstrip(".")[:300]
    text = f"{count} consecutive executions completed no step, and the operator tries again after {again}."
    return f"{text} The last execution ended with: {why}"


def balancing_condition(known: Handover, ability: Ability, name: str) -> tuple[bool, Reason, str]:
    """Returns status, reason and message of condition BalancingActive. ``name`` is that of the standing
    PulsarRebalance."""
    if known.restored_at is None:
        if known.undecided_since is None or ability.decides is not False:
            return True, Reason.OPERATOR_BALANCES, f"The operator balances the load. See PulsarRebalance {name}"
        until = _time(known.undecided_since + UNDECIDED_SECONDS)
        text = f"The operator has not been able to balance since {_time(known.undecided_since)}. {_why(ability)} "
        text += (
            f"Pulsar's own balancer stays off until {until}. If the operator still cannot balance by then, it turns "
            "Pulsar's balancer back on"
        )
        return False, ability.reason, text
    times = f" ({known.count} times in total)" if known.count > 1 else ""
    text = (
        f"Pulsar has balanced the load since {_time(known.restored_at)}{times}, because the operator could not decide "
        "what to move. "
    )
    if known.decided_since is not None and (at := returns_at(known)) is not None:
        return (
            False,
            Reason.PULSAR_BALANCES,
            f"{text}The operator can decide again, and takes over at {_time(at)} if this persists",
        )
    minutes = f"{DECIDED_SECONDS / 60:.0f} minutes"
    text += f"{_why(ability)} The operator takes over once it has been able to decide for {minutes}, not "
    return False, Reason.PULSAR_BALANCES, f"{text}before {_time(known.restored_at + RETURN_SECONDS)}"


def pulsar_balances_message(known: Handover, ability: Ability) -> str:
    """Returns the message of the event when Pulsar's balancer is restored."""
    since = f" since {_time(known.undecided_since)}" if known.undecided_since is not None else ""
    return (
        f"Pulsar balances the load from now on, because the operator could not decide what to move{since}. "
        f"{_why(ability)}"
    )


def _why(ability: Ability) -> str:
    """Returns cause and remedy."""
    remedy = _REMEDIES.get(ability.reason, "Check the brokers and the PulsarRebalance")
    return f"{ability.message}. {remedy}."


_REMEDIES: Final = {
    Reason.PAUSED: "Remove the annotation from the PulsarRebalance",
    Reason.STOPPED_BY_USER: f"Annotate the PulsarRebalance with {ANNOTATION_REBALANCE}=refresh",
    Reason.PLAN_INVALIDATED: (
        "Check that Pulsar permits the operator's role to unload and split bundles. Then annotate the "
        f"PulsarRebalance with {ANNOTATION_REBALANCE}=refresh"
    ),
    Reason.PENDING: "The operator creates the PulsarRebalance unless another object has its name",
}


def _time(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))


def user_hold(rebalance: Mapping[str, Any]) -> str | None:
    """Returns the annotation by which a user pauses the operator for an object; None if there is none."""
    given = rebalance["metadata"].get("annotations") or {}
    return next((each for each in (ANNOTATION_PAUSE, ANNOTATION_DRY_RUN) if given.get(each) == "true"), None)


def lapsed(rebalance: Mapping[str, Any], now: datetime) -> bool:
    """Whether an executing PulsarRebalance has done no step for HOLD_SECONDS, so that it no longer keeps Pulsar's
    balancer off.

    Its status has the time since which it cannot continue (status.progress.blockedSince). One whose passes fail cannot
    report that: condition Ready is Unknown then.
    """
    progress = (rebalance.get("status") or {}).get("progress") or {}
    ready = _condition(rebalance, ConditionType.READY)
    failing = ready.get("lastTransitionTime") if ready.get("status") == "Unknown" else None
    times = (parse_time(text) for text in (progress.get("blockedSince"), failing))
    return any(at is not None and seconds_since(at, now) >= HOLD_SECONDS for at in times)


def _condition(rebalance: Mapping[str, Any], kind: ConditionType) -> Mapping[str, Any]:
    conditions = (rebalance.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind.value), {})
