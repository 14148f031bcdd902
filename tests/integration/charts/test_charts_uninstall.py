"""`helm uninstall` of the chart pulsar on a real API server with the deletion guard.

The operator's own controllers count the dependents. The release ends, the cluster goes once nothing needs it,
and claims and metadata stay.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually_async
from e2e.support.pages import commands
from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.ports import CUSTOM, PODS, PVCS, STATEFUL_SETS
from tests.support.admission.samples import path
from tests.support.cluster.real_world import real_servers
from tests.support.cluster.world import ORDER, ClusterWorld
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import OPERATOR_CHART, PULSAR_CHART, ROOT, Helm
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]
Json = dict[str, Any]

PAYMENTS = "persistent://shop/orders/payments"
RELEASED = {
    Kind.INSTANCE: "east",
    Kind.CLUSTER: "east",
    Kind.TENANT: "shop",
    Kind.NAMESPACE: "orders",
    Kind.TOPIC: "payments",
}
VALUES: Json = {
    "tenants": [{"name": "shop"}],
    "namespaces": [{"name": "orders", "tenant": "shop"}],
    "topics": [{"name": "payments", "namespace": "orders"}],
    "conformance": {"enabled": False},
}


@dataclass(frozen=True)
class Released:
    """The chart, installed where the guard holds, and the world in which the operator has brought it up."""

    world: ClusterWorld
    helm: Helm
    server: ApiServer

    async def helm_run(self, *arguments: str, values: Json | None = None) -> str:
        """A command of helm in the world's Kubernetes namespace."""
        here = f"--namespace={self.world.namespace}"
        text = await asyncio.to_thread(
            self.helm.run, *arguments, here, kubeconfig=self.server.kubeconfig, values=values
        )
        for kind in ORDER:
            self.world.backstage.forget(kind.value)  # type: ignore[attr-defined]
        return text

    async def install(self, values: Json) -> None:
        """Install the chart, and let the operator bring it up and count."""
        await self.helm_run("install", "east", str(PULSAR_CHART), values=values)
        await self.world.run()
        assert await self.world.all_ready() == {}

    async def releases(self) -> list[Json]:
        """Releases in any state."""
        return list(json.loads(await self.helm_run("list", "--all", "-o=json")))

    async def left(self) -> list[str]:
        """Custom resources that are still there."""
        return [f"{key.kind} {key.name}" for key in await self.world.keys()]

    def dry_delete(self, kind: Kind, name: str) -> int:
        """What a deletion would be answered."""
        return self.server.request("DELETE", path(kind, self.world.namespace, name), query={"dryRun": "All"}).code


@pytest.fixture
async def released(helm: Helm, apiserver: ApiServer, real_zookeeper: RealZooKeeper) -> AsyncIterator[Released]:
    """The guard is in force; nothing is installed yet."""
    async with real_servers(apiserver, real_zookeeper) as servers, servers.world() as world:
        operator = apiserver.new_namespace("uninstall")
        chart = {"crds": {"install": False}, "watchNamespaces": [world.namespace]}
        where = f"--namespace={operator}"
        await asyncio.to_thread(
            helm.run, "install", "op", str(OPERATOR_CHART), where, kubeconfig=apiserver.kubeconfig, values=chart
        )
        made = Released(world, helm, apiserver)
        probe: Json = {"apiVersion": API_VERSION, "kind": "PulsarTenant"}
        probe |= {"metadata": {"name": "probe"}, "spec": {"instanceRef": {"name": "none"}}}
        tenants = path(Kind.TENANT, world.namespace)
        assert apiserver.request("POST", tenants, probe).code == 201
        status: Json = {"status": {"dependents": 1}}
        merge = "application/merge-patch+json"
        assert apiserver.request("PATCH", f"{tenants}/probe/status", status, content_type=merge).code == 200

        async def in_force() -> bool:
            return await asyncio.to_thread(made.dry_delete, Kind.TENANT, "probe") == 403

        await eventually_async(in_force, what="the policy to be in force", every=LOCAL)
        status["status"]["dependents"] = 0
        assert apiserver.request("PATCH", f"{tenants}/probe/status", status, content_type=merge).code == 200
        assert apiserver.request("DELETE", f"{tenants}/probe").code == 200
        yield made


async def test_a_release_with_tenants_and_unread_topics_ends_and_is_installed_again(released: Released) -> None:
    """The topic would be deleted with its object, and keeps what nobody has read."""
    world = released.world
    values = {**VALUES, "topics": [{**VALUES["topics"][0], "spec": {"deletionPolicy": "Delete"}}]}
    await released.install(values)
    counted = {kind: (await world.status(kind, name)).get("dependents") for kind, name in RELEASED.items()}
    assert counted == {Kind.INSTANCE: 2, Kind.CLUSTER: 2, Kind.TENANT: 1, Kind.NAMESPACE: 1, Kind.TOPIC: None}
    world.pulsar.topics["east"][PAYMENTS].backlog["reader"] = 20
    claims, pulsar = await world.uids(PVCS), world.pulsar.snapshot()
    identity = (await world.status(Kind.CLUSTER, "east"))["instanceId"]
    assert claims

    await released.helm_run("uninstall", "east")
    assert await released.releases() == []
    await world.run()
    assert await released.left() == []
    assert await world.names(PODS) == [] and await world.names(STATEFUL_SETS) == []
    assert await world.uids(PVCS) == claims
    assert world.pulsar.snapshot() == pulsar

    await released.install(values)
    assert await world.uids(PVCS) == claims
    assert (await world.status(Kind.CLUSTER, "east"))["instanceId"] == identity
    assert world.pulsar.topics["east"][PAYMENTS].backlog == {"reader": 20}


async def test_a_cluster_that_others_use_runs_on_and_names_them(released: Released) -> None:
    """A tenant that another team applied, and that no release knows."""
    world = released.world
    await released.install(VALUES)
    meta = {"name": "bank", "namespace": world.namespace}
    spec = {"instanceRef": {"name": "east"}}
    await world.apply({"apiVersion": API_VERSION, "kind": "PulsarTenant", "metadata": meta, "spec": spec})
    await world.run()
    sets = await world.uids(STATEFUL_SETS)

    await released.helm_run("uninstall", "east")
    assert await released.releases() == []
    await world.run()
    assert await world.uids(STATEFUL_SETS) == sets
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "DeletionBlocked")
    assert (status, reason) == ("True", "DependentsExist")
    assert f"1 objects still need this object: PulsarTenant {world.namespace}/bank." in message
    await world.delete(Kind.TENANT, "bank")
    await world.run()
    assert await released.left() == []


async def test_what_helm_keeps_is_guarded(released: Released) -> None:
    await released.install({**VALUES, "keepOnUninstall": True})
    before = await released.left()
    await released.helm_run("uninstall", "east")
    assert await released.releases() == []
    assert await released.left() == before
    parents = [(kind, name) for kind, name in RELEASED.items() if kind is not Kind.TOPIC]
    assert [released.dry_delete(kind, name) for kind, name in parents] == [403] * len(parents)


async def test_all_there_is_deleted_as_the_page_says(released: Released) -> None:
    """docs/operating.md, "Delete a parent": its commands, with kubectl's own order of kinds."""
    world = released.world
    await released.install({**VALUES, "keepOnUninstall": True})
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    (script,) = [each.text for each in commands(page, ["Delete a parent"]) if "delete pulsar --all" in each.text]
    kinds = script.partition("kubectl -n pulsar get ")[2].partition(" -o name")[0].split(",")
    annotation = script.partition('"$o" "')[2].partition("=")[0]
    for kind, name in RELEASED.items():
        if CUSTOM[kind].plural in kinds:
            await world.annotate(kind, name, annotation, name)
    for kind, name in sorted(RELEASED.items()):
        answer = await asyncio.to_thread(released.server.request, "DELETE", path(kind, world.namespace, name))
        assert answer.code == 200, answer.message
        world.backstage.forget(kind.value)  # type: ignore[attr-defined]
    await world.run()
    assert await released.left() == []
