"""Validation rules of the definitions that an object stored before them cannot break by what it lacks.

A field that became required since an object was stored is absent from it. The API server lets such an object be
changed elsewhere ("validation ratcheting", Kubernetes documentation, CustomResourceDefinitions), and so let go of its
finalizer, but a rule that reads the field ends with an error, which nothing lets pass: then the object could not even
be deleted. A rule does not judge what is not there; that it has to be there, the schema says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
RULES = "x-kubernetes-validations"
_PATH = re.compile(r"(?<![\w.'])((?:self|oldSelf)(?:\.\w+)+)")


def guarded(schema: Json) -> Json:
    """A structural schema's own rules, each true where a required field that it reads is absent."""
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
    """What is true where a required part of a path is absent, its parents being there."""
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
