"""Every place of a kind's specification that takes text, from its schema, so that a new field is covered by itself.

A place is a path in spec with ``[]`` for the items of a list, ``{key}`` and ``{}`` for the keys and values of a map,
and ``*`` for what the schema does not look into.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.crdschema import structural

Json = dict[str, Any]

CANARY = "canary7f3a"
FORMS = (
    f"http://user:{CANARY}@127.0.0.1:1",
    CANARY,
    f"{CANARY}:2181",
    f"/{CANARY}",
    f"-D{CANARY}=1",
    f"persistent://t/n/{CANARY}",
    f"t/{CANARY}",
    f"4.0.8-{CANARY}",
)
"""Tried in this order, the first for addresses alone; the first that the model takes is used."""
FILLERS = ("x", "1", "10Gi", "512m", "zk:2181", "/x", "4.0.8", "http://x:1", "0x00000000", "2099-01-01T00:00:00Z",
           "0 0 * * *", "t/n", "persistent://t/n/x")  # fmt: skip


@cache
def schema(kind: Kind) -> Json:
    """Schema of a kind's specification."""
    found: Json = structural(MODELS[kind].spec)
    return found


def places(kind: Kind) -> list[str]:
    """Every place of a kind."""
    return list(_places(schema(kind), ""))


def _places(node: Json, path: str) -> Iterator[str]:
    if node.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{path}*"
    elif (node.get("type") == "string" and "enum" not in node) or node.get("x-kubernetes-int-or-string"):
        yield path
    for name, child in node.get("properties", {}).items():
        yield from _places(child, f"{path}.{name}" if path else name)
    if "items" in node:
        yield from _places(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield f"{path}{{key}}"
        yield from _places(node["additionalProperties"], f"{path}{{}}")


def planted(kind: Kind, spec: Json, path: str, text: Any) -> Json:
    """The specification with a value at the place, and whatever the schema requires around it."""
    out = copy.deepcopy(spec)
    _plant(schema(kind), out, re.findall(r"[A-Za-z0-9]+|\[\]|\{key\}|\{\}|\*", path), text)
    return out


def _plant(node: Json, at: Any, steps: list[str], text: Any) -> None:
    """``at`` is the member of the specification that ``node`` describes, a struct; the first step is a field."""
    name, rest = steps[0], steps[1:]
    child = node["properties"][name]
    at[name] = _with(child, at.get(name), rest, text)


def _with(node: Json, value: Any, steps: list[str], text: Any) -> Any:
    if not steps:
        return text
    step, rest = steps[0], steps[1:]
    if step == "*":
        return {"nested": {"list": [{"text": text}]}}
    if step == "[]":
        items = list(value or ())
        return [_with(node["items"], items[0] if items else None, rest, text), *items[1:]]
    if step == "{key}":
        text = text if isinstance(text, str) else str(text)
        return {**(value or {}), text: filler(node["additionalProperties"])}
    if step == "{}":
        return {**(value or {}), "k": _with(node["additionalProperties"], None, rest, text)}
    struct = value if isinstance(value, dict) else filler(node)
    _plant(node, struct, steps, text)
    return struct


def filler(node: Json) -> Any:
    """Something that the schema takes."""
    if "default" in node:
        return copy.deepcopy(node["default"])
    if "enum" in node:
        return node["enum"][0]
    if node.get("x-kubernetes-int-or-string"):
        return "1"
    kind = node.get("type")
    if kind == "string":
        pattern = node.get("pattern", "")
        return next((each for each in FILLERS if re.search(pattern, each)), "x")
    if kind in ("integer", "number"):
        return node.get("minimum", 1)
    if kind == "boolean":
        return False
    if kind == "array":
        return [filler(node["items"])] * node.get("minItems", 0)
    return {name: filler(node["properties"][name]) for name in node.get("required", ())}


def taken(kind: Kind, spec: Json, path: str) -> str | None:
    """The form of the canary that the model takes at the place; None where it takes none."""
    address = re.search(r"(?i)(url|endpoint)$", path)
    for form in FORMS if address else FORMS[1:]:
        try:
            MODELS[kind].spec.model_validate(planted(kind, spec, path, form))
        except ValidationError:
            continue
        return form
    return None
