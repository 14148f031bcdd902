"""Resource groups, isolation policies and failure domains on a Pulsar: set, read back, drift, repaired, removed.

The real controllers over a fake API server, against the in-memory Pulsar and a real one; a subclass provides the
fixture ``site``. Isolation policies are for namespaces of the test's own alone: one that no broker matches makes its
namespaces unusable. And their brokers are secondary ones: a broker that is primary to any policy serves no namespace
outside the policies, so that a primary ".*" would take all brokers from everybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.isolation_policy import UnloadScope
from pulsar_operator.domain.logical.pulsar_names import failure_domain_path, isolation_path, resource_group_path
from pulsar_operator.domain.policies.instance_rows import RESOURCE_GROUP_LIMITS
from pulsar_operator.ports import (
    AdminEndpoint,
    ConflictError,
    Json,
    NotFoundError,
    PulsarAdminPort,
    RefusedError,
    UnavailableError,
)
from tests.support.logical.world import LogicalWorld
from tests.support.policies.values import values_of

PRG, PIP = Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY
PAUSE_SECONDS = 0.2
NOBODY = "there-is-no-such-broker"
ELSEWHERE = "nor-such-a-broker"
ANY: dict[str, Any] = {"primary": [NOBODY], "secondary": [".*"]}
"""On any broker, which others use as well."""


@dataclass
class Site:
    """A Pulsar with a tenant and an empty namespace of the test's own, and an operator for it."""

    port: PulsarAdminPort
    endpoint: AdminEndpoint
    cluster: str
    own: str
    """Part of every name, and the tenant."""
    world: LogicalWorld

    async def ask(self, method: str, *path: str, body: Any = None, **query: str) -> Any:
        """A plain call, as another writer makes it."""
        return await self.port.call(self.endpoint, method, path, query=query, body=body)

    async def live(self, path: tuple[str, ...]) -> Any:
        """What Pulsar has; None where there is nothing."""
        with contextlib.suppress(NotFoundError):
            return await self.ask("GET", *path)

    async def until(self, kind: Kind, name: str, fact: Callable[[], bool]) -> None:
        """Passes over an object until the fact holds."""

        async def passed() -> Json | None:
            await self.world.reconcile(kind, name)
            return self.world.get(kind, name)

        what = f"what a test awaits of {kind} {name}"
        await eventually_async(passed, lambda _: fact(), what=what, every=PAUSE_SECONDS, retried=())

    async def ready(self, kind: Kind, name: str) -> None:
        """Passes over an object until it is Ready for its newest specification."""

        def fact() -> bool:
            obj = self.world.get(kind, name) or {}
            newest = (obj.get("status") or {}).get("observedGeneration") == obj["metadata"]["generation"]
            return newest and self.world.condition(kind, name)[0] == "True"

        await self.until(kind, name, fact)

    async def gone(self, kind: Kind, name: str) -> None:
        """A user deletes the object; passes until it is gone."""
        self.world.delete(kind, name)
        await self.until(kind, name, lambda: self.world.get(kind, name) is None)

    @property
    def policy(self) -> tuple[str, ...]:
        """Path of the test's isolation policy."""
        return isolation_path(self.cluster, self.own)

    async def clean(self) -> None:
        """Remove what the test made beside its tenant."""
        for name in await self.ask("GET", "resourcegroups"):
            if name.startswith(self.own):
                await self.ask("DELETE", "resourcegroups", name)
        for name in await self.live(isolation_path(self.cluster, "")[:-1]) or {}:
            if name.startswith(self.own):
                await self.ask("DELETE", *isolation_path(self.cluster, name))
        for name in await self.ask("GET", *failure_domain_path(self.cluster)) or {}:
            if name.startswith(self.own):
                await self.ask("DELETE", *failure_domain_path(self.cluster, name))


async def opened(port: PulsarAdminPort, endpoint: AdminEndpoint) -> AsyncIterator[Site]:
    """A site, whose groups, policies and domains are removed at the end: they concern other tenants; for fixtures."""
    world = LogicalWorld(endpoint.cluster, admin=port, urls={endpoint.cluster: endpoint.url})
    site = Site(port, endpoint, endpoint.cluster, f"shared-{uuid.uuid4().hex[:10]}", world)
    await site.ask("PUT", "tenants", site.own, body={"adminRoles": [], "allowedClusters": [site.cluster]})
    await site.ask("PUT", "namespaces", site.own, "n")
    try:
        yield site
    finally:
        await site.clean()


class InstanceContract:
    """The contract."""

    async def test_limits_survive_the_round_trip_and_the_reset(self, site: Site) -> None:
        """Each alone: a write leaves the other limits as they are."""
        base = resource_group_path(site.own)
        await site.ask("PUT", *base, body={})
        for row in RESOURCE_GROUP_LIMITS:
            before = await site.ask("GET", *base)
            assert row.read(before) is None
            for value in (*values_of(row), values_of(row)[0]):
                call = row.set_call(base, value)
                await site.ask(call.method, *call.path, body=call.body)
                after = await site.ask("GET", *base)
                assert row.read(after) == value
                assert {k: v for k, v in after.items() if k not in row.live} == {
                    k: v for k, v in before.items() if k not in row.live
                }
            reset = row.remove_call(base)
            assert reset is not None
            await site.ask(reset.method, *reset.path, body=reset.body)
            assert await site.ask("GET", *base) == before

    async def test_a_resource_group(self, site: Site) -> None:
        """Made, read back, repaired, a limit taken away, refused a deletion while in use, deleted."""
        w, path = site.world, resource_group_path(site.own)
        spec: dict[str, Any] = {"name": site.own, "deletionPolicy": "Delete"}
        w.group(**spec, limits={"publishRate": {"messagesPerSecond": 1000, "bytesPerSecond": 5_000_000_000}})
        await site.ready(PRG, "g")
        none = {"dispatchRateInMsgs": -1, "dispatchRateInBytes": -1}
        assert await site.live(path) == {"publishRateInMsgs": 1000, "publishRateInBytes": 5_000_000_000, **none}

        await site.ask("PUT", *path, body={"publishRateInMsgs": 1})
        await w.reconcile(PRG, "g")
        assert (await site.live(path))["publishRateInMsgs"] == 1000
        assert "DriftRepaired" in w.reasons(PRG)

        w.group(**spec, limits={"publishRate": {"messagesPerSecond": 2000}})
        await site.ready(PRG, "g")
        assert await site.live(path) == {"publishRateInMsgs": 2000, "publishRateInBytes": -1, **none}

        await site.ask("POST", "namespaces", site.own, "n", "resourcegroup", site.own)
        w.delete(PRG, "g")
        await w.reconcile(PRG, "g")
        status, reason, message = w.condition(PRG, "g", "DeletionBlocked")
        assert (status, reason) == ("True", "InUse") and f"namespaces {site.own}/n use it" in message
        await site.ask("DELETE", "namespaces", site.own, "n", "resourcegroup")
        await site.until(PRG, "g", lambda: w.get(PRG, "g") is None)
        assert await site.live(path) is None

    async def test_a_namespace_waits_for_its_group(self, site: Site) -> None:
        """Pulsar refuses the name of a group it does not have."""
        w = site.world
        w.tenant("t", name=site.own)
        w.namespace("n", policies={"resourceGroup": site.own})
        await site.until(Kind.TENANT, "t", lambda: w.condition(Kind.TENANT, "t")[0] == "True")
        await w.reconcile(Kind.NAMESPACE, "n")
        assert "ResourceGroup does not exist" in w.condition(Kind.NAMESPACE, "n", "Accepted")[2]
        w.group(name=site.own)
        await site.ready(PRG, "g")
        await site.ready(Kind.NAMESPACE, "n")
        assert (await site.ask("GET", "namespaces", site.own, "n"))["resource_group_name"] == site.own
        w.namespace("n")
        await site.ready(Kind.NAMESPACE, "n")
        assert "resource_group_name" not in await site.ask("GET", "namespaces", site.own, "n")

    async def test_pulsar_cannot_delete_a_group_twice(self, site: Site) -> None:
        """The reason why a group is looked for before it is deleted."""
        with pytest.raises(UnavailableError, match="500"):
            await site.ask("DELETE", *resource_group_path(site.own))

    async def test_an_isolation_policy(self, site: Site) -> None:
        """Made, read back, repaired, fields added and taken away, every unload scope, deleted."""
        w = site.world
        spec: dict[str, Any] = {"name": site.own, "deletionPolicy": "Delete", "namespaces": [f"{site.own}/.*"]}
        failover = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
        made = {"namespaces": spec["namespaces"], **ANY, "auto_failover_policy": failover}
        w.isolation(**spec, **ANY)
        await site.ready(PIP, "i")
        assert await site.live(site.policy) == made
        (cluster,) = w.status(PIP, "i")["clusters"]
        assert cluster["name"] == site.cluster and cluster["exists"] and cluster["brokers"] >= 1

        await site.ask("POST", *site.policy, body={**made, "primary": [ELSEWHERE], "unload_scope": "none"})
        await w.reconcile(PIP, "i")
        assert await site.live(site.policy) == {**made, "unload_scope": "none"}, "what is not declared stays"
        assert "DriftRepaired" in w.reasons(PIP)

        more: dict[str, Any] = {"autoFailover": {"minLimit": 2, "usageThresholdPercent": 100}}
        for scope, word in zip(UnloadScope, ("all_matching", "none", "changed"), strict=True):
            w.isolation(**spec, **more, primary=[ELSEWHERE], secondary=[NOBODY, ".*"], unloadScope=scope.value)
            await site.ready(PIP, "i")
            assert await site.live(site.policy) == {
                **made,
                "primary": [ELSEWHERE],
                "secondary": [NOBODY, ".*"],
                "auto_failover_policy": {**failover, "parameters": {"min_limit": "2", "usage_threshold": "100"}},
                "unload_scope": word,
            }
        w.isolation(**spec, **ANY)
        await site.ready(PIP, "i")
        assert await site.live(site.policy) == made
        await site.gone(PIP, "i")
        assert await site.live(site.policy) is None

    async def test_a_policy_that_no_broker_matches_is_told(self, site: Site) -> None:
        """Pulsar accepts it without an error."""
        w = site.world
        spec: dict[str, Any] = {"name": site.own, "deletionPolicy": "Delete", "namespaces": [f"{site.own}/n"]}
        w.isolation(**spec, primary=[NOBODY], unloadScope="None")
        await site.until(PIP, "i", lambda: w.condition(PIP, "i")[1] == "NoBrokerMatches")
        assert w.status(PIP, "i")["clusters"] == [{"name": site.cluster, "exists": True, "brokers": 0}]
        w.isolation(**spec, **ANY, unloadScope="None")
        await site.ready(PIP, "i")
        await site.gone(PIP, "i")

    async def test_an_expression_is_for_the_host_although_pulsars_list_has_the_port(self, site: Site) -> None:
        """The reason why Pulsar is asked for each host."""
        w = site.world
        (host, port) = (await site.ask("GET", "brokers", site.cluster))[0].rsplit(":", 1)
        exact = host.replace(".", "\\.")
        w.isolation(
            name=site.own, deletionPolicy="Delete", namespaces=[f"{site.own}/n"], **{**ANY, "secondary": [exact]}
        )
        await site.ready(PIP, "i")
        listed = await site.ask("GET", *site.policy[:-1], "brokers")
        (entry,) = [each for each in listed if each["brokerName"] == f"{host}:{port}"]
        assert f"{site.own}/n" not in entry["namespaceRegex"]
        assert w.status(PIP, "i")["clusters"][0]["brokers"] == 1
        await site.gone(PIP, "i")

    async def test_two_policies_of_one_cluster_do_not_lose_each_other(self, site: Site) -> None:
        """They are one value in Pulsar."""
        w = site.world
        names = [f"{site.own}-{n}" for n in range(8)]
        for name in names:
            w.isolation(name, namespaces=[f"{site.own}/{name}"], **ANY, deletionPolicy="Delete")
        await asyncio.gather(*(w.reconcile(PIP, name) for name in names))
        assert set(names) <= set(await site.live(site.policy[:-1]))
        for name in names:
            await site.ready(PIP, name)
        for name in names:
            w.delete(PIP, name)
        await asyncio.gather(*(w.reconcile(PIP, name) for name in names))
        assert not set(names) & set(await site.live(site.policy[:-1]))

    async def test_failure_domains(self, site: Site) -> None:
        """Made, repaired, brokers change places, one goes, deleted. Brokers that are not there do no harm."""
        w, x, y = site.world, f"{site.own}-x", f"{site.own}-y"
        one, two = (f"{site.own}-{n}.broker:8080" for n in (1, 2))

        def declare(**brokers: list[str]) -> None:
            domains = [{"name": f"{site.own}-{name}", "brokers": its} for name, its in brokers.items()]
            w.isolation(name=site.own, failureDomains=domains, deletionPolicy="Delete")

        async def found() -> dict[str, list[str]]:
            domains = await site.ask("GET", *failure_domain_path(site.cluster))
            return {name: its.get("brokers") or [] for name, its in domains.items() if name.startswith(site.own)}

        declare(x=[one], y=[two])
        await site.ready(PIP, "i")
        assert await found() == {x: [one], y: [two]}
        with pytest.raises(ConflictError):
            await site.ask("POST", *failure_domain_path(site.cluster, f"{site.own}-z"), body={"brokers": [one]})
        await site.ask("POST", *failure_domain_path(site.cluster, x), body={"brokers": []})
        await w.reconcile(PIP, "i")
        assert await found() == {x: [one], y: [two]}
        assert "DriftRepaired" in w.reasons(PIP)
        declare(x=[two], y=[one])
        await site.ready(PIP, "i")
        assert await found() == {x: [two], y: [one]}
        declare(x=[one, two])
        await site.ready(PIP, "i")
        assert {name: sorted(its) for name, its in (await found()).items()} == {x: [one, two]}
        await site.gone(PIP, "i")
        assert await found() == {}
        assert "RejectedByPulsar" not in w.reasons(PIP)

    async def test_what_pulsar_refuses(self, site: Site) -> None:
        """Values the definition does not admit, and one it does."""
        whole = {
            "namespaces": [f"{site.own}/n"],
            "primary": [".*"],
            "secondary": [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
        changes: list[dict[str, Any]] = [
            {"namespaces": []},
            {"primary": []},
            {"primary": ["("]},
            {"auto_failover_policy": None},
        ]
        for change in changes:
            with pytest.raises(RefusedError, match="Invalid format of input policy data"):
                await site.ask("POST", *site.policy, body={**whole, **change})
        await site.ask("POST", *site.policy, body={**whole, "unload_scope": "all"})
        assert await site.live(site.policy) == whole, "a scope Pulsar does not know is dropped"


__all__ = ["InstanceContract", "Site", "opened"]
