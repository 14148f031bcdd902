"""domain/dataplane/decommission/volume_claims.py: marks on claims, and which ordinals may have a pod."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY
from pulsar_operator.domain.dataplane.decommission.volume_claims import (
    Claim,
    EmptyMark,
    Return,
    claims_of,
    may_return,
    parse_empty_mark,
    unknown_volume,
)

ME = "c-bookie-2.h:3181"
MARK = EmptyMark.of(ME, "i", datetime(2026, 1, 1, tzinfo=UTC))
PLAIN = Claim("journal-0-c-bookie-2", "u0", 2)
EMPTY = replace(PLAIN, name="ledgers-0-c-bookie-2", uid="u1", mark=MARK)
GOING = replace(EMPTY, going=True)


def test_a_mark_is_read_as_it_was_written() -> None:
    assert parse_empty_mark(MARK.text()) == MARK and MARK.verified == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("text", [None, "", "x", "3", "[]", "{}", '{"bookieId": "b"}'])
def test_what_says_nothing_is_no_mark(text: str | None) -> None:
    assert parse_empty_mark(text) is None


@pytest.mark.parametrize(
    ("claims", "cookie", "delete", "waiting", "foreign"),
    [
        ((), False, (), None, None),
        ((), True, (), None, None),
        ((PLAIN,), True, (), None, None),
        ((EMPTY,), False, (EMPTY,), None, None),
        ((GOING,), False, (), GOING.name, None),
        ((PLAIN, GOING), True, (), GOING.name, None),
        ((PLAIN,), False, (), None, PLAIN.name),
        ((PLAIN, EMPTY), False, (), None, PLAIN.name),
        ((EMPTY,), True, (), None, EMPTY.name),
        ((replace(EMPTY, mark=replace(MARK, instance_id="other")),), False, (), None, EMPTY.name),
        ((replace(EMPTY, mark=replace(MARK, bookie="other")),), False, (), None, EMPTY.name),
        ((replace(EMPTY, mark=replace(MARK, instance_id="other")),), True, (), None, None),
    ],
)
def test_return(
    claims: tuple[Claim, ...], cookie: bool, delete: tuple[Claim, ...], waiting: str | None, foreign: str | None
) -> None:
    found = may_return(ME, claims, cookie=cookie, instance_id="i")
    assert found.delete == delete
    blocker = found.blocker.message if found.blocker is not None else None
    for said, name in ((blocker, waiting), (found.foreign, foreign)):
        assert (said is None) is (name is None) and (name or "") in (said or "")
    assert found.free is (found == Return())


@pytest.mark.parametrize(
    ("created", "going", "told"),
    [
        ("2026-01-01T00:00:00Z", False, True),
        ("2026-01-02T00:00:00Z", False, False),
        ("2026-01-03T00:00:00Z", False, False),
        ("2026-01-01T00:00:00Z", True, False),
        ("", False, False),
    ],
)
def test_a_claim_that_is_older_than_the_statefulset_is_the_volume_of_another(
    created: str, going: bool, told: bool
) -> None:
    found = unknown_volume(ME, [replace(PLAIN, created=created, going=going)], "2026-01-02T00:00:00Z")
    assert (found is not None) is told and (found is None or (PLAIN.name in found and "delete the claim" in found))
    assert unknown_volume(ME, [], "2026-01-02T00:00:00Z") is None


def test_claims_of_other_workloads_are_left_out() -> None:
    def claim(name: str, **meta: object) -> dict[str, object]:
        return {"metadata": {"name": name, "uid": f"u-{name}", **meta}}

    found = claims_of(
        "c-bookie",
        [
            claim("ledgers-0-c-bookie-10", deletionTimestamp="x"),
            claim("ledgers-0-c-bookie-9", annotations={ANNOTATION_VERIFIED_EMPTY: MARK.text()}),
            claim("journal-1-c-bookie-9", annotations=None),
            claim("data-c-bookie-1"),
            claim("ledgers-0-cc-bookie-1"),
            claim("ledgers-0-c-bookie-01"),
            claim("ledgers-0-c-bookie-1-copy"),
            claim("ledgers-9-c-bookie-9"),
        ],
        {"journal-1", "ledgers-0"},
    )
    assert [(each.ordinal, each.name, each.going, each.mark) for each in found] == [
        (9, "journal-1-c-bookie-9", False, None),
        (9, "ledgers-0-c-bookie-9", False, MARK),
        (10, "ledgers-0-c-bookie-10", True, None),
    ]
