"""Services as they may be reached, IP versions, users left to the platform, and files that Java writes."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.domain.render import render_cluster, render_configuration_store, spec_problems
from tests.support.cluster.rendering import distributed, inputs, of_kind, owner, standalone

Json = dict[str, Any]
IDS = {"runAsUser", "runAsGroup", "fsGroup"}
V4_OFF, V6_FIRST = "-Djava.net.preferIPv4Stack=false", "-Djava.net.preferIPv6Addresses=true"


def everything(platform: Json) -> list[Json]:
    """All manifests of a cluster, of a standalone one and of a configuration store on a platform."""
    store = render_configuration_store(
        owner("geo", Kind.INSTANCE),
        ManagedZooKeeper(),
        image="zk:1",
        super_digest_secret="s",
        platform=Platform.model_validate(platform),
    )
    one = standalone().model_copy(update={"platform": Platform.model_validate(platform)})
    clusters = [render_cluster(inputs(spec)).all() for spec in (distributed(platform=platform), one)]
    return [*store.manifests, *clusters[0], *clusters[1]]


@pytest.mark.parametrize(("platform", "fixed"), [({}, True), ({"podSecurity": "Platform"}, False)])
def test_a_platform_may_choose_users_and_pods_stay_restricted(platform: Json, fixed: bool) -> None:
    for manifest in everything(platform):
        if manifest["kind"] == "StatefulSet":
            pod = manifest["spec"]["template"]["spec"]
            context = pod["securityContext"]
            assert (context.keys() >= IDS) is fixed
            assert bool(context.keys() & IDS) is fixed
            assert context["runAsNonRoot"] is True
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
            assert not {"runAsUser", "runAsGroup"} & pod["containers"][0]["securityContext"].keys()


@pytest.mark.parametrize(
    ("platform", "service", "arguments"),
    [
        ({}, {}, []),
        ({"ipFamilies": ["IPv4"]}, {"ipFamilies": ["IPv4"]}, []),
        ({"ipFamilies": ["IPv6"]}, {"ipFamilies": ["IPv6"]}, [V4_OFF, V6_FIRST]),
        ({"ipFamilyPolicy": "SingleStack"}, {"ipFamilyPolicy": "SingleStack"}, []),
        ({"ipFamilyPolicy": "PreferDualStack"}, {"ipFamilyPolicy": "PreferDualStack"}, [V4_OFF]),
        (
            {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]},
            {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]},
            [V4_OFF, V6_FIRST],
        ),
    ],
)
def test_every_service_and_every_java_has_the_ip_versions(platform: Json, service: Json, arguments: list[str]) -> None:
    for manifest in everything(platform):
        if manifest["kind"] == "Service":
            assert {k: v for k, v in manifest["spec"].items() if k.startswith("ipFamil")} == service
        if manifest["kind"] == "ConfigMap":
            lines = manifest["data"]["jvm.conf"].splitlines()
            assert [line for line in lines if line.startswith("-Djava.net.")] == arguments
            assert lines[: len(arguments)] == arguments, "what a user writes comes later and wins"


SERVICES: list[tuple[Json, Json]] = [
    ({}, {}),
    (
        {"type": "LoadBalancer", "loadBalancerClass": "c", "loadBalancerSourceRanges": ["10.0.0.0/8"]},
        {"loadBalancerClass": "c", "loadBalancerSourceRanges": ["10.0.0.0/8"]},
    ),
    ({"type": "NodePort", "externalTrafficPolicy": "Local"}, {"externalTrafficPolicy": "Local"}),
    ({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"}, {"externalTrafficPolicy": "Cluster"}),
    ({"type": "ClusterIP", "externalTrafficPolicy": "Local", "loadBalancerClass": "c"}, {}),
    ({"type": "NodePort", "loadBalancerClass": "c", "loadBalancerSourceRanges": ["10.0.0.0/8"]}, {}),
]


@pytest.mark.parametrize(("service", "wanted"), SERVICES)
def test_a_service_has_the_fields_of_its_type(service: Json, wanted: Json) -> None:
    proxy = render_cluster(inputs(distributed(proxy={"service": service}))).of(Component.PROXY)
    one = render_cluster(inputs(standalone(service=service))).of(Component.STANDALONE)
    for found in (of_kind(proxy, "Service", "my-proxy"), of_kind(one, "Service", "my-standalone")):
        assert {k: v for k, v in found["spec"].items() if k not in ("type", "selector", "ports")} == wanted
        assert found["spec"]["type"] == service.get("type", "ClusterIP")


def test_the_service_of_brokers_may_have_annotations() -> None:
    manifests = render_cluster(inputs(distributed(broker={"service": {"annotations": {"a": "b"}}}))).of(
        Component.BROKER
    )
    assert of_kind(manifests, "Service", "my-broker")["metadata"]["annotations"] == {"a": "b"}
    assert of_kind(manifests, "Service", "my-broker")["spec"]["type"] == "ClusterIP"
    assert "annotations" not in of_kind(manifests, "Service", "my-broker-headless")["metadata"]


def test_java_writes_dumps_and_logs_where_it_is_told() -> None:
    jvm = {"heapDumpPath": "/pulsar/logs", "gcLogPath": "/tmp/gc.log", "options": ["-Dx=y"]}
    spec = distributed(broker={"jvm": jvm})
    assert spec_problems(spec) == []
    lines = of_kind(render_cluster(inputs(spec)).of(Component.BROKER), "ConfigMap")["data"]["jvm.conf"].splitlines()
    assert "-XX:+HeapDumpOnOutOfMemoryError" in lines
    assert "-XX:HeapDumpPath=/pulsar/logs" in lines
    assert "-Xlog:gc*:file=/tmp/gc.log:time,uptime,level,tags:filecount=5,filesize=20M" in lines
    assert lines[-1] == "-Dx=y"


@pytest.mark.parametrize(
    ("path", "read_only", "refused"),
    [
        ("/tmp", None, False),
        ("/tmp/a", None, False),
        ("/tmpx", None, True),
        ("/pulsar/data/x", None, True),
        ("/mnt/dumps/x", None, False),
        ("/mnt/dumps", False, False),
        ("/mnt/dumps", True, True),
        ("/mnt", None, True),
    ],
)
def test_a_file_of_javas_needs_a_folder_that_can_be_written(path: str, read_only: bool | None, refused: bool) -> None:
    mount = {"name": "dumps", "mountPath": "/mnt/dumps", "readOnly": read_only}
    pod = {"volumes": [{"name": "dumps", "emptyDir": {}}], "volumeMounts": [mount]}
    found = spec_problems(distributed(broker={"jvm": {"heapDumpPath": path}, "pod": pod}))
    assert len(found) == refused
    assert all(f'spec.broker.jvm.heapDumpPath = "{path}" is not in a writable folder' in each for each in found)
