"""Two brokers become three before a recorded peak, while the load that there is asks for none. Then it comes, the
operator is replaced twice, and nobody who publishes or reads notices."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.changes import paused
from e2e.support.deploy import OPERATOR_NAMESPACE
from e2e.support.eventually import eventually
from e2e.support.history import Placed
from e2e.support.killing import replace_the_operator
from e2e.support.recording import CLUSTER, SERVICE, Recording, recording
from e2e.support.rolling import even
from e2e.support.scaling import Scaling, shared
from e2e.support.skew import COUNTED, Brokers, span
from e2e.support.traffic import Traffic
from pulsar_conformance.counting.client import CountingRun
from pulsar_operator.balance.autoscaling.brokers import BACK, LEAD
from pulsar_operator.balance.autoscaling.forecast import growth
from pulsar_operator.balance.autoscaling.outlook import profile_of
from pulsar_operator.balance.sizing.result import SizingOutlook

QUIET, USUAL, PEAK = 2.0, 10.2, 14.0
"""Messages a second of each topic. With the counted ones USUAL is 95 % of what two brokers should carry, for which
nobody asks for a third one, and PEAK 124 %."""
TARGET = 300
"""Messages a second that one broker should carry, in and out."""
TOLERANCE = 0.1
"""Share above the target for which none is added: behavior.tolerancePercent as it is by itself."""
LEAST = 1.25
"""Times that the record grows until a new broker serves, at whatever minute the test runs (e2e/support/history.py)."""
SCALING = {
    "minReplicas": 2,
    "maxReplicas": 3,
    "targets": {"messagesPerSecond": TARGET},
    "forecast": {"trafficSource": "Recorded"},
    "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 0, "cooldownSeconds": 30},
        "scaleDown": {"stabilizationWindowSeconds": 60, "cooldownSeconds": 60},
    },
}
ONCE_A_YEAR = {"sizing.job.schedule": "0 0 1 1 *"}
"""The job runs when it is told to: by its own schedule it would leave a result in the middle of the test."""


@pytest.fixture
def scaling(deployed: Deployed) -> Iterator[Scaling]:
    """The number of brokers, three in the end."""
    found = Scaling(deployed.kubectl, deployed.namespace)
    with found.given_back():
        yield found


def published(topics: int, rate: float) -> float:
    """Messages a second of so many topics, and the counted ones."""
    return topics * rate + COUNTED


def whole(brokers: Brokers, rate: float) -> bool:
    """Whether their statistics have what is published a second, nearly to the message."""
    seen = sum(each for _, each in brokers.rates().values())
    assert abs(seen - rate) < 0.04 * rate, f"{seen:.0f} messages/s in the statistics, not {rate:.0f}"
    return True


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The inputs that are known, by name."""
    return {each["name"]: float(each["value"]) for each in row.get("inputs") or () if "value" in each}


def without_result(scaling: Scaling) -> bool:
    """Two brokers are enough by the whole load that there is, and nothing is foreseen."""
    row = scaling.row()
    assert (row.get("desired"), row.get("reason")) == (2, "WithinTarget"), json.dumps(row)
    assert (
        f"There is no forecast, because the sizing service at http://{SERVICE}.{scaling.namespace}:8080 has no result"
        in row["message"]
    )
    found = figures(row)
    # More, and the load alone asks for a third broker; less, and LEAST times as much asks for none.
    least, most = 2 * TARGET * (1 + TOLERANCE) / LEAST, 2 * TARGET * (1 + TOLERANCE)
    assert least < found["messagesPerSecond"] < most and "forecast" not in found, json.dumps(row)
    return scaling.scaled(2)


def foresees(scaling: Scaling, *reasons: str) -> dict[str, Any]:
    """The row once it has the forecast, and one of these reasons if any are given."""
    row = scaling.row()
    assert row.get("desired") == 3 and figures(row).get("forecast", 0.0) > 1, json.dumps(row)
    assert not reasons or row["reason"] in reasons, json.dumps(row)
    return row


def sized(recorded: Recording, topics: list[str], brokers: Brokers) -> float:
    """Days of recorded traffic, and what the job makes of them; by how many times the record is to grow by now."""
    placed = [Placed(each, span(n // 2), brokers.ids[n % 2]) for n, each in enumerate(topics[:4])]
    print(recorded.write_history(datetime.now(UTC), placed))
    recorded.size("size-history")
    result = SizingOutlook.model_validate(recorded.result())
    assert result.cluster == CLUSTER and result.profile is not None, result
    assert result.profile.period == "Day", result.profile
    found = growth(profile_of(result.profile), time.time(), LEAD, BACK)
    assert found >= LEAST, (found, result.profile)
    return found


@pytest.mark.autoscaling(4)
def test_a_broker_more_before_a_recorded_peak(
    deployed: Deployed, scaling: Scaling, brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl, namespace = deployed.kubectl, deployed.namespace
    began = time.monotonic()
    took: dict[str, float] = {}

    def done(step: str) -> None:
        took[step] = time.monotonic() - began

    with even(brokers) as topics, recording(kubectl, deployed.helm, namespace, ONCE_A_YEAR) as recorded:
        scaling.patch({"replicas": 2})
        eventually(lambda: scaling.there(2), within=300, what="two brokers", every=1.0)
        stay, two = scaling.first_two(), replace(brokers, ids=brokers.ids[:2])
        counted, rates = topics[-1], dict.fromkeys(topics[:-1], USUAL)
        traffic = Traffic(deployed.service_url, rates)
        with traffic, CountingRun(deployed.service_url, counted, rate=COUNTED) as run:
            usual, peak = published(len(rates), USUAL), published(len(rates), PEAK)
            eventually(lambda: whole(two, usual), within=180, what="the whole traffic at two brokers", every=1.0)
            scaling.patch({"autoscaling": SCALING})
            # A figure that was seen too early, or a service that was slow, is in the status for five minutes.
            eventually(lambda: without_result(scaling), within=420, what="two are enough without a result", every=1.0)
            done("two are enough without a result")
            grows = sized(recorded, topics, brokers)
            done("recorded and sized")
            with run.operation("a broker more before the peak"):
                # A new operator asks at once; the one that found no result does after two minutes.
                kubectl.run("delete", "pod", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator")
                eventually(lambda: foresees(scaling), within=300, what="a third broker is asked for", every=1.0)
                done("asked for")
                eventually(lambda: scaling.scaled(3), within=300, what="three brokers", every=1.0)
                eventually(lambda: shared(brokers), within=300, what="the new broker has its share", every=2.0)
            done("three have their share")
            out = scaling.events("ScaledOut")
            with run.operation("the peak"):
                traffic.change(dict.fromkeys(rates, PEAK))
                at_peak = eventually(
                    lambda: brokers.loads(peak), within=120, what="the peak at three brokers", every=1.0
                )
            done("the peak is there")
            scaled_at = scaling.row()["lastScaleTime"]
            with run.operation("another operator"):
                replace_the_operator(kubectl)
                # At rest the status has figures of five minutes ago. Who pauses it sees those of now.
                with paused(kubectl, "pulsarcluster", namespace, CLUSTER):
                    again = eventually(
                        lambda: foresees(scaling, "Paused"), within=420, what="the new operator foresees it", every=1.0
                    )
                calm = ("WithinTarget", "AtLimit", "Stabilizing")
                kept = eventually(
                    lambda: foresees(scaling, *calm), within=120, what="the new operator keeps three", every=1.0
                )
                eventually(lambda: scaling.scaled(3), within=60, what="three brokers", every=1.0)
            done("kept by another operator")
            with run.operation("scale in without a forecast"):
                traffic.change(dict.fromkeys(rates, QUIET))
                scaling.patch({"autoscaling": {"forecast": None}})
                eventually(lambda: scaling.scaled(2), within=600, what="two brokers again", every=2.0)
            done("two again")
            report = run.finish()
    left, events = scaling.row(), {each["reason"] for each in kubectl.items("events", namespace)}
    with capsys.disabled():
        print(f"\n{json.dumps({step: round(seconds) for step, seconds in took.items()})}")
        print(f"the record grows {grows:.2f} times; {out}\n{json.dumps(again)}\n{json.dumps(kept)}\n{json.dumps(left)}")
        print(f"loads at the peak: {at_peak}\n{report.text()}")
    assert report.failures() == [] and report.lost == 0, report.text()
    assert traffic.failures() == []
    # For what was recorded, and once: the load that there was asked for none.
    (said,) = out
    found = re.match(
        r"Scale brokers from 2 to 3\. According to MessagesPerSecond, 2 ready pods carry (\d+)% .*\. Recorded "
        r"traffic grows ([\d.]+) times before a new pod serves\. \d pods are needed\. The number of replicas "
        r"changes from 2 to 3",
        said,
    )
    assert found is not None and int(found[1]) < 100 * (1 + TOLERANCE) and float(found[2]) >= LEAST, said
    assert scaling.events("ScaledOut") == out and again["lastScaleTime"] == kept["lastScaleTime"] == scaled_at
    assert "forecast" not in figures(left) and "forecast" not in left["message"], left
    assert len(scaling.events("ScaledIn")) == 1 and "DrainIncomplete" not in events, "it left with bundles"
    assert scaling.obj()["spec"]["broker"]["replicas"] == 2, "spec is never written"
    assert scaling.first_two() == stay, "a change of the number rolls nothing"
