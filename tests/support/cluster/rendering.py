"""Specs and inputs for rendering tests, hand-made and generated."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import ClusterInputs, ImageTemplates, Owner, StoreAddress, spec_problems
from tests.support.cluster.pod_fields import EVERY_FIELD

IMAGES = ImageTemplates("pulsar-broker:{version}", "pulsar-bookie:{version}", "pulsar-proxy:{version}")


def owner(name: str = "my", kind: Kind = Kind.CLUSTER, namespace: str = "ns") -> Owner:
    """An owner with a fixed UID."""
    return Owner(kind, name, namespace, "uid-1", API_VERSION, part_of="prod")


def distributed(**changes: Any) -> PulsarClusterSpec:
    """A Distributed cluster with managed ZooKeeper and proxies; ``changes`` are wire-format sections."""
    base: dict[str, Any] = {
        "instanceRef": {"name": "prod"},
        "preset": "Small",
        "metadataStore": {"managed": {"replicas": 1}},
        "bookkeeper": {"replicas": 2},
        "broker": {"replicas": 2},
        "proxy": {"replicas": 1},
    }
    return PulsarClusterSpec.model_validate({**base, **changes})


def standalone(**section: Any) -> PulsarClusterSpec:
    """A Standalone cluster."""
    return PulsarClusterSpec.model_validate(
        {"instanceRef": {"name": "prod"}, "mode": "Standalone", "preset": "Small", "standalone": section}
    )


def inputs(spec: PulsarClusterSpec, *, name: str = "my", store: StoreAddress | None = None) -> ClusterInputs:
    """Inputs as a controller makes them."""
    return ClusterInputs(owner(name), spec, IMAGES, configuration_store=store, super_digest_secret="my-super")


def container(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    """The container of the StatefulSet among a component's manifests."""
    return dict(of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"][0])


def of_kind(manifests: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The only manifest of a kind (and name)."""
    (found,) = [m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"])]
    return dict(found)


def overrides(manifests: list[dict[str, Any]]) -> dict[str, str]:
    """overrides.conf of a component, read as the image reads it."""
    text = of_kind(manifests, "ConfigMap")["data"]["overrides.conf"]
    return dict(line.split("=", 1) for line in text.splitlines())


CLUSTER_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True)
_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cs", "Cc")), max_size=20)
_CONFIGS = st.none() | st.dictionaries(st.from_regex(r"user[A-Za-z0-9_.]{1,10}", fullmatch=True), _VALUES, max_size=3)
_SIZES = st.none() | st.sampled_from(["256m", "1g", "512M", "1048576k"])
_JVMS = st.none() | st.fixed_dictionaries(
    {}, optional={"heap": _SIZES, "directMemory": _SIZES, "options": st.just(["-Dx=y"])}
)
_RESOURCES = st.none() | st.just({"requests": {"cpu": 1, "memory": "1Gi"}}) | st.just({"limits": {"memory": "2Gi"}})
_PODS = st.none() | st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in EVERY_FIELD.items()})


def _section(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        fields, optional={"config": _CONFIGS, "jvm": _JVMS, "resources": _RESOURCES, "pod": _PODS}
    )


def _replicas(low: int = 0, high: int = 9) -> st.SearchStrategy[int]:
    return st.integers(low, high)


_ZOOKEEPERS = st.sampled_from([1, 3, 5]).flatmap(lambda n: _section(replicas=st.just(n)))
_SERVICES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer"]),
        "annotations": st.just({"lb": "internal"}),
        "nodePorts": st.just({"pulsar": 30650, "http": 30080}),
    },
)
_STORES = st.one_of(
    st.builds(lambda zookeeper: {"managed": zookeeper}, _ZOOKEEPERS),
    st.just({"external": {"servers": "zoo-1.example.com,zoo-2.example.com:2281", "chroot": "/pulsar"}}),
)
_VOLUMES = st.fixed_dictionaries({"count": st.integers(1, 4)}, optional={"storageClassName": st.just("fast")})

_DISTRIBUTED = st.fixed_dictionaries(
    {
        "instanceRef": st.just({"name": "prod"}),
        "preset": st.sampled_from(["Small", "Production"]),
        "metadataStore": _STORES,
        "bookkeeper": _section(
            replicas=_replicas(1),
            journal=_VOLUMES,
            ledgers=_VOLUMES,
            autoRecovery=st.fixed_dictionaries({"replicas": _replicas(0, 2)}, optional={"jvm": _JVMS, "pod": _PODS}),
        ),
        "broker": _section(replicas=_replicas()),
        "loadBalancing": st.fixed_dictionaries({"manager": st.sampled_from(["Modular", "Extensible"])}),
    },
    optional={
        "proxy": _section(replicas=_replicas(), service=_SERVICES),
        "image": st.just({"broker": "other/broker:1", "pullSecrets": ["reg"], "pullPolicy": "Always"}),
        "clusterDomain": st.just("k8s.example.org"),
        "clusterName": st.just("west"),
    },
)
_STANDALONE = st.fixed_dictionaries(
    {
        "instanceRef": st.just({"name": "prod"}),
        "mode": st.just("Standalone"),
        "preset": st.sampled_from(["Small", "Production"]),
        "standalone": _section(service=_SERVICES),
    }
)

SPECS = (
    st.one_of(_DISTRIBUTED, _STANDALONE).map(PulsarClusterSpec.model_validate).filter(lambda s: not spec_problems(s))
)
"""Specs the operator accepts."""
DISTRIBUTED_SPECS = _DISTRIBUTED.map(PulsarClusterSpec.model_validate).filter(lambda s: not spec_problems(s))
