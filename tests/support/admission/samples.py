"""Sample objects of the custom resources: the smallest valid ones, and the largest, made by walking the models.

The walk reads the pydantic models themselves, not the generated schema, so that a field the generator loses is noticed.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pulsar_operator.api.constants import API_VERSION, PLURALS, Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.autoscaling import BookieTargets
from pulsar_operator.api.v1alpha1.base import FILE_PATH, Storage
from pulsar_operator.api.v1alpha1.cluster import (
    BookieVolumes,
    Broker,
    Ensemble,
    JournalVolumes,
    LedgerVolumes,
    MetadataStore,
    Proxy,
    PulsarClusterSpec,
    Standalone,
)
from pulsar_operator.api.v1alpha1.compaction import CRON
from pulsar_operator.api.v1alpha1.entries import Permission
from pulsar_operator.api.v1alpha1.instance import ConfigurationStore, ExternalZooKeeper, PulsarInstanceSpec
from pulsar_operator.api.v1alpha1.isolation_policy import FailureDomain, PulsarIsolationPolicySpec
from pulsar_operator.api.v1alpha1.namespace import Bundles, PulsarNamespaceSpec
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.api.v1alpha1.pods import MOUNT_PATH, EmptyDirVolume, EnvFrom, EnvVar, EnvVarSource, Volume
from pulsar_operator.api.v1alpha1.policies import (
    AutoTopicCreation,
    LedgerPersistence,
    NamespacePolicies,
    Offload,
    Retention,
    StorageBacklogQuota,
    TopicPolicies,
)
from pulsar_operator.api.v1alpha1.racks import LABEL_KEY, RACK_NAME, Racks
from pulsar_operator.api.v1alpha1.rolling import TIME_ZONE
from pulsar_operator.api.v1alpha1.services import CIDR
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.api.v1alpha1.topic_parts import SchemaPart, TopicSchema
from pulsar_operator.api.v1alpha1.topic_set import PulsarTopicSetSpec, TopicTemplate

Json = dict[str, Any]
FieldKey = tuple[type[BaseModel], str]

OPAQUE: Json = {"nested": {"list": [1, {"deep": True}], "text": "kept"}}
"""Content of a field the schema does not look into."""

LISTENERS: list[Json] = [
    {
        "name": "nodes",
        "type": "NodePort",
        "port": 6660,
        "host": "nodes.example.com",
        "annotations": {"a": "b"},
        "tls": True,
    },
    {
        "name": "balancers",
        "type": "LoadBalancer",
        "port": 6661,
        "loadBalancerClass": "example.com/one",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "externalTrafficPolicy": "Local",
        "tls": True,
    },
    {"name": "inside", "type": "ClusterIP", "port": 6662, "tls": True},
    {"name": "gateway", "type": "Given", "port": 6663, "addressTemplate": "b{ordinal}.example.com:6650", "tls": True},
    {
        "name": "listed",
        "type": "Given",
        "port": 6664,
        "addresses": [f"b.example.com:{n + 1}" for n in range(1024)],
        "tls": True,
    },
]
"""A listener of each type, with every field that it may have."""

VALUES: Mapping[FieldKey, Any] = {
    (PulsarClusterSpec, "listeners"): LISTENERS,
    (Storage, "size"): "7Gi",
    (JournalVolumes, "size"): "7Gi",
    (LedgerVolumes, "size"): "7Gi",
    (BookieVolumes, "size"): "7Gi",
    (Ensemble, "ensemble_size"): 5,
    (Ensemble, "write_quorum"): 4,
    (Ensemble, "ack_quorum"): 3,
    (Racks, "minimum"): 2,
    (BookieTargets, "low_disk_percent"): 61,
    (BookieTargets, "disk_percent"): 76,
    (BookieTargets, "full_disk_percent"): 91,
    (Platform, "ip_families"): ["IPv6", "IPv4"],
    (EmptyDirVolume, "medium"): "Memory",
    (ExternalZooKeeper, "servers"): "zk-0.zk:2181,10.0.0.1",
    (ExternalZooKeeper, "chroot"): "/pulsar/east",
    (PulsarClusterSpec, "version"): "4.0.6",
    (PulsarInstanceSpec, "version"): "4.0.6",
    (PulsarClusterSpec, "cluster_name"): "east",
    (PulsarNamespaceSpec, "replication_clusters"): ["east", "west"],
    (PulsarNamespaceSpec, "allowed_clusters"): ["east", "north", "west"],
    (Bundles, "boundaries"): ["0x00000000", "0x7fffffff", "0xffffffff"],
    (Retention, "size"): "2147483647Mi",
    (Retention, "time_minutes"): -1,
    (StorageBacklogQuota, "limit"): "1Pi",
    (NamespacePolicies, "compaction_threshold"): "100Mi",
    (TopicPolicies, "compaction_threshold"): 10**9 + 1,
    (TopicPolicies, "max_message_size"): "1Mi",
    (Offload, "threshold"): "10Gi",
    (Offload, "max_block_size"): "64Mi",
    (Offload, "read_buffer_size"): "1Mi",
    (Broker, "max_message_size"): "8Mi",
    (Broker, "resources"): {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"cpu": "2500m", "memory": "8Gi"}},
    (Proxy, "config"): {"proxyZeroCopyModeEnabled": "false", "httpNumThreads": "8"},
    (LedgerPersistence, "max_mark_deletes_per_second"): "0.25",
    (AutoTopicCreation, "topic_type"): "Partitioned",
    (NamespacePolicies, "subscription_types_enabled"): ["Exclusive", "KeyShared"],
    (TopicPolicies, "subscription_types_enabled"): ["Exclusive", "KeyShared"],
    (FailureDomain, "brokers"): ["east-broker-0.east-broker-headless.pulsar.svc.cluster.local:8080", "b:1"],
    (PulsarIsolationPolicySpec, "namespaces"): ["shop/.*", "[a-z]+/(x|y)"],
    (PulsarIsolationPolicySpec, "primary"): ["east-broker-[01]\\..*", ".*"],
    (PulsarIsolationPolicySpec, "secondary"): ["(?:a|b)\\.[[:alpha:]]+"],
    (Permission, "actions"): ["Produce", "Consume"],
    (PulsarTopicSpec, "persistent"): True,
    (PulsarTopicSetSpec, "deletion_policy"): "Retain",
    (TopicSchema, "type"): lambda omit: "KeyValue" if (TopicSchema, "definition") in omit else "Avro",
    (SchemaPart, "type"): "Avro",
    (TopicPolicies, "shadow_topics"): ["persistent://shop/orders/a", "persistent://shop/orders/b"],
}
"""Values that a rule over several fields, or a pattern, narrows down; a function gets the fields that are left out."""

CHOICES: tuple[tuple[FieldKey, ...], ...] = (
    (
        (ConfigurationStore, "managed"),
        (ConfigurationStore, "cluster"),
        (ConfigurationStore, "external"),
    ),
    ((MetadataStore, "managed"), (MetadataStore, "external")),
    ((Racks, "topology_key"), (Racks, "by_ordinal")),
    ((Bundles, "count"), (Bundles, "boundaries"), (Bundles, "sizing")),
    ((PulsarTopicSetSpec, "names"), (PulsarTopicSetSpec, "count"), (PulsarTopicSetSpec, "patterns")),
    ((TopicSchema, "definition"), (TopicSchema, "key")),
    tuple((Volume, name) for name in Volume.model_fields if name != "name"),
    ((EnvVar, "value"), (EnvVar, "value_from")),
    tuple((EnvVarSource, name) for name in EnvVarSource.model_fields),
    ((EnvFrom, "secret_ref"), (EnvFrom, "config_map_ref")),
)
"""Members of which exactly one is set."""

EXCLUDED: Mapping[FieldKey, frozenset[FieldKey]] = {
    (TopicSchema, "definition"): frozenset({(TopicSchema, "value"), (TopicSchema, "encoding")}),
    (PulsarTopicSetSpec, "patterns"): frozenset({(TopicTemplate, "partitions")}),
}
"""Fields that go without a chosen member."""

STANDALONE_ONLY: tuple[FieldKey, ...] = ((PulsarClusterSpec, "standalone"),)
DISTRIBUTED_ONLY: tuple[FieldKey, ...] = tuple(
    (PulsarClusterSpec, name) for name in ("metadata_store", "bookkeeper", "broker", "proxy", "listeners", "tls")
)


@dataclass(frozen=True)
class Sample:
    """A specification with a name for test ids."""

    kind: Kind
    name: str
    spec: Json = field(hash=False)


def minimal(kind: Kind) -> Json:
    """The smallest valid specification of a kind."""
    specs: dict[Kind, Json] = {
        Kind.INSTANCE: {"configurationStore": {"cluster": {"name": "east"}}},
        Kind.CLUSTER: {
            "instanceRef": {"name": "demo"},
            "metadataStore": {"managed": {}},
            "bookkeeper": {},
            "broker": {},
        },
        Kind.TENANT: {"instanceRef": {"name": "demo"}},
        Kind.NAMESPACE: {"tenantRef": {"name": "shop"}},
        Kind.TOPIC: {"namespaceRef": {"name": "orders"}},
        Kind.RESOURCE_GROUP: {"instanceRef": {"name": "demo"}},
        Kind.ISOLATION_POLICY: {
            "instanceRef": {"name": "demo"},
            "namespaces": ["shop/.*"],
            "primary": ["east-broker-0\\..*"],
        },
        Kind.REBALANCE: {"clusterRef": {"name": "east"}},
        Kind.TOPIC_SET: {"namespaceRef": {"name": "orders"}, "names": ["a"], "template": {}},
    }
    return specs[kind]


def manifest(kind: Kind, name: str, spec: Json, *, namespace: str = "") -> Json:
    """A whole object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": str(kind), "metadata": metadata, "spec": spec}


def path(kind: Kind, namespace: str, name: str = "") -> str:
    """Path of an object, or of the collection, at the API server."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURALS[kind]}" + (f"/{name}" if name else "")


def largest(kind: Kind) -> list[Sample]:
    """Specifications of a kind with every field set; several where fields exclude each other."""
    model = MODELS[kind].spec
    if kind is not Kind.CLUSTER:
        choices = _choices_within(model)
        return [Sample(kind, label or "all", walk(model, omit=omit)) for label, omit in choices]
    out = [
        Sample(kind, f"Distributed-{label}", walk(model, omit=omit | set(STANDALONE_ONLY)) | {"mode": "Distributed"})
        for label, omit in _choices_within(model)
    ]
    out += [
        Sample(kind, f"Standalone-{label}", walk(model, omit=omit | set(DISTRIBUTED_ONLY)) | {"mode": "Standalone"})
        for label, omit in _choices_within(Standalone)
    ]
    return out


def largest_status(kind: Kind) -> Json:
    """A status of a kind with every field set."""
    return walk(MODELS[kind].status, omit=set())


def _choices_within(model: type[BaseModel]) -> list[tuple[str, set[FieldKey]]]:
    """One (label, fields left out) for each way to choose; of several choices the ways are paired, but those below the
    first are all met with each of its own."""
    used = [group for group in CHOICES if any(owner in _models_below(model) for owner, _ in group)]
    if not used:
        return [("", set())]
    out: list[tuple[str, set[FieldKey]]] = []
    first, others = used[0], used[1:]
    inner = max((len(group) for group in others), default=1)
    for number in range(len(first) * inner):
        omit: set[FieldKey] = set()
        chosen = [first[number // inner], *(group[number % len(group)] for group in others)]
        for each, group in zip(chosen, used, strict=True):
            omit |= set(group) - {each} | EXCLUDED.get(each, frozenset())
        out.append(("-".join(name for _, name in chosen), omit))
    return out


def _models_below(model: type[BaseModel]) -> set[type[BaseModel]]:
    found: set[type[BaseModel]] = set()
    pending: list[Any] = [model]
    while pending:
        annotation = pending.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if annotation not in found:
                found.add(annotation)
                pending += [info.annotation for info in annotation.model_fields.values()]
        else:
            pending += [argument for argument in get_args(annotation) if not isinstance(argument, FieldInfo)]
    return found


def walk(model: type[BaseModel], *, omit: set[FieldKey]) -> Json:
    """An object of the model as on the wire, with every field set except those in ``omit``."""
    out: Json = {}
    for name, info in model.model_fields.items():
        if (model, name) in omit:
            continue
        value = VALUES[model, name] if (model, name) in VALUES else _field(info, omit, name)
        out[info.alias or name] = value(omit) if callable(value) else value
    return out


def _field(info: FieldInfo, omit: set[FieldKey], where: str) -> Any:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return _value(info.annotation, list(info.metadata), extra, omit, where)


def _value(annotation: Any, metadata: list[Any], extra: Mapping[str, Any], omit: set[FieldKey], where: str) -> Any:
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        for item in more:
            metadata = metadata + (list(item.metadata) if isinstance(item, FieldInfo) else [item])
            if isinstance(item, FieldInfo) and isinstance(item.json_schema_extra, dict):
                extra = {**extra, **item.json_schema_extra}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        branches = [each for each in arguments if each is not types.NoneType]
        if set(branches) == {str, int}:
            return "250m"
        (annotation,) = branches
        return _value(annotation, metadata, extra, omit, where)
    if annotation is Any:
        return OPAQUE
    if origin is dict:
        return {f"{where}-{n}".replace("_", "-"): _value(arguments[1], [], {}, omit, where) for n in (1, 2)}
    if origin is list:
        return _list(arguments[0], extra, omit, where)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return walk(annotation, omit=omit)
    if _is_enum(annotation):
        return list(annotation)[-1].value
    return _scalar(annotation, metadata, extra, where)


def _is_enum(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Enum)


def _list(item: Any, extra: Mapping[str, Any], omit: set[FieldKey], where: str) -> list[Any]:
    first, second = (_value(item, [], {}, omit, where) for _ in range(2))
    keys = extra.get("x-kubernetes-list-map-keys", [])
    words = {info.alias for info in getattr(item, "model_fields", {}).values() if _is_enum(info.annotation)}
    if keys and not set(keys) - words:
        return [first]  # one entry a word
    for key in set(keys) - words:
        second[key] = second[key].replace(":05Z", ":06Z") if second[key].endswith("Z") else f"{second[key]}2"
    if extra.get("x-kubernetes-list-type") == "set":
        second = f"{second}2"
    return [first, second]


def _scalar(annotation: Any, metadata: list[Any], extra: Mapping[str, Any], where: str) -> Any:
    if annotation is bool:
        return True
    if annotation is int:
        if "enum" in extra:
            return extra["enum"][-1]
        bounds = {type(item): item for item in metadata}
        if Le in bounds:
            return bounds[Le].le
        return max(bounds[Ge].ge, 1) if Ge in bounds else 7
    if annotation is str:
        if extra.get("format") == "date-time":
            return "2026-01-02T03:04:05Z"
        pattern = next((item.pattern for item in metadata if getattr(item, "pattern", None)), None)
        shortest = max((item.min_length for item in metadata if isinstance(item, MinLen)), default=0)
        longest = min((item.max_length for item in metadata if isinstance(item, MaxLen)), default=63)
        text = SAMPLES_BY_PATTERN.get(pattern or "", where.replace("_", "-"))
        return text.ljust(shortest, "x")[:longest]
    raise AssertionError(f"no sample for {where}: {annotation}; add it to tests/support/admission/samples.py")


SAMPLES_BY_PATTERN: Mapping[str, str] = {
    CRON: "*/15 3 * * 1-5",
    TIME_ZONE: "America/Argentina/Buenos_Aires",
    r"^[0-9]+[kKmMgG]$": "512m",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "SOME_NAME",
    r"^([A-Za-z_][A-Za-z0-9_]*)?$": "SOME_",
    MOUNT_PATH: "/mnt/some",
    LABEL_KEY: "topology.kubernetes.io/zone",
    RACK_NAME: "rack-a",
    FILE_PATH: "/pulsar/logs/some",
    CIDR: "10.0.0.0/8",
    r"^https?://[^\s?#]+$": "http://demo-sizing.pulsar:8080",
    r"^[-=:.A-Za-z0-9_]+/([-=:.A-Za-z0-9_]+|\*)$": "shop/orders",
    r"^[-.A-Za-z0-9_]+:[0-9]+$": "east-broker-0.east-broker-headless.pulsar.svc.cluster.local:8080",
}
"""Samples for patterns that a plain word does not match."""
