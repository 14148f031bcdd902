"""Lists whose entries Pulsar stores under a key each: permissions by role, properties by name.

Source: classes Namespaces and PersistentTopics of the broker's admin v2, AuthPolicies of the client admin API (Pulsar
4.0), checked against a running 4.0.8 by tests/standalone/test_entries_real.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY, AuthAction
from pulsar_operator.domain.policies.codecs import words
from pulsar_operator.domain.policies.model import Call, Scope, Undecodable, concealed, describe, lookup

Base = tuple[str, ...]
THIS = "{this}"
"""Placeholder in ``live`` for the full name of the object."""


@dataclass(frozen=True)
class EntryRow:
    """The definition of one list."""

    scope: Scope
    field: str
    """Member of spec. An entry is ``field[key]`` in status.managedFields."""
    desired: Callable[[Any], Mapping[str, Any]]
    """Converts the member's value to values by key."""
    written: Callable[[Mapping[str, Any]], Any]
    """Converts values by key to the member in the form of a manifest."""
    decode: Callable[[Any], Any]
    """Converts the live JSON of one entry to its value; None if it is equivalent to no entry. May raise KeyError,
    ValueError, TypeError."""
    set_calls: Callable[[Base, Mapping[str, Any]], Iterable[tuple[tuple[str, ...], Call]]]
    """Returns the calls for (path of the object, values by key), each with the keys it writes."""
    remove_calls: Callable[[Base, str, Any], Iterable[Call]]
    """Returns the calls that remove an entry, for (path, key, live value)."""
    live: tuple[str, ...] = ()
    """Keys in the answer, from the outside in."""
    own_get: tuple[str, ...] | None = None
    """Endpoint of a separate GET; None if the GET of the namespace contains it."""
    reserved: frozenset[str] = frozenset()
    """Keys that are reserved for the operator and are not entries."""
    prune: str | None = None
    """Path in spec of the flag that declares the list as complete."""
    describe_value: Callable[[Any], str] = describe
    """Returns a value of an entry as text."""
    same: Callable[[Any, Any], bool] = lambda desired, found: bool(desired == found)

    def declared(self, spec: BaseModel) -> Mapping[str, Any]:
        """Returns the declared values by key."""
        return self.desired(lookup(spec, self.field) or ())

    def prunes(self, spec: BaseModel) -> bool:
        """Whether entries that are not declared are removed."""
        return self.prune is not None and bool(lookup(spec, self.prune))

    def read(self, answer: Any, this: str = "") -> dict[str, Any]:
        """Returns the live values by key; Undecodable for one that cannot be expressed. ``this`` is the full name of
        the object."""
        for key in self.live:
            answer = answer.get(this if key == THIS else key) if isinstance(answer, Mapping) else None
        found: dict[str, Any] = {}
        for key, value in (answer if isinstance(answer, Mapping) else {}).items():
            if key in self.reserved:
                continue
            try:
                decoded = self.decode(value)
            except (KeyError, ValueError, TypeError):
                decoded = Undecodable(repr(value)[:256])
            if decoded is not None:
                found[str(key)] = decoded
        return found

    def in_sync(self, desired: Any, found: Any) -> bool:
        """Whether Pulsar has the desired value."""
        return found is not None and not isinstance(found, Undecodable) and self.same(desired, found)


_ACTIONS = {action: action.value.lower() for action in AuthAction}
_action_out, _action_in = words(_ACTIONS)


def _actions(live: Any) -> list[AuthAction] | None:
    """Returns the actions of a role; None if there are none, since Pulsar stores an empty set for a role without
    actions."""
    return sorted(_action_in(each) for each in live) or None


def _same_members(desired: Any, found: Any) -> bool:
    return set(desired) == set(found)


def _each(*endpoint: str, encode: Callable[[Any], Any]) -> Callable[[Base, Mapping[str, Any]], Any]:
    """Returns a function that builds the calls: one POST for each entry, with the key as the last segment."""

    def calls(base: Base, values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Call]]:
        for key, value in values.items():
            yield (key,), Call("POST", (*base, *endpoint, key), body=encode(value))

    return calls


def _together(endpoint: str) -> Callable[[Base, Mapping[str, Any]], Any]:
    """Returns a function that builds the calls: one PUT that adds all entries to the existing ones."""

    def calls(base: Base, values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Call]]:
        if values:
            yield tuple(values), Call("PUT", (*base, endpoint), body=dict(values))

    return calls


def _by_role(permissions: Iterable[Any]) -> dict[str, Any]:
    return {each.role: sorted(each.actions) for each in permissions}


def _text(live: Any) -> str:
    if not isinstance(live, str):
        raise ValueError("not text")
    return live


def _revoke_all(base: Base, name: str, roles: Any) -> list[Call]:
    if isinstance(roles, Undecodable):
        return [Call("POST", (*base, "permissions", "subscription", name), body=[])]
    return [Call("DELETE", (*base, "permissions", name, role)) for role in roles]


def _encode_actions(actions: Any) -> list[str]:
    return [_action_out(each) for each in actions]


_PERMISSIONS = EntryRow(
    scope=Scope.NAMESPACE,
    field="permissions",
    desired=_by_role,
    written=lambda values: [{"role": role, "actions": [*map(str, actions)]} for role, actions in values.items()],
    decode=_actions,
    same=_same_members,
    set_calls=_each("permissions", encode=_encode_actions),
    remove_calls=lambda base, role, _: (Call("DELETE", (*base, "permissions", role)),),
    live=("auth_policies", "namespace_auth"),
    prune="prune.permissions",
)

NAMESPACE_ENTRIES: tuple[EntryRow, ...] = (
    _PERMISSIONS,
    EntryRow(
        scope=Scope.NAMESPACE,
        field="subscriptionPermissions",
        desired=lambda permissions: {each.subscription: sorted(each.roles) for each in permissions},
        written=lambda values: [{"subscription": name, "roles": list(roles)} for name, roles in values.items()],
        decode=lambda live: sorted(live) or None,
        same=_same_members,
        set_calls=_each("permissions", "subscription", encode=list),
        # The last role takes the entry along. Pulsar has no call that removes all of them.
        remove_calls=_revoke_all,
        live=("auth_policies", "subscription_auth_roles"),
        prune="prune.subscriptionPermissions",
    ),
    EntryRow(
        scope=Scope.NAMESPACE,
        field="properties",
        desired=dict,
        written=dict,
        decode=_text,
        set_calls=_together("properties"),
        # Pulsar answers with the value that was there, as plain text.
        remove_calls=lambda base, key, _: (Call("DELETE", (*base, "property", key), text=True),),
        live=("properties",),
        reserved=frozenset({OWNER_PROPERTY}),
        prune="prune.properties",
        describe_value=concealed,
    ),
)
"""Lists of a namespace. The answer of its GET contains all of them."""

TOPIC_ENTRIES: tuple[EntryRow, ...] = (
    # GET .../permissions of the topic adds those of the namespace, so the namespace is asked instead.
    replace(_PERMISSIONS, scope=Scope.TOPIC, live=("auth_policies", "destination_auth", THIS)),
    EntryRow(
        scope=Scope.TOPIC,
        field="properties",
        desired=dict,
        written=dict,
        decode=_text,
        set_calls=_together("properties"),
        remove_calls=lambda base, key, _: (Call("DELETE", (*base, "properties"), {"key": key}),),
        own_get=("properties",),
        reserved=frozenset({OWNER_PROPERTY}),
        prune="prune.properties",
        describe_value=concealed,
    ),
)
"""Lists of a topic. All clusters share permissions, and properties of a partitioned topic. Each cluster has its own
properties of a non-partitioned topic."""
