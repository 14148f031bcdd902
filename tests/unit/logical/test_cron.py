"""Times of a schedule: tables, and a second opinion by looking at every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

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
        ("0 0 29 2 */7", "2026-01-01 00:00", "2032-02-29 00:00"),  # a Sunday
        ("3-3/5 * * * *", "2026-01-01 00:03", "2026-01-01 01:03"),
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
        ("0 3 * *", "not have five fields of numbers"),
        ("0 3 * * * *", "not have five fields of numbers"),
        (" 0 3 * * *", "not have five fields of numbers"),
        ("0 3 * * *\n", "not have five fields of numbers"),
        ("0 3 L * *", "not have five fields of numbers"),
        ("0 3 * jan *", "not have five fields of numbers"),
        ("0 3 * * 1#2", "not have five fields of numbers"),
        ("60 3 * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 3 0 * *", "bad day-of-month"),
        ("0 3 * 13 *", "bad month"),
        ("0 3 * * 8", "bad day-of-week"),
        ("5-1 * * * *", "bad minute"),
        ("*/0 * * * *", "bad minute"),
        ("1,,2 * * * *", "bad minute"),
        ("- * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 31 4,6 *", "bad day-of-month"),
        ("0 0 31 2 */2", "bad day-of-month"),
    ],
)
def test_what_is_no_schedule(schedule: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"is not a schedule.*{words}.*\. Use existing values for minute, hour"):
        Schedule.parse(schedule)


def part(lowest: int, highest: int) -> st.SearchStrategy[str]:
    """One field."""
    number = st.integers(lowest, highest)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.tuples(st.just("*") | span, st.integers(1, highest)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.just("*") | st.lists(number.map(str) | span | steps, min_size=1, max_size=3).map(",".join)


SCHEDULES = st.tuples(part(0, 59), part(0, 23), part(1, 28), part(1, 12), part(0, 7)).map(" ".join)


@lru_cache
def numbers(field: str, lowest: int, highest: int) -> frozenset[int]:
    """The numbers of a field, by crontab(5)."""
    found: set[int] = set()
    for each in field.split(","):
        span, _, step = each.partition("/")
        low, _, high = span.replace("*", f"{lowest}-{highest}").partition("-")
        last = int(high) if high else highest if step else int(low)
        found |= set(range(int(low), last + 1, int(step or 1)))
    return frozenset(found)


def fits(schedule: str, time: datetime) -> bool:
    """Whether a minute is one of the schedule, field by field."""
    minute, hour, day, month, weekday = schedule.split(" ")
    of_month = time.day in numbers(day, 1, 31)
    of_week = time.isoweekday() % 7 in {each % 7 for each in numbers(weekday, 0, 7)}
    both = day.startswith("*") or weekday.startswith("*")
    return (
        time.minute in numbers(minute, 0, 59)
        and time.hour in numbers(hour, 0, 23)
        and time.month in numbers(month, 1, 12)
        and (of_month and of_week if both else of_month or of_week)
    )


@settings(max_examples=150, deadline=None)
@given(text=SCHEDULES, start=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), minutes=st.integers(0, 3000))
def test_by_every_minute(text: str, start: datetime, minutes: int) -> None:
    schedule, start = Schedule.parse(text), start.replace(tzinfo=UTC)
    end = start + timedelta(minutes=minutes)
    first = start.replace(second=0, microsecond=0)
    times = [time for n in range(minutes + 2) if start < (time := first + timedelta(minutes=n)) <= end]
    due = [time for time in times if fits(text, time)]
    following = schedule.next_after(start)
    assert (following if following is not None and following <= end else None) == (due[0] if due else None)
    assert schedule.last_due(start, end) == (due[-1] if due else None)
