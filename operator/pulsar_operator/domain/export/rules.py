"""The validation rules of the CRDs, checked before a manifest is written.

The models check ranges and patterns. CEL rules, list sets and patterns of int-or-string fields are only in the CRDs and
are checked here. Every CEL rule of the three logical kinds has its counterpart in CHECKS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.entries import is_property_key
from pulsar_operator.api.v1alpha1.quantities import byte_size
from pulsar_operator.api.v1alpha1.topic import NOT_A_SYSTEM_TOPIC, PARTITION_SUFFIX
from pulsar_operator.api.v1alpha1.topic_parts import MAX_KEY
from pulsar_operator.domain.logical.pulsar_names import is_system_topic

Struct = Mapping[str, Any]


def _at(struct: Struct, path: str) -> Any:
    """Returns the value at a path; None where it is absent."""
    value: Any = struct
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _quota_fits(struct: Struct) -> bool:
    size, quota = _at(struct, "retention.size"), _at(struct, "backlogQuotas.destinationStorage.limit")
    return size is None or byte_size(size) <= 0 or quota is None or byte_size(quota) < byte_size(size)


def _age_fits(struct: Struct) -> bool:
    minutes, age = _at(struct, "retention.timeMinutes"), _at(struct, "backlogQuotas.messageAge.limitSeconds")
    return minutes is None or minutes <= 0 or age is None or age < minutes * 60


def _typed_when_enabled(struct: Struct) -> bool:
    return bool(struct["enabled"]) == ("topicType" in struct)


def _counted_when_partitioned(struct: Struct) -> bool:
    return (struct.get("topicType") == "Partitioned") == ("defaultPartitions" in struct)


def _boundaries_cover(struct: Struct) -> bool:
    found = struct.get("boundaries")
    return found is None or (found[0], found[-1]) == ("0x00000000", "0xffffffff")


def _kept(name: str) -> Callable[[Struct], bool]:
    return lambda struct: struct.get("persistent") is not False or "partitions" in struct or name not in struct


def _keys_fit(struct: Struct) -> bool:
    return all(is_property_key(key) for key in struct.get("properties") or ())


def _durable(name: str) -> Callable[[Struct], bool]:
    return lambda struct: struct.get("persistent") is not False or not struct.get(name)


CHECKS: Mapping[str, Callable[[Struct], bool]] = {
    "retention.timeMinutes and retention.size must both be 0 or both be non-zero": (
        lambda s: (s["timeMinutes"] == 0) == (byte_size(s["size"]) == 0)
    ),
    "retention.size must be larger than": _quota_fits,
    "retention.timeMinutes must be longer than": _age_fits,
    "persistence must have ensembleSize >= writeQuorum >= ackQuorum": (
        lambda s: s["ensembleSize"] >= s["writeQuorum"] >= s["ackQuorum"]
    ),
    "autoTopicCreation.topicType is required": _typed_when_enabled,
    "autoTopicCreation.defaultPartitions is required": _counted_when_partitioned,
    "offload.bucket is required": lambda s: s["driver"] == "FileSystem" or "bucket" in s,
    "exactly one of bundles.count, bundles.boundaries": (
        lambda s: sum(each in s for each in ("count", "boundaries", "sizing")) == 1
    ),
    "bundles.boundaries must start with": _boundaries_cover,
    "bundles.boundaries must be in ascending order": (
        lambda s: s.get("boundaries") is None or s["boundaries"] == sorted(s["boundaries"])
    ),
    "spec.name must not end with -partition-N": lambda s: re.search(PARTITION_SUFFIX, s.get("name") or "") is None,
    f"spec.name {NOT_A_SYSTEM_TOPIC}": lambda s: not is_system_topic(s.get("name") or ""),
    "spec.policies of a non-persistent topic need spec.partitions": _kept("policies"),
    "spec.replicationClusters of a non-persistent topic need spec.partitions": _kept("replicationClusters"),
    "spec.properties need a persistent topic": _durable("properties"),
    "spec.subscriptions need a persistent topic": _durable("subscriptions"),
    "a key of properties must have": _keys_fit,
    "keys of properties must have at most": lambda s: all(len(key) <= MAX_KEY for key in s.get("properties") or ()),
    "spec.allowedClusters must contain all of spec.replicationClusters": (
        lambda s: "allowedClusters" not in s or set(s.get("replicationClusters") or ()) <= set(s["allowedClusters"])
    ),
    "spec.compaction needs a persistent topic": (lambda s: s.get("persistent") is not False or "compaction" not in s),
    "schema.definition is required": (
        lambda s: ("definition" in s) == (s["type"] in {"Avro", "Json", "Protobuf", "ProtobufNative"})
    ),
    "definition of schema.key and schema.value is required": (
        lambda s: ("definition" in s) == (s["type"] in {"Avro", "Json", "Protobuf"})
    ),
    "schema.key and schema.value must be of": lambda s: s["type"] not in {"KeyValue", "ProtobufNative"},
    "schema.key and schema.value are required": (
        lambda s: (
            ("key" in s) == ("value" in s) == (s["type"] == "KeyValue")
            and ("encoding" not in s or s["type"] == "KeyValue")
        )
    ),
}
"""Functions that return whether a struct of the manifest passes, by the beginning of the message of the rule."""


def check_of(message: str) -> Callable[[Struct], bool] | None:
    """Returns the counterpart of the CEL rule with that message; None if there is none."""
    return next((check for start, check in CHECKS.items() if message.startswith(start)), None)


def rules_of(model: type[BaseModel]) -> Iterator[str]:
    """Yields the messages of a struct's CEL rules that apply when an object is created."""
    extra = model.model_config.get("json_schema_extra")
    rules = extra.get("x-kubernetes-validations") if isinstance(extra, dict) else None
    for rule in rules if isinstance(rules, list) else ():
        if isinstance(rule, dict) and "oldSelf" not in str(rule["rule"]):
            yield str(rule["message"])


def _broken(model: BaseModel) -> Iterator[str]:
    struct = wire(model)
    for message in rules_of(type(model)):
        check = check_of(message)
        if check is not None and not check(struct):
            yield message
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        for extra in _extras(info) if value is not None else ():
            yield from _broken_field(info.alias or name, value, extra)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                yield from _broken(item)


def _extras(info: FieldInfo) -> Iterator[Mapping[str, Any]]:
    """Yields the schema attributes of a field that pydantic does not check. For an optional field they are inside the
    union."""
    branches = get_args(info.annotation) if get_origin(info.annotation) in (Union, UnionType) else ()
    inner = (item for branch in branches for item in get_args(branch)[1:] if isinstance(item, FieldInfo))
    for each in (info, *inner):
        if isinstance(each.json_schema_extra, dict):
            yield each.json_schema_extra


def _broken_field(name: str, value: Any, extra: Mapping[str, Any]) -> Iterator[str]:
    pattern, longest = extra.get("pattern"), extra.get("maxLength")
    if pattern is not None and re.search(str(pattern), str(value)) is None:
        yield f"{name} {str(value)[:40]!r} does not match {pattern}"
    elif isinstance(longest, int) and len(str(value)) > longest:
        yield f"{name} is longer than {longest} characters"
    if extra.get("x-kubernetes-list-type") == "set" and len(set(map(str, value))) != len(value):
        yield f"{name} has the same entry more than once"
    if extra.get("x-kubernetes-list-type") == "map":
        keys = [tuple(wire(item).get(key) for key in extra["x-kubernetes-list-map-keys"]) for item in value]
        if len(set(keys)) != len(keys):
            yield f"{name} has the same entry more than once"


def problem_of(model: type[BaseModel], spec: Struct) -> str | None:
    """Returns why a specification would be refused, as a message; None if it would be admitted."""
    try:
        read = model.model_validate(spec)
    except ValidationError as error:
        items = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg'][:160]}" for item in items[:3])
    return next(_broken(read), None)
