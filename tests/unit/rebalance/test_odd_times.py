"""Times of a status that cannot be read: the API server takes them for times, and somebody may have edited them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.execution.handover import lapsed
from pulsar_operator.controllers.dataplane.balancing.broker_drains import BrokerDrains
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.decommission.decommission_record import parse_decommission_record
from pulsar_operator.ports import CUSTOM
from tests.support.balancing.world import NS, BalancingWorld
from tests.unit.cluster.test_drain_facts import NAME, PODS, Brokers

ODD = [
    "2026-01-01t00:00:00z",
    "2026-12-31T23:59:60Z",
    "2026-01-01T00:00:00",
    "2026-01-01",
    "0001-01-01T00:00:00+23:59",
    "yesterday",
    "",
]


@pytest.mark.parametrize("text", [*ODD, None, 7])
def test_a_time_that_cannot_be_read_was_never_written(text: Any) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T02:00:00.500+02:00", datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_utc(text: str, found: datetime) -> None:
    assert parse_time(text) == found
    assert parse_time(timestamp(found)) == found.replace(microsecond=0)


@pytest.mark.parametrize("text", ODD)
def test_a_paused_rebalance_with_an_odd_time_fails_no_pass_of_its_cluster(text: str) -> None:
    ready = {"type": "Ready", "status": "Unknown", "reason": "InternalError", "lastTransitionTime": text}
    obj = {"metadata": {"name": "x"}, "status": {"progress": {"blockedSince": text}, "conditions": [ready]}}
    assert not lapsed(obj, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("text", ODD)
async def test_a_drain_begins_its_time_again(text: str) -> None:
    brokers = Brokers()
    brokers.bundles("shop/orders", *PODS)
    brokers.world._cluster_status({"drain": {"pods": [PODS[2]], "since": text, "occasion": NAME}})
    drains: BrokerDrains = brokers.drains()
    found = await drains.drain([PODS[2]], NAME)
    assert not found.go and found.status is not None and found.status.since == timestamp(brokers.clock.moment)


@pytest.mark.parametrize("field", ["startedTime", "currentSince", "blockedSince", "finishedTime"])
async def test_an_execution_with_an_odd_time_begins_again(field: str) -> None:
    """As after a lost status, but it waits for approval: the plan before may have been executed."""
    world = BalancingWorld()
    world.skewed()
    world.rebalance(autoApprove=True, repeatSeconds=60)
    for _ in range(40):
        await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=5)
        if world.status().get("progress", {}).get("done"):
            break
    live = world.live()
    live["status"]["progress"][field] = ODD[0]
    world.kube.set_status(CUSTOM[Kind.REBALANCE], NS, "once", live["status"])
    await world.run(seconds=60)
    assert world.condition("Ready")[1] == "StatusUnreadable"
    world.command(f"approve-{world.status()['proposal']['id']}")
    await world.run(seconds=900)
    assert world.spread() < 1.2 and world.condition("Ready")[1] != "InternalError"


@pytest.mark.parametrize("text", ODD[:-1])
@pytest.mark.parametrize("field", ["since", "askedAt", "triedAt"])
def test_what_is_under_way_with_an_odd_time_is_not_known(field: str, text: str) -> None:
    record = b'{"bookie": "b", "ordinal": 1, "since": "2026-01-01T00:00:00Z"}'
    assert parse_decommission_record(record) is not None
    edited = record[:-1] + f', "{field}": "{text}"'.encode() + b"}"
    assert parse_decommission_record(edited) is None
