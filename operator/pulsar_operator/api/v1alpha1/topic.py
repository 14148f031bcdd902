"""PulsarTopic: a topic of a namespace."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import (
    ApiModel,
    ClusterName,
    ClusterNames,
    ObjectReference,
    immutable,
    validations,
)
from pulsar_operator.api.v1alpha1.compaction import Compaction, CompactionStatus
from pulsar_operator.api.v1alpha1.entries import PROPERTY_KEY, Permissions, Properties, TopicPrune
from pulsar_operator.api.v1alpha1.logical import LogicalSpec, LogicalStatus
from pulsar_operator.api.v1alpha1.policies import PolicyScope, TopicPolicies
from pulsar_operator.api.v1alpha1.topic_parts import Subscriptions, TopicSchema

TOPIC_NAME = r"^[^/\x00-\x1f\x7f]*[^/\x00-\x1f\x7f. ]([^/\x00-\x1f\x7f]*[^/\x00-\x20\x7f])?$"
"""No slash, which separates the parts of a full topic name, no control character, at least one character that is
neither a dot nor a space, and no space at the end: Pulsar refuses blank names, ZooKeeper refuses "." and ".." in paths,
and Java clients cut spaces off and go to another topic (class ProducerBuilderImpl)."""

PARTITION_SUFFIX = "-partition-[0-9]+$"
"""Suffix Pulsar gives to the partitions of a topic (class TopicName)."""

SYSTEM_TOPICS = (
    "__change_events",
    "__transaction_buffer_snapshot",
    "__transaction_buffer_snapshot_segments",
    "__transaction_buffer_snapshot_indexes",
)
"""Local names of topics that brokers keep for themselves in the namespaces of users (class SystemTopicNames)."""
SYSTEM_SUFFIX = "__transaction_pending_ack"
"""What others of them end with, after the name of a topic and of a subscription."""
NOT_A_SYSTEM_TOPIC = "must not name a system topic of Pulsar, which keeps policies or transactions of its namespace"


def no_system_topic(name: str) -> str:
    """The CEL rule that a text is the name of no system topic."""
    listed = ", ".join(f"'{each}'" for each in SYSTEM_TOPICS)
    return f"!({name} in [{listed}]) && !{name}.endsWith('{SYSTEM_SUFFIX}')"


TOPIC_RULES = (
    (
        f"has(self.spec.name) || !self.metadata.name.matches('{PARTITION_SUFFIX}')",
        "metadata.name must not end with -partition-N unless spec.name is set: Pulsar uses that suffix for partitions "
        "of a topic",
    ),
)


class PulsarTopicSpec(LogicalSpec):
    """A topic."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("name"),
            immutable("namespaceRef"),
            immutable("persistent"),
            (
                "has(self.partitions) == has(oldSelf.partitions)",
                "a partitioned topic cannot become non-partitioned, nor the other way round: create another topic",
            ),
            (
                "!has(self.partitions) || !has(oldSelf.partitions) || self.partitions >= oldSelf.partitions",
                "spec.partitions cannot shrink: Pulsar has no way to remove a partition",
            ),
            (
                f"!has(self.name) || !self.name.matches('{PARTITION_SUFFIX}')",
                "spec.name must not end with -partition-N: Pulsar uses that suffix for partitions of a topic",
            ),
            (f"!has(self.name) || ({no_system_topic('self.name')})", f"spec.name {NOT_A_SYSTEM_TOPIC}"),
            (
                "self.persistent || has(self.partitions) || !has(self.policies)",
                "spec.policies of a non-persistent topic need spec.partitions: Pulsar keeps none for a non-persistent "
                "topic without partitions",
            ),
            (
                "self.persistent || has(self.partitions) || !has(self.replicationClusters)",
                "spec.replicationClusters of a non-persistent topic need spec.partitions: Pulsar keeps none for a "
                "non-persistent topic without partitions",
            ),
            (
                "self.persistent || !has(self.properties) || size(self.properties) == 0",
                "spec.properties need a persistent topic: Pulsar keeps none for others",
            ),
            (
                "self.persistent || !has(self.subscriptions) || size(self.subscriptions) == 0",
                "spec.subscriptions need a persistent topic: on others only consumers make them",
            ),
            (
                "self.persistent || !has(self.compaction)",
                "spec.compaction needs a persistent topic: of others nothing is stored",
            ),
            PROPERTY_KEY,
        )
    )

    namespace_ref: ObjectReference
    """The PulsarNamespace the topic belongs to."""
    name: Annotated[str, Field(min_length=1, max_length=255, pattern=TOPIC_NAME)] | None = None
    """Local name inside the namespace; absent = metadata.name."""
    persistent: bool = True
    """Whether messages are stored; false = they reach only those who are connected."""
    partitions: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Number of partitions, may grow; absent = a non-partitioned topic."""
    replication_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters that replicate the topic to each other, by their Pulsar name, instead of those of its namespace. A
    cluster of the namespace that is left out keeps the topic with what it has, for itself."""
    policies: TopicPolicies | None = None
    """Policies; only fields that are set are managed. They win over those of the namespace."""
    policy_scope: PolicyScope = PolicyScope.LOCAL
    """Of policies and replicationClusters. Local = each cluster of the namespace keeps them for itself, they are set in
    each; Global = one set that Pulsar replicates to all clusters of the namespace, and over which local values of
    others win. A change moves them: they are set in the new scope, then reset in the old one."""
    permissions: Permissions = Field(default_factory=list)
    """What roles may do with the topic, besides what they may in its namespace. A role that leaves the list loses it;
    roles others added stay, unless prune.permissions is set."""
    properties: Properties | None = None
    """Properties of the topic, key to value. A key that leaves the map is removed; keys others added stay, unless
    prune.properties is set."""
    subscriptions: Subscriptions = Field(default_factory=list)
    """Durable subscriptions. One that is missing is made, in each cluster; none is ever moved. One that leaves the list
    is removed only with deletionPolicy Delete and without unread messages and consumers, or with ForceDelete; those of
    others stay."""
    # "schema" itself would hide a method of the model base.
    topic_schema: TopicSchema | None = Field(default=None, alias="schema")
    """Schema; absent = not managed. Pulsar's compatibility check comes before an upload."""
    compaction: Compaction | None = None
    """Compaction by a schedule, in each cluster that has the topic; absent = none but that of the policies."""
    prune: TopicPrune | None = None
    """Lists that are complete; absent = entries of others stay."""


class TopicClusterStatus(ApiModel):
    """The topic in one cluster."""

    name: str
    """Name of the cluster inside Pulsar."""
    exists: bool
    """Whether the cluster has the topic."""
    partitions: int | None = None
    """Partitions there; absent for a non-partitioned topic."""


class OwnClusterList(ApiModel):
    """The topic's own list of clusters in one cluster."""

    name: str
    """Pulsar cluster."""
    replication_clusters: ClusterNames = Field(default_factory=list)
    """Clusters that the topic was replicated to; empty = it had no list of its own."""


class PulsarTopicStatus(LogicalStatus):
    """Observed state of a PulsarTopic."""

    clusters: Annotated[
        list[TopicClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """The topic in each cluster."""
    partitions: int | None = None
    """Partitions in the first cluster."""
    replication_before_deletion: (
        Annotated[
            list[OwnClusterList],
            Field(
                max_length=256,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            ),
        ]
        | None
    ) = None
    """The topic's own lists of clusters as they were before its deletion ended the replication. The operator restores
    them if the topic stays. Unset while nothing was changed."""
    compaction: CompactionStatus | None = None
    """Compactions by spec.compaction."""
