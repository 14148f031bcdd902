"""A topic that was just made is read back by its properties: they are its own, or it is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.ports import NotFoundError, RefusedError
from tests.fakes.admin import AdminCall
from tests.support.logical.world import LogicalWorld

X = "persistent://t/n/x"
READ_BACK = ("persistent", "t", "n", "x", "properties")


async def prepared(*clusters: str) -> LogicalWorld:
    world = LogicalWorld(*clusters)
    world.tenant()
    world.namespace()
    await world.run()
    return world


async def made(world: LogicalWorld, meanwhile: Callable[[LogicalWorld], object]) -> list[str]:
    """The calls of the pass that makes the topic; ``meanwhile`` happens before it is read back, once."""
    done: list[object] = []

    def hook(call: AdminCall) -> None:
        if call.method == "GET" and call.path == READ_BACK and not done:
            done.append(True)
            meanwhile(world)

    world.admin.before.append(hook)
    world.topic("x", properties={"team": "orders"})
    mark = len(world.admin.calls)
    await world.reconcile(Kind.TOPIC, "x")
    assert done
    return [f"{call.method} {call.path[-1]}" for call in world.admin.calls[mark:]]


async def test_its_properties_say_that_it_is_there() -> None:
    world = await prepared()
    assert await made(world, lambda _: None) == ["GET n", "GET partitions", "PUT x", "GET properties"]
    assert world.condition(Kind.TOPIC, "x")[0] == "True"
    assert world.status(Kind.TOPIC, "x")["clusters"] == [{"name": "a", "exists": True}]


async def test_without_properties_of_its_own_it_is_asked_for() -> None:
    world = await prepared()
    world.topic("x")
    mark = len(world.admin.calls)
    await world.reconcile(Kind.TOPIC, "x")
    assert [call.path[-1] for call in world.admin.calls[mark:]] == ["n", "partitions", "x", "partitions"]


async def test_properties_that_were_written_are_read_where_they_were_written() -> None:
    """The broker that owns the topic tells them; what any other one tells with the partitions may be older."""
    world = await prepared()
    world.topic("x", partitions=2, properties={"team": "orders"})
    await world.run()
    world.topic("x", partitions=2, properties={"team": "sales"})
    mark = len(world.admin.calls)
    await world.reconcile(Kind.TOPIC, "x")
    calls = [f"{call.method} {call.path[-1]}" for call in world.admin.calls[mark:]]
    assert calls == ["GET n", "GET partitions", "PUT properties", "GET partitions", "GET properties"]


async def test_one_that_is_gone_again_is_not_believed() -> None:
    def delete(world: LogicalWorld) -> None:
        del world.pulsar.topics["a"][X]
        del world.pulsar.topic_properties["a", X]

    world = await prepared()
    calls = await made(world, delete)
    assert calls[3:5] == ["GET properties", "GET partitions"]
    assert world.condition(Kind.TOPIC, "x")[0] == "False"
    await world.reconcile(Kind.TOPIC, "x")
    assert X in world.pulsar.topics["a"] and world.condition(Kind.TOPIC, "x")[0] == "True"


async def test_properties_without_the_record_prove_nothing() -> None:
    world = await prepared()
    calls = await made(world, lambda w: w.pulsar.topic_properties["a", X].pop(OWNER_PROPERTY))
    assert calls[3:5] == ["GET properties", "GET partitions"]
    assert world.condition(Kind.TOPIC, "x")[0] == "True"


@pytest.mark.parametrize("error", [RefusedError("HTTP 403", status=403), NotFoundError("HTTP 404")])
async def test_where_they_are_not_reported_the_topic_is_asked_for(error: Exception) -> None:
    def refuse(_: LogicalWorld) -> None:
        raise error

    world = await prepared()
    calls = await made(world, refuse)
    assert calls[3:] == ["GET properties", "GET partitions", "GET properties"]
    assert world.condition(Kind.TOPIC, "x")[0] == "True"


async def test_each_cluster_is_judged_by_its_own_answer() -> None:
    world = await prepared("a", "b")
    calls = await made(world, lambda w: w.pulsar.topic_properties["b", X].pop(OWNER_PROPERTY))
    assert sorted(calls[5:8]) == ["GET partitions", "GET properties", "GET properties"]
    assert world.condition(Kind.TOPIC, "x")[0] == "True"
