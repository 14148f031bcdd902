"""The listener plan: ports, names and URLs of every component, and that no other module knows a port."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pulsar_operator
from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.api.v1alpha1.listeners import TAKEN_NAMES, TAKEN_PORTS
from pulsar_operator.domain.render.child_names import Owner
from pulsar_operator.domain.render.listeners import SERVED, ListenerPlan, pod_url
from tests.support.cluster.rendering import owner

CODE = Path(pulsar_operator.__file__).parent
PLAN = Path("domain/render/listeners.py")
PORTS = frozenset({2181, 2888, 3181, 3888, 6650, 6651, 8000, 8080, 8443})
OTHERS = {
    Path("settings.py"): "the health port of the operator itself",
    Path("controllers/core/traffic.py"): "the port of the collector",
    Path("export/options.py"): "an example in a message",
    Path("api/v1alpha1/isolation_policy.py"): "an example in a message",
    Path("api/v1alpha1/listeners.py"): "ports that no external listener may have",
    Path("adapters/admin_urls.py"): "the check of a URL that the adapter is given",
}
"""Modules with a number that is none of a listener of Pulsar, or that only shows one to a reader."""
_IN_TEXT = re.compile(
    rf"(?<!\d)(?:{'|'.join(str(port) for port in sorted(PORTS))})(?!\d)|^(?:pulsar|http)(?:\+ssl|s)?://$"
)


def literals(tree: ast.AST) -> Iterator[tuple[int, object]]:
    """Constants of a module with their lines, without docstrings: statements that are a text and nothing else."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in prose:
            yield node.lineno, node.value


def ports_in(text: str) -> list[int]:
    """Lines with a port of Pulsar, or with a scheme to which a host is added."""
    return [
        line
        for line, value in literals(ast.parse(text))
        if (isinstance(value, int) and value in PORTS) or (isinstance(value, str) and _IN_TEXT.search(value))
    ]


def test_no_other_module_knows_a_port() -> None:
    files = {file.relative_to(CODE): file for file in CODE.rglob("*.py")}
    found = {path: lines for path, file in files.items() if (lines := ports_in(file.read_text(encoding="utf-8")))}
    assert PLAN in found
    assert found.keys() - {PLAN} == OTHERS.keys(), found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("PORT = 6650", [1]),
        ('x = f"{host}:8080"', [1]),
        ('x = f"pulsar://{host}"', [1]),
        ('def f():\n    """At 6650."""\n    return "a:16650"', []),
        ('base.startswith(("http://x", "https://x"))', []),
    ],
)
def test_ports_are_seen(text: str, lines: list[int]) -> None:
    assert ports_in(text) == lines


URLS = [
    (Component.BROKER, "pulsar://my-broker.ns.svc.cluster.local:6650", "http://my-broker.ns.svc.cluster.local:8080"),
    (Component.PROXY, "pulsar://my-proxy.ns.svc.cluster.local:6650", "http://my-proxy.ns.svc.cluster.local:8080"),
    (
        Component.STANDALONE,
        "pulsar://my-standalone.ns.svc.cluster.local:6650",
        "http://my-standalone.ns.svc.cluster.local:8080",
    ),
]


@pytest.mark.parametrize(("component", "service", "web"), URLS)
def test_urls(component: Component, service: str, web: str) -> None:
    plan = ListenerPlan(owner("my"), component, "cluster.local")
    assert (plan.service_url, plan.web_service_url) == (service, web)


SETTINGS = [
    (Component.BROKER, {"brokerServicePort": "6650", "webServicePort": "8080"}),
    (Component.STANDALONE, {"brokerServicePort": "6650", "webServicePort": "8080"}),
    (Component.PROXY, {"servicePort": "6650", "webServicePort": "8080"}),
    (Component.BOOKIE, {"bookiePort": "3181", "httpServerPort": "8000"}),
    (Component.AUTORECOVERY, {"httpServerPort": "8000"}),
    (Component.ZOOKEEPER, {}),
    (Component.CONFIGURATION_STORE, {}),
]


@pytest.mark.parametrize(("component", "settings"), SETTINGS)
def test_settings(component: Component, settings: dict[str, str]) -> None:
    assert ListenerPlan(owner("my"), component, "cluster.local").settings == settings


def test_every_component_has_ports() -> None:
    assert SERVED.keys() == {component for component, _ in SETTINGS}


def test_an_external_listener_takes_no_port_of_a_broker() -> None:
    taken = {int(port) for port in TAKEN_PORTS.split(", ")}
    assert taken >= set(SERVED[Component.BROKER].ports.values()) and taken < PORTS
    assert {"internal", "headless", *SERVED[Component.BROKER].ports} == set(TAKEN_NAMES)


def test_names_of_pods() -> None:
    bookies = ListenerPlan(owner("my"), Component.BOOKIE, "k8s.example.org")
    stores = ListenerPlan(owner("my"), Component.ZOOKEEPER, "k8s.example.org", metrics=True)
    assert bookies.bookie_id(2) == "my-bookie-2.my-bookie-headless.ns.svc.k8s.example.org:3181"
    assert bookies.advertised_address == "$(POD_NAME).my-bookie-headless.ns.svc.k8s.example.org"
    assert stores.store_servers == "my-zookeeper.ns.svc.k8s.example.org:2181"
    assert stores.store_server(0) == "my-zookeeper-0.my-zookeeper-headless.ns.svc.k8s.example.org:2181"
    assert stores.ports == {"client": 2181, "quorum": 2888, "election": 3888, "http": 8000}
    assert stores.client_ports == {"client": 2181}
    assert bookies.client_ports == {}


@pytest.mark.parametrize(
    ("address", "url"), [("10.0.0.1", "http://10.0.0.1:8000/m"), ("fd00::1", "http://[fd00::1]:8000/m")]
)
def test_urls_of_pods(address: str, url: str) -> None:
    assert pod_url(address, 8000, "/m") == url


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True)


@given(name=NAMES, namespace=st.from_regex(r"[a-z][a-z0-9]{0,20}", fullmatch=True), ordinal=st.integers(0, 9999))
def test_a_pod_has_one_name_in_all_of_the_plan(name: str, namespace: str, ordinal: int) -> None:
    """What Kubernetes composes from POD_NAME is what the operator calls and what brokers and bookies register."""
    mine = Owner(Kind.CLUSTER, name, namespace, "u", "v", "p")
    for component in SERVED:
        plan = ListenerPlan(mine, component, "cluster.local")
        pod = f"{plan.workload}-{ordinal}"
        assert plan.advertised_address.replace("$(POD_NAME)", pod) == plan.pod_host(ordinal)
        assert plan.pod_host(ordinal).endswith(f".{plan.headless_host}")
        assert len(pod.partition(".")[0]) <= 63
        assert len(set(plan.ports.values())) == len(plan.ports), "two ports of one container"
        assert all(len(port) <= 15 for port in plan.ports), "longer than the name of a port may be"
