"""Configuration stores of each sort, a second cluster, lost and unreachable stores, references, pause and dry run."""

from __future__ import annotations

import copy
import json

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, PODS, PVCS, STATEFUL_SETS, Json
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import KUBERNETES, ZOOKEEPER

STORE = "demo-configuration-store.pulsar.svc.cluster.local:2181"
EAST, WEST = (f"{name}-zookeeper.pulsar.svc.cluster.local:2181" for name in ("east", "west"))


def manifests(store: Json) -> list[Json]:
    """The quickstart with another configuration store."""
    found = quickstart()
    found[0]["spec"]["configurationStore"] = store
    return found


def second(name: str = "west", **spec: object) -> Json:
    """Another cluster of the instance."""
    cluster = copy.deepcopy(quickstart()[1])
    cluster["metadata"]["name"] = name
    cluster["spec"].pop("proxy")
    cluster["spec"] |= spec
    return cluster


async def broker_config(world: ClusterWorld, cluster: str = "east") -> str:
    """overrides.conf of the brokers."""
    return str((await world.get(CONFIG_MAPS, await world.configuration(f"{cluster}-broker")))["data"]["overrides.conf"])


async def test_a_managed_store_comes_up_beside_the_cluster_and_is_used() -> None:
    world = await converged(*manifests({"managed": {"replicas": 3}}))
    assert await world.all_ready() == {}
    assert f"configurationMetadataStoreUrl=zk:{STORE}" in await broker_config(world)
    trees = await world.trees()
    assert "/admin/clusters/east" in trees[STORE]
    assert "/admin/clusters/east" not in trees[EAST]
    assert "/ledgers/INSTANCEID" in trees[EAST]
    assert (await world.status(Kind.INSTANCE, "demo"))["configurationStoreServers"] == STORE


async def test_brokers_wait_for_a_managed_store_and_bookies_do_not() -> None:
    world = ClusterWorld.fakes()
    world.workloads.troubles.append(Trouble(pod="demo-configuration-store-*"))
    await world.apply(*manifests({"managed": {"replicas": 3}}))
    await world.run()
    assert await world.names(STATEFUL_SETS) == [
        "demo-configuration-store",
        "east-autorecovery",
        "east-bookie",
        "east-zookeeper",
    ]
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "BrokersReady")
    assert (status, reason) == ("False", "WaitingForConfigurationStore")
    assert "0 of 3 ZooKeeper servers of the configuration store are ready" in message
    world.workloads.troubles.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_an_external_store_is_used_with_its_chroot() -> None:
    world = await converged(*manifests({"external": {"servers": "zk.example.com", "chroot": "/pulsar/prod"}}))
    assert await world.all_ready() == {}
    assert "configurationMetadataStoreUrl=zk:zk.example.com:2181/pulsar/prod" in await broker_config(world)
    written = [c for c in world.journal.effects if c.port == ZOOKEEPER and c.kind.startswith("zk.example.com")]
    assert written
    assert all(c.name.startswith("/pulsar/prod/") for c in written)


async def test_an_unreachable_external_store_is_told_and_waited_for() -> None:
    world = ClusterWorld.fakes()
    world.unreachable.add("zk.example.com")
    await world.apply(*manifests({"external": {"servers": "zk.example.com:2181"}}))
    await world.run()
    status, reason, message = await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady")
    assert (status, reason) == ("False", "ConfigurationStoreUnavailable")
    assert "zk.example.com:2181" in message
    assert "east-broker" not in await world.names(STATEFUL_SETS)
    world.unreachable.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_an_external_metadata_store_that_does_not_answer_is_metadata_unreachable() -> None:
    world = ClusterWorld.fakes()
    world.unreachable.add("zk.example.com")
    found = quickstart()
    found[1]["spec"]["metadataStore"] = {"external": {"servers": "zk.example.com:2181", "chroot": "/east"}}
    await world.apply(*found)
    await world.run()
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "MetadataReady")
    assert (status, reason) == ("Unknown", "MetadataUnreachable")
    assert "zk.example.com:2181" in message
    assert await world.names(STATEFUL_SETS) == []
    world.unreachable.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_a_store_that_goes_away_later_takes_nothing_down() -> None:
    world = await converged(*manifests({"external": {"servers": "zk.example.com:2181"}}))
    pods = await world.uids(PODS)
    world.unreachable.add("zk.example.com")
    mark = len(world.journal.effects)
    await world.run()
    assert await world.uids(PODS) == pods
    assert {c.verb for c in world.journal.since(mark)} <= {"status"}
    world.unreachable.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_no_broker_is_replaced_while_the_store_stands_still_though_its_pod_is_ready() -> None:
    """A process that is stopped answers nobody, and a probe that cannot be run in it changes nothing of its pod."""
    world = await converged(*manifests({"managed": {"replicas": 1}}))
    pods = await world.uids(PODS)
    world.unreachable.add(STORE.partition(":")[0])

    def changed(spec: Json) -> None:
        spec["broker"]["config"] = {"maxProducersPerTopic": "7"}
        spec["bookkeeper"]["config"] = {"gcWaitTime": "600000"}

    await world.change(Kind.CLUSTER, "east", changed)
    await world.run()
    assert await world.uids(PODS) == pods
    waits = (await world.status(Kind.CLUSTER, "east"))["rollout"]["message"]
    assert "The configuration store of the instance is unavailable" in waits and STORE in waits
    world.unreachable.clear()
    await world.run()
    assert await world.all_ready() == {}
    after = await world.uids(PODS)
    assert {name for name in pods if after[name] != pods[name]} == {"east-bookie-0", "east-broker-0"}


async def test_a_second_cluster_is_registered_without_touching_replication_clusters() -> None:
    world = await ready_world()
    before = (await world.trees())[EAST]
    await world.apply(second())
    await world.run()
    assert await world.all_ready() == {}
    trees = await world.trees()
    assert "/admin/clusters/west" in trees[EAST]
    assert "/admin/clusters/west" not in trees[WEST]
    for path in ("/admin/policies/public/default", "/admin/policies/pulsar/system"):
        one, two = json.loads(before[path]), json.loads(trees[EAST][path])
        assert one["replication_clusters"] == two["replication_clusters"] == ["east"], path
    assert trees[WEST]["/ledgers/INSTANCEID"] != trees[EAST]["/ledgers/INSTANCEID"]
    assert f"configurationMetadataStoreUrl=zk:{EAST}" in await broker_config(world, "west")
    status = await world.status(Kind.INSTANCE, "demo")
    assert [c["name"] for c in status["clusters"]] == ["east", "west"]
    assert status["readyClusters"] == "2/2"
    assert world.pulsar.tenants["shop"]["allowedClusters"] == ["east", "west"]


async def test_a_second_cluster_waits_for_the_first_ones_metadata() -> None:
    world = ClusterWorld.fakes()
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-*"))
    await world.apply(*quickstart(), second())
    await world.run()
    status, reason, message = await world.condition(Kind.CLUSTER, "west", "BrokersReady")
    assert (status, reason) == ("False", "WaitingForConfigurationStore")
    assert "cluster east" in message
    assert "west-bookie" in await world.names(STATEFUL_SETS)
    assert "west-broker" not in await world.names(STATEFUL_SETS)
    world.workloads.troubles.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_two_clusters_of_one_pulsar_name_do_not_share_anything() -> None:
    world = await ready_world()
    tree = (await world.trees())[EAST]
    await world.apply(second("other", clusterName="east"))
    await world.run()
    assert (await world.trees())[EAST] == tree
    assert (await world.condition(Kind.CLUSTER, "other"))[0] == "False"
    assert "other-broker" not in await world.names(STATEFUL_SETS)
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


async def test_a_wiped_store_is_reported_and_never_written_again() -> None:
    world = await ready_world()
    pods, claims = await world.uids(PODS), await world.uids(PVCS)
    await world.dataplane.wipe(EAST)
    mark = len(world.journal.effects)
    await world.run()
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "MetadataReady")
    assert (status, reason) == ("False", "MetadataLost")
    assert "Nothing is written" in message
    assert not [c for c in world.journal.since(mark) if c.port == ZOOKEEPER]
    assert (await world.trees())[EAST] == {}
    assert await world.uids(PODS) == pods
    assert await world.uids(PVCS) == claims


async def test_a_lost_volume_of_zookeeper_is_reported_and_never_formatted() -> None:
    """The claim and the pod are deleted by hand; the new server is empty and does not found a second ensemble."""
    world = await ready_world()
    await world.backstage.remove(PVCS, NS, "data-east-zookeeper-0")
    await world.backstage.remove(PODS, NS, "east-zookeeper-0")
    mark = len(world.journal.effects)
    await world.run()
    assert world.dataplane.formatted == ["east-zookeeper"]
    assert (await world.condition(Kind.CLUSTER, "east", "MetadataReady"))[:2] == ("False", "WaitingForZooKeeper")
    # Somebody takes the record away: the second line holds.
    await world.backstage.remove(CONFIG_MAPS, NS, "east-zookeeper-founded")
    await world.run()
    assert world.dataplane.formatted == ["east-zookeeper", "east-zookeeper"]
    assert (await world.condition(Kind.CLUSTER, "east", "MetadataReady"))[1] == "MetadataLost"
    assert not [c for c in world.journal.since(mark) if c.port == ZOOKEEPER]


async def test_a_lost_record_and_a_lost_volume_together_format_nothing_while_bookies_exist() -> None:
    world = await ready_world()
    await world.backstage.remove(CONFIG_MAPS, NS, "east-instance-id")
    await world.backstage.remove(PVCS, NS, "data-east-zookeeper-0")
    await world.backstage.remove(PODS, NS, "east-zookeeper-0")
    await world.backstage.remove(CONFIG_MAPS, NS, "east-zookeeper-founded")
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "MetadataReady"))[1] == "MetadataLost"
    assert (await world.trees())[EAST] == {}


async def test_a_lost_record_is_written_again_from_the_store() -> None:
    world = await ready_world()
    record = await world.get(CONFIG_MAPS, "east-instance-id")
    await world.backstage.remove(CONFIG_MAPS, NS, "east-instance-id")
    await world.run()
    found = await world.get(CONFIG_MAPS, "east-instance-id")
    assert found["data"]["instanceId"] == record["data"]["instanceId"]
    assert await world.all_ready() == {}


async def test_a_reference_to_nothing_is_told_and_ends_when_it_appears() -> None:
    instance, *rest = quickstart()
    world = await converged(*rest)
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "BrokersReady")
    assert (status, reason) == ("False", "ReferenceNotFound")
    assert 'PulsarInstance "pulsar/demo", which spec.instanceRef names, does not exist. Create it' in message
    assert (await world.condition(Kind.TENANT, "shop"))[1] == "ReferenceNotFound"
    assert "east-broker" not in await world.names(STATEFUL_SETS)
    await world.apply(instance)
    await world.run()
    assert await world.all_ready() == {}


async def test_a_reference_from_a_namespace_that_is_not_allowed() -> None:
    found = manifests({"managed": {"replicas": 1}})
    found[1]["metadata"]["namespace"] = "elsewhere"
    found[1]["spec"]["instanceRef"]["namespace"] = NS
    world = await converged(*found[:2])
    obj = (await world.backstage.all(CUSTOM[Kind.CLUSTER]))[0]
    by_type = {c["type"]: c for c in obj["status"]["conditions"]}
    assert by_type["BrokersReady"]["reason"] == "ReferenceNotAllowed"
    assert "spec.allowedKubernetesNamespaces" in by_type["BrokersReady"]["message"]
    assert (await world.status(Kind.INSTANCE, "demo")).get("clusters") in (None, [])
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec.update(allowedKubernetesNamespaces=["elsewhere"]))
    await world.run()
    assert (await world.condition(Kind.INSTANCE, "demo"))[0] == "True"


async def test_an_instance_naming_a_cluster_that_does_not_exist() -> None:
    world = await converged(quickstart()[0])
    status, reason, message = await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady")
    assert (status, reason) == ("False", "ReferenceNotFound")
    assert 'Create the PulsarCluster with spec.instanceRef.name "demo"' in message


@pytest.mark.parametrize("kind", [Kind.CLUSTER, Kind.INSTANCE])
async def test_a_paused_object_is_watched_and_not_touched(kind: Kind) -> None:
    world = await converged(*manifests({"managed": {"replicas": 1}}))
    name = "east" if kind is Kind.CLUSTER else "demo"
    await world.pause(kind, name)
    await world.run()

    def config(spec: Json) -> None:
        if kind is Kind.CLUSTER:
            spec["broker"]["replicas"] = 3
        else:
            spec["configurationStore"]["managed"]["config"] = {"maxClientCnxns": "7"}

    await world.change(kind, name, config)
    part = "broker" if kind is Kind.CLUSTER else "configuration-store"
    await world.backstage.remove(CONFIG_MAPS, NS, await world.configuration(f"{name}-{part}"))
    mark = len(world.journal.effects)
    await world.run()
    assert {c.verb for c in world.journal.since(mark)} <= {"status"}
    await world.pause(kind, name, on=False)
    await world.run()
    assert await world.all_ready() == {}
    assert len(world.journal.since(mark)) > 1


async def test_a_dry_run_tells_in_words_and_writes_only_status() -> None:
    found = quickstart()
    found[1]["metadata"]["annotations"] = {"pulsaroperator.io/dry-run": "true"}
    world = await converged(*found)
    assert {c.verb for c in world.journal.effects if c.kind != "PulsarInstance"} == {"status"}
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert "Create StatefulSet east-zookeeper, because it does not exist" in pending
    assert "Create Secret east-zookeeper-super, because it does not exist" in pending
    assert await world.names(STATEFUL_SETS) == []
    await world.dry_run(Kind.CLUSTER, "east", on=False)
    await world.run()
    assert await world.all_ready() == {}
    assert "pendingActions" not in await world.status(Kind.CLUSTER, "east")
    await world.dry_run(Kind.CLUSTER, "east")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    mark = len(world.journal.effects)
    await world.run()
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert pending == ["Update StatefulSet east-broker, because spec.replicas changed from 1 to 2"]
    assert {c.verb for c in world.journal.since(mark)} == {"status"}
    assert world.journal.of(KUBERNETES, "delete") == []


async def test_an_unreadable_instance_can_be_deleted_and_keeps_its_volumes() -> None:
    world = await converged(manifests({"managed": {"replicas": 1}})[0])
    before = await world.names(PVCS)
    assert before
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec["configurationStore"]["managed"].update(replicas="odd"))
    await world.delete(Kind.INSTANCE, "demo")
    await world.run()
    assert await world.live(Kind.INSTANCE, "demo") is None
    assert await world.names(PVCS) == before


async def test_a_managed_store_runs_the_image_and_pulls_as_the_instance_says() -> None:
    objects = manifests({"managed": {"replicas": 1}})
    image = {"zookeeper": "example.com/zoo:1", "pullPolicy": "Always", "pullSecrets": ["registry"]}
    objects[0]["spec"]["image"] = image
    world = await converged(*objects)
    pod = await world.get(PODS, "demo-configuration-store-0")
    container = pod["spec"]["containers"][0]
    assert (container["image"], container["imagePullPolicy"]) == ("example.com/zoo:1", "Always")
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert (await world.get(PODS, "east-zookeeper-0"))["spec"]["containers"][0]["image"] != "example.com/zoo:1"


async def test_a_limit_below_the_heap_of_a_managed_store_is_refused() -> None:
    store = {"managed": {"replicas": 1, "jvm": {"heap": "1g"}, "resources": {"limits": {"memory": "512Mi"}}}}
    world = await converged(*manifests(store))
    accepted = await world.condition(Kind.INSTANCE, "demo", "Accepted")
    assert accepted[:2] == ("False", "InvalidSpec")
    assert "spec.configurationStore.managed.resources.limits.memory = 512 MiB" in accepted[2]
    assert "demo-configuration-store" not in await world.names(STATEFUL_SETS)
