"""Maintenance windows: tables for the days on which clocks change, and a second opinion by looking at every minute."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.rolling import MaintenanceWindow
from pulsar_operator.domain.render import spec_problems
from pulsar_operator.domain.windows import closed_until, is_open, next_opening, window_problems
from tests.support.cluster.rendering import distributed, standalone

ROOT = Path(__file__).resolve().parents[3]
MINUTE = timedelta(minutes=1)


def window(schedule: str, minutes: int = 60, zone: str = "UTC") -> MaintenanceWindow:
    """A window as it is written."""
    return MaintenanceWindow.model_validate({"schedule": schedule, "minutes": minutes, "timeZone": zone})


def at(text: str) -> datetime:
    """A moment with its offset."""
    found = datetime.fromisoformat(text)
    assert found.tzinfo is not None
    return found


def test_without_windows_it_is_always_open() -> None:
    now = at("2026-01-01T00:00+00:00")
    assert is_open([], now)
    assert next_opening([], now) is None
    assert closed_until([], now) is None


@pytest.mark.parametrize(
    ("now", "opened"),
    [
        ("2026-11-25T00:59:59+00:00", False),
        ("2026-11-25T01:00:00+00:00", True),
        ("2026-11-25T02:00:00+01:00", True),
        ("2026-11-25T02:59:59+01:00", True),
        ("2026-11-25T03:00:00+01:00", False),
        ("2026-11-25T02:30:00+00:00", False),
        ("2026-07-01T00:30:00+00:00", True),  # summer
        ("2026-07-01T01:30:00+00:00", False),
    ],
)
def test_a_window_is_open_from_its_opening_until_its_end_in_its_zone(now: str, opened: bool) -> None:
    assert is_open([window("0 2 * * *", 60, "Europe/Berlin")], at(now)) is opened


# Clocks are put forward in Berlin on 29 March 2026 from 02:00 to 03:00 and back on 25 October from 03:00 to 02:00;
# in New York on 8 March from 02:00 to 03:00 and back on 1 November from 02:00 to 01:00; on Lord Howe Island on
# 4 October from 02:00 to 02:30 and back on 5 April from 02:00 to 01:30. Samoa left 30 December 2011 out.
@pytest.mark.parametrize(
    ("schedule", "zone", "after", "opens"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        ("0 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        ("59 1 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", "2026-03-29T01:59+01:00"),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        ("*/20 2 * * *", "Europe/Berlin", "2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"),
        ("30 2 29 3 *", "Europe/Berlin", "2026-03-01T00:00+01:00", "2026-03-29T03:00+02:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", "2026-10-25T02:30+02:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"),
        ("*/20 * * * *", "Europe/Berlin", "2026-10-25T02:40+02:00", "2026-10-25T03:00+01:00"),
        ("*/20 * * * *", "Europe/Berlin", "2026-10-25T02:15+01:00", "2026-10-25T03:00+01:00"),
        ("15 2 * * *", "America/New_York", "2026-03-07T12:00-05:00", "2026-03-08T03:00-04:00"),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00-04:00", "2026-11-01T01:30-04:00"),
        ("30 1 * * *", "America/New_York", "2026-11-01T01:10-05:00", "2026-11-02T01:30-05:00"),
        ("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00+10:30", "2026-10-04T02:30+11:00"),
        ("40 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00+10:30", "2026-10-04T02:40+11:00"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00+11:00", "2026-04-05T01:45+11:00"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T01:40+10:30", "2026-04-06T01:45+10:30"),
        ("0 2 30 12 *", "Pacific/Apia", "2011-12-01T00:00-10:00", "2011-12-31T00:00+14:00"),
        ("0 2 29 2 *", "Europe/Berlin", "2026-01-01T00:00+01:00", "2028-02-29T02:00+01:00"),
    ],
)
def test_the_following_opening(schedule: str, zone: str, after: str, opens: str) -> None:
    each = window(schedule, 5, zone)
    found = next_opening([each], at(after))
    assert found is not None
    assert found.tzinfo is UTC and found == at(opens)
    assert opens in (closed_until([each], found - MINUTE) or "").replace(":00+", "+").replace(":00-", "-")
    # A window of five minutes.
    assert [is_open([each], found + n * MINUTE) for n in (-1, 0, 4, 5)] == [False, True, True, False]


def test_a_window_lasts_its_minutes_however_clocks_change() -> None:
    autumn = window("0 0 25 10 *", 240, "Europe/Berlin")
    assert is_open([autumn], at("2026-10-25T02:59+01:00"))
    assert not is_open([autumn], at("2026-10-25T03:00+01:00"))
    spring = window("0 0 29 3 *", 240, "Europe/Berlin")
    assert is_open([spring], at("2026-03-29T04:59+02:00"))
    assert not is_open([spring], at("2026-03-29T05:00+02:00"))


def test_a_window_longer_than_its_period_never_closes() -> None:
    assert all(is_open([window("0 * * * *", 61)], at("2026-01-01T00:30+00:00") + n * MINUTE) for n in range(300))
    assert is_open([window("0 0 * * 0", 10080)], at("2026-01-03T23:59+00:00"))


def test_of_several_windows_the_next_counts_and_one_is_enough() -> None:
    berlin, tokyo = window("0 2 * * *", 60, "Europe/Berlin"), window("0 2 * * *", 60, "Asia/Tokyo")
    now = at("2026-11-24T12:00+00:00")
    for windows in ([berlin, tokyo], [tokyo, berlin]):
        found = next_opening(windows, now)
        assert found == at("2026-11-25T02:00:00+09:00")
        assert closed_until(windows, now) == (
            "the maintenance window that opens 2026-11-25T02:00:00+09:00 (Asia/Tokyo)"
        )
        assert is_open(windows, at("2026-11-25T02:30+09:00")) and is_open(windows, at("2026-11-25T02:30+01:00"))
        assert not is_open(windows, at("2026-11-25T02:30+00:00"))


def test_what_is_waited_for_in_words_that_do_not_change_meanwhile() -> None:
    windows = [window("0 2 * * *", 60, "Europe/Berlin")]
    words = "the maintenance window that opens 2026-11-25T02:00:00+01:00 (Europe/Berlin)"
    for now in ("2026-11-24T03:00:00+01:00", "2026-11-24T20:17:31.123456+00:00", "2026-11-25T01:59:59+01:00"):
        assert closed_until(windows, at(now)) == words
    assert closed_until(windows, at("2026-11-25T02:00:00+01:00")) is None


REMEDY = (
    ". Use existing values for minute, hour, day of the month, month and weekday, such as '0 2 * * 6' for Saturdays at "
    "two"
)


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({}, []),
        ({"schedule": "0 2 29 2 *", "timeZone": "US/Eastern"}, []),
        (
            {"schedule": "0 2 31 2 *"},
            [".schedule is not valid: '0 2 31 2 *' is not a schedule (bad day-of-month)" + REMEDY],
        ),
        (
            {"schedule": "0 2 31 4,6 *"},
            [".schedule is not valid: '0 2 31 4,6 *' is not a schedule (bad day-of-month)" + REMEDY],
        ),
        ({"schedule": "0 24 * * *"}, [".schedule is not valid: '0 24 * * *' is not a schedule (bad hour)" + REMEDY]),
        (
            {"timeZone": "Europe/Berln"},
            [
                ".timeZone is not valid: 'Europe/Berln' is not a time zone. Use a name of the IANA database, such as "
                "'Europe/Berlin' or 'UTC'"
            ],
        ),
        *(
            (
                {"timeZone": name},
                [f".timeZone is not valid: {name!r} is not a time zone. Use a name of the IANA database, such as"],
            )
            # A folder, what the machine is set to, another machine's word for that, a file that is no zone, other case.
            for name in ("America", "localtime", "Local", "leapseconds", "europe/berlin")
        ),
        (
            {"schedule": "0 2 31 2 *", "timeZone": "X/Y"},
            [".schedule is not valid: '0 2 31 2 *' is not", ".timeZone is not valid: 'X/Y' is not"],
        ),
    ],
)
def test_what_is_wrong_with_windows(fields: dict[str, str], problems: list[str]) -> None:
    each = window(fields.get("schedule", "0 2 * * 6"), 60, fields.get("timeZone", "UTC"))
    found = window_problems([window("0 3 * * *"), each])
    assert len(found) == len(problems)
    for said, wanted in zip(found, problems, strict=True):
        assert said.startswith(f"spec.maintenanceWindows[1]{wanted}")


def test_a_spec_with_a_window_that_never_opens_is_refused() -> None:
    never: dict[str, Any] = {"maintenanceWindows": [{"schedule": "0 2 31 2 *", "minutes": 60}]}
    (problem,) = spec_problems(distributed(**never))
    assert problem.startswith("spec.maintenanceWindows[0].schedule is not valid: '0 2 31 2 *' is not a schedule")
    alone = standalone().model_copy(update={"maintenance_windows": distributed(**never).maintenance_windows})
    assert spec_problems(alone) == [problem]


def test_images_have_time_zones_whatever_their_base() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert any(each.startswith("tzdata") for each in wanted)
    assert "\ntzdata==" in (ROOT / "requirements" / "runtime.txt").read_text()


@dataclass(frozen=True)
class Times:
    """Times on a clock: the minute, the hour, and the day of the week of each."""

    minutes: frozenset[int]
    hours: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""

    def schedule(self) -> str:
        """The same as cron."""
        minutes, hours, days = (",".join(map(str, sorted(each))) for each in (self.minutes, self.hours, self.weekdays))
        return f"{minutes} {hours} * * {days}"

    def __contains__(self, wall: datetime) -> bool:
        fits = wall.minute in self.minutes and wall.hour in self.hours
        return fits and wall.isoweekday() % 7 in self.weekdays


def openings(times: Times, zone: ZoneInfo, start: datetime, minutes: int) -> list[datetime]:
    """When a window opens, by a look at the clock every minute: at each time of it that was not seen before, and where
    the clock jumped over one, right after."""
    found = []
    seen: set[datetime] = set()
    last: datetime | None = None
    for n in range(minutes):
        moment = start + n * MINUTE
        wall = moment.astimezone(zone).replace(tzinfo=None, fold=0)
        passed = [wall]
        while last is not None and passed[-1] - MINUTE > last:
            passed.append(passed[-1] - MINUTE)
        if any(each in times and each not in seen for each in passed):
            found.append(moment)
        seen.update(passed)
        last = wall
    return found


def some(highest: int, most: int = 4) -> st.SearchStrategy[frozenset[int]]:
    """Some numbers."""
    return st.frozensets(st.integers(0, highest), min_size=1, max_size=most)


TIMES = st.builds(
    Times,
    some(59),
    # Around the hours in which clocks change more often than anywhere else.
    st.one_of(st.frozensets(st.integers(0, 4), min_size=1, max_size=5), some(23, 6)),
    st.one_of(st.just(frozenset(range(7))), some(6, 3)),
)
CHANGES = {
    "Europe/Berlin": ("2025-03-30", "2025-10-26", "2026-03-29", "2026-10-25"),
    "America/New_York": ("2025-03-09", "2025-11-02", "2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2025-04-06", "2025-10-05", "2026-04-05", "2026-10-04"),
}
DAYS = st.sampled_from(sorted(CHANGES)).flatmap(
    lambda name: st.tuples(
        st.just(ZoneInfo(name)),
        st.one_of(
            st.sampled_from(CHANGES[name]).map(datetime.fromisoformat),
            st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)).map(lambda t: datetime(t.year, t.month, t.day)),
        ),
    )
)


@settings(max_examples=60, deadline=None)
@given(times=TIMES, day=DAYS, minutes=st.one_of(st.integers(1, 90), st.integers(1, 1440)))
def test_by_every_minute(times: Times, day: tuple[ZoneInfo, datetime], minutes: int) -> None:
    """Over a day in its zone and some hours on both sides; looked at from the longest window before that."""
    zone, midnight = day
    windows = [window(times.schedule(), minutes, zone.key)]
    first = midnight.replace(tzinfo=zone).astimezone(UTC) - timedelta(hours=2)
    before, length = 1440 + 120, 29 * 60
    opened = openings(times, zone, first - before * MINUTE, before + length)
    moments = [first + n * MINUTE for n in range(length)]
    expected = [any(each <= now < each + minutes * MINUTE for each in opened) for now in moments]
    for n, now in enumerate(moments):
        # A minute of every few, and each before and after something changes.
        if n % 7 and len(set(expected[max(n - 1, 0) : n + 2])) == 1:
            continue
        assert is_open(windows, now) is expected[n], now
        assert is_open(windows, now.astimezone(zone)) is expected[n], "whatever zone the moment is in"
        if n % 35 == 0:
            assert (closed_until(windows, now) is None) is expected[n]
            following = next((each for each in opened if each > now), None)
            found = next_opening(windows, now)
            assert found == following if following is not None else found is not None and found > moments[-1]
