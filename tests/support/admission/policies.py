"""Cases for the admission rules of namespace and topic policies; see tests/support/admission/rules.py."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.constants import Kind
from tests.support.admission.lists import LIST_CREATES, LIST_UPDATES
from tests.support.admission.rules import QUOTA, RETENTION, Create, Json, Update

PTN, PNS, PT = Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC
QUORUMS = "ensembleSize >= writeQuorum >= ackQuorum"
BUCKET = "offload.bucket is required"
TOPIC_TYPE = "autoTopicCreation.topicType is required when enabled"
PARTITIONS = "autoTopicCreation.defaultPartitions is required with"
AGE = "retention.timeMinutes must be longer than"
UNPARTITIONED = "need spec.partitions"
AT_LEAST_1 = "should be greater than or equal to 1"
PATTERN = "should match"
WITHIN = "spec.allowedClusters must contain all of spec.replicationClusters"
CLUSTERS_256 = [f"{'c' * 120}-{number}" for number in range(256)]


def _policies(**values: Any) -> Json:
    return {"policies": values}


def _ledgers(ensemble: int, write: int, ack: int, **more: Any) -> Json:
    return _policies(persistence={"ensembleSize": ensemble, "writeQuorum": write, "ackQuorum": ack, **more})


def _auto(**values: Any) -> Json:
    return _policies(autoTopicCreation=values)


def _age(minutes: int, seconds: int) -> Json:
    return _policies(
        retention={"timeMinutes": minutes, "size": -1},
        backlogQuotas={"messageAge": {"limitSeconds": seconds, "policy": "ProducerException"}},
    )


def _size(megabytes: int, quota: int) -> Json:
    return _policies(
        retention={"timeMinutes": -1, "size": f"{megabytes}Mi"},
        backlogQuotas={"destinationStorage": {"limit": quota, "policy": "ProducerException"}},
    )


_QUOTA: Json = {"limit": 0, "policy": "ProducerException"}
WHOLE = "in multiples of 1Mi"


def _offload(**values: Any) -> Json:
    return _policies(offload={"driver": "FileSystem", **values})


def _confirmation(cluster: str, expires: str = "2026-12-01T18:00:00Z") -> Json:
    return {"action": "RemoveCluster", "cluster": cluster, "expiresTime": expires}


def _confirmations(*given: Json) -> Json:
    return {"confirmations": [*given]}


_BOTH = [
    Create(kind, f"policies-{name}", patch, refused)
    for kind in (PNS, PT)
    for name, patch, refused in (
        ("quorum-equal", _ledgers(3, 3, 3), None),
        ("quorum-falling", _ledgers(5, 3, 2), None),
        ("quorum-write-over-ensemble", _ledgers(2, 3, 2), QUORUMS),
        ("quorum-ack-over-write", _ledgers(3, 2, 3), QUORUMS),
        ("quorum-of-6", _ledgers(6, 3, 2), "should be less than or equal to 5"),
        ("quorum-of-0", _ledgers(1, 1, 0), AT_LEAST_1),
        ("mark-deletes-decimal", _ledgers(1, 1, 1, maxMarkDeletesPerSecond="0.5"), None),
        ("mark-deletes-whole", _ledgers(1, 1, 1, maxMarkDeletesPerSecond=0), None),
        ("mark-deletes-negative", _ledgers(1, 1, 1, maxMarkDeletesPerSecond="-1"), PATTERN),
        ("offload-without-bucket", _policies(offload={"driver": "AwsS3"}), BUCKET),
        ("offload-with-bucket", _policies(offload={"driver": "AwsS3", "bucket": "b"}), None),
        ("offload-file-system", _policies(offload={"driver": "FileSystem"}), None),
        ("offload-unknown", _policies(offload={"driver": "Tape"}), "Unsupported value"),
        ("offload-secret", _policies(offload={"driver": "S3", "bucket": "b", "secret": "x"}), "unknown field"),
        ("rate-empty", _policies(dispatchRate={}), None),
        ("rate-of-0", _policies(dispatchRate={"messagesPerPeriod": 0}), AT_LEAST_1),
        ("rate-period-0", _policies(subscribeRate={"periodSeconds": 0}), AT_LEAST_1),
        ("types-none", _policies(subscriptionTypesEnabled=[]), "should have at least 1 items"),
        ("types-twice", _policies(subscriptionTypesEnabled=["Shared", "Shared"]), "Duplicate value"),
        ("types-of-pulsar", _policies(subscriptionTypesEnabled=["Key_Shared"]), "Unsupported value"),
        ("filters-comma", _policies(entryFilters=["a,b"]), PATTERN),
        ("schema-undefined", _policies(schema={"compatibilityStrategy": "Undefined"}), "Unsupported value"),
        ("delay-tick-0", _policies(delayedDelivery={"enabled": True, "tickTimeMilliseconds": 0}), AT_LEAST_1),
        ("retention-half", _policies(retention={"timeMinutes": 0, "size": "5Mi"}), RETENTION),
        ("quota-of-retention", _size(512, 512 * 2**20), QUOTA),
        ("quota-below-retention", _size(512, 512 * 2**20 - 1), None),
        ("compaction-negative", _policies(compactionThreshold=-1), "of at least 0"),
        ("compaction-word", _policies(compactionThreshold="much"), "of at least 0"),
        ("compaction-quantity", _policies(compactionThreshold="1.5Gi"), None),
        ("compaction-fraction", _policies(compactionThreshold="1500m"), "of at least 0"),
        ("retention-part-of-a-mebibyte", _policies(retention={"timeMinutes": 5, "size": "1500Ki"}), WHOLE),
        ("retention-word", _policies(retention={"timeMinutes": 5, "size": "all"}), WHOLE),
        ("retention-beyond-pulsar", _policies(retention={"timeMinutes": 5, "size": "2147483648Mi"}), WHOLE),
        ("retention-whole", _policies(retention={"timeMinutes": 5, "size": "1024Ki"}), None),
        ("retention-endless", _policies(retention={"timeMinutes": 5, "size": -1}), None),
        ("quota-negative", _policies(backlogQuotas={"destinationStorage": _QUOTA | {"limit": -1}}), "of at least 0"),
        ("offload-threshold-2", _offload(threshold=-2), "of at least -1 (no limit)"),
        ("offload-blocks-small", _offload(maxBlockSize="5Ki"), "of at least 5Mi"),
        ("offload-buffer-large", _offload(readBufferSize="2Gi"), "of at least 1Ki and at most 2147483647"),
    )
]

_OWN: tuple[Create, ...] = (
    *_BOTH,
    Create(PNS, "auto-topics-off", _auto(enabled=False)),
    Create(PNS, "auto-topics-off-with-type", _auto(enabled=False, topicType="NonPartitioned"), TOPIC_TYPE),
    Create(PNS, "auto-topics-without-type", _auto(enabled=True), TOPIC_TYPE),
    Create(PNS, "auto-topics-plain", _auto(enabled=True, topicType="NonPartitioned")),
    Create(
        PNS, "auto-topics-plain-of-3", _auto(enabled=True, topicType="NonPartitioned", defaultPartitions=3), PARTITIONS
    ),
    Create(PNS, "auto-topics-partitioned", _auto(enabled=True, topicType="Partitioned"), PARTITIONS),
    Create(PNS, "auto-topics-partitioned-of-3", _auto(enabled=True, topicType="Partitioned", defaultPartitions=3)),
    Create(PNS, "anti-affinity-slash", _policies(antiAffinityGroup="a/b"), PATTERN),
    Create(PNS, "anti-affinity-html", _policies(antiAffinityGroup="<a>"), PATTERN),
    Create(PNS, "bookie-group-comma", _policies(bookieAffinityGroup={"primary": ["a,b"]}), PATTERN),
    Create(PNS, "bookie-group-without-primary", _policies(bookieAffinityGroup={"secondary": ["a"]}), "Required value"),
    Create(PNS, "resource-group-slash", _policies(resourceGroup="a/b"), PATTERN),
    Create(PNS, "auth-mode-of-old", _policies(subscriptionAuthMode="none"), "Unsupported value"),
    # Pulsar compares the age of messages only for topics.
    Create(PNS, "age-of-retention", _age(10, 3600)),
    Create(PT, "message-size-negative", _policies(maxMessageSize=-1), "of at least 0 and at most 2147483647"),
    Create(PT, "message-size", _policies(maxMessageSize="4Mi")),
    Create(PT, "age-of-retention", _age(10, 600), AGE),
    Create(PT, "age-below-retention", _age(10, 599)),
    Create(PT, "age-and-no-limit", _age(-1, 600)),
    Create(PT, "scope-global", {"policyScope": "Global", "policies": {"maxProducers": 3}}),
    Create(PT, "scope-unknown", {"policyScope": "Everywhere"}, "Unsupported value"),
    Create(PT, "non-persistent-with-policies", {"persistent": False, **_policies(maxProducers=1)}, UNPARTITIONED),
    Create(
        PT,
        "non-persistent-partitioned-with-policies",
        {"persistent": False, "partitions": 2, **_policies(maxProducers=1)},
    ),
    Create(PT, "non-persistent-with-clusters", {"persistent": False, "replicationClusters": ["a"]}, UNPARTITIONED),
    Create(PT, "non-persistent-without-policies", {"persistent": False}),
    Create(PT, "shadow-topic-local-name", _policies(shadowTopics=["clicks"]), PATTERN),
)
_CLUSTERS: tuple[Create, ...] = (
    Create(PNS, "allowed-clusters", {"replicationClusters": ["a"], "allowedClusters": ["b", "a"]}),
    Create(PNS, "allowed-clusters-alone", {"allowedClusters": ["a"]}),
    Create(PNS, "allowed-clusters-without-one", {"replicationClusters": ["a", "b"], "allowedClusters": ["a"]}, WITHIN),
    Create(PNS, "allowed-clusters-none", {"allowedClusters": []}, "should have at least 1 items"),
    Create(PNS, "allowed-clusters-twice", {"allowedClusters": ["a", "a"]}, "Duplicate value"),
    Create(PNS, "allowed-clusters-slash", {"allowedClusters": ["a/b"]}, PATTERN),
    Create(PNS, "clusters-256", {"replicationClusters": CLUSTERS_256, "allowedClusters": CLUSTERS_256}),
    Create(PNS, "confirmation", _confirmations(_confirmation("a"), _confirmation("b", "2026-12-01T18:00:00.5+01:00"))),
    Create(
        PNS,
        "confirmation-twice",
        _confirmations(_confirmation("a"), _confirmation("a", "2027-12-01T18:00:00Z")),
        "Duplicate value",
    ),
    Create(
        PNS,
        "confirmation-to-something",
        _confirmations({**_confirmation("a"), "action": "DropAll"}),
        "Unsupported value",
    ),
    Create(
        PNS, "confirmation-for-ever", {"confirmations": [{"action": "RemoveCluster", "cluster": "a"}]}, "Required value"
    ),
    Create(PNS, "confirmation-without-zone", _confirmations(_confirmation("a", "2026-12-01T18:00:00")), PATTERN),
    Create(PNS, "confirmation-in-month-13", _confirmations(_confirmation("a", "2026-13-01T18:00:00Z")), "date-time"),
    Create(PT, "clusters", {"replicationClusters": ["a", "b"]}),
    Create(PT, "clusters-none", {"replicationClusters": []}, "should have at least 1 items"),
    Create(PT, "clusters-slash", {"replicationClusters": ["a/b"]}, PATTERN),
    Create(PT, "shadow-topic-newline", _policies(shadowTopics=["persistent://t/n/a\r\nb"]), PATTERN),
    Create(PT, "shadow-topic-control", _policies(shadowTopics=["persistent://t/n/a\x01b"]), PATTERN),
    Create(PT, "shadow-topic-trailing-space", _policies(shadowTopics=["persistent://t/n/a "]), PATTERN),
    Create(PT, "shadow-topic", _policies(shadowTopics=["persistent://t/n/\u00fc b"])),
    Create(PT, "filter-newline", _policies(entryFilters=["a\nb"]), PATTERN),
    Create(PT, "filter-control", _policies(entryFilters=["a\x01b"]), PATTERN),
    Create(PNS, "filter-control", _policies(entryFilters=["a\x7fb"]), PATTERN),
)
_DEFAULTS = tuple(
    Create(PTN, f"defaults-{case.id}", {"namespaceDefaults": case.patch["policies"]}, case.refused)
    for case in _OWN
    if case.kind is PNS and set(case.patch) == {"policies"}
)
"""The same in spec.namespaceDefaults of a tenant."""

POLICY_CREATES: tuple[Create, ...] = (*_OWN, *_DEFAULTS, *_CLUSTERS, *LIST_CREATES)

POLICY_UPDATES: tuple[Update, ...] = (
    Update(PT, "policyScope-changes", {}, {"policyScope": "Global"}),
    Update(PT, "policies-appear", {}, _policies(maxProducers=3)),
    Update(PT, "policies-vanish", _policies(maxProducers=3), {"policies": None}),
    *LIST_UPDATES,
)
