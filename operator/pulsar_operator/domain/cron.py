"""Times of a schedule in the five fields of cron: minute, hour, day of the month, month, day of the week; UTC.

The grammar is that of crontab(5) without names: ``*``, numbers, ranges ``a-b``, steps ``*/n`` and ``a-b/n``, lists with
commas. 0 and 7 are Sunday. Where both days are restricted, one of them is enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
_PART = re.compile(r"(?:\*|(?P<low>[0-9]{1,4})(?:-(?P<high>[0-9]{1,4}))?)(?:/(?P<step>[0-9]{1,4}))?")
LONGEST_DAYS = 8 * 366 + 1
"""29 February may be eight years apart (2096 and 2104); what does not come within that never comes."""


@dataclass(frozen=True)
class Schedule:
    """A parsed schedule."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    any_day: bool
    any_weekday: bool

    @staticmethod
    def parse(text: str) -> Schedule:
        """Raises ValueError that says which field is wrong, and for a schedule that never comes."""
        parts = text.split(" ")
        if len(parts) != len(FIELDS):
            raise ValueError(f"{text!r} has {len(parts)} fields and not 5 (minute hour day month weekday)")
        minutes, hours, days, months, weekdays = (
            _values(part, *field) for part, field in zip(parts, FIELDS, strict=True)
        )
        found = Schedule(
            tuple(sorted(minutes)),
            tuple(sorted(hours)),
            days,
            months,
            frozenset(day % 7 for day in weekdays),
            parts[2].startswith("*"),
            parts[4].startswith("*"),
        )
        if found.next_after(datetime(2096, 1, 1, tzinfo=UTC)) is None:
            raise ValueError(f"{text!r} never comes: no such day in its months")
        return found

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after the moment; None when there is none within eight years."""
        moment = moment.astimezone(UTC)
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        for _ in range(LONGEST_DAYS):
            if self._has(day):
                times = (day.replace(hour=hour, minute=minute) for hour in self.hours for minute in self.minutes)
                found = next((time for time in times if time > moment), None)
                if found is not None:
                    return found
            day += timedelta(days=1)
        return None

    def last_due(self, after: datetime, until: datetime) -> datetime | None:
        """The last time after ``after`` and not later than ``until``; None when there is none."""
        until = until.astimezone(UTC)
        day = until.replace(hour=0, minute=0, second=0, microsecond=0)
        for _ in range(LONGEST_DAYS):
            if day + timedelta(days=1) <= after:
                return None
            if self._has(day):
                hours, minutes = reversed(self.hours), tuple(reversed(self.minutes))
                times = (day.replace(hour=hour, minute=minute) for hour in hours for minute in minutes)
                found = next((time for time in times if time <= until), None)
                if found is not None:
                    return found if found > after else None
            day -= timedelta(days=1)
        return None

    def _has(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.any_day or self.any_weekday else of_month or of_week


def _values(text: str, name: str, lowest: int, highest: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no {name}: use *, a number, a range a-b, or one of these with a step /n")
        low, high, step = match["low"], match["high"], int(match["step"] or 1)
        first = lowest if low is None else int(low)
        last = highest if low is None or (high is None and match["step"]) else int(high or first)
        if not lowest <= first <= last <= highest or step < 1:
            raise ValueError(f"{part!r} is no {name}: numbers are {lowest} to {highest}, ranges ascend, steps are 1 up")
        found |= set(range(first, last + 1, step))
    return frozenset(found)
