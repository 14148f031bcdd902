"""examples/secure.yaml from nothing to Ready, the clients that Pulsar admits or refuses, and renewed tokens."""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
import yaml

from e2e.conftest import CLUSTER, Deployed
from e2e.kind.kindconfig import PULSAR_NODE_PORT, WEB_NODE_PORT
from e2e.support.admin import ask
from e2e.support.deploy import NAMESPACE, OPERATOR_NAMESPACE, ROOT, Helm, install_operator
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl
from e2e.support.tokenclients import renewed_token, run_client, service_account, token
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun
from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.kit.wire import Wire

AUDIENCE = f"pulsaroperator.io/{NAMESPACE}/demo"
TOPIC = "persistent://shop/orders/payments"
INSIDE = f"pulsar://east-proxy.{NAMESPACE}.svc.cluster.local:6650"
LIFETIME = 600
"""Seconds that a token lives at least."""
GRACE = 120 + 60
"""Seconds after its end until a broker cuts its client off: the leeway of brokers, and the interval of their check."""


def documents() -> list[dict[str, Any]]:
    """The example, with ports at the proxy that kind leads to 127.0.0.1."""
    found = [doc for doc in yaml.safe_load_all((ROOT / "examples/secure.yaml").read_text()) if doc]
    for each in found:
        if each["kind"] == "PulsarCluster":
            ports = {"pulsar": PULSAR_NODE_PORT, "http": WEB_NODE_PORT}
            each["spec"]["proxy"]["service"] = {"type": "NodePort", "nodePorts": ports}
    return found


@pytest.fixture(scope="module")
def secured(kubectl: Kubectl, helm: Helm, clean: None) -> Iterator[Deployed]:
    """The operator and the example, every object Ready: tenant, namespace and topic by the operator's own token."""
    install_operator(helm, watch=[NAMESPACE])
    kubectl.apply(yaml.safe_dump_all(documents(), sort_keys=False))
    found = Deployed(kubectl, helm, f"{CLUSTER}-control-plane")
    found.wait_ready()
    for account in ("checkout", "stranger", "admin"):
        service_account(kubectl, NAMESPACE, account)
    yield found


def client(secured: Deployed, name: str, account: str, audience: str | None) -> str:
    """What a client in a pod says."""
    where = {"url": INSIDE, "topic": TOPIC}
    return run_client(secured.kubectl, secured.namespace, name, account=account, audience=audience, **where)


@pytest.mark.security(1)
def test_a_role_with_a_grant_publishes_and_consumes_through_the_proxy(secured: Deployed) -> None:
    assert client(secured, "granted", "checkout", AUDIENCE) == "received hello"


@pytest.mark.security(1)
def test_a_role_without_a_grant_is_refused(secured: Deployed) -> None:
    assert client(secured, "no-grant", "stranger", AUDIENCE) == "refused AuthorizationError"


@pytest.mark.security(1)
def test_a_token_of_the_instance_is_needed_to_connect(secured: Deployed) -> None:
    """The proxy's own answer: Pulsar's client for Python repeats a refused connection until its time is over."""

    def asked(audience: str | None) -> bool:
        text = token(secured.kubectl, secured.namespace, "checkout", audience) if audience else None
        access = Access(token=Token(text=text)) if text else Access()
        return Wire(secured.service_url, access=access).finds(TOPIC)

    assert asked(AUDIENCE)
    for audience in (None, f"pulsaroperator.io/{NAMESPACE}/other", "https://kubernetes.default.svc.cluster.local"):
        with pytest.raises(ConnectionError, match="Failed to authenticate"):
            asked(audience)


@pytest.mark.security(1)
def test_admin_rest_asks_for_a_superuser(secured: Deployed) -> None:
    def status(account: str | None) -> int:
        carried = token(secured.kubectl, secured.namespace, account, AUDIENCE) if account else ""
        try:
            ask(secured.admin_url, "GET", "tenants", token=carried)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    assert status("admin") == 200
    assert status(None) == 401
    assert status("checkout") in (401, 403)


@pytest.mark.security(1)
def test_no_token_is_told(secured: Deployed) -> None:
    """A token is a JSON Web Token, which begins like no other text."""
    kubectl = secured.kubectl
    told = {
        "log of the operator": kubectl.run(
            "logs", "deployment/pulsar-operator", "-n", OPERATOR_NAMESPACE, "--tail=-1", timeout=60
        ),
        "objects": kubectl.run("get", "pulsar", "-n", secured.namespace, "-o", "yaml"),
        "events": kubectl.run("get", "events", "-A", "-o", "yaml"),
        "ConfigMaps": kubectl.run("get", "configmaps", "-n", secured.namespace, "-o", "yaml"),
        "pods": kubectl.run("get", "pods", "-n", secured.namespace, "-o", "yaml"),
    }
    assert [where for where, text in told.items() if "eyJhbGciOi" in text] == []
    (cluster,) = kubectl.items("pulsarcluster", secured.namespace)
    assert cluster["status"]["endpoints"]["tokenAudience"] == AUDIENCE


@pytest.mark.security(1)
def test_brokers_restart_and_their_clients_go_on(secured: Deployed, tmp_path: Path) -> None:
    kubectl, namespace = secured.kubectl, secured.namespace
    with renewed_token(kubectl, namespace, "checkout", AUDIENCE, tmp_path / "token") as file:
        authentication = pulsar.AuthenticationToken(Token(file=file).supplier())
        with CountingRun(secured.service_url, TOPIC, rate=20, keys=4, authentication=authentication) as run:
            with run.operation("restart of the broker"):
                before = kubectl.json("get", "pod", "east-broker-0", "-n", namespace)["metadata"]["uid"]
                asked = ("annotate", "pulsarcluster", "east", "-n", namespace, "pulsaroperator.io/restart=1")
                kubectl.run(*asked, "--overwrite")

                def replaced() -> bool:
                    pod = kubectl.get("pod", namespace, "east-broker-0")
                    return pod is not None and pod["metadata"]["uid"] != before

                eventually(replaced, within=240, what="the broker is replaced", every=1.0)
                secured.wait_ready(within=300)
            report = run.finish(drain_within=120)
    assert report.violations() == [], report.text()


@pytest.mark.security(2)
def test_a_connection_outlives_tokens_that_are_renewed_and_no_others(
    secured: Deployed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both clients connect through the proxy. One reads a renewed token, and the other one keeps its first token."""
    kubectl, namespace = secured.kubectl, secured.namespace
    first = token(kubectl, namespace, "checkout", AUDIENCE, LIFETIME)
    begun = time.monotonic()
    stale = simple.client(secured.service_url, authentication=pulsar.AuthenticationToken(first))
    producer = stale.create_producer(TOPIC, send_timeout_millis=20_000)
    with renewed_token(kubectl, namespace, "checkout", AUDIENCE, tmp_path / "token") as file:
        authentication = pulsar.AuthenticationToken(Token(file=file).supplier())
        with CountingRun(secured.service_url, TOPIC, rate=20, keys=4, authentication=authentication) as run:

            def cut_off() -> bool:
                try:
                    producer.send(b"stale")
                except pulsar.PulsarException:
                    return True
                return False

            assert not cut_off(), "it begins with a token that is good"
            eventually(cut_off, within=LIFETIME + GRACE + 180, what="the stale token is refused", every=5.0)
            seconds = time.monotonic() - begun
            report = run.finish(drain_within=120)
    stale.close()
    with capsys.disabled():
        print(f"\nthe stale client was cut off after {seconds:.0f} s\n{report.text()}")
    assert seconds > LIFETIME - 60, "not before its end"
    assert report.seconds > LIFETIME and report.violations() == [], report.text()
