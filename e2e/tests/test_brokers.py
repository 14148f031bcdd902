"""Three brokers: scaled out, evened out, rolled under traffic (P9), scaled in again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.changes import look_again, patch_cluster
from e2e.support.evening import Evened, even_out
from e2e.support.eventually import eventually
from e2e.support.idle import DECLARED, FAST, MARKER, SWITCHED_ON, topics
from e2e.support.moves import Moves
from e2e.support.objects import condition, is_ready
from e2e.support.podlog import NANOS, lines_about
from e2e.support.rolling import even
from e2e.support.skew import COUNTED, Brokers
from e2e.support.traffic import Traffic
from pulsar_conformance.counting.client import CountingRun

RATE = 10.0
"""Messages a second of each topic while brokers are rolled."""
LEAST = 1 + 1 / 3
"""Moves a bundle that a roll of three evenly loaded brokers cannot do without: the first broker's move twice."""


def broker_uids(deployed: Deployed) -> dict[str, str]:
    """UID by name of the brokers' pods."""
    found = deployed.kubectl.items("pods", deployed.namespace, "app.kubernetes.io/component=broker")
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in found}


@pytest.fixture(autouse=True)
def no_rebalance_left(deployed: Deployed) -> Iterator[None]:
    """Each test's PulsarRebalances end with it."""
    yield
    deployed.kubectl.run("delete", "prb", "--all", "-n", deployed.namespace)


def test_scale_subresource_adds_brokers(deployed: Deployed, request: pytest.FixtureRequest) -> None:
    """In Pulsar too, and without a roll: the settings are those the broker has."""
    before = broker_uids(deployed)
    brokers: Brokers = request.getfixturevalue("brokers")
    after = broker_uids(deployed)
    assert len(after) == 3 == len(brokers.ids) and before.items() <= after.items()
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert cluster is not None and is_ready(cluster) and cluster["status"]["broker"]["ready"] == 3


@pytest.fixture(scope="module")
def evened(deployed: Deployed, brokers: Brokers) -> Evened:
    """A PulsarRebalance, proposed, approved, carried out and measured under traffic."""
    return even_out(brokers, deployed.service_url)


def test_moves_and_splits_even_out_a_hot_broker(evened: Evened, capsys: pytest.CaptureFixture[str]) -> None:
    proposal, status = evened.proposal, evened.status
    with capsys.disabled():
        print(f"\n{evened.columns}")
        print(f"before {proposal['before']}, promised {proposal['after']}, measured {status['measured']}")
        print(
            f"{proposal['splits']} splits, {proposal['moves']} moves; seen from outside {evened.attempt.measured:.2f}"
        )
        took, expected = status["progress"]["duration"], proposal["expectedDuration"]
        print(f"took {took}, expected {expected}; a move took {status['progress']['unloadSeconds']} s")
        print("\n".join([*proposal["brokers"], "measured:", *status["measuredBrokers"]]))
        print(evened.report.text())
    measured = float(status["measured"]["imbalance"])
    assert status["progress"]["done"] == status["progress"]["total"] > 0
    assert measured < float(proposal["before"]["imbalance"]) / 1.8
    assert proposal["clients"] > 0 and proposal["topics"] > 0
    assert [line.split()[0] for line in proposal["brokers"][-1:]] == ["(all"] and len(proposal["brokers"]) == 5
    assert abs(measured - evened.attempt.measured) < 0.25, "the brokers' own statistics say something else"
    assert evened.report.failures() == [], evened.report.text()
    assert "loadBalancerSheddingEnabled" not in evened.dynamic


def test_a_roll_hands_bundles_over_and_no_publish_fails(
    deployed: Deployed, brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three evenly loaded brokers replaced one after another, under traffic: P9 on real brokers."""
    before = broker_uids(deployed)
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert cluster is not None
    config = {**cluster["spec"]["broker"]["config"], **FAST, **SWITCHED_ON}
    others = all_but_brokers(deployed)
    with even(brokers) as topic_names:
        counted, rates = topic_names[-1], dict.fromkeys(topic_names[:-1], RATE)
        traffic, run = Traffic(deployed.service_url, rates), CountingRun(deployed.service_url, counted, rate=COUNTED)
        with traffic, run:
            brokers.unevenness(sum(rates.values()) + COUNTED, within=120)
            with Moves(brokers) as moves, run.operation("roll"):
                patch_cluster(deployed.kubectl, deployed.namespace, "east", {"broker": {"config": config}})
                wait_for_fill(deployed)
                moves.caught_up()
                during = moves.per_bundle(fill_began(deployed))
            report = run.finish()
    story = deployed.kubectl.run("get", "prb", "-n", deployed.namespace)
    with capsys.disabled():
        print(f"\n{story}\n{moves.sources()}")
        print(
            f"roll of 3 brokers: {during:.2f} moves a bundle (least {LEAST:.2f}, bar {LEAST + 0.1:.2f}), "
            f"{moves.per_bundle():.2f} with the share of the last broker; bundles of each broker {moves.counts()}"
        )
        print(report.text())
    assert report.failures() == [], report.text()
    assert traffic.failures() == []
    assert 1 <= during <= LEAST + 0.1
    assert moves.counts()[0] >= 2, "the broker that came back last has its share"
    after = broker_uids(deployed)
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())
    assert all_but_brokers(deployed) == others, "only the component whose configuration changed is rolled"
    drained_first(deployed)


def all_but_brokers(deployed: Deployed) -> set[str]:
    """UIDs of the pods of all other components."""
    found = deployed.kubectl.items("pods", deployed.namespace, "app.kubernetes.io/component!=broker")
    return {p["metadata"]["uid"] for p in found}


def fills(deployed: Deployed) -> list[dict[str, Any]]:
    """PulsarRebalances that give brokers that came back their share."""
    found = [r for r in deployed.kubectl.items("prb", deployed.namespace) if "-fill-" in r["metadata"]["name"]]
    assert found, "no fill"
    return found


def wait_for_fill(deployed: Deployed) -> None:
    """The fill of the broker that was replaced last has done its steps."""

    def done() -> bool:
        return all((fill.get("status") or {}).get("progress", {}).get("finishedTime") for fill in fills(deployed))

    eventually(done, within=120, what="the fill's steps")


def fill_began(deployed: Deployed) -> int:
    """When the roll was over and the fill was planned, in nanoseconds since 1970: by its proposal's ConfigMap."""
    fill = max(fills(deployed), key=lambda each: str(each["metadata"]["creationTimestamp"]))
    proposal = deployed.kubectl.get("configmap", deployed.namespace, f"{fill['metadata']['name']}-proposal")
    assert proposal is not None, f"no proposal of {fill['metadata']['name']}"
    return int(datetime.fromisoformat(proposal["metadata"]["creationTimestamp"]).timestamp()) * NANOS


def test_a_collector_that_the_user_switched_on_collects(deployed: Deployed) -> None:
    """So that it proves something that idle topics survived before; the declared one is made again."""
    ask(deployed.admin_url, "GET", f"persistent/shop/orders/{MARKER}/stats")  # only a loaded topic is looked at
    eventually(lambda: MARKER not in topics(deployed.admin_url), within=60, what="the undeclared idle topic collected")
    look_again(deployed.kubectl, "pulsartopic", deployed.namespace, DECLARED)
    eventually(lambda: DECLARED in topics(deployed.admin_url), within=60, what="the declared topic made again")
    deployed.kubectl.run("delete", "pulsartopic", DECLARED, "-n", deployed.namespace)


def test_scale_in_drains_the_brokers_that_leave(
    deployed: Deployed, brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of three leave under traffic on bundles of all of them; the first pod stays as it is."""
    before = broker_uids(deployed)
    with even(brokers) as topic_names:
        counted, rates = topic_names[-1], dict.fromkeys(topic_names[:-1], RATE)
        traffic, run = Traffic(deployed.service_url, rates), CountingRun(deployed.service_url, counted, rate=COUNTED)
        with traffic, run:
            with run.operation("scale-in from 3 brokers to 1"):
                deployed.kubectl.run("scale", "pulsarcluster", "east", "-n", deployed.namespace, "--replicas=1")
                eventually(lambda: scaled_in(deployed), within=240, what="one broker, in Pulsar too")
            report = run.finish()
        with capsys.disabled():
            print(f"\n{deployed.kubectl.run('get', 'prb', '-n', deployed.namespace)}\n{report.text()}")
        assert report.failures() == [], report.text()
        failed = traffic.failures()
        about = [topic for topic in topic_names if any(topic in each for each in failed)]
        assert failed == [], lines_about(deployed.kubectl, deployed.namespace, "east-broker-0", about) if about else ""
    first = {name: uid for name, uid in before.items() if name == "east-broker-0"}
    # Both leave at once, and a Java process may end a while after its broker left.
    eventually(lambda: broker_uids(deployed) == first, within=60, what=f"the pods {first} alone")
    drained_first(deployed)


def drained_first(deployed: Deployed) -> None:
    """Events say that drains were asked for, and none that a broker left with bundles."""
    events = deployed.kubectl.items("events", deployed.namespace)
    asked = [e["message"] for e in events if e["reason"] == "Draining" and "PulsarRebalance" in e["message"]]
    assert [message for message in asked if "east-drain-" in message], "the operator's events can be seen"
    assert [e["message"] for e in events if e["reason"] == "DrainIncomplete"] == []


def scaled_in(deployed: Deployed) -> bool:
    """One broker runs, is registered, and nothing is left to do."""
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert cluster is not None and is_ready(cluster), json.dumps((cluster or {}).get("status"))
    assert condition(cluster, "UpToDate").get("status") == "True"
    registered = ask(deployed.admin_url, "GET", "brokers/east")
    return bool(cluster["status"]["broker"]["ready"] == 1 == len(registered))
