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
NOT_A_SYSTEM_TOPIC = (
    "must not be the name of a system topic of Pulsar, in which Pulsar keeps policies or transactions of the namespace"
)


def no_system_topic(name: str) -> str:
    """The CEL rule that a text is the name of no system topic."""
    listed = ", ".join(f"'{each}'" for each in SYSTEM_TOPICS)
    return f"!({name} in [{listed}]) && !{name}.endsWith('{SYSTEM_SUFFIX}')"


TOPIC_RULES = (
    (
        f"has(self.spec.name) || !self.metadata.name.matches('{PARTITION_SUFFIX}')",
        "metadata.name must not end with -partition-N unless spec.name is set, because Pulsar uses that suffix "
        "for partitions of a topic",
    ),
)


class PulsarTopicSpec(LogicalSpec):
    """A topic of a namespace, with its policies, permissions and subscriptions."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("name"),
            immutable("namespaceRef"),
            immutable("persistent"),
            (
                "has(self.partitions) == has(oldSelf.partitions)",
                "A partitioned topic cannot become non-partitioned, and a non-partitioned topic cannot become "
                "partitioned. Create another topic",
            ),
            (
                "!has(self.partitions) || !has(oldSelf.partitions) || self.partitions >= oldSelf.partitions",
                "spec.partitions cannot be reduced, because Pulsar cannot remove partitions",
            ),
            (
                f"!has(self.name) || !self.name.matches('{PARTITION_SUFFIX}')",
                "spec.name must not end with -partition-N, because Pulsar uses that suffix for partitions of a topic",
            ),
            (f"!has(self.name) || ({no_system_topic('self.name')})", f"spec.name {NOT_A_SYSTEM_TOPIC}"),
            (
                "self.persistent || has(self.partitions) || !has(self.policies)",
                "spec.policies of a non-persistent topic need spec.partitions, because Pulsar stores no policies "
                "of a non-persistent topic without partitions",
            ),
            (
                "self.persistent || has(self.partitions) || !has(self.replicationClusters)",
                "spec.replicationClusters of a non-persistent topic need spec.partitions, because Pulsar stores "
                "no list of clusters of a non-persistent topic without partitions",
            ),
            (
                "self.persistent || !has(self.properties) || size(self.properties) == 0",
                "spec.properties need a persistent topic, because Pulsar stores no properties of non-persistent topics",
            ),
            (
                "self.persistent || !has(self.subscriptions) || size(self.subscriptions) == 0",
                "spec.subscriptions need a persistent topic, because only consumers create subscriptions of "
                "non-persistent topics",
            ),
            (
                "self.persistent || !has(self.compaction)",
                "spec.compaction needs a persistent topic, because Pulsar stores no messages of non-persistent topics",
            ),
            PROPERTY_KEY,
        )
    )

    namespace_ref: ObjectReference
    """PulsarNamespace that the topic belongs to."""
    name: Annotated[str, Field(min_length=1, max_length=255, pattern=TOPIC_NAME)] | None = None
    """Local name of the topic in its namespace. If unset, metadata.name is used."""
    persistent: bool = True
    """Whether messages are stored. If false, messages reach only connected consumers."""
    partitions: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Number of partitions, which can only be increased. If unset, the topic is non-partitioned."""
    replication_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters that replicate the topic to each other, by their names in Pulsar. Clusters that are not listed keep
    their existing copy of the topic but do not replicate it. If unset, the clusters of the namespace apply."""
    policies: TopicPolicies | None = None
    """Policies of the topic, which take precedence over those of its namespace. Only fields that are set are managed.
    If unset, no policies are managed."""
    policy_scope: PolicyScope = PolicyScope.LOCAL
    """Scope of policies and replicationClusters. With Local, the policies are set in each cluster of the namespace.
    With Global, the policies are set once and Pulsar replicates them to all clusters of the namespace, where local
    values of other writers take precedence. If the scope changes, the policies are set in the new scope and then reset
    in the old one."""
    permissions: Permissions = Field(default_factory=list)
    """Permissions of roles on the topic, in addition to those on its namespace. A role that is removed from the list
    loses its permissions. Permissions that other writers granted stay unless prune.permissions is true. If empty, no
    permissions are granted."""
    properties: Properties | None = None
    """Properties of the topic, as a map of keys to values. A key that is removed from the map is removed in Pulsar.
    Keys that other writers added stay unless prune.properties is true. If unset, no properties are set."""
    subscriptions: Subscriptions = Field(default_factory=list)
    """Durable subscriptions. A missing subscription is created in each cluster, and the position of an existing one is
    never changed. A subscription that is removed from the list is deleted only if deletionPolicy is Delete and the
    subscription has no unread messages and no consumers, or if deletionPolicy is ForceDelete. Subscriptions of other
    writers stay. If empty, no subscriptions are created."""
    # "schema" itself would hide a method of the model base.
    topic_schema: TopicSchema | None = Field(default=None, alias="schema")
    """Schema of the topic. Pulsar accepts only a compatible schema. If unset, the schema is not managed."""
    compaction: Compaction | None = None
    """Scheduled compaction in each cluster that has the topic. If unset, only policies.compactionThreshold triggers
    compaction."""
    prune: TopicPrune | None = None
    """Lists that are complete: entries in Pulsar that are not declared are removed. If unset, entries of other writers
    stay."""


class TopicClusterStatus(ApiModel):
    """The topic in one cluster."""

    name: str
    """Name of the cluster in Pulsar."""
    exists: bool
    """Whether the topic exists in the cluster."""
    partitions: int | None = None
    """Number of partitions in the cluster. Unset for a non-partitioned topic."""


class OwnClusterList(ApiModel):
    """The topic's own list of clusters in one cluster."""

    name: str
    """Name of the cluster in Pulsar."""
    replication_clusters: ClusterNames = Field(default_factory=list)
    """Clusters that the topic was replicated to. If empty, the topic used the list of its namespace."""


class PulsarTopicStatus(LogicalStatus):
    """Observed state of a PulsarTopic."""

    clusters: Annotated[
        list[TopicClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """State of the topic in each cluster."""
    partitions: int | None = None
    """Number of partitions in the first cluster."""
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
    """The topic's own lists of clusters before its deletion ended the replication. The operator restores the lists if
    the topic stays. Unset while no list was changed."""
    compaction: CompactionStatus | None = None
    """Scheduled compactions."""
