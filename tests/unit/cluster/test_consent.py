"""domain/consent.py: a confirmation answers the question that it names, and no other."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.confirmations import (
    ClusterConfirmation,
    ClusterConfirmationAction,
    UsedClusterConfirmation,
)
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.consent import Question, accepted_number, answered, how_to_answer
from pulsar_operator.domain.dataplane.decommission.decommission_record import DecommissionRecord
from pulsar_operator.domain.dataplane.decommission.volume_replacement import question_of as question_of_loss
from pulsar_operator.domain.dataplane.rollout.checks import question_of as question_of_roll

NOW = datetime(2026, 5, 1, 23, 30, tzinfo=UTC)
LOSE, ROLL, ADOPT = (
    ClusterConfirmationAction.LOSE_LEDGERS,
    ClusterConfirmationAction.ROLL_UNDER_REPLICATED,
    ClusterConfirmationAction.ADOPT_METADATA,
)
LOSS = question_of_loss(2, DecommissionRecord("b-2", 2, NOW - timedelta(hours=1)), 3)
ROLLOUT_COMPLETE = question_of_roll("5f2", {"metadata": {"generation": 7, "uid": "0123456789ab"}})


def confirmation(question: Question, **changes: Any) -> ClusterConfirmation:
    fields = {
        "action": question.action,
        "bookie": question.bookie,
        "answers": question.answers,
        "expiresTime": timestamp(NOW + timedelta(hours=1)),
    }
    return ClusterConfirmation.model_validate(fields | changes)


def test_what_names_a_loss_and_a_rollout() -> None:
    assert LOSS.answers == "2026-05-01T22:30:00Z/3"
    assert ROLLOUT_COMPLETE.answers == "5f2/7/01234567"


@pytest.mark.parametrize(
    ("question", "changes", "why"),
    [
        (LOSS, {}, None),
        (LOSS, {"answers": "2026-05-01T22:30:00Z/4"}, None),
        (LOSS, {"answers": "2026-05-01T22:30:00Z/2"}, "its field answers is 2026-05-01T22:30:00Z/2"),
        (LOSS, {"answers": "2026-05-01T22:30:01Z/3"}, "its field answers is 2026-05-01T22:30:01Z/3"),
        (LOSS, {"answers": "2026-05-01T22:30:00Z"}, "its field answers is 2026-05-01T22:30:00Z"),
        (LOSS, {"answers": "2026-05-01T22:30:00Z/"}, "its field answers is"),
        (LOSS, {"answers": "2026-05-01T22:30:00Z/-3"}, "its field answers is"),
        (LOSS, {"answers": None}, "it has no field answers"),
        (LOSS, {"bookie": 1}, "it applies to bookie 1"),
        (LOSS, {"expiresTime": timestamp(NOW)}, "it expired at 2026-05-01T23:30:00Z"),
        (ROLLOUT_COMPLETE, {}, None),
        (ROLLOUT_COMPLETE, {"answers": "5f2/9/01234567"}, "its field answers is 5f2/9/01234567"),
        (ROLLOUT_COMPLETE, {"answers": None}, "it has no field answers"),
        (ROLLOUT_COMPLETE, {"expiresTime": timestamp(NOW)}, "it expired"),
    ],
)
def test_which_confirmation_answers(question: Question, changes: dict[str, Any], why: str | None) -> None:
    given_one = confirmation(question, **changes)
    found = answered(question, [given_one], [], NOW)
    assert (found is not None) == (why is None)
    text = how_to_answer(question, [given_one], NOW)
    if why is None:
        assert "is not used" not in text
    else:
        assert f"The existing confirmation {question.action.value} is not used, because {why}" in text


def test_what_is_used_keeps_its_time_and_the_number_counts_once_the_status_has_it() -> None:
    given_one = confirmation(LOSS, answers="2026-05-01T22:30:00Z/9")
    used = answered(LOSS, [given_one], [], NOW)
    assert used is not None and used.used_time == timestamp(NOW)
    assert answered(LOSS, [given_one], [used], NOW + timedelta(minutes=1)) == used
    assert accepted_number(LOSS, [given_one], [], NOW) is None
    assert accepted_number(LOSS, [given_one], [used], NOW) == 9
    assert accepted_number(replace(LOSS, subject="another"), [given_one], [used], NOW) is None
    assert accepted_number(LOSS, [], [used], NOW) is None, "it was taken back"
    assert accepted_number(LOSS, [given_one], [used], NOW + timedelta(hours=2)) is None, "it is over"


subjects = st.sampled_from(["a", "a/1", "b", "2026-05-01T22:30:00Z", "x" * 128, 'q"uo}te'])
questions = st.builds(Question, st.just(LOSE), subjects, st.integers(0, 3), st.integers(0, 4)) | st.builds(
    Question, st.sampled_from([ROLL, ADOPT]), subjects
)


@given(questions, questions)
def test_an_entry_as_it_is_printed_answers_its_own_question_alone(asked: Question, other: Question) -> None:
    text = how_to_answer(asked, [], NOW)
    entry = yaml.safe_load(re.search(r"spec\.confirmations: (\{.*\})$", text)[1])  # type: ignore[index]
    pasted = ClusterConfirmation.model_validate(entry)
    assert answered(asked, [pasted], [], NOW) is not None
    assert datetime.fromisoformat(pasted.expires_time) - NOW >= timedelta(days=1)
    same = (asked.action, asked.bookie, asked.subject) == (other.action, other.bookie, other.subject)
    enough = asked.number is None or (other.number is not None and other.number <= asked.number)
    assert (answered(other, [pasted], [], NOW) is not None) == (same and enough)


@given(questions)
def test_one_of_an_earlier_release_answers_nothing(asked: Question) -> None:
    fields = {"action": asked.action, "bookie": asked.bookie, "expiresTime": "2126-01-01T00:00:00Z"}
    old = ClusterConfirmation.model_validate(fields)
    used = UsedClusterConfirmation.model_validate({**fields, "usedTime": "2026-01-01T00:00:00Z", "began": "x"})
    assert answered(asked, [old], [used], NOW) is None
    assert accepted_number(asked, [old], [used], NOW) is None
