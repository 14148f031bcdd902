"""Converts the policies that are set in Pulsar into values of a specification, by the rows of the policy table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.domain.export.rules import problem_of
from pulsar_operator.domain.policies import UNMANAGED_KEYS, PolicyRow, Undecodable, Unreadable
from pulsar_operator.domain.policies.entry_rows import EntryRow
from pulsar_operator.domain.policies.model import CLUSTER
from pulsar_operator.domain.texts import contains_secret, is_secret_name, resembles_secret, without_secrets

FILLED_IN: Mapping[str, Any] = {
    "offloadersDirectory": "./offloaders",
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 67108864,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1048576,
    "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 134217728,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1048576,
    "managedLedgerOffloadMaxThreads": 2,
    "managedLedgerOffloadReadThreads": 2,
    "managedLedgerOffloadPrefetchRounds": 1,
}
"""Members that Pulsar 4.0.8 adds to a value (class OffloadPoliciesImpl)."""
COMPUTED = frozenset({"limit", "s3Driver", "gcsDriver", "fileSystemDriver"})
"""Members that Pulsar computes from others."""
COMPUTED_KEYS = frozenset({"bundles", "deleted", "clusterThatCanDeleteNamespace"})
"""Keys of GET namespace that are not set values, or are read elsewhere."""
SECOND_COPY = {"clusterDispatchRate": "topicDispatchRate"}
"""Keys that Pulsar 4.0.8 stores a second time under an older name."""
SHOWN = 300


@dataclass(frozen=True)
class Note:
    """Something in Pulsar that the manifests do not contain."""

    about: str
    """The object in Pulsar, such as "topic persistent://shop/orders/clicks"."""
    text: str
    failed: bool = False
    """Whether it could not be read, as opposed to having no field."""


@dataclass(frozen=True)
class Found:
    """Values by policy, and notes about those that cannot be expressed."""

    values: tuple[tuple[PolicyRow, Any], ...]
    notes: tuple[tuple[str, bool], ...]
    """Pairs of a text and whether it could not be read."""


def _empty(value: Any) -> bool:
    """Whether a live value means that nothing is set."""
    if isinstance(value, Mapping):
        return all(_empty(each) for each in value.values())
    return value is None or value is False or value in (-1, "", [])


def shown(value: Any) -> str:
    """Returns a live value for a comment, compact, without anything that is named like or looks like a secret."""

    def without(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {k: "(not shown)" if is_secret_name(str(k)) else without(v) for k, v in item.items()}
        if isinstance(item, str) and without_secrets(item) != item:
            return "(not shown)"
        return [without(each) for each in item] if isinstance(item, list) else item

    text = json.dumps(without(value), sort_keys=True, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _dig(row: PolicyRow, answer: Any, cluster: str) -> Any:
    """Returns the part of the answer that the row decodes."""
    for key in row.live:
        answer = answer.get(cluster if key == CLUSTER else key) if isinstance(answer, Mapping) else None
    return answer


def _left_over(row: PolicyRow, source: Any, value: Any) -> list[str]:
    """Returns the members of the live value for which the specification has no field."""
    if not isinstance(source, Mapping):
        return []
    encoded = row.encode(value)
    known = set(encoded) if isinstance(encoded, Mapping) else set()
    return sorted(set(_set_members(source)) - known)


def _set_members(source: Any) -> Any:
    """Returns the live value without members that Pulsar adds."""
    if not isinstance(source, Mapping):
        return source
    return {
        name: member
        for name, member in source.items()
        if name not in COMPUTED and not _empty(member) and FILLED_IN.get(name) != member
    }


def _lean(row: PolicyRow, value: Any) -> Any:
    """Returns the value without members that are equal to Pulsar's defaults."""
    if not isinstance(value, BaseModel):
        return value
    for name, info in type(value).model_fields.items():
        if info.default is None and getattr(value, name) is not None:
            without = value.model_copy(update={name: None})
            value = without if row.equal(without, value) else value
    return value


def _in_cluster(row: PolicyRow, answer: Any, cluster: str) -> tuple[Any, list[str]]:
    """Returns the value in one cluster, or None, and notes about it."""
    source, value = _dig(row, answer, cluster), row.read(answer, cluster)
    if row.unavailable is not None and not _empty(_set_members(source)):
        return None, [
            f"{row.path} is {shown(_set_members(source))} in Pulsar, but is not managed, because {row.unavailable}"
        ]
    if value is None or isinstance(value, Undecodable):
        nobodys = value is None and (_empty(_set_members(source)) or source == row.remove_body)
        text = f"{row.path} is {shown(_set_members(source))} in Pulsar, which the field cannot express"
        return None, [] if nobodys else [text]
    rest = _left_over(row, source, value)
    text = f"{row.path} has members without a field, which a change of {row.path} would reset: {', '.join(rest)}"
    return (_lean(row, value) if row.is_set(value) else None), [text] if rest else []


def _same(row: PolicyRow, first: Any, second: Any) -> bool:
    return first is second if first is None or second is None else row.in_sync(first, second)


def read_policies(rows: Iterable[PolicyRow], answers: Mapping[str, Any], clusters: Sequence[str]) -> Found:
    """Returns the values that are set. ``answers`` has the answer for each policy by field; policies without one are
    left out.

    ``clusters`` are those whose values one answer can contain; the first is the one that answered.
    """
    values: list[tuple[PolicyRow, Any]] = []
    notes: dict[str, bool] = {}
    refused: dict[str, Unreadable] = {}
    for row in rows:
        if row.field not in answers:
            continue
        answer = answers[row.field]
        if isinstance(answer, Unreadable):
            refused[row.path] = answer
            continue
        many = clusters if CLUSTER in row.live else clusters[:1]
        found = [_in_cluster(row, answer, cluster) for cluster in many]
        notes |= {text: False for _, texts in found for text in texts}
        first = found[0][0]
        if any(not _same(row, first, value) for value, _ in found[1:]):
            each = {c: _dig(row, answer, c) for c in many}
            notes[f"{row.path} differs between the clusters ({shown(each)}), but the field applies to all clusters"] = (
                False
            )
        elif first is not None:
            values.append((row, first))
    if refused:
        first_of = next(iter(refused.values()))
        notes[f"{', '.join(refused)} could not be read: {first_of.message}"] = True
    return Found(tuple(values), tuple(notes.items()))


def with_lists(
    model: type[BaseModel], spec: Mapping[str, Any], lists: Iterable[tuple[EntryRow, Mapping[str, Any]]]
) -> tuple[dict[str, Any], list[str]]:
    """Returns the specification with the entries of its lists that an API server would admit, and notes about the
    others. ``lists`` has the live values by key for each list."""
    out, notes = dict(spec), []
    for row, found in lists:
        values = {key: value for key, value in sorted(found.items()) if not isinstance(value, Undecodable)}
        strange = {key: value.raw for key, value in found.items() if isinstance(value, Undecodable)}
        secret = [key for key in values if isinstance(values[key], str) and contains_secret(key, values[key])]
        for key in secret:
            del values[key]
            notes.append(f"{row.field}: {shown(key)} is not exported, because its value may be secret")
        if strange:
            notes.append(f"{row.field} is {shown(strange)} in Pulsar, which the field cannot express")
        if values and problem_of(model, {**out, row.field: row.written(values)}) is not None:
            values, refused = _admitted(model, out, row, values)
            notes += refused
        if values:
            out[row.field] = row.written(values)
    return out, notes


def _admitted(
    model: type[BaseModel], spec: Mapping[str, Any], row: EntryRow, values: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Returns the entries that are admitted together, tried one at a time, and notes about the others."""
    kept: dict[str, Any] = {}
    notes = []
    for key, value in values.items():
        problem = problem_of(model, {**spec, row.field: row.written({**kept, key: value})})
        if problem is None:
            kept[key] = value
        else:
            notes.append(
                f"{row.field}: entry {shown(key)} is not exported, because the API server would refuse it: {problem}"
            )
    return kept, notes


def unmanaged(live: Mapping[str, Any], rows: Iterable[PolicyRow], lists: Iterable[EntryRow]) -> Iterator[str]:
    """Yields texts about keys of GET namespace that neither a policy, nor a list, nor a default covers."""
    known = {row.live[0] for row in rows if row.live} | {row.live[0] for row in lists} | COMPUTED_KEYS
    for key in sorted(set(live) - known):
        value = live[key]
        if _empty(value) or (key in SECOND_COPY and value == live.get(SECOND_COPY[key])):
            continue
        reason = UNMANAGED_KEYS.get(key)
        yield (f"{key} {shown(value)} is not exported, because there is no field for it") + (
            f" ({reason})" if reason else ""
        )


def plain(value: Any) -> Any:
    """Returns a value of a specification in the form of a manifest."""
    if isinstance(value, BaseModel):
        return wire(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _with(spec: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    inner = _with(spec.get(first) or {}, rest, value) if rest else plain(value)
    return {**spec, first: inner}


def _may_be_secret(value: Any) -> bool:
    """Whether any text in a value of a specification looks like a secret."""
    if isinstance(value, Mapping):
        return any(map(_may_be_secret, value.values()))
    return (
        any(map(_may_be_secret, value))
        if isinstance(value, list)
        else isinstance(value, str) and resembles_secret(value)
    )


def laid_over(
    model: type[BaseModel], spec: Mapping[str, Any], values: Sequence[tuple[PolicyRow, Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Returns the specification with the values that an API server would admit, and notes about the others."""
    secret = [row for row, value in values if _may_be_secret(plain(value))]
    notes = [f"{row.path} is not exported, because its value may contain a secret" for row in secret]
    values = [(row, value) for row, value in values if row not in secret]
    whole = dict(spec)
    for row, value in values:
        whole = _with(whole, row.path, value)
    if problem_of(model, whole) is None:
        return whole, notes
    # One value at a time: of two that do not go together, the first in the order of the table stays.
    kept = dict(spec)
    for row, value in values:
        tried = _with(kept, row.path, value)
        problem = problem_of(model, tried)
        if problem is None:
            kept = tried
        else:
            notes.append(f"{row.path} is {shown(plain(value))} in Pulsar, which the API server would refuse: {problem}")
    return kept, notes


def may_hold_policies(stats: Mapping[str, Any]) -> bool:
    """Whether topic policies were ever set, according to internalStats of the namespace's topic __change_events."""
    compacted = stats.get("compactedLedger")
    size = compacted.get("size") if isinstance(compacted, Mapping) else None
    return stats.get("totalSize") != 0 or (isinstance(size, int) and size > 0)
