"""Times of a schedule: tables, and a second opinion by looking at every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.domain.cron import Schedule


def at(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "following"),
    [
        ("0 3 * * *", "2026-01-01 03:00", "2026-01-02 03:00"),
        ("0 3 * * *", "2026-01-01 02:59", "2026-01-01 03:00"),
        ("*/15 * * * *", "2026-01-01 23:50", "2026-01-02 00:00"),
        ("5/20 * * * *", "2026-01-01 00:05", "2026-01-01 00:25"),
        ("30 4 1 * *", "2026-01-31 00:00", "2026-02-01 04:30"),
        ("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"),
        ("0 0 * * 0", "2026-01-01 00:00", "2026-01-04 00:00"),
        ("0 0 * * 7", "2026-01-01 00:00", "2026-01-04 00:00"),
        ("0 0 13 * 5", "2026-01-01 00:00", "2026-01-02 00:00"),  # a Friday, or the 13th
        ("0 0 13 * 5", "2026-01-10 00:00", "2026-01-13 00:00"),
        ("0 0 */2 * 1", "2026-01-01 00:00", "2026-01-05 00:00"),  # a star with a step restricts nothing for cron
        ("0 0-2,22 31 12 *", "2026-12-31 02:00", "2026-12-31 22:00"),
    ],
)
def test_the_following_time(schedule: str, after: str, following: str) -> None:
    assert Schedule.parse(schedule).next_after(at(after)) == at(following)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("0 3 * *", "has 4 fields and not 5"),
        ("0 3 * * * *", "has 6 fields"),
        ("60 3 * * *", "'60' is no minute: numbers are 0 to 59"),
        ("0 24 * * *", "'24' is no hour"),
        ("0 3 0 * *", "'0' is no day of the month: numbers are 1 to 31"),
        ("0 3 * 13 *", "'13' is no month"),
        ("0 3 * * 8", "'8' is no day of the week"),
        ("5-1 * * * *", "ranges ascend"),
        ("*/0 * * * *", "steps are 1 up"),
        ("1,,2 * * * *", "'' is no minute: use"),
        ("- * * * *", "'-' is no minute"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4,6 *", "never comes"),
    ],
)
def test_what_is_no_schedule(schedule: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("*", r"\*")):
        Schedule.parse(schedule)


def part(lowest: int, highest: int) -> st.SearchStrategy[str]:
    """One field."""
    number = st.integers(lowest, highest)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.tuples(st.just("*") | span, st.integers(1, highest)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.just("*") | st.lists(number.map(str) | span | steps, min_size=1, max_size=3).map(",".join)


SCHEDULES = st.tuples(part(0, 59), part(0, 23), part(1, 28), part(1, 12), part(0, 7)).map(" ".join)


def fits(schedule: Schedule, time: datetime) -> bool:
    """Whether a minute is one of the schedule, field by field."""
    days, weekdays = time.day in schedule.days, time.isoweekday() % 7 in schedule.weekdays
    both = schedule.any_day or schedule.any_weekday
    return (
        time.minute in schedule.minutes
        and time.hour in schedule.hours
        and time.month in schedule.months
        and (days and weekdays if both else days or weekdays)
    )


@settings(max_examples=150, deadline=None)
@given(text=SCHEDULES, start=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), minutes=st.integers(0, 3000))
def test_by_every_minute(text: str, start: datetime, minutes: int) -> None:
    schedule, start = Schedule.parse(text), start.replace(tzinfo=UTC)
    end = start + timedelta(minutes=minutes)
    first = start.replace(second=0, microsecond=0)
    times = [time for n in range(minutes + 2) if start < (time := first + timedelta(minutes=n)) <= end]
    due = [time for time in times if fits(schedule, time)]
    following = schedule.next_after(start)
    assert (following if following is not None and following <= end else None) == (due[0] if due else None)
    assert schedule.last_due(start, end) == (due[-1] if due else None)
