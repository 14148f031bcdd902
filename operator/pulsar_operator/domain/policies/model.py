"""The definition of a row of the policy table, and the pure functions that read it.

A row is everything the operator knows about one policy: its place in the spec, its place in Pulsar, and the conversion
between them. Plans (domain/logical) and the end-to-end test of the table use rows and know no single policy.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import Enum, StrEnum
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.domain.policies.kept import Keeps
from pulsar_operator.domain.texts import without_tokens


class Scope(StrEnum):
    """The object that a policy belongs to."""

    NAMESPACE = "namespace"
    TOPIC = "topic"
    RESOURCE_GROUP = "resource-group"
    ISOLATION_POLICY = "isolation-policy"


@dataclass(frozen=True)
class Call:
    """One admin REST call: raw path segments below ``/admin/v2``, query and JSON body (None if no body)."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str] = dataclass_field(default_factory=dict)
    body: Any = None
    """Body; None for no body, bytes are sent unchanged."""
    text: bool = False
    """Whether the answer is plain text."""
    media: str = "application/json"
    """Media type of the body."""


def encoded_again(segment: str) -> str:
    """Returns a path segment for a call of Pulsar that decodes it once more than HTTP does.

    Such calls pass the value that JAX-RS has decoded to class Codec, decode, while others annotate the parameter with
    @Encoded: they would convert a%2Fb to a/b, and a+b to "a b". This is the same in 4.0.8 and 4.2.4.
    """
    return quote(segment, safe="")


@dataclass(frozen=True)
class Undecodable:
    """A live value that the row cannot express, such as an enumeration of a newer Pulsar. It differs from every desired
    value."""

    raw: str


@dataclass(frozen=True)
class Unreadable:
    """Pulsar refused to return the value. The message is Pulsar's."""

    message: str


class Nothing(Enum):
    """The value for "not given" where None is a valid value."""

    NOTHING = "nothing"


NOTHING = Nothing.NOTHING
OLDEST = "4.0.0"
"""The oldest version of Pulsar that the operator supports."""
CLUSTER = "{cluster}"
"""Placeholder in ``live`` for the name of the cluster that answers."""


@dataclass(frozen=True)
class PolicyRow:
    """The definition of one policy."""

    scope: Scope
    field: str
    """Path in spec in the form of manifests, and the entry in status.managedFields. A suffix after "@" is not part of
    the path: it distinguishes values that Pulsar stores more than once for one field."""
    endpoint: tuple[str, ...]
    """Path segments after those of the namespace or topic."""
    encode: Callable[[Any], Any]
    """Converts a spec value to the request body."""
    decode: Callable[[Any], Any]
    """Converts live JSON to the spec value; None if Pulsar has no value for it. May raise for a value that cannot
    be expressed."""
    live: tuple[str, ...] = ()
    """Keys in the answer, from the outside in."""
    own_get: bool = False
    """Whether it has its own GET; otherwise one GET of the namespace contains all such policies."""
    read_endpoint: tuple[str, ...] | None = None
    """Endpoint of that GET if it differs."""
    text: bool = False
    """Whether Pulsar uses plain text instead of JSON for it."""
    per_cluster: bool = False
    """Whether each cluster has its own value, so that every cluster of the namespace is read and written."""
    set_method: str = "POST"
    set_decodes_twice: bool = False
    """Whether the write call decodes the topic's name twice; see encoded_again."""
    value_in_query: str | None = None
    """Name of the query parameter with the encoded value, which replaces the body."""
    value_in_path: bool = False
    """Whether the encoded value is the last path segment instead of the body."""
    set_by_delete: Any = NOTHING
    """The spec value that is written with DELETE."""
    remove: bool = True
    """Whether Pulsar can unset it. Otherwise a field that is removed from the spec keeps its value."""
    remove_endpoint: tuple[str, ...] | None = None
    """Endpoint of the DELETE that unsets it if it differs."""
    remove_body: Any = NOTHING
    """Body that unsets it, written like a value, if there is no DELETE; None for no body."""
    unset: Any = None
    """Spec value that Pulsar returns if it is not set."""
    query: Mapping[str, str] = dataclass_field(default_factory=dict)
    """Query of every call."""
    write_query: Mapping[str, str] = dataclass_field(default_factory=dict)
    """Additional query of the write calls."""
    equal: Callable[[Any, Any], bool] = lambda desired, found: bool(desired == found)
    value_in: Callable[[Any, str | None], Any] = lambda desired, cluster: desired
    """Returns the value that a cluster must have, for (desired value, cluster). The cluster is None for a value that
    all clusters share."""
    since_version: str = OLDEST
    """First version of Pulsar that has the policy."""
    unavailable: str | None = None
    """Why the operator does not write it although Pulsar accepts it; None if it is written."""
    keeps: Keeps | None = None
    """How much stored data a value keeps; None if no change lets Pulsar delete stored messages."""
    refused_without: str | None = None
    """Pulsar's answer (a regular expression) if an installation lacks what the examples need."""

    @property
    def path(self) -> str:
        """Returns the path in spec."""
        return self.field.partition("@")[0]

    def read(self, source: Any, cluster: str | None = None) -> Any:
        """Returns the live spec value from the answer; None if it is not set. ``cluster`` is the cluster that
        answered."""
        for key in self.live:
            if not isinstance(source, Mapping):
                return None
            source = source.get(cluster if key == CLUSTER else key)
        if source is None:
            return None
        try:
            return self.decode(source)
        except (ValidationError, ValueError, KeyError, TypeError, AttributeError):
            return Undecodable(json.dumps(source, sort_keys=True, default=str)[:256])

    def in_sync(self, desired: Any, found: Any) -> bool:
        """Whether Pulsar has the desired value."""
        return found is not None and not isinstance(found, Undecodable) and self.equal(desired, found)

    def is_set(self, found: Any) -> bool:
        """Whether the live value was set by a client, as opposed to Pulsar's value for unset."""
        return found is not None and not (self.unset is not None and self.in_sync(self.unset, found))

    def set_call(self, base: tuple[str, ...], value: Any) -> Call:
        """Returns the call that writes ``value``. ``base`` is the path of the namespace or topic."""
        query = {**self.query, **self.write_query}
        if self.set_decodes_twice:
            base = (*base[:-1], encoded_again(base[-1]))
        if value == self.set_by_delete:
            return Call("DELETE", base + self.endpoint, query)
        encoded = self.encode(value)
        if self.value_in_query is not None:
            return Call(self.set_method, base + self.endpoint, {**query, self.value_in_query: str(encoded)})
        if self.value_in_path:
            return Call(self.set_method, (*base, *self.endpoint, str(encoded)), query)
        return Call(self.set_method, base + self.endpoint, query, encoded)

    def remove_call(self, base: tuple[str, ...]) -> Call | None:
        """Returns the call that resets the policy to the inherited value; None if Pulsar has none."""
        if not self.remove:
            return None
        query = {**self.query, **self.write_query}
        if self.remove_body is not NOTHING:
            return Call(self.set_method, base + self.endpoint, query, self.remove_body)
        return Call("DELETE", base + (self.remove_endpoint or self.endpoint), query)

    def get_call(self, base: tuple[str, ...]) -> Call:
        """Returns the call that reads the policy that is set on the object itself."""
        query = {**self.query, "applied": "false"} if self.scope is Scope.TOPIC else dict(self.query)
        return Call("GET", base + (self.read_endpoint or self.endpoint), query, text=self.text)


def lookup(model: BaseModel, path: str) -> Any:
    """Returns the value at a path of manifest names such as policies.backlogQuotas.messageAge; None if it is not set.

    Raises KeyError for a name that the model does not have: a row must never be silently ignored.
    """
    value: Any = model
    for part in _parts(path):
        if value is None:
            return None
        kind: type[BaseModel] = type(value)
        value = getattr(value, _members(kind)[part])
    return value


def lookup_each(model: BaseModel, paths: Sequence[str]) -> dict[str, Any]:
    """Returns the values at several paths, each as by lookup. Most policies are not set, so an absent member is visited
    once for all paths through it."""
    found: dict[str, Any] = dict.fromkeys(paths)
    _descend(model, _tree(tuple(paths)), found)
    return found


@dataclass
class _Branch:
    """A member of a model that is part of some paths."""

    paths: list[str] = dataclass_field(default_factory=list)
    """Paths that end with it."""
    members: dict[str, _Branch] = dataclass_field(default_factory=dict)
    """Members by name in manifests."""


@functools.cache
def _tree(paths: tuple[str, ...]) -> _Branch:
    root = _Branch()
    for path in paths:
        branch = root
        for part in _parts(path):
            branch = branch.members.setdefault(part, _Branch())
        branch.paths.append(path)
    return root


def _descend(model: BaseModel, branch: _Branch, found: dict[str, Any]) -> None:
    members = _members(type(model))
    for part, below in branch.members.items():
        value = getattr(model, members[part])
        if value is None:
            continue
        for path in below.paths:
            found[path] = value
        if below.members:
            _descend(value, below, found)


@functools.cache
def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.partition("@")[0].split("."))


@functools.cache
def _members(model: type[BaseModel]) -> Mapping[str, str]:
    """Returns the attributes of a model by their names in manifests. It is cached, since every pass needs dozens of
    them."""
    return {info.alias or name: name for name, info in model.model_fields.items()}


def describe(value: Any) -> str:
    """Returns a value in the form of a manifest, compact and limited to 256 characters for messages."""
    if value is None:
        return "not set"
    if isinstance(value, Undecodable):
        return value.raw
    if isinstance(value, BaseModel):
        value = wire(value)
    if isinstance(value, Unreadable):
        return value.message
    if isinstance(value, (frozenset, set)):
        value = sorted(value)
    return without_tokens(json.dumps(value, sort_keys=True, ensure_ascii=True, default=str))[:256]


def concealed(value: Any) -> str:
    """Returns the same as describe for values that may contain secrets of users: keys are shown, values are not."""
    if isinstance(value, Mapping):
        return describe(dict.fromkeys(map(str, value), NOT_SHOWN))
    return describe(None) if value is None else NOT_SHOWN


NOT_SHOWN = "a value that is not shown"


@functools.lru_cache(maxsize=256)
def version_tuple(text: str) -> tuple[int, ...]:
    """Returns the leading numbers of a version, such as (4, 0, 8) for "4.0.8-SNAPSHOT"; empty if there are none."""
    numbers: list[int] = []
    for part in text.split("-", 1)[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def too_old(row: PolicyRow, version: str | None) -> bool:
    """Whether a cluster of that version lacks the policy. False if the version is unknown."""
    known = version_tuple(version or "")
    return bool(known) and known < version_tuple(row.since_version)
