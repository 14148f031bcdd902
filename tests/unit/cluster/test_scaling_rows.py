"""Pods as decisions on replicas take them, the condition, and the time a proxy has to leave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pulsar_operator.api.constants import Component, Kind, Reason
from pulsar_operator.api.v1alpha1.autoscaling import BookieAutoscaling
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, Ensemble, Proxy, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.scaling_status import AutoscalingStatus, ComponentScalingStatus
from pulsar_operator.balance.autoscaling.bookies import Refused
from pulsar_operator.balance.autoscaling.history import Expected, State
from pulsar_operator.balance.autoscaling.values import Verdict
from pulsar_operator.controllers.dataplane.scaling.scaling_inputs import (
    Decided,
    Decision,
    refused_of,
    row_of,
    samples_of,
    state_of,
    workload_of,
)
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.pods import pod_facts
from pulsar_operator.domain.dataplane.scaling.replicas import replicas as replicas_that_count
from pulsar_operator.domain.dataplane.scaling.replicas import with_desired, with_unreadable
from pulsar_operator.domain.dataplane.scaling.scaling_status import scaling_condition
from pulsar_operator.domain.render import Owner
from pulsar_operator.domain.render.proxy import drain_problems, proxy_pod
from pulsar_operator.domain.stored import parsed, unreadable
from pulsar_operator.ports import STATEFUL_SETS, Json

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = Owner(Kind.CLUSTER, "east", "pulsar", "u", "v1", "demo")


def pod(ordinal: int, *, ready: bool, seconds: float = 1000, placed: bool = True, runs: float | None = None) -> Json:
    """A broker's pod that has been so for some seconds; its container ``runs`` for some, None = it does not."""
    since = timestamp(NOW - timedelta(seconds=seconds))
    conditions = [
        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since},
        {"type": "PodScheduled", "status": "True" if placed else "False"},
    ]
    state = {"waiting": {}} if runs is None else {"running": {"startedAt": timestamp(NOW - timedelta(seconds=runs))}}
    status = {"conditions": conditions, "containerStatuses": [{"name": "broker", "ready": ready, "state": state}]}
    return {"metadata": {"name": f"b-{ordinal}", "uid": f"u{ordinal}"}, "status": status}


def stops(seconds: float) -> Json:
    """A ready pod whose grace was over some seconds ago."""
    found = pod(2, ready=True, runs=9000)
    found["metadata"]["deletionTimestamp"] = timestamp(NOW - timedelta(seconds=seconds))
    return found


@pytest.mark.parametrize(
    ("third", "lost", "starting", "unsure"),
    [
        (pod(2, ready=True, runs=1010), 0, 0, 0),
        (pod(2, ready=True, seconds=119, runs=130), 0, 0, 1),
        (pod(2, ready=True, seconds=120, runs=9000), 0, 0, 0),
        (pod(2, ready=False, seconds=60), 0, 1, 0),
        (pod(2, ready=False), 1, 0, 0),
        (pod(2, ready=False, seconds=60, runs=9000), 0, 1, 1),
        (pod(2, ready=False, runs=9000), 1, 0, 1),
        (pod(2, ready=False, placed=False), 0, 1, 0),
        (pod(3, ready=False), 0, 1, 0),
        (stops(-60), 0, 1, 0),
        (stops(299), 0, 1, 0),
        (stops(301), 1, 0, 0),
    ],
    ids=[
        "ready",
        "just ready",
        "ready for two looks",
        "starts",
        "crashes",
        "runs and is not ready",
        "runs and is not ready for long",
        "fits on no node",
        "is too many",
        "stops",
        "should have stopped",
        "on a node that is away",
    ],
)
def test_pods_that_carry_nothing_or_more_than_they_say(third: Json, lost: int, starting: int, unsure: int) -> None:
    pods = [pod_facts(each) for each in (pod(0, ready=True), pod(1, ready=True), third)]
    found = workload_of(3, pods, (), NOW)
    assert (found.lost, found.starting, found.unsure) == (lost, starting, unsure)


def never_ready(ordinal: int, seconds: float = 1000) -> Json:
    """A pod that its node took in some seconds ago, and that was not ready since."""
    found = pod(ordinal, ready=False, seconds=seconds)
    found["status"]["startTime"] = timestamp(NOW - timedelta(seconds=seconds + 1))
    return found


def unplaced(ordinal: int, seconds: float) -> Json:
    """A pod that no node has room for."""
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": timestamp(NOW - timedelta(seconds=seconds)),
    }
    return {"metadata": {"name": f"b-{ordinal}", "uid": f"u{ordinal}"}, "status": {"conditions": [scheduled]}}


@pytest.mark.parametrize(
    ("others", "lost", "starting", "stuck"),
    [
        ([never_ready(2)], 1, 0, 0),
        ([never_ready(2), never_ready(3)], 1, 1, 1),
        ([never_ready(2), never_ready(3), never_ready(4), pod(5, ready=False)], 2, 2, 2),
        ([never_ready(2), never_ready(3, 200)], 1, 1, 0),
        ([unplaced(2, 299)], 0, 1, 0),
        ([unplaced(2, 301)], 0, 1, 1),
        ([unplaced(2, 301), never_ready(3), never_ready(4)], 1, 2, 2),
        ([unplaced(7, 301), never_ready(8), never_ready(9)], 0, 3, 0),
    ],
    ids=[
        "one",
        "one more than is made up for",
        "one of them was ready",
        "one is starting",
        "no room yet",
        "no room",
        "both",
        "too many anyway",
    ],
)
def test_of_pods_that_do_not_start_one_is_made_up_for(others: list[Json], lost: int, starting: int, stuck: int) -> None:
    """What keeps several from starting, an image that cannot be had, would keep more: they are asked for up to the
    maximum otherwise, one after the other."""
    pods = [pod_facts(each) for each in (pod(0, ready=True), pod(1, ready=True), *others)]
    found = workload_of(2 + len(others), pods, (), NOW)
    assert (found.lost, found.starting, found.stuck) == (lost, starting, stuck)


def test_bookies_that_do_not_start_are_all_made_up_for() -> None:
    """Ensembles need them, and what keeps them may be their volumes."""
    pods = [pod_facts(each) for each in (pod(0, ready=True), never_ready(1), never_ready(2), unplaced(3, 301))]
    found = workload_of(4, pods, (), NOW, alike=False)
    assert (found.lost, found.starting, found.stuck) == (2, 1, 0)


def row_at(
    desired: int, minutes: float | None, replicas: int = 2, *, current: int | None = None
) -> ComponentScalingStatus:
    """A stored decision, some minutes old; None = from when autoscaling was removed. ``current`` None = it was done."""
    time = None if minutes is None else timestamp(NOW - timedelta(minutes=minutes))
    current = desired if current is None else current
    return ComponentScalingStatus(current=current, desired=desired, replicas=replicas, updated_time=time)


@pytest.mark.parametrize(
    ("limits", "replicas", "row", "there", "wanted"),
    [
        (None, 2, None, None, 2),
        (None, 2, None, 5, 2),
        (None, 2, row_at(5, None), 5, 5),
        (None, 2, row_at(5, None), 3, 5),
        (None, 3, row_at(5, None), 5, 3),
        (None, 2, row_at(5, 1), 5, 5),
        ((3, 6), 2, None, None, 3),
        ((3, 6), 9, None, None, 6),
        ((3, 6), 0, None, None, 3),
        ((3, 6), 2, None, 5, 5),
        ((3, 6), 2, None, 0, 0),
        ((3, 6), 2, row_at(4, 1), None, 4),
        ((3, 6), 2, row_at(4, 1), 5, 4),
        ((3, 6), 2, row_at(4, 1), 0, 4),
        ((3, 6), 2, row_at(4, 600), None, 4),
        ((3, 6), 2, row_at(4, 29), 5, 4),
        ((3, 6), 2, row_at(4, 31), 5, 5),
        ((3, 6), 2, row_at(4, 31), 2, 3),
        ((3, 6), 2, row_at(4, 31), 0, 3),
        ((3, 6), 2, row_at(4, -31), 5, 5),
        ((3, 6), 2, row_at(2, 31), 5, 5),
        ((3, 6), 2, row_at(5, None), 5, 5),
        ((3, 6), 7, row_at(4, 1, replicas=2), 4, 4),
        ((3, 6), 2, row_at(0, 1), 5, 3),
        ((3, 6), 2, row_at(0, 1), 2, 2),
        ((3, 6), 2, row_at(0, 1), None, 3),
        ((3, 6), 2, row_at(2**20, 1), 5, 6),
        ((3, 6), 2, row_at(2**20, 600, current=4), None, 6),
        ((3, 6), 2, row_at(8, 600), None, 8),
        ((3, 6), 2, row_at(9, 1), 9, 9),
    ],
    ids=[
        "never scaled",
        "scaled by hand",
        "removed",
        "removed, then by hand",
        "removed, then replicas",
        "just removed",
        "begins at the minimum",
        "begins at the maximum",
        "begins with none",
        "begins with what runs",
        "begins with none that run",
        "decided, the workload is gone",
        "decided, not done yet",
        "decided, scaled by hand",
        "decided long ago, the workload is gone",
        "decided, a look ago",
        "decided long ago",
        "decided long ago, below the minimum by hand",
        "decided long ago, none run",
        "decided in times to come",
        "of an old backup",
        "set again",
        "replicas changed in one step with autoscaling removed and set",
        "a stranger wrote none",
        "a stranger wrote none, below the minimum",
        "a stranger wrote none, the workload is gone",
        "a stranger wrote a million",
        "a stranger wrote a million, the workload is gone",
        "what is stored needs more than the maximum, the workload is gone",
        "the maximum was lowered",
    ],
)
def test_replicas_that_count(
    limits: tuple[int, int] | None, replicas: int, row: ComponentScalingStatus | None, there: int | None, wanted: int
) -> None:
    scaled = {} if limits is None else {"autoscaling": {"minReplicas": limits[0], "maxReplicas": limits[1]}}
    part = Proxy.model_validate({"replicas": replicas, **scaled})
    assert replicas_that_count(part, row, there, NOW) == wanted


ODD = {"desired": "odd"}
GOOD = {"current": 5, "desired": 5, "replicas": 2}


@pytest.mark.parametrize(
    ("stored", "there", "expected"),
    [
        ({"broker": GOOD, "proxy": ODD}, (4, 6, 7), (5, 6, 3)),
        ({"broker": ODD, "bookkeeper": {**GOOD, "replicas": 3}}, (4, None, 7), (4, 2, 5)),
        ({"broker": GOOD, "bookkeeper": ODD}, (4, None, 7), (5, 2, 7)),
        ({"broker": GOOD, "functionWorker": ODD}, (4, None, None), (5, 2, 3)),
        ("odd", (4, 6, 7), (4, 6, 7)),
        ({"broker": GOOD, "unreadable": 7}, (4, 6, None), (5, 2, 3)),
        ({"broker": GOOD, "unreadable": ["broker", "proxy"]}, (4, 6, None), (5, 6, 3)),
        ({"proxy": ODD}, (None, None, None), (2, 2, 3)),
    ],
    ids=["proxies", "brokers", "bookies", "unknown component", "no rows", "odd list", "noted before", "no workload"],
)
def test_a_row_that_cannot_be_read_affects_only_its_component(
    stored: Json, there: tuple[int | None, ...], expected: tuple[int, ...]
) -> None:
    """Its number of pods stays, and that of the others is as it was decided. Of brokers, proxies and bookies."""
    raw = {"autoscaling": stored}
    status = with_unreadable(parsed(PulsarClusterStatus, raw), unreadable(PulsarClusterStatus, raw))
    spec = PulsarClusterSpec.model_validate(
        {
            "instanceRef": {"name": "prod"},
            "broker": {"replicas": 2},
            "proxy": {"replicas": 2},
            "bookkeeper": {"replicas": 3, "ensemble": {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}},
        }
    )
    owner = {"kind": OWNER.kind.value, "metadata": {"name": OWNER.name, "uid": OWNER.uid}}
    children = [
        {
            "kind": STATEFUL_SETS.kind,
            "metadata": {
                "name": f"east-{name}",
                "ownerReferences": [{"uid": OWNER.uid, "controller": True}],
            },
            "spec": {"replicas": number},
        }
        for name, number in zip(("broker", "proxy", "bookie"), there, strict=True)
        if number is not None
    ]
    found = with_desired(spec, status, Live.of(owner, children), NOW)
    assert tuple(getattr(found, name).replicas for name in ("broker", "proxy", "bookkeeper")) == expected


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
    found = scaling_condition({Component.BROKER: row(broker), Component.PROXY: row(proxy)})
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
    assert bool(problems) is refused and all(
        "drainSeconds = 30. Raise terminationGracePeriodSeconds to 40" in each for each in problems
    )


@pytest.mark.parametrize(
    ("ensemble", "desired", "wanted"),
    [({}, 2, 2), ({"ensemble_size": 3}, 2, 3), ({"write_quorum": 4}, 2, 4), ({"ack_quorum": 3}, 5, 5)],
)
def test_bookies_are_never_fewer_than_the_quorums_that_are_asked_for(
    ensemble: dict[str, int], desired: int, wanted: int
) -> None:
    """Quorums that grow after a decision: a specification of too few bookies would be refused, which nobody wrote."""
    limits = BookieAutoscaling(min_replicas=2, max_replicas=6)
    keeper = BookKeeper(replicas=5, autoscaling=limits, ensemble=Ensemble(**ensemble))
    spec = PulsarClusterSpec.model_construct(broker=None, proxy=None, bookkeeper=keeper)
    status = PulsarClusterStatus(autoscaling=AutoscalingStatus(bookkeeper=row_at(desired, 1, replicas=5)))
    found = with_desired(spec, status, Live(OWNER, {}), NOW)
    assert found.bookkeeper is not None and found.bookkeeper.replicas == wanted


def test_what_bookies_remember_comes_back_from_the_status() -> None:
    refused = Refused(Reason.DECOMMISSION_STUCK, "why", 7, 5000.0)
    samples = ((1000.0, 5.0), (4600.0, 9.0))
    verdict = Verdict(4, Reason.STABILIZING, "load")
    found = row_of(Decided(4, 4, 4, Decision(verdict, State(scaled=10.0), samples, refused), 4), None, NOW)
    stored = ComponentScalingStatus.model_validate(found.model_dump(by_alias=True, exclude_none=True))
    assert samples_of(stored, 9e9) == samples and refused_of(stored) == refused
    assert samples_of(None, 9e9) == () and refused_of(None) is None
    strange = found.model_dump(by_alias=True, exclude_none=True)
    strange["history"]["refusal"]["reason"] = "NoReason"
    assert refused_of(ComponentScalingStatus.model_validate(strange)) is None, "what nobody knows keeps none"


def test_all_that_decisions_remember_stands_in_status() -> None:
    """A new operator decides the same."""
    runs = ((0.0, 5), (60.0, 4))
    expected = Expected(60.0, 2000, 150, 2500)
    state = State(0.0, 60.0, runs, ((0.0, 4),), 0.0, True, 3, 0.0, True, 60.0, 60.0, 4, 25, expected)
    verdict = Verdict(4, Reason.WITHIN_TARGET, "as it is.")
    row = row_of(Decided(4, 4, 4, Decision(verdict, state), 4), None, NOW)
    stored = ComponentScalingStatus.model_validate(row.model_dump(by_alias=True, exclude_none=True))
    assert state_of(stored, NOW) == state
