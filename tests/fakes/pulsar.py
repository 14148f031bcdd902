"""Pulsar's admin REST in memory: one instance, several clusters on a shared configuration store.

Answers and codes are those of Pulsar 4.0.8 (checked by the contract tests against the real one). Tenants, namespace
policies and partition numbers are shared; topics and their partitions are per cluster. ``handle`` is the whole server:
raw path segments in, status and JSON out. The two faces are in tests/fakes/admin.py.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[int, Any]
NAME = re.compile(r"[-=:.A-Za-z0-9_]+")
NO_CONTENT: Answer = (204, None)
LIMIT_UNSET = 0


class RefusalError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.answer: Answer = (status, {"reason": reason})


@dataclass
class FakeTopic:
    """A topic, or a partition, in one cluster."""

    producers: int = 0
    backlog: dict[str, int] = field(default_factory=dict)
    """Unread messages by subscription."""


@dataclass
class FakePulsar:
    """State of the instance; tests change it directly to play another writer."""

    clusters: list[str] = field(default_factory=lambda: ["a"])
    tenants: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Policies by tenant/namespace."""
    partitioned: dict[str, int] = field(default_factory=dict)
    """Number of partitions by full topic name."""
    topics: dict[str, dict[str, FakeTopic]] = field(default_factory=dict)
    """Topics by cluster and full name."""
    force_delete_namespace: bool = False
    force_delete_tenant: bool = False
    default_quota_bytes: int = -1
    refuse: dict[str, str] = field(default_factory=dict)
    """Reason by last path segment: a write that Pulsar refuses with 412."""

    def snapshot(self) -> Any:
        """What a test compares."""
        return copy.deepcopy(
            (
                {t: {k: sorted(v) for k, v in data.items()} for t, data in self.tenants.items()},
                self.namespaces,
                self.partitioned,
                {c: sorted(names) for c, names in self.topics.items()},
            )
        )

    def handle(self, cluster: str, method: str, path: Sequence[str], query: Mapping[str, str], body: Any) -> Answer:
        """Answer one request at one cluster; ``path`` is what follows /admin/v2, decoded."""
        try:
            if method != "GET" and path and path[-1] in self.refuse:
                raise RefusalError(412, self.refuse[path[-1]])
            match list(path):
                case ["clusters"] if method == "GET":
                    return 200, sorted(self.clusters)
                case ["tenants", name]:
                    return self._tenant(method, name, query, body)
                case ["namespaces", tenant] if method == "GET":
                    self._need_tenant(tenant, "Tenant not found")
                    return 200, sorted(n for n in self.namespaces if n.startswith(f"{tenant}/"))
                case ["namespaces", tenant, name]:
                    return self._namespace(cluster, method, tenant, name, query, body)
                case ["namespaces", tenant, name, *rest]:
                    return self._policy(cluster, method, self._need(tenant, name), rest, query, body)
                case ["persistent" | "non-persistent" as domain, tenant, name, *rest]:
                    if f"{tenant}/{name}" not in self.namespaces:
                        raise RefusalError(404, "Namespace not found")
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
            return 200, copy.deepcopy(self._need_tenant(name, "Tenant does not exist"))
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
            return 200, copy.deepcopy(self.namespaces[self._need(tenant, name)])
        if method == "DELETE":
            if full not in self.namespaces:
                raise RefusalError(404, f"Namespace {full} does not exist.")
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
        self._check_allowed(tenant, clusters)
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
        return {
            "replication_clusters": clusters,
            "allowed_clusters": [],
            "bundles": {"boundaries": boundaries, "numBundles": len(boundaries) - 1},
            "backlog_quota_map": {},
            "schema_compatibility_strategy": "UNDEFINED",
            "deleted": False,
        }

    def _check_allowed(self, tenant: str, clusters: Sequence[str]) -> None:
        allowed = self.tenants[tenant]["allowedClusters"]
        for cluster in clusters:
            if cluster not in self.clusters:
                raise RefusalError(403, f"Invalid cluster id: {cluster}")
            if cluster not in allowed:
                raise RefusalError(
                    403, f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant [{tenant}]"
                )

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
        del self.namespaces[full]

    def _drop_topic(self, name: str) -> None:
        for names in self.topics.values():
            names.pop(name, None)

    def _leave(self, full: str, clusters: set[str]) -> None:
        """Brokers of a cluster that is neither in replication_clusters nor in allowed_clusters delete its topics."""
        for cluster in set(self.clusters) - clusters:
            names = self.topics.get(cluster, {})
            for name in [n for n in names if f"://{full}/" in n]:
                del names[name]

    def _policy(
        self, cluster: str, method: str, full: str, rest: list[str], query: Mapping[str, str], body: Any
    ) -> Answer:
        policies = self.namespaces[full]
        match method, rest:
            case "GET", ["bundles"]:
                return 200, copy.deepcopy(policies["bundles"])
            case "GET", ["topics"]:
                prefix = f"://{full}/"
                return 200, sorted(n for n in self.topics.get(cluster, {}) if prefix in n)
            case "POST", ["replication"]:
                self._check_allowed(full.split("/", maxsplit=1)[0], body)
                policies["replication_clusters"] = sorted(body)
                self._leave(full, {*body, *policies["allowed_clusters"]})
                return 200, None
            case "POST", ["allowedClusters"]:
                if set(policies["replication_clusters"]) - set(body):
                    raise RefusalError(400, f"Replication clusters are not all in the allowed clusters of {full}")
                policies["allowed_clusters"] = sorted(body)
                self._leave(full, {*body})
                return 200, None
            case "POST" | "DELETE", ["backlogQuota"]:
                self._quota(policies, query["backlogQuotaType"], body if method == "POST" else None)
                return NO_CONTENT
            case "POST" | "DELETE", ["retention"]:
                self._retention(policies, body if method == "POST" else None)
                return NO_CONTENT
            case "POST", ["messageTTL"]:
                if body < 0:
                    raise RefusalError(412, "Invalid value for message TTL, message TTL must >= 0")
                policies["message_ttl_in_seconds"] = body
                return NO_CONTENT
            case "DELETE", ["messageTTL"]:
                policies.pop("message_ttl_in_seconds", None)
                return NO_CONTENT
        return 404, None

    def _fits(self, quotas: Mapping[str, Any], retention: Mapping[str, Any] | None) -> bool:
        """AdminResource.checkQuotas: only the storage quota is looked at, and the broker's default in its absence."""
        if not quotas or retention is None:
            return True
        size, minutes = retention["retentionSizeInMB"], retention["retentionTimeInMinutes"]
        quota = quotas.get("destination_storage") or {"limitSize": self.default_quota_bytes, "limitTime": -1}
        if size > 0 and quota["limitSize"] >= size * 1024 * 1024:
            return False
        return not (minutes > 0 and quota["limitTime"] >= minutes * 60)

    def _quota(self, policies: dict[str, Any], kind: str, body: Any) -> None:
        if body is None:
            policies["backlog_quota_map"].pop(kind, None)
            return
        quota = {
            "limit": body.get("limitSize", LIMIT_UNSET),
            "limitSize": body.get("limitSize", LIMIT_UNSET),
            "limitTime": body.get("limitTime", LIMIT_UNSET),
            "policy": body["policy"],
        }
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
        if (body["retentionTimeInMinutes"] == 0) != (body["retentionSizeInMB"] == 0):
            raise RefusalError(400, "Invalid retention policy: Setting a single time or size limit to 0 is invalid")
        if not self._fits(policies["backlog_quota_map"], body):
            raise RefusalError(412, "Retention Quota must exceed configured backlog quota for namespace.")
        policies["retention_policies"] = dict(body)

    # -------------------------------------------------------------------------------------------------- topics

    def _topics(
        self, cluster: str, method: str, prefix: str, rest: list[str], query: Mapping[str, str], body: Any
    ) -> Answer:
        here = self.topics.setdefault(cluster, {})
        force = query.get("force") == "true"
        match method, rest:
            case "GET", []:
                return 200, sorted(n for n in here if n.startswith(prefix))
            case "GET", ["partitioned"]:
                return 200, sorted(n for n in self.partitioned if n.startswith(prefix))
            case "GET", [name, "partitions"]:
                if prefix + name in self.partitioned:
                    return 200, {"partitions": self.partitioned[prefix + name], "deleted": False}
                self._need_topic(here, prefix + name)
                return 200, {"partitions": 0, "deleted": False}
            case "GET", [name, "stats"]:
                topic = self._need_topic(here, prefix + name)
                subscriptions = {s: {"msgBacklog": n, "consumers": []} for s, n in topic.backlog.items()}
                return 200, {"publishers": [{}] * topic.producers, "subscriptions": subscriptions}
            case "PUT", [name]:
                self._create(here, prefix, name)
                return NO_CONTENT
            case "PUT", [name, "partitions"]:
                self._create_partitioned(here, prefix, name, body)
                return NO_CONTENT
            case "POST", [name, "partitions"]:
                self._grow(prefix + name, body)
                return NO_CONTENT
            case "DELETE", [name]:
                full = prefix + name
                if full in self.partitioned:
                    raise RefusalError(
                        409,
                        f"{full} is a partitioned topic, instead of calling delete topic, please call "
                        "delete-partitioned-topic.",
                    )
                self._delete_topic(here, full, force=force)
                return NO_CONTENT
            case "DELETE", [name, "partitions"]:
                full = prefix + name
                if full not in self.partitioned:
                    if full in here:
                        raise RefusalError(409, f"{full} is a non-partitioned topic. Instead of calling ...")
                    raise RefusalError(404, f"Topic {full} not found.")
                for i in range(self.partitioned[full]):
                    if f"{full}-partition-{i}" in here:
                        self._delete_topic(here, f"{full}-partition-{i}", force=force)
                del self.partitioned[full]
                return NO_CONTENT
        return 404, None

    def _need_topic(self, here: Mapping[str, FakeTopic], full: str) -> FakeTopic:
        if full not in here:
            raise RefusalError(404, f"Topic {full} not found")
        return here[full]

    def _create(self, here: dict[str, FakeTopic], prefix: str, name: str) -> None:
        if prefix + name in here or prefix + name in self.partitioned:
            raise RefusalError(409, "This topic already exists")
        match = re.fullmatch(r"(.*)-partition-\d+", name)
        if match is not None and prefix + match[1] not in self.partitioned:
            raise RefusalError(412, f'Can\'t create topic {name} with "-partition-" followed by numeric value')
        here[prefix + name] = FakeTopic()

    def _create_partitioned(self, here: dict[str, FakeTopic], prefix: str, name: str, count: int) -> None:
        if prefix + name in here or prefix + name in self.partitioned:
            raise RefusalError(409, "This topic already exists")
        if "-partition-" in name:
            raise RefusalError(412, "Partitioned Topic Name should not contain '-partition-'")
        self.partitioned[prefix + name] = count
        if prefix.startswith("persistent"):
            here.update({f"{prefix}{name}-partition-{i}": FakeTopic() for i in range(count)})

    def _grow(self, full: str, count: int) -> None:
        if full not in self.partitioned:
            raise RefusalError(409, f"Topic {full} is not the partitioned topic.")
        current = self.partitioned[full]
        if count < current:
            raise RefusalError(422, f"Desired partitions {count} can't be less than the current partitions {current}.")
        self.partitioned[full] = count
        for names in self.topics.values():
            if f"{full}-partition-0" in names:
                names.update({f"{full}-partition-{i}": FakeTopic() for i in range(current, count)})

    def _delete_topic(self, here: dict[str, FakeTopic], full: str, *, force: bool) -> None:
        topic = self._need_topic(here, full)
        if topic.producers and not force:
            raise RefusalError(412, f"Topic has {topic.producers} connected producers/consumers")
        del here[full]
