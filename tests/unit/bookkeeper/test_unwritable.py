"""Bookies that take nothing new although nobody removes them: why, since when, and whether ledgers can be made."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster_status import BookieStatus
from pulsar_operator.domain.bookkeeper.affinity import Widest
from pulsar_operator.domain.bookkeeper.read_only_bookies import (
    DiskLimits,
    ReadOnly,
    ReadOnlyBookies,
    begun,
    describe_bookie,
    describe_read_only,
    nearly,
    nearly_full,
    read_only,
    rows_of,
)
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.render.volumes import disk_shares
from tests.unit.render.test_render_volumes import keeper

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
THEN = "2026-03-01T11:00:00Z"
STOCK = DiskLimits(0.95, 0.95, 0.9)
FULL, UNKNOWN = Reason.DISKS_FULL, Reason.BOOKIE_READ_ONLY
FACTS = StorageFacts(frozenset("ab"), frozenset("cd"), frozenset("abcd"), UnderReplicated(0), "a", False)


@pytest.mark.parametrize(
    ("usage", "limits", "reason"),
    [
        (95, STOCK, FULL),
        (100, STOCK, FULL),
        (94, STOCK, FULL),  # within one: it looks every 10 s, and tells rounded
        (93, STOCK, UNKNOWN),
        (None, STOCK, UNKNOWN),
        (0, STOCK, UNKNOWN),
        (91, DiskLimits(0.95, 0.9, 0.9), FULL),  # still above the low-water mark
        (88, DiskLimits(0.95, 0.9, 0.9), UNKNOWN),
        (1, DiskLimits(0.01, 0.01, 0.01), FULL),
        (57, DiskLimits(0.57, 0.57, 0.5), FULL),
        (94, DiskLimits(0.99, 0.99, 0.9), UNKNOWN),
        (95, DiskLimits(0.95, 0.99, 0.9), FULL),  # a low-water mark above the limit is none
    ],
)
def test_why_a_bookie_is_read_only(usage: int | None, limits: DiskLimits, reason: Reason) -> None:
    found = {} if usage is None else {"c": usage}
    assert read_only(FACTS, {"a", "c"}, found, limits) == {"c": reason}


def test_those_of_others_and_those_that_take_entries_are_not_named() -> None:
    assert read_only(FACTS, {"a", "b"}, {"a": 99, "c": 99}, STOCK) == {}
    assert nearly(FACTS, {"a", "c"}, {"a": 91, "b": 99, "c": 99}, {}, STOCK) == {"a": 91}


@pytest.mark.parametrize(("usage", "told"), [(89, {}), (90, {"a": 90}), (96, {"a": 96})])
def test_it_is_told_before_it_comes_to_that(usage: int, told: dict[str, int]) -> None:
    assert nearly(FACTS, {"a", "b"}, {"a": usage}, {}, STOCK) == told
    text = nearly_full(ReadOnlyBookies(STOCK, nearly={"b": 91, "a": 93, "x": 90, "y": 90}))
    assert text == "These bookies are nearly full and become read-only at 95 %: a (93 %), b (91 %), x (90 %) and 1 more"


def test_a_percent_more_or_less_begins_and_ends_nothing() -> None:
    before = {"a": BookieStatus(id="a", state="Writable", usage=90)}
    assert nearly(FACTS, {"a"}, {"a": 89}, before, STOCK) == {"a": 90}
    before = {"a": BookieStatus(id="a", state="Writable", usage=89)}
    assert nearly(FACTS, {"a"}, {"a": 90}, before, STOCK) == {}


def test_full_disks_stay_the_cause_until_it_takes_entries_again() -> None:
    """They are emptied before the bookie notices, and a low limit may be taken back before it restarts."""
    before = BookieStatus(id="c", state="ReadOnly", usage=97, reason="DisksFull", since=THEN)
    (row,) = rows_of({"c": UNKNOWN}, {"c": 40}, {"c": before}, NOW)
    assert row == ReadOnly("c", FULL, 40, THEN)
    assert "were more than 95 % full (now 40 %)" in describe_bookie(row, STOCK)
    (row,) = rows_of({"c": UNKNOWN}, {"c": 40}, {"c": before.model_copy(update={"state": "Writable"})}, NOW)
    assert (row.reason, row.since) == (UNKNOWN, "2026-03-01T12:00:00Z")
    (row,) = rows_of({"c": FULL}, {"c": 97}, {"c": before.model_copy(update={"reason": "BookieReadOnly"})}, NOW)
    assert (row.reason, row.since) == (FULL, THEN)


def test_an_event_comes_once_for_each_cause() -> None:
    now = (ReadOnly("c", FULL, 97, THEN),)
    rows = {"c": BookieStatus(id="c", state="ReadOnly", reason="DisksFull")}
    assert begun(now, {}) == list(now)
    assert begun(now, rows) == []
    assert begun(now, {"c": rows["c"].model_copy(update={"reason": None})}) == list(now), "a step ended"
    assert begun((replace(now[0], reason=UNKNOWN),), {}) != []


@pytest.mark.parametrize(
    ("writable", "widest", "before", "short"),
    [
        (2, 3, False, True),
        (3, 3, True, False),
        (2, None, True, True),
        (2, None, False, False),
        (0, 1, False, True),
    ],
)
def test_whether_ledgers_can_be_made(writable: int, widest: int | None, before: bool, short: bool) -> None:
    size = None if widest is None else Widest(widest, "namespace shop/orders")
    fact = ReadOnlyBookies(STOCK, (ReadOnly("c", FULL, 97, THEN),), writable=writable, widest=size)
    assert fact.short(before) is short
    assert ("Namespace shop/orders requires" in describe_read_only(fact)) == (short and widest is not None)


def test_what_is_said_names_bookie_usage_time_and_remedy() -> None:
    full, other = ReadOnly("c", FULL, 97, THEN), ReadOnly("d", UNKNOWN, None, THEN)
    text = describe_read_only(ReadOnlyBookies(STOCK, (other, full), writable=3, widest=Widest(2, "the default")))
    for words in (
        "Bookie c",
        THEN,
        "more than 95 %",
        "97 %",
        "spec.bookkeeper.replicas",
        "Bookie d",
        "an unknown share",
    ):
        assert words in text, words
    assert ReadOnlyBookies(STOCK, (other, full)).reason is FULL
    assert ReadOnlyBookies(STOCK, (other,)).reason is UNKNOWN
    many = tuple(ReadOnly(f"b{n}", FULL, 97, THEN) for n in range(9))
    assert "b2" in describe_read_only(ReadOnlyBookies(STOCK, many)) and "(and 6 more)" in describe_read_only(
        ReadOnlyBookies(STOCK, many)
    )


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100)),
    st.sets(st.sampled_from("abcd")),
    st.floats(0.02, 0.98),
)
def test_a_bookie_is_in_one_list_at_most(usage: dict[str, int], candidates: set[str], limit: float) -> None:
    limits = DiskLimits(limit, limit, min(limit, 0.9))
    found, soon = read_only(FACTS, candidates, usage, limits), nearly(FACTS, candidates, usage, {}, limits)
    assert set(found) == FACTS.readonly & candidates
    assert not set(found) & set(soon) and set(soon) <= candidates & usage.keys()
    assert all(usage[each] >= 100 * limit - 1 for each, reason in found.items() if reason is FULL)


@pytest.mark.parametrize(
    ("config", "shares"),
    [
        ({}, (0.95, 0.95, 0.9)),
        ({"diskUsageThreshold": "0.92"}, (0.92, 0.92, 0.9)),
        ({"diskUsageThreshold": "0.92", "diskUsageLwmThreshold": "0.8"}, (0.92, 0.8, 0.9)),
        ({"diskUsageWarnThreshold": "0.7"}, (0.95, 0.95, 0.7)),
        ({"diskUsageThreshold": "much"}, (0.95, 0.95, 0.9)),
    ],
)
def test_the_limits_are_those_of_the_configuration(config: dict[str, str], shares: tuple[float, float, float]) -> None:
    assert disk_shares(keeper(**config), Preset.PRODUCTION) == shares
