"""Changes the validation rules of the definitions so that objects stored before them do not violate a rule by a missing
field.

An object that was stored before a field became required does not have it. The API server permits other changes to such
an object ("validation ratcheting", Kubernetes documentation, CustomResourceDefinitions), including the removal of its
finalizer. A rule that reads the missing field fails with an error, however, which ratcheting does not cover, so that
the object could not even be deleted. The rules therefore pass if a field is missing; the schema states that it is
required.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
RULES = "x-kubernetes-validations"
_PATH = re.compile(r"(?<![\w.'])((?:self|oldSelf)(?:\.\w+)+)")


def guarded(schema: Json) -> Json:
    """Returns the schema with its own rules changed so that each is true if a required field that it reads is
    missing."""
    rules = schema.get(RULES)
    if not rules:
        return schema
    return {**schema, RULES: [{**each, "rule": _guarded(each["rule"], schema)} for each in rules]}


def _guarded(rule: str, schema: Mapping[str, Any]) -> str:
    guards: dict[str, None] = {}
    for found in _PATH.findall(rule):
        for guard in _guards(found, rule, schema):
            guards.setdefault(guard)
    return " || ".join([*guards, f"({rule})"]) if guards else rule


def _guards(path: str, rule: str, schema: Mapping[str, Any]) -> list[str]:
    """Returns conditions that are true if a required part of a path is missing and its parents are present."""
    root, *names = path.split(".")
    out: list[str] = []
    parents: list[str] = []
    at, node = root, schema
    for name in names:
        fields = node.get("properties") or {}
        if name not in fields:
            break  # a method, or what is in a map
        if name in (node.get("required") or ()) and f"has({at}.{name})" not in rule:
            absent = f"!has({at}.{name})"
            out.append(f"({' && '.join([*parents, absent])})" if parents else absent)
        parents.append(f"has({at}.{name})")
        at, node = f"{at}.{name}", fields[name]
    return out
