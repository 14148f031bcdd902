"""Changes of custom resources that the admission rules take or refuse; see rules.py."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.constants import Kind
from tests.support.admission.pods import EDGE_CHANGES, PLATFORM_CHANGES, SERVICE_CHANGES
from tests.support.admission.rules import (
    EXTERNAL,
    EXTERNAL_META,
    MANAGED,
    PC,
    PI,
    PNS,
    PT,
    PTN,
    QUOTA,
    SECURED,
    STANDALONE,
    Json,
    Update,
    merged,
    retention,
)

KIND_OF_STORE = "The kind of configuration store is immutable"
KIND_OF_META = "The kind of metadata store is immutable"
BROKER_5 = {"broker": {"replicas": 5}}


def _immutable(kind: Kind, member: str, first: Any, second: Any) -> tuple[Update, ...]:
    """A member of spec changed, added, removed, and left alone."""
    message = f"spec.{member} is immutable"
    return (
        Update(kind, f"{member}-changed", {member: first}, {member: second}, message),
        Update(kind, f"{member}-added", {}, {member: first}, message),
        Update(kind, f"{member}-removed", {member: first}, {member: None}, message),
        Update(
            kind,
            f"{member}-kept",
            {member: first},
            {"allowedKubernetesNamespaces": ["other"]} if kind is not PT else {},
        ),
    )


def _nested(kind: Kind, id_: str, base: Json, path: tuple[str, ...], values: tuple[Any, Any]) -> list[Update]:
    """A member deep inside changed, added and removed."""

    def at(value: Any) -> Json:
        for step in reversed(path):
            value = {step: value}
        return value  # type: ignore[no-any-return]

    first, second = values
    message = f"{path[-1]} is immutable"
    return [
        Update(kind, f"{id_}-changed", merged(base, at(first)), at(second), message),
        Update(kind, f"{id_}-added", base, at(first), message),
        Update(kind, f"{id_}-removed", merged(base, at(first)), at(None), message),
        Update(kind, f"{id_}-kept", merged(base, at(first)), {"allowedKubernetesNamespaces": ["other"]}),
    ]


STORE = ("configurationStore",)
JOURNAL, LEDGERS = ("bookkeeper", "journal"), ("bookkeeper", "ledgers")
SC = "storageClassName"
UPDATES: tuple[Update, ...] = (
    *(
        Update(PC, f"service-{name}", {"proxy": {"service": before}}, {"proxy": {"service": patch}}, refused)
        for name, (before, patch, refused) in SERVICE_CHANGES.items()
    ),
    *(Update(PC, f"edge-{name}", before, patch, refused) for name, (before, patch, refused) in EDGE_CHANGES.items()),
    *(
        Update(kind, f"platform-{name}", {"platform": before}, {"platform": patch}, refused)
        for kind in (PC, PI)
        for name, (before, patch, refused) in PLATFORM_CHANGES.items()
    ),
    # PulsarInstance
    Update(PI, "store-cluster-to-managed", {}, MANAGED, KIND_OF_STORE),
    Update(
        PI,
        "store-managed-to-external",
        MANAGED,
        merged(EXTERNAL, {"configurationStore": {"managed": None}}),
        KIND_OF_STORE,
    ),
    Update(
        PI,
        "store-cluster-other",
        {},
        {"configurationStore": {"cluster": {"name": "west"}}},
        "configurationStore.cluster is immutable",
    ),
    Update(PI, "authentication-added", {}, {"authentication": SECURED}, "spec.authentication is immutable"),
    Update(PI, "authentication-removed", {"authentication": SECURED}, {"authentication": None}, "is immutable"),
    Update(
        PI,
        "authentication-changed",
        {"authentication": SECURED},
        {"authentication": {"serviceAccountTokens": {"additionalAudiences": ["pulsar"]}}},
        "spec.authentication is immutable",
    ),
    Update(
        PI,
        "authorization-added",
        {"authentication": SECURED},
        {"authorization": {}},
        "can neither be added nor removed",
    ),
    Update(
        PI,
        "authorization-removed",
        {"authentication": SECURED, "authorization": {}},
        {"authorization": None},
        "can neither be added nor removed",
    ),
    Update(
        PI,
        "superusers-changed",
        {"authentication": SECURED, "authorization": {"superUserRoles": ["a"]}},
        {"authorization": {"superUserRoles": ["b", "c"]}},
    ),
    Update(PI, "store-removed", {}, {"configurationStore": None}, "Required value"),
    Update(
        PI,
        "ensemble-resized",
        MANAGED,
        {"configurationStore": {"managed": {"replicas": 5}}},
        "are immutable in this version",
    ),
    Update(PI, "ensemble-config", MANAGED, {"configurationStore": {"managed": {"config": {"a": "b"}}}}),
    *(
        Update(
            PI,
            f"external-servers-{name}",
            EXTERNAL,
            {"configurationStore": {"external": {"servers": servers}}},
            "configurationStore.external.servers is immutable",
        )
        for name, servers in (("others", "other:2181"), ("one-more", "zk:2181,zk2:2181"))
    ),
    *_nested(
        PI,
        "volume-class",
        MANAGED,
        (*STORE, "managed", "storage", SC),
        ("fast", "slow"),
    ),
    *_nested(
        PI,
        "chroot",
        {"configurationStore": {"cluster": None, "external": {"servers": "zk"}}},
        (*STORE, "external", "chroot"),
        ("/a", "/b"),
    ),
    Update(
        PI,
        "volume-size",
        MANAGED,
        {"configurationStore": {"managed": {"storage": {"size": "20Gi"}}}},
        "storage.size is immutable",
    ),
    Update(PI, "clusterDomain", {}, {"clusterDomain": "example.org"}, "spec.clusterDomain is immutable"),
    Update(PI, "reclaimPolicy", {}, {"reclaimPolicy": "Delete"}),
    # PulsarCluster
    *_immutable(PC, "clusterName", "east", "west"),
    Update(PC, "instanceRef-changed", {}, {"instanceRef": {"name": "other"}}, "spec.instanceRef is immutable"),
    Update(PC, "instanceRef-namespace-added", {}, {"instanceRef": {"namespace": "x"}}, "spec.instanceRef is immutable"),
    Update(PC, "instanceRef-removed", {}, {"instanceRef": None}, "Required value"),
    Update(PC, "mode-to-standalone", {}, STANDALONE, "spec.mode is immutable"),
    Update(PC, "clusterDomain", {}, {"clusterDomain": "example.org"}, "spec.clusterDomain is immutable"),
    Update(PC, "metadataStore-removed", {}, {"metadataStore": None}, "spec.metadataStore cannot be added or removed"),
    Update(PC, "bookkeeper-removed", {}, {"bookkeeper": None}, "spec.bookkeeper cannot be added or removed"),
    Update(PC, "broker-removed", {}, {"broker": None}, "spec.broker is required"),
    Update(PC, "standalone-removed", STANDALONE, {"standalone": None}, "spec.standalone is required"),
    Update(PC, "metadataStore-kind", {}, EXTERNAL_META, KIND_OF_META),
    *_nested(
        PC,
        "metadata-chroot",
        {"metadataStore": {"managed": None, "external": {"servers": "zk"}}},
        ("metadataStore", "external", "chroot"),
        ("/a", "/b"),
    ),
    Update(
        PC, "ensemble-resized", {}, {"metadataStore": {"managed": {"replicas": 5}}}, "are immutable in this version"
    ),
    Update(PC, "bookies-grow", {}, {"bookkeeper": {"replicas": 4}}),
    Update(PC, "bookies-shrink", {}, {"bookkeeper": {"replicas": 2}}),
    *_nested(PC, "journal-class", {}, (*JOURNAL, SC), ("fast", "slow")),
    *_nested(PC, "ledgers-class", {}, (*LEDGERS, SC), ("fast", "slow")),
    Update(PC, "journal-size", {}, {"bookkeeper": {"journal": {"size": "11Gi"}}}, "size is immutable"),
    Update(
        PC,
        "journal-removed",
        {"bookkeeper": {"journal": {"size": "11Gi"}}},
        {"bookkeeper": {"journal": None}},
        "size is immutable",
    ),
    Update(PC, "journal-default-spelled-out", {}, {"bookkeeper": {"journal": {"size": "10Gi"}}}),
    Update(PC, "ledgers-count", {}, {"bookkeeper": {"ledgers": {"count": 2}}}, "count is immutable"),
    *_nested(
        PC,
        "standalone-class",
        STANDALONE,
        ("standalone", "storage", SC),
        ("fast", "slow"),
    ),
    Update(
        PC, "standalone-size", STANDALONE, {"standalone": {"storage": {"size": "99Gi"}}}, "storage.size is immutable"
    ),
    Update(PC, "standalone-config", STANDALONE, {"standalone": {"config": {"a": "b"}}}),
    Update(PC, "brokers-shrink", BROKER_5, {"broker": {"replicas": 1}}),
    Update(PC, "proxy-added", {}, {"proxy": {}}),
    Update(PC, "proxy-removed", {"proxy": {}}, {"proxy": None}),
    Update(PC, "version", {"version": "4.0.6"}, {"version": "4.0.8"}),
    # PulsarTenant
    *_immutable(PTN, "name", "shop", "store"),
    Update(PTN, "instanceRef-changed", {}, {"instanceRef": {"name": "other"}}, "spec.instanceRef is immutable"),
    Update(PTN, "clusters-appear", {}, {"allowedClusters": ["east"]}),
    Update(PTN, "clusters-vanish", {"allowedClusters": ["east"]}, {"allowedClusters": None}),
    # PulsarNamespace
    *_immutable(PNS, "name", "orders", "carts"),
    *_immutable(PNS, "bundles", {"count": 4}, {"count": 8}),
    Update(PNS, "tenantRef-changed", {}, {"tenantRef": {"name": "other"}}, "spec.tenantRef is immutable"),
    Update(PNS, "policies-appear", {}, retention(60, 100, 1000)),
    Update(PNS, "policies-vanish", retention(60, 100, 1000), {"policies": {"retention": None, "backlogQuotas": None}}),
    Update(
        PNS,
        "retention-lowered-under-quota",
        retention(60, 512, 2**28),
        {"policies": {"retention": {"size": 256}}},
        QUOTA,
    ),
    # PulsarTopic
    *_immutable(PT, "name", "payments", "clicks"),
    Update(PT, "namespaceRef-changed", {}, {"namespaceRef": {"name": "other"}}, "spec.namespaceRef is immutable"),
    Update(PT, "persistent-changed", {}, {"persistent": False}, "spec.persistent is immutable"),
    Update(PT, "partitions-grow", {"partitions": 4}, {"partitions": 8}),
    Update(PT, "partitions-shrink", {"partitions": 4}, {"partitions": 3}, "spec.partitions cannot be reduced"),
    Update(PT, "partitions-removed", {"partitions": 4}, {"partitions": None}, "cannot become non-partitioned"),
    Update(PT, "partitions-added", {}, {"partitions": 4}, "cannot become non-partitioned"),
    Update(PT, "deletionPolicy", {}, {"deletionPolicy": "Delete"}),
)
