"""What a sizing result says of the hours to come, as far as decisions on brokers use it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.values import HotTopic
from pulsar_operator.balance.sizing.result import SizingOutlook, TrafficProfile, ahead_in_words

HOUR: Final = 3600.0
MONDAY: Final = 4 * 24 * HOUR
"""The first one of the epoch, which began on a Thursday."""
NO_PROFILE: Final = "the sizing result has no profile: too little was recorded, or by a job that made none"


@dataclass(frozen=True)
class Outlook:
    """One result."""

    until: float
    """Second of the epoch at which what was recorded ends."""
    profile: Profile | None = None
    hottest: HotTopic | None = None


@dataclass(frozen=True)
class Read:
    """What is known of the recorded traffic of a cluster."""

    outlook: Outlook | None = None
    """None = nothing."""
    problem: str = ""
    """Why the last attempt to read it failed."""


@dataclass(frozen=True)
class Foreseen:
    """What a decision takes of it."""

    profile: Profile | None = None
    hottest: HotTopic | None = None
    age: float | None = None
    """Seconds since the end of what was recorded; None = there is no record."""
    message: str = ""
    """What there is to say of a forecast that is absent, or of one that was not read lately."""


def profile_of(traffic: TrafficProfile) -> Profile:
    """The profile on the clock of decisions, in seconds of the epoch: what an hour carries stands for its middle."""
    return Profile(HOUR, traffic.hours, (MONDAY if traffic.period == "Week" else 0.0) + HOUR / 2)


def outlook_of(result: SizingOutlook) -> Outlook:
    """What is kept of a result."""
    hot = result.verdict.hottest
    return Outlook(
        result.to_time.timestamp(),
        None if result.profile is None else profile_of(result.profile),
        None if hot is None else HotTopic(hot.topic, hot.weight, hot.carries, hot.target),
    )


def foreseen(read: Read, now: float, max_age: float) -> Foreseen:
    """What counts now: nothing of a record that ends longer ago than ``max_age`` seconds, or long from now."""
    found = read.outlook
    if found is None:
        return Foreseen(message=f"no forecast: {read.problem or 'nothing was read yet'}")
    ahead = ahead_in_words(found.until - now)
    if ahead is not None:
        return Foreseen(message="; ".join(filter(None, (f"no forecast: recorded traffic {ahead}", read.problem))))
    # A result ends with the hour in which it is made.
    age = max(now - found.until, 0.0)
    if age > max_age:
        why = f"recorded traffic ends {age / HOUR:.1f} h ago, more than forecast.sizing.maxAgeSeconds ({max_age:.0f})"
        return Foreseen(age=age, message="; ".join(filter(None, (f"no forecast: {why}", read.problem))))
    if found.profile is None:
        return Foreseen(None, found.hottest, age, f"no forecast: {NO_PROFILE}")
    kept = f"the forecast is from an earlier look: {read.problem}" if read.problem else ""
    return Foreseen(found.profile, found.hottest, age, kept)
