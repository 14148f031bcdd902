"""Structural schemas from the pydantic models, for the definitions that crdgen.py writes.

One recursive pure function converts the JSON Schema that pydantic produces into the structural subset of OpenAPI v3
that the API server accepts. It uses an allow-list: an unknown construct is an error at build time instead of at
installation.

Source of the rules: Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions", sections on
structural schemas, defaulting and validation rules.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from pulsar_operator.crdrules import guarded

Json = dict[str, Any]

INT32_MAX = 2**31 - 1

_ALLOWED_TYPES = frozenset({"object", "array", "string", "integer", "boolean"})
_ALLOWED_FORMATS = frozenset({"int32", "int64", "date-time"})
_KEPT = (
    "enum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
)
"""Keywords with the same meaning in both dialects."""
_HANDLED = frozenset(
    {
        "$ref",
        "$defs",
        "anyOf",
        "type",
        "title",
        "description",
        "default",
        "const",
        "format",
        "properties",
        "required",
        "items",
        "uniqueItems",
        "additionalProperties",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
    }
)
"""Keywords that are rewritten or dropped below."""


class UnsupportedSchemaError(ValueError):
    """A model uses a construct that has no faithful structural schema."""


def structural(model: type[BaseModel], *, defaults: bool = True) -> Json:
    """Returns the structural schema of a model, with every reference inlined.

    The description of a field with a default ends with a sentence that states it (``default_sentence``).
    ``defaults=False`` omits the defaults of fields, for status: what a controller did not write must stay absent.
    Raises UnsupportedSchemaError, with the path of the field, for any construct outside the allow-list.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    converter = _Converter(definitions=schema.get("$defs", {}), defaults=defaults, stated=defaults)
    return converter.convert(schema, path=model.__name__, inlining=())


@dataclass(frozen=True)
class _Converter:
    definitions: Json
    defaults: bool
    """Whether the schema has the defaults."""
    stated: bool
    """Whether descriptions state the defaults. Also true within lists, where only the models have them and the schema
    does not."""

    def convert(self, node: Json, *, path: str, inlining: tuple[str, ...]) -> Json:
        """Returns the schema of a node and everything below it. ``inlining`` is the chain of definitions that are being
        expanded."""
        node, inlining = self._resolve(node, path, inlining)
        unknown = sorted(set(node) - _HANDLED - set(_KEPT))
        if unknown:
            raise UnsupportedSchemaError(f"{path}: keyword {', '.join(unknown)} has no structural counterpart")
        out: Json = {}
        if "description" in node:
            out["description"] = " ".join(node["description"].split())
        out.update(self._shape(node, path, inlining))
        out.update(self._description(node, out, path))
        out.update({key: node[key] for key in _KEPT if key in node})
        if "const" in node:
            out["enum"] = [node["const"]]
        out.update(_bounds(node, path))
        out.update(_format(node, out, path))
        if self.defaults:
            out.update(_default(node, out, path))
        return guarded(out)

    def _description(self, node: Json, converted: Json, path: str) -> Json:
        """Returns the description with the default. Raises UnsupportedSchemaError if the model's own text repeats a
        default of the model."""
        text, sentence = converted.get("description"), default_sentence(node.get("default"), converted)
        if not (self.stated and text and sentence):
            return {}
        if "Defaults to" in text or "If unset" in text:
            raise UnsupportedSchemaError(f"{path}: its description states the default, which the generator appends")
        return {"description": f"{text} {sentence}"}

    def _resolve(self, node: Json, path: str, inlining: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        """Returns the node without ``$ref`` and without the null branch of an optional field. Sibling keywords override
        those of the target."""
        while True:
            if "$ref" in node:
                name = str(node["$ref"]).removeprefix("#/$defs/")
                if name in inlining:
                    raise UnsupportedSchemaError(f"{path}: {name} refers to itself, which a structural schema cannot")
                inlining = (*inlining, name)
                node = {**self.definitions[name], **{k: v for k, v in node.items() if k != "$ref"}}
            elif "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
                branches = [branch for branch in node["anyOf"] if branch != {"type": "null"}]
                if len(branches) != 1:
                    raise UnsupportedSchemaError(
                        f"{path}: a union of types; use a struct of optional members and a CEL rule 'exactly one of'"
                    )
                rest = {k: v for k, v in node.items() if k != "anyOf" and not (k == "default" and v is None)}
                node = {**branches[0], **rest}
            else:
                return node, inlining

    def _shape(self, node: Json, path: str, inlining: tuple[str, ...]) -> Json:
        """Returns the type and the children of a node."""
        if node.get("x-kubernetes-int-or-string"):
            types = sorted(branch.get("type", "") for branch in node.get("anyOf", []) if branch != {"type": "null"})
            if types != ["integer", "string"]:
                raise UnsupportedSchemaError(f"{path}: int-or-string needs the type int | str, found {types}")
            return {"x-kubernetes-int-or-string": True}
        kind = node.get("type")
        if kind is None and "const" in node:
            kind = {str: "string", int: "integer", bool: "boolean"}.get(type(node["const"]))
        if kind not in _ALLOWED_TYPES:
            raise UnsupportedSchemaError(
                f"{path}: type {kind!r} is not allowed; use one of {', '.join(sorted(_ALLOWED_TYPES))} "
                "(no floats: quantities are strings; no untyped values)"
            )
        if kind == "array":
            if "items" not in node:
                raise UnsupportedSchemaError(f"{path}: an array needs one schema for its items")
            unique = {"x-kubernetes-list-type": "set"} if node.get("uniqueItems") else {}
            # The API server would write defaults into the lists of users, and what they applied would differ from what
            # is stored: Argo CD compares a list as a whole. The models have the defaults.
            items = replace(self, defaults=False).convert(node["items"], path=f"{path}[]", inlining=inlining)
            # The field describes its entries, and every byte of a pod template is in the definition six times.
            items.pop("description", None)
            return {"type": kind, **unique, "items": items}
        if kind == "object":
            return self._object(node, path, inlining)
        return {"type": kind}

    def _object(self, node: Json, path: str, inlining: tuple[str, ...]) -> Json:
        properties, additional = node.get("properties"), node.get("additionalProperties")
        if properties and isinstance(additional, dict):
            raise UnsupportedSchemaError(f"{path}: properties and additionalProperties exclude each other")
        if properties:
            children = {
                name: self.convert(child, path=f"{path}.{name}", inlining=inlining)
                for name, child in properties.items()
            }
            required = {"required": list(node["required"])} if node.get("required") else {}
            # Members that are not named are checked by the operator.
            others = {"x-kubernetes-preserve-unknown-fields": True} if additional is True else {}
            return {"type": "object", **required, "properties": children, **others}
        if additional is True or node.get("x-kubernetes-preserve-unknown-fields"):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        if isinstance(additional, dict):
            values = self.convert(additional, path=f"{path}{{}}", inlining=inlining)
            return {"type": "object", "additionalProperties": values}
        raise UnsupportedSchemaError(f"{path}: an object without fields; the API server would prune all of it")


def _bounds(node: Json, path: str) -> Json:
    """Returns the bounds of a number. Exclusive bounds are numbers in JSON Schema 2020-12 and booleans beside the bound
    in OpenAPI v3.0."""
    out: Json = {}
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            if bound in node:
                raise UnsupportedSchemaError(f"{path}: both {exclusive} and {bound}")
            out |= {bound: node[exclusive], exclusive: True}
    return out


def _format(node: Json, converted: Json, path: str) -> Json:
    """Returns the format. Integers get the narrowest format that holds their bounds. Raises UnsupportedSchemaError for
    a format that the API server does not check."""
    if converted.get("type") == "integer" and "format" not in node:
        narrow = (
            "maximum" in converted and max(abs(converted["maximum"]), abs(converted.get("minimum", 0))) <= INT32_MAX
        )
        return {"format": "int32" if narrow else "int64"}
    if "format" not in node:
        return {}
    if node["format"] not in _ALLOWED_FORMATS:
        raise UnsupportedSchemaError(f"{path}: format {node['format']} is not checked by the API server")
    return {"format": node["format"]}


def default_sentence(value: Any, converted: Json) -> str:
    """Returns the sentence on a field's default; empty if it has none."""
    if value is None or value in ([], ""):
        return ""
    if "properties" in converted:
        return "If unset, each field has its default."
    return f"Defaults to {value if isinstance(value, str) else json.dumps(value)}."


def _default(node: Json, converted: Json, path: str) -> Json:
    """Returns the default to write. A struct gets the complete defaults of its fields, since the API server evaluates
    the CEL rules of the struct on the default as written, before it adds any field.

    Raises UnsupportedSchemaError if the model's default differs from that, since a user who sets one field of the
    struct would silently get other values for the rest.
    """
    if node.get("default") is None:
        return {}
    value = node["default"]
    if "properties" not in converted:
        return {"default": value}
    effective = defaulted(converted)
    if _stated(value) != effective:
        raise UnsupportedSchemaError(
            f"{path}: its default {_stated(value)} is not what its fields default to ({effective}); "
            "give it a separate type with these defaults"
        )
    return {"default": effective}


def _stated(value: Any) -> Any:
    """Returns a default from pydantic without values that are absent in the manifest: nulls and empty lists."""
    if isinstance(value, dict):
        return {key: _stated(member) for key, member in value.items() if member is not None and member != []}
    return value


def defaulted(schema: Json) -> Json:
    """Returns the result of the API server's defaulting for an empty object with this structural schema."""
    out: Json = {}
    for name, child in schema.get("properties", {}).items():
        if "default" in child:
            out[name] = defaulted(child) if "properties" in child else child["default"]
    return out
