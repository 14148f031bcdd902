"""Hypothesis strategies for values of a structural schema, near the edges of what it allows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

INT64 = 2**63 - 1


def values(schema: Json) -> st.SearchStrategy[Any]:
    """Values the schema allows. Rules over several fields (CEL) are not looked at: the API server judges those."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(st.sampled_from(["1", "250m", "1.5Gi", "2e3", "128974848", "512Mi"]), st.integers(1, 2**40))
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        return st.dictionaries(_words(12), st.one_of(_words(8), st.integers(0, 9), st.booleans()), max_size=3)
    kind = schema["type"]
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        return _integers(schema)
    if kind == "string":
        return _strings(schema)
    if kind == "array":
        return st.lists(
            values(schema["items"]),
            min_size=schema.get("minItems", 0),
            max_size=min(schema.get("maxItems", 3), max(3, schema.get("minItems", 0))),
            unique_by=_identity(schema),
        )
    if "additionalProperties" in schema:
        return st.dictionaries(_words(20), values(schema["additionalProperties"]), max_size=2)
    required = set(schema.get("required", []))
    members = {name: values(child) for name, child in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: member for name, member in members.items() if name in required},
        optional={name: member for name, member in members.items() if name not in required},
    )


def _identity(schema: Json) -> Any:
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        return lambda item: tuple(item[key] for key in keys)
    return str if schema.get("x-kubernetes-list-type") == "set" else None


def _integers(schema: Json) -> st.SearchStrategy[int]:
    lowest, highest = schema.get("minimum", -INT64), schema.get("maximum", INT64)
    edges = [value for value in (lowest, lowest + 1, 0, 1, highest - 1, highest) if lowest <= value <= highest]
    return st.one_of(st.sampled_from(edges), st.integers(lowest, highest))


def _words(longest: int) -> st.SearchStrategy[str]:
    return st.text("abcxyz-_.", min_size=1, max_size=longest)


def _strings(schema: Json) -> st.SearchStrategy[str]:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength", 64)
    if schema.get("format") == "date-time":
        return st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31)).map(
            lambda moment: f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        )
    if "pattern" in schema:
        texts = st.from_regex(schema["pattern"], fullmatch=True)
    else:
        # Surrogates are no characters; the API server takes everything else JSON can carry.
        texts = st.one_of(
            st.text(st.characters(exclude_categories=("Cs",)), min_size=shortest, max_size=min(longest, shortest + 20)),
            st.just("x" * longest if longest <= 1024 else "x" * max(shortest, 1)),
        )
    return texts.filter(lambda text: shortest <= len(text) <= longest)
