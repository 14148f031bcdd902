"""When the next copy may begin after some that ended for want of room."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.dataplane.decommission.ended_copies import (
    FIRST_SECONDS,
    FORGOTTEN,
    MOST_SECONDS,
    EndedCopies,
    ended_data,
    parse_ended,
    with_another,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("times", "seconds"), [(1, FIRST_SECONDS), (2, 600), (3, 1200), (6, 9600), (7, MOST_SECONDS), (10**9, MOST_SECONDS)]
)
def test_the_delay_doubles_up_to_its_limit(times: int, seconds: int) -> None:
    assert EndedCopies(times, NOW).again == NOW + timedelta(seconds=seconds)


def test_each_bookie_is_counted_for_itself() -> None:
    one = with_another({}, "a", NOW)
    assert with_another(with_another(one, "b", NOW), "a", NOW) == {"a": EndedCopies(2, NOW), "b": EndedCopies(1, NOW)}


@given(times=st.integers(1, 10**9), ago=st.integers(0, 2 * 86400))
def test_what_is_old_no_longer_counts(times: int, ago: int) -> None:
    ended = {"a": EndedCopies(times, NOW - timedelta(seconds=ago))}
    assert parse_ended(ended_data(ended), NOW) == (ended if timedelta(seconds=ago) < FORGOTTEN else {})


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"[]", b"[" * 100000, b'{"a": 1}', b'{"a": {"times": true, "last": "2026-01-01T00:00:00Z"}}',
     b'{"a": {"times": 0, "last": "2026-01-01T00:00:00Z"}}', b'{"a": {"times": 1, "last": "soon"}}',
     b'{"a": {"times": 1, "last": "2027-01-01T00:00:00Z"}}'],
)  # fmt: skip
def test_what_cannot_be_read_or_is_to_come_delays_nothing(data: bytes) -> None:
    assert parse_ended(data, NOW) == {}
