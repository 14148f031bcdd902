"""The managed store of an instance that is deleted stays for others that are registered in it."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, Kind
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import SILENT_SECONDS
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS, Json
from tests.support.cluster.leaving import (
    SHARED,
    again,
    ensemble,
    go,
    pair,
    put,
    silent,
)
from tests.support.cluster.world import NS
from tests.unit.cluster.test_cluster_leaves_others import DEMO, ELSEWHERE, SOUTH, with_south


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
async def test_the_store_stays_for_one_that_was_allowed_once_and_is_registered(reclaim: str) -> None:
    world = await pair()
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec.update(allowedKubernetesNamespaces=[ELSEWHERE]))
    north = again("north", await world.get(Kind.CLUSTER, "west"))
    north["metadata"]["namespace"] = ELSEWHERE
    north["spec"]["instanceRef"] = DEMO
    await world.apply(north)
    await world.run()
    put(world, "shop/orders", {"replication_clusters": ["north"]})

    def withdraw(spec: Json) -> None:
        spec.pop("allowedKubernetesNamespaces")
        spec["reclaimPolicy"] = reclaim

    await world.change(Kind.INSTANCE, "demo", withdraw)
    for name in ("east", "west"):
        await world.delete(Kind.CLUSTER, name)
    await world.delete(Kind.INSTANCE, "demo")
    await world.run()
    status, reason, message = await world.condition(Kind.INSTANCE, "demo", "DeletionBlocked")
    assert (status, reason) == ("True", "DependentsExist")
    assert "1 clusters that do not belong to the instance are registered in the configuration store: north" in message
    assert "demo-configuration-store" in await world.names(STATEFUL_SETS)
    await world.backstage.remove(CUSTOM[Kind.CLUSTER], ELSEWHERE, "north")
    await world.run()
    assert await world.live(Kind.INSTANCE, "demo") is None


@pytest.mark.parametrize("ends", ["taken out", "confirmed", "silent"])
async def test_the_store_of_an_instance_stays_for_a_cluster_from_elsewhere_while_it_answers(ends: str) -> None:
    world = await with_south(SHARED)
    await go(world, "east")

    def lost(obj: Json) -> None:
        obj["status"].pop("configurationStoreServers")

    await world.backstage.edit(CUSTOM[Kind.INSTANCE], NS, "demo", lost)
    await world.delete(Kind.INSTANCE, "demo")
    await world.run()
    assert await world.names(CUSTOM[Kind.CLUSTER]) == []
    assert (await world.condition(Kind.INSTANCE, "demo", "DeletionBlocked"))[1] == "DependentsExist"
    assert "demo-configuration-store" in await world.names(STATEFUL_SETS)
    if ends == "taken out":
        ensemble(world).remove(SOUTH)
    elif ends == "confirmed":
        await world.annotate(Kind.INSTANCE, "demo", ANNOTATION_CONFIRM_DELETE, "demo")
    else:
        silent(world, "/")
        await world.run()
        text = (await world.condition(Kind.INSTANCE, "demo", "DeletionBlocked"))[2]
        assert "connection loss" in text
        world.clock.forward(SILENT_SECONDS)
    await world.run()
    assert await world.live(Kind.INSTANCE, "demo") is None
