"""The PodMonitor of helm/pulsar finds the pods that the operator makes of the same values, and their metrics port."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.instance import PulsarInstanceSpec
from pulsar_operator.domain.render import StoreAddress, render_cluster, render_configuration_store
from tests.support.cluster.rendering import inputs, owner
from tests.support.processes.helm import PULSAR_CHART, Helm, of_kind

Json = dict[str, Any]

STORE = StoreAddress("shop-configuration-store.ns.svc.cluster.local:2181")
MANAGED = {"managed": {"replicas": 1, "metrics": True}}
ON: Json = {
    "podMonitor": {"enabled": True, "interval": "5s", "labels": {"release": "prom"}},
    "instance": {"name": "shop", "spec": {"configurationStore": MANAGED}},
    "cluster": {"name": "east", "spec": {"metadataStore": MANAGED}},
}


def selects(monitor: Json, labels: Json) -> bool:
    """Whether a pod with the labels is chosen."""
    selector = monitor["spec"]["selector"]
    named = all(
        each["operator"] == "In" and labels.get(each["key"]) in each["values"] for each in selector["matchExpressions"]
    )
    return named and selector["matchLabels"].items() <= labels.items()


def templates(objects: list[Json]) -> dict[str, Json]:
    """Pod templates by component, of the chart's cluster and its instance."""
    (cluster,), (instance,) = of_kind(objects, "PulsarCluster"), of_kind(objects, "PulsarInstance")
    spec = PulsarClusterSpec.model_validate(cluster["spec"])
    manifests = list(render_cluster(inputs(spec, name=cluster["metadata"]["name"], store=STORE)).all())
    store = PulsarInstanceSpec.model_validate(instance["spec"]).configuration_store.managed
    if store is not None:
        mine = owner(instance["metadata"]["name"], Kind.INSTANCE)
        manifests += render_configuration_store(mine, store, image="i", super_digest_secret="s").manifests
    sets = [each for each in manifests if each["kind"] == "StatefulSet"]
    return {each["metadata"]["name"].split("-", 1)[1]: each["spec"]["template"] for each in sets}


def monitor_of(objects: list[Json]) -> Json:
    (found,) = of_kind(objects, "PodMonitor")
    return found


def test_every_pod_is_scraped(helm: Helm) -> None:
    objects = helm.template(PULSAR_CHART, ON)
    monitor, pods = monitor_of(objects), templates(objects)
    assert sorted(pods) == ["autorecovery", "bookie", "broker", "configuration-store", "proxy", "zookeeper"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["path"], endpoint["interval"]) == ("/metrics", "5s")
    assert monitor["metadata"]["labels"]["release"] == "prom"
    for component, template in pods.items():
        assert selects(monitor, template["metadata"]["labels"]), component
        ports = [port["name"] for port in template["spec"]["containers"][0]["ports"]]
        assert endpoint["port"] in ports, component


@pytest.mark.parametrize(("mode", "count"), [("Plain", 1), ("PlainAndTLS", 1), ("Required", 2)])
def test_every_pod_is_scraped_once_whatever_its_proxies_accept(helm: Helm, mode: str, count: int) -> None:
    edge = {"tls": {"edge": {"mode": mode, "secretName": "edge"}}}
    objects = helm.template(
        PULSAR_CHART, {**ON, "cluster": {"name": "east", "spec": {**edge, "metadataStore": MANAGED}}}
    )
    endpoints = {each["port"]: each for each in monitor_of(objects)["spec"]["podMetricsEndpoints"]}
    assert len(endpoints) == count
    for component, template in templates(objects).items():
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert len(ports & endpoints.keys()) == 1, component
    if mode == "Required":
        assert endpoints["https"]["scheme"] == "https" and endpoints["https"]["tlsConfig"] == {
            "insecureSkipVerify": True
        }


def test_pods_of_another_cluster_are_not(helm: Helm) -> None:
    monitor = monitor_of(helm.template(PULSAR_CHART, ON))
    (pod, *_) = templates(helm.template(PULSAR_CHART, {**ON, "cluster": {"name": "west"}})).values()
    assert not selects(monitor, pod["metadata"]["labels"])


def test_an_instance_that_exists_already_is_left_to_its_own_release(helm: Helm) -> None:
    values = {"podMonitor": {"enabled": True}, "instance": {"create": False, "name": "there"}}
    (named,) = monitor_of(helm.template(PULSAR_CHART, values))["spec"]["selector"]["matchExpressions"]
    assert named["values"] == ["rel"]


@pytest.mark.parametrize("values", [{}, {"podMonitor": {"labels": {"a": "b"}}}])
def test_there_is_none_unless_somebody_says_so(helm: Helm, values: Json) -> None:
    assert of_kind(helm.template(PULSAR_CHART, values), "PodMonitor") == []
