"""Pods as decisions on replicas take them, the condition, and the time a proxy has to leave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster import Proxy
from pulsar_operator.api.v1alpha1.scaling_status import ComponentScalingStatus
from pulsar_operator.controllers.dataplane.scaling import workload_of
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.pods import pod_facts
from pulsar_operator.domain.dataplane.scaling import said
from pulsar_operator.domain.render.proxy import drain_problems, proxy_pod
from pulsar_operator.ports import Json

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(ordinal: int, *, ready: bool, seconds: float = 1000, placed: bool = True) -> Json:
    """A broker's pod that has been so for some seconds."""
    since = timestamp(NOW - timedelta(seconds=seconds))
    conditions = [
        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since},
        {"type": "PodScheduled", "status": "True" if placed else "False"},
    ]
    return {"metadata": {"name": f"b-{ordinal}", "uid": f"u{ordinal}"}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("third", "lost", "starting"),
    [
        (pod(2, ready=True), 0, 0),
        (pod(2, ready=False, seconds=60), 0, 1),
        (pod(2, ready=False), 1, 0),
        (pod(2, ready=False, placed=False), 0, 1),
        (pod(3, ready=False), 0, 1),
    ],
    ids=["ready", "starts", "crashes", "fits on no node", "is too many"],
)
def test_pods_that_carry_nothing(third: Json, lost: int, starting: int) -> None:
    pods = [pod_facts(each) for each in (pod(0, ready=True), pod(1, ready=True), third)]
    found = workload_of(3, pods, (), NOW)
    assert (found.lost, found.starting) == (lost, starting)


def row(reason: Reason | None) -> ComponentScalingStatus:
    return ComponentScalingStatus(current=2, desired=2, replicas=2, reason=reason, message=f"Said {reason}.")


@pytest.mark.parametrize(
    ("broker", "proxy", "wanted"),
    [
        (Reason.WITHIN_TARGET, Reason.SCALED_OUT, ("True", Reason.SCALED_OUT)),
        (Reason.WITHIN_TARGET, Reason.NO_DATA, ("False", Reason.NO_DATA)),
        (Reason.AT_LIMIT, Reason.SCALED_IN, ("False", Reason.AT_LIMIT)),
        (None, Reason.WITHIN_TARGET, ("True", Reason.WITHIN_TARGET)),
        (None, None, None),
    ],
)
def test_what_is_not_well_speaks_first(
    broker: Reason | None, proxy: Reason | None, wanted: tuple[str, Reason] | None
) -> None:
    found = said({Component.BROKER: row(broker), Component.PROXY: row(proxy)})
    assert (found[:2] if found is not None else None) == wanted


LIMITS = {"minReplicas": 1, "maxReplicas": 3}


@pytest.mark.parametrize(
    ("proxy", "sleep", "refused"),
    [
        ({}, None, False),
        ({"autoscaling": LIMITS}, 30, False),
        ({"autoscaling": LIMITS | {"drainSeconds": 0}}, None, False),
        ({"autoscaling": LIMITS, "pod": {"preStopSleepSeconds": 5, "terminationGracePeriodSeconds": 20}}, 5, False),
        ({"autoscaling": LIMITS, "pod": {"terminationGracePeriodSeconds": 40}}, 30, False),
        ({"autoscaling": LIMITS, "pod": {"terminationGracePeriodSeconds": 39}}, 30, True),
    ],
)
def test_a_proxy_leaves_its_service_before_it_stops(proxy: Json, sleep: int | None, refused: bool) -> None:
    found = Proxy.model_validate(proxy)
    pod = proxy_pod(found)
    assert (pod.pre_stop_sleep_seconds if pod is not None else None) == sleep
    problems = drain_problems(found)
    assert bool(problems) is refused and all("drainSeconds = 30: raise it to 40" in each for each in problems)
