"""What helm/pulsar renders, against the models and a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_conformance.__main__ import parser
from pulsar_operator.api.constants import ANNOTATION_DELETE_AFTER_DEPENDENTS, API_VERSION, Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import render_cluster
from tests.support.admission.samples import path
from tests.support.cluster.rendering import inputs
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import PULSAR_CHART, Helm, HelmError, is_hook, of_kind

Json = dict[str, Any]

FULL: Json = {
    "profile": "Production",
    "instance": {"name": "shop-pulsar", "spec": {"configurationStore": {"managed": {"replicas": 3}}}},
    "cluster": {
        "name": "east",
        "spec": {
            "bookkeeper": {"replicas": 5, "ledgers": {"size": "1Ti", "storageClassName": "large"}},
            "proxy": {"service": {"type": "LoadBalancer"}},
            "broker": {"replicas": 0, "config": {"brokerDeduplicationEnabled": "true"}},
        },
    },
    "tenants": [{"name": "shop", "spec": {"adminRoles": ["shop-admin"]}}],
    "namespaces": [
        {
            "name": "orders",
            "tenant": "shop",
            "spec": {
                "bundles": {"count": 8},
                "policies": {
                    "messageTTLSeconds": 86400,
                    "backlogQuotas": {"destinationStorage": {"limit": 1125899906842624, "policy": "ProducerException"}},
                },
            },
        }
    ],
    "topics": [
        {"name": "payments", "namespace": "orders"},
        {"name": "clicks", "namespace": "orders", "spec": {"partitions": 4}},
    ],
}
VARIANTS: dict[str, Json] = {
    "default": {},
    "production": {"profile": "Production"},
    "full": FULL,
    "standalone with defaults": {"cluster": {"spec": {"mode": "Standalone"}}},
    "standalone": {"cluster": {"spec": {"mode": "Standalone", "standalone": {"storage": {"size": "3Gi"}}}}},
    "external": {"cluster": {"spec": {"metadataStore": {"external": {"servers": "zk:2181", "chroot": "/p"}}}}},
    "kept": {"keepOnUninstall": True},
    "second-cluster": {"instance": {"create": False, "name": "there", "namespace": "elsewhere"}},
}


@pytest.fixture(params=VARIANTS, name="variant")
def _variant(request: pytest.FixtureRequest) -> Json:
    return VARIANTS[request.param]


def test_lint(helm: Helm, variant: Json) -> None:
    assert "0 chart(s) failed" in helm.lint(PULSAR_CHART, variant)


def test_objects_are_accepted(helm: Helm, apiserver: ApiServer, namespace: str, variant: Json) -> None:
    """Strictly, and read by the models with every declared field in place."""
    objects = [obj for obj in helm.template(PULSAR_CHART, variant, namespace=namespace) if not is_hook(obj)]
    assert objects
    for obj in objects:
        kind = Kind(obj["kind"])
        assert obj["apiVersion"] == API_VERSION
        assert obj["metadata"]["namespace"] == namespace
        MODELS[kind].spec.model_validate(obj["spec"])
        answer = apiserver.request(
            "POST", path(kind, namespace), obj, query={"fieldValidation": "Strict", "dryRun": "All"}
        )
        assert answer.code == 201, answer.message


def test_small_is_one_of_everything(helm: Helm) -> None:
    (cluster,) = of_kind(helm.template(PULSAR_CHART, release="demo"), "PulsarCluster")
    spec = cluster["spec"]
    assert cluster["metadata"]["name"] == "demo"
    assert spec["preset"] == "Small"
    assert spec["metadataStore"]["managed"]["replicas"] == 1
    assert spec["bookkeeper"]["replicas"] == spec["bookkeeper"]["autoRecovery"]["replicas"] == 1
    assert spec["broker"]["replicas"] == spec["proxy"]["replicas"] == 1
    (instance,) = of_kind(helm.template(PULSAR_CHART, release="demo"), "PulsarInstance")
    assert instance["spec"] == {"configurationStore": {"cluster": {"name": "demo"}}}
    assert spec["instanceRef"] == {"name": instance["metadata"]["name"]}


def test_production_survives_the_loss_of_one(helm: Helm) -> None:
    (cluster,) = of_kind(helm.template(PULSAR_CHART, {"profile": "Production"}), "PulsarCluster")
    spec = cluster["spec"]
    assert spec["preset"] == "Production"
    assert spec["metadataStore"]["managed"]["replicas"] == 3
    assert spec["bookkeeper"]["replicas"] >= 3
    assert spec["broker"]["replicas"] >= 2
    assert spec["proxy"]["replicas"] >= 2


def test_values_win_over_the_profile(helm: Helm) -> None:
    objects = helm.template(PULSAR_CHART, FULL)
    (cluster,) = of_kind(objects, "PulsarCluster")
    spec = cluster["spec"]
    assert spec["bookkeeper"]["replicas"] == 5
    assert spec["bookkeeper"]["ledgers"] == {"size": "1Ti", "storageClassName": "large"}
    assert spec["bookkeeper"]["journal"] == {"size": "10Gi"}, "what the values do not say stays"
    assert spec["broker"]["replicas"] == 0, "zero is a value too"
    assert spec["proxy"] == {"replicas": 2, "service": {"type": "LoadBalancer"}}
    (instance,) = of_kind(objects, "PulsarInstance")
    assert instance["spec"] == {"configurationStore": {"managed": {"replicas": 3}}}


def test_the_chart_never_upgrades_pulsar(helm: Helm) -> None:
    (cluster,) = of_kind(helm.template(PULSAR_CHART), "PulsarCluster")
    assert "version" not in cluster["spec"]


def test_large_numbers_stay_integers(helm: Helm) -> None:
    (namespace,) = of_kind(helm.template(PULSAR_CHART, FULL), "PulsarNamespace")
    limit = namespace["spec"]["policies"]["backlogQuotas"]["destinationStorage"]["limit"]
    assert limit == 1125899906842624
    assert isinstance(limit, int)


def test_references(helm: Helm) -> None:
    objects = helm.template(PULSAR_CHART, FULL)
    (tenant,) = of_kind(objects, "PulsarTenant")
    (namespace,) = of_kind(objects, "PulsarNamespace")
    assert tenant["spec"]["instanceRef"] == {"name": "shop-pulsar"}
    assert namespace["spec"]["tenantRef"] == {"name": "shop"}
    assert {t["spec"]["namespaceRef"]["name"] for t in of_kind(objects, "PulsarTopic")} == {"orders"}
    (cluster,) = of_kind(helm.template(PULSAR_CHART, VARIANTS["second-cluster"]), "PulsarCluster")
    assert cluster["spec"]["instanceRef"] == {"name": "there", "namespace": "elsewhere"}


def test_keep_on_uninstall(helm: Helm) -> None:
    """The deletion guard lets Helm delete what others may refer to, and the cluster is one of those."""
    for keep in (False, True):
        for obj in helm.template(PULSAR_CHART, {**FULL, "keepOnUninstall": keep, "conformance": {"enabled": False}}):
            parent = obj["kind"] != Kind.TOPIC
            wanted = {ANNOTATION_DELETE_AFTER_DEPENDENTS: obj["metadata"]["name"]} if parent else None
            wanted = {"helm.sh/resource-policy": "keep"} if keep else wanted
            assert obj["metadata"].get("annotations") == wanted


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cluster": {"spec": {"brokr": {}}}}, "at '/cluster/spec': additional properties 'brokr' not allowed"),
        ({"cluster": {"spec": {"broker": {"replicas": "2"}}}}, "at '/cluster/spec/broker/replicas'"),
        ({"cluster": {"spec": {"instanceRef": {"name": "x"}}}}, "additional properties 'instanceRef' not allowed"),
        ({"cluster": {"spec": {"metadataStore": {"managed": {"replicas": 2}}}}}, "managed/replicas"),
        ({"conformance": {"only": "^ack"}}, "at '/conformance/only'"),
        ({"conformance": {"image": {"repository": ""}}}, "at '/conformance/image/repository'"),
        ({"profile": "Medium"}, "at '/profile': value must be one of 'Small', 'Production'"),
        ({"topics": [{"name": "a"}]}, "missing property 'namespace'"),
        ({"topics": [{"name": "a", "namespace": "n"}] * 2}, 'topics has two entries named "a"'),
        ({"cluster": {"name": "9lives"}}, "at '/cluster/name'"),
        ({"instance": {"create": False}}, "instance.name must be set"),
        ({"instance": {"namespace": "x"}}, "only for an instance that exists already"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, values: Json, message: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.template(PULSAR_CHART, values)
    assert message in str(refused.value)


def conformance_pod(helm: Helm, values: Json, namespace: str = "ops") -> Json:
    """The only hook of the chart."""
    (pod,) = (obj for obj in helm.template(PULSAR_CHART, values, release="east", namespace=namespace) if is_hook(obj))
    return pod


def arguments(pod: Json) -> list[str]:
    """What the suite is told."""
    found: list[str] = pod["spec"]["containers"][0]["args"]
    return found


def test_helm_test_runs_the_conformance_suite(helm: Helm) -> None:
    """helm test --logs shows the log of the pod that has the hook's name, so it is a pod and not a Job."""
    pod = conformance_pod(helm, {})
    assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", "east-conformance")
    assert pod["metadata"]["annotations"] == {
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation",
    }
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["image"] == "pulsar-conformance:0.1.0"
    chosen = {"conformance": {"image": {"tag": "dev"}, "only": ["^ack", "a b"], "waitLimit": 0, "workers": 2}}
    pod = conformance_pod(helm, chosen)
    assert pod["spec"]["containers"][0]["image"] == "pulsar-conformance:dev"
    assert arguments(pod)[2:] == ["--workers=2", "--wait-limit=0", "--only=^ack", "--only=a b"]
    objects = helm.template(PULSAR_CHART, {"conformance": {"enabled": False}})
    assert not [obj for obj in objects if is_hook(obj)]


def test_the_suite_accepts_what_it_is_told(helm: Helm) -> None:
    found = parser().parse_args(arguments(conformance_pod(helm, {"conformance": {"only": ["^ack", "^nack"]}})))
    assert (found.only, found.workers, found.wait_limit) == (["^ack", "^nack"], 8, 400)


@pytest.mark.parametrize(
    ("front", "spec"),
    [
        ("proxy", {}),
        ("broker", {"proxy": {"replicas": 0}}),
        ("proxy", {"clusterDomain": "k8s.example"}),
        ("standalone", {"mode": "Standalone"}),
    ],
)
def test_the_suite_goes_where_the_operator_says_clients_go(helm: Helm, front: str, spec: Json) -> None:
    values: Json = {"cluster": {"name": "c", "spec": spec}}
    (cluster,) = of_kind(helm.template(PULSAR_CHART, values, namespace="ns"), "PulsarCluster")
    rendered = render_cluster(inputs(PulsarClusterSpec.model_validate(cluster["spec"]), name="c"))
    assert rendered.endpoints.service_url.startswith(f"pulsar://c-{front}.ns.svc.")
    urls = arguments(conformance_pod(helm, values, namespace="ns"))[:2]
    endpoints = rendered.endpoints
    assert urls == [f"--service-url={endpoints.service_url}", f"--admin-url={endpoints.web_service_url}"]


def test_the_pod_of_the_suite_is_restricted(helm: Helm, apiserver: ApiServer) -> None:
    """By the API server's own judgement of Pod Security Standard restricted."""
    namespace = apiserver.new_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    pod = conformance_pod(helm, {}, namespace=namespace)
    answer = apiserver.request(
        "POST", f"/api/v1/namespaces/{namespace}/pods", pod, query={"dryRun": "All", "fieldValidation": "Strict"}
    )
    assert answer.code == 201, answer.message
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("release", ["9th", "a" * 41])
def test_release_name_that_cannot_name_a_cluster(helm: Helm, release: str) -> None:
    with pytest.raises(HelmError, match=r"set cluster\.name"):
        helm.template(PULSAR_CHART, release=release)
    assert helm.template(PULSAR_CHART, {"cluster": {"name": "ok"}}, release=release)
