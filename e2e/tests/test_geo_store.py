"""The configuration store of two clusters is lost for a minute, and for twelve: what goes on, what is held, what comes
back by itself; and brokers whose sessions with it ended are replaced."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import CLUSTER, Deployed
from e2e.support.admin import ask
from e2e.support.deploy import Helm
from e2e.support.eventually import eventually
from e2e.support.geopair import EAST, INSTANCE, WEST, brokers, deployed, others, ready
from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition, is_current
from e2e.support.outage import without
from pulsar_conformance.counting.client import CountingRun

TOPIC = "persistent://shop/orders/counted"
DAY = 86_400
AWAY = "ConfigurationStoreUnavailable"


@pytest.fixture(scope="module")
def pair(kubectl: Kubectl, helm: Helm, clean: None) -> Iterator[Deployed]:
    """Both clusters alone, and their doors."""
    with deployed(kubectl, helm):
        yield Deployed(kubectl, helm, f"{CLUSTER}-control-plane")


def told(pair: Deployed, kind: str, namespace: str, name: str, what: str) -> tuple[str, str]:
    """Status and reason of a condition, of an object that was looked at since its last change."""
    found = pair.kubectl.get(kind, namespace, name)
    assert found is not None
    row = condition(found, what)
    return (row.get("status", ""), row.get("reason", "")) if is_current(found) else ("", "")


def instance(pair: Deployed) -> dict[str, Any]:
    """Status of the PulsarInstance."""
    found = pair.kubectl.get("pulsarinstance", EAST.namespace, INSTANCE)
    assert found is not None
    return dict(found["status"])


def row(pair: Deployed) -> dict[str, Any]:
    """What east replicates to west."""
    found = instance(pair).get("replication") or []
    return next((each for each in found if (each["from"], each["to"]) == ("east", "west")), {})


def change(pair: Deployed, kind: str, namespace: str, name: str, spec: dict[str, Any]) -> None:
    """A user's change."""
    pair.kubectl.run("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps({"spec": spec}))


def outage(pair: Deployed, seconds: float, days: int) -> list[str]:
    """The store away for so long under traffic from east to west; what was seen, in words. The namespace gets another
    time to live meanwhile, in ``days``."""
    kubectl, lines, begin = pair.kubectl, list[str](), time.monotonic()

    def seen(what: str) -> None:
        lines.append(f"{time.monotonic() - begin:6.1f} s  {what}")

    ran, rest = brokers(kubectl), others(kubectl)
    # Brokers are one of each cluster, and are replaced in the end.
    with CountingRun(
        pair.service_url, TOPIC, rate=50, read_url=pair.second_url, start_within=120, send_timeout=180
    ) as run:
        eventually(lambda: row(pair).get("connected"), within=180, what="east to west", every=1.0)
        with run.operation(f"the configuration store away for {seconds:.0f} s", settle_within=600):
            begin = time.monotonic()
            with without(kubectl, "pulsarinstance", EAST.namespace, INSTANCE, "configuration-store"):
                eventually(
                    lambda: told(pair, "pulsarinstance", EAST.namespace, INSTANCE, "ConfigurationStoreReady")[0]
                    == "False",
                    within=120, what="the store is told to be away", every=0.5,
                )  # fmt: skip
                seen("ConfigurationStoreReady is False")
                policies = {"policies": {"messageTTLSeconds": days * DAY}}
                change(pair, "pulsarnamespace", EAST.namespace, "orders", policies)
                logs = {"proxy": {"config": {"proxyLogLevel": "1"}}}
                change(pair, "pulsarcluster", WEST.namespace, "west", logs)
                eventually(
                    lambda: told(pair, "pulsarnamespace", EAST.namespace, "orders", "Ready") == ("Unknown", AWAY)
                    and told(pair, "pulsarcluster", WEST.namespace, "west", "Progressing")[1] == AWAY,
                    within=120, what="the policy and the roll are held", every=0.5,
                )  # fmt: skip
                seen("a policy and a roll are held")
                first = run.progress()
                left = max(seconds - (time.monotonic() - begin), 5.0)
                end = time.monotonic() + left
                eventually(lambda: time.monotonic() >= end, within=left + 60, what="the outage's end", every=1.0)
                last, found = run.progress(), row(pair)
                seen(f"{last.confirmed - first.confirmed} messages confirmed meanwhile; {found}")
                assert last.confirmed > first.confirmed and last.received > first.received, "replication goes on"
                assert (brokers(kubectl), others(kubectl)) == (ran, rest), "nobody's pods were replaced"
            back = time.monotonic()
            eventually(
                lambda: told(pair, "pulsarnamespace", EAST.namespace, "orders", "Ready")[0] == "True",
                within=300, what="the policy is applied", every=0.5,
            )  # fmt: skip
            seen(f"the policy is applied, {time.monotonic() - back:.1f} s after the store was started again")
            eventually(lambda: brokers(kubectl).isdisjoint(ran), within=420, what="brokers are replaced", every=1.0)
            seen(f"both brokers are replaced, {time.monotonic() - back:.1f} s after")
            ready(kubectl)
            seen(f"all is Ready, {time.monotonic() - back:.1f} s after")
        report = run.finish(drain_within=180)
    lines += [str(instance(pair).get("configurationStoreOutages")), report.text()]
    assert report.failures() == [], report.text()
    now = others(kubectl)
    assert {**now, "west proxy": None} == {**rest, "west proxy": None}, (
        "and nobody else, but for the roll that was held"
    )
    assert now["west proxy"] != rest["west proxy"]
    live = ask(pair.admin_url, "GET", "namespaces/shop/orders")
    assert live["message_ttl_in_seconds"] == days * DAY
    change(pair, "pulsarcluster", WEST.namespace, "west", {"proxy": {"config": {"proxyLogLevel": None}}})
    ready(kubectl)
    return lines


@pytest.mark.geo(3)
def test_a_minute_without_the_configuration_store(pair: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    lines = outage(pair, 60, 10)
    with capsys.disabled():
        print("\n" + "\n".join(lines))


@pytest.mark.geo(4)
def test_twelve_minutes_without_the_configuration_store(pair: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Longer than brokers keep what they read of policies (10 minutes)."""
    lines = outage(pair, 720, 12)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
