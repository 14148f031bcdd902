"""What the operator takes away from a cluster for good is an event; the writes that go with it are not."""

from __future__ import annotations

import json

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH
from pulsar_operator.ports import SECRETS, SERVICES
from tests.support.cluster.copies import ready_world
from tests.support.cluster.leaving import ENTRY, ensemble, go, naming, pair, policies, put, told
from tests.support.cluster.world import ClusterWorld
from tests.unit.cluster.test_deletion_of_data import deletable

TENANTS = [f"t{number:03}" for number in range(40)]


async def _many() -> ClusterWorld:
    world = await pair()
    for name in TENANTS:
        put(world, name, {"adminRoles": [], "allowedClusters": ["west", "east"]})
    for name in TENANTS:
        ensemble(world).put(f"{ENTRY}/failureDomain/{name}", b'{"brokers":[]}')
    return world


async def test_lists_that_a_deleted_cluster_leaves_are_one_event_each() -> None:
    world = await _many()
    await go(world)
    assert naming(world) == []
    tenants, namespaces = told(world, "Changed")
    assert tenants.startswith("Removed cluster west from allowedClusters of tenants in ")
    assert " (42): public, pulsar, t000, " in tenants and tenants.endswith(" and 22 more")
    assert "the lists of clusters of namespaces of tenant pulsar in " in namespaces
    assert namespaces.endswith(" (1): pulsar/system")
    of_the_entry = [text for text in told(world, "Deleted") if ENTRY in text]
    assert len(of_the_entry) == 1 and f"Deleted {ENTRY} with 41 nodes below it in " in of_the_entry[0]


async def test_lists_that_were_narrowed_before_a_write_fails_are_an_event_too() -> None:
    world = await _many()

    def changed(call: object) -> None:
        if getattr(call, "verb", "") == "set" and getattr(call, "name", "") == f"{POLICIES_PATH}/t020":
            world.journal.before.remove(changed)
            put(world, "t020", {"adminRoles": ["new"], "allowedClusters": ["west", "east"]})

    world.journal.before.append(changed)
    await go(world)
    numbers = [int(text.split(" (")[1].split(")")[0]) for text in told(world, "Changed") if "of tenants" in text]
    assert len(numbers) == 2 and sum(numbers) == 42
    assert policies(world, "t020") == {"adminRoles": ["new"], "allowedClusters": ["east"]}
    assert json.loads(ensemble(world).nodes[f"{POLICIES_PATH}/t039"].data)["allowedClusters"] == ["east"]


async def test_a_service_that_is_pruned_is_an_event_and_other_objects_are_not() -> None:
    world = await ready_world()
    before = set(await world.names(SERVICES))
    mark = len(world.journal.events)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.pop("proxy"))
    await world.run()
    gone = before - set(await world.names(SERVICES))
    assert "east-proxy" in gone
    events = [each.message for each in world.journal.events[mark:] if each.reason == "Deleted"]
    assert {text.split(", because")[0] for text in events} == {
        "Deleted StatefulSet east-proxy",
        *(f"Deleted Service {name}" for name in gone),
    }


async def test_the_secret_of_an_ensemble_that_is_deleted_is_an_event() -> None:
    world = await deletable()
    assert await world.names(SECRETS) == ["east-zookeeper-super"]
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.names(SECRETS) == []
    assert "Deleted Secret east-zookeeper-super, because reclaimPolicy is Delete" in told(world, "Deleted")
    assert not [text for text in told(world, "Deleted") if "ConfigMap" in text]
