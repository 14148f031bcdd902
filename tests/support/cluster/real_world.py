"""A world on real servers: kube-apiserver with etcd, ZooKeeper, and Pulsar's admin REST over HTTP.

The manifests name hosts inside Kubernetes; here each ensemble is a folder of the one ZooKeeper server and each
cluster's admin endpoint a port on loopback. Every world has a Kubernetes namespace and a folder of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.ports import PDBS, SERVICES, AdminEndpoint, PulsarAdminPort, ZooKeeperPort, ZooKeeperSession
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.fakes.streams import Streaming
from tests.support.cluster.backstage import HttpBackstage
from tests.support.cluster.world import ClusterWorld
from tests.support.core.journal import EVICT, KUBERNETES, PortCall
from tests.support.core.recorder import CountingMetrics
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.zookeeper import RealZooKeeper

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
"""As in README: the API server refuses pods that need more."""


class MappedZooKeeper:
    """Each ensemble is a folder of one server."""

    def __init__(self, inner: ZooKeeperPort, servers: str, folder: str) -> None:
        self._inner, self._servers, self._folder = inner, servers, folder

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        """See ports.ZooKeeperPort."""
        name = servers.replace(",", "_").replace(":", "_")
        return await self._inner.session(self._servers, f"/{self._folder}/{name}{chroot or ''}")

    async def server_state(self, server: str) -> ServerState:
        """See ports.ZooKeeperPort: every server is that one."""
        return await self._inner.server_state(self._servers)

    async def close(self) -> None:
        """The server's clients are shared by all worlds."""


class MappedAdmin(Streaming):
    """Every cluster's endpoint is a port on loopback."""

    def __init__(self, inner: PulsarAdminPort, urls: Mapping[str, str]) -> None:
        self._inner, self._urls = inner, urls

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        here = AdminEndpoint(endpoint.cluster, self._urls[endpoint.cluster])
        return await self._inner.call(
            here,
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            deadline=deadline,
            text=text,
        )


class RealServers:
    """Clients of the servers, shared by the worlds of one test."""

    def __init__(self, apiserver: ApiServer, zookeeper: RealZooKeeper, client: KubeClient) -> None:
        self._apiserver = apiserver
        self._zookeeper = zookeeper
        self._client = client
        self._kazoo = KazooZooKeeper()
        self._admin = AiohttpAdmin(CountingMetrics())

    @asynccontextmanager
    async def world(self) -> AsyncIterator[ClusterWorld]:
        """An empty world; its Services are removed at the end, since node ports are there only once."""
        namespace = self._apiserver.new_namespace("world", labels=RESTRICTED)
        backstage = HttpBackstage(self._client, (namespace,))
        metrics, pulsar = CountingMetrics(), FakePulsar(clusters=[])
        events = EventRecorder(self._client, metrics, SystemClock(), reporter="tests")
        async with serve(pulsar, "east") as (url, _):
            try:
                world = ClusterWorld(
                    kube=KubeAdapter(self._client, metrics, events, namespaces=(namespace,)),
                    backstage=backstage,
                    zookeeper=MappedZooKeeper(self._kazoo, self._zookeeper.servers, namespace),
                    admin=MappedAdmin(self._admin, {"east": url}),
                    pulsar=pulsar,
                    namespace=namespace,
                )

                def written(call: PortCall) -> None:
                    if call.port == KUBERNETES and call.is_write:
                        backstage.forget(call.kind)
                        if call.verb == EVICT:  # counted in the budget's status
                            backstage.forget(PDBS.kind)

                # Before it is sent: a write may take effect without an answer.
                world.journal.before.append(written)
                yield world
            finally:
                for service in await backstage.all(SERVICES):
                    await backstage.remove(SERVICES, namespace, service["metadata"]["name"])

    async def close(self) -> None:
        """Close the clients."""
        await self._admin.close()
        await self._kazoo.close()
        await self._client.close()


@asynccontextmanager
async def real_servers(apiserver: ApiServer, zookeeper: RealZooKeeper) -> AsyncIterator[RealServers]:
    """Clients for one test."""
    servers = RealServers(apiserver, zookeeper, KubeClient(await load_configuration(apiserver.kubeconfig)))
    try:
        yield servers
    finally:
        await servers.close()
