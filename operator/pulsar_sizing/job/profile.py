"""What the cluster carries hour by hour, as it repeats itself: from the sums that Spark made of each hour.

An hour of which too little is there is missing, not zero. A profile is made of a week, or of a day where not enough of
a week is there; of several days or weeks the median counts, so that one holiday or one accident is no rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Final, Literal

from pulsar_operator.balance.sizing.result import HOURS, TrafficProfile
from pulsar_sizing.job.hours import HourState, completeness
from pulsar_sizing.job.weights import whole_costs

LEAST_RECORDED: Final = 48
"""Hours; of a single day it is not known what repeats itself."""
LEAST_THERE: Final = 0.8
"""Share of the hours of a period of which something must be recorded."""
LONGEST_GAP: Final = 3
"""Maximum consecutive hours that may be missing: over a longer time traffic changes."""
LEAST_ROUNDS: Final = 0.5
"""Share of the usual rounds that an hour must have: one that is not over, or half of which the collector was away, may
be any part of it."""
MONDAY: Final = 96
"""Hours from 1970, which began on a Thursday, to the first Monday."""


def profile(hours: Mapping[int, HourState], now: int, min_completeness: float) -> TrafficProfile | None:
    """The profile of some hours, by hours since 1970; None where too little is there.

    `now` is the hour that it is, which and those to come count for nothing; of an hour at least `min_completeness` must
    be there.
    """
    over = {unit: hour for unit, hour in hours.items() if unit < now and hour.rounds}
    usual = median(hour.rounds for hour in over.values()) if over else 0
    costs = {
        unit: cost / over[unit].rounds
        for unit, cost in whole_costs(over).items()
        if over[unit].rounds >= LEAST_ROUNDS * usual and completeness((over[unit],)) >= min_completeness
    }
    if len(costs) < LEAST_RECORDED:
        return None
    return _repeated(costs, "Week") or _repeated(costs, "Day")


def _repeated(costs: Mapping[int, float], period: Literal["Day", "Week"]) -> TrafficProfile | None:
    many = HOURS[period]
    by_hour: dict[int, list[float]] = {}
    for unit, cost in costs.items():
        by_hour.setdefault((unit - MONDAY) % many, []).append(cost)
    if len(by_hour) < LEAST_THERE * many:
        return None
    values = [median(by_hour[hour]) if hour in by_hour else None for hour in range(many)]
    found = filled(values)
    if found is None:
        return None
    hours = tuple(float(round(value)) for value in found)
    return TrafficProfile(period=period, hours=hours, recorded=len(costs), filled=many - len(by_hour))


def filled(values: Sequence[float | None]) -> list[float] | None:
    """Interpolates missing values of a circle from adjacent ones; None if more than LONGEST_GAP consecutive values are
    missing, or all."""
    many = len(values)
    first = next((at for at, value in enumerate(values) if value is not None), None)
    if first is None:
        return None
    # From a value that is there, around to it again: no gap goes over the end.
    places = [(first + n) % many for n in range(many + 1)]
    if any(there is False and len(list(run)) > LONGEST_GAP for there, run in groupby(_there(values, places))):
        return None
    found = [0.0] * many
    known = [n for n, place in enumerate(places) if values[place] is not None]
    for left, right in pairwise(known):
        begin, end = values[places[left]], values[places[right]]
        assert begin is not None and end is not None
        for n in range(left, right):
            found[places[n]] = begin + (end - begin) * (n - left) / (right - left)
    return found


def _there(values: Sequence[float | None], places: Sequence[int]) -> list[bool]:
    return [values[place] is not None for place in places]
