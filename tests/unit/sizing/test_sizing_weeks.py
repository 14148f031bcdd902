"""Twenty recorded weeks: the job finds in each what it found when the expected documents were made.

They were made by the job before it wrote tables, and no field differs. Changes that are intended, see docs/sizing.md
("Differences"): namespaces have caps, so that weights, and what follows from them, are compared without and then with
them; and three that show in no week: files that an older collector's compaction replaced count as duplicates while they
linger (the week "compacted" has none left), cost factors are learned from the newest 14 days of a longer window, and
topics that no busy hour has count for the whole window. The reasons have been reworded in the documents since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsar_sizing.job.inventory import UNREADABLE, WRONG_SCHEMA
from pulsar_sizing.job.landing import REASONS
from tests.support.sizing_found import document, expected, found_in, run, same
from tests.support.sizing_weeks import WEEKS, Week

WEIGHED = ("namespaces", "partitions", "brokers", "verdict", "balance")
"""Fields of a result that follow from weights."""
SAMPLE = WEEKS[::3]
"""Weeks of ``make test``; each takes ten seconds."""


@pytest.mark.parametrize("week", SAMPLE, ids=lambda week: week.name)
def test_a_week_gives_the_result_that_was_recorded(spark: Any, tmp_path: Path, week: Week) -> None:
    assert same(found_in(spark, week, tmp_path), expected()[week.name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("week", [week for week in WEEKS if week not in SAMPLE], ids=lambda week: week.name)
def test_all_other_weeks(spark: Any, tmp_path: Path, week: Week) -> None:
    """The same, by ``make weeks``."""
    assert same(found_in(spark, week, tmp_path), expected()[week.name]) == []


@pytest.mark.parametrize("week", WEEKS[::5], ids=lambda week: week.name)
def test_caps_change_weights_alone(spark: Any, tmp_path: Path, week: Week) -> None:
    """Weights, and what follows from them; a namespace and a topic weigh less than without caps, or as much."""
    wanted = expected()[week.name]
    found = document(week.play(tmp_path, lambda: run(spark, week, tmp_path)).result, (), None, {})["result"]
    assert {*found, *WEIGHED} == {*wanted["result"]}
    assert [text for key in found if key not in WEIGHED for text in same(found[key], wanted["result"][key], key)] == []
    pairs = list(zip(found["namespaces"], wanted["result"]["namespaces"], strict=True))
    for one, other in pairs:
        assert one["namespace"] == other["namespace"]
        assert 0 <= one["weight"] <= other["weight"] and one["hottestWeight"] <= other["hottestWeight"]
        assert one["boundariesNow"] == other["boundariesNow"]
    assert sum(each["weight"] for each in found["brokers"]) <= sum(
        each["weight"] for each in wanted["result"]["brokers"]
    )


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
