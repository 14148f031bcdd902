"""Cases for the admission rules of the custom resources: what a real API server must refuse, and what it must accept.

Every rule of the definitions has at least one refusal here, and each refusal a valid counterpart close by.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic import SYSTEM_SUFFIX, SYSTEM_TOPICS
from tests.support.admission.pods import (
    EDGES,
    LISTENER_FIELDS,
    LISTENER_LISTS,
    NO_TLS,
    PLATFORMS,
    POD_PATCHES,
    SERVICES,
)
from tests.support.admission.samples import minimal

Json = dict[str, Any]


@dataclass(frozen=True)
class Create:
    """Creating the minimal object, changed by a merge patch."""

    kind: Kind
    id: str
    patch: Json = field(default_factory=dict)
    refused: str | None = None
    """Fragment of the message; None = accepted."""
    name: str = "sample"


@dataclass(frozen=True)
class Update:
    """Updating an object that was created with one merge patch by another."""

    kind: Kind
    id: str
    before: Json
    after: Json
    refused: str | None = None


def merged(base: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386); null removes."""
    if not isinstance(patch, dict) or not isinstance(base, dict):
        return patch
    out = dict(base)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = merged(base.get(key, {}), value)
        else:
            out[key] = value
    return out


def spec_of(kind: Kind, *patches: Json) -> Json:
    """The minimal specification with the patches laid over it in turn."""
    spec: Json = minimal(kind)
    for patch in patches:
        spec = merged(spec, patch)
    return spec


PI, PC, PTN, PNS, PT = Kind.INSTANCE, Kind.CLUSTER, Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC

MANAGED: Json = {"configurationStore": {"cluster": None, "managed": {}}}
SECURED: Json = {"serviceAccountTokens": {}}
EXTERNAL = {"configurationStore": {"cluster": None, "external": {"servers": "zk:2181", "chroot": "/pulsar"}}}
EXTERNAL_META = {"metadataStore": {"managed": None, "external": {"servers": "zk:2181", "chroot": "/east"}}}
STANDALONE: Json = {
    "mode": "Standalone",
    "standalone": {},
    "metadataStore": None,
    "bookkeeper": None,
    "broker": None,
}
NAME_RULE = "must be a DNS-1035 label"
SIZE_RULE = "size must be a quantity greater than 0"
QUORUM_ENSEMBLE = "ensembleSize must not exceed spec.bookkeeper.replicas"
QUORUM_WRITE = "writeQuorum must not exceed ensembleSize and replicas"
QUORUM_ACK = "ackQuorum must not exceed writeQuorum, ensembleSize and replicas"
RETENTION = "must both be 0 or both be non-zero"
QUOTA = "retention.size must be larger than"
IS_PARTITION = "-partition-N"
PATTERN = "should match"


def _quorum(replicas: int, ensemble: int | None = None, write: int | None = None, ack: int | None = None) -> Json:
    values = {"ensembleSize": ensemble, "writeQuorum": write, "ackQuorum": ack}
    return {"bookkeeper": {"replicas": replicas, "ensemble": {k: v for k, v in values.items() if v is not None}}}


def retention(minutes: int, megabytes: int, quota: int | None = None) -> Json:
    policies: Json = {"retention": {"timeMinutes": minutes, "size": megabytes * 2**20 if megabytes > 0 else megabytes}}
    if quota is not None:
        policies["backlogQuotas"] = {"destinationStorage": {"limit": quota, "policy": "ProducerException"}}
    return {"policies": policies}


CREATES: tuple[Create, ...] = (
    # PulsarInstance
    Create(PI, "name-of-40", name="i" * 40),
    Create(PI, "name-of-41", refused=NAME_RULE, name="i" * 41),
    Create(PI, "name-with-dot", refused=NAME_RULE, name="a.b"),
    Create(PI, "secured", {"authentication": SECURED, "authorization": {"superUserRoles": ["a:b", "c"]}}),
    Create(PI, "authorization-alone", {"authorization": {}}, "spec.authorization requires spec.authentication"),
    Create(PI, "authentication-empty", {"authentication": {}}, "Required value"),
    *(
        Create(
            PI, f"audience-{name}", {"authentication": {"serviceAccountTokens": {"additionalAudiences": [text]}}}, no
        )
        for name, text, no in (
            ("url", "https://pulsar.example/x", None),
            ("two", "a,b", PATTERN),
            ("none", "", "at least 1 chars long"),
        )
    ),
    Create(PI, "superusers-in-one", {"authentication": SECURED, "authorization": {"superUserRoles": ["a,b"]}}, PATTERN),
    Create(PI, "store-none", {"configurationStore": {"cluster": None}}, "exactly one of managed, cluster and external"),
    Create(PI, "store-two", {"configurationStore": {"managed": {}}}, "exactly one of managed, cluster and external"),
    Create(PI, "store-managed", MANAGED),
    Create(PI, "store-external", EXTERNAL),
    Create(
        PI, "ensemble-of-2", merged(MANAGED, {"configurationStore": {"managed": {"replicas": 2}}}), "Unsupported value"
    ),
    Create(PI, "ensemble-of-5", merged(MANAGED, {"configurationStore": {"managed": {"replicas": 5}}})),
    *(
        Create(
            PI, f"volume-{size}", merged(MANAGED, {"configurationStore": {"managed": {"storage": {"size": size}}}}), no
        )
        for size, no in (
            ("10Gi", None),
            (1073741824, None),
            ("0", SIZE_RULE),
            (0, SIZE_RULE),
            (-1, SIZE_RULE),
            ("-1Gi", SIZE_RULE),
            ("1.2.3Gi", SIZE_RULE),
            ("big", PATTERN),
        )
    ),
    Create(PI, "servers-url", merged(EXTERNAL, {"configurationStore": {"external": {"servers": "zk://a"}}}), PATTERN),
    Create(PI, "chroot-slash", merged(EXTERNAL, {"configurationStore": {"external": {"chroot": "/"}}}), PATTERN),
    Create(PI, "chroot-up", merged(EXTERNAL, {"configurationStore": {"external": {"chroot": "/a/../b"}}}), PATTERN),
    Create(PI, "unknown-field", {"replicas": 3}, 'unknown field "spec.replicas"'),
    # PulsarCluster
    Create(PC, "name-of-40", name="c" * 40),
    Create(PC, "name-of-41", refused=NAME_RULE, name="c" * 41),
    Create(PC, "name-digit-first", refused=NAME_RULE, name="1st"),
    Create(PC, "name-with-dot", refused=NAME_RULE, name="a.b"),
    Create(PC, "name-global", refused="metadata.name must not be global", name="global"),
    Create(PC, "name-global-but-called-otherwise", {"clusterName": "east"}, name="global"),
    Create(PC, "clusterName-global", {"clusterName": "global"}, "spec.clusterName must not be global"),
    Create(PC, "message-size", {"broker": {"maxMessageSize": "8Mi"}}),
    Create(PC, "message-size-small", {"broker": {"maxMessageSize": 1000}}, "of at least 1Ki and at most 1Gi"),
    Create(PC, "message-size-large", {"broker": {"maxMessageSize": "2Gi"}}, "of at least 1Ki and at most 1Gi"),
    Create(PC, "clusterName-upper", {"clusterName": "East"}, PATTERN),
    Create(PC, "version-3", {"version": "3.3.1"}, PATTERN),
    Create(PC, "no-metadataStore", {"metadataStore": None}, "spec.metadataStore is required in mode Distributed"),
    Create(PC, "no-bookkeeper", {"bookkeeper": None}, "spec.bookkeeper is required in mode Distributed"),
    Create(PC, "no-broker", {"broker": None}, "spec.broker is required in mode Distributed"),
    Create(PC, "standalone", STANDALONE),
    Create(
        PC, "standalone-missing", STANDALONE | {"standalone": None}, "spec.standalone is required in mode Standalone"
    ),
    *(
        Create(PC, f"standalone-with-{part}", STANDALONE | {part: value}, "must not be set in mode Standalone")
        for part, value in (("metadataStore", {"managed": {}}), ("bookkeeper", {}), ("broker", {}), ("proxy", {}))
    ),
    Create(PC, "distributed-with-standalone", {"standalone": {}}, "spec.standalone is allowed only in mode Standalone"),
    Create(PC, "store-both", {"metadataStore": {"external": {"servers": "zk"}}}, "exactly one of managed and external"),
    Create(PC, "store-neither", {"metadataStore": {"managed": None}}, "exactly one of managed and external"),
    Create(PC, "store-external", EXTERNAL_META),
    Create(PC, "quorum-none", _quorum(1)),
    Create(PC, "quorum-all", _quorum(3, 3, 3, 3)),
    Create(PC, "quorum-usual", _quorum(5, 3, 2, 1)),
    Create(PC, "quorum-ensemble-4-of-3", _quorum(3, 4), QUORUM_ENSEMBLE),
    Create(PC, "quorum-write-over-ensemble", _quorum(5, 3, 4), QUORUM_WRITE),
    Create(PC, "quorum-write-over-replicas", _quorum(3, None, 4), QUORUM_WRITE),
    Create(PC, "quorum-write-of-replicas", _quorum(3, None, 3)),
    Create(PC, "quorum-ack-over-write", _quorum(5, 5, 3, 4), QUORUM_ACK),
    Create(PC, "quorum-ack-over-ensemble", _quorum(5, 2, None, 3), QUORUM_ACK),
    Create(PC, "quorum-ack-over-replicas", _quorum(3, None, None, 4), QUORUM_ACK),
    Create(PC, "journal-size-0", {"bookkeeper": {"journal": {"size": "0Gi"}}}, "size must be greater than 0"),
    Create(PC, "journal-size-fraction", {"bookkeeper": {"journal": {"size": "0.5Ti"}}}),
    Create(PC, "zookeeper-size-0", {"metadataStore": {"managed": {"storage": {"size": 0}}}}, SIZE_RULE),
    Create(PC, "standalone-size-0", merged(STANDALONE, {"standalone": {"storage": {"size": "0"}}}), SIZE_RULE),
    Create(PC, "replicas-negative", {"broker": {"replicas": -1}}, "should be greater than or equal to 0"),
    Create(PC, "replicas-as-text", {"broker": {"replicas": "2"}}, "must be of type integer"),
    Create(PC, "drain", {"broker": {"drain": {"enabled": False, "timeoutSeconds": 10, "movesPerMinute": 600}}}),
    Create(PC, "drain-timeout-0", {"broker": {"drain": {"timeoutSeconds": 0}}}, "greater than or equal to 10"),
    Create(PC, "drain-moves-0", {"broker": {"drain": {"movesPerMinute": 0}}}, "greater than or equal to 1"),
    Create(PC, "unknown-field-deep", {"broker": {"replica": 2}}, 'unknown field "spec.broker.replica"'),
    Create(PC, "pod-serviceAccountName", {"broker": {"pod": {"serviceAccountName": "x"}}}, "unknown field"),
    Create(PC, "pod-securityContext", {"broker": {"pod": {"securityContext": {}}}}, "unknown field"),
    Create(PC, "env-twice", {"broker": {"pod": {"env": [{"name": "A"}, {"name": "A"}]}}}, "Duplicate value"),
    *(Create(PC, f"pod-{name}", {"broker": {"pod": pod}}, refused) for name, (pod, refused) in POD_PATCHES.items()),
    *(
        Create(PC, f"service-{name}", {"proxy": {"service": service}}, refused)
        for name, (service, refused) in SERVICES.items()
    ),
    *(
        Create(PC, f"listener-{name}", {"listeners": [{"name": "external", "port": 6660, **fields}]}, refused)
        for name, (fields, refused) in LISTENER_FIELDS.items()
    ),
    *(Create(PC, f"listeners-{name}", patch, refused) for name, (patch, refused) in LISTENER_LISTS.items()),
    *(Create(PC, f"edge-{name}", patch, refused) for name, (patch, refused) in EDGES.items()),
    Create(PC, "edge-of-standalone", {**STANDALONE, **NO_TLS}, "spec.tls is allowed only in mode Distributed"),
    Create(
        PC,
        "listeners-of-standalone",
        {**STANDALONE, "listeners": [{"name": "a", "type": "ClusterIP", "port": 6660}]},
        "is allowed only in mode Distributed",
    ),
    *(
        Create(kind, f"platform-{name}", {"platform": platform}, refused)
        for kind in (PC, PI)
        for name, (platform, refused) in PLATFORMS.items()
    ),
    *(
        Create(PI, f"pod-{name}", merged(MANAGED, {"configurationStore": {"managed": {"pod": pod}}}), refused)
        for name, (pod, refused) in POD_PATCHES.items()
    ),
    Create(PC, "heap-percent", {"broker": {"jvm": {"heap": "50%"}}}, PATTERN),
    # PulsarTenant
    *(
        Create(PTN, f"name-{name}", {"name": name}, PATTERN)
        for name in ("a/b", "..", ".", "a b", "a%2Fb", "é", "a\n", "a?b", "a#b")
    ),
    Create(PTN, "name-empty", {"name": ""}, "should be at least 1 chars long"),
    Create(PTN, "name-of-129", {"name": "t" * 129}, "may not be more than 128"),
    Create(PTN, "name-all-characters", {"name": "A-z=0:9._"}),
    Create(PTN, "name-three-letters-and-dots", {"name": "..a"}),
    Create(PTN, "role-twice", {"adminRoles": ["a", "a"]}, "Duplicate value"),
    Create(PTN, "clusters-none", {"allowedClusters": []}, "should have at least 1 items"),
    Create(PTN, "no-instanceRef", {"instanceRef": None}, "Required value"),
    Create(PTN, "ref-without-name", {"instanceRef": {"name": None}}, "Required value"),
    Create(PTN, "policy-unknown", {"deletionPolicy": "Purge"}, "Unsupported value"),
    # PulsarNamespace
    *(Create(PNS, f"name-{name}", {"name": name}, PATTERN) for name in ("a/b", "..", "a b")),
    Create(PNS, "bundles-count", {"bundles": {"count": 16}}),
    Create(PNS, "bundles-neither", {"bundles": {}}, "exactly one of bundles.count, bundles.boundaries"),
    Create(
        PNS,
        "bundles-both",
        {"bundles": {"count": 1, "boundaries": ["0x00000000", "0xffffffff"]}},
        "exactly one of bundles.count, bundles.boundaries",
    ),
    Create(PNS, "bundles-auto", {"bundles": {"sizing": "Auto"}}),
    Create(PNS, "bundles-auto-and-count", {"bundles": {"sizing": "Auto", "count": 4}}, "exactly one of bundles.count,"),
    Create(PNS, "bundles-boundaries", {"bundles": {"boundaries": ["0x00000000", "0x7fffffff", "0xffffffff"]}}),
    Create(
        PNS, "boundaries-start", {"bundles": {"boundaries": ["0x00000001", "0xffffffff"]}}, "must start with 0x00000000"
    ),
    Create(
        PNS, "boundaries-end", {"bundles": {"boundaries": ["0x00000000", "0xfffffffe"]}}, "must start with 0x00000000"
    ),
    Create(
        PNS,
        "boundaries-unsorted",
        {"bundles": {"boundaries": ["0x00000000", "0x80000000", "0x40000000", "0xffffffff"]}},
        "must be in ascending order",
    ),
    Create(
        PNS,
        "boundaries-twice",
        {"bundles": {"boundaries": ["0x00000000", "0x40000000", "0x40000000", "0xffffffff"]}},
        "Duplicate value",
    ),
    Create(PNS, "boundaries-upper-case", {"bundles": {"boundaries": ["0x00000000", "0xFFFFFFFF"]}}, PATTERN),
    Create(PNS, "retention-half-size", retention(60, 0), RETENTION),
    Create(PNS, "retention-half-time", retention(0, 60), RETENTION),
    Create(PNS, "retention-none", retention(0, 0)),
    Create(PNS, "retention-unlimited", retention(-1, -1, 2**40)),
    Create(PNS, "retention-minus-2", retention(-2, -1), "should be greater than or equal to -1"),
    Create(PNS, "quota-below-retention", retention(60, 512, 512 * 2**20 - 1)),
    Create(PNS, "quota-of-retention", retention(60, 512, 512 * 2**20), QUOTA),
    Create(PNS, "quota-over-largest-retention", retention(60, 2**31 - 1, 2**62), QUOTA),
    Create(PNS, "quota-and-no-retention", retention(0, 0, 2**40)),
    Create(PNS, "ttl-negative", {"policies": {"messageTTLSeconds": -1}}, "should be greater than or equal to 0"),
    Create(PNS, "policy-unknown-field", {"policies": {"messageTtl": 5}}, 'unknown field "spec.policies.messageTtl"'),
    # PulsarTopic
    *(
        Create(PT, f"name-{name!r}", {"name": name}, PATTERN)
        for name in ("a/b", ".", "..", " ", "a ", "a\nb", "a\x7fb")
    ),
    *(
        Create(PT, f"name-{name!r}", {"name": name})
        for name in ("a b", " a.", "a%2Fb", "a?b#c", "süß", ".a", "a-partition-x")
    ),
    *(
        Create(PT, f"name-{name}", {"name": name, "persistent": persistent}, "must not be the name of a system topic")
        for name in (*SYSTEM_TOPICS, f"a-b{SYSTEM_SUFFIX}")
        for persistent in (True, False)
    ),
    *(Create(PT, f"name-{name}", {"name": name}) for name in ("__change_events2", "a__change_events", "__mine")),
    Create(PT, "name-partition", {"name": "a-partition-3"}, IS_PARTITION),
    Create(PT, "object-name-partition", refused=IS_PARTITION, name="a-partition-3"),
    Create(PT, "object-name-partition-called-otherwise", {"name": "a"}, name="a-partition-3"),
    Create(PT, "partitions-0", {"partitions": 0}, "should be greater than or equal to 1"),
)
