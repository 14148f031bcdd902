"""Topics of the in-memory Pulsar: they and their partitions are per cluster, partition numbers are shared."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fakes.answers import EMPTY, NO_CONTENT, Answer, RefusalError
from tests.fakes.pulsar_entries import map_of_properties, topic_permissions
from tests.fakes.pulsar_parts import FakeSchemas, FakeTopic, decoded_again, subscription
from tests.fakes.pulsar_policies import UNSCOPED, topic_policy

PARTITION = re.compile(r".+-partition-\d+")
PARTITION_OF = re.compile(r"-partition-\d+$")
GLOBAL = "*"
"""In place of a cluster: what is replicated to all."""


@dataclass
class FakeTopics(FakeSchemas):
    """The part of FakePulsar that answers for topics."""

    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Policies by tenant/namespace."""
    partitioned: dict[str, int] = field(default_factory=dict)
    """Number of partitions by full topic name."""
    topics: dict[str, dict[str, FakeTopic]] = field(default_factory=dict)
    """Topics by cluster and full name."""
    topic_policies: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """Topic policies by cluster (GLOBAL = the replicated ones) and full topic name."""
    topic_properties: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """Properties by cluster (GLOBAL for a partitioned topic) and full topic name."""
    compacted: list[tuple[str, str]] = field(default_factory=list)
    """Cluster and full name of each compaction that was triggered."""
    compacting: set[str] = field(default_factory=set)
    """Topics whose compaction is under way."""
    ran: set[str] = field(default_factory=set)
    """Topics, or partitions, that were compacted since they were loaded."""
    lost: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By full name topics whose last compaction failed: how Pulsar refuses to delete them until they are unloaded."""
    fenced: set[str] = field(default_factory=set)
    """Topics whose deletion hung: Pulsar begins no other one until their bundle is unloaded."""
    mute: set[str] = field(default_factory=set)
    """Partitions whose broker does not answer: they are left out of the statistics of all."""
    late: dict[str, list[Any]] = field(default_factory=dict)
    """By name of a topic policy: answers still given after it was changed, since its event has not arrived."""
    topic_level_policies: bool = True
    """topicLevelPoliciesEnabled of the brokers."""
    refuse_reads: dict[str, str] = field(default_factory=dict)
    """Reason by name of a topic policy that Pulsar does not tell."""

    def _drop_topic(self, name: str) -> None:
        for names in self.topics.values():
            names.pop(name, None)
        self._forget_policies(name)

    def _forget_policies(self, name: str, cluster: str | None = None) -> None:
        """Those of other clusters stay where one alone is asked (seen on 4.0.8)."""
        places = (cluster, GLOBAL)
        for where in [w for w in self.topic_policies if w[1] == name and (cluster is None or w[0] in places)]:
            del self.topic_policies[where]
        for where in [w for w in self.topic_properties if w[1] == name and (cluster is None or w[0] in places)]:
            del self.topic_properties[where]
        policies = self.namespaces.get(name.split("://", 1)[1].rsplit("/", 1)[0], {})
        policies.get("auth_policies", {}).get("destination_auth", {}).pop(name, None)

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
                    properties = self.topic_properties.get((GLOBAL, prefix + name), {})
                    told = {"properties": dict(properties)} if properties else {}
                    return 200, {"partitions": self.partitioned[prefix + name], "deleted": False, **told}
                self._need_topic(here, prefix + name)
                return 200, {"partitions": 0, "deleted": False}
            case "GET", [name, "stats"]:
                return 200, self._stats_of(cluster, here, prefix + name)
            case "GET", [name, "internalStats"]:
                return 200, self._need_topic(here, prefix + name).internal_stats()
            case "GET", [name, "partitioned-stats"]:
                parts = self._parts(here, prefix + name)
                told = {part: self._stats_of(cluster, here, part) for part in parts if part not in self.mute}
                metadata = {"partitions": self.partitioned.get(prefix + name, 0), "deleted": False}
                return 200, {"metadata": metadata, "partitions": told or {prefix + name: {"subscriptions": {}}}}
            case "GET", [name, "subscriptions"]:
                parts = self._parts(here, prefix + name)
                return 200, sorted({s for topic in parts.values() for s in topic.stats()["subscriptions"]})
            case "PUT" | "POST" | "DELETE", [name, "subscription", *which]:
                if not prefix.startswith("persistent"):
                    raise RefusalError(
                        400, "Create subscription on non-persistent topic can only be done through client"
                    )
                parts = self._parts(here, prefix + name)
                whole = prefix + name in self.partitioned
                return subscription([*parts.values()], method, which, query, body, partitioned=whole)
            case "GET" | "POST" | "DELETE", [name, of, "dispatchRate"]:
                return self._rate(cluster, method, prefix + name, of, body)
            case "PUT", [name]:
                self._create(here, prefix, name)
                if body and prefix.startswith("persistent"):
                    self.topic_properties[cluster, prefix + name] = dict(body)
                return NO_CONTENT
            case "PUT", [name, "partitions"]:
                created: dict[str, Any] = body if isinstance(body, dict) else {"partitions": body}
                self._create_partitioned(here, prefix, name, created["partitions"])
                if created.get("properties"):
                    self.topic_properties[GLOBAL, prefix + name] = dict(created["properties"])
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
                self._delete_topic(cluster, here, full, force=force)
                return NO_CONTENT
            case "DELETE", [name, "partitions"]:
                full = prefix + name
                if full not in self.partitioned:
                    if full in here:
                        raise RefusalError(409, f"{full} is a non-partitioned topic. Instead of calling ...")
                    raise RefusalError(404, f"Topic {full} not found.")
                for i in range(self.partitioned[full]):
                    if f"{full}-partition-{i}" in here:
                        self._delete_topic(cluster, here, f"{full}-partition-{i}", force=force)
                del self.partitioned[full]
                self._forget_policies(full, cluster)
                return NO_CONTENT
            case "POST" | "DELETE", [name, "permissions", role]:
                full = prefix + name
                if full not in self.partitioned:
                    self._need_topic(here, full)
                policies = self.namespaces[full.split("://", 1)[1].rsplit("/", 1)[0]]
                return topic_permissions(policies, full, method, role, body)
            case "GET", [name, "compaction"]:
                self._need_topic(here, prefix + name)
                ran = "SUCCESS" if prefix + name in self.ran else "NOT_RUN"
                return 200, {"status": "ERROR" if prefix + name in self.lost else ran, "lastError": ""}
            case "PUT", [name, "unload"]:
                for each in self._parts(here, prefix + name):
                    self.lost.pop(each, None)
                    self.ran.discard(each)
                return NO_CONTENT
            case "PUT", [name, "compaction"]:
                return self._compact(cluster, prefix + name)
            case "GET" | "PUT" | "DELETE", [name, "properties"]:
                return self._properties(cluster, method, prefix + name, query, body)
            case "POST", [name, "autoSubscriptionCreation" as policy]:
                return self._topic_policy(cluster, method, prefix, decoded_again(name), policy, query, body)
            case "GET" | "POST" | "PUT" | "DELETE", [name, policy]:
                return self._topic_policy(cluster, method, prefix, name, policy, query, body)
        return 404, None

    def _parts(self, here: Mapping[str, FakeTopic], full: str) -> dict[str, FakeTopic]:
        """The topic, or its partitions."""
        if full not in self.partitioned:
            return {full: self._need_topic(here, full)}
        names = (f"{full}-partition-{i}" for i in range(self.partitioned[full]))
        return {name: here[name] for name in names if name in here}

    def _rate(self, cluster: str, method: str, full: str, of: str, body: Any) -> Answer:
        if full not in self.partitioned:
            self._need_topic(self.topics[cluster], full)
        held = self.topic_policies.setdefault((cluster, full), {}).setdefault("subscriptionRates", {})
        if method == "GET":
            return (200, dict(held[of])) if of in held else EMPTY
        if method == "POST":
            held[of] = body
        else:
            held.pop(of, None)
        return NO_CONTENT

    def _properties(self, cluster: str, method: str, full: str, query: Mapping[str, str], body: Any) -> Answer:
        if not full.startswith("persistent"):
            raise RefusalError(406, "Need to provide a persistent topic name")
        if full not in self.partitioned:
            self._need_topic(self.topics[cluster], full)
        where = GLOBAL if full in self.partitioned else cluster
        return map_of_properties(self.topic_properties.setdefault((where, full), {}), method, query, body)

    def _topic_policy(
        self, cluster: str, method: str, prefix: str, name: str, policy: str, query: Mapping[str, str], body: Any
    ) -> Answer:
        full = prefix + name
        if not self.topic_level_policies:
            raise RefusalError(405, "Topic level policies is disabled, to enable the topic level policy and retry.")
        if PARTITION.fullmatch(name) is not None:
            raise RefusalError(412, "Not allowed to set/get topic policy for a partition")
        known = full in self.partitioned or (full in self.topics[cluster] and prefix.startswith("persistent"))
        if not known:
            raise RefusalError(404, f"Topic {full} not found")
        if policy == "shadowTopics":
            for shadow in body or ():
                if shadow not in self.topics[cluster] and shadow not in self.partitioned:
                    raise RefusalError(412, f"Shadow topic [{shadow}] not exists.")
        everywhere = query.get("isGlobal") == "true" and policy not in UNSCOPED
        if policy == "replication" and method == "POST":
            self._replicates(cluster, full, body, everywhere=everywhere)
        store = self.topic_policies.setdefault((GLOBAL if everywhere else cluster, full), {})
        if method == "GET" and policy in self.refuse_reads:
            raise RefusalError(405, self.refuse_reads[policy])
        if method == "GET" and self.late.get(policy):
            return 200, self.late[policy].pop(0)
        namespace = self.namespaces[full.split("://", 1)[1].rsplit("/", 1)[0]]
        if method == "GET" and policy == "retention" and query.get("applied") == "true":
            # What counts for the topic, but for its replicated policies: those are only told by isGlobal.
            return 200, dict(
                store.get(policy) or namespace.get("retention_policies") or self.default_retention(cluster)
            )
        return topic_policy(store, namespace, policy, method, query, body)

    def _compact(self, cluster: str, full: str) -> Answer:
        if full not in self.partitioned:
            self._need_topic(self.topics[cluster], full)
        if full in self.compacting:
            words = "Compaction already in progress"
            if full in self.partitioned:
                raise RefusalError(500, f"PulsarAdminException$ConflictException: {words}")
            raise RefusalError(409, words)
        self.compacted.append((cluster, full))
        self.ran |= self._parts(self.topics[cluster], full).keys()
        return NO_CONTENT

    def _replicates(self, cluster: str, full: str, clusters: Sequence[str], *, everywhere: bool) -> None:
        """Brokers of a cluster that is in no list that counts delete the topic."""
        namespace = full.split("://", 1)[1].rsplit("/", 1)[0]
        self.check_clusters(namespace.split("/")[0], clusters)
        if not everywhere and cluster not in clusters:
            raise RefusalError(
                412, "Can not remove local cluster from the local topic-level replication clusters policy"
            )
        if everywhere and len(self.namespaces[namespace]["replication_clusters"]) < 2:
            raise RefusalError(
                412, "Please do not use the global topic level policy when namespace-level replication is not enabled"
            )
        for other in set(self.topics) - {*clusters, *self.namespaces[namespace]["allowed_clusters"]}:
            if everywhere:
                for name in [n for n in self.topics[other] if n == full or n.startswith(f"{full}-partition-")]:
                    del self.topics[other][name]

    @abstractmethod
    def check_clusters(self, tenant: str, clusters: Sequence[str]) -> None:
        """Refuse clusters nobody registered, or that the tenant may not use."""

    @abstractmethod
    def default_retention(self, cluster: str) -> dict[str, int]:
        """What counts where neither a topic nor its namespace has a retention policy."""

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
                old = names[f"{full}-partition-0"].subscriptions
                new = {name: replace(one, properties=dict(one.properties)) for name, one in old.items()}
                names.update(
                    {f"{full}-partition-{i}": FakeTopic(subscriptions=dict(new)) for i in range(current, count)}
                )

    def _stats_of(self, cluster: str, here: Mapping[str, FakeTopic], full: str) -> dict[str, Any]:
        topic = self._need_topic(here, full)
        told = {
            each: {"connected": True, "replicationBacklog": topic.undelivered.get(each, 0)}
            for each in self._replicated_to(cluster, full)
        }
        return {**topic.stats(), "replication": told}

    def _replicated_to(self, cluster: str, full: str) -> list[str]:
        """Clusters that a topic has replicators for; a broker starts none where its own cluster is in no list."""
        if not full.startswith("persistent:"):
            return []
        name = PARTITION_OF.sub("", full)
        namespace = self.namespaces[full.split("://", 1)[1].rsplit("/", 1)[0]]
        own = (self.topic_policies.get((where, name), {}).get("replication") for where in (cluster, GLOBAL))
        listed = next(filter(None, own), None) or namespace["replication_clusters"]
        return sorted(set(listed) - {cluster}) if cluster in listed else []

    def _replicators_of(self, cluster: str, full: str) -> int:
        """Of other clusters, which are producers to a topic that keeps nothing (seen on 4.0.8)."""
        listed = self.namespaces[full.split("://", 1)[1].rsplit("/", 1)[0]]["replication_clusters"]
        if full.startswith("persistent:") or cluster not in listed:
            return 0
        return sum(full in self.topics[each] for each in listed if each != cluster)

    def _delete_topic(self, cluster: str, here: dict[str, FakeTopic], full: str, *, force: bool) -> None:
        topic, replicated = self._need_topic(here, full), self._replicated_to(cluster, full)
        if replicated and not force:  # class BrokerService, deleteTopicInternal
            raise RefusalError(422, f"Delete forbidden topic is replicated on clusters [{', '.join(replicated)}]")
        connected = topic.producers + self._replicators_of(cluster, full)
        if connected and not force:
            raise RefusalError(412, f"Topic has {connected} connected producers/consumers")
        if full in self.fenced:
            raise RefusalError(500, "Message: Topic is already fenced")
        if full in self.lost:
            raise RefusalError(*self.lost[full])
        del here[full]
        self._forget_policies(full, cluster)
