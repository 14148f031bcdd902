"""What each component is given, and that a change rolls no more than it must."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.domain.render import StoreAddress, render_cluster, render_configuration_store
from tests.support.cluster.rendering import container, distributed, inputs, of_kind, overrides, owner, standalone


def env(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container(manifests)["env"]}


def test_children_are_named_after_cluster_and_component() -> None:
    rendered = render_cluster(inputs(distributed()))
    assert [component.value for component, _ in rendered.ordered()] == [
        "zookeeper",
        "bookie",
        "autorecovery",
        "broker",
        "proxy",
    ]
    names = [f"{m['kind']} {m['metadata']['name']}" for m in rendered.all()]
    assert sorted(re.sub("-config-[0-9a-f]{16}$", "-config", name) for name in names) == sorted(
        [
            "ServiceAccount my-pulsar",
            *(f"ConfigMap my-{c}-config" for c in ("zookeeper", "bookie", "autorecovery", "broker", "proxy")),
            *(f"Service my-{c}-headless" for c in ("zookeeper", "bookie", "autorecovery", "broker", "proxy")),
            *(f"StatefulSet my-{c}" for c in ("zookeeper", "bookie", "autorecovery", "broker", "proxy")),
            *(f"Service my-{c}" for c in ("zookeeper", "broker", "proxy")),
            *(f"PodDisruptionBudget my-{c}" for c in ("zookeeper", "bookie", "broker", "proxy")),
        ]
    )


def test_stores_are_named_by_the_client_service_and_full_hosts() -> None:
    rendered = render_cluster(inputs(distributed()))
    assert rendered.metadata_store == StoreAddress("my-zookeeper.ns.svc.cluster.local:2181")
    broker, bookie = overrides(rendered.of(Component.BROKER)), overrides(rendered.of(Component.BOOKIE))
    proxy = overrides(rendered.of(Component.PROXY))
    url = "zk:my-zookeeper.ns.svc.cluster.local:2181"
    assert broker["metadataStoreUrl"] == broker["configurationMetadataStoreUrl"] == url
    assert proxy["metadataStoreUrl"] == proxy["configurationMetadataStoreUrl"] == url
    assert bookie["metadataServiceUri"] == f"metadata-store:{url}"


def test_an_external_store_keeps_its_chroot_and_bookkeeper_gets_semicolons() -> None:
    external = {"external": {"servers": "a.example.com,b.example.com:2281", "chroot": "/p"}}
    rendered = render_cluster(inputs(distributed(metadataStore=external), store=StoreAddress("cs:2181", "/conf")))
    assert Component.ZOOKEEPER not in rendered.components
    broker = overrides(rendered.of(Component.BROKER))
    assert broker["metadataStoreUrl"] == "zk:a.example.com:2181,b.example.com:2281/p"
    assert broker["configurationMetadataStoreUrl"] == "zk:cs:2181/conf"
    uri = "metadata-store:zk:a.example.com:2181;b.example.com:2281/p"
    assert overrides(rendered.of(Component.BOOKIE))["metadataServiceUri"] == uri
    assert overrides(rendered.of(Component.AUTORECOVERY))["metadataServiceUri"] == uri


def test_zookeeper_knows_its_ensemble_and_its_superuser() -> None:
    manifests = render_cluster(inputs(distributed(metadataStore={"managed": {"replicas": 3}}))).of(Component.ZOOKEEPER)
    values = env(manifests)
    assert values["ZOO_REPLICAS"] == "3"
    assert values["ZOO_STS_NAME"] == "my-zookeeper"
    assert values["ZOO_DOMAIN"] == "my-zookeeper-headless.ns.svc.cluster.local"
    assert values["ZOO_SUPER_DIGEST"] == {"secretKeyRef": {"name": "my-super", "key": "digest"}}
    assert container(manifests)["command"][-1] == "zookeeper"
    assert of_kind(manifests, "Service", "my-zookeeper-headless")["spec"]["publishNotReadyAddresses"] is True
    # Liveness must not depend on a quorum: servers without one have to stay up to form it.
    assert "tcpSocket" in container(manifests)["livenessProbe"]


def test_a_configuration_store_is_a_zookeeper_of_its_own_name() -> None:
    rendered = render_configuration_store(
        owner("geo", Kind.INSTANCE), ManagedZooKeeper(), image="zk:1", super_digest_secret="s"
    )
    assert rendered.address.url == "zk:geo-configuration-store.ns.svc.cluster.local:2181"
    assert container(rendered.manifests)["command"][-1] == "zookeeper"
    assert env(rendered.manifests)["ZOO_STS_NAME"] == "geo-configuration-store"


@pytest.mark.parametrize("on", [False, True])
def test_a_zookeeper_has_metrics_where_they_are_asked_for(on: bool) -> None:
    """Off, nothing of them is rendered: pods of clusters that are there already are not rolled for it."""
    store = ManagedZooKeeper(metrics=on, config={"metricsProvider.httpPort": "7", "metricsProvider.exportJvmInfo": "x"})
    manifests = render_configuration_store(
        owner("geo", Kind.INSTANCE), store, image="zk:1", super_digest_secret="s"
    ).manifests
    values = overrides(manifests)
    assert values["metricsProvider.httpPort"] == ("8000" if on else "7")
    assert ("metricsProvider.className" in values) is on
    assert values["metricsProvider.exportJvmInfo"] == "x"
    headless = of_kind(manifests, "Service", "geo-configuration-store-headless")["spec"]["ports"]
    for ports, number in ((container(manifests)["ports"], "containerPort"), (headless, "port")):
        assert [port[number] for port in ports if port["name"] == "http"] == ([8000] if on else [])
    clients = of_kind(manifests, "Service", "geo-configuration-store")["spec"]["ports"]
    assert [port["name"] for port in clients] == ["client"]


def test_bookie_ids_are_stable_names() -> None:
    rendered = render_cluster(inputs(distributed()))
    manifests = rendered.of(Component.BOOKIE)
    assert env(manifests)["PULSAR_CONF_advertisedAddress"] == ("$(POD_NAME).my-bookie-headless.ns.svc.cluster.local")
    assert rendered.bookie_ids == (
        "my-bookie-0.my-bookie-headless.ns.svc.cluster.local:3181",
        "my-bookie-1.my-bookie-headless.ns.svc.cluster.local:3181",
    )
    values = overrides(manifests)
    assert values["httpServerEnabled"] == "true"
    assert values["autoRecoveryDaemonEnabled"] == "false"


def test_message_size_goes_to_brokers_and_bookies_in_step() -> None:
    spec = distributed(broker={"maxMessageSize": 10_485_760})
    rendered = render_cluster(inputs(spec))
    assert overrides(rendered.of(Component.BROKER))["maxMessageSize"] == "10485760"
    for component in (Component.BOOKIE, Component.AUTORECOVERY):
        assert overrides(rendered.of(component))["nettyMaxFrameSizeBytes"] == "10496000"
    stock = render_cluster(inputs(distributed()))
    assert "maxMessageSize" not in overrides(stock.of(Component.BROKER))
    assert "nettyMaxFrameSizeBytes" not in overrides(stock.of(Component.BOOKIE))


def test_brokers_outlive_their_own_shutdown_and_a_metadata_outage() -> None:
    manifests = render_cluster(inputs(distributed())).of(Component.BROKER)
    pod = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] * 1000 > int(overrides(manifests)["brokerShutdownTimeoutMs"])
    assert container(manifests)["readinessProbe"]["httpGet"]["path"] == "/admin/v2/brokers/ready"
    assert "httpGet" not in container(manifests)["livenessProbe"]


@pytest.mark.parametrize(
    ("config", "expected"), [(None, "false"), ({"brokerDeleteInactiveTopicsEnabled": "true"}, "true")]
)
def test_recommendations_yield_to_the_user(config: dict[str, str] | None, expected: str) -> None:
    spec = distributed(broker={"config": config})
    assert overrides(render_cluster(inputs(spec)).of(Component.BROKER))["brokerDeleteInactiveTopicsEnabled"] == expected


def test_the_operators_keys_win_even_where_nobody_checked() -> None:
    spec = distributed(broker={"config": {"clusterName": "theirs", "metadataStoreUrl": "zk:theirs"}})
    values = overrides(render_cluster(inputs(spec)).of(Component.BROKER))
    assert values["clusterName"] == "my"
    assert "theirs" not in values["metadataStoreUrl"]


def test_the_extensible_manager_brings_its_shedder() -> None:
    spec = distributed(loadBalancing={"manager": "Extensible"})
    values = overrides(render_cluster(inputs(spec)).of(Component.BROKER))
    assert values["loadManagerClassName"].endswith(".ExtensibleLoadManagerImpl")
    assert values["loadBalancerLoadSheddingStrategy"].endswith(".TransferShedder")
    modular = overrides(render_cluster(inputs(distributed())).of(Component.BROKER))
    assert modular["loadManagerClassName"].endswith(".ModularLoadManagerImpl")
    assert "loadBalancerLoadSheddingStrategy" not in modular


def test_the_proxy_reaches_only_brokers_of_its_cluster() -> None:
    values = overrides(render_cluster(inputs(distributed())).of(Component.PROXY))
    assert values["brokerProxyAllowedHostNames"] == "*.my-broker-headless.ns.svc.cluster.local"
    assert values["statusFilePath"] == "/pulsar/conf-rendered/proxy.conf"


def test_node_ports_are_set_only_where_the_service_has_any() -> None:
    section = {"nodePorts": {"pulsar": 30650}}
    for kind, expected in (("NodePort", [30650, None]), ("ClusterIP", [None, None])):
        spec = distributed(proxy={"service": {"type": kind, **section}})
        service = of_kind(render_cluster(inputs(spec)).of(Component.PROXY), "Service", "my-proxy")
        assert [port.get("nodePort") for port in service["spec"]["ports"]] == expected


def test_endpoints_name_the_proxy_only_where_there_is_one() -> None:
    assert render_cluster(inputs(distributed())).endpoints.service_url == "pulsar://my-proxy.ns.svc.cluster.local:6650"
    without = render_cluster(inputs(distributed(proxy={"replicas": 0}))).endpoints
    assert without.service_url == without.broker_service_url == "pulsar://my-broker.ns.svc.cluster.local:6650"
    assert without.broker_web_service_url == "http://my-broker.ns.svc.cluster.local:8080"


def test_standalone_is_one_pod_with_a_stable_address() -> None:
    rendered = render_cluster(inputs(standalone()))
    assert list(rendered.components) == [Component.STANDALONE]
    manifests = rendered.of(Component.STANDALONE)
    expected = "$(POD_NAME).my-standalone-headless.ns.svc.cluster.local"
    assert env(manifests)["PULSAR_CONF_advertisedAddress"] == expected
    assert rendered.endpoints.service_url == "pulsar://my-standalone.ns.svc.cluster.local:6650"
    assert rendered.metadata_store is None


def test_standalone_takes_the_address_a_user_needs_outside() -> None:
    manifests = render_cluster(inputs(standalone(config={"advertisedAddress": "127.0.0.1"}))).of(Component.STANDALONE)
    assert "PULSAR_CONF_advertisedAddress" not in env(manifests)
    assert overrides(manifests)["advertisedAddress"] == "127.0.0.1"


def test_images_follow_the_version_unless_overridden() -> None:
    spec = distributed(version="4.0.6", image={"proxy": "registry.example.com/proxy@sha256:1"})
    rendered = render_cluster(inputs(spec))
    images = {c.value: container(m)["image"] for c, m in rendered.ordered()}
    assert images == {
        "zookeeper": "pulsar-bookie:4.0.6",
        "bookie": "pulsar-bookie:4.0.6",
        "autorecovery": "pulsar-bookie:4.0.6",
        "broker": "pulsar-broker:4.0.6",
        "proxy": "registry.example.com/proxy@sha256:1",
    }


def test_a_spec_without_a_store_is_an_error_that_names_the_field() -> None:
    spec = distributed()
    with pytest.raises(ValueError, match=r"spec\.metadataStore\.managed"):
        render_cluster(inputs(spec.model_copy(update={"metadata_store": None})))


CHANGES: list[tuple[str, dict[str, Any], set[Component]]] = [
    ("broker config", {"broker": {"replicas": 2, "config": {"maxProducersPerTopic": "9"}}}, {Component.BROKER}),
    ("broker replicas", {"broker": {"replicas": 3}}, {Component.BROKER}),
    ("proxy config", {"proxy": {"replicas": 1, "config": {"httpNumThreads": "9"}}}, {Component.PROXY}),
    ("proxy jvm", {"proxy": {"replicas": 1, "jvm": {"heap": "256m"}}}, {Component.PROXY}),
    ("bookie config", {"bookkeeper": {"replicas": 2, "config": {"flushInterval": "9"}}}, {Component.BOOKIE}),
    (
        "auditor config",
        {"bookkeeper": {"replicas": 2, "config": {"lostBookieRecoveryDelay": "60"}}},
        {Component.AUTORECOVERY},
    ),
    ("auto-recovery", {"bookkeeper": {"replicas": 2, "autoRecovery": {"replicas": 2}}}, {Component.AUTORECOVERY}),
    (
        "zookeeper config",
        {"metadataStore": {"managed": {"replicas": 1, "config": {"tickTime": "3000"}}}},
        {Component.ZOOKEEPER},
    ),
    ("load manager", {"loadBalancing": {"manager": "Extensible"}}, {Component.BROKER}),
    ("proxy image", {"image": {"proxy": "other"}}, {Component.PROXY}),
    ("a third bookie: quorums stay", {"bookkeeper": {"replicas": 3}}, {Component.BOOKIE}),
    ("a fourth bookie: quorums grow", {"bookkeeper": {"replicas": 4}}, {Component.BOOKIE, Component.BROKER}),
    (
        "message size",
        {"broker": {"replicas": 2, "maxMessageSize": 2097152}},
        {Component.BROKER, Component.BOOKIE, Component.AUTORECOVERY},
    ),
    ("nothing that pods see", {"allowedKubernetesNamespaces": ["x"]}, set()),
]


@pytest.mark.parametrize(("change", "touched"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_change_touches_only_its_component(change: dict[str, Any], touched: set[Component]) -> None:
    before, after = render_cluster(inputs(distributed())), render_cluster(inputs(distributed(**change)))
    assert {c for c, m in after.ordered() if m != before.of(c)} == touched
    assert before.shared == after.shared


@pytest.mark.parametrize("replicas", [(1, 3), (3, 5)])
def test_a_larger_zookeeper_rolls_no_client(replicas: tuple[int, int]) -> None:
    small, large = (render_cluster(inputs(distributed(metadataStore={"managed": {"replicas": n}}))) for n in replicas)
    assert {c for c, m in large.ordered() if m != small.of(c)} == {Component.ZOOKEEPER}


def test_a_configuration_change_is_a_new_revision_and_replicas_are_not() -> None:
    def template(**broker: Any) -> Any:
        manifests = render_cluster(inputs(distributed(broker=broker))).of(Component.BROKER)
        return of_kind(manifests, "StatefulSet")["spec"]["template"]

    assert template(replicas=2) == template(replicas=5)
    assert template(config={"maxProducersPerTopic": "9"}) != template()
    assert template(jvm={"options": ["-Dx=y"]}) != template()
