"""The admin endpoint of one of several clusters, in a process of its own: tenants and namespaces are in ZooKeeper.

python -m benchmarks.config_store.broker PORT_FILE SERVERS CLUSTER CLUSTERS

Rules and answers are those of the in-memory Pulsar of the tests; what it shows and what it makes of a call is read and
written as brokers do (classes MetadataCacheImpl and NamespaceResources): read once and kept until a watch says that it
changed, written at the version that was read, and read anew where another broker was faster.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.objects.pulsar_server import serve
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.domain.logical.pulsar_names import policies_node
from pulsar_operator.ports import ConflictError, Node, NotFoundError, PortError, ZooKeeperSession
from tests.fakes.answers import Answer
from tests.fakes.pulsar import FakePulsar

ATTEMPTS = 10
"""How often a change is made anew because another broker wrote in between."""

RETRY_SECONDS = 1.0


def cluster_node(cluster: str) -> str:
    """Where the configuration store has a cluster. Each broker watches its own, which tells whose session is which."""
    return f"/admin/clusters/{cluster}"


def nodes_of(path: Sequence[str]) -> list[str]:
    """The nodes that a call is about, the one it would change last."""
    match path:
        case ["tenants", tenant]:
            names: list[tuple[str, ...]] = [(tenant,)]
        case ["namespaces", tenant, namespace, *_]:
            names = [(tenant,), (tenant, namespace)]
        case _:
            return []
    return [node for each in names if (node := policies_node(*each)) is not None]


class Broker:
    """Answers for one cluster."""

    def __init__(
        self, cluster: str, clusters: Sequence[str], session: Callable[[], Awaitable[ZooKeeperSession]]
    ) -> None:
        self.pulsar = FakePulsar(clusters=list(clusters))
        self._cluster = cluster
        self._session = session
        self._kept: dict[str, Node | None] = {}

    async def handle(self, method: str, path: list[str], query: Mapping[str, str], body: Any) -> Answer:
        """Answer a call below /admin/v2."""
        nodes = nodes_of(path)
        try:
            for _ in range(ATTEMPTS):
                held = {node: await self._read(node) for node in nodes}
                self._show(held)
                answer = self.pulsar.handle(self._cluster, method, path, query, body)
                if not nodes or method == "GET" or answer[0] >= 300:
                    return answer
                if await self._written(nodes[-1], held[nodes[-1]]):
                    return answer
        except PortError as error:
            return 500, {"reason": str(error)}
        return 409, {"reason": "Concurrent modification"}

    async def watch_cluster(self, watching: asyncio.Event) -> None:
        """Watch the cluster's own node in every session, until cancelled; ``watching`` is set once it is the first
        time."""
        while True:
            changed = asyncio.Event()
            try:
                session = await self._session()
                await session.watch(cluster_node(self._cluster), changed.set)
            except PortError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            watching.set()
            await changed.wait()

    async def _read(self, path: str) -> Node | None:
        """A node as it is known here: at most as old as the last watch."""
        if path in self._kept:
            return self._kept[path]
        current = True

        def changed() -> None:
            nonlocal current
            current = False
            self._kept.pop(path, None)

        session = await self._session()
        await session.watch(path, changed)
        node = await session.get(path)
        if current:
            self._kept[path] = node
        return node

    def _show(self, held: Mapping[str, Node | None]) -> None:
        """Have the in-memory Pulsar hold what ZooKeeper has."""
        for path, node in held.items():
            where, name = self._place(path)
            if node is None or not node.data:
                where.pop(name, None)
            else:
                where[name] = json.loads(node.data)

    async def _written(self, path: str, old: Node | None) -> bool:
        """Write what the in-memory Pulsar made of a node; False where another broker wrote it since it was read."""
        where, name = self._place(path)
        new = json.dumps(where[name]).encode() if name in where else None
        session = await self._session()
        try:
            if old is None and new is not None:
                await session.create(path, new)
            elif old is not None and new is not None:
                await session.set(path, new, version=old.version)
            elif old is not None:
                await session.delete(path, version=old.version)
        except (ConflictError, NotFoundError):
            return False
        finally:
            self._kept.pop(path, None)
        return True

    def _place(self, path: str) -> tuple[dict[str, Any], str]:
        """Where the in-memory Pulsar has a node, and under which name."""
        name = path.removeprefix("/admin/policies/")
        return (self.pulsar.namespaces if "/" in name else self.pulsar.tenants), name


async def main(port_file: Path, servers: str, cluster: str, clusters: Sequence[str]) -> None:
    """Serve until ended."""
    zookeeper = KazooZooKeeper()

    async def session() -> ZooKeeperSession:
        return await zookeeper.session(servers)

    broker = Broker(cluster, clusters, session)

    def started(port: int) -> None:
        broker.pulsar.live_brokers[cluster] = [f"127.0.0.1:{port}"]
        port_file.write_text(str(port))

    watching = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(broker.watch_cluster(watching))
        await watching.wait()
        await serve(broker.handle, started)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4].split(",")))
