"""Conditions are computed again in every pass. The time of the last change of each status is carried over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any, Final

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.healing import HEALING, Healing
from pulsar_operator.api.v1alpha1.base import Condition, ConditionStatus
from pulsar_operator.domain.texts import visible

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
CLOCKS_DIFFER: Final = 60.0
"""Largest expected difference between the clocks of two machines, in seconds."""

STALLED_SECONDS: Final = 60.0
"""Seconds for which something that others have to provide may be missing before the object counts as stalled."""
ABNORMAL: Final = (ConditionType.STALLED.value, ConditionType.RECONCILING.value)
"""Conditions that are derived from the others (source: kstatus of cli-utils, "abnormal-true" conditions)."""


def timestamp(moment: datetime) -> str:
    """Returns the time in UTC as RFC 3339 with whole seconds, the format of metav1.Time in Kubernetes."""
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def parse_time(text: str | None) -> datetime | None:
    """Returns a time from a status, in UTC. None if it is absent or cannot be parsed; it then counts as never written.

    The API server accepts more than this function: lower-case letters and leap seconds (source: strfmt.IsDateTime of
    go-openapi).
    """
    try:
        found = datetime.fromisoformat(text) if text else None
        return found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None


def seconds_since(moment: datetime, now: datetime) -> float:
    """Returns the seconds from a time in a status until now; 0 for a future time within the usual difference of clocks,
    infinite for a later one: the clock was set back, and nothing may wait until it has caught up.
    """
    seconds = (now - moment).total_seconds()
    return inf if seconds < -CLOCKS_DIFFER else max(seconds, 0.0)


def reason_named(text: Any) -> Reason:
    """Returns the reason from a stored status. Unknown if this version does not have it, for example after a
    downgrade."""
    try:
        return Reason(text)
    except ValueError:
        return Reason.UNKNOWN


_NOT_OBSERVED: Final = (UNKNOWN, Reason.UNKNOWN, "The operator has not observed this yet")


@dataclass
class ConditionSet:
    """The conditions of one object during one pass.

    Every known type is set on every pass; a type that was not set is Unknown, so that a missing fact is always visible.
    """

    known: Sequence[ConditionType]
    previous: Iterable[dict[str, Any]]
    generation: int | None
    now: datetime
    heals: frozenset[Reason] = frozenset()
    """Reasons from which this object recovers automatically, whatever applies to others."""
    _set: dict[ConditionType, tuple[ConditionStatus, Reason, str]] = field(default_factory=dict)

    def set(self, kind: ConditionType, status: ConditionStatus | bool, reason: Reason, message: str) -> None:
        """Sets a condition. A later call for the same type overrides an earlier one."""
        if isinstance(status, bool):
            status = TRUE if status else FALSE
        self._set[kind] = (status, reason, visible(message))

    def carry(self, kind: ConditionType) -> bool:
        """Keeps a condition as it is stored. Returns False if it is not stored."""
        stored = next((c for c in self.previous if c.get("type") == kind.value), None)
        if stored is None:
            return False
        status, message = ConditionStatus(stored["status"]), str(stored.get("message") or "")
        self.set(kind, status, reason_named(stored["reason"]), message)
        return True

    def status(self, kind: ConditionType) -> ConditionStatus:
        """Returns the status that was set in this pass. Unknown if none was set."""
        return self._set[kind][0] if kind in self._set else UNKNOWN

    def explained(self, kind: ConditionType) -> tuple[ConditionStatus, Reason, str] | None:
        """Returns status, reason and message set in this pass; None if none were set."""
        return self._set.get(kind)

    def is_true(self, kind: ConditionType) -> bool:
        """Whether the condition was set True in this pass."""
        return self.status(kind) is TRUE

    def summarize(self, *required: ConditionType, ready_message: str) -> None:
        """Sets Ready from the required conditions. The first one that is not True provides the reason and message."""
        for kind in required:
            status, reason, message = self._set.get(kind, (UNKNOWN, Reason.UNKNOWN, f"{kind.value} is not known yet"))
            if status is not TRUE:
                self.set(ConditionType.READY, FALSE if status is FALSE else UNKNOWN, reason, message)
                return
        self.set(ConditionType.READY, TRUE, Reason.READY, ready_message)

    def result(self) -> list[Condition]:
        """Returns all known conditions in the declared order, followed by the derived ones. lastTransitionTime changes
        only with the status."""
        before = {c.get("type"): c for c in self.previous}
        out: list[Condition] = []
        for kind in dict.fromkeys([*self.known, *self._set]):
            status, reason, message = self._set.get(kind, _NOT_OBSERVED)
            old = before.get(kind.value)
            same = old is not None and old.get("status") == status.value and old.get("lastTransitionTime")
            out.append(
                Condition(
                    type=kind.value,
                    status=status,
                    reason=reason.value,
                    message=message[:4096],
                    observed_generation=self.generation,
                    last_transition_time=str(old["lastTransitionTime"]) if old and same else timestamp(self.now),
                )
            )
        return out + abnormal(out, before, self.now, self.heals)


def abnormal(
    conditions: Sequence[Condition],
    previous: Mapping[Any, Mapping[str, Any]],
    now: datetime,
    heals: frozenset[Reason] = frozenset(),
) -> list[Condition]:
    """Returns Stalled if waiting does not make the object Ready or if an operation in progress stopped, and Reconciling
    if the object is Ready and an operation is in progress.

    Returns neither otherwise, which kstatus treats as False. ``previous`` has the stored conditions by type.
    """
    found = {each.type: each for each in conditions}
    ready, progressing = found.get(ConditionType.READY.value), found.get(ConditionType.PROGRESSING.value)
    if ready is None:
        return []
    if ready.status is not TRUE:
        stalled = Reason(ready.reason) not in heals and _stalled(ready, conditions, now)
        return [_following(ConditionType.STALLED, ready, previous, now)] if stalled else []
    if progressing is None:
        return []
    if progressing.status is TRUE:
        return [_following(ConditionType.RECONCILING, progressing, previous, now)]
    # What serves may have stopped on its way to what is declared, as a roll whose new pods do not start.
    stopped = progressing.status is FALSE and HEALING[reason_named(progressing.reason)] is Healing.CHANGE
    return [_following(ConditionType.STALLED, progressing, previous, now)] if stopped else []


def _stalled(ready: Condition, conditions: Sequence[Condition], now: datetime) -> bool:
    healing = HEALING[Reason(ready.reason)]
    if healing is not Healing.OTHERS:
        return healing is not Healing.ITSELF
    # Ready may be False for longer than for this reason: the condition it has it from knows since when.
    condition = next((c for c in conditions if c.type != ready.type and c.reason == ready.reason), ready)
    since = parse_time(condition.last_transition_time)
    return since is not None and (now - since).total_seconds() >= STALLED_SECONDS


def _following(
    kind: ConditionType, cause: Condition, previous: Mapping[Any, Mapping[str, Any]], now: datetime
) -> Condition:
    old = previous.get(kind.value)
    since = str(old["lastTransitionTime"]) if old is not None and old.get("status") == TRUE.value else timestamp(now)
    return cause.model_copy(update={"type": kind.value, "status": TRUE, "last_transition_time": since})
