"""The other clusters of an instance, read in the configuration store, where brokers read them too."""

from __future__ import annotations

import asyncio

from pulsar_operator.domain.dataplane.registration import CLUSTERS_PATH, cluster_path
from pulsar_operator.domain.dataplane.remote_clusters import RemoteUrls, looked_at, remote_urls
from pulsar_operator.ports import Deps, PortError


async def remote_clusters(
    deps: Deps, servers: str, chroot: str | None, own: str
) -> dict[str, RemoteUrls | None] | None:
    """URLs by cluster but for ``own``: None for one that cannot be read, None for all where the store is silent."""
    try:
        session = await deps.zookeeper.session(servers, chroot)
        names = looked_at(await session.children(CLUSTERS_PATH) or (), own)
        nodes = await asyncio.gather(*(session.get(cluster_path(name)) for name in names))
    except PortError:
        return None
    return {name: remote_urls(node.data) for name, node in zip(names, nodes, strict=True) if node is not None}
