"""The bootstrap against fakes: order, idempotence, kills at every write, two operators at once, pause."""

from __future__ import annotations

import asyncio
import itertools
import json
import re

import pytest
import yaml

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.core.stores import Store
from pulsar_operator.controllers.dataplane.registration.bootstrap import ensure_cluster_metadata
from pulsar_operator.domain.dataplane.registration.metadata import INSTANCE_ID_PATH
from pulsar_operator.domain.dataplane.registration.registration import ClusterUrls, cluster_path
from pulsar_operator.ports import CONFIG_MAPS, Json, RefusedError, UnavailableError
from tests.fakes.killed import Killed
from tests.fakes.zookeeper import Call
from tests.support.cluster.bootstrap import (
    LOCAL,
    NAMESPACE,
    SHARED,
    BootstrapWorld,
    adopting,
    deps,
    record_of,
    request,
    urls,
)


def versions(world: BootstrapWorld) -> dict[str, dict[str, int]]:
    return {servers: ensemble.versions() for servers, ensemble in world.zookeeper.ensembles.items()}


async def test_a_first_set_up_and_its_order() -> None:
    world = BootstrapWorld()
    result = await world.ensure()
    assert result.ok, result
    assert result.reason is Reason.METADATA_INITIALIZED
    assert (result.local_ready, result.registered) == (True, True)
    assert result.instance_id == "00000000-0000-4000-8000-000000000001"
    assert world.switch.writes == [
        "create ConfigMap",
        "create local:2181/pulsar/pulsar-operator/cluster",
        "create local:2181/pulsar/ledgers/available/readonly",
        "create local:2181/pulsar/bookies",
        "create local:2181/pulsar/ledgers/INSTANCEID",
        "apply ConfigMap",
        "create shared:2181/pulsar-operator/clusters/a",
        "create shared:2181/admin/clusters/a",
        "create shared:2181/admin/clusters/global",
        "create shared:2181/admin/policies/public",
        "create shared:2181/admin/policies/pulsar",
        "create shared:2181/admin/policies/pulsar/system",
        "create shared:2181/admin/policies/public/default",
        "create shared:2181/admin/partitioned-topics/pulsar/system/persistent/transaction_coordinator_assign",
        "apply ConfigMap",
    ]
    assert len(result.actions) == len(world.switch.writes)
    config_map = await world.kube.get(CONFIG_MAPS, NAMESPACE, "a-instance-id")
    assert config_map is not None
    assert "ownerReferences" not in config_map["metadata"]
    assert config_map["metadata"]["labels"]["app.kubernetes.io/instance"] == "a"
    assert config_map["data"] == {
        "instanceId": result.instance_id,
        "clusterName": "a",
        "state": "Initialized",
        "adopted": "false",
        "registered": "true",
    }
    assert (
        world.zookeeper.ensemble("local:2181").nodes["/pulsar/ledgers/INSTANCEID"].data.decode() == result.instance_id
    )


async def test_a_second_run_reads_five_things_and_writes_none() -> None:
    world = BootstrapWorld()
    await world.ensure()
    before = versions(world)
    world.switch.writes.clear()
    world.kube.calls.clear()
    world.zookeeper.calls.clear()
    result = await world.ensure()
    assert result.ok
    assert result.actions == ()
    assert world.switch.writes == []
    assert versions(world) == before
    assert [call.verb for call in world.kube.calls] == ["get"]
    assert [call.path for call in world.zookeeper.calls] == [
        "/pulsar/ledgers/INSTANCEID", "/pulsar/pulsar-operator/cluster",
        "/pulsar-operator/clusters/a", "/admin/clusters/a",
    ]  # fmt: skip


@pytest.mark.parametrize("same_store", [False, True], ids=["two stores", "one store"])
async def test_killed_at_any_write_and_run_again_ends_the_same(
    same_store: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = LOCAL if same_store else SHARED
    undisturbed = BootstrapWorld()
    assert (await undisturbed.ensure(shared=shared)).ok
    total = len(undisturbed.switch.writes)
    want = await undisturbed.end()
    for number in range(total):
        for when in ("before", "after"):
            world = BootstrapWorld()
            world.switch.arm(number, when)
            with pytest.raises(Killed):
                await world.ensure(shared=shared)
            world.switch.disarm()
            result = await world.ensure(shared=shared)
            assert result.ok, (number, when, result)
            assert await world.end() == want, (number, when)
            again = await world.ensure(shared=shared)
            assert again.ok
            assert again.actions == ()
    with capsys.disabled():
        print(f" [{total} writes, killed before and after each]", end="")


async def test_answers_lost_at_any_write_are_a_result_and_the_next_pass_goes_on() -> None:
    undisturbed = BootstrapWorld()
    await undisturbed.ensure()
    want = await undisturbed.end()
    count = len(undisturbed.zookeeper.writes)
    for number in range(count):
        for side in ("before", "after"):
            world = BootstrapWorld()
            seen = 0

            def fail(call: Call, number: int = number) -> None:
                nonlocal seen
                if call.is_write:
                    seen += 1
                    if seen == number + 1:
                        raise UnavailableError("the connection was lost")

            getattr(world.zookeeper, side).append(fail)
            first = await world.ensure()
            assert (first.ok, first.reason) == (False, Reason.METADATA_UNREACHABLE)
            assert (await world.ensure()).ok
            assert await world.end() == want


async def test_a_wiped_store_is_reported_and_never_written() -> None:
    world = BootstrapWorld()
    await world.ensure()
    world.zookeeper.ensemble("local:2181").wipe()
    world.switch.writes.clear()
    for _ in range(3):
        result = await world.ensure(bookies_exist=True)
        assert (result.ok, result.reason, result.local_ready) == (False, Reason.METADATA_LOST, False)
        assert result.instance_id == "00000000-0000-4000-8000-000000000001"
    assert world.switch.writes == []
    assert world.zookeeper.ensemble("local:2181").tree() == {}


async def test_a_wiped_configuration_store_is_reported_and_never_written() -> None:
    world = BootstrapWorld()
    await world.ensure()
    world.zookeeper.ensemble("shared:2181").wipe()
    world.switch.writes.clear()
    result = await world.ensure()
    assert (result.ok, result.reason, result.local_ready, result.registered) == (
        False,
        Reason.METADATA_LOST,
        True,
        False,
    )
    assert world.switch.writes == []


async def with_topics_and_a_record_of_the_first_start(*, wiped: bool) -> BootstrapWorld:
    """Brokers ran; the record is of a moment before the cluster was registered."""
    world = BootstrapWorld()
    await world.ensure()
    record = await record_of(world.kube, "a")
    assert record is not None
    world.zookeeper.ensemble("local:2181").put("/pulsar/managed-ledgers/public/default/persistent/t")
    if wiped:
        world.zookeeper.ensemble("shared:2181").wipe()
    await restored(world, {**record, "state": "Initializing", "registered": "false"})
    world.switch.writes.clear()
    return world


async def test_a_configuration_store_is_not_begun_anew_under_topics() -> None:
    world = await with_topics_and_a_record_of_the_first_start(wiped=True)
    for given in ((), adopting("another")):
        result = await world.ensure(bookies_exist=True, confirmations=given)
        assert (result.reason, result.local_ready, result.registered) == (Reason.METADATA_LOST, True, False)
        assert "The configuration store shared:2181 is empty" in result.message
        assert world.zookeeper.ensemble("shared:2181").tree() == {}
    entry = re.search(r"spec\.confirmations: (\{.*?\})", result.message)
    assert entry is not None
    result = await world.ensure(bookies_exist=True, confirmations=adopting(yaml.safe_load(entry[1])["answers"]))
    assert result.ok, result


@pytest.mark.parametrize("left", ["/admin/policies/public", "/admin/clusters/global"])
async def test_a_cluster_returns_to_what_it_left_in_the_configuration_store(left: str) -> None:
    """Its name and its claim went with the object, tenants and namespaces stayed."""
    world = await with_topics_and_a_record_of_the_first_start(wiped=True)
    world.zookeeper.ensemble("shared:2181").put(left, '{"allowedClusters": []}')
    assert (await world.ensure(bookies_exist=True)).ok


async def test_an_old_record_harms_nothing_while_both_stores_are_there() -> None:
    world = await with_topics_and_a_record_of_the_first_start(wiped=False)
    before = versions(world)
    assert (await world.ensure(bookies_exist=True)).ok
    assert versions(world) == before


async def test_record_and_store_gone_with_volumes_left_is_lost_and_without_volumes_a_new_cluster() -> None:
    world = BootstrapWorld()
    await world.ensure()
    world.zookeeper.ensemble("local:2181").wipe()
    world.zookeeper.ensemble("shared:2181").wipe()
    world.kube.remove(CONFIG_MAPS, NAMESPACE, "a-instance-id")
    world.switch.writes.clear()
    lost = await world.ensure(bookies_exist=True)
    assert (lost.reason, world.switch.writes) == (Reason.METADATA_LOST, [])
    new = await world.ensure(bookies_exist=False)
    assert new.ok
    assert new.instance_id == "00000000-0000-4000-8000-000000000003"


async def test_objects_made_again_adopt_the_store_they_had() -> None:
    world = BootstrapWorld()
    first = await world.ensure()
    world.kube.remove(CONFIG_MAPS, NAMESPACE, "a-instance-id")
    before = versions(world)
    result = await world.ensure(bookies_exist=True)
    assert result.ok, result
    assert result.instance_id == first.instance_id
    assert versions(world) == before
    record = await record_of(world.kube, "a")
    assert record is not None
    assert (record["adopted"], record["state"], record["registered"]) == ("true", "Initialized", "true")


async def test_an_adoption_that_was_killed_and_then_lost_its_store_is_not_initialized() -> None:
    world = BootstrapWorld()
    world.zookeeper.ensemble("local:2181").put("/pulsar/ledgers/INSTANCEID", "from-elsewhere")
    world.switch.arm(0, "after")
    with pytest.raises(Killed):
        await world.ensure(confirmations=adopting("from-elsewhere"))
    world.zookeeper.ensemble("local:2181").wipe()
    world.switch.disarm()
    result = await world.ensure(confirmations=adopting("from-elsewhere"))
    assert result.reason is Reason.METADATA_LOST
    assert world.zookeeper.writes == []


async def test_a_record_of_the_first_start_does_not_initialize_over_data() -> None:
    """The backup of the ConfigMap is of the moment between two steps."""
    world = BootstrapWorld()
    await world.ensure()
    record = await record_of(world.kube, "a")
    assert record is not None
    world.zookeeper.ensemble("local:2181").wipe()
    await restored(world, {**record, "state": "Initializing", "registered": "false"})
    world.switch.writes.clear()
    for _ in range(2):
        result = await world.ensure(bookies_exist=True)
        assert (result.reason, result.local_ready, world.switch.writes) == (Reason.METADATA_LOST, False, [])
        assert (
            "The ConfigMap is therefore outdated" in result.message and "Restore the metadata store" in result.message
        )


async def test_a_strangers_store_is_not_adopted_without_a_word() -> None:
    """The record is gone, and the address leads to a store that another tool set up."""
    world = BootstrapWorld()
    world.zookeeper.ensemble("local:2181").put("/pulsar/ledgers/INSTANCEID", "of-a-stranger")
    for bookies, given in itertools.product([False, True], [(), adopting("another")]):
        result = await world.ensure(bookies_exist=bookies, confirmations=given)
        assert (result.reason, world.switch.writes) == (Reason.METADATA_CONFLICT, [])
        assert (
            '{action: AdoptMetadata, answers: "of-a-stranger", expiresTime: "2026-01-03T00:00:00Z"}' in result.message
        )
    assert (await world.ensure(confirmations=adopting("of-a-stranger"))).instance_id == "of-a-stranger"
    assert (await world.ensure()).ok, "the marker says so from now on"


async def test_a_copy_of_another_clusters_record_does_not_give_its_store() -> None:
    """A backup of one Kubernetes namespace is restored into another one."""
    world = BootstrapWorld()
    assert (await world.ensure()).ok
    record = await world.kube.get(CONFIG_MAPS, NAMESPACE, "a-instance-id")
    assert record is not None
    world.kube.put({**record, "metadata": {"name": "a-instance-id", "namespace": "copy"}})
    world.switch.writes.clear()
    result = await world.ensure(namespace="copy")
    assert (result.reason, result.local_ready, world.switch.writes) == (Reason.METADATA_CONFLICT, False, [])
    assert f"PulsarCluster {NAMESPACE}/a" in result.message


async def restored(world: BootstrapWorld, data: Json) -> None:
    """The record is another one."""
    world.kube.remove(CONFIG_MAPS, NAMESPACE, "a-instance-id")
    meta = {"name": "a-instance-id", "namespace": NAMESPACE}
    world.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


async def test_two_objects_on_one_store_do_not_share_it() -> None:
    world = BootstrapWorld()
    assert (await world.ensure("a")).ok
    world.switch.writes.clear()
    second = await world.ensure("b")
    assert (second.ok, second.reason) == (False, Reason.METADATA_CONFLICT)
    assert "by cluster 'a' of PulsarCluster pulsar/a" in second.message
    namesake = await world.ensure("a", object_name="a2")
    assert (namesake.ok, namesake.reason) == (False, Reason.METADATA_CONFLICT)
    assert world.switch.writes == []


async def test_a_cluster_name_taken_in_the_configuration_store_is_not_hijacked() -> None:
    world = BootstrapWorld()
    assert (await world.ensure("a")).ok
    before = world.zookeeper.ensemble("shared:2181").versions()
    other = await world.ensure("a", Store("other:2181"), object_name="a2", urls=urls("a2"))
    assert (other.ok, other.reason, other.local_ready) == (False, Reason.METADATA_CONFLICT, True)
    assert "by PulsarCluster pulsar/a" in other.message
    assert world.zookeeper.ensemble("shared:2181").versions() == before


async def test_two_operators_at_once_end_with_one_cluster() -> None:
    for seed in range(20):
        world = BootstrapWorld()
        twin = deps(world.kube, world.zookeeper)
        for _ in range(seed):
            twin.entropy.uuid()
        want = request("a", LOCAL, SHARED)
        results = await asyncio.gather(ensure_cluster_metadata(world.deps, want), ensure_cluster_metadata(twin, want))
        assert {result.instance_id for result in results if result.instance_id} <= {
            (await record_of(world.kube, "a") or {})["instanceId"]
        }
        final = await world.ensure()
        assert final.ok, (results, final)
        ids = [w for w in world.zookeeper.writes if w[1].endswith(INSTANCE_ID_PATH)]
        assert len(ids) == 1


async def test_without_configuration_store_only_the_local_one_is_set_up() -> None:
    world = BootstrapWorld()
    result = await world.ensure(shared=None)
    assert (result.ok, result.reason, result.local_ready) == (False, Reason.WAITING_FOR_CONFIGURATION_STORE, True)
    assert "shared:2181" not in world.zookeeper.ensembles
    assert (await world.ensure()).ok


async def test_an_unreachable_store_is_said_and_nothing_is_written() -> None:
    world = BootstrapWorld()
    world.zookeeper.ensemble("local:2181").reachable = False
    result = await world.ensure()
    assert (result.ok, result.reason) == (False, Reason.METADATA_UNREACHABLE)
    assert "local:2181" in result.message
    assert world.switch.writes == []
    world.zookeeper.ensemble("local:2181").reachable = True
    world.zookeeper.ensemble("shared:2181").reachable = False
    result = await world.ensure()
    assert (result.ok, result.reason, result.local_ready) == (False, Reason.METADATA_UNREACHABLE, True)
    assert "shared:2181" in result.message


async def test_a_store_that_refuses_is_said() -> None:
    world = BootstrapWorld()

    def refuse(call: Call) -> None:
        raise RefusedError("create of /x was refused: NoAuthError")

    world.zookeeper.before.append(refuse)
    result = await world.ensure()
    assert (result.reason, result.message) == (Reason.METADATA_UNREACHABLE, "create of /x was refused: NoAuthError")


async def test_errors_of_the_kubernetes_api_rise() -> None:
    world = BootstrapWorld()

    def fail(call: object) -> None:
        raise UnavailableError("the API server is away")

    world.kube.before.append(fail)
    with pytest.raises(UnavailableError):
        await world.ensure()


async def test_not_acting_writes_nothing_and_says_the_same_in_every_pass() -> None:
    world = BootstrapWorld()
    first, second = await world.ensure(act=False), await world.ensure(act=False)
    assert first == second
    assert (first.ok, first.reason, first.instance_id) == (False, Reason.PENDING, None)
    assert len(first.pending) == 15
    assert first.pending[0].startswith("Write ConfigMap a-instance-id")
    assert first.actions == ()
    assert world.switch.writes == []
    done = await world.ensure()
    assert len(done.actions) == len(first.pending)
    quiet = await world.ensure(act=False)
    assert (quiet.ok, quiet.pending) == (True, ())


async def test_a_changed_url_is_registered_once() -> None:
    world = BootstrapWorld()
    await world.ensure()
    new = ClusterUrls("http://new:8080", "pulsar://new:6650")
    result = await world.ensure(urls=new)
    (action,) = result.actions
    assert action.startswith("Updated /admin/clusters/a in shared:2181, because serviceUrl is")
    stored = json.loads(world.zookeeper.ensemble("shared:2181").nodes[cluster_path("a")].data)
    assert (stored["serviceUrl"], stored["brokerServiceUrl"]) == (new.service_url, new.broker_service_url)
    assert (await world.ensure(urls=new)).actions == ()


async def test_a_writer_in_between_makes_the_pass_look_again() -> None:
    world = BootstrapWorld()
    await world.ensure("a")
    shared = world.zookeeper.ensemble("shared:2181")
    touched: list[str] = []

    def disturb(call: Call) -> None:
        if call.op == "set" and not touched:
            touched.append(call.path)
            shared.put(call.path, json.dumps({**json.loads(shared.nodes[call.path].data), "adminRoles": ["root"]}))

    world.zookeeper.before.append(disturb)
    result = await world.ensure("b", Store("b:2181"))
    assert result.ok, result
    tenant = json.loads(shared.nodes["/admin/policies/public"].data)
    assert tenant == {"allowedClusters": ["a", "b"], "adminRoles": ["root"]}


async def test_a_writer_that_never_rests_is_left_to_the_next_pass() -> None:
    world = BootstrapWorld()
    await world.ensure("a")
    shared = world.zookeeper.ensemble("shared:2181")
    world.zookeeper.before.append(lambda c: shared.put(c.path, shared.nodes[c.path].data) if c.op == "set" else None)
    result = await world.ensure("b", Store("b:2181"))
    assert (result.ok, result.reason, result.local_ready) == (False, Reason.PENDING, True)


async def test_a_second_cluster_leaves_the_first_ones_namespaces() -> None:
    world = BootstrapWorld()
    await world.ensure("a")
    before = world.zookeeper.ensemble("shared:2181").tree()
    result = await world.ensure("b", Store("b:2181"))
    assert result.ok
    after = world.zookeeper.ensemble("shared:2181").tree()
    assert after["/admin/policies/public/default"] == before["/admin/policies/public/default"]
    system = json.loads(after["/admin/policies/pulsar/system"])
    assert (system["replication_clusters"], system["allowed_clusters"]) == (["a"], ["a", "b"])
    assert any("public/default" in note for note in result.notes)


async def test_tenants_and_namespaces_belong_to_their_users_after_registration() -> None:
    world = BootstrapWorld()
    await world.ensure()
    shared = world.zookeeper.ensemble("shared:2181")
    del shared.nodes["/admin/policies/public/default"]
    shared.put("/admin/policies/public", '{"allowedClusters": []}')
    result = await world.ensure()
    assert (result.ok, result.actions) == (True, ())


async def test_a_damaged_record_stops_everything() -> None:
    world = BootstrapWorld()
    await world.ensure()
    world.kube.edit(CONFIG_MAPS, NAMESPACE, "a-instance-id", lambda o: o["data"].update(instanceId=""))
    world.switch.writes.clear()
    result = await world.ensure()
    assert (result.reason, world.switch.writes) == (Reason.METADATA_CONFLICT, [])
    assert "is damaged" in result.message


async def test_an_id_that_appears_during_the_set_up_is_never_taken_for_ours() -> None:
    world = BootstrapWorld()
    local = world.zookeeper.ensemble("local:2181")

    def intrude(call: Call) -> None:
        if call.op == "create" and call.path == "/pulsar/bookies":
            local.put("/pulsar/ledgers/INSTANCEID", "somebody-elses")

    world.zookeeper.before.append(intrude)
    result = await world.ensure()
    assert (result.ok, result.reason, result.local_ready) == (False, Reason.METADATA_CONFLICT, False)
    assert "somebody-elses" in result.message
    record = await record_of(world.kube, "a")
    assert record is not None
    assert record["state"] == "Initializing"
