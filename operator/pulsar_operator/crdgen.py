"""Custom resource definitions from the pydantic models: ``python -m pulsar_operator.crdgen --out crds/``.

Called by developers and by CI (``--check``), never by the running operator. One recursive pure function turns the JSON
Schema pydantic emits into the structural subset of OpenAPI v3 that the API server accepts. It works by allow-list: a
construct it does not know is an error here, at build time, not at installation.

Source of the rules: Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions", sections on
structural schemas, defaulting, validation rules and subresources.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from pulsar_operator.api.constants import CATEGORY, GROUP, PLURALS, SHORT_NAMES, VERSION, Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.base import UNOBSERVED
from pulsar_operator.api.v1alpha1.presentation import AGE, MESSAGE, PRESENTATION, READY, Column
from pulsar_operator.crdrules import guarded

Json = dict[str, Any]

MAX_STORED_BYTES = 250_000
"""Client-side apply keeps the manifest in an annotation, and all annotations together may have 262,144 bytes."""
_ESCAPED = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&"})
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
"""Keywords that mean the same in both dialects."""
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
    """The structural schema of a model, with every reference inlined.

    ``defaults=False`` leaves defaults of fields out, for status: what a controller did not write must stay absent.
    Raises UnsupportedSchemaError, with the path of the field, for any construct outside the allow-list.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    converter = _Converter(definitions=schema.get("$defs", {}), defaults=defaults)
    return converter.convert(schema, path=model.__name__, inlining=())


@dataclass(frozen=True)
class _Converter:
    definitions: Json
    defaults: bool

    def convert(self, node: Json, *, path: str, inlining: tuple[str, ...]) -> Json:
        """One node and everything below it. ``inlining`` is the chain of definitions being expanded."""
        node, inlining = self._resolve(node, path, inlining)
        unknown = sorted(set(node) - _HANDLED - set(_KEPT))
        if unknown:
            raise UnsupportedSchemaError(f"{path}: keyword {', '.join(unknown)} has no structural counterpart")
        out: Json = {}
        if "description" in node:
            out["description"] = " ".join(node["description"].split())
        out.update(self._shape(node, path, inlining))
        out.update({key: node[key] for key in _KEPT if key in node})
        if "const" in node:
            out["enum"] = [node["const"]]
        out.update(_bounds(node, path))
        out.update(_format(node, out, path))
        if self.defaults:
            out.update(_default(node, out, path))
        return guarded(out)

    def _resolve(self, node: Json, path: str, inlining: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        """The node without ``$ref`` and without the null branch of an optional field; siblings win over the target."""
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
        """Type and children."""
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
            return {"type": kind, **unique, "items": self.convert(node["items"], path=f"{path}[]", inlining=inlining)}
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
    """JSON Schema 2020-12 has numeric exclusive bounds, OpenAPI v3.0 a boolean beside the bound."""
    out: Json = {}
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            if bound in node:
                raise UnsupportedSchemaError(f"{path}: both {exclusive} and {bound}")
            out |= {bound: node[exclusive], exclusive: True}
    return out


def _format(node: Json, converted: Json, path: str) -> Json:
    """Integers get the narrowest format that holds their bounds; other formats only if the API server checks them."""
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


def _default(node: Json, converted: Json, path: str) -> Json:
    """The default to write. A struct gets the defaults of its fields, in full: the API server evaluates the struct's
    CEL rules on the default as written, before it fills in anything.

    Raises when the model's default differs from that, since a user who sets one field of the struct would silently get
    other values for the rest.
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
            "give it a type of its own with these defaults"
        )
    return {"default": effective}


def _stated(value: Any) -> Any:
    """A default as pydantic dumps it, without what is absent on the wire: nulls, empty lists."""
    if isinstance(value, dict):
        return {key: _stated(member) for key, member in value.items() if member is not None and member != []}
    return value


def defaulted(schema: Json) -> Json:
    """What the API server makes of an empty object with this structural schema."""
    out: Json = {}
    for name, child in schema.get("properties", {}).items():
        if "default" in child:
            out[name] = defaulted(child) if "properties" in child else child["default"]
    return out


def crd(kind: Kind) -> Json:
    """The CustomResourceDefinition of a kind."""
    models, presentation = MODELS[kind], PRESENTATION[kind]
    spec = structural(models.spec)
    status = structural(models.status, defaults=False)
    root: Json = {
        "description": spec["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the API of this object."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "spec": {**spec, "description": "What is wanted."},
            "status": {
                **status,
                "description": "What was observed; written by the operator.",
                "default": {"observedGeneration": UNOBSERVED},
            },
        },
    }
    if models.rules:
        root["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in models.rules]
    subresources: Json = {"status": {}}
    if presentation.scale:
        subresources["scale"] = {
            "specReplicasPath": presentation.scale.spec_replicas,
            "statusReplicasPath": presentation.scale.status_replicas,
            "labelSelectorPath": presentation.scale.selector,
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURALS[kind]}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": str(kind),
                "listKind": f"{kind}List",
                "plural": PLURALS[kind],
                "singular": str(kind).lower(),
                "shortNames": [SHORT_NAMES[kind]],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": [
                        _column(column) for column in (*READY, *presentation.columns, MESSAGE, AGE)
                    ],
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


def _column(column: Column) -> Json:
    out: Json = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        out["description"] = column.description
    if column.priority:
        out["priority"] = column.priority
    return out


class _Lines(dict[str, Any]):
    """A mapping that is written over several lines, even when it has no children."""


class _Dumper(yaml.SafeDumper):
    """Writes shared values in full: kubectl understands aliases, people and other tools often do not."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Lines, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=False)
)


def render(kind: Kind) -> str:
    """The file of a kind. Raises UnsupportedSchemaError when it would be too large for client-side apply."""
    found = crd(kind)
    # The operator's chart adds an annotation below that line (templates/crds.yaml).
    found["metadata"] = _Lines(found["metadata"])
    body = yaml.dump(found, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True, default_flow_style=None)
    size = stored_bytes(found)
    if size > MAX_STORED_BYTES:
        raise UnsupportedSchemaError(f"{kind}: {size} bytes, more than {MAX_STORED_BYTES}")
    return f"# Generated from the models by `python -m pulsar_operator.crdgen --out crds/`; do not edit.\n---\n{body}"


def stored_bytes(definition: Json) -> int:
    """Bytes of the annotation of client-side apply: JSON without spaces, as Go writes it (package encoding/json escapes
    what HTML would take for its own)."""
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=False)
    return len(text.translate(_ESCAPED).encode())


def file_name(kind: Kind) -> str:
    """Name of the file of a kind."""
    return f"{GROUP}_{PLURALS[kind]}.yaml"


def differences(folder: Path) -> list[str]:
    """What is stale in the folder: one entry per missing, changed or left-over file, with the lines that differ."""
    wanted = {file_name(kind): render(kind) for kind in Kind}
    out = []
    for name, text in wanted.items():
        file = folder / name
        if not file.is_file():
            out.append(f"{file}: missing")
            continue
        found = file.read_text(encoding="utf-8")
        if found != text:
            lines = difflib.unified_diff(found.splitlines(), text.splitlines(), "committed", "generated", "", "", 1, "")
            out.append(f"{file}: differs\n" + "\n".join(list(lines)[:40]))
    left_over = {file.name for file in folder.glob(f"{GROUP}_*.yaml")} - set(wanted)
    return out + [f"{folder / name}: belongs to no kind" for name in sorted(left_over)]


def write(folder: Path) -> None:
    """Write every definition into the folder, and remove those of kinds that are no more."""
    wanted = {file_name(kind): render(kind) for kind in Kind}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
    for file in folder.glob(f"{GROUP}_*.yaml"):
        if file.name not in wanted:
            file.unlink()


def main(argv: list[str] | None = None) -> int:
    """Write the files, or with ``--check`` compare them. Exit status 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m pulsar_operator.crdgen", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("crds"), help="folder of the definitions (default: crds)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not up to date")
    arguments = parser.parse_args(argv)
    folder: Path = arguments.out
    if arguments.check:
        stale = differences(folder)
        if stale:
            print("\n".join(stale), file=sys.stderr)
            print(f"run: python -m pulsar_operator.crdgen --out {folder}", file=sys.stderr)
        return 1 if stale else 0
    write(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
