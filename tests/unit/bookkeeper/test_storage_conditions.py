"""Condition Replicated and the rows of bookies, from facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.healing import HEALING, Healing
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.cluster_status import MAX_BOOKIES, BookieStatus
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.storage_facts import (
    BookieState,
    StorageFacts,
    UnderReplicated,
    bookie_rows,
    moment,
    not_replicated,
    replicated,
)
from pulsar_operator.domain.render.listeners import bookie_id

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORKLOAD = "c-bookie"
OWN = OwnBookies.of(bookie_id(WORKLOAD, 0, "ns", "cluster.local"))
B0, B1, B2 = (bookie_id(WORKLOAD, n, "ns", "cluster.local") for n in range(3))
CLEAN = StorageFacts(frozenset({B0, B1}), frozenset(), frozenset({B0, B1}), UnderReplicated(0), B0, False)
LACKING = UnderReplicated(3, oldest=NOW - timedelta(hours=1), ledgers=(1, 2, 3))
T, F, U = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def facts(**changes: Any) -> StorageFacts:
    return replace(CLEAN, **changes)


@pytest.mark.parametrize(
    ("found", "status", "reason", "words"),
    [
        (None, U, Reason.METADATA_UNREACHABLE, "why"),
        (CLEAN, T, Reason.REPLICATED, "Every ledger"),
        (facts(auditor=""), T, Reason.REPLICATED, "Every ledger"),
        (
            facts(under_replicated=LACKING),
            F,
            Reason.UNDER_REPLICATED,
            "Copies of 3 ledgers have been missing since 2026-03-01T11:00:00Z",
        ),
        (facts(under_replicated=UnderReplicated(1)), F, Reason.UNDER_REPLICATED, "Copies of 1 ledger are missing"),
        (facts(under_replicated=UnderReplicated(9, True)), F, Reason.UNDER_REPLICATED, "at least 9 ledgers"),
        (facts(under_replicated=UnderReplicated(0, True)), U, Reason.UNKNOWN, "could not be determined"),
        (facts(auditor=None), F, Reason.NO_AUDITOR, "No auto-recovery pod"),
        (facts(auditor=None, under_replicated=LACKING), F, Reason.NO_AUDITOR, "(3 ledgers had missing copies before)"),
        (facts(disabled=True), F, Reason.REPLICATION_DISABLED, "autorecovery -enable"),
        (facts(disabled=True, auditor=None), F, Reason.REPLICATION_DISABLED, "switched off"),
        (
            facts(disabled=True, under_replicated=LACKING),
            F,
            Reason.REPLICATION_DISABLED,
            "(3 ledgers had missing copies before)",
        ),
    ],
)
def test_replicated(found: StorageFacts | None, status: ConditionStatus, reason: Reason, words: str) -> None:
    answer = replicated(found, unreachable="why")
    assert answer[:2] == (status, reason)
    assert words in answer[2]


@pytest.mark.parametrize("found", [None, CLEAN, facts(auditor=None), facts(under_replicated=LACKING)])
def test_what_is_waited_for_is_nothing_where_the_condition_is_true(found: StorageFacts | None) -> None:
    if found is not None:
        assert (not_replicated(found) is None) == (replicated(found)[0] is T)


@given(
    st.builds(
        facts,
        disabled=st.booleans(),
        auditor=st.sampled_from([None, "", B0]),
        under_replicated=st.builds(UnderReplicated, st.integers(0, 2), st.booleans()),
    )
)
def test_nothing_is_waited_for_only_where_all_is_known_and_well(found: StorageFacts) -> None:
    assert (not_replicated(found) is None) == (replicated(found)[0] is T)
    well = not found.disabled and found.auditor is not None and found.under_replicated == UnderReplicated(0)
    assert (replicated(found)[0] is T) == well


def condition(since: str, reason: Reason = Reason.UNDER_REPLICATED, status: str = "False") -> dict[str, str]:
    return {"type": "Replicated", "status": status, "reason": reason.value, "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("previous", "oldest", "since"),
    [
        (None, None, None),
        (condition("2026-03-01T10:00:00Z"), None, "2026-03-01T10:00:00Z"),
        (condition("2026-03-01T10:00:00Z"), NOW, "2026-03-01T10:00:00Z"),
        (condition("2026-03-01T13:00:00Z"), NOW, "2026-03-01T12:00:00Z"),
        (condition("2026-03-01T10:00:00Z", Reason.NO_AUDITOR), NOW, "2026-03-01T12:00:00Z"),
        (condition("2026-03-01T10:00:00Z", status="True"), NOW, "2026-03-01T12:00:00Z"),
    ],
)
def test_since_when(previous: dict[str, str] | None, oldest: datetime | None, since: str | None) -> None:
    _, _, message = replicated(facts(under_replicated=UnderReplicated(2, oldest=oldest)), previous)
    assert message == f"Copies of 2 ledgers {f'have been missing since {since}' if since else 'are missing'}"


def test_what_ends_it() -> None:
    itself = (Reason.REPLICATED, Reason.UNDER_REPLICATED, Reason.NO_AUDITOR)
    assert {HEALING[each] for each in itself} == {Healing.ITSELF}
    assert HEALING[Reason.REPLICATION_DISABLED] is Healing.OTHERS
    assert ConditionType.REPLICATED.value == "Replicated"


# ------------------------------------------------------------------------------------------------------------ rows


@pytest.mark.parametrize(
    ("bookie", "ordinal"),
    [
        (B0, 0),
        (bookie_id(WORKLOAD, 12, "ns", "cluster.local"), 12),
        (bookie_id(WORKLOAD, 0, "other", "cluster.local"), None),
        (bookie_id("cc-bookie", 0, "ns", "cluster.local"), None),
        (bookie_id(WORKLOAD, 0, "ns", "cluster.local", 3182), None),
        (B0.replace("-0.", "-00."), None),
        (B0.replace("-0.", "-x."), None),
        (B0.replace("-0.", "-0x"), None),
        (f"{B0}\n", None),
        ("10.0.0.1:3181", None),
    ],
)
def test_ordinals(bookie: str, ordinal: int | None) -> None:
    assert OWN.ordinal(bookie) == ordinal


@given(st.integers(0, 10**9))
def test_an_id_tells_its_ordinal(ordinal: int) -> None:
    assert OWN.id(ordinal) == bookie_id(WORKLOAD, ordinal, "ns", "cluster.local")
    assert OWN.ordinal(OWN.id(ordinal)) == ordinal


@pytest.mark.parametrize("first", ["", "c-bookie-1.h:3181", "c-bookie-0", "10.0.0.1:3181"])
def test_what_is_no_first_bookie(first: str) -> None:
    with pytest.raises(ValueError, match="ordinal 0"):
        OwnBookies.of(first)


def states(found: StorageFacts, pods: tuple[int, ...] = ()) -> dict[str, str]:
    return {row.id: row.state for row in bookie_rows(found, OWN, pods, now=NOW)}


def test_states() -> None:
    found = facts(
        writable=frozenset({B0, "foreign:3181"}), readonly=frozenset({B1}), cookies=frozenset({B0, B1, B2, "old:3181"})
    )
    assert states(found, (0, 1, 2, 3)) == {
        B0: BookieState.WRITABLE,
        B1: BookieState.READ_ONLY,
        B2: BookieState.MISSING,
        OWN.id(3): BookieState.NEW,
        "foreign:3181": BookieState.WRITABLE,
        "old:3181": BookieState.MISSING,
    }


def test_a_bookie_without_a_pod_is_told_as_long_as_it_has_a_cookie() -> None:
    assert states(facts(writable=frozenset({B0})), (0,)) == {B0: "Writable", B1: "Missing"}
    assert states(facts(writable=frozenset({B0}), cookies=frozenset({B0})), (0,)) == {B0: "Writable"}


def test_rows_are_in_order_of_ordinals_then_ids() -> None:
    found = facts(writable=frozenset(OWN.id(n) for n in range(12)) | {"b:1", "a:1"}, cookies=frozenset())
    rows = bookie_rows(found, OWN, (), now=NOW)
    assert [row.ordinal for row in rows] == [*range(12), None, None]
    assert [row.id for row in rows[-2:]] == ["a:1", "b:1"]


def test_a_state_keeps_the_time_it_began() -> None:
    before = bookie_rows(CLEAN, OWN, (0, 1), now=NOW)
    assert {row.since for row in before} == {"2026-03-01T12:00:00Z"}
    later = NOW + timedelta(hours=1)
    after = bookie_rows(
        facts(readonly=frozenset({B1}), writable=frozenset({B0})), OWN, (0, 1), now=later, previous=before
    )
    assert [(row.state, row.since) for row in after] == [
        ("Writable", "2026-03-01T12:00:00Z"),
        ("ReadOnly", "2026-03-01T13:00:00Z"),
    ]
    assert bookie_rows(CLEAN, OWN, (0, 1), now=later, previous=before) == before


def test_usage_and_step_are_there_where_they_are_known() -> None:
    rows = bookie_rows(CLEAN, OWN, (), now=NOW, usage={B0: 0}, steps={B1: "Copying"})
    assert [(row.usage, row.step) for row in rows] == [(0, None), (None, "Copying")]


def test_of_too_many_rows_those_that_are_well_are_left_out() -> None:
    found = facts(
        writable=frozenset(OWN.id(n) for n in range(600)), cookies=frozenset({OWN.id(599), OWN.id(700), "z:1"})
    )
    rows = bookie_rows(found, OWN, (), now=NOW)
    assert len(rows) == MAX_BOOKIES
    assert [row.id for row in rows if row.state != "Writable"] == [OWN.id(700), "z:1"]
    assert [row.ordinal for row in rows[:510]] == list(range(510))


def test_a_row_is_a_status() -> None:
    row = BookieStatus(id=B0, ordinal=0, state="Writable", usage=41, since="2026-03-01T12:00:00Z")
    assert BookieStatus.model_validate(row.model_dump(by_alias=True)) == row


@pytest.mark.parametrize(
    ("milliseconds", "found"),
    [(None, None), (1500, datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)), (10**18, None), (2**63 - 1, None)],
)
def test_moments(milliseconds: int | None, found: datetime | None) -> None:
    assert moment(milliseconds) == found
