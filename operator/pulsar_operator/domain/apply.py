"""Does a live object need to be applied again, and why. Keeps a converged cluster at zero writes.

A rendered manifest is a subset of the live object when nothing drifted, since the API server only adds defaults. Fields
that left the manifest are found by the hash of the manifest as last applied, kept as an annotation.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from decimal import Decimal, InvalidOperation
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_APPLIED_HASH

Json = dict[str, Any]

_SUFFIXES = {
    **{s: Decimal(1024) ** (i + 1) for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{s: Decimal(1000) ** (i + 1) for i, s in enumerate(("k", "M", "G", "T", "P", "E"))},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
    "": Decimal(1),
}


def manifest_hash(manifest: Json) -> str:
    """A short stable hash of a manifest's content."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stamped(manifest: Json) -> Json:
    """The manifest with the annotation that records what is applied."""
    out = deepcopy(manifest)
    annotations = out.setdefault("metadata", {}).setdefault("annotations", {})
    annotations[ANNOTATION_APPLIED_HASH] = manifest_hash(manifest)
    return out


def why_apply(rendered: Json, live: Json | None) -> str | None:
    """The reason to apply ``rendered`` (not stamped), in words; None when the live object is as rendered."""
    if live is None:
        return "it does not exist"
    wanted = stamped(rendered)
    difference = first_difference(_without_identity(wanted), live)
    if difference is None:
        return None
    if difference.startswith(f"metadata.annotations.{ANNOTATION_APPLIED_HASH}"):
        return "its rendered content changed"
    return difference


def first_difference(wanted: Any, live: Any, path: str = "") -> str | None:
    """The first place where ``live`` does not hold what is wanted; extra fields in ``live`` are defaults."""
    here = path or "the object"
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return None if not wanted and live is None else f"{here} is missing"
        # The hash comes last, so that a plain field names the change where there is one.
        for key in sorted(wanted, key=lambda k: (k == ANNOTATION_APPLIED_HASH, k == "metadata", k)):
            found = first_difference(wanted[key], live.get(key), f"{path}.{key}" if path else str(key))
            if found:
                return found
        return None
    if isinstance(wanted, list):
        if not isinstance(live, list):
            return None if not wanted and live is None else f"{here} is missing"
        if len(wanted) != len(live):
            return f"{here} has {len(live)} entries instead of {len(wanted)}"
        for index, (one, other) in enumerate(zip(wanted, live, strict=True)):
            found = first_difference(one, other, f"{path}[{index}]")
            if found:
                return found
        return None
    if wanted == live or (wanted in (None, "") and live in (None, "")) or _same_quantity(wanted, live):
        return None
    return f"{here} is {_short(live)} instead of {_short(wanted)}"


def _without_identity(manifest: Json) -> Json:
    return {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind")}


def _short(value: Any) -> str:
    text = json.dumps(value) if value is not None else "absent"
    return text if len(text) <= 60 else text[:57] + "..."


def _same_quantity(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    left, right = _quantity(one), _quantity(other)
    return left is not None and left == right


def _quantity(value: Any) -> Decimal | None:
    if isinstance(value, int):
        return Decimal(value)
    if not isinstance(value, str):
        return None
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if suffix and not value.endswith(suffix):
            continue
        number = value[: len(value) - len(suffix)] if suffix else value
        try:
            return Decimal(number) * _SUFFIXES[suffix]
        except InvalidOperation:
            return None
    return None
