"""Two clusters of one instance: admin REST and clients of the other one, what both replicate, what waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pulsar_conformance.admin import Admin, AdminError
from pulsar_conformance.context import Context, Remote
from pulsar_conformance.counting.client import CountingError, CountingRun
from pulsar_conformance.kit.counted import counted_namespace, counting
from pulsar_conformance.kit.faults import quick
from pulsar_conformance.model import CheckFailed, CheckSkipped

CONNECTS = 120.0
"""Seconds for a replicator to connect: it waits up to a minute between two attempts (class AbstractReplicator)."""
REMOTE_BROKERS = "remote-brokers"
STORE = "configuration-store"


def remote(ctx: Context) -> Remote:
    """The other cluster; the check is skipped where none is given."""
    found = ctx.instance.remote
    if found is None:
        raise CheckSkipped(
            "needs another cluster of its instance: --remote-service-url and --remote-admin-url say where"
        )
    return found


def both(ctx: Context) -> list[str]:
    """Names of this cluster and the other one."""
    return [ctx.setting("clusterName"), remote(ctx).cluster]


def remote_admin(ctx: Context) -> Admin:
    """Admin REST of the other cluster."""
    return replace(ctx.admin, url=remote(ctx).admin_url)


def remote_client(ctx: Context, **options: Any) -> Any:
    """A client of the other cluster; keyword arguments as pulsar.Client."""
    return ctx.client(service_url=remote(ctx).service_url, **options)


def shared_namespace(ctx: Context, **policies: Any) -> str:
    """A namespace that both clusters replicate, once the other one knows it."""
    return _known(ctx, ctx.new_namespace(replication_clusters=both(ctx), **policies))


def counted_both(ctx: Context) -> str:
    """A counted namespace that both clusters replicate, once the other one knows it."""
    return _known(ctx, counted_namespace(ctx, replication_clusters=both(ctx)))


def _known(ctx: Context, namespace: str) -> str:
    there = remote_admin(ctx)
    ctx.eventually(lambda: there.get(f"namespaces/{namespace}/replication"), f"{namespace} in the other cluster")
    return namespace


def shared_topic(ctx: Context, namespace: str, name: str = "topic") -> str:
    """A topic that is there in both clusters: each makes its own, unless messages or settings have made it."""
    topic = ctx.topic(name, namespace=namespace)
    try:
        remote_admin(ctx).put(ctx.path(topic))
    except AdminError as error:
        if error.status != 409:
            raise
    return topic


@contextmanager
def across(ctx: Context, topic: str, *, back: bool = False) -> Iterator[CountingRun]:
    """Counted messages published here and consumed in the other cluster, or the other way.

    Raises CheckFailed when none comes across.
    """
    here, there = ctx.instance.service_url, remote(ctx).service_url
    urls = (there, here) if back else (here, there)
    try:
        with counting(ctx, topic, send_timeout=60, urls=urls, start_within=CONNECTS) as run:
            yield run
    except CountingError as error:
        raise CheckFailed(str(error)) from error


def waiting(ctx: Context, topic: str) -> tuple[bool, int]:
    """Whether the topic's replicator is connected to the other cluster, and how much waits for that."""
    found = quick(ctx).get(f"{ctx.path(topic)}/stats")["replication"][remote(ctx).cluster]
    return bool(found["connected"]), int(found["replicationBacklog"])


def store_of_its_own(ctx: Context) -> bool:
    """Whether the configuration store is no cluster's metadata store."""
    metadata = [settings.get("metadataStoreUrl") for settings in (ctx.instance.settings, remote(ctx).settings)]
    return _servers(ctx.setting("configurationMetadataStoreUrl")) not in [_servers(url or "") for url in metadata]


def _servers(url: str) -> str:
    return url.removeprefix("zk:").partition("/")[0]
