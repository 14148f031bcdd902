"""Label selectors as the API server reads them."""

from __future__ import annotations

import re
from functools import lru_cache

from pulsar_operator.ports import RefusedError

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)$")


def matches(selector: str | None, labels: dict[str, str]) -> bool:
    """Whether labels match a selector: =, ==, !=, in, notin, key, !key.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
    """
    return not selector or all(_matches(part, labels) for part in _parts(selector))


@lru_cache(maxsize=256)
def _parts(selector: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r",(?![^(]*\))", selector))


def _matches(part: str, labels: dict[str, str]) -> bool:
    found = _SET.match(part)
    if found:
        values = {value.strip() for value in found["values"].split(",")}
        inside = labels.get(found["key"]) in values
        return inside if found["op"] == "in" else not inside
    if "!=" in part:
        key, value = part.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in part:
        key, value = part.replace("==", "=").split("=", 1)
        return labels.get(key.strip()) == value.strip()
    if part.startswith("!"):
        return part[1:] not in labels
    if not part:
        raise RefusedError("empty requirement in label selector", status=400)
    return part in labels
