"""Tables of policies and lists with the calls they are written with; used by scripts/gen_docs.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from gen_reference import table  # beside this file

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.policies import (
    GLOBAL_POLICIES,
    LOCAL_POLICIES,
    NAMESPACE_POLICIES,
    NOTHING,
    OLDEST,
    UNMANAGED_KEYS,
    UNMANAGED_MEMBERS,
    Call,
    PolicyRow,
    Scope,
)
from pulsar_operator.domain.policies.entry_rows import NAMESPACE_ENTRIES, TOPIC_ENTRIES

POLICIES = "policies."
"""The struct of spec that rows are in, where they are policies."""


def policies() -> str:
    """The policy table of namespaces, with the admin REST calls made."""
    return table(
        ["field in spec", "set with", "reset with", "member", "kept by"],
        [
            [_field(row), _set(row), _reset(row), _member(row), "each cluster" if row.per_cluster else "the instance"]
            for row in NAMESPACE_POLICIES
        ],
    )


def topic_policies() -> str:
    """The policy table of topics."""
    scopes = {row.path for row in GLOBAL_POLICIES}
    return table(
        ["field in spec", "set with", "reset with", "policyScope"],
        [
            [_field(row), _set(row), _reset(row), "both" if row.path in scopes else "always Local"]
            for row in LOCAL_POLICIES
        ],
    )


def notes() -> dict[tuple[Kind, str], str]:
    """By kind and path of a field, what Pulsar has for it: the call that writes it, its name, and its first version."""
    defaults = tuple(row for row in NAMESPACE_POLICIES if row.field.startswith(POLICIES))
    found = {(Kind.TENANT, f"spec.namespaceDefaults.{row.field.removeprefix(POLICIES)}"): row for row in defaults}
    found |= {(Kind.NAMESPACE, f"spec.{row.field}"): row for row in NAMESPACE_POLICIES}
    found |= {(Kind.TOPIC, f"spec.{row.field}"): row for row in LOCAL_POLICIES}
    found |= {
        (Kind.TOPIC_SET, f"spec.template.{row.field}"): row for row in LOCAL_POLICIES if row.field.startswith(POLICIES)
    }
    return {where: _note(row) for where, row in found.items()}


def _note(row: PolicyRow) -> str:
    member = f", {_member(row)}" if row.live and row.scope is Scope.NAMESPACE else ""
    since = f"; from {row.since_version} on" if row.since_version != OLDEST else ""
    return f"In Pulsar: {_set(row)}{member}{since}."


def lists() -> str:
    """The lists of namespaces and topics that are managed by their entries, with the admin REST calls made."""
    return table(
        ["of", "list", "entries are set with", "an entry is taken back with"],
        [
            [
                row.scope.value,
                f"`{row.field}`",
                _calls(call for _, call in row.set_calls(("~",), {"{entry}": ()})),
                _calls(row.remove_calls(("~",), "{entry}", ("{role}",))),
            ]
            for row in (*NAMESPACE_ENTRIES, *TOPIC_ENTRIES)
        ],
    )


def _calls(calls: Iterable[Call]) -> str:
    return ", ".join(f"`{call.method} {'/'.join(call.path)}{_query(call.query)}`" for call in calls)


def unmanaged_policies() -> str:
    """What Pulsar keeps of a namespace or a topic and no field of the specifications sets."""
    rows = [["namespace", f"`{name}`", why] for name, why in UNMANAGED_KEYS.items()]
    rows += [["topic", f"`{name}`", why] for name, why in UNMANAGED_MEMBERS.items()]
    return table(["of", "in Pulsar", "why"], rows)


def _field(row: PolicyRow) -> str:
    """With the first version that has it, where that is not the oldest the operator knows."""
    return f"`{row.field}`" + (f" (from {row.since_version})" if row.since_version != OLDEST else "")


def _set(row: PolicyRow) -> str:
    value = "{value}"
    end = (value,) if row.value_in_path else ()
    query = {**row.query, **row.write_query, **({row.value_in_query: value} if row.value_in_query else {})}
    text = f"`{row.set_method} {'/'.join(('~', *row.endpoint, *end))}{_query(query)}`"
    return text if row.set_by_delete is NOTHING else f"{text} for true, `DELETE` for false"


def _member(row: PolicyRow) -> str:
    """Of class Policies, so of GET ~ and of the namespace's node in the configuration store."""
    return f"`{'.'.join(row.live)}`" if row.live else "read separately"


def _reset(row: PolicyRow) -> str:
    call = row.remove_call(("~",))
    if call is None:
        return "not reset: the value stays"
    body = "" if row.remove_body in (NOTHING, None) else f" {json.dumps(row.remove_body)}"
    return f"`{call.method} {'/'.join(call.path)}{_query(call.query)}{body}`"


def _query(query: Mapping[str, str]) -> str:
    """Without isGlobal, which every row of a topic with both scopes has."""
    pairs = [f"{name}={value}" for name, value in query.items() if name != "isGlobal"]
    return f"?{'&'.join(pairs)}" if pairs else ""
