"""What specifications of existing users rendered to, recorded as hashes: whoever upgrades the operator rolls no pod.

``python -m tests.support.cluster.recorded`` writes the record anew. Do that only where pods are meant to roll with an
upgrade, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.instance import PulsarInstanceSpec
from pulsar_operator.domain.apply import manifest_hash
from pulsar_operator.domain.render import render_cluster, render_configuration_store
from tests.support.cluster.rendering import inputs, owner
from tests.support.yamls import documents

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "tests" / "unit" / "render" / "data" / "rendered.json"

POD: Json = {
    "labels": {"team": "a"},
    "annotations": {"note": "b"},
    "nodeSelector": {"disk": "ssd"},
    "affinity": {"nodeAffinity": {}},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "topologySpreadConstraints": [],
    "priorityClassName": "high",
    "env": [{"name": "EXTRA", "value": "x"}, {"name": "EMPTY"}],
}
SECTION: Json = {
    "resources": {"requests": {"cpu": 1, "memory": "4Gi"}, "limits": {"memory": "8Gi"}},
    "jvm": {"heap": "1g", "directMemory": "1g", "options": ["-Dx=y"]},
}
STORE: Json = {**SECTION, "replicas": 3, "config": {"tickTime": "3000"}, "pod": POD}
SPECS: dict[str, Json] = {
    "smallest": {"metadataStore": {"managed": {}}, "bookkeeper": {}, "broker": {}},
    "external": {
        "metadataStore": {"external": {"servers": "zk-0.zk:2181", "chroot": "/pulsar/east"}},
        "bookkeeper": {"replicas": 4, "journal": {"count": 2}, "ledgers": {"storageClassName": "large"}},
        "broker": {"maxMessageSize": 10485760},
        "loadBalancing": {"manager": "Extensible"},
    },
    "every-field": {
        "preset": "Small",
        "metadataStore": {"managed": STORE},
        "bookkeeper": {
            **SECTION,
            "pod": POD,
            "config": {"flushInterval": "9"},
            "autoRecovery": {**SECTION, "pod": POD},
        },
        "broker": {**SECTION, "pod": POD, "config": {"maxProducersPerTopic": "9"}},
        "proxy": {
            **SECTION,
            "pod": POD,
            "config": {"httpNumThreads": "9"},
            "service": {"type": "LoadBalancer", "annotations": {"lb": "internal"}, "nodePorts": {"pulsar": 30650}},
        },
        "image": {"broker": "other/broker:1", "pullSecrets": ["reg"], "pullPolicy": "Always"},
        "clusterDomain": "k8s.example.org",
        "clusterName": "west",
    },
    "standalone": {"mode": "Standalone", "preset": "Small", "standalone": {}},
    "standalone-every-field": {
        "mode": "Standalone",
        "standalone": {
            **SECTION,
            "pod": POD,
            "service": {"type": "NodePort"},
            "config": {"advertisedAddress": "127.0.0.1"},
        },
    },
}
STORES: dict[str, Json] = {"store": {"replicas": 3}, "store-every-field": STORE}


def specifications() -> dict[str, Json]:
    """PulsarClusters of the examples, beside those that set every field there was when they were recorded."""
    return {name: {"instanceRef": {"name": "prod"}, **spec} for name, spec in SPECS.items()} | {
        f"{file.stem}-{document['metadata']['name']}": document["spec"]
        for file in sorted((ROOT / "examples").glob("*.yaml"))
        for document in documents(file.read_text(encoding="utf-8"))
        if document["kind"] == Kind.CLUSTER
    }


def rendered(name: str, recorded: Json) -> dict[str, str]:
    """Hash of every manifest of a specification, as the operator notes it on the object it applied."""
    if name in STORES:
        spec = PulsarInstanceSpec.model_validate(recorded).configuration_store.managed
        assert spec is not None
        manifests = render_configuration_store(
            owner("my", Kind.INSTANCE), spec, image="zk:1", super_digest_secret="s"
        ).manifests
    else:
        manifests = render_cluster(inputs(PulsarClusterSpec.model_validate(recorded))).all()
    return {f"{each['kind']}/{each['metadata']['name']}": manifest_hash(each) for each in manifests}


def read() -> dict[str, Json]:
    """Specification and hashes by name."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


def write() -> None:
    """Record what is rendered now."""
    specs = specifications() | {name: {"configurationStore": {"managed": store}} for name, store in STORES.items()}
    record = {name: {"spec": spec, "manifests": rendered(name, spec)} for name, spec in specs.items()}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
