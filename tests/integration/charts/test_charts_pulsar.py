"""What helm/pulsar renders, against the models and a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.api.v1alpha1 import MODELS
from tests.support.apiserver import ApiServer
from tests.support.helm import PULSAR_CHART, Helm, HelmError, of_kind
from tests.support.samples import path

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
                    "backlogQuotas": {
                        "destinationStorage": {"limitBytes": 1125899906842624, "policy": "ProducerException"}
                    },
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
    objects = helm.template(PULSAR_CHART, variant, namespace=namespace)
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
    limit = namespace["spec"]["policies"]["backlogQuotas"]["destinationStorage"]["limitBytes"]
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
    for values, wanted in (({}, None), ({"keepOnUninstall": True}, {"helm.sh/resource-policy": "keep"})):
        for obj in helm.template(PULSAR_CHART, {**FULL, **values}):
            assert obj["metadata"].get("annotations") == wanted


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cluster": {"spec": {"brokr": {}}}}, "at '/cluster/spec': additional properties 'brokr' not allowed"),
        ({"cluster": {"spec": {"broker": {"replicas": "2"}}}}, "at '/cluster/spec/broker/replicas'"),
        ({"cluster": {"spec": {"instanceRef": {"name": "x"}}}}, "additional properties 'instanceRef' not allowed"),
        ({"cluster": {"spec": {"metadataStore": {"managed": {"replicas": 2}}}}}, "managed/replicas"),
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


@pytest.mark.parametrize("release", ["9th", "a" * 41])
def test_release_name_that_cannot_name_a_cluster(helm: Helm, release: str) -> None:
    with pytest.raises(HelmError, match=r"set cluster\.name"):
        helm.template(PULSAR_CHART, release=release)
    assert helm.template(PULSAR_CHART, {"cluster": {"name": "ok"}}, release=release)
