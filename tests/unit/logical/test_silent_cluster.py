"""A cluster that has just fallen silent, before it is left out: what the others have is not held up by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.instance.reachability import PATIENCE_SECONDS
from pulsar_operator.ports import AdminEndpoint, DeadlineError
from tests.fakes.admin import FakeAdmin
from tests.support.logical.world import LogicalWorld

WHOLE_SECONDS = 15.0
"""The deadline of a call that names none."""


class TimedAdmin(FakeAdmin):
    """Adds up how long calls without an answer were waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0

    async def call(self, endpoint: AdminEndpoint, method: str, path: Sequence[str], **options: Any) -> Any:
        """See ports.PulsarAdminPort."""
        try:
            return await super().call(endpoint, method, path, **options)
        except DeadlineError:
            self.waited += options.get("deadline") or WHOLE_SECONDS
            raise


@pytest.fixture
async def world() -> LogicalWorld:
    """Namespace "n" in clusters a, b and c, and "m" in b and c alone."""
    admin = TimedAdmin()
    w = LogicalWorld("a", "b", "c", admin=admin)
    admin.pulsar = w.pulsar
    w.tenant()
    w.namespace("n", replicationClusters=["a", "b", "c"], policies={"messageTTLSeconds": 60})
    w.namespace("m", replicationClusters=["b", "c"], policies={"messageTTLSeconds": 60})
    await w.run()
    return w


async def change(w: LogicalWorld, name: str, clusters: list[str], **policies: Any) -> float:
    """Change a namespace; how long its pass waits for clusters that do not answer."""
    w.namespace(name, replicationClusters=clusters, policies=policies)
    before = w.admin.waited
    await w.reconcile(Kind.NAMESPACE, name)
    return float(w.admin.waited - before)


@pytest.mark.parametrize(("name", "clusters"), [("n", ["a", "b", "c"]), ("m", ["b", "c"])])
@pytest.mark.parametrize("silent", ["a", "c"])
async def test_one_pass_waits_once_and_the_next_ones_do_not(
    world: LogicalWorld, name: str, clusters: list[str], silent: str
) -> None:
    world.admin.hanging.add(silent)
    waited = await change(world, name, clusters, messageTTLSeconds=70)
    asked = silent == "a" or silent in clusters
    assert waited == (PATIENCE_SECONDS if asked else 0.0)
    assert world.pulsar.namespaces[f"t/{name}"]["message_ttl_in_seconds"] == 70
    assert world.condition(Kind.NAMESPACE, name)[0] == "True"
    for ttl in (71, 72, 73):
        assert await change(world, "m", ["b", "c"], messageTTLSeconds=ttl) == 0
        assert await change(world, "n", ["a", "b", "c"], messageTTLSeconds=ttl) == 0


async def test_many_short_silences_leave_no_cluster_out(world: LogicalWorld) -> None:
    """What is given up early says less than a call that had its whole time."""
    names = [f"n{number}" for number in range(5)]
    for name in names:
        world.namespace(name, replicationClusters=["a", "b", "c"])
    await world.run()
    world.admin.hanging.add("a")
    waited = await asyncio.gather(*(change(world, name, ["a", "b", "c"], messageTTLSeconds=70) for name in names))
    assert max(waited) > PATIENCE_SECONDS, "several asked at once"
    reachability = world.controllers[Kind.NAMESPACE].deps.reachability
    assert (reachability.of("http://a:8080").silent, reachability.of("http://a:8080").since) == (1, None)
    world.topic("x", namespace="n")
    await world.reconcile(Kind.TOPIC, "x")
    assert reachability.of("http://a:8080").silent > 1, "topics, which lie in each cluster, ask it and wait"


async def test_what_lies_in_the_silent_cluster_is_unknown_and_done_when_it_answers(world: LogicalWorld) -> None:
    world.admin.hanging.add("a")
    rate: dict[str, Any] = {"publishRate": {"messagesPerSecond": 7}, "messageTTLSeconds": 60}
    assert await change(world, "n", ["a", "b", "c"], **rate) == PATIENCE_SECONDS
    assert world.condition(Kind.NAMESPACE, "n")[:2] == ("Unknown", "AdminUnreachable")
    assert await change(world, "n", ["a", "b", "c"], **rate) == 0
    text = world.condition(Kind.NAMESPACE, "n")[2]
    assert "(a: the operator skips the cluster, because its last request timed out)" in text
    world.admin.hanging.clear()
    world.controllers[Kind.NAMESPACE].deps.reachability.heard("http://a:8080", world.stepping.now())
    await world.run()
    assert world.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert set(world.pulsar.namespaces["t/n"]["publishMaxMessageRate"]) == {"a", "b", "c"}


async def test_the_only_cluster_has_the_whole_time(world: LogicalWorld) -> None:
    for name in ("a", "b"):
        world.cluster_status(name, ready=False)
    world.admin.hanging.add("c")
    assert await change(world, "m", ["b", "c"], messageTTLSeconds=70) == WHOLE_SECONDS


async def test_a_cluster_that_answers_the_question_alone_does_not_keep_topics_waiting_without_end(
    world: LogicalWorld,
) -> None:
    """Its own metadata store is away, and what it is asked every quarter of a minute it knows from memory."""
    world.topic("x", namespace="n")
    await world.run()
    world.admin.hanging.add("a")
    reachability = world.controllers[Kind.NAMESPACE].deps.reachability
    waited = []
    for number in range(12):
        known = reachability.of("http://a:8080")
        if known.since is None or known.due(world.stepping.now()):
            reachability.asked("http://a:8080", world.stepping.now(), answered=True)
        before = world.admin.waited
        world.topic("x", namespace="n", policies={"maxConsumers": number + 1})
        await world.reconcile(Kind.TOPIC, "x")
        waited.append(world.admin.waited - before)
    assert any(waited)
    assert waited.count(0.0) >= 8, "ever more rarely"
    assert max(waited[2:]) < 2 * WHOLE_SECONDS, "one call is enough to leave it out again"
    world.admin.hanging.clear()
    reachability.asked("http://a:8080", world.stepping.now(), answered=True)
    await world.run()
    assert reachability.of("http://a:8080").in_vain == 0
    assert world.condition(Kind.TOPIC, "x")[0] == "True"
