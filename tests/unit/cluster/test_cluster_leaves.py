"""A cluster of several is deleted once no namespace in Pulsar needs it, declared or not."""

from __future__ import annotations

import copy
import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, Kind
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import MANAGED_LEDGERS
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH
from pulsar_operator.ports import CUSTOM, PODS, Json, UnavailableError
from tests.fakes.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.support.cluster.rolls import two
from tests.support.cluster.world import NS, ClusterWorld
from tests.support.core.journal import ZOOKEEPER, PortCall

MADE: list[ClusterWorld] = []


async def up() -> ClusterWorld:
    """Clusters east and west; brought up once."""
    if not MADE:
        MADE.append(await two(1))
    return copy.deepcopy(MADE[0])


def store(world: ClusterWorld, service: str) -> FakeEnsemble:
    inner: FakeZooKeeper = world.deps.zookeeper._inner._inner._inner  # type: ignore[attr-defined]
    return inner.ensembles[f"{service}.{NS}.svc.cluster.local:2181"]


def namespace(world: ClusterWorld, name: str, *clusters: str, allowed: tuple[str, ...] = ()) -> None:
    """A namespace that nobody declared."""
    policies: Json = {"replication_clusters": list(clusters), "allowed_clusters": list(allowed)}
    store(world, "demo-configuration-store").put(f"{POLICIES_PATH}/{name}", json.dumps(policies).encode())


def topic(world: ClusterWorld, cluster: str, name: str) -> None:
    tenant, space, local = name.split("/")
    store(world, f"{cluster}-zookeeper").put(f"{MANAGED_LEDGERS}/{tenant}/{space}/persistent/{local}", b"")


async def blocked(world: ClusterWorld) -> str | None:
    """Why west stays; None = it is gone."""
    await world.run()
    if await world.live(Kind.CLUSTER, "west") is None:
        return None
    status, reason, text = await world.condition(Kind.CLUSTER, "west", "DeletionBlocked")
    assert (status, reason) == ("True", "DependentsExist")
    return text


async def test_a_cluster_that_nobody_needs_goes() -> None:
    world = await up()
    namespace(world, "shop/orders", "east")
    namespace(world, "shop/empty", "west")
    namespace(world, "pulsar/system", "east", allowed=("east", "west"))
    topic(world, "west", "shop/empty/__change_events")
    await world.delete(Kind.CLUSTER, "west")
    assert await blocked(world) is None


@pytest.mark.parametrize("allowed", [(), ("east", "west")])
async def test_a_namespace_that_it_shares_with_others_keeps_it(allowed: tuple[str, ...]) -> None:
    world = await up()
    namespace(world, "shop/mirrored", "east", *(() if allowed else ("west",)), allowed=allowed)
    await world.delete(Kind.CLUSTER, "west")
    text = await blocked(world)
    assert (
        text is not None
        and "1 namespaces in Pulsar still need this cluster: shop/mirrored (its clusters: east, west)" in text
    )
    assert "annotate --overwrite pulsarcluster/west pulsaroperator.io/confirm-delete=west" in text
    assert "west-broker-0" in await world.names(PODS), "it serves its clients"
    namespace(world, "shop/mirrored", "east")
    assert await blocked(world) is None


@pytest.mark.parametrize("name", ["payments", "__payments"])
async def test_topics_that_nobody_declared_keep_it_until_it_is_confirmed(name: str) -> None:
    world = await up()
    namespace(world, "shop/alone", "west")
    topic(world, "west", f"shop/alone/{name}")
    await world.delete(Kind.CLUSTER, "west")
    text = await blocked(world)
    assert text is not None and "shop/alone (topics in this cluster: 1)" in text

    def confirm(obj: Json) -> None:
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_CONFIRM_DELETE] = "west"

    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "west", confirm)
    assert await blocked(world) is None


async def test_what_cannot_be_read_is_not_nobody() -> None:
    world = await up()

    def fail(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.name.startswith(POLICIES_PATH):
            raise UnavailableError("connection loss")

    world.journal.before.append(fail)
    await world.delete(Kind.CLUSTER, "west")
    text = await blocked(world)
    assert (
        text is not None and "It is not known whether namespaces in Pulsar need this cluster: connection loss" in text
    )
    world.journal.before.remove(fail)
    assert await blocked(world) is None


async def test_the_last_cluster_is_its_instances_own_affair() -> None:
    world = await up()
    namespace(world, "shop/alone", "west")
    topic(world, "west", "shop/alone/payments")
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    await world.delete(Kind.CLUSTER, "west")
    assert await blocked(world) is None
