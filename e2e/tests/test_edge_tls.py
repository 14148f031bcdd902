"""TLS at the edge: clients that verify the proxies or are refused, the way to Required, and a renewed certificate."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pulsar
import pytest

from e2e.conftest import Deployed
from e2e.support.changes import look_again, patch_cluster
from e2e.support.edgetls import CLUSTER, HTTPS_PORT, PULSAR_TLS_PORT, SECRET, EdgeTls, received
from e2e.support.eventually import eventually
from pulsar_conformance.counting.client import CountingRun
from pulsar_conformance.credentials import Access

TOPIC = "persistent://shop/orders/payments"
PLAIN, TLS = {6650, 8080}, {6651, 8443}


def edge_of(mode: str) -> dict[str, object]:
    return {"tls": {"edge": {"mode": mode, "secretName": SECRET}}}


@pytest.fixture(scope="module")
def edge(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeTls]:
    """The quickstart with two proxies in mode PlainAndTLS, and after that as it was."""
    found = EdgeTls(deployed.kubectl, deployed.namespace, tmp_path_factory.mktemp("edge"))
    found.give_good()
    ports = {"tlsPulsar": PULSAR_TLS_PORT, "https": HTTPS_PORT}
    patch_cluster(
        found.kubectl,
        found.namespace,
        CLUSTER,
        {"proxy": {"replicas": 2, "service": {"nodePorts": ports}}, **edge_of("PlainAndTLS")},
    )
    yield found
    patch_cluster(found.kubectl, found.namespace, CLUSTER, edge_of("PlainAndTLS"))
    away = {"proxy": {"replicas": 1, "service": {"nodePorts": dict.fromkeys(ports)}}, "tls": None}
    patch_cluster(found.kubectl, found.namespace, CLUSTER, away)
    eventually(
        lambda: found.kubectl.get("secret", found.namespace, f"{CLUSTER}-edge-tls") is None,
        within=120,
        what="the copy of the Secret is deleted",
    )
    found.kubectl.run("delete", "secret", SECRET, "-n", found.namespace)


@pytest.mark.security(4)
def test_clients_with_and_without_tls_beside_each_other(deployed: Deployed, edge: EdgeTls) -> None:
    assert edge.open_ports() == {"east-proxy-0": PLAIN | TLS, "east-proxy-1": PLAIN | TLS}
    assert edge.told()["status"] == edge.told("CertificatesValid")["status"] == "True"
    endpoints = edge.status()["endpoints"]
    host = f"east-proxy.{edge.namespace}.svc.cluster.local"
    assert endpoints["serviceUrlTls"] == f"pulsar+ssl://{host}:6651"
    assert endpoints["serviceUrl"] == f"pulsar://{host}:6650"
    assert received(edge.url, TOPIC, edge.ca_file, "tls") == "tls"
    assert received(deployed.service_url, TOPIC, edge.ca_file, "plain") == "plain"


@pytest.mark.security(4)
def test_a_wrong_host_name_and_an_unknown_authority_are_refused(deployed: Deployed, edge: EdgeTls) -> None:
    assert edge.refusal(edge.ca_file, edge.node()) == "trusted"
    assert "not valid for 'proxy.example.com'" in edge.refusal(edge.ca_file, "proxy.example.com")
    assert "unable to get local issuer certificate" in edge.refusal(edge.other_ca_file, edge.node())
    # kind leads this port of the machine to the same node port; the certificate is not for 127.0.0.1.
    other = deployed.second_url.replace("pulsar://", "pulsar+ssl://")
    assert received(other, TOPIC, edge.ca_file, "unverified", verify_host=False) == "unverified"
    with pytest.raises(pulsar.PulsarException):
        received(other, TOPIC, edge.ca_file, "host")
    with pytest.raises(pulsar.PulsarException):
        received(edge.url, TOPIC, edge.other_ca_file, "authority")


@pytest.mark.security(4)
def test_a_bad_secret_and_a_lost_one_change_nothing_that_runs(edge: EdgeTls) -> None:
    before, shown = edge.proxies(), edge.served().serial_number
    edge.give({"tls.crt": b"no certificate", "tls.key": b"no key"})
    look_again(edge.kubectl, "pulsarcluster", edge.namespace, CLUSTER)
    eventually(lambda: edge.told()["reason"] == "CertificateInvalid", within=120, what="the bad Secret is reported")
    edge.kubectl.run("delete", "secret", SECRET, "-n", edge.namespace)
    look_again(edge.kubectl, "pulsarcluster", edge.namespace, CLUSTER)
    eventually(lambda: edge.told()["reason"] == "ReferenceNotFound", within=120, what="the lost Secret is reported")
    edge.kubectl.run("delete", "pod", "east-proxy-0", "-n", edge.namespace, "--wait=true", timeout=180)

    def back() -> bool:
        pod = edge.kubectl.get("pod", edge.namespace, "east-proxy-0")
        conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    eventually(back, within=240, what="a proxy starts without the Secret of the user", every=1.0)
    assert edge.proxies()["east-proxy-1"] == before["east-proxy-1"]
    assert edge.served().serial_number == shown
    assert received(edge.url, TOPIC, edge.ca_file, "lost") == "lost"
    edge.give_good()
    look_again(edge.kubectl, "pulsarcluster", edge.namespace, CLUSTER)
    eventually(lambda: edge.told()["status"] == "True", within=120, what="the new Secret is good")


@pytest.mark.security(4)
def test_to_required_under_a_client_with_tls(
    deployed: Deployed, edge: EdgeTls, capsys: pytest.CaptureFixture[str]
) -> None:
    with CountingRun(edge.url, TOPIC, rate=20, keys=4, trust_certs=str(edge.ca_file)) as run:
        with run.operation("PlainAndTLS to Required"):
            patch_cluster(edge.kubectl, edge.namespace, CLUSTER, edge_of("Required"))
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert report.violations() == [], report.text()
    assert edge.open_ports() == {"east-proxy-0": TLS, "east-proxy-1": TLS}, "seen from a broker"
    service = edge.kubectl.get("service", edge.namespace, "east-proxy")
    assert service is not None and {each["port"] for each in service["spec"]["ports"]} == TLS
    with pytest.raises(pulsar.PulsarException):
        received(deployed.service_url, TOPIC, edge.ca_file, "refused")
    opener = Access(ca_file=edge.ca_file).opener()
    with opener.open(f"{edge.web_url}/admin/v2/clusters", timeout=30) as answer:
        assert json.loads(answer.read()) == ["east"]
    with opener.open(f"{edge.web_url}/metrics/", timeout=30) as answer:
        assert b"pulsar_proxy_new_connections" in answer.read()
    assert edge.status()["endpoints"]["serviceUrl"].startswith("pulsar+ssl://")
    deployed.wait_ready()


@pytest.mark.security(4)
def test_a_renewed_certificate_is_served_without_a_restart(edge: EdgeTls, capsys: pytest.CaptureFixture[str]) -> None:
    """The operator sees the Secret within a minute, the kubelet writes the file, Pulsar reads it again after 300 s."""
    before, leaf = edge.proxies(), edge.give_good()
    look_again(edge.kubectl, "pulsarcluster", edge.namespace, CLUSTER)
    with CountingRun(edge.url, TOPIC, "renewed", rate=20, keys=4, trust_certs=str(edge.ca_file)) as run:
        with run.operation("a renewed certificate"):
            # Each proxy reads its files on its own: several looks in a row meet both.
            eventually(
                lambda: {edge.served().serial_number for _ in range(8)} == {leaf.certificate.serial_number},
                within=560,
                what="every proxy serves the renewed certificate",
                every=5.0,
            )
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert edge.proxies() == before
    assert report.violations() == [], report.text()


@pytest.mark.security(4)
def test_no_key_is_told(edge: EdgeTls) -> None:
    """The keys of this authority are elliptic-curve keys as PKCS#8, whose text begins like no other one."""
    kubectl = edge.kubectl
    told = {
        "log of the operator": kubectl.run("logs", "deployment/pulsar-operator", "-n", "pulsar-operator", "--tail=-1"),
        "objects": kubectl.run("get", "pulsar", "-n", edge.namespace, "-o", "yaml"),
        "events": kubectl.run("get", "events", "-A", "-o", "yaml"),
        "ConfigMaps": kubectl.run("get", "configmaps", "-n", edge.namespace, "-o", "yaml"),
        "pods": kubectl.run("get", "pods", "-n", edge.namespace, "-o", "yaml"),
    }
    words = ("PRIVATE KEY", "MIGHAgEAMBMGByqGSM49", "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t")
    assert [where for where, text in told.items() if any(word in text for word in words)] == []
