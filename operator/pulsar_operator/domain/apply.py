"""Decides whether a live object has to be applied again, and states the reason. A converged cluster causes no writes.

A rendered manifest is a subset of the live object as long as nothing drifted, since the API server only adds defaults.
Fields that were removed from the manifest are detected by the hash of the last applied manifest, which is kept as an
annotation.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_APPLIED_HASH
from pulsar_operator.api.v1alpha1.quantities import quantity

Json = dict[str, Any]


def manifest_hash(manifest: Json) -> str:
    """Returns a short stable hash of a manifest's content."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stamped(manifest: Json) -> Json:
    """Returns the manifest with the annotation that holds its hash. The rest of the content is shared with the
    argument."""
    meta = manifest.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), ANNOTATION_APPLIED_HASH: manifest_hash(manifest)}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def why_apply(rendered: Json, live: Json | None) -> str | None:
    """Returns the reason to apply ``rendered`` (without the hash annotation) as a message. None if the live object
    matches."""
    if live is None:
        return "it does not exist"
    desired = stamped(rendered)
    difference = first_difference(_without_identity(desired), live)
    if difference is None:
        foreign = foreign_entries(rendered, live)
        return f"{foreign[0]} is not managed by the operator" if foreign else None
    if difference.startswith(f"metadata.annotations.{ANNOTATION_APPLIED_HASH}"):
        return "its rendered content changed"
    return difference


EXACT_MAPS = frozenset({"data", "spec.selector", "spec.template.spec.nodeSelector"})
"""Maps of which the operator owns every key: another writer's key would change what the object does."""
_KEYS = ("mountPath", "uid", "name", "topologyKey", "containerPort", "port")
"""Fields that identify entries of a list, as server-side apply merges them."""

_WORDS = re.compile(
    r"(^|\.)(image|imagePullPolicy|storageClassName|priorityClassName|type|policy|whenDeleted|whenScaled)$"
)
"""Fields whose text is shown: names and words of closed lists. Other fields may have any text of users, secrets too,
and are left out of events and logs; numbers, switches and quantities are shown, except in free text."""
_FREE_TEXT = re.compile(
    r"(^|\.)(data|stringData|annotations|labels|env|nodeSelector|affinity|tolerations|args|command|volumeAttributes)[.\[]"
)


def first_difference(desired: Any, live: Any, path: str = "") -> str | None:
    """Returns the first place where ``live`` differs from the desired object; extra fields in ``live`` are defaults.
    :func:`foreign_entries` returns entries that other writers added to lists and to EXACT_MAPS.
    """
    if desired == live:
        return None
    here = path or "the object"
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return None if not desired and live is None else f"{here} is missing"
        # The hash comes last, so that a plain field names the change where there is one.
        for key in sorted(desired, key=lambda k: (k == ANNOTATION_APPLIED_HASH, k == "metadata", k)):
            found = first_difference(desired[key], live.get(key), f"{path}.{key}" if path else str(key))
            if found:
                return found
        return None
    if isinstance(desired, list):
        if not isinstance(live, list):
            return None if not desired and live is None else f"{here} is missing"
        return _list_difference(desired, live, path)
    if (desired in (None, "") and live in (None, "")) or _same_quantity(desired, live):
        return None
    if _is_shown(path, desired) and _is_shown(path, live):
        return f"{here} changed from {_short(live)} to {_short(desired)}"
    return f"{here} changed" if live is not None else f"{here} is missing"


def _is_shown(path: str, value: Any) -> bool:
    """Whether a value may be shown in events."""
    if _FREE_TEXT.search(path):
        return False
    plain = value is None or isinstance(value, (bool, int, float)) or quantity(value) is not None
    return plain or (isinstance(value, str) and _WORDS.search(path) is not None)


def _list_difference(desired: list[Any], live: list[Any], path: str) -> str | None:
    key = _key_of(desired)
    if key is None:
        if len(desired) != len(live):
            return f"{path} changed from {len(live)} to {len(desired)} entries"
        pairs = [(one, other, str(index)) for index, (one, other) in enumerate(zip(desired, live, strict=True))]
    else:
        by_key = {entry.get(key): entry for entry in live if isinstance(entry, dict)}
        pairs = [(one, by_key.get(one[key]), str(one[key])) for one in desired]
    for one, other, label in pairs:
        found = first_difference(one, other, f"{path}[{label}]")
        if found:
            return found
    return None


def foreign_entries(desired: Any, live: Any, path: str = "", pointer: str = "") -> list[str]:
    """Returns JSON pointers of other writers' entries in ``live`` where the operator owns all entries, in the order to
    remove them.

    Server-side apply leaves what another field manager owns, so these are removed separately. metadata is shared with
    others on purpose.
    """
    out: list[str] = []
    if desired == live:
        return out
    if isinstance(desired, dict) and isinstance(live, dict):
        for key in desired:
            if path or key not in ("metadata", "apiVersion", "kind"):
                below = f"{path}.{key}" if path else str(key)
                out += foreign_entries(desired[key], live.get(key), below, f"{pointer}/{_escaped(str(key))}")
        if path in EXACT_MAPS:
            out += [f"{pointer}/{_escaped(str(key))}" for key in sorted(set(live) - set(desired))]
    elif isinstance(desired, list) and isinstance(live, list):
        key = _key_of(desired)
        if key is None:
            return out
        ours = {one[key]: one for one in desired}
        # From the end, so that an index still holds when those after it are gone.
        for index in reversed(range(len(live))):
            entry = live[index]
            if not isinstance(entry, dict):
                continue
            if entry.get(key) in ours:
                out += foreign_entries(ours[entry.get(key)], entry, f"{path}[]", f"{pointer}/{index}")
            else:
                out.append(f"{pointer}/{index}")
    return out


def normal(value: Any) -> Any:
    """Returns the value in a form for comparisons that ignore the difference between absent and empty, since the API
    server keeps what it is given, and the order of conditions, since the API server keeps the order in which they were
    added."""
    if isinstance(value, dict):
        return {k: n for k, v in value.items() if (n := normal(v)) not in (None, [], {})}
    if isinstance(value, list):
        found = [normal(v) for v in value]
        keyed = all(isinstance(v, dict) and isinstance(v.get("type"), str) for v in found)
        return sorted(found, key=lambda v: str(v["type"])) if keyed else found
    return value


def left_over(written: Any, stored: Any, pointer: str) -> list[str]:
    """Returns JSON pointers to what is stored but was not written, in the order of removal. ``pointer`` is the location
    of both values.

    A list entry that differs from what was written is removed as a whole and has to be written again.
    """
    if written == stored or normal(written) == normal(stored):
        return []
    if isinstance(written, dict) and isinstance(stored, dict):
        found: list[str] = []
        for key in sorted(stored):
            below = f"{pointer}/{_escaped(key)}"
            if normal(written.get(key)) in (None, [], {}):
                found += [below] if normal(stored[key]) not in (None, [], {}) else []
            else:
                found += left_over(written[key], stored[key], below)
        return found
    if isinstance(written, list) and isinstance(stored, list):
        ours = [normal(each) for each in written]
        # From the end, so that an index still holds when those after it are gone.
        return [f"{pointer}/{index}" for index in reversed(range(len(stored))) if normal(stored[index]) not in ours]
    return []


def _key_of(entries: list[Any]) -> str | None:
    """Returns the name of the field that identifies every entry. None for lists of plain values and of structs without
    such a field."""
    for key in _KEYS:
        values = [entry.get(key) for entry in entries if isinstance(entry, dict)]
        if len(values) == len(entries) and None not in values and len(set(values)) == len(values) and entries:
            return key
    return None


def _escaped(token: str) -> str:
    """Returns the text escaped as a reference token of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def _without_identity(manifest: Json) -> Json:
    return {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind")}


def _short(value: Any) -> str:
    text = json.dumps(value) if value is not None else "absent"
    return text if len(text) <= 60 else text[:57] + "..."


def _same_quantity(one: Any, other: Any) -> bool:
    left, right = quantity(one), quantity(other)
    return left is not None and left == right
