"""The collector on a real server of S3: what it records there, and what it does while the server is away."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from pulsar_sizing import layout
from pulsar_sizing.arrow import parquet
from pulsar_sizing.collector.client import Target
from pulsar_sizing.collector.metrics import CollectorMetrics
from pulsar_sizing.collector.rounds import Limits, Sampler
from pulsar_sizing.collector.run import recorded_status
from pulsar_sizing.schema import MARKERS, SCHEMA_VERSION, TRAFFIC
from pulsar_sizing.store import Store
from tests.fakes.broker_stats import FakeBrokers, FakeTopic
from tests.support.processes.s3 import S3Server, running_s3

NOW = datetime(2026, 3, 9, 12, 30, tzinfo=UTC)
A, B = "broker-a:8080", "broker-b:8080"


@pytest.fixture(name="server")
def _server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with running_s3() as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
async def brokers() -> AsyncIterator[FakeBrokers]:
    """Two, of three and five topics."""
    topics = {
        broker: [
            FakeTopic(f"persistent://t/ns/{broker[7]}-{n}", 10.0, 20.0, 1e3, 2e3, producers=1, consumers=(1,))
            for n in range(count)
        ]
        for broker, count in ((A, 3), (B, 5))
    }
    fake = await FakeBrokers(topics).start()
    yield fake
    await fake.close()


def sampler(brokers: FakeBrokers, store: Store) -> Sampler:
    target = Target("east", (brokers.url,), brokers.template)
    return Sampler("i", target, store, CollectorMetrics(), Limits(deadline=300.0, round_seconds=600.0, batch_rows=2))


def rows(store: Store, table: str) -> int:
    """Of all files of a table."""
    found = 0
    for info in store.listing(f"{table}/v{SCHEMA_VERSION}", recursive=True):
        if info.is_file and layout.is_visible(info.base_name):
            with store.open(store.relative(info)) as stream:
                found += parquet.read_table(stream).num_rows
    return found


async def test_rounds_are_recorded_and_served_from_a_bucket(brokers: FakeBrokers, server: S3Server) -> None:
    store = Store(f"s3://{server.new_bucket()}/sizing", s3=server.s3)
    for minute in range(2):
        done = await sampler(brokers, store).sample(NOW + timedelta(minutes=minute))
        assert done.complete
    await sampler(brokers, store).sample(NOW)  # The first one again, as after a restart.
    assert (rows(store, TRAFFIC), rows(store, MARKERS)) == (2 * 8, 2 * 2)
    assert store.names(layout.TEMPORARY) == []
    status = recorded_status(Store(store.root, s3=server.s3), "i", NOW + timedelta(minutes=5))
    assert status["clusters"]["east"]["sampleTime"].startswith("2026-03-09T12:31")
    assert [(each["broker"], each["topics"]) for each in status["clusters"]["east"]["brokers"]] == [(A, 3), (B, 5)]


async def test_a_round_that_cannot_be_stored_is_no_round_and_the_next_one_is(
    brokers: FakeBrokers, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials that are rotated away: the server refuses every request until the new ones are there."""
    root = f"s3://{server.new_bucket()}/sizing"
    with monkeypatch.context() as wrong:
        wrong.setenv("AWS_SECRET_ACCESS_KEY", "another")
        store = Store(root, s3=server.s3)
        refused = await sampler(brokers, store).sample(NOW)
        assert not refused.complete
        assert re.search(r"(?i)signature|access.denied|forbidden", refused.error or ""), refused
    store = Store(root, s3=server.s3)
    assert rows(store, TRAFFIC) == rows(store, MARKERS) == 0
    assert (await sampler(brokers, store).sample(NOW)).complete
    assert (rows(store, TRAFFIC), rows(store, MARKERS)) == (8, 2)
