"""PulsarTopicSet: many topics of one namespace, alike, in one object."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, DriftPolicy, ObjectReference, immutable, validations
from pulsar_operator.api.v1alpha1.entries import PROPERTY_KEY, Properties
from pulsar_operator.api.v1alpha1.logical import ManagedStatus
from pulsar_operator.api.v1alpha1.policies import PolicyScope, TopicPolicies
from pulsar_operator.api.v1alpha1.topic import NOT_A_SYSTEM_TOPIC, PARTITION_SUFFIX, TOPIC_NAME, no_system_topic
from pulsar_operator.api.v1alpha1.topic_parts import TopicSchema

MAX_NAMES = 5000
MAX_NUMBER = 1_000_000
MAX_DIGESTS = 400_000
"""Characters of status.owned.digests."""
_SELECTIONS = ("names", "count", "patterns")

PREFIX = r"^[^/\x00-\x1f\x7f]+$"
"""What is a topic name (see TOPIC_NAME) with a number after it: that is neither blank nor dots, nor ends in a space."""

_NOT_A_PARTITION = (
    f"!self.matches('{PARTITION_SUFFIX}')",
    "must not end with -partition-N, because Pulsar uses that suffix for partitions of a topic",
)
_NOT_A_SYSTEM_TOPIC = (no_system_topic("self"), NOT_A_SYSTEM_TOPIC)


class TopicCount(ApiModel):
    """Numbered topics, such as orders-0 to orders-999 with prefix orders- and number 1000."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("prefix", at="spec.count.", why="it identifies the topics of the set"),
            immutable("first", at="spec.count.", why="it identifies the topics of the set"),
            (
                "!self.prefix.matches('-partition-[0-9]*$')",
                "spec.count.prefix must not end with -partition-, because Pulsar uses that suffix for partitions "
                "of a topic",
            ),
        )
    )

    prefix: Annotated[str, Field(min_length=1, max_length=240, pattern=PREFIX)]
    """Text that the local names start with, followed by the number of the topic."""
    first: Annotated[int, Field(ge=0, le=MAX_NUMBER)] = 0
    """Number of the first topic."""
    number: Annotated[int, Field(ge=0, le=MAX_NUMBER)]
    """Number of topics in the set. If the number is lowered, spec.deletionPolicy decides what happens to the surplus
    topics."""


class TopicTemplate(ApiModel):
    """Properties of each topic, which are fields of a PulsarTopic. Subscriptions and permissions belong to the
    namespace, to clients and to other objects. There is no replicationClusters, because a cluster that is not listed
    may lose its data."""

    model_config = ConfigDict(json_schema_extra=validations(PROPERTY_KEY))

    partitions: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Number of partitions of each topic, which can only be increased. If unset, the topics are non-partitioned."""
    policies: TopicPolicies | None = None
    """Policies of each topic, which take precedence over those of its namespace. Only fields that are set are managed.
    If unset, no policies are managed."""
    policy_scope: PolicyScope = PolicyScope.LOCAL
    """Scope of the policies. With Local, the policies are set in each cluster of the namespace. With Global, the
    policies are set once and Pulsar replicates them to all clusters of the namespace."""
    properties: Properties | None = None
    """Properties of each topic, as a map of keys to values. A key that is removed from the map is removed in Pulsar.
    Keys that other writers added stay. If unset, no properties are set."""
    # "schema" itself would hide a method of the model base.
    topic_schema: TopicSchema | None = Field(default=None, alias="schema")
    """Schema of each topic. Pulsar accepts only a compatible schema. If unset, the schema is not managed."""


class SetDeletionPolicy(StrEnum):
    """What happens in Pulsar to topics that are removed from the set."""

    RETAIN = "Retain"
    DELETE = "Delete"


class PulsarTopicSetSpec(ApiModel):
    """Persistent topics of one namespace with the same settings."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("namespaceRef"),
            (
                " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in _SELECTIONS) + " == 1",
                "Exactly one of spec.names, spec.count and spec.patterns must be set to select the topics",
            ),
            (
                " && ".join(f"has(self.{name}) == has(oldSelf.{name})" for name in _SELECTIONS),
                "The way in which topics are selected (spec.names, spec.count or spec.patterns) cannot be "
                "changed. Create another set",
            ),
            (
                "!has(self.patterns) || (!has(self.template.partitions) && self.deletionPolicy == 'Retain')",
                "spec.patterns selects existing topics, so spec.template.partitions must not be set and "
                "deletionPolicy must be Retain",
            ),
            (
                "has(self.template.partitions) == has(oldSelf.template.partitions)",
                "Partitioned topics cannot become non-partitioned, and non-partitioned topics cannot become "
                "partitioned. Create another set",
            ),
            (
                "!has(self.template.partitions) || !has(oldSelf.template.partitions) || "
                "self.template.partitions >= oldSelf.template.partitions",
                "spec.template.partitions cannot be reduced, because Pulsar cannot remove partitions",
            ),
        )
    )

    namespace_ref: ObjectReference
    """PulsarNamespace that the topics belong to."""
    names: (
        Annotated[
            list[
                Annotated[
                    str,
                    Field(
                        min_length=1,
                        max_length=255,
                        pattern=TOPIC_NAME,
                        json_schema_extra=validations(_NOT_A_PARTITION, _NOT_A_SYSTEM_TOPIC),
                    ),
                ]
            ],
            Field(max_length=MAX_NAMES, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Local names of topics in the namespace. Missing topics are created."""
    count: TopicCount | None = None
    """Numbered topics. Missing ones are created."""
    patterns: (
        Annotated[
            list[
                Annotated[str, Field(min_length=1, max_length=255, json_schema_extra=validations(_NOT_A_SYSTEM_TOPIC))]
            ],
            Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Patterns of local names of existing topics: * matches any characters, ? matches one, and [abc] matches one of
    these. The operator manages their policies, properties and schema, and creates and deletes none. Pulsar's system
    topics are excluded."""
    template: TopicTemplate
    """Settings that are applied to every topic of the set."""
    deletion_policy: SetDeletionPolicy = SetDeletionPolicy.RETAIN
    """What happens in Pulsar to topics that are removed from the set, and to all topics when this object is deleted.
    Retain keeps the topics. Delete deletes the topics that have no connected clients and no unread messages, and a
    condition shows what blocks the deletion of the other topics."""
    drift_policy: DriftPolicy = DriftPolicy.REPAIR
    """What happens when another writer changes a declared value in Pulsar. Repair restores the value. Report keeps the
    change and reports it in condition Drifted."""


class SetClusterStatus(ApiModel):
    """The topics in one cluster."""

    name: str
    """Name of the cluster in Pulsar."""
    topics: int
    """Number of topics of the set that exist in the cluster."""
    applied_template: str | None = None
    """Hash of the template that was last applied to all topics of the cluster."""
    unreachable_since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which the cluster stopped answering. Unset while the cluster answers."""


class TopicExample(ApiModel):
    """A topic that differs from its declaration."""

    name: str
    """Local name of the topic."""
    reason: str
    """CamelCase reason, as in conditions."""
    field: str | None = None
    """Path of the field in spec."""
    desired: str | None = None
    """Declared value."""
    actual: str | None = None
    """Value read from Pulsar."""
    message: str | None = None
    """Explanation of the reason, with Pulsar's own message."""


class OwnedTopics(ApiModel):
    """Topics that this object may have created, so that topics that are removed from the set can be deleted. Only
    deletionPolicy Delete uses it."""

    number: int | None = None
    """With spec.count: number of topics, counted from the first one."""
    digests: Annotated[str, Field(max_length=MAX_DIGESTS)] | None = None
    """With spec.names: digests of 8 bytes for each name, in base64."""


class PulsarTopicSetStatus(ManagedStatus):
    """Observed state of a PulsarTopicSet. Its size does not grow with the number of topics."""

    desired: int | None = None
    """Number of topics in the set."""
    ready: int | None = None
    """Number of topics that match their declaration."""
    summary: str | None = None
    """Topics that match their declaration, of all topics, such as 28/30."""
    pending: int | None = None
    """Number of topics that are not created yet, or that the template is not applied to yet."""
    refused: int | None = None
    """Number of topics for which Pulsar refuses a declared value."""
    drifted: int | None = None
    """Number of topics with a declared value that another writer changed."""
    conflicting: int | None = None
    """Number of topics that are not managed because a PulsarTopic or an older set declares them."""
    pending_deletion: int | None = None
    """Number of topics that were removed from the set and are not deleted yet."""
    template_hash: str | None = None
    """Hash of the template that this status describes."""
    owned: OwnedTopics | None = None
    """Topics that this object may have created, recorded before the first topic is created."""
    clusters: Annotated[
        list[SetClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """State of the topics in each cluster of the namespace."""
    examples: Annotated[
        list[TopicExample],
        Field(
            max_length=10,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Some of the topics that differ from their declaration."""
