"""Pages of docs/reference/, one a kind: every field of its definition by its path; used by scripts/gen_docs.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import PLURALS, SHORT_NAMES, Kind
from pulsar_operator.api.v1alpha1.base import QUANTITY
from pulsar_operator.api.v1alpha1.presentation import AGE, MESSAGE, PRESENTATION, READY
from pulsar_operator.crdgen import crd
from pulsar_operator.crdschema import default_sentence

OWN_SECTION = 20
"""Number of fields below a field from which it has a separate heading."""

INDEX = """# Every field

{kinds}
A page has a row for each field, by its full path: search it for `spec.policies.retention`. `[]` stands for each entry
of a list, `.*` for each key of a map. `kubectl explain pulsarnamespace.spec.policies` says the same in a terminal.

* **required**: must be set if the struct around it is. Without a default, the meaning says what unset means.
* *immutable*: the API server refuses a change, an addition and a removal. To change such a field, set
  `deletionPolicy: Retain` (what is in Pulsar stays) or `reclaimPolicy: Retain` (volumes stay) first, then delete the
  object and create it again. Where another way is needed, the message of the API server names it.
* *each once*, *one for each `name`*: server-side apply merges the entries of several owners by that; any other list is
  one value.
* *quantity*: a number, or text such as `256Mi`.
* What the API server checks is said with each field, and below the tables where it concerns several fields. What only
  the operator can check is reported in [condition](../conditions.md) `Accepted`.
* *In Pulsar*: the call a policy is written with, then its name in `GET ~` and in the configuration store. `~` is the
  namespace's or topic's path, the rest is under [policies](../policies.md).
"""

Json = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; vertical bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


@dataclass(frozen=True)
class Field:
    """One field of a definition."""

    path: str
    schema: Json
    required: bool
    """Whether it must be set if the parent is set."""
    change: tuple[str, ...]
    """What the API server says about changing it."""

    def row(self, note: str) -> list[str]:
        """Path, type, default, allowed values, meaning with a note behind it."""
        allowed = [*_allowed(self.schema), *(prose(each) for each in self.change)]
        default = "**required**" if self.required else _default(self.schema)
        # The column beside it tells the default.
        about = self.schema["description"].removesuffix(default_sentence(self.schema.get("default"), self.schema))
        meaning = f"{prose(about.strip())} {note}".strip()
        return [f"`{self.path}`", _type(self.schema), default, "; ".join(allowed), meaning]


def pages(notes: Mapping[tuple[Kind, str], str]) -> dict[str, str]:
    """Text by file name: a page for each kind, and the one that leads to them.

    ``notes``: what follows the meaning of a field, by kind and path, as Markdown. Raises KeyError for a path of no
    field.
    """
    found = {"README.md": _index()}
    for kind in Kind:
        own = {path: note for (of, path), note in notes.items() if of is kind}
        found[f"{PLURALS[kind]}.md"] = _page(kind, own)
    return found


def _index() -> str:
    rows = [
        [f"[{kind}]({PLURALS[kind]}.md)", f"`{SHORT_NAMES[kind]}`", prose(_root(kind)["description"])] for kind in Kind
    ]
    return INDEX.format(kinds=table(["kind", "short name", "declares"], rows))


def _page(kind: Kind, notes: Mapping[str, str]) -> str:
    """Fields of the specification with the rules over several of them, status, and columns of a kind."""
    root = _root(kind)
    spec, status = (list(fields(root["properties"][part], part)) for part in ("spec", "status"))
    if unknown := set(notes) - {field.path for field in spec}:
        raise KeyError(f"{kind} has no {', '.join(sorted(unknown))}")
    about = f"Generated from the models; [how to read it](README.md). Short name `{SHORT_NAMES[kind]}`."
    return "\n".join(
        (
            f"# {kind}\n\n{prose(root['description'])} {about}\n",
            *_sections("spec", spec, notes),
            f"## Rules over several fields\n\n{_rules(root)}",
            f"## status\n\n{_status(status)}",
            f"## Columns of kubectl get\n\n{_columns(kind)}",
        )
    )


def _root(kind: Kind) -> Json:
    (version,) = crd(kind)["spec"]["versions"]
    schema: Json = version["schema"]["openAPIV3Schema"]
    return schema


def fields(schema: Json, path: str, outer: Sequence[tuple[str, str]] = ()) -> Iterator[Field]:
    """Every field below a node, from the outside in; entries of lists are ``[]``, of maps ``.*``.

    ``outer``: what the rules of the structs around say of a change, by path.
    """
    changes = (*outer, *_changes(schema, path))
    for name, child in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        own = tuple(text for where, text in changes if where == below)
        yield Field(below, child, name in schema.get("required", ()), own)
        inner = child
        while "items" in inner or isinstance(inner.get("additionalProperties"), dict):
            below += "[]" if "items" in inner else ".*"
            inner = inner.get("items") or inner["additionalProperties"]
        yield from fields(inner, below, changes)


def prose(text: str) -> str:
    """Plain text as Markdown shows it unchanged; what is in backticks is left."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*<])", r"\\\1", part) for part in parts)


def _sections(top: str, found: Sequence[Field], notes: Mapping[str, str]) -> Iterator[str]:
    """Tables with a heading each: of the node, and of what has many fields below it."""
    many = [field.path for field in found if sum(_below(field.path, each) for each in found) >= OWN_SECTION]
    owned: dict[str, list[Field]] = {owner: [] for owner in (top, *many)}
    for field in found:
        owned[max((owner for owner in owned if _below(owner, field)), key=len)].append(field)
    for owner, rows in owned.items():
        if rows:
            head = ["field", "type", "default", "allowed, and changes", "meaning"]
            yield f"## {owner}\n\n{table(head, (field.row(notes.get(field.path, '')) for field in rows))}"


def _below(path: str, field: Field) -> bool:
    return field.path.startswith((f"{path}.", f"{path}["))


def _type(schema: Json) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if schema.get("pattern") in (None, QUANTITY) else "number or string"
    kind = str(schema["type"])
    if kind == "array":
        return f"list of {_plural(_type(schema['items']))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_plural(_type(schema['additionalProperties']))}"
    if schema.get("format") == "date-time":
        return "time"
    return kind


def _plural(word: str) -> str:
    return f"{word.removesuffix('y')}ies" if word.endswith("y") else f"{word}s"


def _default(schema: Json) -> str:
    """Returns the default; nothing for a struct, whose fields have their own."""
    if "default" not in schema or "properties" in schema:
        return ""
    return f"`{json.dumps(schema['default'])}`"


def _allowed(schema: Json) -> list[str]:
    found = []
    if "enum" in schema:
        found.append(", ".join(f"`{value}`" for value in schema["enum"]))
    found += _bounds(schema, "minimum", "maximum", "")
    if not schema.get("x-kubernetes-int-or-string"):
        found += _bounds(schema, "minLength", "maxLength", " characters")
    found += _bounds(schema, "minItems", "maxItems", " entries")
    found += _bounds(schema, "minProperties", "maxProperties", " keys")
    if "pattern" in schema and schema["pattern"] != QUANTITY:
        found.append(f"matches `{schema['pattern']}`")
    if schema.get("x-kubernetes-list-type") == "set":
        found.append("each once")
    if keys := schema.get("x-kubernetes-list-map-keys"):
        found.append(f"one for each {', '.join(f'`{key}`' for key in keys)}")
    if "properties" not in schema:
        found += [prose(rule["message"]) for rule in schema.get("x-kubernetes-validations", ())]
    inner = schema.get("items") or schema.get("additionalProperties")
    if isinstance(inner, dict) and "properties" not in inner and (each := _allowed(inner)):
        found.append(f"each ({'; '.join(each)})")
    return found


def _bounds(schema: Json, least: str, most: str, unit: str) -> list[str]:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return []
    if low is None:
        return [f"at most {high}{unit}"]
    above = "more than " if schema.get("exclusiveMinimum") else ""
    if high is None:
        return [f"{above}{low}{unit}" if above else f"{low} or more{unit}"]
    if low == high:
        return [f"{low}{unit}"]
    return [f"{above}{low} to {high}{unit}"]


def _changes(schema: Json, path: str) -> Iterator[tuple[str, str]]:
    """What the rules of a struct that compare with the old object say, each with the fields it compares."""
    for rule in schema.get("x-kubernetes-validations", ()):
        members = set(re.findall(r"\boldSelf((?:\.\w+)+)(?![\w(])", rule["rule"]))
        for member in members:
            if not any(other.startswith(f"{member}.") for other in members):
                yield f"{path}{member}", _shorter(rule["message"])


def _shorter(message: str) -> str:
    """Returns the message without the path and the advice on immutable fields, which the page begins with."""
    text = re.sub(r"(is immutable, because [^.]*)\. .*$", r"\1", message)
    return re.sub(r"^[\w.]+ is immutable", "immutable", text)


def _rules(root: Json) -> str:
    """Rules of structs, each once with the places where it holds; those over a change are shown at their fields."""
    places: dict[str, list[str]] = {}
    for path, rule in _all_rules(root, ""):
        if "oldSelf" not in rule["rule"]:
            places.setdefault(rule["message"], []).append(f"`{path}`" if path else "the object")
    if not places:
        return "None.\n"
    return table(["of", "rule"], ([", ".join(paths), prose(message)] for message, paths in places.items()))


def _all_rules(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    if "properties" in schema:
        yield from ((path, rule) for rule in schema.get("x-kubernetes-validations", ()))
    for name, child in schema.get("properties", {}).items():
        yield from _all_rules(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from _all_rules(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _all_rules(schema["additionalProperties"], f"{path}.*")


def _columns(kind: Kind) -> str:
    rows = [
        [column.name, f"`{column.path}`", "`-o wide`" if column.priority else "", prose(column.description)]
        for column in (*READY, *PRESENTATION[kind].columns, MESSAGE, AGE)
    ]
    return table(["column", "shows", "with", "meaning"], rows)


def _status(found: Sequence[Field]) -> str:
    return table(
        ["field", "type", "meaning"],
        ([f"`{field.path}`", _type(field.schema), prose(field.schema["description"])] for field in found),
    )
