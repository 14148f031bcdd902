"""Compaction by a schedule, through the controller."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.support.logical.world import DRY_RUN, NS, PAUSED, LogicalWorld

X = "persistent://t/n/x"
NIGHTLY = {"schedule": "0 3 * * *"}


async def world(*clusters: str, **spec: Any) -> LogicalWorld:
    """Topic x with a nightly compaction, seen at midnight of the first of January."""
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace()
    w.topic(compaction=NIGHTLY, **spec)
    await w.run()
    return w


def wait(w: LogicalWorld, **time: int) -> None:
    """Let time pass."""
    clock = w.controllers[Kind.TOPIC].deps.clock
    clock._now += timedelta(**time)


def status(w: LogicalWorld) -> Any:
    """status.compaction."""
    return w.status(Kind.TOPIC, "x").get("compaction")


async def test_a_due_time_is_done_once_in_each_cluster() -> None:
    w = await world("a", "b")
    assert w.pulsar.compacted == []
    assert status(w)["nextScheduleTime"] == "2026-01-01T03:00:00Z"
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert outcome.requeue_after is not None and 10_000 < outcome.requeue_after <= 10_800
    wait(w, hours=3)
    await w.run()
    assert w.pulsar.compacted == [("a", X), ("b", X)]
    assert status(w)["clusters"] == [
        {"name": name, "lastScheduleTime": "2026-01-01T03:00:00Z", "result": "Triggered"} for name in ("a", "b")
    ]
    assert status(w)["nextScheduleTime"] == "2026-01-02T03:00:00Z"
    assert w.reasons(Kind.TOPIC).count("CompactionTriggered") == 2
    w.restart()
    wait(w, hours=4)
    assert await w.second_pass_writes() == ([], [])
    assert len(w.pulsar.compacted) == 2


async def test_what_was_missed_is_done_once() -> None:
    w = await world()
    wait(w, days=5)
    await w.run()
    assert w.pulsar.compacted == [("a", X)]
    assert status(w)["clusters"][0]["lastScheduleTime"] == "2026-01-05T03:00:00Z"
    wait(w, days=1)
    await w.run()
    assert len(w.pulsar.compacted) == 2


async def test_a_lost_status_write_triggers_it_again() -> None:
    w = await world()
    before = w.status(Kind.TOPIC, "x")
    wait(w, hours=4)
    await w.run()
    w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "x", before)
    await w.run()
    assert w.pulsar.compacted == [("a", X)] * 2
    assert status(w)["clusters"][0]["lastScheduleTime"] == "2026-01-01T03:00:00Z"


async def test_a_silent_cluster_is_made_up_for() -> None:
    w = await world("a", "b")
    wait(w, hours=4)
    w.admin.down = {"b"}
    await w.run()
    assert w.pulsar.compacted == [("a", X)]
    w.admin.down = set()
    await w.run()
    assert w.pulsar.compacted == [("a", X), ("b", X)]


@pytest.mark.parametrize("annotations", [PAUSED, DRY_RUN])
async def test_paused_and_dry_run_wait(annotations: dict[str, str]) -> None:
    w = await world()
    w.topic(compaction=NIGHTLY, annotations=annotations)
    wait(w, days=3)
    await w.run()
    assert w.pulsar.compacted == []
    assert w.condition(Kind.TOPIC, "x")[0] == "False"
    told = w.status(Kind.TOPIC, "x").get("pendingActions")
    assert told == (["Trigger the compaction that is due in a"] if annotations is DRY_RUN else None)
    w.topic(compaction=NIGHTLY, annotations={})
    await w.run()
    assert w.pulsar.compacted == [("a", X)]
    assert w.condition(Kind.TOPIC, "x")[0] == "True"


@pytest.mark.parametrize("partitions", [None, 2])
async def test_what_pulsar_answers_is_kept_until_the_next_time(partitions: int | None) -> None:
    w = await world(**({"partitions": partitions} if partitions else {}))
    w.pulsar.compacting.add(X)
    wait(w, hours=4)
    await w.run()
    assert status(w)["clusters"][0]["result"] == "AlreadyRunning"
    w.pulsar.refuse["compaction"] = "not now"
    wait(w, days=1)
    await w.run()
    (refused,) = status(w)["clusters"]
    assert refused["result"] == "Refused" and "not now" in refused["message"]
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert await w.second_pass_writes() == ([], [])


async def test_a_changed_schedule_counts_from_now() -> None:
    w = await world(partitions=2)
    wait(w, hours=4)
    w.topic(compaction={"schedule": "0 1 * * *"}, partitions=2)
    await w.run()
    assert w.pulsar.compacted == []
    wait(w, hours=22)
    await w.run()
    assert w.pulsar.compacted == [("a", X)], "Pulsar compacts all partitions"
    w.topic(partitions=2)
    await w.run()
    assert status(w) is None


@pytest.mark.parametrize("schedule", ["99 3 * * *", "0 0 31 2 *"])
async def test_a_schedule_that_is_none_is_reported(schedule: str) -> None:
    w = await world()
    w.topic(compaction={"schedule": schedule}, policies={"maxProducers": 3})
    await w.run()
    condition = w.condition(Kind.TOPIC, "x", "Accepted")
    assert condition[:2] == ("False", "InvalidSpec")
    assert condition[2].startswith("spec.compaction.schedule: ")
    assert w.pulsar.topic_policies["a", X]["maxProducers"] == 3, "the rest converges"
