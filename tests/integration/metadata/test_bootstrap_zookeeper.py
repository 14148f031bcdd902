"""The bootstrap on real ZooKeeper servers."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.core.stores import Store
from pulsar_operator.controllers.dataplane.registration.bootstrap import BootstrapResult, ensure_cluster_metadata
from pulsar_operator.ports import CONFIG_MAPS, Deps
from tests.fakes.killed import Killed
from tests.fakes.kube import FakeKube
from tests.support.cluster.bootstrap import (
    NAMESPACE,
    KillSwitch,
    adopting,
    anonymous,
    deps,
    record_of,
    request,
    urls,
)
from tests.support.cluster.zookeeper_hooks import HookedZooKeeper
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.zookeeper import RealZooKeeper, pulsar_home, real_zookeeper

__all__ = ["real_zookeeper"]


@pytest.fixture
async def kazoo() -> AsyncIterator[KazooZooKeeper]:
    port = KazooZooKeeper(deadline_seconds=30)
    yield port
    await port.close()


class RealBootstrapWorld:
    """One cluster's stores in chroots of their own on the shared server; Kubernetes is the fake one."""

    def __init__(self, server: RealZooKeeper, kazoo: KazooZooKeeper) -> None:
        base = f"/t{uuid.uuid4().hex}"
        self.server, self.base = server, base
        self.local, self.shared = Store(server.servers, f"{base}/local/a"), Store(server.servers, f"{base}/shared")
        self.kube, self.switch = FakeKube(), KillSwitch()
        self.zookeeper = HookedZooKeeper(kazoo)
        self.switch.watch(self.kube, lambda call: f"{call.verb} {call.kind} {call.name}")
        self.switch.watch(self.zookeeper, lambda call: f"{call.op} {call.path.removeprefix(base)}")
        self.deps: Deps = deps(self.kube, self.zookeeper)

    async def ensure(self, name: str = "a", **changes: Any) -> BootstrapResult:
        local = changes.pop("local", self.local)
        return await ensure_cluster_metadata(self.deps, request(name, local, self.shared, **changes))

    async def end(self, name: str = "a") -> dict[str, Any]:
        record = await record_of(self.kube, name)
        assert record is not None
        nodes = {path.removeprefix(self.base): node.data for path, node in self.server.dump(self.base).items()}
        return {**anonymous(nodes, record["instanceId"]), "record": {**record, "instanceId": "THE-ID"}}


@pytest.fixture
def world(real_zookeeper: RealZooKeeper, kazoo: KazooZooKeeper) -> RealBootstrapWorld:
    return RealBootstrapWorld(real_zookeeper, kazoo)


async def test_a_full_set_up_and_a_second_run_that_touches_no_node(world: RealBootstrapWorld) -> None:
    first = await world.ensure()
    assert first.ok, first
    before = world.server.dump(world.base)
    assert before[f"{world.base}/local/a/ledgers/INSTANCEID"].data.decode() == first.instance_id
    assert json.loads(before[f"{world.base}/shared/admin/policies/public/default"].data)["bundles"]["numBundles"] == 16
    writes = len(world.switch.writes)
    second = await world.ensure()
    assert (second.ok, second.actions) == (True, ())
    assert len(world.switch.writes) == writes
    assert world.server.dump(world.base) == before  # contents, versions, creation and modification transactions


async def test_killed_before_and_after_every_write_it_ends_the_same(
    real_zookeeper: RealZooKeeper, kazoo: KazooZooKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = RealBootstrapWorld(real_zookeeper, kazoo)
    assert (await undisturbed.ensure()).ok
    want, writes = await undisturbed.end(), undisturbed.switch.writes
    for number, write in enumerate(writes):
        for when in ("before", "after"):
            world = RealBootstrapWorld(real_zookeeper, kazoo)
            world.switch.arm(number, when)
            with pytest.raises(Killed):
                await world.ensure()
            world.switch.disarm()
            result = await world.ensure()
            assert result.ok, (when, write, result)
            assert await world.end() == want, (when, write)
    with capsys.disabled():
        print(f"\nkilled before and after each of N={len(writes)} writes:")
        for number, write in enumerate(writes):
            print(f"  {number:2} {write}")


async def test_a_wiped_server_is_reported_as_lost_and_stays_empty(kazoo: KazooZooKeeper) -> None:
    with RealZooKeeper() as server:
        world = RealBootstrapWorld(server, kazoo)
        world.local = world.shared = Store(server.servers)
        assert (await world.ensure()).ok
        server.wipe()
        results = [await world.ensure(bookies_exist=True) for _ in range(4)]
        # The client may first notice that its connection is gone; then it sees an empty store.
        assert {result.reason for result in results} <= {Reason.METADATA_UNREACHABLE, Reason.METADATA_LOST}
        assert results[-1].reason is Reason.METADATA_LOST
        assert server.dump() == {}


async def test_a_wiped_server_under_a_record_of_the_first_start_stays_empty(kazoo: KazooZooKeeper) -> None:
    """The record is restored from a backup that was made in the middle of the first start."""
    with RealZooKeeper() as server:
        world = RealBootstrapWorld(server, kazoo)
        world.local = world.shared = Store(server.servers)
        assert (await world.ensure()).ok
        record = await record_of(world.kube, "a")
        assert record is not None
        server.wipe()
        world.kube.remove(CONFIG_MAPS, NAMESPACE, "a-instance-id")
        young = {**record, "state": "Initializing", "registered": "false"}
        meta = {"name": "a-instance-id", "namespace": NAMESPACE}
        world.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": young})
        results = [await world.ensure(bookies_exist=True) for _ in range(4)]
        assert {result.reason for result in results} <= {Reason.METADATA_UNREACHABLE, Reason.METADATA_LOST}
        assert results[-1].reason is Reason.METADATA_LOST, results[-1]
        assert server.dump() == {}


async def test_a_first_start_that_was_killed_anywhere_goes_on_by_itself_until_bookies_may_exist(
    real_zookeeper: RealZooKeeper, kazoo: KazooZooKeeper
) -> None:
    """Claims come into existence once the local store is ready: from then on they are there, and harm nothing."""
    undisturbed = RealBootstrapWorld(real_zookeeper, kazoo)
    assert (await undisturbed.ensure()).ok
    for number in range(len(undisturbed.switch.writes)):
        world = RealBootstrapWorld(real_zookeeper, kazoo)
        world.switch.arm(number, "after")
        with pytest.raises(Killed):
            await world.ensure()
        world.switch.disarm()
        record = await record_of(world.kube, "a")
        claims = record is not None and record["state"] == "Initialized"
        result = await world.ensure(bookies_exist=claims)
        assert result.ok, (number, result)


async def test_a_strangers_store_is_adopted_by_confirmation_alone(world: RealBootstrapWorld) -> None:
    session = await world.zookeeper.session(world.local.servers, world.local.chroot)
    await session.create("/ledgers/INSTANCEID", b"of-a-stranger")
    before = world.server.dump(world.base)
    for bookies in (False, True):
        refused = await world.ensure(bookies_exist=bookies)
        assert refused.reason is Reason.METADATA_CONFLICT and "AdoptMetadata" in refused.message, refused
    assert world.server.dump(world.base) == before
    assert (await world.ensure(confirmations=adopting("of-a-stranger"))).instance_id == "of-a-stranger"


async def test_a_second_cluster_never_changes_replication_clusters(world: RealBootstrapWorld) -> None:
    assert (await world.ensure("a")).ok
    before = world.server.dump(world.base + "/shared")
    second = await world.ensure("b", local=Store(world.server.servers, f"{world.base}/local/b"))
    assert second.ok, second
    after = world.server.dump(world.base + "/shared")
    policies = f"{world.base}/shared/admin/policies/"
    for name in ("public/default", "pulsar/system"):
        assert json.loads(after[policies + name].data)["replication_clusters"] == ["a"]
    assert after[policies + "public/default"] == before[policies + "public/default"]
    assert json.loads(after[policies + "pulsar/system"].data)["allowed_clusters"] == ["a", "b"]
    for tenant in ("public", "pulsar"):
        assert json.loads(after[policies + tenant].data)["allowedClusters"] == ["a", "b"]
    assert after[f"{world.base}/shared/admin/clusters/a"] == before[f"{world.base}/shared/admin/clusters/a"]
    # the first cluster has nothing to correct after that
    first_again = await world.ensure("a")
    assert (first_again.ok, first_again.actions) == (True, ())


async def test_an_unreachable_store_is_a_result_that_names_it() -> None:
    port = KazooZooKeeper(deadline_seconds=1)
    try:
        for servers in ("127.0.0.1:1", "no-such-host.invalid:2181"):
            want = request("a", Store(servers, "/a"), Store(servers))
            result = await ensure_cluster_metadata(deps(FakeKube(), port), want)
            assert (result.ok, result.reason) == (False, Reason.METADATA_UNREACHABLE)
            assert servers in result.message
    finally:
        await port.close()


async def test_the_record_in_a_real_api_server(
    apiserver: ApiServer, namespace: str, real_zookeeper: RealZooKeeper, kazoo: KazooZooKeeper
) -> None:
    client = KubeClient(await load_configuration(apiserver.kubeconfig))
    try:
        kube = KubeAdapter(client, NoMetrics(), NoEvents())  # type: ignore[arg-type]
        store = Store(real_zookeeper.servers, f"/t{uuid.uuid4().hex}")
        want = request("a", store, store, namespace=namespace)
        first = await ensure_cluster_metadata(deps(kube, kazoo), want)
        assert first.ok, first
        stored = await kube.get(CONFIG_MAPS, namespace, "a-instance-id")
        assert stored is not None
        assert stored["data"]["instanceId"] == first.instance_id
        assert (stored["data"]["state"], stored["data"]["registered"]) == ("Initialized", "true")
        assert "ownerReferences" not in stored["metadata"]
        await ensure_cluster_metadata(deps(kube, kazoo), want)
        again = await kube.get(CONFIG_MAPS, namespace, "a-instance-id")
        assert again is not None
        assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
        await kube.delete(CONFIG_MAPS, namespace, "a-instance-id", uid=stored["metadata"]["uid"])
        adopted = await ensure_cluster_metadata(deps(kube, kazoo), want)
        assert (adopted.ok, adopted.instance_id) == (True, first.instance_id)
    finally:
        await client.close()


class NoMetrics:
    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class NoEvents:
    """The bootstrap records none."""


ONLY_BY_PULSARS_TOOL = ("/pulsar", "/stream")
"""DistributedLog and stream storage, for Pulsar Functions."""
ONLY_OURS = ("/pulsar-operator",)


async def test_the_tree_is_that_of_pulsars_own_tool_but_for_named_differences(
    world: RealBootstrapWorld, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mine = await world.ensure()
    assert mine.ok and mine.instance_id
    tool = f"/t{uuid.uuid4().hex}"
    servers, url = world.server.servers, urls("a")
    command = ["bin/pulsar", "initialize-cluster-metadata", "--cluster", "a"]
    command += ["--metadata-store", f"zk:{servers}{tool}/local"]
    command += ["--configuration-metadata-store", f"zk:{servers}{tool}/shared"]
    command += ["--web-service-url", url.service_url, "--broker-service-url", url.broker_service_url]
    logs = tmp_path_factory.mktemp("tool")
    memory = {"PULSAR_MEM": "-Xmx256m", "PULSAR_GC": "-XX:+UseSerialGC", "PULSAR_LOG_DIR": str(logs)}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=pulsar_home(),
        env={**os.environ, **memory},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, output.decode()

    def tree(root: str) -> dict[str, bytes]:
        return {path.removeprefix(root): node.data for path, node in world.server.dump(root).items()}

    theirs, ours = tree(f"{tool}/local"), tree(f"{world.base}/local/a")
    their_id = theirs["/ledgers/INSTANCEID"].decode()
    assert uuid.UUID(their_id).version == uuid.UUID(mine.instance_id).version == 4
    assert without(anonymous(theirs, their_id), ONLY_BY_PULSARS_TOOL) == without(
        anonymous(ours, mine.instance_id), ONLY_OURS
    )

    their_shared = anonymous(tree(f"{tool}/shared"), their_id)
    our_shared = without(anonymous(tree(f"{world.base}/shared"), mine.instance_id), ONLY_OURS)
    assert their_shared.keys() == our_shared.keys()
    for path, content in our_shared.items():
        if path.startswith("/admin/policies/") and path.count("/") == 4:
            # Pulsar spells out the defaults of every policy; ours leaves them out, which reads the same.
            assert content == {key: their_shared[path][key] for key in content}, path
            assert their_shared[path]["allowed_clusters"] == []
        else:
            assert content == their_shared[path], path


def without(tree: dict[str, Any], roots: tuple[str, ...]) -> dict[str, Any]:
    """The tree without some sub-trees."""
    return {path: data for path, data in tree.items() if f"/{path.split('/')[1]}" not in roots}


async def test_a_store_set_up_by_pulsars_tool_is_adopted(world: RealBootstrapWorld) -> None:
    session = await world.zookeeper.session(world.local.servers, world.local.chroot)
    await session.create("/ledgers/INSTANCEID", b"734bf28c-dbda-46e2-8238-98dbe26923c0")
    await session.create("/ledgers/available/readonly", b"")
    await session.create("/ledgers/cookies/bookie-0:3181", b"cookie")
    given = adopting("734bf28c-dbda-46e2-8238-98dbe26923c0")
    result = await world.ensure(bookies_exist=True, confirmations=given)
    assert result.ok, result
    assert result.instance_id == "734bf28c-dbda-46e2-8238-98dbe26923c0"
