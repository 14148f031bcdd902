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
    """Position at which a new subscription starts."""

    EARLIEST = "Earliest"
    LATEST = "Latest"


class Subscription(ApiModel):
    """A durable subscription. A missing one is created, and its position is never changed."""

    model_config = ConfigDict(json_schema_extra=validations(_SHORT_KEYS))

    name: SubscriptionName
    """Name of the subscription, which is unique in the list."""
    initial_position: InitialPosition = InitialPosition.LATEST
    """Position at which a new subscription starts: Earliest is the oldest available message, and Latest is the next
    published message. The position does not apply to an existing subscription."""
    replicated: bool | None = None
    """Whether the position of the subscription is replicated to the other clusters of the namespace. If unset, this
    setting is not managed."""
    properties: _Few | None = None
    """All properties of the subscription. If the field is removed from the spec, the properties stay in Pulsar. If
    unset, the properties are not managed."""
    dispatch_rate: DispatchRate | None = None
    """Maximum rate at which the subscription is delivered to, which takes precedence over
    policies.subscriptionDispatchRate. If removed, the rate is reset. If unset, the rate is not managed."""


Subscriptions = Annotated[
    list[Subscription],
    Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
]


class SchemaType(StrEnum):
    """Type of a schema (Pulsar docs, "Schema type")."""

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
    """Location of the key of a message with schema type KeyValue."""

    INLINE = "Inline"
    SEPARATED = "Separated"


class SchemaPart(ApiModel):
    """The schema of a key or of a value."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "!(self.type in ['KeyValue', 'ProtobufNative'])",
                "schema.key and schema.value must be of a type other than KeyValue and ProtobufNative",
            ),
            (
                "has(self.definition) == (self.type in ['Avro', 'Json', 'Protobuf'])",
                "definition of schema.key and schema.value is required with types Avro, Json and Protobuf, and "
                "must not be set with other types",
            ),
        )
    )

    type: SchemaType
    """Type of the schema, which cannot be KeyValue or ProtobufNative."""
    definition: Annotated[str, Field(min_length=1, max_length=32768)] | None = None
    """Definition of a structured type as an Avro schema in JSON. Required with types Avro, Json and Protobuf, and must
    not be set otherwise."""


class TopicSchema(ApiModel):
    """The schema of a topic. A change is uploaded as a new version if Pulsar finds it compatible. No version is
    deleted, and a schema that is removed from the spec stays."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "has(self.definition) == (self.type in ['Avro', 'Json', 'Protobuf', 'ProtobufNative'])",
                "schema.definition is required with types Avro, Json, Protobuf and ProtobufNative, and must not "
                "be set with other types",
            ),
            (
                "has(self.key) == (self.type == 'KeyValue') && has(self.value) == (self.type == 'KeyValue') && "
                "(!has(self.encoding) || self.type == 'KeyValue')",
                "schema.key and schema.value are required with type KeyValue, and must not be set with other "
                "types, like schema.encoding",
            ),
            _SHORT_KEYS,
        )
    )

    type: SchemaType
    """Type of the schema that the messages have."""
    definition: Annotated[str, Field(min_length=1, max_length=65536)] | None = None
    """Definition of a structured type as an Avro schema in JSON. Definitions that are equal as JSON count as the same
    schema. With type ProtobufNative, it is a JSON object with fileDescriptorSet (base64), rootMessageTypeName and
    rootFileDescriptorName. Required with types Avro, Json, Protobuf and ProtobufNative, and must not be set
    otherwise."""
    key: SchemaPart | None = None
    """Schema of the key. Required with type KeyValue, and must not be set otherwise."""
    value: SchemaPart | None = None
    """Schema of the value. Required with type KeyValue, and must not be set otherwise."""
    encoding: KeyValueEncoding | None = None
    """Location of the key with type KeyValue: Inline puts key and value in the payload, and Separated uses the key of
    the message. Pulsar cannot change the encoding of an existing version. If unset, Inline is used."""
    properties: _Few | None = None
    """Properties that are uploaded with a new version. Pulsar cannot change the properties of an existing version. If
    unset, no properties are uploaded."""
