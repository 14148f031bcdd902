"""Traffic hour by hour, as it repeats itself: what of a recording makes a profile, and what is in its gaps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_sizing.job.hours import BrokerHour, HourState
from pulsar_sizing.job.inventory import unit_of
from pulsar_sizing.job.profile import LONGEST_GAP, filled, profile

MONDAY = unit_of(datetime(2026, 3, 2, tzinfo=UTC))
ALWAYS = MONDAY + 10_000
"""An hour after all that is recorded."""
ROUNDS = 60


def hour(cost: float, rounds: int = ROUNDS, answered: float = 1.0, away: float = 0.0) -> HourState:
    """Brokers a and b, which carry three and one of four parts; a answered some of its samples, b was away for some."""
    of = {"a": (0.75, answered), "b": (0.25, 1.0 - away)}
    brokers = {
        name: BrokerHour(expected=rounds, answered=round(rounds * share), cost=round(cost * rounds * part * share))
        for name, (part, share) in of.items()
    }
    there = sum(each.answered for each in brokers.values())
    return HourState(
        digest="",
        samples=there,
        announced=there,
        cost=sum(each.cost for each in brokers.values()),
        expected=2 * rounds,
        answered=there,
        rounds=rounds,
        brokers=brokers,
    )


def level(unit: int) -> float:
    """Traffic of an hour: each of the week has its own."""
    return 1000.0 + (unit - MONDAY) % 168


def recorded(*units: range) -> dict[int, HourState]:
    return {unit: hour(level(unit)) for each in units for unit in each}


WEEK = range(MONDAY, MONDAY + 168)


def test_a_week_begins_with_monday_and_the_median_of_weeks_counts() -> None:
    found = profile(recorded(WEEK), ALWAYS, 0.8)
    assert found is not None
    assert (found.period, found.recorded, found.filled) == ("Week", 168, 0)
    assert found.hours == tuple(1000.0 + n for n in range(168))
    late = {unit + 3 * 24: each for unit, each in recorded(WEEK).items()}
    shifted = profile(late, ALWAYS, 0.8)
    assert shifted is not None and shifted.hours[3 * 24] == 1000.0, "recorded from Thursday on"
    hours = recorded(WEEK)
    for weeks, times in ((1, 1.0), (2, 1.0), (3, 9.0)):
        hours |= {unit + weeks * 168: hour(times * level(unit)) for unit in WEEK}
    again = profile(hours, ALWAYS, 0.8)
    assert again is not None and (again.hours, again.recorded) == (found.hours, 4 * 168), "one odd week is no rule"


@pytest.mark.parametrize(
    ("hours", "period", "filled_hours"),
    [
        (recorded(range(MONDAY, MONDAY + 47)), None, 0),
        (recorded(range(MONDAY, MONDAY + 48)), "Day", 0),
        (recorded(range(MONDAY, MONDAY + 134)), "Day", 0),
        (recorded(range(MONDAY, MONDAY + 144)), "Day", 0),  # enough of a week, but no Sunday
        (recorded(range(MONDAY, MONDAY + 165)), "Week", 3),
        (recorded(range(MONDAY, MONDAY + 164)), "Day", 0),
        (recorded(range(MONDAY + 2, MONDAY + 167)), "Week", 3),  # a gap over the end
        ({u: h for u, h in recorded(WEEK).items() if u % 24 not in (3, 4, 5)}, "Week", 21),
        ({u: h for u, h in recorded(WEEK).items() if u % 9 not in (0, 4)}, "Day", 0),  # seven of nine hours
        ({u: h for u, h in recorded(WEEK).items() if u % 24 in range(8, 20)}, None, 0),  # half a day each day
    ],
)
def test_what_makes_a_week_a_day_or_no_profile(
    hours: dict[int, HourState], period: str | None, filled_hours: int
) -> None:
    found = profile(hours, ALWAYS, 0.8)
    assert (found.period if found else None, found.filled if found else 0) == (period, filled_hours)
    if found is not None:
        assert found.recorded == len(hours)
        assert len(found.hours) == (168 if period == "Week" else 24)


def test_a_day_is_the_median_of_days() -> None:
    hours = {MONDAY + n: hour(1000.0 * (1 + n // 24) + n % 24) for n in range(72)}
    found = profile(hours, ALWAYS, 0.8)
    assert found is not None and found.hours == tuple(2000.0 + n for n in range(24))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(hour(10.0, answered=0.5), id="half of the large broker's samples"),
        pytest.param(hour(10.0, rounds=29), id="half an hour"),
        pytest.param(HourState(digest="", rounds=ROUNDS), id="nobody answered"),
        pytest.param(hour(10.0).model_copy(update={"samples": 60}), id="files that cannot be read"),
        pytest.param(hour(10.0).model_copy(update={"expected": 0}), id="no markers"),
    ],
)
def test_an_hour_of_which_too_little_is_there_is_missing(odd: HourState) -> None:
    hours = recorded(WEEK) | {MONDAY + 5: odd}
    found = profile(hours, ALWAYS, 0.8)
    assert found is not None and (found.filled, found.hours[5]) == (1, 1005.0)


def test_the_hour_that_it_is_counts_for_nothing() -> None:
    hours = recorded(WEEK) | {MONDAY + 168: hour(1.0)}
    now = profile(hours, MONDAY + 168, 0.8)
    over = profile(hours, MONDAY + 169, 0.8)
    assert now is not None and over is not None and (now.hours[0], over.hours[0]) == (1000.0, 500.0)


def test_an_absent_broker_is_made_up_for_and_an_hour_without_traffic_is_none() -> None:
    hours = recorded(WEEK)
    hours[MONDAY + 5] = hour(level(MONDAY + 5), away=1.0)
    quiet = {"samples": 0, "announced": 0, "cost": 0}
    silent = {name: each.model_copy(update={"cost": 0}) for name, each in hours[MONDAY + 9].brokers.items()}
    hours[MONDAY + 9] = hours[MONDAY + 9].model_copy(update=quiet | {"brokers": silent})
    found = profile(hours, ALWAYS, 0.5)
    assert found is not None
    assert (found.hours[5], found.hours[9], found.filled) == (1005.0, 0.0, 0)
    strict = profile(hours, ALWAYS, 0.8)
    assert strict is not None and strict.filled == 1, "half of the brokers are too few"


VALUES = st.lists(st.none() | st.floats(0, 1e12), min_size=2, max_size=60)


@given(VALUES)
def test_gaps_are_on_a_line_between_their_neighbours(values: list[float | None]) -> None:
    found = filled(values)
    many = len(values)
    twice = "".join("." if value is None else "x" for value in values) * 2
    if "." * (LONGEST_GAP + 1) in twice or "x" not in twice:
        assert found is None
        return
    assert found is not None and len(found) == many
    for at, value in enumerate(values):
        if value is not None:
            assert found[at] == value
        else:
            left = next(each for n in range(1, many + 1) if (each := values[(at - n) % many]) is not None)
            right = next(each for n in range(1, many + 1) if (each := values[(at + n) % many]) is not None)
            least, most = min(left, right), max(left, right)
            assert least * (1 - 1e-9) <= found[at] <= most * (1 + 1e-9)


@given(VALUES, st.integers(0, 59))
def test_where_the_circle_begins_is_no_matter(values: list[float | None], turn: int) -> None:
    turn %= len(values)
    one, other = filled(values), filled(values[turn:] + values[:turn])
    assert other == (None if one is None else pytest.approx(one[turn:] + one[:turn]))


def test_the_job_tells_the_profile_of_what_was_recorded(lab: Callable[..., Any]) -> None:
    """60 hours, of which one has no files and one has those of one broker alone."""
    one = lab()
    one.record(0, 60, days=3, topics=6, interval_seconds=1800)
    gone, half = (f"day=2026-03-0{day}/hour={hour:02d}" for day, hour in ((3, 5), (4, 7)))
    for path in [*one.files(), *one.files("markers")]:
        if gone in str(path) or (half in str(path) and "broker-1" in path.name and "/traffic/" in str(path)):
            path.unlink()
    found = one.run(datetime(2026, 3, 4, 11, 17, tzinfo=UTC), window_days=2).result
    assert found.profile is not None
    assert (found.profile.period, found.profile.recorded, found.profile.filled) == ("Day", 59 - 2, 0)
    model, costs = CostModel(), dict[datetime, int]()
    for path in one.files():
        for row in pq.ParquetFile(path).read().to_pylist():
            load = Load(
                row["messages_in"],
                row["messages_out"],
                row["bytes_in"],
                row["bytes_out"],
                1,
                row["producers"] + row["consumers"],
            )
            time = row["sample_time"].replace(minute=0, second=0, microsecond=0)
            costs[time] = costs.get(time, 0) + int(model.cost(load) + 0.5)
    early = [costs[datetime(2026, 3, day, 5, tzinfo=UTC)] for day in (2, 4)]
    assert found.profile.hours[5] == pytest.approx(sum(early) / 2 / 2, abs=1), "two rounds an hour, two days"
    days = [costs[datetime(2026, 3, day, 9, tzinfo=UTC)] for day in (2, 3, 4)]
    assert found.profile.hours[9] == pytest.approx(sorted(days)[1] / 2, abs=1)
    assert found.from_time == datetime(2026, 3, 3, tzinfo=UTC), "the day before the window is in the profile alone"
    assert one.run(window_days=1).result.profile is None, "34 hours"


@pytest.mark.parametrize("joins", [True, False], ids=["joins", "dies"])
def test_a_broker_that_was_away_for_a_minute_makes_no_hour_busy(joins: bool) -> None:
    """One that registers at the end of an hour before it answers, or is registered a little longer than it lives. Its
    traffic is on the others in the rest of the hour, and is there already."""
    full = {"a": BrokerHour(expected=ROUNDS, answered=ROUNDS, cost=500 * ROUNDS)}
    full["b"] = BrokerHour(expected=ROUNDS, answered=ROUNDS, cost=500 * ROUNDS)
    hours = {unit: _of(full) for unit in WEEK}
    third = {name: each.model_copy(update={"cost": 333 * ROUNDS}) for name, each in full.items()}
    third["c"] = BrokerHour(expected=ROUNDS, answered=ROUNDS, cost=334 * ROUNDS)
    for unit in range(MONDAY + 10, MONDAY + 18):
        hours[unit] = _of(third)
    odd = MONDAY + (9 if joins else 18)
    hours[odd] = _of(full | {"c": BrokerHour(expected=1, answered=0)})
    found = profile(hours, ALWAYS, 0.8)
    assert found is not None and found.filled == 0
    assert found.hours[odd - MONDAY] == pytest.approx(1000, rel=0.01)
    hours[odd] = _of(third | {"c": BrokerHour(expected=ROUNDS, answered=0)})
    whole = profile(hours, ALWAYS, 0.6)
    assert whole is not None and whole.hours[odd - MONDAY] == pytest.approx(1000, rel=0.01), "away all the hour"


def _of(brokers: dict[str, BrokerHour]) -> HourState:
    """An hour of some brokers."""
    cost, answered = sum(each.cost for each in brokers.values()), sum(each.answered for each in brokers.values())
    expected = sum(each.expected for each in brokers.values())
    return HourState(
        digest="",
        samples=answered,
        announced=answered,
        cost=cost,
        expected=expected,
        answered=answered,
        rounds=ROUNDS,
        brokers=brokers,
    )
