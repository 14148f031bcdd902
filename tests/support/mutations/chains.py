"""Fields of the logical kinds without a row in the policy table, and values to change them to; see changes.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.policies import Offload

Json = dict[str, Any]
PTN, PNS, PT, PRG, PIP = Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY
PTS = Kind.TOPIC_SET
KINDS = (PTN, PNS, PT, PRG, PIP, PTS)
VERSION = "4.0.8"
"""Of the Pulsar that tests/support/logical/world.py tells of."""
ABSENT: Any = None
"""In place of a value: the field is not set."""


@dataclass(frozen=True)
class Mutation:
    """One change of one field. Words in braces stand for things a test makes first; see bench.py."""

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


def _offload(at: str) -> dict[str, str]:
    """Members of a policy that is refused as a whole."""
    return {
        f"{at}.offload.{info.alias or name}": "refused with its struct" for name, info in Offload.model_fields.items()
    }


FIXED: Mapping[Kind, Mapping[str, str]] = {
    PTN: {"name": "immutable", "instanceRef": "immutable", **_offload("namespaceDefaults")},
    PNS: {
        "name": "immutable",
        "tenantRef": "immutable",
        "bundles": "immutable: counts at creation",
        **_offload("policies"),
    },
    PT: {"name": "immutable", "namespaceRef": "immutable", "persistent": "immutable", **_offload("policies")},
    PRG: {"name": "immutable", "instanceRef": "immutable"},
    PIP: {"name": "immutable", "instanceRef": "immutable", "autoFailover.type": "has one value"},
    PTS: {
        "namespaceRef": "immutable",
        "count.prefix": "immutable",
        "count.first": "immutable",
        **_offload("template.policies"),
    },
}
"""Fields, with all below them, that no mutation changes, and why."""

OURS = {"without_effect": "it says what the operator does, not what Pulsar has"}
EMPTY = {"without_effect": "nothing is in it"}
PRUNE = {"without_effect": "it counts for what others set, which tests/unit/logical/test_entries.py has"}
LATER = {"without_effect": "no compaction is due"}
KEPT = {"stays": "no schema is deleted, and Pulsar does not make an older one the newest again"}
LET_GO = {"stays": "a topic that leaves the set is let go as it is"}
SAME = {"without_effect": "the same topics match"}
UNMANAGED = {"stays": "removed from the spec it is not managed any more, and stays as it is"}
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
STRING, INT32 = {"type": "String"}, {"type": "Int32"}
LONGER = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int","default":0}]}'
DELETE: Json = {"deletionPolicy": "Delete"}
FOUND: Json = {"names": ABSENT, "template": {"policies": {"maxProducers": 3}, "properties": {"a": "1"}}}
"""Around patterns; bench.py makes topics for them, whose local names end with -x and -y."""
PAIR: Json = {"type": "KeyValue", "key": STRING, "value": INT32}
AS_IT_IS = {"without_effect": "Pulsar cannot change a version it has", "unlike_fresh": "it is uploaded with it"}
PARTS: Json = {"partitions": 2}


def _grant(role: str, *actions: str) -> Json:
    return {"role": role, "actions": list(actions)}


def _reserve(subscription: str, *roles: str) -> Json:
    return {"subscription": subscription, "roles": list(roles)}


def _confirmation(cluster: str, year: int) -> Json:
    return {"action": "RemoveCluster", "cluster": cluster, "expiresTime": f"{year}-01-01T00:00:00Z"}


def _sub(name: str = "s", **members: Any) -> Json:
    return {"name": name, **members}


def _numbered() -> Json:
    return {"names": ABSENT, "count": {"prefix": "{own}-"}}


def _domain(name: str, *brokers: str) -> Json:
    return {"name": f"{{own}}-{name}", "brokers": [f"{{own}}-{broker}:8080" for broker in brokers]}


def _subs(about: str, *values: Json, name: str = "", **more: Any) -> Chain:
    """A subscription whose members change."""
    return Chain(f"subscriptions.{about}", [[_sub(**value)] for value in values], DELETE, name, more)


_DRIFT = Chain("driftPolicy", (ABSENT, "Repair", "Report"), more=OURS)
_COMMON = (Chain("deletionPolicy", (ABSENT, "Retain", "Delete", "ForceDelete"), more=OURS), _DRIFT)
_PARENTS = (*_COMMON, Chain("allowedKubernetesNamespaces", (ABSENT, [], ["other"], ["*"]), more=OURS))
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
    Chain("prune", (ABSENT, {}), more=PRUNE),
    Chain("prune.permissions", (ABSENT, False, True), {"permissions": [_grant("a", "Produce")]}, more=PRUNE),
    Chain("prune.properties", (ABSENT, False, True), {"properties": {"a": "b"}}, more=PRUNE),
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
        Chain("prune", (ABSENT, {}), more=PRUNE),
        Chain("prune.adminRoles", (ABSENT, False, True), {"adminRoles": ["a"]}, more=PRUNE),
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
            more={"stays": "a cluster leaves by confirmation only: Pulsar deletes the data there"},
        ),
        Chain(
            "confirmations",
            (
                ABSENT,
                [],
                [_confirmation("{other}", 2098)],
                [_confirmation("{other}", 2099)],
                [_confirmation("x", 2099)],
            ),
            more={"without_effect": "no cluster leaves the namespace"},
        ),
        Chain(
            "subscriptionPermissions",
            (ABSENT, [], [_reserve("s", "a")], [_reserve("s", "b", "a/%2F \u00fc")], [_reserve("s/%2F \u00fc", "c")]),
        ),
        Chain("prune.subscriptionPermissions", (ABSENT, False, True), more=PRUNE),
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
            more={"no_way_back": "spec.partitions cannot be reduced", "stays": "Pulsar cannot remove partitions"},
        ),
        Chain("policies", (ABSENT, {}), more=EMPTY),
        Chain("compaction", (ABSENT, {"schedule": "0 3 1 7 *"}), more=LATER),
        Chain("compaction.schedule", ("0 3 1 7 *", "0 4 1 7 *"), more=LATER),
        # Further clusters are not for a namespace that is in one.
        Chain("replicationClusters", (ABSENT, ["{cluster}"])),
        Chain(
            "replicationClusters",
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
    PTS: (
        Chain("deletionPolicy", (ABSENT, "Retain", "Delete"), more=OURS),
        _DRIFT,
        Chain(
            "names",
            ([], ["{own}"], ["{own}", "{own}-b%2F \u00fc"], ["{own}-b%2F \u00fc"]),
            DELETE,
        ),
        Chain("names", (["{own}"], ["{own}", "{own}-b"]), DELETE | {"template": {"partitions": 2}}, "parts"),
        Chain("names", (["{own}"], ["{own}", "{own}-b"]), name="kept", more=LET_GO),
        Chain("count.number", (0, 2, 3), DELETE | _numbered()),
        Chain("count.number", (2, 3), _numbered(), "kept", LET_GO),
        Chain("patterns", (["{own}-x"], ["{own}-?"]), FOUND, more=LET_GO),
        Chain(
            "patterns", (["{own}-?"], ["{own}-[xy]", "{own}-z*"]), FOUND, "same", {"without_effect": "the same match"}
        ),
        Chain(
            "patterns", (["{own}-x"], ["{own}-y"]), FOUND, "other", LET_GO | {"unlike_fresh": "it never had the other"}
        ),
        Chain(
            "template.partitions",
            (2, 3),
            more={"no_way_back": "spec.template.partitions cannot be reduced"},
        ),
    ),
}
"""Fields without a row in the policy table. Bundles and others in FIXED need none."""

AROUND: Mapping[Kind, Json] = {
    PNS: {"replicationClusters": ["{cluster}"]},
    PIP: {"clusters": ["{cluster}"], "namespaces": ["t/a"], "primary": ["x"]},
    PTS: {"names": ["{own}"], "template": {}},
}
"""What every specification of a kind has, unless a chain says otherwise."""
REQUIRED = frozenset({"namespaces", "primary"})
"""Fields that cannot be added or removed."""
TOLD_ELSEWHERE = frozenset(
    {
        *((PNS, field) for field in ("replicationClusters", "allowedClusters")),
        *((PT, field) for field in ("replicationClusters", "replicationClusters@Global")),
    }
)
"""Rows, by kind, whose chain is in CHAINS."""
OF_TEMPLATES = ("policies", "policyScope", "properties", "schema")
"""Fields of a topic that the template of a set has too."""
