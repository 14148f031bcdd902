"""Conditions: computed anew in every pass, with the time of the last change of each status carried over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import Condition, ConditionStatus

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def timestamp(moment: datetime) -> str:
    """RFC 3339 in seconds, UTC, as Kubernetes writes metav1.Time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str | None) -> datetime | None:
    """A time of a status; None when there is none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


@dataclass
class ConditionSet:
    """The conditions of one object during one pass.

    Every known type is set on every pass; a type nobody set is Unknown, so that a missing fact is never silence.
    """

    known: Sequence[ConditionType]
    previous: Iterable[dict[str, Any]]
    generation: int | None
    now: datetime
    _set: dict[ConditionType, tuple[ConditionStatus, Reason, str]] = field(default_factory=dict)

    def set(self, kind: ConditionType, status: ConditionStatus | bool, reason: Reason, message: str) -> None:
        """Set a condition; a later call for the same type wins."""
        if isinstance(status, bool):
            status = TRUE if status else FALSE
        self._set[kind] = (status, reason, message)

    def carry(self, kind: ConditionType) -> bool:
        """Leave a condition as it is stored; False where it is not."""
        stored = next((c for c in self.previous if c.get("type") == kind.value), None)
        if stored is None:
            return False
        self.set(kind, ConditionStatus(stored["status"]), Reason(stored["reason"]), str(stored.get("message") or ""))
        return True

    def status(self, kind: ConditionType) -> ConditionStatus:
        """The status set in this pass; Unknown when it was not."""
        return self._set[kind][0] if kind in self._set else UNKNOWN

    def explained(self, kind: ConditionType) -> tuple[ConditionStatus, Reason, str] | None:
        """Status, reason and message set in this pass; None when nobody set it."""
        return self._set.get(kind)

    def is_true(self, kind: ConditionType) -> bool:
        """Whether the condition was set True in this pass."""
        return self.status(kind) is TRUE

    def summarize(self, *required: ConditionType, ready_message: str) -> None:
        """Set Ready from the required conditions: the first that is not True names reason and message."""
        for kind in required:
            status, reason, message = self._set.get(kind, (UNKNOWN, Reason.UNKNOWN, f"{kind.value} is not known yet"))
            if status is not TRUE:
                self.set(ConditionType.READY, FALSE if status is FALSE else UNKNOWN, reason, message)
                return
        self.set(ConditionType.READY, TRUE, Reason.READY, ready_message)

    def result(self) -> list[Condition]:
        """All known conditions, in the declared order; lastTransitionTime changes only with the status."""
        before = {c.get("type"): c for c in self.previous}
        out: list[Condition] = []
        for kind in dict.fromkeys([*self.known, *self._set]):
            status, reason, message = self._set.get(kind, (UNKNOWN, Reason.UNKNOWN, "not observed yet"))
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
        return out
