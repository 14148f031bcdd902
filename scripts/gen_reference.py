"""Pages of docs/reference/, one a kind: every field of the models, with type, bounds, default and meaning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import PLURALS, SHORT_NAMES, Kind
from pulsar_operator.api.v1alpha1 import MODELS

SHARED = "shared.md"
RULES = "x-kubernetes-validations"
Json = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; vertical bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def pages() -> dict[str, str]:
    """Text by file name: a page for each kind, and one with what several kinds have."""
    schemas = {(kind, part): _schema(kind, part) for kind in Kind for part in ("spec", "status")}
    uses = Counter(
        name
        for kind in Kind
        for name in {n for part in ("spec", "status") for n in schemas[kind, part].get("$defs", {})}
    )
    shared = {name for name, count in uses.items() if count > 1}
    found: dict[str, Json] = {}
    out: dict[str, str] = {}
    for kind in Kind:
        known = {n: d for part in ("spec", "status") for n, d in schemas[kind, part].get("$defs", {}).items()}
        found |= {name: definition for name, definition in known.items() if name in shared}
        page = _Page(known, shared, SHARED)
        out[f"{PLURALS[kind]}.md"] = _kind(kind, schemas[kind, "spec"], schemas[kind, "status"], page)
    page = _Page(found, set(), "")
    parts = ["# Parts that several kinds have\n\nGenerated from the models.\n"]
    parts += [page.section(name) for name in sorted(found) if page.has_fields(name)]
    out[SHARED] = "\n".join(parts)
    rows = [
        [f"[{kind.value}]({PLURALS[kind]}.md)", f"`{SHORT_NAMES[kind]}`", _text(schemas[kind, "spec"])] for kind in Kind
    ]
    out["README.md"] = (
        "# Every field\n\nGenerated from the models; `kubectl explain pulsarcluster.spec` says the same.\n\n"
        + table(["kind", "short", "declares"], rows)
        + f"\nWhat several kinds have is in [{SHARED.removesuffix('.md')}]({SHARED}).\n"
    )
    return out


def _schema(kind: Kind, part: str) -> Json:
    schema: Json = getattr(MODELS[kind], part).model_json_schema(by_alias=True, mode="validation")
    return schema


def _kind(kind: Kind, spec: Json, status: Json, page: _Page) -> str:
    names = [
        name
        for name in _reached([spec, status], page.definitions)
        if name not in page.elsewhere and page.has_fields(name)
    ]
    names_of = f"Short `{SHORT_NAMES[kind]}`, `{PLURALS[kind]}.pulsaroperator.io`."
    parts = [
        f"# {kind.value}\n\nGenerated from the models. {names_of}\n",
        f"## spec\n\n{page.body(spec)}",
        *(page.section(name) for name in names if name in _reached([spec], page.definitions)),
        f"## status\n\n{page.body(status)}",
        *(page.section(name) for name in names if name not in _reached([spec], page.definitions)),
    ]
    return "\n".join(parts)


def _reached(roots: Sequence[Json], definitions: Mapping[str, Json]) -> list[str]:
    """Names of definitions in the order in which a reader meets them."""
    found: list[str] = []

    def visit(node: Any) -> None:
        for name in _references(node):
            if name not in found and name in definitions:
                found.append(name)
                visit(definitions[name])

    for root in roots:
        visit(root.get("properties", {}))
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if "$ref" in node:
            yield str(node["$ref"]).rsplit("/", 1)[-1]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


@dataclass(frozen=True)
class _Page:
    """What a page needs to show and to link its parts."""

    definitions: Mapping[str, Json]
    elsewhere: set[str]
    other: str
    """Page of those that are elsewhere."""

    def has_fields(self, name: str) -> bool:
        """Whether it gets a section; plain values and words are shown where they are used."""
        return bool(self.definitions[name].get("properties"))

    def section(self, name: str) -> str:
        return f"### {name}\n\n{self.body(self.definitions[name])}"

    def body(self, schema: Json) -> str:
        """Its text, its fields, and what holds between them."""
        required = set(schema.get("required", ()))
        rows = [
            [f"`{name}`", self._type(field), self._default(field, name in required), self._meaning(field)]
            for name, field in schema.get("properties", {}).items()
        ]
        text = f"{_text(schema)}\n\n" if _text(schema) else ""
        rules = [f"* {rule['message']}" for rule in schema.get(RULES, ()) if rule.get("message")]
        after = "\n" + "\n".join(rules) + "\n" if rules else ""
        return text + table(["field", "type", "default", "meaning"], rows) + after

    def _type(self, field: Json) -> str:
        field = _given(field)
        if "$ref" in field:
            name = str(field["$ref"]).rsplit("/", 1)[-1]
            if self.has_fields(name):
                place = self.other if name in self.elsewhere else ""
                return f"[{name}]({place}#{name.lower()})"
            return self._type(self.definitions[name])
        if "enum" in field:
            return " or ".join(f"`{each}`" for each in field["enum"])
        if "const" in field:
            return f"`{field['const']}`"
        kind = field.get("type")
        if kind == "array":
            return f"list{_range(field, 'Items', '')} of {self._type(field.get('items', {}))}"
        if kind == "object" and isinstance(field.get("additionalProperties"), Mapping):
            return f"map{_range(field, 'Properties', '')} to {self._type(field['additionalProperties'])}"
        if kind == "string":
            return f"string{_range(field, 'Length', ' characters')}"
        if field.get("x-kubernetes-int-or-string"):
            return "quantity"
        return f"{kind or 'any'}{_range(field, 'imum', '')}"

    def _default(self, field: Json, required: bool) -> str:
        if required:
            return "**required**"
        value = field.get("default")
        if value is None or value in ({}, []):
            return ""
        return f"`{json.dumps(value)}`" if not isinstance(value, Mapping) else "see there"

    def _meaning(self, field: Json) -> str:
        text = _text(field)
        given = _given(field)
        if not text and "$ref" in given:
            text = _text(self.definitions[str(given["$ref"]).rsplit("/", 1)[-1]])
        rules = [rule["message"] for rule in given.get(RULES, ()) if rule.get("message")]
        return " ".join([text, *(f"*{rule}*" for rule in rules)]).strip()


def _given(field: Json) -> Json:
    """The field without the null branch of an optional one."""
    for key in ("anyOf", "allOf"):
        branches = [each for each in field.get(key, ()) if each.get("type") != "null"]
        if len(branches) == 1:
            return {**{k: v for k, v in field.items() if k != key}, **branches[0]}
        if len(branches) > 1:
            return {"x-kubernetes-int-or-string": True}
    return field


def _range(field: Json, word: str, unit: str) -> str:
    low, high = field.get(f"min{word}"), field.get(f"max{word}")
    if low is None and high is None:
        return ""
    text = (
        f"from {low}"
        if high is None
        else f"at most {high}"
        if low in (None, 0) and word != "imum"
        else f"{low} to {high}"
    )
    if low is None and word == "imum":
        text = f"at most {high}"
    return f" ({text}{unit})"


def _text(schema: Json) -> str:
    return " ".join(str(schema.get("description", "")).split())
