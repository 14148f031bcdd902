"""Twenty recorded weeks: the job finds in each what it found when the expected documents were made.

They were made by the job before it wrote tables, and no field differs. Two changes are intended and show in none of
them: files that an older collector's compaction replaced count as duplicates while they linger (the week "compacted"
has none left), and cost factors are learned from the newest 14 days of a longer window. Two sentences
have been reworded in the documents since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsar_sizing.job.inventory import UNREADABLE, WRONG_SCHEMA
from pulsar_sizing.job.landing import REASONS
from tests.support.sizing_found import expected, found_in, same
from tests.support.sizing_weeks import WEEKS, Week


@pytest.mark.parametrize("week", WEEKS, ids=[week.name for week in WEEKS])
def test_a_week_gives_the_result_that_was_recorded(spark: Any, tmp_path: Path, week: Week) -> None:
    assert same(found_in(spark, week, tmp_path), expected()[week.name]) == []


def test_the_weeks_show_everything_that_sizing_handles() -> None:
    found = expected()
    assert list(found) == sorted(week.name for week in WEEKS)
    assert len(found) == 20
    results = [each["result"] for each in found.values()]
    rejected = {reason for result in results for reason in result["rejected"]}
    assert rejected == {*REASONS, UNREADABLE, WRONG_SCHEMA, "row_duplicate"}
    assert {result["profile"] and result["profile"]["period"] for result in results} == {"Week", "Day", None}
    assert any(result["profile"]["filled"] for result in results if result["profile"])
    assert {bool(result["cost"] and result["cost"]["factors"]) for result in results} == {True, False}
    assert {bool(result["partitions"]) for result in results} == {True, False}
    assert {bool(result["namespaces"]) for result in results} == {True, False}, "one week has too little traffic"
    assert any(len({broker["capacity"] for broker in result["brokers"]}) > 1 for result in results)
    cuts = [len(each["boundaries"]) - 1 - each["bundlesNow"] for result in results for each in result["namespaces"]]
    assert max(cuts) > 0
    above = [each["minutes"] for each in found.values() if each["minutes"]]
    for side in ("now", "recommended"):
        assert any(minutes for each in above for minutes in each[side].values())
    assert len({tuple(each["busyHours"]) for each in found.values()}) > 3


def test_a_difference_is_found() -> None:
    wanted: dict[str, Any] = {"a": [1, 2.0, "x"], "b": None}
    assert same({"a": [1, 2.0 * (1 + 1e-12), "x"], "b": None}, wanted) == []
    for other in (
        {"a": [1, 2.0 + 1e-6, "x"], "b": None},
        {"a": [1.0, 2.0, "x"], "b": None},
        {"a": [1, 2.0], "b": None},
    ):
        assert same(other, wanted), other
    assert same({"a": [1, 2.0, "x"]}, wanted) == [": fields ['a'], not ['a', 'b']"]
