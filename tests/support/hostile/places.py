"""Hostile text in every place of the logical kinds that takes free text.

A place is a path in spec with ``[]`` for the items of a list, ``{key}`` and ``{}`` for the keys and values of a map.
Its form says what the API server refuses there; the rest must reach Pulsar exactly, or be refused by Pulsar with a
message at the object. tests/unit/logical/test_hostile_text.py shows that no place is missing: add a line to PLACES for
a new one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.crdschema import structural
from tests.support.admission.samples import minimal
from tests.support.mutations.chains import AROUND, KINDS, OF_TEMPLATES

Json = dict[str, Any]
PTN, PNS, PT, PIP, PTS = Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.ISOLATION_POLICY, Kind.TOPIC_SET

CONTROL: Mapping[str, str] = {
    "newline": "a\nb",
    "header": "a\r\nX-Injected: b",
    "tab": "a\tb",
    "null": "a\x00b",
    "delete": "a\x7fb",
    "trailing-newline": "a\n",
}
PATHS: Mapping[str, str] = {
    "slash": "a/b",
    "encoded-slash": "a%2Fb",
    "double-encoded": "a%252Fb",
    "encoded-letter": "%61",
    "dot": ".",
    "dots": "..",
    "encoded-dots": "%2e%2e",
    "up": "../../tenants/bystander",
    "parameter": "..;/a",
    "backslash": "..\\a",
    "query": "a?force=true&b=c",
    "fragment": "a#b",
}
WORDS: Mapping[str, str] = {
    "plus": "a+b",
    "percent": "50%",
    "semicolon": "a;b=c",
    "quotes": "a\"b'c`d",
    "braces": "{a}${b}",
    "comma": "a,b",
    "colon": "a:b",
    "asterisk": "*",
    "html": "<a>&amp;</a>",
    "endpoint": "subscription",
    "null-word": "null",
}
UNICODE: Mapping[str, str] = {
    "combining": "e\u0301",
    "precomposed": "\u00e9",
    "right-to-left": "\u202ea\u05d0\u0627",
    "emoji": "\U0001f600",
    "joined-emoji": "\U0001f468\u200d\U0001f469",
    "byte-order-mark": "\ufeffa",
    "no-break-space": "a\u00a0b",
    "line-separator": "a\u2028b",
    "c1-control": "a\x85b",
    "not-a-character": "a\uffffb",
}
SPACES: Mapping[str, str] = {"leading": " a", "trailing": "a ", "inside": "a b", "space": " "}
LENGTHS: Mapping[str, str] = {"empty": "", "64-kilobytes": "x" * 65536, "over-64-kilobytes": "x" * 65537}
VALUES: Mapping[str, str] = {**CONTROL, **PATHS, **WORDS, **UNICODE, **SPACES, **LENGTHS}
LONE_SURROGATE = "a\ud800b"
"""JSON can escape it, UTF-8 cannot have it: the API server stores U+FFFD instead."""

_LONG = {"64-kilobytes", "over-64-kilobytes"}
_BLANK = {"leading", "trailing", "inside", "space"}
_SLASHES = {"slash", "up", "parameter", "html"}


@dataclass(frozen=True)
class Form:
    """What a kind of text refuses at admission: labels of VALUES."""

    refused: frozenset[str]

    def takes(self, label: str) -> bool:
        """Whether the API server admits the value."""
        return label not in self.refused


def _refusing(*labels: str) -> Form:
    return Form(frozenset(labels))


NAME = _refusing(*(set(VALUES) - {"colon", "endpoint", "null-word"}))
"""Pulsar's own names (class NamedEntity), ASCII."""
DOMAIN = _refusing(*(NAME.refused - {"empty", "dot", "dots"}))
"""What follows the beginning of such a name."""
GROUP_WORD = _refusing(*(set(VALUES) - {"endpoint", "null-word"}))
PATH_TEXT = _refusing(*CONTROL, "dot", "dots", "empty", *_LONG)
"""A segment of a path."""
ROLE = _refusing(*CONTROL, "leading", "trailing", "space", "empty", *_LONG)
TOPIC = _refusing(*CONTROL, *_SLASHES, "dot", "dots", "trailing", "space", "empty", *_LONG)
TOPIC_PREFIX = _refusing(*CONTROL, *_SLASHES, "empty", *_LONG)
"""What a number follows."""
LIST_WORD = _refusing(*CONTROL, *_BLANK, "comma", "empty", *_LONG)
"""A member of what Pulsar keeps as one text with commas."""
CLASS = _refusing(*CONTROL, "empty", *_LONG)
"""A name that a broker repeats when it refuses it."""
FULL_TOPIC = _refusing(*CONTROL, *_SLASHES, "trailing", "space", *_LONG)
"""What follows the beginning of a full topic name."""
TEXT = _refusing("empty", *_LONG)
VALUE = _refusing(*_LONG)
KEY = _refusing(*CONTROL, "dot", "dots", "empty", *_LONG)
"""A key that is a segment of a path when it is removed."""
MAP_KEY = _refusing(*_LONG)
"""A key that only travels in a body."""
DEFINITION = _refusing("empty", "over-64-kilobytes")
EXPRESSION = _refusing("empty", "asterisk", *_LONG)
BROKER = BOUNDARY = TIME = _refusing(*VALUES)
KUBERNETES = _refusing(*_LONG, "empty")
"""Names of Kubernetes, never sent to Pulsar."""


@dataclass(frozen=True)
class Place:
    """One place."""

    kind: Kind
    path: str
    form: Form
    around: Json = field(default_factory=dict, hash=False)
    """Members beside it in the struct it belongs to."""
    before: Json = field(default_factory=dict, hash=False)
    """The rest of the specification."""
    prefix: str = ""
    """Where the text is only the end of the value."""
    suffix: str = ""
    """What the operator adds to it."""
    goes_to_pulsar: bool = True
    beside: tuple[str, ...] = ()
    """What else is in the list."""
    needs: str | None = None
    """What must be there for Pulsar to take it, so that it refuses it here."""

    @property
    def id(self) -> str:
        """For messages."""
        return f"{self.kind}-{self.path}"

    @property
    def names_it(self) -> bool:
        """Whether it cannot change, since the object is found by it."""
        return self.path in ("name", "count.prefix")

    @property
    def field(self) -> str:
        """The outermost field, which a refusal names."""
        return self.path.split(".")[0].split("[")[0].split("{")[0]

    def spec(self, text: str | None) -> Json:
        """A specification with the text there, or without it."""
        spec = copy.deepcopy(self.before)
        if text is not None:
            _put(spec, self.path, self.prefix + text, self.around, self.beside)
        return spec


def _put(place: Json, path: str, value: str, around: Json, beside: tuple[str, ...] = ()) -> None:
    head, _, rest = path.partition(".")
    name = head.rstrip("[]").split("{")[0]
    how = head[len(name) :]
    if rest:
        first = place.get(name, [{}] if how else {})
        inner = first[0] if how else first
        _put(inner, rest, value, around, beside)
        place[name] = [inner] if how else inner
        return
    for member, given in around.items():
        place.setdefault(member, copy.deepcopy(given))
    if how in ("{key}", "{}"):
        place[name] = {**place.get(name, {}), **({value: "v"} if how == "{key}" else {"k": value})}
    else:
        place[name] = [*beside, value] if how else value


_OFFLOAD: Json = {"driver": "AwsS3", "bucket": "b"}
_LEDGERS: Json = {"ensembleSize": 1, "writeQuorum": 1, "ackQuorum": 1, "maxMarkDeletesPerSecond": 1}
_LATEST: Json = {"initialPosition": "Latest"}
_SUBSCRIPTION: Json = {"name": "s", **_LATEST}
_DELETE: Json = {"deletionPolicy": "Delete"}
_ISOLATION: Json = {"clusters": ["{cluster}"], "namespaces": ["t/a"], "primary": ["x"]}
_CONFIRMATION: Json = {"action": "RemoveCluster", "cluster": "east", "expiresTime": "2099-01-01T00:00:00Z"}
_ONE = ("{cluster}",)
_CLUSTER = "a cluster of that name"
_PAIR: Json = {"schema": {"type": "KeyValue", "key": {"type": "String"}, "value": {"type": "String"}}}
_RECORD = '{"type":"record","name":"R","fields":[]}'
_HERE: Json = {"replicationClusters": ["{cluster}"]}
_TEMPLATE: Json = {
    "policies": {"maxProducers": 7, "messageTTLSeconds": 70, "autoSubscriptionCreation": {"enabled": False}},
    "properties": {"k": "v"},
    "schema": {"type": "String"},
}
"""A call to the endpoints that have the topic's name in their paths, also those that decode it in their own way."""
_TOPIC: Json = {
    **_TEMPLATE,
    "permissions": [{"role": "r", "actions": ["Produce"]}],
    "subscriptions": [_SUBSCRIPTION],
}


def _policies(kind: Kind, at: str, before: Json) -> Iterator[Place]:
    """What namespaces and topics have in common."""
    yield Place(kind, f"{at}.persistence.storageClass", CLASS, _LEDGERS, before)
    for name in ("bucket", "region", "serviceEndpoint", "s3Role", "s3RoleSessionName"):
        around = {key: value for key, value in _OFFLOAD.items() if key != name}
        yield Place(kind, f"{at}.offload.{name}", TEXT, around, before, needs="tiered storage")
    yield Place(kind, f"{at}.entryFilters[]", LIST_WORD, {}, before, needs="a filter of that name in the brokers")


def _namespace_policies(kind: Kind, at: str, before: Json) -> Iterator[Place]:
    yield from _policies(kind, at, before)
    yield Place(kind, f"{at}.bookieAffinityGroup.primary[]", LIST_WORD, {}, before)
    yield Place(kind, f"{at}.bookieAffinityGroup.secondary[]", LIST_WORD, {"primary": ["p"]}, before)
    yield Place(kind, f"{at}.allowedTopicPropertyKeysForMetrics[]", TEXT, {}, before, needs="Pulsar 4.2")
    yield Place(kind, f"{at}.antiAffinityGroup", GROUP_WORD, {}, before)
    yield Place(kind, f"{at}.resourceGroup", NAME, {}, before, needs="a group of that name")


def _lists(kind: Kind, before: Json) -> Iterator[Place]:
    yield Place(kind, "permissions[].role", PATH_TEXT, {"actions": ["Produce"]}, before)
    yield Place(kind, "properties{key}", KEY, {}, before)
    yield Place(kind, "properties{}", VALUE, {}, before)


def _avro(part: str) -> Json:
    """A topic with a schema whose key or value needs a definition."""
    return {"schema": {**_PAIR["schema"], part: {"type": "Avro", "definition": _RECORD}}}


def _templates() -> Iterator[Place]:
    """What a topic has and templates have."""
    for place in _OF_TOPICS:
        if place.field in OF_TEMPLATES:
            before = {**AROUND[PTS], "template": {"policyScope": "Local", **place.before}}
            yield replace(place, kind=PTS, path=f"template.{place.path}", before=before)


_OF_TOPICS: tuple[Place, ...] = (
    Place(PT, "name", TOPIC, {}, _TOPIC),
    *_policies(PT, "policies", {}),
    *_lists(PT, {}),
    Place(PT, "replicationClusters[]", NAME, beside=_ONE, needs=_CLUSTER),
    Place(PT, "compaction.schedule", BOUNDARY),
    Place(PT, "policies.shadowTopics[]", FULL_TOPIC, prefix="{shadow}"),
    Place(PT, "subscriptions[].name", PATH_TEXT, _LATEST, _DELETE),
    Place(PT, "subscriptions[].properties{key}", MAP_KEY, _SUBSCRIPTION, _DELETE),
    Place(PT, "subscriptions[].properties{}", VALUE, _SUBSCRIPTION, _DELETE),
    Place(PT, "schema.definition", DEFINITION, {"type": "Avro"}, needs="a definition"),
    *(Place(PT, f"schema.{part}.definition", TEXT, {}, _avro(part), needs="a definition") for part in ("key", "value")),
    Place(PT, "schema.properties{key}", MAP_KEY, {"type": "String"}),
    Place(PT, "schema.properties{}", VALUE, {"type": "String"}),
)
PLACES: tuple[Place, ...] = (
    *(Place(kind, "name", NAME, {}, AROUND.get(kind, {})) for kind in KINDS if kind not in (PT, PIP, PTS)),
    Place(PTN, "adminRoles[]", ROLE),
    Place(PTN, "allowedClusters[]", NAME, {}, {"allowedClusters": [*_ONE]}, beside=_ONE, needs=_CLUSTER),
    Place(PTN, "allowedKubernetesNamespaces[]", KUBERNETES, goes_to_pulsar=False),
    *_namespace_policies(PTN, "namespaceDefaults", {}),
    *_namespace_policies(PNS, "policies", _HERE),
    *_lists(PNS, _HERE),
    Place(PNS, "replicationClusters[]", NAME, {}, _HERE, beside=_ONE, needs=_CLUSTER),
    Place(PNS, "allowedClusters[]", NAME, {}, {**_HERE, "allowedClusters": [*_ONE]}, beside=_ONE, needs=_CLUSTER),
    Place(PNS, "confirmations[].cluster", NAME, _CONFIRMATION, _HERE, goes_to_pulsar=False),
    Place(PNS, "confirmations[].expiresTime", TIME, _CONFIRMATION, _HERE, goes_to_pulsar=False),
    Place(PNS, "subscriptionPermissions[].subscription", PATH_TEXT, {"roles": ["r"]}, _HERE),
    Place(PNS, "subscriptionPermissions[].roles[]", PATH_TEXT, {"subscription": "s"}, _HERE),
    Place(PNS, "allowedKubernetesNamespaces[]", KUBERNETES, {}, _HERE, goes_to_pulsar=False),
    Place(PNS, "bundles.boundaries[]", BOUNDARY),
    *_OF_TOPICS,
    *_templates(),
    Place(PTS, "names[]", TOPIC, {}, AROUND[PTS] | _DELETE | {"template": _TEMPLATE}, beside=("{own}",)),
    Place(PTS, "count.prefix", TOPIC_PREFIX, {"first": 0, "number": 1}, {"template": _TEMPLATE}, suffix="0"),
    Place(PTS, "patterns[]", TEXT, {}, {"template": {}}, goes_to_pulsar=False),
    Place(PIP, "name", NAME, {}, _ISOLATION),
    Place(PIP, "clusters[]", NAME, {}, _ISOLATION, beside=_ONE, needs=_CLUSTER),
    Place(PIP, "namespaces[]", EXPRESSION, {}, _ISOLATION),
    Place(PIP, "primary[]", EXPRESSION, {}, _ISOLATION),
    Place(PIP, "secondary[]", EXPRESSION, {}, _ISOLATION),
    Place(PIP, "failureDomains[].name", DOMAIN, {"brokers": ["{own}:1"]}, _ISOLATION, prefix="{own}-"),
    Place(PIP, "failureDomains[].brokers[]", BROKER, {"name": "d"}, _ISOLATION),
)
SIZES = (
    "retention.size",
    "Storage.limit",
    ".compactionThreshold",
    ".maxMessageSize",
    "offload.threshold",
    "BlockSize",
    "BufferSize",
)
CHECKED_ELSEWHERE = ("Ref.name", "Ref.namespace", ".maxMarkDeletesPerSecond", *SIZES)
"""Ends of paths that are left out: names in Kubernetes, which tests/support/admission/rules.py has, and numbers."""


def text_places(kind: Kind) -> list[str]:
    """Every place of a kind that takes text which is no word of a closed list."""
    found = _texts(structural(MODELS[kind].spec), "")
    return [path for path in found if not path.endswith(CHECKED_ELSEWHERE)]


def _texts(schema: Json, path: str) -> Iterator[str]:
    if (schema.get("type") == "string" and "enum" not in schema) or schema.get("x-kubernetes-int-or-string"):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from _texts(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from _texts(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield f"{path}{{key}}"
        yield from _texts(schema["additionalProperties"], f"{path}{{}}")


def references(kind: Kind) -> Json:
    """The reference to the parent."""
    return {name: value for name, value in minimal(kind).items() if name.endswith("Ref")}
