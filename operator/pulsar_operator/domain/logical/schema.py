"""The schema of a topic: uploaded as a new version if Pulsar finds it compatible, never deleted.

Each cluster has its own schema. Source: class SchemasResource of the broker's admin v2 (Pulsar 4.0), checked against a
running 4.0.8 by tests/standalone/test_topic_parts_real.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.api.v1alpha1.topic_parts import KeyValueEncoding, SchemaType, TopicSchema
from pulsar_operator.domain.logical.plan import Action, Draft, Memory, Problem, action_text, change_verb, joined
from pulsar_operator.domain.policies import Call, Unreadable, concealed, describe, encoded_again

SCHEMA = "schema"
_NAMES = {kind: kind.name for kind in SchemaType}
KEY_TYPE, VALUE_TYPE, ENCODING = "key.schema.type", "value.schema.type", "kv.encoding.type"
"""Properties in which Pulsar stores the parts of a schema of type KEY_VALUE (class KeyValueSchemaInfo). They create no
new version: a schema with the same definitions is unchanged."""
OWN_PROPERTIES = frozenset(
    {KEY_TYPE, VALUE_TYPE, ENCODING}
    | {f"{part}.schema.{what}" for part in ("key", "value") for what in ("name", "properties")}
)


@dataclass(frozen=True)
class LiveSchema:
    """The newest schema in one cluster, and the version of the declared one there."""

    version: int
    type: str
    """Pulsar's name of the type."""
    definition: str
    properties: Mapping[str, str]
    older: int | None = None
    """Version of the declared schema if it is not the newest; None if Pulsar does not have it."""

    @staticmethod
    def parse(answer: Mapping[str, Any]) -> LiveSchema:
        """Parses an answer of ``GET .../schema``, or one element of ``GET .../schemas``."""
        return LiveSchema(
            version=int(answer.get("version") or 0),
            type=str(answer.get("type")),
            definition=str(answer.get("data") or ""),
            properties=dict(answer.get("properties") or {}),
        )


@dataclass(frozen=True)
class SchemaFacts:
    """The schema state of one cluster."""

    live: LiveSchema | None
    """None if the topic has no schema."""
    refusal: str | None = None
    """Why Pulsar would refuse the declared schema; None if it would accept it, or has it."""


def schema_path(tenant: str, namespace: str, topic: str, *rest: str) -> tuple[str, ...]:
    """Returns the path of a topic's schemas, which persistent and non-persistent topics share. Calls below /schemas
    decode the name twice."""
    return ("schemas", tenant, namespace, encoded_again(topic), *rest)


def body_of(desired: TopicSchema) -> dict[str, Any]:
    """Returns the declared schema in the format of Pulsar's request (class PostSchemaPayload)."""
    return {
        "type": _NAMES[desired.type],
        "schema": _definition(desired),
        "properties": _all_properties(desired),
    }


def _definition(desired: TopicSchema) -> str:
    """Returns the definition in Pulsar's format. For KEY_VALUE this is a JSON object with both definitions, "" for a
    type without one."""
    if desired.key is None or desired.value is None:
        return desired.definition or ""
    parts = {"key": desired.key.definition or "", "value": desired.value.definition or ""}
    return json.dumps({name: _canonical(definition) for name, definition in parts.items()})


def _all_properties(desired: TopicSchema) -> dict[str, str]:
    """Returns the declared properties, with those that describe the parts of a schema of type KEY_VALUE."""
    out = dict(desired.properties or {})
    if desired.key is None or desired.value is None:
        return out
    encoding = (desired.encoding or KeyValueEncoding.INLINE).name
    return out | {KEY_TYPE: _NAMES[desired.key.type], VALUE_TYPE: _NAMES[desired.value.type], ENCODING: encoding}


def declaration_of(live: LiveSchema) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Returns a live schema as the members of spec.schema, and its further properties; None if spec.schema cannot
    express it."""
    kind = SchemaType.__members__.get(live.type)
    if kind is None:
        return None
    if kind is not SchemaType.KEY_VALUE:
        return {"type": kind.value, **({"definition": live.definition} if live.definition else {})}, dict(
            live.properties
        )
    both = _canonical(live.definition)
    encoding = KeyValueEncoding.__members__.get(live.properties.get(ENCODING, ""))
    value: dict[str, Any] = {"type": kind.value}
    for name, type_property in (("key", KEY_TYPE), ("value", VALUE_TYPE)):
        part = SchemaType.__members__.get(live.properties.get(type_property, ""))
        if part is None or encoding is None or not isinstance(both, Mapping) or name not in both:
            return None
        value[name] = {"type": part.value, **({"definition": json.dumps(both[name])} if both[name] != "" else {})}
    value["encoding"] = encoding.value if encoding is not None else None
    return value, {key: text for key, text in live.properties.items() if key not in OWN_PROPERTIES}


def is_same(desired: TopicSchema, live: LiveSchema) -> bool:
    """Whether Pulsar has the declared type and definition. Properties do not create a new version."""
    return live.type == _NAMES[desired.type] and _canonical(live.definition) == _canonical(_definition(desired))


def _canonical(definition: str) -> Any:
    try:
        return json.loads(definition)
    except (ValueError, RecursionError):
        return definition


def version_among(desired: TopicSchema, versions: Any) -> int | None:
    """Returns the last version that equals the declared schema, in an answer of ``GET .../schemas``; None if there is
    none."""
    listed = versions.get("getSchemaResponses") if isinstance(versions, Mapping) else None
    same = [each for each in map(LiveSchema.parse, listed or ()) if is_same(desired, each)]
    return max((each.version for each in same), default=None)


def plan_schema(
    draft: Draft,
    desired: TopicSchema | None,
    found: Mapping[str, SchemaFacts | Unreadable],
    *,
    path: tuple[str, ...],
    memory: Memory,
    repair: bool,
) -> None:
    """Adds to the draft the actions that make the schema match the spec. Without a declared schema nothing is planned,
    and none is deleted."""
    if desired is None:
        return
    draft.declared.add(SCHEMA)
    left: list[DriftEntry] = []
    for cluster, facts in sorted(found.items()):
        if isinstance(facts, Unreadable):
            text = f"spec.{SCHEMA} cannot be read in cluster {cluster}: {facts.message}"
            draft.problems.append(Problem(SCHEMA, Reason.REJECTED_BY_PULSAR, text))
            continue
        live = facts.live
        if live is not None and is_same(desired, live):
            draft.fixed += _properties(desired, live, cluster)
            continue
        difference = DriftEntry(
            field=SCHEMA, desired=_describe_declared(desired), actual=f"{_describe_live(live)} in cluster {cluster}"
        )
        if live is not None and live.older is not None:
            # Uploaded again, it would stay the older one: Pulsar knows it and only answers with its version.
            newer = f"version {live.version}, which is newer than the declared schema (version {live.older})"
            draft.fixed.append(difference.model_copy(update={"actual": f"{newer}: {difference.actual}"}))
        elif memory.leaves(SCHEMA, repair=repair):
            left.append(difference)
        elif facts.refusal is not None:
            text = f"spec.{SCHEMA} is not uploaded to cluster {cluster}, because Pulsar refuses it: {facts.refusal}"
            draft.problems.append(Problem(SCHEMA, Reason.REJECTED_BY_PULSAR, text))
        else:
            verb = change_verb(memory, SCHEMA)
            call = Call("POST", (*path, "schema"), body=body_of(desired))
            draft.actions.append(Action(verb, SCHEMA, call, action_text(verb, difference), difference, cluster))
    draft.drift += joined(left)


def _properties(desired: TopicSchema, live: LiveSchema, cluster: str) -> list[DriftEntry]:
    """Returns the declared properties that the version lacks. Clients add further ones."""
    missing = {k: v for k, v in _all_properties(desired).items() if live.properties.get(k) != v}
    if not missing:
        return []
    found = {key: live.properties.get(key) for key in missing}
    return [
        DriftEntry(
            field=f"{SCHEMA}.properties",
            desired=_describe_properties(missing),
            actual=f"{_describe_properties(found)} in version {live.version} in cluster {cluster}",
        )
    ]


def _describe_properties(values: Mapping[str, Any]) -> str:
    """Returns the properties for messages: those of this module with their values, those of users with their keys
    only."""
    return describe(
        {key: value if key in (KEY_TYPE, VALUE_TYPE, ENCODING) else concealed(value) for key, value in values.items()}
    )


def _describe_declared(desired: TopicSchema) -> str:
    return f"{desired.type.value} {_definition(desired)[:200]}".strip()


def _describe_live(live: LiveSchema | None) -> str:
    return "none" if live is None else f"{live.type} {describe(live.definition)[:200]}, version {live.version}"
