"""Changes of every field of the logical kinds, S0 to S1, for tests that make each one and take it back.

Fields with a row in the policy table get theirs from the row's examples, so a new policy needs nothing here. Other
fields are in CHAINS: add a line there for a new one, or a reason to FIXED. tests/unit/mutations shows that no field is
missing, tests/integration/api that the API server admits every change; tests/support/mutation_bench.py makes them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS, wire
from pulsar_operator.crdgen import structural
from pulsar_operator.domain.policies import GLOBAL_POLICIES, LOCAL_POLICIES, NAMESPACE_POLICIES, PolicyRow, too_old
from pulsar_operator.domain.policies.instance_rows import ISOLATION_FIELDS, RESOURCE_GROUP_LIMITS

Json = dict[str, Any]
PTN, PNS, PT, PRG, PIP = Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY
KINDS = (PTN, PNS, PT, PRG, PIP)
VERSION = "4.0.8"
"""Of the Pulsar that tests/support/logical.py tells of."""
ABSENT: Any = None
"""In place of a value: the field is not set."""


@dataclass(frozen=True)
class Mutation:
    """One change of one field. Words in braces stand for things a test makes first; see mutation_bench.py."""

    kind: Kind
    path: str
    """Path in spec; members of the items of a list have the list's path before theirs."""
    id: str
    before: Json = field(hash=False)
    """S0, without the reference to the parent."""
    after: Json = field(hash=False)
    """S1."""
    without_effect: str | None = None
    """Why Pulsar looks the same with S0 and with S1."""
    refused: str | None = None
    """What Pulsar answers to S1 (a regular expression); it then looks the same with S0 and with S1."""
    no_way_back: str | None = None
    """What the API server says to S0 after S1, which it refuses."""
    stays: str | None = None
    """Why Pulsar does not look as before when S0 comes back."""
    unlike_fresh: str | None = None
    """Why an object that began with S1 looks different from one that came to it."""
    in_memory: str | None = None
    """Why it cannot be made on one real cluster."""


@dataclass(frozen=True)
class Chain:
    """Values of one field; each is a mutation of the one before it. ``more`` are further members of Mutation."""

    path: str
    values: Sequence[Any]
    around: Json = field(default_factory=dict)
    """The rest of the specification."""
    name: str = ""
    """Tells it apart from others of the same field."""
    more: Json = field(default_factory=dict)


FIXED: Mapping[Kind, Mapping[str, str]] = {
    PTN: {"name": "immutable", "instanceRef": "immutable"},
    PNS: {"name": "immutable", "tenantRef": "immutable", "bundles": "immutable: counts at creation"},
    PT: {"name": "immutable", "namespaceRef": "immutable", "persistence": "immutable"},
    PRG: {"name": "immutable", "instanceRef": "immutable"},
    PIP: {"name": "immutable", "instanceRef": "immutable", "autoFailover.type": "has one value"},
}
"""Fields, with all below them, that no mutation changes, and why."""

OURS = {"without_effect": "it says what the operator does, not what Pulsar has"}
EMPTY = {"without_effect": "nothing is in it"}
EXACT = {"without_effect": "it counts for what others set, which tests/unit/logical/test_entries.py has"}
LATER = {"without_effect": "no compaction is due"}
KEPT = {"stays": "no schema is deleted, and Pulsar does not make an older one the newest again"}
UNMANAGED = {"stays": "removed from the spec it is not managed any more, and stays as it is"}
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
STRING, INT32 = {"type": "String"}, {"type": "Int32"}
LONGER = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int","default":0}]}'
DELETE: Json = {"deletionPolicy": "Delete"}
PAIR: Json = {"type": "KeyValue", "key": STRING, "value": INT32}
AS_IT_IS = {"without_effect": "Pulsar cannot change a version it has", "unlike_fresh": "it is uploaded with it"}
PARTS: Json = {"partitions": 2}


def _grant(role: str, *actions: str) -> Json:
    return {"role": role, "actions": list(actions)}


def _reserve(subscription: str, *roles: str) -> Json:
    return {"subscription": subscription, "roles": list(roles)}


def _consent(cluster: str, year: int) -> Json:
    return {"action": "RemoveCluster", "cluster": cluster, "expiresTime": f"{year}-01-01T00:00:00Z"}


def _sub(name: str = "s", **members: Any) -> Json:
    return {"name": name, **members}


def _domain(name: str, *brokers: str) -> Json:
    return {"name": f"{{own}}-{name}", "brokers": [f"{{own}}-{broker}:8080" for broker in brokers]}


def _subs(about: str, *values: Json, name: str = "", **more: Any) -> Chain:
    """A subscription whose members change."""
    return Chain(f"subscriptions.{about}", [[_sub(**value)] for value in values], DELETE, name, more)


_COMMON = (
    Chain("deletionPolicy", (ABSENT, "Retain", "Delete", "ForceDelete"), more=OURS),
    Chain("driftPolicy", (ABSENT, "Repair", "Report"), more=OURS),
)
_PARENTS = (*_COMMON, Chain("allowedNamespaces", (ABSENT, [], ["other"], ["*"]), more=OURS))
_LISTS = (
    Chain(
        "permissions",
        (
            ABSENT,
            [],
            [_grant("a", "Produce")],
            [_grant("a", "Consume", "Functions")],
            [_grant("b", "Sources", "Sinks", "Packages")],
            [_grant("b", "Sources", "Sinks", "Packages"), _grant("a/b%2F \u00fc", "Produce")],
        ),
    ),
    Chain("properties", (ABSENT, {}, {"a": "1"}, {"a": "2"}, {"a": "2", "b/%2F \u00fc": ""}, {"c": "\u03bb"})),
    Chain("exact", (ABSENT, {}), more=EXACT),
    Chain("exact.permissions", (ABSENT, False, True), {"permissions": [_grant("a", "Produce")]}, more=EXACT),
    Chain("exact.properties", (ABSENT, False, True), {"properties": {"a": "b"}}, more=EXACT),
)
_RATES: tuple[Json, ...] = (
    {"messagesPerPeriod": 10},
    {"bytesPerPeriod": 1048576},
    {"bytesPerPeriod": 1048576, "periodSeconds": 7},
    {"bytesPerPeriod": 1048576, "periodSeconds": 7, "relativeToPublishRate": True},
)

CHAINS: Mapping[Kind, tuple[Chain, ...]] = {
    PTN: (
        *_PARENTS,
        Chain("adminRoles", (ABSENT, [], ["a"], ["a", "b/%2F \u00fc"], ["d"])),
        Chain("exact", (ABSENT, {}), more=EXACT),
        Chain("exact.adminRoles", (ABSENT, False, True), {"adminRoles": ["a"]}, more=EXACT),
        Chain("allowedClusters", (["{cluster}", "{other}"], ["{cluster}"])),
        Chain("allowedClusters", (ABSENT, ["{cluster}"]), name="named"),
        Chain("namespaceDefaults", (ABSENT, {}), more=EMPTY),
    ),
    PNS: (
        *_PARENTS,
        *_LISTS,
        Chain(
            "replicationClusters",
            (["{cluster}"], ["{cluster}", "{other}"]),
            more={"stays": "a cluster that leaves stays among those that may hold the namespace"},
        ),
        Chain("allowedClusters", (ABSENT, ["{cluster}"]), more=UNMANAGED),
        Chain(
            "allowedClusters",
            (["{cluster}"], ["{cluster}", "{other}"]),
            name="more",
            more={"stays": "a cluster leaves by consent only: Pulsar deletes the data there"},
        ),
        Chain(
            "consents",
            (ABSENT, [], [_consent("{other}", 2098)], [_consent("{other}", 2099)], [_consent("x", 2099)]),
            more={"without_effect": "no cluster leaves the namespace"},
        ),
        Chain(
            "subscriptionPermissions",
            (ABSENT, [], [_reserve("s", "a")], [_reserve("s", "b", "a/%2F \u00fc")], [_reserve("s/%2F \u00fc", "c")]),
        ),
        Chain("exact.subscriptionPermissions", (ABSENT, False, True), more=EXACT),
        Chain("policies", (ABSENT, {}), more=EMPTY),
    ),
    PT: (
        *_COMMON,
        *_LISTS,
        Chain("permissions", ([_grant("a", "Produce")], [_grant("a", "Consume")]), PARTS, "parts"),
        Chain("properties", ({"a": "1"}, {"a": "2", "b": ""}), PARTS, "parts"),
        Chain(
            "partitions",
            (2, 3),
            more={"no_way_back": "spec.partitions cannot shrink", "stays": "Pulsar cannot remove a partition"},
        ),
        Chain("policies", (ABSENT, {}), more=EMPTY),
        Chain("compaction", (ABSENT, {"schedule": "0 3 1 7 *"}), more=LATER),
        Chain("compaction.schedule", ("0 3 1 7 *", "0 4 1 7 *"), more=LATER),
        Chain(
            "policies.replicationClusters",
            (ABSENT, ["{cluster}"]),
            {"policyScope": "Global", **PARTS},
            "global",
            {"refused": "when namespace-level replication is not enabled"},
        ),
        Chain("policyScope", (ABSENT, "Local"), {"policies": {"maxProducers": 3}}, "default", OURS),
        Chain("policyScope", ("Local", "Global"), {"policies": {"maxProducers": 3}}),
        Chain("subscriptions", (ABSENT, [], [_sub()], [_sub("t/%2F \u00fc")], [_sub("t/%2F \u00fc"), _sub()]), DELETE),
        Chain("subscriptions", ([_sub()], [_sub("t")]), DELETE | PARTS, "parts"),
        _subs(
            "initialPosition",
            *({}, {"initialPosition": "Latest"}, {"initialPosition": "Earliest"}),
            without_effect="it counts when the subscription is made",
            unlike_fresh="that one is made at the other end",
        ),
        _subs("replicated", {"replicated": False}, {"replicated": True}),
        _subs("replicated", {}, {"replicated": True}, name="added", **UNMANAGED),
        _subs("properties", {"properties": {}}, {"properties": {"a": "b"}}, {"properties": {"a": "c", "/": "\u00fc"}}),
        _subs("properties", {}, {"properties": {"a": "b"}}, name="added", **UNMANAGED),
        _subs("dispatchRate", {}, *({"dispatchRate": rate} for rate in _RATES)),
        Chain("schema", (ABSENT, {"type": "String"}), more=KEPT),
        Chain("schema", (ABSENT, {"type": "Json", "definition": RECORD}), name="record", more=KEPT),
        Chain(
            "schema.definition",
            (RECORD, LONGER),
            {"schema": {"type": "Avro"}},
            more=KEPT | {"unlike_fresh": "it has both versions"},
        ),
        Chain(
            "schema.type",
            ("Int32", "Int64"),
            more={"refused": "(?i)incompatible", "unlike_fresh": "without an older version Pulsar takes it"},
        ),
        Chain(
            "schema.properties",
            (ABSENT, {"a": "b"}, {"a": "c"}),
            {"schema": {"type": "String"}},
            more=AS_IT_IS,
        ),
        Chain("schema", (ABSENT, PAIR), name="pair", more=KEPT),
        Chain("schema.encoding", (ABSENT, "Inline"), {"schema": PAIR}, more=EMPTY),
        Chain("schema.encoding", ("Inline", "Separated"), {"schema": PAIR}, "other", AS_IT_IS),
        *(
            chain
            for part in ("key", "value")
            for chain in (
                Chain(f"schema.{part}", (STRING, INT32), {"schema": PAIR}, more=AS_IT_IS),
                Chain(f"schema.{part}.type", ("String", "Int32"), {"schema": PAIR}, more=AS_IT_IS),
                Chain(
                    f"schema.{part}.definition",
                    (RECORD, LONGER),
                    {"schema": {**PAIR, part: {"type": "Avro"}}},
                    more=KEPT | {"unlike_fresh": "it has both versions"},
                ),
            )
        ),
    ),
    PRG: (
        *_COMMON,
        Chain("limits", (ABSENT, {}), more=EMPTY),
        Chain("limits.publishRate", (ABSENT, {}), more=EMPTY),
        Chain("limits.dispatchRate", (ABSENT, {}), more=EMPTY),
    ),
    PIP: (
        *_COMMON,
        Chain(
            "clusters",
            (["{cluster}"], ["{cluster}", "{other}"]),
            more={"in_memory": "each cluster must answer for itself"},
        ),
        Chain("clusters", (ABSENT, ["{cluster}"]), name="named", more={"in_memory": "each cluster must answer"}),
        Chain(
            "failureDomains",
            (
                ABSENT,
                [_domain("d", "a")],
                [_domain("d", "a", "b")],
                [_domain("d", "b"), _domain("e", "a")],
                [_domain("e", "a")],
            ),
        ),
    ),
}
"""Fields without a row in the policy table. Bundles and others in FIXED need none."""

AROUND: Mapping[Kind, Json] = {
    PNS: {"replicationClusters": ["{cluster}"]},
    PIP: {"clusters": ["{cluster}"], "namespaces": ["t/a"], "primary": ["x"]},
}
"""What every specification of a kind has, unless a chain says otherwise."""
REQUIRED = frozenset({"namespaces", "primary"})
"""Fields that cannot be added or removed."""
TOLD_ELSEWHERE = frozenset({"replicationClusters", "allowedClusters", "policies.replicationClusters@Global"})
"""Rows whose chain is in CHAINS."""


def mutations(kind: Kind) -> list[Mutation]:
    """Every mutation of a kind."""
    rows: dict[Kind, list[tuple[PolicyRow, str, Json]]] = {
        PTN: [],
        PNS: [(row, "", {}) for row in NAMESPACE_POLICIES],
        PT: [(row, "", {}) for row in LOCAL_POLICIES]
        + [(row, "global", {"policyScope": "Global", **PARTS}) for row in GLOBAL_POLICIES],
        PRG: [(row, "", {}) for row in RESOURCE_GROUP_LIMITS],
        PIP: [(row, "", {}) for row in ISOLATION_FIELDS],
    }
    chains = [*CHAINS[kind], *(_of_row(*each) for each in rows[kind] if each[0].field not in TOLD_ELSEWHERE)]
    out = [mutation for chain in chains for mutation in links(kind, chain)]
    return [*out, *_defaults()] if kind is PTN else out


def _of_row(row: PolicyRow, name: str, around: Json) -> Chain:
    # A value that Pulsar also shows where nobody set one comes last: it makes no difference there.
    values = [_written(example) for example in sorted(row.examples, key=lambda each: not row.is_set(each))]
    values = values if row.path in REQUIRED else [ABSENT, *values]
    if too_old(row, VERSION):
        return Chain(row.path, values[:2], around, name, {"refused": f"needs Pulsar {row.since_version}"})
    if row.refused_without is not None:
        return Chain(row.path, values[:2], around, name, {"refused": row.refused_without})
    return Chain(row.path, values, around, name)


def _defaults() -> Iterator[Mutation]:
    """Policies of a namespace as spec.namespaceDefaults of its tenant."""
    for each in mutations(PNS):
        if each.path.startswith("policies."):
            path = each.path.replace("policies", "namespaceDefaults", 1)
            values = [{"namespaceDefaults": spec.get("policies", {})} for spec in (each.before, each.after)]
            yield Mutation(PTN, path, f"namespaceDefaults-{each.id}", *values, refused=each.refused)


def links(kind: Kind, chain: Chain) -> Iterator[Mutation]:
    """The mutations of a chain."""
    path = chain.path.split(".")
    # Members of list items: the values are whole lists.
    place = path[:1] if path[0] == "subscriptions" else path
    specs = [with_value({**AROUND.get(kind, {}), **chain.around}, place, value) for value in chain.values]
    label = "-".join(filter(None, (chain.path, chain.name)))
    for number, (before, after) in enumerate(pairwise(specs), start=1):
        more = EMPTY if chain.values[number - 1] is ABSENT and chain.values[number] in ([], {}) else chain.more
        yield Mutation(kind, chain.path, f"{label}-{number}", before, after, **more)


def with_value(spec: Json, path: Sequence[str], value: Any) -> Json:
    """The specification with the value there, in structs that are made where they are missing; ABSENT removes."""
    out = copy.deepcopy(spec)
    place = out
    for step in path[:-1]:
        place = place.setdefault(step, {})
    place.pop(path[-1], None)
    if value is not ABSENT:
        place[path[-1]] = copy.deepcopy(value)
    return out


def _written(value: Any) -> Any:
    """An example of the table as it is in a manifest, with its words in braces."""
    if isinstance(value, BaseModel):
        return wire(value)
    return [_written(each) for each in value] if isinstance(value, list) else value


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """A specification with its words in braces replaced."""
    if isinstance(value, dict):
        return {key: filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, names) for each in value]
    if isinstance(value, str):
        for word, name in names.items():
            value = value.replace(f"{{{word}}}", name)
    return value


def fields(kind: Kind) -> list[str]:
    """Paths of all fields of the definition of a kind, below spec."""
    return list(_paths(structural(MODELS[kind].spec), ""))


def _paths(schema: Json, prefix: str) -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        yield prefix + name
        yield from _paths(child, f"{prefix}{name}.")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from _paths(schema[keyword], prefix)


def at(spec: Any, path: str) -> list[Any]:
    """Every value at a path; several below lists."""
    found = [spec]
    for step in path.split(".") if path else ():
        below = [each for value in found for each in (value if isinstance(value, list) else [value])]
        found = [each[step] for each in below if isinstance(each, dict) and step in each]
    return found


def changes(mutation: Mutation, path: str) -> bool:
    """Whether a field differs between S0 and S1 while the struct it belongs to is in both."""
    outer = path.rpartition(".")[0]
    specs = (mutation.before, mutation.after)
    there = all(any(isinstance(each, (dict, list)) for each in at(spec, outer)) for spec in specs)
    return there and at(mutation.before, path) != at(mutation.after, path)


def missing(kind: Kind) -> list[str]:
    """Fields that no mutation changes and no reason excuses."""
    excused = tuple(f"{path}." for path in FIXED[kind])
    found = mutations(kind)
    return [
        path
        for path in fields(kind)
        if not f"{path}.".startswith(excused) and not any(changes(each, path) for each in found)
    ]
