"""Forecast of a sizing result, in the form that decisions on brokers use. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.values import HotTopic
from pulsar_operator.balance.sizing.result import SizingOutlook, TrafficProfile, clock_problem

HOUR: Final = 3600.0
MONDAY: Final = 4 * 24 * HOUR
"""The first Monday of the epoch, which began on a Thursday, in seconds."""
NO_PROFILE: Final = (
    "the sizing result has no traffic profile, because too little was recorded or an older job wrote the result"
)


@dataclass(frozen=True)
class Outlook:
    """The parts of one sizing result that are kept."""

    until: float
    """End of the record, in seconds since the epoch."""
    profile: Profile | None = None
    hottest: HotTopic | None = None


@dataclass(frozen=True)
class Read:
    """The recorded traffic of a cluster, as last read."""

    outlook: Outlook | None = None
    """None if nothing was read."""
    problem: str = ""
    """Why the last attempt to read it failed."""


@dataclass(frozen=True)
class Foreseen:
    """The part that a decision uses."""

    profile: Profile | None = None
    hottest: HotTopic | None = None
    age: float | None = None
    """Seconds since the end of the record; None if there is no record."""
    message: str = ""
    """Message about a forecast that is missing, or was not read recently."""


def profile_of(traffic: TrafficProfile) -> Profile:
    """Returns the profile on the clock of decisions, in seconds since the epoch. The value of an hour applies to its
    middle."""
    return Profile(HOUR, traffic.hours, (MONDAY if traffic.period == "Week" else 0.0) + HOUR / 2)


def outlook_of(result: SizingOutlook) -> Outlook:
    """Returns the parts of a result that are kept."""
    hot = result.verdict.hottest
    return Outlook(
        result.to_time.timestamp(),
        None if result.profile is None else profile_of(result.profile),
        None if hot is None else HotTopic(hot.topic, hot.weight, hot.carries, hot.target),
    )


def foreseen(read: Read, now: float, max_age: float) -> Foreseen:
    """Returns the current forecast; none if the record ended more than ``max_age`` seconds ago, or ends in the
    future."""
    found = read.outlook
    if found is None:
        return Foreseen(message=f"There is no forecast, because {read.problem or 'no sizing result has been read yet'}")
    ahead = clock_problem(found.until - now)
    if ahead is not None:
        return Foreseen(
            message="; ".join(filter(None, (f"There is no forecast, because recorded traffic {ahead}", read.problem)))
        )
    # A result ends with the hour in which it is made.
    age = max(now - found.until, 0.0)
    if age > max_age:
        why = (
            f"recorded traffic ended {age / HOUR:.1f} h ago, which is more than forecast.sizing.maxAgeSeconds "
            f"({max_age:.0f})"
        )
        return Foreseen(
            age=age, message="; ".join(filter(None, (f"There is no forecast, because {why}", read.problem)))
        )
    if found.profile is None:
        return Foreseen(None, found.hottest, age, f"There is no forecast, because {NO_PROFILE}")
    kept = f"The forecast is from an earlier read, because {read.problem}" if read.problem else ""
    return Foreseen(found.profile, found.hottest, age, kept)
