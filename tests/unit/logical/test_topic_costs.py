"""What one topic costs, by count: requests to the API server and calls to Pulsar."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.ports import CUSTOM, Json
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import GLOBAL
from tests.support.logical.world import LogicalWorld

POLICIES = {
    "messageTTLSeconds": 3600,
    "maxConsumers": 50,
    "retention": {"timeMinutes": 1440, "size": "1Gi"},
}
PROPERTIES = {"team": "orders", "cost-centre": "12"}


def requests_of(world: LogicalWorld) -> Counter[str]:
    """Requests about topics from now on, as the adapter makes them: a status write of a version that is not the newest
    is refused, the object read, and the write repeated."""
    asked: Counter[str] = Counter()
    kube, write = world.kube, world.kube.apply_status

    async def apply_status(manifest: Json) -> Json:
        meta = manifest["metadata"]
        live = kube.live(CUSTOM[Kind(manifest["kind"])], meta["namespace"], meta["name"])
        assert live is not None
        known = meta.get("resourceVersion")
        if known != live["metadata"]["resourceVersion"]:
            asked["get"] += 1
            asked["refused"] += known is not None
        asked["status"] += 1
        return await write(manifest)

    kube.apply_status = apply_status  # type: ignore[method-assign]
    told = {"apply_status", "list"}  # counted above; namesakes, which the operator's cache knows
    kube.before.append(
        lambda call: asked.update([call.verb] if call.kind == "PulsarTopic" and call.verb not in told else [])
    )
    return asked


async def prepared() -> LogicalWorld:
    """A world whose namespace is there."""
    world = LogicalWorld()
    world.tenant()
    world.namespace()
    await world.run()
    return world


async def first_pass(world: LogicalWorld, **spec: object) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Make a topic; its requests to the API server and its calls to Pulsar."""
    world.topic("x", policies=POLICIES, properties=PROPERTIES, **spec)
    asked, mark = requests_of(world), len(world.admin.calls)
    await world.reconcile(Kind.TOPIC, "x")
    assert world.condition(Kind.TOPIC, "x")[0] == "True"
    return asked, [(c.method, "/".join(c.path)) for c in world.admin.calls[mark:]]


@pytest.mark.parametrize("partitions", [None, 3])
async def test_a_new_topic_is_made_and_read_back_in_one_round(partitions: int | None) -> None:
    """One write of each policy and one of all the rest, the look before the first write, the look for the namespace,
    and one read of each policy and of all the rest: the properties of a topic without partitions say that it is there,
    and the answer about partitions has the properties of the other."""
    world = await prepared()
    _, calls = await first_pass(world, **({} if partitions is None else {"partitions": partitions}))
    methods = Counter(method for method, _ in calls)
    assert methods["PUT"] + methods["POST"] == 1 + len(POLICIES)
    reads = Counter(path.rsplit("/", 1)[1] for method, path in calls if method == "GET")
    rest = {"partitions": 1, "properties": 1} if partitions is None else {"partitions": 2}
    assert reads == {"n": 1, "retention": 1, "messageTTL": 1, "maxConsumers": 1, **rest}


@pytest.mark.parametrize("partitions", [None, 3])
async def test_a_topic_that_another_client_makes_at_that_moment_gets_the_properties_anyway(
    partitions: int | None,
) -> None:
    world = await prepared()
    name = "persistent://t/n/x"

    def faster(call: AdminCall) -> None:
        if call.method == "PUT" and call.path[3:] in (("x",), ("x", "partitions")) and not made:
            made.append(world.pulsar.handle("a", "PUT", call.path, {}, partitions))

    made: list[object] = []
    world.admin.before.append(faster)
    _, calls = await first_pass(
        world, **({} if partitions is None else {"partitions": partitions}), driftPolicy="Report"
    )
    assert made and ("PUT", "persistent/t/n/x/properties") in calls
    found = world.pulsar.topic_properties["a" if partitions is None else GLOBAL, name]
    assert found == {**PROPERTIES, OWNER_PROPERTY: "PulsarTopic apps/x"}


async def test_a_new_topic_is_three_requests_to_the_api_server() -> None:
    """It is read, what will be managed is written ahead, and the status: neither write reads the object again."""
    world = await prepared()
    asked, _ = await first_pass(world)
    assert asked == {"get": 1, "status": 2}


async def test_a_new_topic_is_one_event_with_its_properties() -> None:
    world = await prepared()
    mark = len(world.kube.events)
    await first_pass(world)
    (event,) = world.kube.events[mark:]
    assert event.reason == "Created" and event.message.startswith("Create topic persistent://t/n/x")
    assert " with properties cost-centre, team, because " in event.message


async def test_a_declared_change_is_no_event_and_one_debug_line_for_each_field(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await prepared()
    world.topic("x", policies=POLICIES, properties={f"{n}{'p' * 100}": "v" for n in range(9)})
    await world.reconcile(Kind.TOPIC, "x")
    created = [event for event in world.kube.events if event.object_name == "x"]
    assert [event.reason for event in created] == ["Created"]
    assert all(len(event.message) <= 1000 for event in created)
    obj = world.get(Kind.TOPIC, "x")
    assert obj is not None
    world.kube.put({**obj, "spec": {**obj["spec"], "policies": {"messageTTLSeconds": 7200, "maxConsumers": 51}}})
    with caplog.at_level(logging.DEBUG, "pulsar_operator.controllers.logical.controller"):
        await world.reconcile(Kind.TOPIC, "x")
    assert [event for event in world.kube.events if event.object_name == "x"] == created
    assert len(caplog.records) == 3 and {each.levelname for each in caplog.records} == {"DEBUG"}


async def test_a_finalizer_costs_one_request_more() -> None:
    world = await prepared()
    asked, _ = await first_pass(world, deletionPolicy="Delete")
    topic = world.get(Kind.TOPIC, "x")
    assert topic is not None and FINALIZER in topic["metadata"]["finalizers"]
    assert asked == {"get": 1, "apply": 1, "status": 2}
