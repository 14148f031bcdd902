"""TLS at the edge rendered: ports, settings, probes, Services and mounts of each mode, and nothing without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.tls import EdgeMode
from pulsar_operator.domain.dataplane.objects.pods import PodFacts
from pulsar_operator.domain.dataplane.observed.pod_counters import metrics_url
from pulsar_operator.domain.render import RenderedCluster, check_config, render_cluster, spec_problems
from pulsar_operator.domain.render.external_listeners import known_addresses, tls_hosts
from tests.support.cluster.rendering import container, distributed, inputs, of_kind, overrides

Json = dict[str, Any]
FOLDER = "/etc/pulsar-operator/edge-tls"
CERTIFICATE = {"tlsCertificateFilePath": f"{FOLDER}/tls.crt", "tlsKeyFilePath": f"{FOLDER}/tls.key"}
PORTS = ("servicePort", "servicePortTls", "webServicePort", "webServicePortTls")
PLAIN = {"pulsar": 6650, "http": 8080}
TLS = {"tls-pulsar": 6651, "https": 8443}
GATEWAY = {"name": "tls", "type": "Given", "port": 6660, "addressTemplate": "b{ordinal}.example.com:443", "tls": True}
INSIDE = {"name": "inside", "type": "ClusterIP", "port": 6661}


def edge(mode: str, **more: Any) -> RenderedCluster:
    return render_cluster(inputs(distributed(tls={"edge": {"mode": mode, "secretName": "edge"}}, **more)))


def service_ports(manifests: list[Json], name: str = "my-proxy") -> dict[str, int]:
    return {each["name"]: each["port"] for each in of_kind(manifests, "Service", name)["spec"]["ports"]}


def volumes(manifests: list[Json]) -> dict[str, Json]:
    spec = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    return {each["name"]: each for each in spec["volumes"]}


def test_mode_plain_is_no_tls() -> None:
    """That this is what former versions rendered, test_render_unchanged says."""
    plain = edge("Plain")
    assert plain == render_cluster(inputs(distributed()))
    assert (plain.endpoints.service_url_tls, plain.endpoints.web_service_url_tls) == (None, None)


@pytest.mark.parametrize(
    ("mode", "settings", "ports"),
    [
        ("PlainAndTLS", ("6650", "6651", "8080", "8443"), {**PLAIN, **TLS}),
        ("Required", ("", "6651", "", "8443"), TLS),
    ],
)
def test_ports_of_proxies(mode: str, settings: tuple[str, ...], ports: dict[str, int]) -> None:
    proxies = edge(mode).of(Component.PROXY)
    conf = overrides(proxies)
    assert tuple(conf[key] for key in PORTS) == settings
    assert {key: conf[key] for key in CERTIFICATE} == CERTIFICATE
    assert conf["webServiceTlsProvider"] == "SunJSSE", "Pulsar's default has no library for arm64"
    assert {each["name"]: each["containerPort"] for each in container(proxies)["ports"]} == ports
    assert service_ports(proxies) == service_ports(proxies, "my-proxy-headless") == ports


@pytest.mark.parametrize(
    ("mode", "get"),
    [
        ("PlainAndTLS", {"path": "/status.html", "port": "http"}),
        ("Required", {"path": "/status.html", "port": "https", "scheme": "HTTPS"}),
    ],
)
def test_the_kubelet_probes_a_port_that_is_open(mode: str, get: Json) -> None:
    main = container(edge(mode).of(Component.PROXY))
    assert [main[f"{each}Probe"]["httpGet"] for each in ("startup", "readiness", "liveness")] == [get] * 3


def test_proxies_mount_the_copy_of_the_operator_without_the_authority() -> None:
    proxies = edge("PlainAndTLS", proxy={"replicas": 1, "pod": {"sidecars": [{"name": "log", "image": "l:1"}]}})
    items = [{"key": "tls.crt", "path": "tls.crt"}, {"key": "tls.key", "path": "tls.key"}]
    manifests = proxies.of(Component.PROXY)
    assert volumes(manifests)["pulsar-operator-edge-tls"]["secret"] == {"secretName": "my-edge-tls", "items": items}
    mount = {"name": "pulsar-operator-edge-tls", "mountPath": FOLDER, "readOnly": True}
    main, sidecar = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert mount in main["volumeMounts"] and mount not in (sidecar.get("volumeMounts") or [])


def test_another_secret_is_the_same_template() -> None:
    one, other = (
        render_cluster(inputs(distributed(tls={"edge": {"mode": "Required", "secretName": name}}))) for name in "ab"
    )
    assert one == other, "a certificate that is replaced restarts no pod"


def test_urls_for_clients() -> None:
    both, only = edge("PlainAndTLS").endpoints, edge("Required").endpoints
    host = "my-proxy.ns.svc.cluster.local"
    assert both.service_url == f"pulsar://{host}:6650" and both.web_service_url == f"http://{host}:8080"
    for found in (both, only):
        assert found.service_url_tls == f"pulsar+ssl://{host}:6651"
        assert found.web_service_url_tls == f"https://{host}:8443"
        assert found.broker_service_url == "pulsar://my-broker.ns.svc.cluster.local:6650"
    assert (only.service_url, only.web_service_url) == (only.service_url_tls, only.web_service_url_tls)


def test_a_host_of_the_user_is_in_the_urls_with_tls_alone() -> None:
    tls = {"edge": {"mode": "PlainAndTLS", "secretName": "edge", "host": "pulsar.example.com"}}
    named = render_cluster(inputs(distributed(tls=tls)))
    assert named.endpoints.service_url_tls == "pulsar+ssl://pulsar.example.com:6651"
    assert named.endpoints.web_service_url_tls == "https://pulsar.example.com:8443"
    assert named.endpoints.service_url == "pulsar://my-proxy.ns.svc.cluster.local:6650"
    assert named.components == edge("PlainAndTLS").components, "another host restarts no pod"


def test_brokers_without_a_listener_with_tls_stay_as_they_are() -> None:
    for component in (Component.ZOOKEEPER, Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER):
        assert edge("Required").of(component) == edge("Plain").of(component)


def test_a_listener_with_tls_beside_one_without() -> None:
    found = edge("Plain", listeners=[GATEWAY, INSIDE])
    brokers = found.of(Component.BROKER)
    conf = overrides([each for each in brokers if "config" in each["metadata"]["name"]])
    assert conf["bindAddresses"] == "tls:pulsar+ssl://0.0.0.0:6660,inside:pulsar://0.0.0.0:6661"
    assert {key: conf[key] for key in CERTIFICATE} == CERTIFICATE
    assert "brokerServicePortTls" not in conf and conf["brokerServicePort"] == "6650"
    assert "pulsar-operator-edge-tls" in volumes(brokers)
    assert found.of(Component.PROXY) == edge("Plain").of(Component.PROXY)


def test_addresses_of_a_listener_with_tls() -> None:
    plan = inputs(distributed(listeners=[GATEWAY, INSIDE])).listeners(Component.BROKER)
    known = known_addresses(plan, 2, {})
    assert "tls:pulsar+ssl://b1.example.com:443" in known.entries["my-broker-1"].split(",")
    assert known.entries["my-broker-1"].startswith("internal:pulsar://my-broker-1.")
    assert known.bootstrap["tls"] == "pulsar+ssl://b0.example.com:443,b1.example.com:443"
    assert tls_hosts(plan, known_addresses(plan, 2, {})) == ["b0.example.com", "b1.example.com"]


def test_hosts_of_addresses_are_what_a_certificate_names() -> None:
    listed = {"name": "a", "type": "Given", "port": 6660, "addresses": ["[fd00::1]:2", "c.example.com:3"], "tls": True}
    services = {"name": "b", "type": "ClusterIP", "port": 6661, "tls": True}
    plan = inputs(distributed(listeners=[listed, services])).listeners(Component.BROKER)
    inside = [f"my-broker{ordinal}-b.ns.svc.cluster.local" for ordinal in ("", "-0", "-1")]
    assert tls_hosts(plan, known_addresses(plan, 2, {})) == ["fd00::1", "c.example.com", *inside]


def test_node_ports() -> None:
    service = {"type": "NodePort", "nodePorts": {"tlsPulsar": 30651, "https": 30443}}
    found = edge("Required", proxy={"replicas": 1, "service": service}).of(Component.PROXY)
    ports = of_kind(found, "Service", "my-proxy")["spec"]["ports"]
    assert {each["name"]: each["nodePort"] for each in ports} == {"tls-pulsar": 30651, "https": 30443}


def test_a_mode_in_between_is_rendered_instead() -> None:
    spec = distributed(tls={"edge": {"mode": "Required", "secretName": "edge"}})
    assert render_cluster(replace(inputs(spec), edge=EdgeMode.PLAIN_AND_TLS)) == edge("PlainAndTLS")


@pytest.mark.parametrize("component", [Component.PROXY, Component.BROKER])
@pytest.mark.parametrize("key", ["tlsCertificateFilePath", "tlsKeyFilePath", "webServiceTlsProvider", "servicePortTls"])
def test_users_override_none_of_it(component: Component, key: str) -> None:
    assert "is reserved" in check_config(component, {key: "x"})[0]
    assert "is reserved" in check_config(component, {f"PULSAR_PREFIX_{key}": "x"})[0]


def test_what_a_pod_of_the_user_must_not_have() -> None:
    pod = {
        "volumes": [{"name": "pulsar-operator-edge-tls", "emptyDir": {}}],
        "volumeMounts": [{"name": "pulsar-operator-edge-tls", "mountPath": FOLDER}],
        "sidecars": [{"name": "log", "image": "l:1", "ports": [{"name": "https", "containerPort": 8443}]}],
    }
    proxy = {"replicas": 1, "pod": pod}
    spec = distributed(tls={"edge": {"mode": "Required", "secretName": "edge"}}, proxy=proxy)
    text = " ".join(spec_problems(spec))
    assert "is used by a volume of the operator" in text and "would hide or change" in text
    assert "8443" in text
    assert "8443" not in " ".join(spec_problems(distributed(proxy=proxy))), "a port that is free may be used"


@pytest.mark.parametrize(("mode", "url"), [("Plain", "http://10.0.0.7:8080"), ("Required", "https://10.0.0.7:8443")])
def test_metrics_are_read_from_a_port_that_is_open(mode: str, url: str) -> None:
    workload = of_kind(edge(mode).of(Component.PROXY), "StatefulSet")
    pod = {"spec": workload["spec"]["template"]["spec"], "status": {"podIP": "10.0.0.7"}}
    facts = PodFacts("my-proxy-0", "u", 0, True, False, "r", True, True, None, pod)
    assert metrics_url(Component.PROXY, facts) == f"{url}/metrics/"


def test_a_mode_of_another_name_is_refused() -> None:
    with pytest.raises(ValidationError):
        distributed(tls={"edge": {"mode": "TLS", "secretName": "edge"}})
