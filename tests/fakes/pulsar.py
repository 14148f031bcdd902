"""Pulsar's admin REST in memory: one instance, several clusters on a shared configuration store.

Answers and codes are those of Pulsar 4.0.8 (checked by the contract tests against the real one). Tenants, namespace
policies and partition numbers are shared; topics and their partitions are per cluster. ``handle`` is the whole server:
raw path segments in, status and JSON out. The two faces are in tests/fakes/admin.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from pulsar_operator.domain.policies.model import version_tuple
from tests.fakes.answers import EMPTY, NO_CONTENT, Answer, RefusalError, Text
from tests.fakes.jsoncopy import deepcopy
from tests.fakes.pulsar_clusters import FakeClusters
from tests.fakes.pulsar_entries import namespace_entries
from tests.fakes.pulsar_parts import decoded_again
from tests.fakes.pulsar_policies import (
    NAMESPACE,
    NEWER,
    change,
    check_retention,
    local_policy,
    new_namespace,
    quota_fits,
    quota_of,
)
from tests.fakes.pulsar_topics import FakeTopics

NAME = re.compile(r"[-=:.A-Za-z0-9_]+")


@dataclass
class FakePulsar(FakeClusters, FakeTopics):
    """State of the instance; tests change it directly to play another writer."""

    version: str = "4.0.8"
    clusters: list[str] = field(default_factory=lambda: ["a"])
    tenants: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    local: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """What each cluster keeps for itself of a namespace, by cluster and tenant/namespace."""
    force_delete_namespace: bool = False
    force_delete_tenant: bool = False
    default_quota_bytes: int = -1
    stuck: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Namespaces whose system topic cannot be deleted until their bundles are unloaded: how Pulsar says so."""
    split: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Boundaries of a namespace in a cluster that has split its bundles, by cluster and tenant/namespace."""
    abandoned: int = 0
    """Entries that were dropped before they were replicated."""
    refuse: dict[str, str] = field(default_factory=dict)
    """Reason by last path segment: a write that Pulsar refuses with 412."""

    def snapshot(self) -> Any:
        """What a test compares."""
        return tuple(
            deepcopy(part)
            for part in (
                {t: {k: sorted(v) for k, v in data.items()} for t, data in self.tenants.items()},
                self.namespaces,
                self.partitioned,
                {c: sorted(names) for c, names in self.topics.items()},
                self.local,
                self.stored(),
                {f"{c} {name}": held for (c, name), held in self.topic_policies.items() if _anything_in(held)},
                {f"{c} {name}": held for (c, name), held in self.topic_properties.items() if held},
                {f"{c} {name}": topic.subscriptions for c, its in self.topics.items() for name, topic in its.items()},
                {f"{c} {name}": versions for (c, name), versions in self.schemas.items() if versions},
            )
        )

    def handle(self, cluster: str, method: str, path: Sequence[str], query: Mapping[str, str], body: Any) -> Answer:
        """Answer one request at one cluster; ``path`` is what follows /admin/v2, decoded."""
        try:
            if method != "GET" and path and path[-1] in self.refuse:
                raise RefusalError(412, self.refuse[path[-1]])
            if path and version_tuple(self.version) < NEWER.get((path[0], path[-1]), ()):
                return (404 if method == "GET" else 405), None
            match list(path):
                case ["brokers", "version"]:
                    return 200, Text(self.version)
                case ["clusters"] if method == "GET":
                    return 200, sorted(self.clusters)
                case ["clusters", name] if method in {"PUT", "DELETE"}:
                    self.clusters = sorted({*self.clusters, name} if method == "PUT" else {*self.clusters} - {name})
                    return NO_CONTENT
                case ["brokers" | "broker-stats", *rest] if rest[:1] != [cluster] or len(rest) > 1:
                    return self.brokers(cluster, method, list(path))
                case ["brokers" | "clusters" | "resourcegroups", *_]:
                    return self.in_configuration_store(method, list(path), body, self.clusters, self.namespaces)
                case ["tenants"] if method == "GET":
                    return 200, sorted(self.tenants)
                case ["tenants", name]:
                    return self._tenant(method, name, query, body)
                case ["namespaces", tenant] if method == "GET":
                    self._need_tenant(tenant, "Tenant not found")
                    return 200, sorted(n for n in self.namespaces if n.startswith(f"{tenant}/"))
                case ["namespaces", tenant, name]:
                    return self._namespace(cluster, method, tenant, name, query, body)
                case ["namespaces", tenant, name, *rest]:
                    return self._policy(cluster, method, self._need(tenant, name), rest, query, body)
                case ["schemas", tenant, name, encoded, *rest]:
                    topic = decoded_again(encoded)
                    self._need(tenant, name)
                    self.need_owner(cluster, "persistent", f"{tenant}/{name}", topic)
                    return self.schema(cluster, method, (tenant, name, topic), rest, body)
                case ["persistent" | "non-persistent" as domain, tenant, name, *rest]:
                    if f"{tenant}/{name}" not in self.namespaces:
                        raise RefusalError(404, "Namespace not found")
                    if rest and rest[1:] != ["partitions"] and rest != ["partitioned"]:
                        self.need_owner(cluster, domain, f"{tenant}/{name}", rest[0])
                    return self._topics(cluster, method, f"{domain}://{tenant}/{name}/", rest, query, body)
            return 404, None
        except RefusalError as refusal:
            return refusal.answer

    # ------------------------------------------------------------------------------------------------- tenants

    def _need_tenant(self, name: str, reason: str) -> dict[str, list[str]]:
        if name not in self.tenants:
            raise RefusalError(404, reason)
        return self.tenants[name]

    def _tenant(self, method: str, name: str, query: Mapping[str, str], body: Any) -> Answer:
        if method == "GET":
            return 200, deepcopy(self._need_tenant(name, "Tenant does not exist"))
        if method == "DELETE":
            self._need_tenant(name, "Tenant doesn't exist")
            force = query.get("force") == "true"
            if force and not self.force_delete_tenant:
                raise RefusalError(405, "Broker doesn't allow forced deletion of tenants")
            inside = [n for n in self.namespaces if n.startswith(f"{name}/")]
            if inside and not force:
                raise RefusalError(409, "The tenant still has active namespaces")
            for namespace in inside:
                self._drop_namespace(namespace)
            del self.tenants[name]
            return NO_CONTENT
        if NAME.fullmatch(name) is None:
            raise RefusalError(412, "Tenant name is not valid")
        if method == "PUT" and name in self.tenants:
            raise RefusalError(409, "Tenant already exist")
        if method == "POST":
            self._need_tenant(name, f"Tenant {name} not found")
        roles, clusters = list(body.get("adminRoles") or ()), list(body.get("allowedClusters") or ())
        if any(role != role.strip() for role in roles):
            raise RefusalError(412, "AdminRoles contains whitespace in the beginning or end.")
        if not clusters:
            raise RefusalError(412, "Clusters cannot be empty or blank")
        if set(clusters) - set(self.clusters):
            raise RefusalError(412, "Clusters do not exist")
        self.tenants[name] = {"adminRoles": roles, "allowedClusters": clusters}
        return NO_CONTENT

    # ---------------------------------------------------------------------------------------------- namespaces

    def _need(self, tenant: str, name: str) -> str:
        full = f"{tenant}/{name}"
        if full not in self.namespaces:
            raise RefusalError(404, "Namespace does not exist")
        return full

    def _namespace(
        self, cluster: str, method: str, tenant: str, name: str, query: Mapping[str, str], body: Any
    ) -> Answer:
        full = f"{tenant}/{name}"
        if method == "GET":
            found = deepcopy(self.namespaces[self._need(tenant, name)])
            if (own := self.split.get((cluster, full))) is not None:
                found["bundles"] = {"boundaries": list(own), "numBundles": len(own) - 1}
            return 200, found
        if method == "DELETE":
            if full not in self.namespaces:
                raise RefusalError(404, f"Namespace {full} does not exist.")
            if full in self.stuck:
                self.namespaces[full]["deleted"] = True
                raise RefusalError(*self.stuck[full])
            self._delete_namespace(full, force=query.get("force") == "true")
            return NO_CONTENT
        self._need_tenant(tenant, "Tenant does not exist")
        if NAME.fullmatch(name) is None:
            raise RefusalError(412, "Namespace name is not valid")
        if full in self.namespaces:
            raise RefusalError(409, "Namespace already exists")
        self.namespaces[full] = self._new_policies(cluster, tenant, body or {})
        return NO_CONTENT

    def _new_policies(self, cluster: str, tenant: str, body: Mapping[str, Any]) -> dict[str, Any]:
        clusters = sorted(body.get("replication_clusters") or [cluster])
        self.check_clusters(tenant, clusters)
        bundles = body.get("bundles") or {}
        boundaries = sorted(set(bundles.get("boundaries") or ()))
        if boundaries and (boundaries[0], boundaries[-1]) != ("0x00000000", "0xffffffff"):
            raise RefusalError(
                400,
                f"Input bundles do not cover the whole hash range. first:{boundaries[0]}, last:{boundaries[-1]}",
            )
        if not boundaries:
            count = bundles.get("numBundles") or 4
            boundaries = [f"0x{(2**32 // count) * i:08x}" for i in range(count)] + ["0xffffffff"]
        return new_namespace() | {
            "replication_clusters": clusters,
            "allowed_clusters": [],
            "bundles": {"boundaries": boundaries, "numBundles": len(boundaries) - 1},
            "properties": dict(body.get("properties") or {}),
        }

    def check_clusters(self, tenant: str, clusters: Sequence[str]) -> None:
        """See FakeTopics."""
        allowed = self.tenants[tenant]["allowedClusters"]
        for cluster in clusters:
            if cluster not in self.clusters:
                raise RefusalError(403, f"Invalid cluster id: {cluster}")
            if cluster not in allowed:
                raise RefusalError(
                    403, f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant [{tenant}]"
                )

    def default_retention(self, cluster: str) -> dict[str, int]:
        """See FakeTopics."""
        held = self.dynamic.get(cluster, {})
        names = ("retentionTimeInMinutes", "retentionSizeInMB")
        return {name: int(held.get(f"default{name[0].upper()}{name[1:]}", 0)) for name in names}

    def _names(self, namespace: str) -> list[str]:
        prefixes = (f"persistent://{namespace}/", f"non-persistent://{namespace}/")
        found = {name for names in self.topics.values() for name in names} | set(self.partitioned)
        return [name for name in found if name.startswith(prefixes)]

    def _delete_namespace(self, full: str, *, force: bool) -> None:
        policies = self.namespaces[full]
        if max(len(policies["replication_clusters"]), len(policies["allowed_clusters"])) > 1:
            raise RefusalError(
                412,
                f"Cannot delete the global namespace {full}. There are still more than one replication clusters "
                "configured.",
            )
        if force and not self.force_delete_namespace:
            raise RefusalError(405, "Broker doesn't allow forced deletion of namespaces")
        if self._names(full) and not force:
            raise RefusalError(409, "Cannot delete non empty namespace")
        self._drop_namespace(full)

    def _drop_namespace(self, full: str) -> None:
        for name in self._names(full):
            self._drop_topic(name)
            self.partitioned.pop(name, None)
        for held in self.local.values():
            held.pop(full, None)
        del self.namespaces[full]

    def _leave(self, full: str, clusters: set[str]) -> None:
        """Brokers of a cluster that is neither in replication_clusters nor in allowed_clusters delete its topics."""
        for cluster in set(self.clusters) - clusters:
            names = self.topics.get(cluster, {})
            for name in [n for n in names if f"://{full}/" in n]:
                del names[name]

    def _drop_replicators(self, namespace: str, gone: set[str]) -> None:
        """What waited for a cluster that leaves, or in it for others, is not delivered any more."""
        for cluster, topics in self.topics.items():
            for name, topic in topics.items():
                if f"://{namespace}/" in name:
                    for target in [each for each in topic.undelivered if cluster in gone or each in gone]:
                        self.abandoned += topic.undelivered.pop(target)

    def _policy(
        self, cluster: str, method: str, full: str, rest: list[str], query: Mapping[str, str], body: Any
    ) -> Answer:
        policies = self.namespaces[full]
        entries = namespace_entries(policies, method, rest, body)
        if entries is not None:
            return entries
        match method, rest:
            case "GET", ["bundles"]:
                return 200, deepcopy(policies["bundles"])
            case "PUT", [*bundle, "unload"]:
                self.stuck.pop(full, None)
                lower, upper = (int(each, 16) for each in bundle[0].split("_")) if bundle else (0, 2**32)
                mine = {each for each in self.fenced if f"://{full}/" in each}
                self.fenced -= {each for each in mine if lower <= crc32(each.encode()) < upper}
                return NO_CONTENT
            case "GET", ["topics"]:
                if policies.get("deleted"):
                    raise RefusalError(404, "Namespace is deleted")
                prefix = f"://{full}/"
                return 200, sorted(n for n in self.topics.get(cluster, {}) if prefix in n)
            case "POST", ["replication"]:
                self.check_clusters(full.split("/", maxsplit=1)[0], body)
                for one in sorted(set(body) - set(policies["allowed_clusters"] or body)):
                    text = f"Cluster [{one}] is not in the list of allowed clusters list for namespace [{full}]"
                    raise RefusalError(400, text)
                self._drop_replicators(full, {*policies["replication_clusters"]} - {*body})
                policies["replication_clusters"] = sorted(body)
                self._leave(full, {*body, *policies["allowed_clusters"]})
                return 200, None
            case "POST", ["allowedClusters"]:
                for one in sorted(set(policies["replication_clusters"]) - set(body)):
                    raise RefusalError(400, f"Allowed clusters do not contain the replication cluster [{one}].")
                self.check_clusters(full.split("/", maxsplit=1)[0], body)
                policies["allowed_clusters"] = sorted(body)
                self._leave(full, {*body})
                return 200, None
            case "POST" | "DELETE", ["backlogQuota"]:
                self._quota(policies, query["backlogQuotaType"], body if method == "POST" else None)
                return NO_CONTENT
            case "GET", ["retention"]:
                found = policies.get("retention_policies")
                return (200, dict(found)) if found is not None else EMPTY
            case "POST" | "DELETE", ["retention"]:
                self._retention(policies, body if method == "POST" else None)
                return NO_CONTENT
            case "DELETE", ["removeOffloadPolicies"]:
                policies.pop("offload_policies", None)
                return NO_CONTENT
            case "POST" | "DELETE", ["resourcegroup", *name]:
                if name and name[0] not in self.resource_groups:
                    raise RefusalError(412, "ResourceGroup does not exist")
                policies.pop("resource_group_name", None)
                if name:
                    policies["resource_group_name"] = name[0]
                return NO_CONTENT
            case "GET" | "POST" | "DELETE", ["antiAffinity"] | ["persistence", "bookieAffinity"]:
                store = self.local.setdefault(cluster, {}).setdefault(full, {})
                return local_policy(store, rest[-1], method, body)
            case "POST" | "PUT" | "DELETE", [name] if name in NAMESPACE:
                return change(policies, NAMESPACE[name], name, method, body, cluster)
        return 404, None

    def _default_quota(self) -> dict[str, Any]:
        return {"limitSize": self.default_quota_bytes, "limitTime": -1}

    def _fits(self, quotas: Mapping[str, Any], retention: Mapping[str, Any] | None) -> bool:
        """AdminResource.checkQuotas: only the storage quota is looked at, and the broker's default in its absence."""
        return not quotas or quota_fits(quotas.get("destination_storage") or self._default_quota(), retention)

    def _quota(self, policies: dict[str, Any], kind: str, body: Any) -> None:
        if body is None:
            policies["backlog_quota_map"].pop(kind, None)
            return
        quota = quota_of(body)
        if not self._fits({kind: quota}, policies.get("retention_policies")):
            raise RefusalError(
                412,
                "Backlog Quota exceeds configured retention quota for namespace. Please increase retention quota and "
                "retry",
            )
        policies["backlog_quota_map"][kind] = quota

    def _retention(self, policies: dict[str, Any], body: Any) -> None:
        if body is None:
            policies.pop("retention_policies", None)
            return
        check_retention(body)
        if not self._fits(policies["backlog_quota_map"], body):
            raise RefusalError(412, "Retention Quota must exceed configured backlog quota for namespace.")
        policies["retention_policies"] = dict(body)


def _anything_in(held: Mapping[str, Any]) -> bool:
    return any(value not in (False, [], {}) for value in held.values())
