"""What brokers foresee: from a sizing result to a profile on their clock, and what is said where there is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pulsar_operator.balance.autoscaling.forecast import growth
from pulsar_operator.balance.autoscaling.outlook import NO_PROFILE, Outlook, Read, foreseen, outlook_of, profile_of
from pulsar_operator.balance.autoscaling.values import HotTopic
from pulsar_operator.balance.sizing.result import HottestTopic, SizingResult, TrafficProfile

DATA = Path(__file__).parent / "data"
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
OLD: dict[str, Any] = json.loads((DATA / "result_without_profile.json").read_text())
"""As the job wrote it that knew no profile."""


def traffic(*hours: float) -> TrafficProfile:
    return TrafficProfile(period="Day" if len(hours) == 24 else "Week", hours=hours, recorded=len(hours))


DAY = traffic(*(1000.0 + n for n in range(24)))
WEEK = traffic(*(1000.0 + n for n in range(168)))


@pytest.mark.parametrize("profile", [DAY, WEEK])
@given(hour=st.integers(0, 24 * 40))
def test_an_hour_stands_for_its_middle(profile: TrafficProfile, hour: int) -> None:
    middle = MONDAY + timedelta(hours=hour, minutes=30)
    many = len(profile.hours)
    found = profile_of(profile)
    assert found.at(middle.timestamp()) == pytest.approx(profile.hours[hour % many])
    beside = (profile.hours[hour % many] + profile.hours[(hour + 1) % many]) / 2
    assert found.at((middle + timedelta(minutes=30)).timestamp()) == pytest.approx(beside)


@given(
    hours=st.lists(st.floats(1.0, 1e9), min_size=24, max_size=24),
    second=st.integers(0, 14 * 86400),
    ahead=st.integers(0, 7200),
)
def test_the_peak_is_the_most_of_all_that_comes(hours: list[float], second: int, ahead: int) -> None:
    profile, begin = profile_of(traffic(*hours)), MONDAY.timestamp() + second
    peak = profile.peak(begin, ahead)
    points = [profile.at(begin + n) for n in range(0, ahead + 1, 60)]
    assert peak >= max(points) * (1 - 1e-9)
    middles = [t for t in range(int(begin), int(begin) + ahead + 1) if t % 3600 == 1800]
    most = max([profile.at(begin), profile.at(begin + ahead), *(profile.at(each) for each in middles)])
    assert peak == pytest.approx(most)


def test_growth_before_a_recorded_peak() -> None:
    """From 100 in the hour of eight to 200 in that of nine: 150 at nine o'clock, 175 a quarter of an hour later."""
    profile = profile_of(traffic(*([100.0] * 9), 200.0, *([100.0] * 14)))
    nine = (MONDAY + timedelta(hours=9)).timestamp()
    assert growth(profile, nine, 900.0) == pytest.approx(175 / 150)
    assert growth(profile, nine - 1800, 900.0) == pytest.approx(1.25)
    assert growth(profile, nine - 2700, 900.0) == pytest.approx(1.0)
    assert growth(profile, nine + 1800, 3600.0) == pytest.approx(1.0), "the middle of the hour is its top"


@pytest.mark.parametrize(
    ("period", "hours", "words"),
    [
        ("Day", [1.0] * 23, "a Day has 24 hours, not 23"),
        ("Week", [1.0] * 24, "a Week has 168 hours, not 24"),
        ("Week", [1.0] * 169, "at most 168"),
        ("Month", [1.0] * 24, "Day"),
        ("Day", [-1.0] + [1.0] * 23, "greater than or equal to 0"),
        ("Day", [float("nan")] + [1.0] * 23, "finite"),
    ],
)
def test_what_no_traffic_can_be_is_no_result(period: str, hours: list[float], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SizingResult.model_validate(OLD | {"profile": {"period": period, "hours": hours, "recorded": 1}})


def test_results_of_older_jobs_are_read_and_older_operators_read_new_ones() -> None:
    """The version stays: what is new may be absent, and what was there stays as it was."""
    old = SizingResult.model_validate(OLD)
    assert (old.profile, old.verdict.hottest) == (None, None)
    assert outlook_of(old) == Outlook(old.to_time.timestamp())
    hot = HottestTopic(topic="persistent://t/n/hot", weight=9.0, carries=8.0, target=0.7)
    verdict = old.verdict.model_copy(update={"hottest": hot})
    new = old.model_copy(update={"profile": WEEK, "verdict": verdict})
    stored = json.loads(new.model_dump_json(by_alias=True))
    assert SizingResult.model_validate(stored) == new
    assert outlook_of(new).hottest == HotTopic("persistent://t/n/hot", 9.0, 8.0, 0.7)
    del stored["profile"], stored["verdict"]["hottest"]
    assert stored == OLD
    later = SizingResult.model_validate(OLD | {"of a later job": {"a": 1}})
    assert later == old, "operators ignore what they do not know"


PROFILE, HOT = profile_of(DAY), HotTopic("persistent://t/n/hot", 9.0, 8.0, 0.7)
NOW = MONDAY.timestamp()


@pytest.mark.parametrize(
    ("read", "counts", "age", "words"),
    [
        (Read(Outlook(NOW - 60, PROFILE, HOT)), True, 60.0, ""),
        (Read(Outlook(NOW + 1800, PROFILE, HOT)), True, 0.0, ""),  # it ends with the hour that it is
        (Read(Outlook(NOW + 90000, PROFILE, HOT)), True, 0.0, ""),  # a collector whose clock ran ahead within the day
        (
            Read(Outlook(NOW + 90001, PROFILE, HOT)),
            False,
            None,
            "There is no forecast, because recorded traffic ends 25.0 h in the future",
        ),
        (Read(Outlook(NOW + 3e11, PROFILE, HOT), "away"), False, None, "the operator is wrong; away"),
        (Read(Outlook(NOW - 3600, PROFILE, HOT)), True, 3600.0, ""),
        (
            Read(Outlook(NOW - 3601, PROFILE, HOT)),
            False,
            3601.0,
            "There is no forecast, because recorded traffic ended 1.0 h ago",
        ),
        (Read(Outlook(NOW - 7200, PROFILE, HOT), "away"), False, 7200.0, "(3600); away"),
        (
            Read(Outlook(NOW - 60, PROFILE, HOT), "away"),
            True,
            60.0,
            "The forecast is from an earlier read, because away",
        ),
        (Read(Outlook(NOW - 60, None, HOT)), False, 60.0, f"There is no forecast, because {NO_PROFILE}"),
        (Read(None, "away"), False, None, "There is no forecast, because away"),
        (Read(), False, None, "There is no forecast, because no sizing result has been read yet"),
    ],
)
def test_what_counts_and_what_is_said(read: Read, counts: bool, age: float | None, words: str) -> None:
    found = foreseen(read, NOW, 3600.0)
    assert (found.profile is not None, found.age) == (counts, age)
    assert words in found.message and bool(found.message) == bool(words)
    fresh = read.outlook is not None and age is not None and age <= 3600
    assert (found.hottest is not None) == fresh, "a topic that was hot needs no profile"
