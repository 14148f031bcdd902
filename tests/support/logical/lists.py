"""Controllers on a Pulsar: every list of a tenant, namespace and topic is set, read back, changed by somebody else,
repaired, and taken back. Run on the in-memory Pulsar and on a real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.ports import AdminEndpoint, Json
from tests.support.logical.world import LogicalWorld

A = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
A_AND_B = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int","default":0}]}'
RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
OTHER_RATE = {**RATE, "dispatchThrottlingRateInMsg": 99}
PAUSE_SECONDS = 0.5
KEYS = ("app", "a/b", "a%2Fb", "a+b", "\u00fc")


def of_users(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties without the one in which the operator records which object manages what has them."""
    return {key: value for key, value in properties.items() if key != OWNER_PROPERTY}


class Scenario:
    """One tenant on one Pulsar, through the controllers of this process and by plain calls beside them."""

    def __init__(self, world: LogicalWorld, cluster: str, url: str, tenant: str, *, partitions: int | None) -> None:
        self.w = world
        self.endpoint = AdminEndpoint(cluster, url)
        self.tenant = tenant
        self.topic = ("persistent", tenant, "n", "x")
        self.kind: Json = {} if partitions is None else {"partitions": partitions}

    async def ask(self, method: str, *path: str, body: Any = None, text: bool = False, **query: str) -> Any:
        """A plain call, as with curl."""
        return await self.w.admin.call(self.endpoint, method, path, query=query, body=body, text=text)

    def declare(self, *, empty: bool = False, **topic: Any) -> None:
        """Apply the objects, with all lists or with none."""
        permissions = [{"role": key, "actions": ["Produce"]} for key in KEYS]
        full: Json = {"permissions": permissions, "properties": {key: key for key in KEYS}}
        reserved = [{"subscription": key, "roles": [key, "ops"]} for key in KEYS]
        subscriptions = [
            {"name": key, "replicated": True, "properties": {"of": key}, "dispatchRate": {"messagesPerPeriod": 10}}
            for key in KEYS
        ]
        parts = {"subscriptions": subscriptions, "schema": {"type": "Avro", "definition": A}}
        common = {"deletionPolicy": "Delete"}
        self.w.tenant(self.tenant, adminRoles=[] if empty else ["admin"], **common)
        self.w.namespace("n", tenant=self.tenant, **({} if empty else {**full, "subscriptionPermissions": reserved}))
        self.w.topic("x", **common, **self.kind, **({} if empty else full | parts), **topic)

    async def settled(self) -> None:
        """Passes until everything is Ready; a policy of a topic takes a moment to be seen."""

        async def passed() -> list[tuple[str, str, str]]:
            await self.w.run()
            objects = ((Kind.TENANT, self.tenant), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"))
            return [self.w.condition(kind, name) for kind, name in objects]

        await eventually_async(
            passed,
            lambda said: all(status == "True" for status, _, _ in said),
            what="tenant, namespace and topic are Ready",
            every=PAUSE_SECONDS,
            retried=(),
        )

    async def live(self) -> Json:
        """What Pulsar has."""
        namespace = await self.ask("GET", "namespaces", self.tenant, "n")
        access = namespace["auth_policies"]
        name = f"persistent://{self.tenant}/n/x"
        stats = await self._stats()
        rates = {key: await self.ask("GET", *self.topic, key, "dispatchRate", applied="false") for key in KEYS}
        return {
            "permissions": access["namespace_auth"],
            "subscriptionPermissions": {k: sorted(v) for k, v in access["subscription_auth_roles"].items()},
            "topicPermissions": access["destination_auth"].get(name, {}),
            "properties": of_users(namespace["properties"]),
            "topicProperties": of_users(await self.ask("GET", *self.topic, "properties") or {}),
            "subscriptions": {
                key: (one["isReplicated"], one["subscriptionProperties"]) for key, one in sorted(stats.items())
            },
            "rates": {key: rate["dispatchThrottlingRateInMsg"] for key, rate in rates.items() if rate},
        }

    async def _stats(self) -> Json:
        if not self.kind:
            return dict((await self.ask("GET", *self.topic, "stats"))["subscriptions"])
        parts = (await self.ask("GET", *self.topic, "partitioned-stats", perPartition="true"))["partitions"]
        first, *others = [part["subscriptions"] for part in parts.values()]
        assert all(set(each) == set(first) for each in others)
        return dict(first)

    def wanted(self) -> Json:
        """What Pulsar should have."""
        actions = {key: ["produce"] for key in KEYS}
        words = {key: key for key in KEYS}
        return {
            "permissions": actions,
            "subscriptionPermissions": {key: sorted([key, "ops"]) for key in KEYS},
            "topicPermissions": actions,
            "properties": words,
            "topicProperties": words,
            "subscriptions": {key: (True, {"of": key}) for key in sorted(KEYS)},
            "rates": dict.fromkeys(KEYS, 10),
        }

    async def drift(self) -> None:
        """Somebody else changes one entry of each list."""
        namespace = ("namespaces", self.tenant, "n")
        await self.ask("POST", *namespace, "permissions", "a/b", body=["produce", "consume"])
        await self.ask("DELETE", *namespace, "permissions", "app")
        await self.ask("POST", *namespace, "permissions", "subscription", "a/b", body=["intruder"])
        await self.ask("POST", *self.topic, "permissions", "a%2Fb", body=["functions"])
        await self.ask("PUT", *namespace, "properties", body={"a/b": "other"})
        await self.ask("DELETE", *namespace, "property", "app", text=True)
        await self.ask("PUT", *self.topic, "properties", body={"a/b": "other"})
        await self.ask("DELETE", *self.topic, "properties", key="app")
        await self.ask("DELETE", *self.topic, "subscription", "app")
        await self.ask("PUT", *self.topic, "subscription", "a%252Fb", "properties", body={"x": "y"})
        await self.ask("POST", *self.topic, "subscription", "a%2Fb", "replicatedSubscriptionStatus", body=False)
        await self.ask("POST", *self.topic, "a/b", "dispatchRate", body=OTHER_RATE, isGlobal="false")
        roles = {"adminRoles": [], "allowedClusters": [self.endpoint.cluster]}
        await self.ask("POST", "tenants", self.tenant, body=roles)

    async def run(self) -> None:
        """The whole."""
        self.declare()
        await self.settled()
        assert await self.live() == self.wanted()
        await self.drift()
        assert await self.live() != self.wanted()

        async def repaired() -> Json:
            await self.settled()
            return await self.live()

        await eventually_async(  # a policy of a topic that was changed beside us is seen late
            repaired, lambda live: live == self.wanted(), what="drift is repaired", every=PAUSE_SECONDS, retried=()
        )
        assert (await self.ask("GET", "tenants", self.tenant))["adminRoles"] == ["admin"]
        for kind in (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC):
            assert "DriftRepaired" in self.w.reasons(kind), kind
        schemas = ("schemas", self.tenant, "n", "x")
        body = {"type": "AVRO", "schema": A_AND_B, "properties": {}}
        assert (await self.ask("GET", *schemas, "schema"))["version"] == 0
        await self.ask("POST", *schemas, "schema", body=body)
        await self.settled()
        assert "version 1, which is newer than the declared schema" in self.w.condition(Kind.TOPIC, "x", "Drifted")[2]
        self.declare(empty=True)
        await self.settled()
        assert await self.live() == {key: {} for key in self.wanted()}, "taken back"
        assert (await self.ask("GET", "tenants", self.tenant))["adminRoles"] == []
        assert (await self.ask("GET", *schemas, "schema"))["version"] == 1, "no schema is deleted"
        for kind, name in ((Kind.TENANT, self.tenant), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "x")):
            managed = self.w.status(kind, name).get("managedFields", [])
            assert [field for field in managed if "[" in field and not field.startswith("allowedClusters")] == []


__all__ = ["Scenario"]
