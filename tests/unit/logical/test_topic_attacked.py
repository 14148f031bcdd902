"""Somebody else makes the topic, in the moment between the look and the creation, as another kind of topic."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import GLOBAL
from tests.support.logical.world import LogicalWorld

X = "persistent://t/n/x"


async def test_a_topic_of_the_other_kind_that_another_client_makes_in_the_meantime_stays_theirs() -> None:
    world = LogicalWorld("a")
    world.tenant()
    world.namespace()
    await world.run()
    done: list[object] = []

    def hook(call: AdminCall) -> None:
        if call.method == "PUT" and call.path == ("persistent", "t", "n", "x") and not done:
            done.append(True)
            world.pulsar.partitioned[X] = 3
            world.pulsar.topic_properties[GLOBAL, X] = {"theirs": "1"}

    world.admin.before.append(hook)
    world.topic("x", properties={"team": "orders"})
    mark = len(world.admin.calls)
    await world.reconcile(Kind.TOPIC, "x")
    assert done
    writes = [f"{call.method} {call.path[-1]}" for call in world.admin.calls[mark:] if call.method != "GET"]
    assert OWNER_PROPERTY not in world.pulsar.topic_properties[GLOBAL, X], writes
    assert all(each == "PUT x" for each in writes), writes
