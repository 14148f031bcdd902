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
    "must not end with -partition-N: Pulsar uses that suffix for partitions of a topic",
)
_NOT_A_SYSTEM_TOPIC = (no_system_topic("self"), NOT_A_SYSTEM_TOPIC)


class TopicCount(ApiModel):
    """Topics with numbers, such as orders-0 to orders-999 for prefix orders- and number 1000."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("prefix", at="spec.count.", why="the topics are found by it"),
            immutable("first", at="spec.count.", why="the topics are found by it"),
            (
                "!self.prefix.matches('-partition-[0-9]*$')",
                "spec.count.prefix must not end like a partition (-partition-): Pulsar uses that suffix for partitions "
                "of a topic",
            ),
        )
    )

    prefix: Annotated[str, Field(min_length=1, max_length=240, pattern=PREFIX)]
    """What the local names begin with; a number follows it."""
    first: Annotated[int, Field(ge=0, le=MAX_NUMBER)] = 0
    """The first number."""
    number: Annotated[int, Field(ge=0, le=MAX_NUMBER)]
    """How many topics there are. What happens to those beyond a smaller number: see spec.deletionPolicy."""


class TopicTemplate(ApiModel):
    """What each topic is like: fields of a PulsarTopic. Subscriptions and permissions are left to the namespace, to
    clients and to objects of their own, and so is replicationClusters: a cluster that is left out may lose its data."""

    model_config = ConfigDict(json_schema_extra=validations(PROPERTY_KEY))

    partitions: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Number of partitions of each topic, may grow; absent = non-partitioned topics."""
    policies: TopicPolicies | None = None
    """Policies; only fields that are set are managed. They win over those of the namespace."""
    policy_scope: PolicyScope = PolicyScope.LOCAL
    """Local = each cluster of the namespace keeps the policies for itself, they are set in each; Global = one set that
    Pulsar replicates to all clusters of the namespace."""
    properties: Properties | None = None
    """Properties of each topic, key to value. A key that leaves the map is removed; keys others added stay."""
    # "schema" itself would hide a method of the model base.
    topic_schema: TopicSchema | None = Field(default=None, alias="schema")
    """Schema; absent = not managed. Pulsar's compatibility check comes before an upload."""


class SetDeletionPolicy(StrEnum):
    """What happens in Pulsar to topics that leave the set, or when the object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class PulsarTopicSetSpec(ApiModel):
    """Persistent topics of one namespace that are all alike."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("namespaceRef"),
            (
                " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in _SELECTIONS) + " == 1",
                "exactly one of spec.names, spec.count and spec.patterns must be set: they say which topics these are",
            ),
            (
                " && ".join(f"has(self.{name}) == has(oldSelf.{name})" for name in _SELECTIONS),
                "the way topics are selected (spec.names, spec.count, spec.patterns) cannot change: create another set",
            ),
            (
                "!has(self.patterns) || (!has(self.template.partitions) && self.deletionPolicy == 'Retain')",
                "spec.patterns selects topics that exist: it goes without spec.template.partitions, and with "
                "deletionPolicy Retain",
            ),
            (
                "has(self.template.partitions) == has(oldSelf.template.partitions)",
                "partitioned topics cannot become non-partitioned, nor the other way round: create another set",
            ),
            (
                "!has(self.template.partitions) || !has(oldSelf.template.partitions) || "
                "self.template.partitions >= oldSelf.template.partitions",
                "spec.template.partitions cannot shrink: Pulsar has no way to remove a partition",
            ),
        )
    )

    namespace_ref: ObjectReference
    """The PulsarNamespace the topics belong to."""
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
    """Local names inside the namespace. Each topic that is missing is made."""
    count: TopicCount | None = None
    """Topics by number. Each that is missing is made."""
    patterns: (
        Annotated[
            list[
                Annotated[str, Field(min_length=1, max_length=255, json_schema_extra=validations(_NOT_A_SYSTEM_TOPIC))]
            ],
            Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Local names of topics that exist already, with * for any characters, ? for one, [abc] for one of these. Their
    policies, properties and schema are managed; none is made or deleted. System topics of Pulsar are left out."""
    template: TopicTemplate
    """What each of the topics is like."""
    deletion_policy: SetDeletionPolicy = SetDeletionPolicy.RETAIN
    """What happens in Pulsar to topics that leave the set, and to all when this object is deleted: Retain leaves them,
    Delete removes those that nobody uses and that have no unread messages, and names what blocks the others."""
    drift_policy: DriftPolicy = DriftPolicy.REPAIR
    """What happens when a declared value was changed in Pulsar by another writer: Repair sets it back, Report leaves it
    and says so in condition Drifted."""


class SetClusterStatus(ApiModel):
    """The topics in one cluster."""

    name: str
    """Name of the cluster inside Pulsar."""
    topics: int
    """Topics of the set that the cluster has."""
    applied_template: str | None = None
    """Hash of the template that all topics were last given there."""
    unreachable_since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when the cluster does not answer; absent = it does."""


class TopicExample(ApiModel):
    """One topic that is not as declared."""

    name: str
    """Local name."""
    reason: str
    """CamelCase word, as in conditions."""
    field: str | None = None
    """Path in spec."""
    desired: str | None = None
    """Declared value."""
    actual: str | None = None
    """Value read from Pulsar."""
    message: str | None = None
    """What is the matter, with Pulsar's own words."""


class OwnedTopics(ApiModel):
    """With deletionPolicy Delete: topics this object has, or may have, made, so that those that leave are known."""

    number: int | None = None
    """With spec.count: how many topics from the first one on."""
    digests: Annotated[str, Field(max_length=MAX_DIGESTS)] | None = None
    """With spec.names: a digest of 8 bytes for each name, in base64."""


class PulsarTopicSetStatus(ManagedStatus):
    """Observed state of a PulsarTopicSet. Its size does not grow with the number of topics."""

    desired: int | None = None
    """Topics the set has."""
    ready: int | None = None
    """Topics that are as declared."""
    summary: str | None = None
    """The same of all, for the eye: 28/30."""
    pending: int | None = None
    """Topics that are not made, or not given the template, yet."""
    refused: int | None = None
    """Topics of which Pulsar refuses something."""
    drifted: int | None = None
    """Topics with a declared value that another writer changed."""
    conflicting: int | None = None
    """Topics that are left alone, because a PulsarTopic or an older set declares them too."""
    leaving: int | None = None
    """Topics that left the set and are still to be deleted."""
    template_hash: str | None = None
    """Hash of the template this status is about."""
    owned: OwnedTopics | None = None
    """Written before the first topic is made."""
    clusters: Annotated[
        list[SetClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """The topics in each cluster of the namespace."""
    examples: Annotated[
        list[TopicExample],
        Field(
            max_length=10,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Some of the topics that are not as declared."""
