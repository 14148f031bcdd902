"""When drift that comes back is repaired: the table, and what holds for every history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.logical import DriftEntry, RepairRecord
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.logical.drift_backoff import (
    FREE,
    MAX_RECORDS,
    SETTLE,
    WAITS,
    WINDOW,
    backed_off_entries,
    backed_off_fields,
    counted,
    due,
    explain,
    known,
    settled,
    wait_after,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def record(
    times: int, *, ago: timedelta = timedelta(), field: str = "permissions", since: str | None = None
) -> RepairRecord:
    """A field that was repaired so often, the last time so long before START."""
    return RepairRecord(field=field, times=times, last_time=timestamp(START - ago), backed_off_since=since)


@pytest.mark.parametrize(("times", "minutes"), [(0, 0), (1, 0), (2, 5), (3, 15), (4, 60), (5, 60), (1000, 60)])
def test_how_long_the_next_repair_waits(times: int, minutes: int) -> None:
    assert wait_after(times) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("times", "ago", "unseen", "held"),
    [
        (1, 0 * SECOND, False, False),  # the second one is made at once
        (2, 0 * SECOND, False, True),
        (2, 5 * MINUTE - SECOND, False, True),
        (2, 5 * MINUTE, False, False),
        (3, 5 * MINUTE, False, True),
        (3, 15 * MINUTE, False, False),
        (9, 15 * MINUTE, False, True),
        (9, HOUR, False, False),
        (9, 5 * SECOND, True, False),  # the same repair, not visible yet
        (9, SETTLE, True, True),
        (9, 5 * SECOND, False, True),
    ],
)
def test_what_is_held_back(times: int, ago: timedelta, unseen: bool, held: bool) -> None:
    found = backed_off_fields([record(times, ago=ago), record(1, field="bundles")], START, unseen=unseen)
    assert found == ({"permissions"} if held else set())


@pytest.mark.parametrize(
    ("before", "unseen", "wrong", "times"),
    [
        (None, False, False, 1),
        ((1, 0 * SECOND), False, False, 2),
        ((1, 59 * MINUTE), False, False, 2),
        ((4, WINDOW), False, False, 1),  # nobody saw it wrong: it stayed right for the window
        ((4, WINDOW), False, True, 5),  # it waited for its repair all the time
        ((4, 24 * HOUR), False, True, 5),  # also while no operator ran
        ((1, 5 * SECOND), True, False, 1),  # the same repair again
        ((1, SETTLE), True, False, 2),
    ],
)
def test_what_counts(before: tuple[int, timedelta] | None, unseen: bool, wrong: bool, times: int) -> None:
    records = [record(before[0], ago=before[1], since="2025-12-31T00:00:00Z")] if before else []
    after = counted(records, {"permissions"}, START, unseen=unseen, wrong={"permissions"} if wrong else set())
    assert [(r.field, r.times) for r in after] == [("permissions", times)]
    forgotten = before is None or (times == 1 and not unseen)
    assert (after[0].backed_off_since is None) is forgotten
    same = unseen and before is not None and before[1] < SETTLE
    assert after[0].last_time == (records[0].last_time if same else timestamp(START))


@pytest.mark.parametrize(
    ("ago", "wrong", "kept"),
    [(WINDOW - SECOND, False, True), (WINDOW, False, False), (WINDOW, True, True), (30 * HOUR, True, True)],
)
def test_what_is_forgotten(ago: timedelta, wrong: bool, kept: bool) -> None:
    after = settled([record(3, ago=ago)], set(), {"permissions"} if wrong else set(), START)
    assert bool(after) is kept
    assert all(r.backed_off_since is None for r in after)


def test_the_first_wait_is_noted_once() -> None:
    (first,) = settled([record(2)], {"permissions"}, {"permissions"}, START)
    assert first.backed_off_since == timestamp(START)
    (later,) = settled([first], {"permissions"}, {"permissions"}, START + MINUTE)
    assert later == first


@pytest.mark.parametrize("last", ["2026-01-01T00:01:00Z", "2040-01-01T00:00:00Z", "yesterday", "2025-12-31T00:00:00"])
def test_a_record_of_the_future_or_unreadable_is_dropped(last: str) -> None:
    damaged = RepairRecord(field="a", times=7, last_time=last)
    assert known([damaged, record(2)], START) == (record(2),)


def test_a_clock_that_is_put_back_a_little_keeps_the_record() -> None:
    assert known([record(2, ago=-SETTLE)], START) == (record(2, ago=-SETTLE),)


def test_records_are_bounded_and_the_latest_stay() -> None:
    old = [record(1, ago=MINUTE, field=f"f{n:03}") for n in range(MAX_RECORDS)]
    after = counted(old, {"new"}, START, unseen=False, wrong=set())
    assert len(after) == MAX_RECORDS
    assert "new" in {r.field for r in after}
    assert [r.field for r in after] == sorted(r.field for r in after)


def test_the_message_names_field_values_count_time_and_remedy() -> None:
    drift = [DriftEntry(field=f"permissions[r{n}]", desired="w", actual="f\n") for n in range(5)]
    drift.append(DriftEntry(field="policies.maxTopics", desired="5", actual="6"))
    records = [record(3), record(2, field="policies.maxTopics")]
    entries = backed_off_entries(drift, {"permissions"})
    assert [e.field for e in entries] == [f"permissions[r{n}]" for n in range(5)]
    text = explain(entries, records)
    assert "spec.permissions[r0] declares w, but Pulsar has f" in text
    assert "permissions[r3]" not in text and "and 2 more" in text
    assert "repaired the field 3 times" in text
    assert "the last repair was at 2026-01-01T00:00:00Z, and the next is not before 2026-01-01T00:15:00Z" in text
    assert "set spec.driftPolicy to Report" in text
    assert "policies.maxTopics" not in text
    assert "policies.maxTopics declares 5, but Pulsar has 6" in explain(drift, records)


# ------------------------------------------------------------------------------------------------ every history


def play(steps: list[tuple[int, bool]]) -> list[datetime]:
    """A level-triggered operator: at each step (seconds later, whether another writer changed the field since) it
    looks, repairs what it may, and keeps nothing but what would be in status. Returns when it repaired."""
    records: tuple[RepairRecord, ...] = ()
    wrong = False
    now, repaired = START, []
    for seconds, drifted in steps:
        now += timedelta(seconds=seconds)
        was_wrong, wrong = wrong, wrong or drifted
        records = known(records, now)
        waiting = bool(backed_off_fields(records, now, unseen=False)) and wrong
        if wrong and not waiting:
            records = counted(records, {"f"}, now, unseen=False, wrong={"f"} if was_wrong else set())
            repaired.append(now)
            wrong = False
        records = settled(records, {"f"} if waiting else set(), {"f"} if wrong else set(), now)
    return repaired


STEPS = st.lists(st.tuples(st.integers(1, 7200), st.booleans()), max_size=60)


@given(STEPS)
def test_no_window_has_more_repairs_than_the_waits_allow(steps: list[tuple[int, bool]]) -> None:
    repaired = play(steps)
    for index, first in enumerate(repaired):
        within = [each for each in repaired[index:] if each - first < WINDOW]
        # Two at once, one after 5 minutes, one 15 minutes later; the next waits an hour.
        assert len(within) <= FREE + len(WAITS) - 1


@given(st.integers(1, 300), st.integers(20, 200))
def test_a_steady_fight_comes_down_to_one_repair_an_hour(every: int, steps: int) -> None:
    repaired = play([(every, True)] * steps)
    gaps = [after - before for before, after in pairwise(repaired)]
    assert gaps[:1] in ([], [timedelta(seconds=every)])
    for gap, wait in zip(gaps[1:], [*WAITS, *[WAITS[-1]] * steps], strict=False):
        assert wait <= gap < wait + timedelta(seconds=every)


@given(STEPS)
def test_a_field_is_never_given_up(steps: list[tuple[int, bool]]) -> None:
    """After a fight ends, the last change is repaired within the longest wait, and an hour later all is forgotten."""
    repaired = play([*steps, (1, True), *[(60, False)] * 61])
    assert repaired
    last = START + timedelta(seconds=sum(seconds for seconds, _ in steps) + 1)
    assert repaired[-1] <= last + WAITS[-1] + MINUTE
    again = play([*steps, (1, True), *[(60, False)] * 130, (1, True)])
    assert again[-1] == last + 130 * MINUTE + SECOND


@given(st.lists(st.integers(3600, 90000), min_size=1, max_size=20))
def test_rare_drift_is_always_repaired_at_once(gaps: list[int]) -> None:
    assert len(play([(gap, True) for gap in gaps])) == len(gaps)


@given(st.integers(0, 50), st.integers(0, 90000))
def test_due_and_held_agree(times: int, ago: int) -> None:
    one = record(times + 1, ago=timedelta(seconds=ago))
    assert (due(one) > START) is bool(backed_off_fields([one], START, unseen=False))
