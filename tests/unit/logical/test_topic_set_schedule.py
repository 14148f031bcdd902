"""controllers/topicset/topic_schedule.py by itself: how long a topic waits with which something is the matter, and a
set."""

from __future__ import annotations

import pytest

from pulsar_operator.controllers.topicset.topic_schedule import (
    SLICE_SECONDS,
    SMALL,
    ScheduledTopic,
    State,
    TopicSchedule,
)


def waits(state: State, looks: int) -> list[float]:
    """Seconds from each look to the next while nothing gets better."""
    turn, now, found = ScheduledTopic(state=state), 1000.0, []
    for _ in range(looks):
        turn.failed(now)
        assert turn.due is not None
        found.append(turn.due - now)
        now = turn.due
    assert turn.attempts == looks
    return found


@pytest.mark.parametrize("state", [State.REFUSED, State.DRIFTED, State.CONFLICTING, State.READY])
def test_what_is_wrong_is_checked_ever_more_rarely_up_to_ten_minutes(state: State) -> None:
    assert waits(state, 8) == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0, 600.0]


def test_what_only_did_not_answer_is_checked_sooner() -> None:
    assert waits(State.PENDING, 11) == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 600.0, 600.0]


def test_a_topic_that_is_wrong_for_weeks_is_still_checked_every_ten_minutes() -> None:
    """The power alone would be larger than any number after a thousand looks."""
    assert set(waits(State.REFUSED, 2000)[5:]) == {600.0}


def turns(due: list[float | None], state: State = State.READY, *, given: bool = True) -> TopicSchedule:
    """A set whose topics are looked at next at these times."""
    found = TopicSchedule("u")
    found.each = {f"x-{number}": ScheduledTopic(due=when, state=state, given=given) for number, when in enumerate(due)}
    return found


def test_the_next_pass_is_when_the_first_topic_is_due() -> None:
    assert turns([1130.0, 1060.0, None]).next_due(1000.0) == 60.0
    assert turns([1000.5, 1060.0]).next_due(1000.0) == 1.0, "not more often than that"
    assert turns([1000.0, 1060.0]).next_due(1000.0) == 0.0
    assert turns([None, None]).next_due(1000.0) is None


@pytest.mark.parametrize(
    ("number", "state", "seconds"),
    [(SMALL + 1, State.READY, SLICE_SECONDS), (SMALL + 1, State.PENDING, 3.0), (SMALL, State.READY, 3.0)],
)
def test_a_large_set_that_is_only_read_is_read_in_slices(number: int, state: State, seconds: float) -> None:
    assert turns([1003.0] * number, state).next_due(1000.0) == seconds
