"""Cases for the admission rules of lists: permissions, properties, subscriptions, and of schemas; see rules.py."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.constants import Kind
from tests.support.admission.rules import Create, Json, Update

PTN, PNS, PT = Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC
PATTERN = "should match"
KEY = "a key of properties must have"
DEFINITION = "schema.definition is required"
SHORT_KEYS = "keys of properties must have at most 1024 characters"
KEY_AND_VALUE = "schema.key and schema.value are required with type KeyValue"
PARTS: Json = {"key": {"type": "String"}, "value": {"type": "Avro", "definition": "{}"}}
PERSISTENT = "need a persistent topic"
HOSTILE = ("a/b", "a%2Fb", "..a", "q?x=1&y", "\u00fc-\u03bb", "a]b[c", "sp ace")


def _permission(role: str, *actions: str) -> Json:
    return {"role": role, "actions": list(actions or ("Produce",))}


def _grant(*roles: str) -> Json:
    return {"permissions": [_permission(role) for role in roles]}


def _subscriptions(*names: str, **more: Any) -> Json:
    return {"subscriptions": [{"name": name, **more} for name in names]}


def _schema(**schema: Any) -> Json:
    return {"schema": schema}


_BOTH = [
    Create(kind, f"lists-{name}", patch, refused)
    for kind in (PNS, PT)
    for name, patch, refused in (
        ("hostile-roles", _grant(*HOSTILE), None),
        ("role-dots", _grant(".."), PATTERN),
        ("role-dot", _grant("."), PATTERN),
        ("role-newline", _grant("a\nb"), PATTERN),
        ("role-empty", _grant(""), "should be at least 1 chars long"),
        ("role-of-64-kilobytes", _grant("r" * 65536), "may not be more than 512"),
        ("role-twice", _grant("a", "a"), "Duplicate value"),
        ("roles-129", _grant(*(f"r{n}" for n in range(129))), "must have at most 128 items"),
        ("no-action", {"permissions": [{"role": "a", "actions": []}]}, "should have at least 1 items"),
        ("action-of-pulsar", {"permissions": [_permission("a", "produce")]}, "Unsupported value"),
        ("action-twice", {"permissions": [_permission("a", "Produce", "Produce")]}, "Duplicate value"),
        ("hostile-properties", {"properties": {key: f"<{key}>" for key in HOSTILE}}, None),
        *(
            (f"property-{name}", {"properties": {"ok": "", key: "x"}}, KEY)
            for name, key in (("newline", "nl\nx"), ("null", "a\0b"), ("delete", "\x7f"), ("trailing-newline", "a\n"))
        ),
        ("property-dots", {"properties": {"..": "x"}}, KEY),
        ("property-dot", {"properties": {".": "x"}}, KEY),
        ("property-empty", {"properties": {"": "x"}}, KEY),
        ("property-key-of-257", {"properties": {"k" * 257: "x"}}, KEY),
        ("property-key-of-256", {"properties": {"k" * 256: "v" * 4096}}, None),
        ("property-value-of-64-kilobytes", {"properties": {"k": "v" * 65536}}, "may not be more than 4096"),
        ("properties-65", {"properties": {f"k{n}": "" for n in range(65)}}, "must have at most 64 items"),
        ("prune", {"prune": {"permissions": True, "properties": False}}, None),
        ("prune-unknown", {"prune": {"policies": True}}, "unknown field"),
    )
]

LIST_CREATES: tuple[Create, ...] = (
    *_BOTH,
    Create(PTN, "prune-roles", {"adminRoles": ["a"], "prune": {"adminRoles": True}}),
    Create(PTN, "defaults", {"namespaceDefaults": {"messageTTLSeconds": 60, "maxTopics": 3}}),
    Create(PTN, "defaults-empty", {"namespaceDefaults": {}}),
    Create(PTN, "defaults-negative", {"namespaceDefaults": {"messageTTLSeconds": -1}}, "greater than or equal to 0"),
    Create(PTN, "defaults-unknown", {"namespaceDefaults": {"ttl": 1}}, "unknown field"),
    Create(
        PTN,
        "defaults-quorum",
        {"namespaceDefaults": {"persistence": {"ensembleSize": 2, "writeQuorum": 3, "ackQuorum": 2}}},
        "ensembleSize >= writeQuorum >= ackQuorum",
    ),
    Create(PNS, "reserved", {"subscriptionPermissions": [{"subscription": "s", "roles": [*HOSTILE]}]}),
    Create(
        PNS,
        "reserved-for-none",
        {"subscriptionPermissions": [{"subscription": "s", "roles": []}]},
        "should have at least 1 items",
    ),
    Create(PNS, "reserved-dots", {"subscriptionPermissions": [{"subscription": "..", "roles": ["r"]}]}, PATTERN),
    Create(PT, "subscriptions", _subscriptions(*HOSTILE, replicated=True, initialPosition="Earliest")),
    Create(PT, "subscription-dots", _subscriptions(".."), PATTERN),
    Create(PT, "subscription-newline", _subscriptions("a\nb"), PATTERN),
    Create(PT, "subscription-twice", _subscriptions("a", "a"), "Duplicate value"),
    Create(PT, "subscription-of-64-kilobytes", _subscriptions("s" * 65536), "may not be more than 255"),
    Create(PT, "subscription-position", _subscriptions("a", initialPosition="earliest"), "Unsupported value"),
    Create(PT, "subscription-key-of-1024", _subscriptions("a", properties={"k" * 1024: "v"})),
    Create(PT, "subscription-key-of-1025", _subscriptions("a", properties={"k" * 1025: "v"}), SHORT_KEYS),
    Create(PT, "subscription-rate", _subscriptions("a", dispatchRate={"messagesPerPeriod": 5})),
    Create(PT, "non-persistent-subscription", {"persistent": False, **_subscriptions("a")}, PERSISTENT),
    Create(PT, "non-persistent-properties", {"persistent": False, "properties": {"a": "b"}}, PERSISTENT),
    Create(PT, "non-persistent-permissions", {"persistent": False, **_grant("a")}),
    Create(PT, "non-persistent-empty-lists", {"persistent": False, "subscriptions": []}),
    Create(PT, "compaction", {"compaction": {"schedule": "*/15 0-5,22 1 * 1-7/2"}}),
    Create(PT, "compaction-of-four", {"compaction": {"schedule": "0 3 * *"}}, PATTERN),
    Create(PT, "compaction-of-words", {"compaction": {"schedule": "0 3 * * MON"}}, PATTERN),
    Create(PT, "compaction-at", {"compaction": {"schedule": "@daily"}}, PATTERN),
    Create(PT, "compaction-never", {"compaction": {}}, "Required value"),
    Create(
        PT,
        "non-persistent-compaction",
        {"persistent": False, "compaction": {"schedule": "0 3 * * *"}},
        PERSISTENT.replace("need", "needs"),
    ),
    Create(PT, "schema-avro", _schema(type="Avro", definition="{}")),
    Create(PT, "schema-string", _schema(type="String", properties={"a": "b"})),
    Create(PT, "schema-key-of-1025", _schema(type="String", properties={"k" * 1025: "v"}), SHORT_KEYS),
    Create(PT, "schema-avro-without-definition", _schema(type="Avro"), DEFINITION),
    Create(PT, "schema-string-with-definition", _schema(type="String", definition="{}"), DEFINITION),
    Create(PT, "schema-native", _schema(type="ProtobufNative", definition="{}")),
    Create(PT, "schema-native-without-definition", _schema(type="ProtobufNative"), DEFINITION),
    Create(PT, "schema-key-value", _schema(type="KeyValue", encoding="Separated", **PARTS)),
    Create(PT, "schema-key-value-inline", _schema(type="KeyValue", **PARTS)),
    Create(PT, "schema-key-value-without-value", _schema(type="KeyValue", key=PARTS["key"]), KEY_AND_VALUE),
    Create(PT, "schema-key-value-with-definition", _schema(type="KeyValue", definition="{}", **PARTS), DEFINITION),
    Create(PT, "schema-parts-of-avro", _schema(type="Avro", definition="{}", **PARTS), KEY_AND_VALUE),
    Create(PT, "schema-encoding-of-string", _schema(type="String", encoding="Inline"), KEY_AND_VALUE),
    Create(PT, "schema-key-value-of-pulsar", _schema(type="KeyValue", encoding="INLINE", **PARTS), "Unsupported value"),
    Create(
        PT,
        "schema-key-without-definition",
        _schema(type="KeyValue", **{**PARTS, "key": {"type": "Avro"}}),
        "definition of schema.key and schema.value",
    ),
    Create(
        PT,
        "schema-key-of-key-value",
        _schema(type="KeyValue", **{**PARTS, "key": {"type": "KeyValue"}}),
        "must be of a type other than KeyValue",
    ),
    Create(PT, "schema-of-pulsar", _schema(type="AVRO", definition="{}"), "Unsupported value"),
    Create(PT, "schema-too-large", _schema(type="Avro", definition="x" * 65537), "may not be more than 65536"),
)

_OF_SETS = tuple(
    Create(Kind.TOPIC_SET, case.id, {"template": case.patch}, case.refused)
    for case in LIST_CREATES
    if case.kind is PT and set(case.patch) == {"schema"}
)
"""Schemas in the template of a set of topics."""
LIST_CREATES = (*LIST_CREATES, *_OF_SETS)

LIST_UPDATES: tuple[Update, ...] = (
    Update(PNS, "lists-appear", {}, {**_grant("a"), "properties": {"a": "b"}}),
    Update(PNS, "lists-vanish", {**_grant("a"), "properties": {"a": "b"}}, {"permissions": None, "properties": None}),
    Update(PT, "schema-changes", _schema(type="Avro", definition="{}"), _schema(type="Avro", definition="[]")),
    Update(PTN, "defaults-change", {"namespaceDefaults": {"maxTopics": 1}}, {"namespaceDefaults": {"maxTopics": 2}}),
)
