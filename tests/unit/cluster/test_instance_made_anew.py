"""A PulsarInstance that is taken away by force and made anew with another store, while its clusters live."""

from __future__ import annotations

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.ports import CUSTOM, PODS, STATEFUL_SETS, Json
from tests.support.cluster.leaving import EXTERNAL, again, blocked, confirm, go
from tests.support.cluster.outages import pair
from tests.support.cluster.world import NS, ClusterWorld

BROKERS = [f"{cluster}-broker-{ordinal}" for cluster in ("east", "west") for ordinal in (0, 1)]


async def gone_by_force(world: ClusterWorld) -> None:
    def release(obj: Json) -> None:
        obj["metadata"].pop("finalizers", None)

    await world.delete(Kind.INSTANCE, "demo")
    await world.backstage.edit(CUSTOM[Kind.INSTANCE], NS, "demo", release)
    assert await world.live(Kind.INSTANCE, "demo") is None


async def test_no_broker_is_given_a_store_that_lacks_its_cluster() -> None:
    """Also one that Kubernetes makes again, as after a node was drained, is made of the old template."""
    world = await pair()
    before = {name: await world.configuration(name) for name in ("east-broker", "west-broker")}
    await gone_by_force(world)
    for _ in range(3):
        await world.round()
    spec = {"configurationStore": {"external": {"servers": EXTERNAL}}}
    meta = {"name": "demo", "namespace": NS}
    await world.apply({"apiVersion": API_VERSION, "kind": "PulsarInstance", "metadata": meta, "spec": spec})
    for replicas in (2, 3, 1):
        await world.change(Kind.CLUSTER, "east", lambda spec, n=replicas: spec["broker"].update(replicas=n))
        for _ in range(4):
            await world.round()
            world.clock.forward(600)
    assert (await world.condition(Kind.CLUSTER, "east"))[1] == "MetadataLost"
    assert {name: await world.configuration(name) for name in before} == before
    for name in BROKERS:
        await world.backstage.remove(PODS, NS, name)
    for _ in range(5):
        await world.round()
    for name in BROKERS:
        pod = await world.get(PODS, name)
        mounted = [each["configMap"]["name"] for each in pod["spec"]["volumes"] if "configMap" in each]
        assert before[name.rpartition("-")[0]] in mounted
    assert "east-broker" in await world.names(STATEFUL_SETS)


async def test_no_cluster_goes_while_others_would_miss_it_and_nobody_knows_by_whom_it_is_needed() -> None:
    world = await pair()
    instance = await world.get(Kind.INSTANCE, "demo")
    await gone_by_force(world)
    await go(world)
    found = await blocked(world)
    assert (
        found is not None
        and "PulsarInstance pulsar/demo" in found[1]
        and "other clusters (east) may keep messages" in found[1]
    )
    assert "west-broker" in await world.names(STATEFUL_SETS)
    await world.apply(again("demo", instance))
    await world.run()
    assert await blocked(world) is None
    await gone_by_force(world)
    await go(world, "east")
    assert await world.live(Kind.CLUSTER, "east") is None, "the last one"


async def test_with_consent_it_goes() -> None:
    world = await pair()
    await gone_by_force(world)
    await confirm(world)
    await go(world)
    assert await blocked(world) is None
