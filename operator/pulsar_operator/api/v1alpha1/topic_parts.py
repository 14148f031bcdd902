"""Parts of a PulsarTopic that each cluster keeps for itself: subscriptions and the schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.entries import SubscriptionName
from pulsar_operator.api.v1alpha1.policies import DispatchRate

MAX_KEY = 1024
_Few = Annotated[dict[str, Annotated[str, Field(max_length=MAX_KEY)]], Field(max_length=16)]
_SHORT_KEYS = (
    f"!has(self.properties) || self.properties.all(k, size(k) <= {MAX_KEY})",
    f"keys of properties must have at most {MAX_KEY} characters",
)
"""Pulsar answers 500 to a body with a name of more than 50000 (its JSON parser's limit, seen on 4.0.8)."""


class InitialPosition(StrEnum):
    """Where a subscription begins."""

    EARLIEST = "Earliest"
    LATEST = "Latest"


class Subscription(ApiModel):
    """A durable subscription. It is made when it is missing and never moved."""

    model_config = ConfigDict(json_schema_extra=validations(_SHORT_KEYS))

    name: SubscriptionName
    """Name of the subscription."""
    initial_position: InitialPosition = InitialPosition.LATEST
    """Where it begins when it is made: Earliest = at the oldest message there is, Latest = at the next one. It
    does not count for a subscription that exists."""
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
    KEY_VALUE = "KeyValue"
    PROTOBUF_NATIVE = "ProtobufNative"


class KeyValueEncoding(StrEnum):
    """Where the key of a message of type KeyValue is."""

    INLINE = "Inline"
    SEPARATED = "Separated"


class SchemaPart(ApiModel):
    """The schema of a key, or of a value."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "!(self.type in ['KeyValue', 'ProtobufNative'])",
                "schema.key and schema.value must be of a type other than KeyValue and ProtobufNative",
            ),
            (
                "has(self.definition) == (self.type in ['Avro', 'Json', 'Protobuf'])",
                "definition of schema.key and schema.value is required with types Avro, Json and Protobuf, and not "
                "allowed with others",
            ),
        )
    )

    type: SchemaType
    """Form of it: a type but KeyValue and ProtobufNative."""
    definition: Annotated[str, Field(min_length=1, max_length=32768)] | None = None
    """Definition of a structured type in the notation of Avro, which is JSON."""


class TopicSchema(ApiModel):
    """The schema of a topic. A change is uploaded as a new version when Pulsar finds it compatible; no version is ever
    deleted, and a schema that is removed from the spec stays."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "has(self.definition) == (self.type in ['Avro', 'Json', 'Protobuf', 'ProtobufNative'])",
                "schema.definition is required with types Avro, Json, Protobuf and ProtobufNative, and not allowed "
                "with others",
            ),
            (
                "has(self.key) == (self.type == 'KeyValue') && has(self.value) == (self.type == 'KeyValue') && "
                "(!has(self.encoding) || self.type == 'KeyValue')",
                "schema.key and schema.value are required with type KeyValue, and not allowed with others, like "
                "schema.encoding",
            ),
            _SHORT_KEYS,
        )
    )

    type: SchemaType
    """Form of the messages."""
    definition: Annotated[str, Field(min_length=1, max_length=65536)] | None = None
    """Definition of a structured type in the notation of Avro, which is JSON; two that are equal as JSON are one. Of
    type ProtobufNative the JSON object of fileDescriptorSet (base64), rootMessageTypeName, rootFileDescriptorName."""
    key: SchemaPart | None = None
    """With type KeyValue: the schema of the key."""
    value: SchemaPart | None = None
    """With type KeyValue: the schema of the value."""
    encoding: KeyValueEncoding | None = None
    """With type KeyValue: Inline = key and value are both in the payload (default), Separated = the key is the key of
    the message. Pulsar cannot change it for a version it has."""
    properties: _Few | None = None
    """Properties that are uploaded with a new version; Pulsar cannot change those of a version it has."""
