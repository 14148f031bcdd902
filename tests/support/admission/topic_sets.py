"""Cases for the admission rules of sets of topics; see tests/support/admission/rules.py."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic import SYSTEM_SUFFIX, SYSTEM_TOPICS
from tests.support.admission.policies import POLICY_CREATES
from tests.support.admission.rules import CREATES, Create, Json, Update

PTS = Kind.TOPIC_SET
PATTERN = "should match"
ONE_OF = "Exactly one of spec.names, spec.count and spec.patterns"
SELECTED = "The way in which topics are selected"
SYSTEM = "must not be the name of a system topic"
IS_PARTITION = "-partition-N"
PREFIX = "spec.count.prefix must not end with -partition-"
EXISTING = "spec.patterns selects existing topics"

COUNT: Json = {"names": None, "count": {"prefix": "x-", "number": 3}}
PATTERNS: Json = {"names": None, "patterns": ["x-*"]}


def _count(**fields: object) -> Json:
    return {"names": None, "count": {"prefix": "x-", "number": 3, **fields}}


def _template(**fields: object) -> Json:
    return {"template": fields}


TOPIC_SET_CREATES: tuple[Create, ...] = (
    Create(PTS, "names"),
    Create(PTS, "count", COUNT),
    Create(PTS, "patterns", PATTERNS),
    Create(PTS, "nothing", {"names": None}, ONE_OF),
    Create(PTS, "names-and-count", {"count": {"prefix": "x-", "number": 3}}, ONE_OF),
    Create(PTS, "names-and-patterns", {"patterns": ["x"]}, ONE_OF),
    Create(PTS, "no-template", {"template": None}, "Required value"),
    Create(PTS, "no-namespaceRef", {"namespaceRef": None}, "Required value"),
    Create(PTS, "names-none", {"names": []}),
    Create(PTS, "names-twice", {"names": ["a", "a"]}, "Duplicate value"),
    Create(PTS, "names-5000", {"names": [f"topic-{n}" for n in range(5000)]}),
    Create(PTS, "names-5001", {"names": [f"topic-{n}" for n in range(5001)]}, "must have at most 5000 items"),
    *(Create(PTS, f"name-{name!r}", {"names": [name]}, PATTERN) for name in ("a/b", "..", " ", "a\nb")),
    Create(PTS, "name-of-a-partition", {"names": ["ok", "x-partition-3"]}, IS_PARTITION),
    *(Create(PTS, f"name-{name}", {"names": ["ok", name]}, SYSTEM) for name in (*SYSTEM_TOPICS, f"a-b{SYSTEM_SUFFIX}")),
    *(
        Create(PTS, f"pattern-{name}", {"names": None, "patterns": ["x-*", name]}, SYSTEM)
        for name in ("__change_events", f"*{SYSTEM_SUFFIX}")
    ),
    Create(PTS, "pattern-of-some-system-topics", {"names": None, "patterns": ["*", "__*", "__change_events*"]}),
    Create(PTS, "prefix-like-a-system-topic", _count(prefix="__change_events")),
    Create(PTS, "name-like-a-partition", {"names": ["x-partition-3-", "x%2Fy", "ünï"]}),
    *(Create(PTS, f"prefix-{prefix!r}", _count(prefix=prefix), PATTERN) for prefix in ("a/", "a\n", "a\x7f")),
    Create(PTS, "prefix-empty", _count(prefix=""), "should be at least 1 chars long"),
    # With a number after them they are names.
    *(Create(PTS, f"prefix-{prefix!r}", _count(prefix=prefix)) for prefix in ("a ", " ", ".", "..", "x%2F", "ünï")),
    Create(PTS, "prefix-partition", _count(prefix="x-partition-"), PREFIX),
    Create(PTS, "prefix-partition-number", _count(prefix="x-partition-1"), PREFIX),
    Create(PTS, "prefix-like-a-partition", _count(prefix="x-partition")),
    Create(PTS, "prefix-of-241", _count(prefix="p" * 241), "may not be more than 240"),
    Create(PTS, "number-0", _count(number=0)),
    Create(PTS, "number-negative", _count(number=-1), "should be greater than or equal to 0"),
    Create(PTS, "number-of-a-million-and-1", _count(number=1_000_001), "less than or equal to 1000000"),
    Create(PTS, "first-negative", _count(first=-1), "should be greater than or equal to 0"),
    Create(PTS, "patterns-none", {"names": None, "patterns": []}, "should have at least 1 items"),
    Create(PTS, "patterns-with-partitions", PATTERNS | _template(partitions=2), EXISTING),
    Create(PTS, "patterns-with-delete", PATTERNS | {"deletionPolicy": "Delete"}, EXISTING),
    Create(PTS, "delete", {"deletionPolicy": "Delete"}),
    Create(PTS, "force-delete", {"deletionPolicy": "ForceDelete"}, "Unsupported value"),
    Create(PTS, "partitions", _template(partitions=4)),
    Create(PTS, "partitions-0", _template(partitions=0), "should be greater than or equal to 1"),
    Create(PTS, "property-key", _template(properties={"..": "x"}), "a key of properties"),
    Create(PTS, "schema", _template(schema={"type": "String"})),
    Create(PTS, "schema-without-definition", _template(schema={"type": "Avro"}), "schema.definition is required"),
    Create(PTS, "policies", _template(policies={"messageTTLSeconds": 5}, policyScope="Global")),
    # What a PulsarTopic's policies may be, those of a template may.
    *(
        Create(PTS, f"template-{case.id}", {"template": case.patch}, case.refused)
        for case in (*CREATES, *POLICY_CREATES)
        if case.kind is Kind.TOPIC and set(case.patch) == {"policies"}
    ),
    Create(
        PTS,
        "replicationClusters",
        _template(replicationClusters=["a"]),
        'unknown field "spec.template.replicationClusters"',
    ),
    Create(PTS, "unknown-field", _template(subscriptions=[]), 'unknown field "spec.template.subscriptions"'),
)

TOPIC_SET_UPDATES: tuple[Update, ...] = (
    Update(PTS, "namespaceRef", {}, {"namespaceRef": {"name": "other"}}, "spec.namespaceRef is immutable"),
    Update(PTS, "names-to-count", {}, COUNT, SELECTED),
    Update(PTS, "names-to-patterns", {}, PATTERNS, SELECTED),
    Update(PTS, "names-changed", {}, {"names": ["b", "c"]}),
    Update(PTS, "number-grown", COUNT, {"count": {"number": 9}}),
    Update(PTS, "number-shrunk", COUNT, {"count": {"number": 0}}),
    Update(PTS, "prefix-changed", COUNT, {"count": {"prefix": "y-"}}, "spec.count.prefix is immutable"),
    Update(PTS, "first-changed", COUNT, {"count": {"first": 1}}, "spec.count.first is immutable"),
    Update(PTS, "patterns-changed", PATTERNS, {"patterns": ["y-*"]}),
    Update(PTS, "partitions-grown", _template(partitions=2), _template(partitions=3)),
    Update(
        PTS,
        "partitions-shrunk",
        _template(partitions=2),
        _template(partitions=1),
        "cannot be reduced, because Pulsar cannot remove partitions",
    ),
    Update(PTS, "partitions-added", {}, _template(partitions=1), "cannot become non-partitioned"),
    Update(PTS, "partitions-removed", _template(partitions=2), _template(partitions=None), "cannot become non-"),
)
