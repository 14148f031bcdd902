"""Parts of a PulsarTopic that each cluster keeps for itself: subscriptions and the schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.entries import SubscriptionName
from pulsar_operator.api.v1alpha1.policies import DispatchRate

_Few = Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=16)]


class InitialPosition(StrEnum):
    """Where a subscription begins."""

    EARLIEST = "Earliest"
    LATEST = "Latest"


class Subscription(ApiModel):
    """A durable subscription. It is made when it is missing and never moved."""

    name: SubscriptionName
    """Name of the subscription."""
    initial_position: InitialPosition = InitialPosition.LATEST
    """Where it begins when it is made: Earliest = at the oldest message there is, Latest = at the next one. It does not
    count for a subscription that exists."""
    replicated: bool | None = None
    """Whether its position is replicated to the other clusters of the namespace; absent = not managed."""
    properties: _Few | None = None
    """All its properties; absent = not managed. Removed from the spec, they stay as they are."""
    dispatch_rate: DispatchRate | None = None
    """How fast it may be delivered to; wins over policies.subscriptionDispatchRate. Removed, it is reset."""


Subscriptions = Annotated[
    list[Subscription],
    Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
]


class SchemaType(StrEnum):
    """Form of the messages (Pulsar docs, "Schema type")."""

    AVRO = "Avro"
    JSON = "Json"
    PROTOBUF = "Protobuf"
    STRING = "String"
    BOOLEAN = "Boolean"
    INT8 = "Int8"
    INT16 = "Int16"
    INT32 = "Int32"
    INT64 = "Int64"
    FLOAT = "Float"
    DOUBLE = "Double"
    DATE = "Date"
    TIME = "Time"
    TIMESTAMP = "Timestamp"
    INSTANT = "Instant"
    LOCAL_DATE = "LocalDate"
    LOCAL_TIME = "LocalTime"
    LOCAL_DATE_TIME = "LocalDateTime"


class TopicSchema(ApiModel):
    """The schema of a topic. A change is uploaded as a new version when Pulsar finds it compatible; no version is ever
    deleted, and a schema that is removed from the spec stays."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "has(self.definition) == (self.type in ['Avro', 'Json', 'Protobuf'])",
                "schema.definition is required with types Avro, Json and Protobuf, and not allowed with others",
            ),
        )
    )

    type: SchemaType
    """Form of the messages."""
    definition: Annotated[str, Field(min_length=1, max_length=65536)] | None = None
    """Definition of a structured type in the notation of Avro, which is JSON; two that are equal as JSON are one."""
    properties: _Few | None = None
    """Properties that are uploaded with a new version; Pulsar cannot change those of a version it has."""
