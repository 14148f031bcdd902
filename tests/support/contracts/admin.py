"""What the controllers rely on in Pulsar's admin REST; run against the fakes and against a real Pulsar.

A subclass provides the fixture ``site``. Every test has a tenant of its own, since tenants are what some are about.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.ports import (
    AdminEndpoint,
    ConflictError,
    NotFoundError,
    PortError,
    PulsarAdminPort,
    RefusedError,
    UnownedError,
)

HOSTILE = ["a%2Fb", "50%", "q?x=1", "h#f", "plus+and&", "nl\nx", "ü-λ", "semi;colon", "..a", "space in"]
"""Local topic names that would change a path if they were not encoded."""


@dataclass
class Site:
    """A Pulsar under test, with a tenant of its own."""

    port: PulsarAdminPort
    endpoint: AdminEndpoint
    cluster: str
    """Pulsar name of the cluster."""
    tenant: str = field(default_factory=lambda: f"contract-{uuid.uuid4().hex[:10]}")

    async def call(self, method: str, *path: str, body: Any = None, **query: str) -> Any:
        """One call."""
        return await self.port.call(self.endpoint, method, path, query=query, body=body)


async def settled(step: Callable[[], Awaitable[object]]) -> None:
    """Repeat a deletion until Pulsar takes it: for moments after another one it answers 409 or 500 (seen on 4.0.8)."""
    await eventually_async(step, lambda _: True, what="Pulsar takes the call", every=0.5, retried=PortError)


async def _unowned(site: Site, namespace: str, topic: str) -> None:
    """Raises ConflictError while somebody still answers; the namespace is then unloaded: a broker that has not heard of
    the policy yet takes its bundle again."""
    try:
        await site.call("GET", "persistent", site.tenant, namespace, topic, "stats")
    except UnownedError as error:
        assert "HTTP 412: Failed to find ownership for topic:" in str(error), error
        return
    await site.call("PUT", "namespaces", site.tenant, namespace, "unload")
    raise ConflictError("the topic is still served")


async def local_cluster(port: PulsarAdminPort, url: str) -> str:
    """Name of the cluster that answers: the one a namespace made without a list of clusters is in."""
    endpoint, probe = AdminEndpoint("probe", url), f"probe-{uuid.uuid4().hex[:10]}"
    tenant, namespace = ("tenants", probe), ("namespaces", probe, "n")
    clusters = [c for c in await port.call(endpoint, "GET", ("clusters",)) if c != "global"]
    await port.call(endpoint, "PUT", tenant, body={"adminRoles": [], "allowedClusters": clusters})
    try:
        await port.call(endpoint, "PUT", namespace)
        live = await port.call(endpoint, "GET", namespace)
    finally:
        for path in (namespace, tenant):
            await settled(partial(_gone, port, endpoint, path))
    return str(live["replication_clusters"][0])


async def _gone(port: PulsarAdminPort, endpoint: AdminEndpoint, path: tuple[str, ...]) -> None:
    with contextlib.suppress(NotFoundError):
        await port.call(endpoint, "DELETE", path)


async def opened(port: PulsarAdminPort, endpoint: AdminEndpoint) -> Site:
    """A site with its tenant, on the cluster of the endpoint."""
    site = Site(port, endpoint, endpoint.cluster)
    body = {"adminRoles": ["r"], "allowedClusters": [site.cluster]}
    await site.call("PUT", "tenants", site.tenant, body=body)
    return site


class AdminContract:
    """The contract."""

    async def test_tenants(self, site: Site) -> None:
        """409 for one that exists, 404 for one that does not, 412 for a bad name or cluster."""
        body = {"adminRoles": ["r"], "allowedClusters": [site.cluster]}
        assert await site.call("GET", "tenants", site.tenant) == body
        with pytest.raises(ConflictError):
            await site.call("PUT", "tenants", site.tenant, body=body)
        with pytest.raises(NotFoundError):
            await site.call("GET", "tenants", f"{site.tenant}-none")
        with pytest.raises(NotFoundError):
            await site.call("POST", "tenants", f"{site.tenant}-none", body=body)
        with pytest.raises(RefusedError, match="Clusters do not exist") as refused:
            await site.call("POST", "tenants", site.tenant, body={"allowedClusters": ["no-such-cluster"]})
        assert refused.value.status == 412
        with pytest.raises(RefusedError):
            await site.call("PUT", "tenants", "bad name", body=body)
        with pytest.raises(NotFoundError):
            await site.call("DELETE", "tenants", f"{site.tenant}-none")
        await site.call("DELETE", "tenants", site.tenant)
        with pytest.raises(NotFoundError):
            await site.call("GET", "tenants", site.tenant)

    async def test_namespaces(self, site: Site) -> None:
        """Created whole, read whole, 409 and 404 as expected, not deleted while it has topics."""
        path = ("namespaces", site.tenant, "n")
        boundaries = ["0x00000000", "0x55555555", "0xaaaaaaaa", "0xffffffff"]
        body = {"bundles": {"boundaries": boundaries, "numBundles": 3}, "replication_clusters": [site.cluster]}
        with pytest.raises(NotFoundError):
            await site.call("GET", *path)
        assert await site.call("PUT", *path, body=body) is None
        live = await site.call("GET", *path)
        assert live["bundles"] == body["bundles"]
        assert live["replication_clusters"] == [site.cluster]
        assert await site.call("GET", "namespaces", site.tenant) == [f"{site.tenant}/n"]
        with pytest.raises(ConflictError):
            await site.call("PUT", *path, body=body)
        with pytest.raises(NotFoundError):
            await site.call("PUT", "namespaces", f"{site.tenant}-none", "n", body=body)
        with pytest.raises(RefusedError):
            await site.call("POST", *path, "replication", body=[site.cluster, "no-such-cluster"])
        with pytest.raises(ConflictError):
            await site.call("DELETE", "tenants", site.tenant)
        await site.call("PUT", "persistent", site.tenant, "n", "x")
        with pytest.raises(ConflictError):
            await site.call("DELETE", *path)
        await site.call("DELETE", "persistent", site.tenant, "n", "x")
        await site.call("DELETE", *path)
        with pytest.raises(NotFoundError):
            await site.call("DELETE", *path)

    async def test_retention_must_exceed_the_backlog_quota(self, site: Site) -> None:
        """Whichever is written second is checked against the other."""
        path = ("namespaces", site.tenant, "n")
        await site.call("PUT", *path)
        quota = {"limitSize": 5 * 1048576, "limitTime": -1, "policy": "producer_exception"}
        kind = {"backlogQuotaType": "destination_storage"}
        await site.call("POST", *path, "backlogQuota", body=quota, **kind)
        with pytest.raises(RefusedError, match="Retention Quota must exceed"):
            await site.call("POST", *path, "retention", body={"retentionTimeInMinutes": 60, "retentionSizeInMB": 5})
        await site.call("POST", *path, "retention", body={"retentionTimeInMinutes": 60, "retentionSizeInMB": 6})
        with pytest.raises(RefusedError, match="Backlog Quota exceeds"):
            await site.call("POST", *path, "backlogQuota", body={**quota, "limitSize": 6 * 1048576}, **kind)

    async def test_topics(self, site: Site) -> None:
        """Both kinds, told apart by the number of partitions; growth only; 404 and 409 as expected."""
        await site.call("PUT", "namespaces", site.tenant, "n")
        base = ("persistent", site.tenant, "n")
        with pytest.raises(NotFoundError):
            await site.call("GET", *base, "x", "partitions")
        assert await site.call("GET", *base) == [], "asking for a topic does not make it"
        await site.call("PUT", *base, "x")
        assert (await site.call("GET", *base, "x", "partitions"))["partitions"] == 0
        await site.call("PUT", *base, "p", "partitions", body=2)
        await site.call("POST", *base, "p", "partitions", body=3)
        assert (await site.call("GET", *base, "p", "partitions"))["partitions"] == 3
        with pytest.raises(RefusedError):
            await site.call("POST", *base, "p", "partitions", body=1)
        for existing in (("x",), ("p",), ("x", "partitions"), ("p", "partitions")):
            with pytest.raises(ConflictError):
                await site.call("PUT", *base, *existing, body=2 if len(existing) == 2 else None)
        with pytest.raises(ConflictError):
            await site.call("DELETE", *base, "p")
        with pytest.raises(RefusedError):
            await site.call("PUT", *base, "t-partition-1")
        await site.call("DELETE", *base, "p", "partitions")
        await site.call("DELETE", *base, "x")
        assert await site.call("GET", *base) == []
        for gone in (("x",), ("p", "partitions")):
            with pytest.raises(NotFoundError):
                await site.call("DELETE", *base, *gone)

    async def test_a_topic_that_no_broker_may_have(self, site: Site) -> None:
        """An isolation policy that leaves its namespace no broker: nobody answers for the topic, and no refusal.

        One bundle: a topic that is loaded while the one with its policies is nobody's answers only after a minute.
        """
        await site.call("PUT", "namespaces", site.tenant, "n", body={"bundles": {"numBundles": 1}})
        topic = ("persistent", site.tenant, "n", "x")
        await site.call("PUT", *topic)
        await site.call("GET", *topic, "stats")
        policy = ("clusters", site.cluster, "namespaceIsolationPolicies", site.tenant)
        failover = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
        body = {"primary": ["no-such-broker"], "secondary": [], "auto_failover_policy": failover}
        await site.call("POST", *policy, body={**body, "namespaces": [f"{site.tenant}/.*"]})
        try:
            await settled(lambda: _unowned(site, "n", "x"))
        finally:
            await site.call("DELETE", *policy)
        await settled(lambda: site.call("GET", *topic, "stats"))

    async def test_streams(self, site: Site) -> None:
        """What a call answers decoded a stream passes on in pieces, and fails where the call would, without a piece."""
        await site.call("PUT", "namespaces", site.tenant, "n")
        names = [f"topic-{number}-{'x' * 150}" for number in range(12)]
        for name in names:
            await site.call("PUT", "persistent", site.tenant, "n", name)
        path = ("persistent", site.tenant, "n")
        pieces: list[bytes] = []
        await site.port.stream(site.endpoint, path, pieces.append, query={"includeSystemTopic": "true"})
        # Pulsar may have a topic of its own in the namespace by now.
        listed = [name for name in json.loads(b"".join(pieces)) if "/__" not in name]
        assert sorted(listed) == sorted(f"persistent://{site.tenant}/n/{name}" for name in names)
        pieces.clear()
        with pytest.raises(NotFoundError):
            await site.port.stream(site.endpoint, ("tenants", f"{site.tenant}-none"), pieces.append)
        with pytest.raises(RefusedError):
            await site.port.stream(site.endpoint, ("tenants", ".."), pieces.append)
        assert pieces == []

        def refuse(piece: bytes) -> None:
            raise KeyError(len(piece))

        with pytest.raises(KeyError):
            await site.port.stream(site.endpoint, path, refuse)
        for name in names:
            await site.call("DELETE", "persistent", site.tenant, "n", name)

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_hostile_names_stay_one_segment(self, site: Site, name: str) -> None:
        """The topic of exactly that name is made, and nothing else."""
        await site.call("PUT", "namespaces", site.tenant, "n")
        await site.call("PUT", "persistent", site.tenant, "n", name)
        assert await site.call("GET", "persistent", site.tenant, "n") == [f"persistent://{site.tenant}/n/{name}"]
        await site.call("DELETE", "persistent", site.tenant, "n", name)
        assert await site.call("GET", "persistent", site.tenant, "n") == []

    async def test_a_slash_does_not_leave_the_tenant(self, site: Site) -> None:
        """An encoded slash is part of the name, which Pulsar then refuses."""
        with pytest.raises((RefusedError, NotFoundError)):
            await site.call("PUT", "namespaces", site.tenant, f"../{site.tenant}x")
        assert await site.call("GET", "namespaces", site.tenant) == []
