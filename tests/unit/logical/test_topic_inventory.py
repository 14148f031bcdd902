"""Thousands of topics: few questions to Pulsar, and nothing believed that a list cannot know."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.logical.topic_inventory import CROWD, KEEP_SECONDS
from tests.support.logical.world import LogicalWorld

MANY = CROWD + 30


class Still:
    """ports.Clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


def settled_clock(w: LogicalWorld) -> Still:
    """A clock for the controllers; a new operator process."""
    clock = Still()
    w.restart()
    for controller in w.controllers.values():
        controller.deps = replace(controller.deps, clock=clock)
    w.controllers[Kind.TOPIC] = type(w.controllers[Kind.TOPIC])(w.controllers[Kind.TOPIC].deps)
    return clock


async def crowd(**spec: Any) -> tuple[LogicalWorld, Still]:
    w = LogicalWorld("a")
    w.tenant()
    w.namespace()
    await w.run()
    for i in range(MANY):
        w.topic(f"x{i}", **spec)
    return w, settled_clock(w)


async def passes(w: LogicalWorld) -> Counter[str]:
    """One pass over every topic; the calls by method and what they ask."""
    since = len(w.admin.calls)
    for i in range(MANY):
        await w.reconcile(Kind.TOPIC, f"x{i}")
    counts: Counter[str] = Counter()
    for call in w.admin.calls[since:]:
        kind = {3: "list", 4: "topic" if call.path[-1] != "partitioned" else "list"}.get(len(call.path), call.path[-1])
        counts[f"{call.method} {kind}"] += 1
    return counts


@pytest.mark.parametrize("spec", [{}, {"partitions": 3}])
async def test_existing_topics_are_found_by_one_list(spec: dict[str, Any]) -> None:
    w, _ = await crowd(**spec)
    await passes(w)
    settled_clock(w)
    counts = await passes(w)
    assert counts["GET partitions"] == CROWD, "only until there is a crowd"
    assert counts["GET list"] <= CROWD + 3  # the namespace for each of these, then once with its two lists
    assert not any(name.startswith(("PUT", "POST", "DELETE")) for name in counts)
    assert all(w.condition(Kind.TOPIC, f"x{i}")[0] == "True" for i in range(MANY))


async def test_a_topic_that_is_made_is_believed_only_when_asked_for() -> None:
    w, _ = await crowd()
    counts = await passes(w)
    assert counts["PUT topic"] == MANY
    assert counts["GET partitions"] == CROWD + MANY, "each is read back"


async def test_a_list_is_created_again_after_a_while() -> None:
    w, clock = await crowd()
    await passes(w)
    gone = f"persistent://t/n/x{MANY - 1}"
    del w.pulsar.topics["a"][gone]
    clock.time += timedelta(seconds=KEEP_SECONDS + 1)
    await passes(w)
    assert gone in w.pulsar.topics["a"], "made again"


async def test_other_partitions_than_declared_are_asked_for() -> None:
    w, clock = await crowd(partitions=3)
    await passes(w)
    clock.time += timedelta(seconds=KEEP_SECONDS + 1)
    name = f"persistent://t/n/x{MANY - 1}"
    w.pulsar.partitioned[name] = 5  # its partitions are not there yet
    del w.pulsar.topics["a"][f"{name}-partition-2"]
    counts = await passes(w)
    assert counts["GET partitions"] > 0
    assert w.status(Kind.TOPIC, f"x{MANY - 1}")["partitions"] == 5


async def test_after_a_restart_policies_are_read_at_the_second_observation() -> None:
    w, _ = await crowd(policies={"messageTTLSeconds": 60})
    await passes(w)
    await passes(w)
    settled_clock(w)
    w.pulsar.topic_policies["a", "persistent://t/n/x7"].clear()
    first = await passes(w)
    assert first["GET messageTTL"] == 0
    second = await passes(w)
    assert second["GET messageTTL"] >= MANY
    assert "DriftRepaired" in w.reasons(Kind.TOPIC)


async def test_after_a_restart_what_was_not_settled_is_read_at_once() -> None:
    w, _ = await crowd(policies={"messageTTLSeconds": 60})
    await passes(w)
    w.topic("x3", policies={"messageTTLSeconds": 90})
    settled_clock(w)
    counts = await passes(w)
    assert counts["GET messageTTL"] >= 1
    assert w.status(Kind.TOPIC, "x3")["observedGeneration"] == 2
