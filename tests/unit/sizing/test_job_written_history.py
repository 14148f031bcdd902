"""The days that end-to-end tests write into a collector's store: what the job and the operator make of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pulsar_sizing
from e2e.support import history
from e2e.support.history import HOUR_SECONDS, Placed, level
from pulsar_operator.balance.autoscaling.brokers import BACK, LEAD
from pulsar_operator.balance.autoscaling.forecast import Profile, growth
from pulsar_operator.balance.autoscaling.outlook import HOUR, profile_of
from pulsar_sizing.arrow import table_schema
from pulsar_sizing.schema import MARKERS, TRAFFIC

WITHIN = 30
"""Minutes after the history was written in which the record is to grow."""
LEAST = 1.25
"""Times, within what a broker is asked for before."""
TOPICS = [Placed(f"persistent://shop/skew/e{n}", "0x00000000_0xffffffff", f"broker-{n % 2}.svc:8080") for n in range(3)]
LATE = datetime(2026, 3, 9, 23, 7, tzinfo=UTC)
"""The rise goes over midnight."""


@given(st.integers(0, 30 * 24), st.integers(0, 59), st.integers(0, WITHIN))
def test_the_record_grows_at_every_minute_of_the_day_and_for_long_enough(hour: int, minute: int, later: int) -> None:
    profile = Profile(HOUR, tuple(float(level(each, hour)) for each in range(24)), HOUR / 2)
    now = hour * HOUR_SECONDS + (minute + later) * 60.0
    assert growth(profile, now, LEAD, BACK) >= LEAST


def written(root: Path, now: datetime) -> None:
    """As in the collector's pod, where nothing else of the repository is."""
    done = subprocess.run(
        [sys.executable, "-", *history.arguments(str(root), "demo", "east", now, TOPICS)],
        input=Path(history.__file__).read_text(encoding="utf-8"),
        env={"PYTHONPATH": str(Path(pulsar_sizing.__file__).parents[1])},
        cwd=root.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    rounds = history.DAYS * 24 * 60 // history.MINUTES
    assert done.stdout.startswith(f"{rounds * len(TOPICS)} rows of "), done.stderr


def collected(store: Any, time: datetime, rate: float) -> None:
    """A round of the real collector beside it."""
    broker, topic = TOPICS[0].broker, history.row(time, TOPICS[0], rate)
    for table, who, row in (
        (TRAFFIC, broker, topic),
        (MARKERS, "markers", history.marker(time, broker, 1)),
    ):
        upload = store.upload(table, "demo", "east", time, who)
        upload.write(pa.Table.from_pylist([row], table_schema(table)))
        upload.commit()


def test_the_job_makes_a_profile_that_grows_whatever_a_collector_records_beside_it(
    lab: Callable[..., Any],
) -> None:
    one = lab()
    one.root.mkdir()
    written(one.root, LATE)
    for minute in range(-20, 53, 2):
        # More rounds than were written, and in the hours before and after midnight.
        collected(one.store, LATE + timedelta(minutes=minute), 1e5)
    for minute in (0, 10, 45, 58):
        now = LATE + timedelta(minutes=minute)
        result = one.run(now).result
        assert result.profile is not None and result.verdict.hottest is None
        assert (result.profile.period, result.profile.filled) == ("Day", 0)
        assert growth(profile_of(result.profile), now.timestamp(), LEAD, BACK) >= LEAST, minute
        early, least = result.profile.hours[12], history.QUIET_RATE * len(TOPICS)
        assert early == pytest.approx(2 * least * (history.MESSAGE_BYTES + 1024), rel=0.01)
        assert [result.profile.hours[hour] / early for hour in (22, 23, 0, 1, 2)] == pytest.approx(
            [1, 8, 64, 512, 1], rel=0.01
        )
