"""Clients outside of Kubernetes reach brokers without a proxy, and go on while brokers come and go."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from e2e.conftest import Deployed
from e2e.support.eventually import eventually
from e2e.support.external import External
from e2e.support.rolling import even
from e2e.support.scaling import Scaling, shared
from e2e.support.skew import COUNTED, NAMESPACE, Brokers
from e2e.support.traffic import Traffic
from pulsar_conformance.counting.client import CountingRun

RATE = 5.0


@pytest.fixture
def scaling(deployed: Deployed) -> Iterator[Scaling]:
    """The number of brokers, three in the end."""
    found = Scaling(deployed.kubectl, deployed.namespace)
    with found.given_back():
        yield found


def hosts_of_clients(brokers: Brokers, topic: str) -> set[str]:
    """Hosts from which the producers and consumers of a topic are connected, as its broker sees them."""
    found = brokers.admin("GET", f"{topic.replace('://', '/', 1)}/stats")
    clients = [*found["publishers"], *(c for s in found["subscriptions"].values() for c in s["consumers"])]
    assert clients, f"no client is connected to {topic}"
    return {each["address"].lstrip("/").rpartition(":")[0] for each in clients}


def bundle_of(brokers: Brokers, topic: str) -> str:
    """The bundle of a topic, as the owners name it."""
    domain, _, rest = topic.partition("://")
    with urllib.request.urlopen(f"{brokers.admin_url}/lookup/v2/topic/{domain}/{rest}/bundle", timeout=30) as answer:
        return f"{NAMESPACE}/{answer.read().decode().strip()}"


@pytest.mark.security(3)
def test_clients_outside_need_no_proxy(
    deployed: Deployed, brokers: Brokers, scaling: Scaling, capsys: pytest.CaptureFixture[str]
) -> None:
    external = External(deployed.kubectl, deployed.namespace, deployed.admin_url)
    with even(brokers) as topics:
        scaling.patch({"replicas": 2})
        eventually(lambda: scaling.there(2), within=300, what="two brokers", every=1.0)
        with external.opened() as url:
            stay, expected = scaling.first_two(), external.expected()
            assert expected.keys() == {"east-broker-0", "east-broker-1"}
            counted, rates = topics[-1], dict.fromkeys(topics[:-1], RATE)
            with Traffic(url, rates) as traffic, CountingRun(url, counted, rate=COUNTED) as run:
                owner = external.looked_up(counted)
                assert owner in expected.values()
                proxies = {
                    pod["status"]["podIP"]
                    for pod in deployed.kubectl.items("pods", deployed.namespace, "app.kubernetes.io/component=proxy")
                }
                assert proxies and not hosts_of_clients(brokers, counted) & proxies, "a proxy is in between"

                with run.operation("a bundle moved"):
                    bundle = bundle_of(brokers, counted)
                    target = next(broker for broker in brokers.ids[:2] if expected[broker.partition(".")[0]] != owner)
                    path = f"namespaces/{bundle}/unload?destinationBroker={target}"
                    brokers.admin("PUT", path)
                    moved = expected[target.partition(".")[0]]
                    eventually(lambda: external.looked_up(counted) == moved, within=60, what="the bundle moved")
                with run.operation("two brokers to three"):
                    scaling.patch({"replicas": 3})
                    eventually(lambda: scaling.there(3), within=420, what="three brokers", every=1.0)
                    eventually(lambda: shared(brokers), within=300, what="the new broker has its share", every=2.0)
                third = external.expected()
                assert third.keys() - expected.keys() == {"east-broker-2"}
                used = {external.looked_up(topic) for topic in topics}
                assert used == set(third.values()), "clients are sent to all three"
                with run.operation("three brokers to two"):
                    scaling.patch({"replicas": 2})
                    eventually(lambda: scaling.there(2), within=600, what="two brokers again", every=1.0)
                report = run.finish()
            eventually(
                lambda: external.expected() == expected,
                within=120,
                what="the address of the third broker is gone, and those that stay are as they were",
            )
            kept = scaling.first_two()
        with capsys.disabled():
            print(f"\nat {url}: {third}\n{report.text()}")
        assert report.failures() == [], report.text()
        assert traffic.failures() == []
        assert kept == stay, "a broker more or less restarts no other"
    left = deployed.kubectl.items("services", deployed.namespace, "app.kubernetes.io/component=broker")
    assert {each["metadata"]["name"] for each in left} == {"east-broker", "east-broker-headless"}
