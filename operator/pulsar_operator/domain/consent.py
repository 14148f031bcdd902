"""Questions about the data of a cluster, and whether a confirmation in its specification answers one. Pure.

A confirmation names what it answers, with a value that the condition's message prints: the loss, the rollout or the
store. Its use therefore needs no record: a later loss has another name, which an old confirmation does not match, even
if the object was deleted and applied again or its status was lost. A confirmation without that value is never used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pulsar_operator.api.v1alpha1.confirmations import (
    ClusterConfirmation,
    ClusterConfirmationAction,
    UsedClusterConfirmation,
)
from pulsar_operator.domain.conditions import timestamp


@dataclass(frozen=True)
class Question:
    """A decision that only a person may make."""

    action: ClusterConfirmationAction
    subject: str
    """Identifies the occurrence that the question is about. Another occurrence of the same problem has another
    value."""
    bookie: int | None = None
    """Ordinal of the bookie, with action LoseLedgers."""
    number: int | None = None
    """Number of lost ledgers. None if nothing is counted. A confirmation with a higher number also answers the
    question."""

    @property
    def answers(self) -> str:
        """Value of field ``answers`` of a confirmation that answers this question."""
        return self.subject if self.number is None else f"{self.subject}/{self.number}"


def answered(
    question: Question,
    given: Sequence[ClusterConfirmation],
    used: Sequence[UsedClusterConfirmation],
    now: datetime,
) -> UsedClusterConfirmation | None:
    """Returns the confirmation that answers a question, in the form in which the status has it or is to have it. None
    if there is no such confirmation."""
    for each in given:
        if not _about(question, each) or _over(each, now) or not _fits(question, each):
            continue
        known = next((entry for entry in used if _same(entry, each)), None)
        return known or UsedClusterConfirmation(**each.model_dump(), used_time=timestamp(now))
    return None


def accepted_number(
    question: Question,
    given: Sequence[ClusterConfirmation],
    used: Sequence[UsedClusterConfirmation],
    now: datetime,
) -> int | None:
    """Returns the number of ledgers that a confirmation gives up and that the status shows as used. None if there is no
    such confirmation. The number in the question is ignored."""
    for each in given:
        if _about(question, each) and not _over(each, now) and any(_same(entry, each) for entry in used):
            number = _number(question.subject, each.answers)
            if number is not None:
                return number
    return None


def how_to_answer(question: Question, given: Sequence[ClusterConfirmation], now: datetime) -> str:
    """Returns the entry that answers a question, ready to paste, and the reason why an existing confirmation does not
    answer it."""
    fields: dict[str, object] = {"action": question.action.value}
    if question.bookie is not None:
        fields["bookie"] = question.bookie
    fields |= {"answers": question.answers, "expiresTime": _expires(now)}
    # JSON is YAML; names and the action need no quotes.
    text = ", ".join(f"{key}: {_scalar(key, value)}" for key, value in fields.items())
    text = f"add this entry to spec.confirmations: {{{text}}}"
    return f"{text}. {why}" if (why := _why_not(question, given, now)) is not None else text


def _scalar(key: str, value: object) -> str:
    return str(value) if key == "action" else json.dumps(value, ensure_ascii=False)


def _expires(now: datetime) -> str:
    """Returns the end of the next day in UTC: one to two days from now, and the same value in every pass of one day."""
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return timestamp(day + timedelta(days=2))


def _why_not(question: Question, given: Sequence[ClusterConfirmation], now: datetime) -> str | None:
    for each in given:
        if each.action is not question.action:
            continue
        what = f"The existing confirmation {each.action.value} is not used, because"
        if each.bookie != question.bookie:
            return f"{what} it applies to bookie {each.bookie}"
        if each.answers is None:
            return f"{what} it has no field answers and so may have been meant for an earlier occurrence"
        if not _fits(question, each):
            return f"{what} its field answers is {each.answers}"
        if _over(each, now):
            return f"{what} it expired at {each.expires_time}"
    return None


def _about(question: Question, given: ClusterConfirmation) -> bool:
    return given.action is question.action and given.bookie == question.bookie


def _over(given: ClusterConfirmation, now: datetime) -> bool:
    return datetime.fromisoformat(given.expires_time) <= now


def _fits(question: Question, given: ClusterConfirmation) -> bool:
    if question.number is None:
        return given.answers == question.subject
    number = _number(question.subject, given.answers)
    return number is not None and number >= question.number


def _number(subject: str, answers: str | None) -> int | None:
    """Returns the number after a subject. None if the subject differs or no number follows."""
    found, _, number = (answers or "").rpartition("/")
    return int(number) if found == subject and number.isascii() and number.isdigit() else None


def _same(used: UsedClusterConfirmation, given: ClusterConfirmation) -> bool:
    return (used.action, used.bookie, used.answers, used.expires_time) == (
        given.action,
        given.bookie,
        given.answers,
        given.expires_time,
    )
