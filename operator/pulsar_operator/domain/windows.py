"""Maintenance windows: whether one is open, when the next one opens, and what is wrong with them.

A schedule is read as wall-clock time in its time zone and mapped to moments by three rules:

* A time that the clocks skip (the gap when daylight saving time begins) opens the window at the first moment after the
  gap. No window is lost to the gap, and every valid schedule opens.
* A time that occurs twice (when daylight saving time ends) opens the window once, the first time.
* A window stays open for its minutes of elapsed time, even if the clocks change in between. Windows overlap if their
  openings are closer together than their length.

Time zones are those of the IANA database as ``zoneinfo`` finds it: the system's, otherwise the package tzdata. This is
data that is installed with the program, and the only data read here. All functions except ``window_problems`` raise
ValueError for invalid windows. ``now`` is a time with any time zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from pulsar_operator.api.v1alpha1.rolling import MaintenanceWindow
from pulsar_operator.domain.cron import Schedule

_SECOND = timedelta(seconds=1)


def is_open(windows: Sequence[MaintenanceWindow], now: datetime) -> bool:
    """Whether a window is open. Always true without windows. A window is open from its opening until its minutes have
    passed, excluding the end."""
    return not windows or any(_is_open(window, now) for window in windows)


def next_opening(windows: Sequence[MaintenanceWindow], now: datetime) -> datetime | None:
    """Returns the first time after now at which a window opens, in UTC. None without windows, or if none opens within
    fifty years."""
    return min((opening for opening, _ in _openings(windows, now)), default=None)


def closed_until(windows: Sequence[MaintenanceWindow], now: datetime) -> str | None:
    """Returns the window that is waited for as a message that stays the same until it opens. None if a window is open
    or there are none."""
    if is_open(windows, now):
        return None
    found = min(_openings(windows, now), key=lambda each: each[0], default=None)
    if found is None:
        return "a maintenance window, but none opens within the next fifty years"
    opening, window = found
    local = opening.astimezone(_zone(window.time_zone)).isoformat(timespec="seconds")
    return f"the maintenance window that opens {local} ({window.time_zone})"


def window_problems(windows: Sequence[MaintenanceWindow]) -> list[str]:
    """Returns the problems of the windows, one sentence each with field, value and remedy: invalid schedules, schedules
    that never occur, and unknown time zones."""
    found = []
    for number, window in enumerate(windows):
        field = f"spec.maintenanceWindows[{number}]"
        try:
            Schedule.parse(window.schedule)
        except ValueError as error:
            found.append(f"{field}.schedule is not valid: {error}")
        try:
            _zone(window.time_zone)
        except ValueError as error:
            found.append(f"{field}.timeZone is not valid: {error}")
    return found


def _openings(windows: Sequence[MaintenanceWindow], now: datetime) -> list[tuple[datetime, MaintenanceWindow]]:
    found = ((_opens_after(window, now), window) for window in windows)
    return [(opening, window) for opening, window in found if opening is not None]


def _is_open(window: MaintenanceWindow, now: datetime) -> bool:
    """Whether a window is open now: its first opening after the time that is the window's minutes ago is not in the
    future."""
    opening = _opens_after(window, now.astimezone(UTC) - timedelta(minutes=window.minutes))
    return opening is not None and opening <= now


def _opens_after(window: MaintenanceWindow, moment: datetime) -> datetime | None:
    """Returns the first opening after the moment. Times are compared in UTC, since Python compares times of one zone by
    their wall-clock time, which is wrong when clocks change.

    The schedule computes in UTC. It is called with wall-clock times labelled as UTC and returns such times.
    """
    schedule, zone = Schedule.parse(window.schedule), _zone(window.time_zone)
    wall = schedule.next_after(moment.astimezone(zone).replace(tzinfo=UTC, fold=0))
    while wall is not None:
        opening = _moment(wall.replace(tzinfo=None), zone)
        # In an hour that comes the second time, the wall-clock times that follow were before.
        if opening > moment:
            return opening
        wall = schedule.next_after(wall)
    return None


def _moment(wall: datetime, zone: ZoneInfo) -> datetime:
    """Returns the first moment of a wall-clock time, in UTC. For a skipped time, returns the first moment after the
    gap."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == wall:
        return first
    # In a gap, fold 0 is read with the offset before it, fold 1 with the one after it (PEP 495): the clocks change
    # between the two moments.
    before, after = wall.replace(tzinfo=zone, fold=1).astimezone(UTC), first
    offset = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // (2 * _SECOND) * _SECOND
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def _zone(name: str) -> ZoneInfo:
    """Returns a time zone. Raises ValueError with value and remedy for a name that the database does not have."""
    try:
        if name == "localtime":
            # A file beside the database: whatever the machine of the operator is set to.
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # OSError: America and others are folders
        raise ValueError(
            f"{name!r} is not a time zone. Use a name of the IANA database, such as 'Europe/Berlin' or 'UTC'"
        ) from None
