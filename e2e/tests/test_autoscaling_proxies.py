"""Two proxies become three as connections grow, and two again as they leave, the operator killed on the way: no client
notices, not even those of the proxy that goes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.doors import Doors
from e2e.support.eventually import eventually
from e2e.support.killing import kill_the_operator
from e2e.support.scaling import Scaling
from e2e.support.traffic import Traffic
from e2e.support.watched import is_up
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
TARGET = 20
"""Connections that one proxy should have."""
CROWD = 24
"""Clients of which each has two connections or more: above what two proxies should have, below four."""
STAY = 6
"""Clients that come once there are three proxies, and stay."""
MOST = 30
"""Clients that come in all until one of them is at the new proxy."""
DRAIN = 15
"""Seconds that a proxy serves on after it left its Service."""
SCALING = {
    "minReplicas": 2,
    "maxReplicas": 4,
    "targets": {"connections": TARGET},
    "drainSeconds": DRAIN,
    "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 0, "cooldownSeconds": 30},
        "scaleDown": {"stabilizationWindowSeconds": 60, "cooldownSeconds": 60},
    },
}


@pytest.fixture
def scaling(deployed: Deployed) -> Iterator[Scaling]:
    """The number of proxies, one in the end."""
    found = Scaling(deployed.kubectl, deployed.namespace, part="proxy", left=1)
    with found.given_back():
        yield found


def connections(scaling: Scaling, ordinal: int) -> int:
    """Connections that a proxy says it has."""
    path = f"/api/v1/namespaces/{scaling.namespace}/pods/{scaling.pod(ordinal)}:8080/proxy/metrics/"
    lines = scaling.kubectl.run("get", "--raw", path).splitlines()
    return int(sum(float(line.split()[-1]) for line in lines if line.startswith("pulsar_proxy_active_connections")))


def in_service(scaling: Scaling) -> set[str]:
    """Proxies to which the Service sends new connections."""
    slices = scaling.kubectl.items(
        "endpointslices", scaling.namespace, f"kubernetes.io/service-name={scaling.cluster}-proxy"
    )
    return {
        each["targetRef"]["name"]
        for found in slices
        for each in found["endpoints"] or ()
        if each["conditions"]["ready"]
    }


def one(scaling: Scaling, ordinal: int) -> dict[str, Any] | None:
    """The pod of a proxy, one that stops too; None once it is gone."""
    return next((pod for pod in scaling.pods() if pod["metadata"]["name"] == scaling.pod(ordinal)), None)


@pytest.mark.autoscaling(5)
def test_proxies_follow_connections(deployed: Deployed, scaling: Scaling, capsys: pytest.CaptureFixture[str]) -> None:
    scaling.patch({"replicas": 2})
    scaling.patch({"autoscaling": SCALING})
    eventually(lambda: scaling.scaled(2), within=240, what="two proxies are enough", every=2.0)
    first = scaling.first_two()
    assert in_service(scaling) == set(first) == {scaling.pod(0), scaling.pod(1)}
    with (
        Doors(deployed.admin_url) as doors,
        CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8) as run,
        ExitStack() as staying,
    ):

        def client(name: str) -> Traffic:
            return Traffic(deployed.service_url, {f"persistent://shop/orders/{name}": 1.0})

        with ExitStack() as leaving, run.operation("scale out, the operator killed"):
            crowd = [leaving.enter_context(client(f"crowd-{n}")) for n in range(CROWD)]
            eventually(lambda: scaling.row().get("desired") == 3, within=240, what="a third proxy is asked for")
            kill_the_operator(deployed.kubectl)
            eventually(lambda: scaling.scaled(3), within=300, what="three proxies", every=2.0)
            eventually(lambda: len(in_service(scaling)) == 3, within=60, what="it is in the Service")
            grown = scaling.row()
            stay = [staying.enter_context(client(f"stay-{n}")) for n in range(STAY)]
            while not (taken := connections(scaling, 2)) and len(stay) < MOST:
                stay.append(staying.enter_context(client(f"stay-{len(stay)}")))
        busy = [connections(scaling, ordinal) for ordinal in range(3)]
        served: list[float] = []

        def gone() -> bool:
            pod = one(scaling, 2)
            if pod is not None and "deletionTimestamp" in pod["metadata"]:
                assert not is_up(pod)
                if scaling.pod(2) not in in_service(scaling) and connections(scaling, 2) > 0:
                    served.append(time.monotonic())
            assert pod is None, "it is there"
            return True

        with run.operation("scale in"):
            eventually(gone, within=420, what="the third proxy is gone", every=0.5)
            eventually(lambda: scaling.scaled(2), within=120, what="two proxies again", every=2.0)
        report = run.finish()
    shrunk = scaling.row()
    with capsys.disabled():
        print(
            f"\n{json.dumps(grown)}\n{json.dumps(shrunk)}\n{scaling.events('ScaledOut')} {scaling.events('ScaledIn')}"
        )
        print(f"connections at three proxies {busy}, {len(stay)} clients stay, {len(served)} looks while it left")
        print(f"{doors.answered} new connections answered, failed: {doors.failures() or 'none'}\n{report.text()}")
    assert taken > 0, "a client was at the proxy that left"
    assert served and served[-1] - served[0] > DRAIN / 2, "it served on, out of its Service"
    assert report.failures() == [], report.text()
    assert [each.failures() for each in (*crowd, *stay)] == [[]] * (CROWD + len(stay))
    assert doors.failures() == []
    assert len(scaling.events("ScaledOut")) == 1 and len(scaling.events("ScaledIn")) == 1
    assert grown["desired"] == 3 and grown.get("limitedBy") != "maxReplicas", grown
    assert scaling.obj()["spec"]["proxy"]["replicas"] == 2, "spec is never written"
    assert scaling.first_two() == first, "a change of the number rolls nothing"
