"""The roll plan by tables: which pod is next, and what is waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.rollout.checks import READINESS, Decision, decide
from pulsar_operator.domain.dataplane.rollout.facts import RolloutFacts, component_state, given_up_since
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from tests.support.cluster.stateful_sets import pod, stateful_set, template

Json = dict[str, Any]


def of(*components: tuple[Component, Json, list[Json]], **facts: Any) -> Decision:
    """By the pods alone: what holds a cluster, and what servers say, is not looked at."""
    return decide(RolloutFacts([component_state(*each) for each in components], **facts), READINESS)


def plan(sts: Json, pods: list[Json], **facts: Any) -> Decision:
    return of((Component.BROKER, sts, pods), **facts)


def deleted(result: Decision) -> str | None:
    return result.candidate.name if result.candidate is not None and result.blocker is None else None


def waits(result: Decision) -> str:
    return result.blocker.message if result.blocker is not None else ""


OLD, NEW = {"revision": "r1"}, {"revision": "r2"}
CASES: list[tuple[str, list[dict[str, Any] | None], str | None, str | None]] = [
    ("nothing to do", [NEW, NEW, NEW], None, None),
    ("highest ordinal first", [OLD, OLD, OLD], "my-broker-2", None),
    ("then the next", [OLD, OLD, NEW], "my-broker-1", None),
    ("the new one is awaited", [OLD, OLD, NEW | {"ready": False}], None, "my-broker-2 is not ready"),
    ("terminating is awaited", [OLD, OLD, OLD | {"terminating": True}], None, "my-broker-2 is terminating"),
    ("missing is awaited", [OLD, OLD, None], None, "my-broker-2 does not exist yet"),
    ("an unready outdated one goes first", [OLD | {"ready": False}, OLD, OLD], "my-broker-0", None),
    ("even when it never worked", [OLD | {"ready": False, "was_ready": False}, OLD, OLD], "my-broker-0", None),
    (
        "a broken revision is repaired although the first repaired pod is not ready",
        [
            OLD | {"ready": False, "was_ready": False},
            OLD | {"ready": False, "was_ready": False},
            NEW | {"ready": False},
        ],
        "my-broker-1",
        None,
    ),
    (
        "pods that were ready and flap together are left alone",
        [OLD | {"ready": False}, OLD | {"ready": False}, OLD],
        None,
        "my-broker-0 is not ready",
    ),
    (
        "an outdated unready one waits while an updated one starts",
        [OLD | {"ready": False}, OLD, NEW | {"ready": False}],
        None,
        "my-broker-2 is not ready",
    ),
    ("bring-up is awaited, not rolled out", [NEW | {"ready": False}, NEW, NEW], None, None),
]


@pytest.mark.parametrize(("states", "victim", "awaited"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_next_step(states: list[dict[str, Any] | None], victim: str | None, awaited: str | None) -> None:
    pods = [pod(f"my-broker-{i}", **state) for i, state in enumerate(states) if state is not None]
    result = plan(stateful_set(revision="r2", pod_template=template("pulsar:2")), pods)
    assert deleted(result) == victim
    assert awaited in waits(result) if awaited is not None else result.blocker is None


def test_the_leader_goes_last() -> None:
    sts = stateful_set(revision="r2")
    states = {f"my-broker-{i}": ServerState("leader" if i == 2 else "follower", 1, 2) for i in range(3)}
    pods = [pod(f"my-broker-{i}") for i in range(3)]
    assert deleted(plan(sts, pods, servers=states)) == "my-broker-1"
    pods[0] = pod("my-broker-0", revision="r2")
    pods[1] = pod("my-broker-1", revision="r2")
    assert deleted(plan(sts, pods, servers=states)) == "my-broker-2"


@pytest.mark.parametrize("observed", [None, 1])
def test_a_spec_the_controller_has_not_seen_is_waited_for(observed: int | None) -> None:
    sts = stateful_set(generation=2, observed=observed, revision="r1")
    result = plan(sts, [pod(f"my-broker-{i}", revision="r0") for i in range(3)])
    assert result.candidate is None, "nobody knows which pods are outdated"
    (state,) = [component_state(Component.BROKER, sts, [])]
    assert "has not observed" in (state.unsettled or "") and state.busy is not None


def test_pods_beyond_the_replicas_are_waited_for() -> None:
    sts = stateful_set(replicas=2, revision="r2")
    result = plan(sts, [pod(f"my-broker-{i}") for i in range(3)])
    assert deleted(result) is None
    assert "exceeds 2 replicas" in waits(result)


def test_foreign_pods_are_not_touched() -> None:
    foreign = pod("my-broker-7", revision="r0")
    foreign["metadata"]["ownerReferences"][0]["uid"] = "other"
    orphan = pod("my-broker-8", revision="r0")
    orphan["metadata"]["ownerReferences"] = []
    sts = stateful_set(replicas=1, revision="r1")
    assert plan(sts, [pod("my-broker-0"), foreign, orphan]).candidate is None


def test_the_plan_counts_and_carries_the_precondition() -> None:
    result = plan(stateful_set(revision="r2"), [pod(f"my-broker-{i}", revision=f"r{1 + i // 2}") for i in range(3)])
    assert result.candidate is not None
    assert result.candidate.uid == "uid-my-broker-1-r1"


def test_zero_replicas_are_complete() -> None:
    assert plan(stateful_set(replicas=0), []).candidate is None


def both(first: list[Json], second: list[Json], *, revisions: tuple[str, str] = ("r2", "r2")) -> Decision:
    return of(
        (Component.BOOKIE, stateful_set("my-bookie", replicas=2, revision=revisions[0]), first),
        (Component.BROKER, stateful_set("my-broker", replicas=2, revision=revisions[1]), second),
    )


def pair(name: str, revision: str, **second: Any) -> list[Json]:
    return [pod(f"{name}-0", revision=revision), pod(f"{name}-1", **{"revision": revision, **second})]


def test_components_roll_one_after_the_other() -> None:
    assert deleted(both(pair("my-bookie", "r1"), pair("my-broker", "r1"))) == "my-bookie-1"
    assert deleted(both(pair("my-bookie", "r2"), pair("my-broker", "r1"))) == "my-broker-1"


def test_a_component_waits_for_those_before_it() -> None:
    result = both(pair("my-bookie", "r2", ready=False), pair("my-broker", "r1"))
    assert deleted(result) is None
    assert waits(result) == "Pod my-bookie-1 is not ready"


def cluster(**pods: list[Json]) -> Decision:
    """Components of two pods each, the newest revision being r2; those not given are up to date and ready."""
    order = (Component.ZOOKEEPER, Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER, Component.PROXY)
    return of(
        *(
            (
                c,
                stateful_set(f"my-{c.value}", replicas=2, revision="r2"),
                pods.get(c.value, pair(f"my-{c.value}", "r2")),
            )
            for c in order
        )
    )


ENDING: dict[str, Any] = {"terminating": True}
UNREADY: dict[str, Any] = {"ready": False}


@pytest.mark.parametrize("how", [ENDING, UNREADY])
@pytest.mark.parametrize(
    ("outdated", "disturbed", "held"),
    [
        ("bookie", "zookeeper", True),
        ("broker", "zookeeper", True),
        ("broker", "bookie", True),
        ("proxy", "broker", True),
        ("autorecovery", "bookie", True),
        ("zookeeper", "proxy", False),
        ("bookie", "broker", False),
        ("bookie", "proxy", False),
        ("broker", "proxy", False),
        ("broker", "autorecovery", False),
        ("bookie", "autorecovery", False),
    ],
)
def test_a_disturbed_component_holds_those_that_depend_on_it(
    outdated: str, disturbed: str, held: bool, how: dict[str, Any]
) -> None:
    """A pod that cannot end, for its node is gone, must not hold up what does without it."""
    plan = cluster(**{outdated: pair(f"my-{outdated}", "r1"), disturbed: pair(f"my-{disturbed}", "r2", **how)})
    if held:
        assert deleted(plan) is None and f"my-{disturbed}-1" in waits(plan)
    else:
        assert deleted(plan) == f"my-{outdated}-1"


@pytest.mark.parametrize("component", ["zookeeper", "bookie", "broker", "proxy"])
def test_repair_waits_for_nobody(component: str) -> None:
    """Of the same component a pod is ending, and of the first one: neither can come back by waiting."""
    broken = {"revision": "r1", "ready": False, "was_ready": False}
    pods = [pod(f"my-{component}-0", revision="r2", terminating=True), pod(f"my-{component}-1", **broken)]
    gone = {} if component == "zookeeper" else {"zookeeper": pair("my-zookeeper", "r2", terminating=True)}
    assert deleted(cluster(**{component: pods, **gone})) == f"my-{component}-1"


def test_a_broken_later_component_is_repaired_while_an_earlier_one_is_unready() -> None:
    result = both(pair("my-bookie", "r2", ready=False), pair("my-broker", "r1", ready=False, was_ready=False))
    assert deleted(result) == "my-broker-1"


RESTARTED = {"revision": "r1", "ready": False, "was_ready": False, "once_ready": True, "restarts": 1}
"""Unready since 00:05."""
STARTING = {"revision": "r2", "ready": False, "was_ready": False}
UNPULLED = STARTING | {"waiting": {"reason": "ErrImagePull"}}
AT_ONCE, PATIENT = datetime(2026, 1, 1, 0, 5, tzinfo=UTC), datetime(2026, 1, 1, 0, 4, 59, tzinfo=UTC)
RESTARTS: list[tuple[str, list[dict[str, Any] | None], datetime | None, str | None]] = [
    ("nobody of the newest revision is unready", [RESTARTED, OLD, NEW], None, "my-broker-0"),
    ("nobody has the newest revision yet", [RESTARTED, RESTARTED, RESTARTED], None, "my-broker-2"),
    ("a new one is unready", [OLD, RESTARTED, STARTING], PATIENT, None),
    ("nobody knows the time", [OLD, RESTARTED, STARTING], None, None),
    ("its time is over", [OLD, RESTARTED, STARTING], AT_ONCE, "my-broker-1"),
    ("its time is over, but the newest revision fails", [OLD, RESTARTED, UNPULLED], AT_ONCE, None),
    ("a new one restarted", [OLD, RESTARTED, RESTARTED | NEW], PATIENT, None),
    ("a new one is to be created", [OLD, RESTARTED, None], PATIENT, None),
    ("a new one is not created, and its time is over", [OLD, RESTARTED, None], AT_ONCE, "my-broker-1"),
    ("one ends", [OLD, RESTARTED, OLD | {"terminating": True}], PATIENT, None),
    (
        "a new one fits on no node, which says nothing of its template",
        [OLD, RESTARTED, STARTING | {"unschedulable": "no"}],
        AT_ONCE,
        "my-broker-1",
    ),
    ("one was never ready", [OLD, OLD | {"ready": False, "was_ready": False}, UNPULLED], None, "my-broker-1"),
]


@pytest.mark.parametrize(("states", "given_up", "victim"), [e[1:] for e in RESTARTS], ids=[e[0] for e in RESTARTS])
def test_a_restarted_pod_is_repaired_once_it_does_not_come_back(
    states: list[dict[str, Any] | None], given_up: datetime | None, victim: str | None
) -> None:
    pods = [pod(f"my-broker-{i}", **state) for i, state in enumerate(states) if state is not None]
    sts = stateful_set(revision="r2", pod_template=template("pulsar:2"))
    result = plan(sts, pods, given_up={Component.BROKER: given_up} if given_up is not None else {})
    assert deleted(result) == victim
    assert victim is not None or waits(result)


def test_an_outage_of_a_store_is_no_time_in_which_a_pod_could_come_back() -> None:
    now, minutes = datetime(2026, 1, 1, 1, tzinfo=UTC), timedelta(minutes=1)
    both, answers = (Component.BOOKIE, Component.BROKER), {Component.BROKER: now - 9 * minutes}
    assert given_up_since(both, now, 1200, answers) == {Component.BOOKIE: now - 10 * minutes}
    assert given_up_since(both, now + minutes, 1200, answers) == dict.fromkeys(both, now - 9 * minutes)


REASONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"image": "pulsar:2"}, "the image changed from pulsar:1 to pulsar:2"),
    ({}, {"config_hash": "bbbb"}, "configuration changed (hash aaaa to bbbb)"),
    ({}, {"image": "pulsar:2", "config_hash": "bbbb"}, "the image changed from pulsar:1 to pulsar:2"),
    (
        {"resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}},
        {"resources": {"limits": {"memory": "2Gi"}}},
        "limits.memory changed from 1Gi to 2Gi",
    ),
    ({"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "2"}}}, "requests.cpu changed"),
    (
        {"env": [{"name": "A", "value": "1"}]},
        {"env": [{"name": "A", "value": "2"}]},
        "environment variable A was changed",
    ),
    ({}, {"env": [{"name": "A", "value": "hush"}]}, "environment variable A was added"),
    ({"command": ["a"]}, {"command": ["b"]}, "container command changed"),
    ({}, {}, "the pod template changed"),
]


@pytest.mark.parametrize(("old", "new", "words"), REASONS)
def test_the_reason_names_the_first_difference(old: dict[str, Any], new: dict[str, Any], words: str) -> None:
    sts = stateful_set(replicas=1, revision="r2", pod_template=template(**new))
    result = plan(sts, [pod("my-broker-0", pod_template=template(**old))])
    assert result.candidate is not None
    assert words in result.candidate.reason
    assert "hush" not in result.candidate.reason


PODS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"volumes": [{"name": "v", "secret": {"secretName": "a"}}]}, "volume v was added"),
    (
        {"volumes": [{"name": "v", "secret": {"secretName": "a", "defaultMode": 420}}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "b"}}]},
        "volume v changed",
    ),
    ({}, {"initContainers": [{"name": "fetch", "image": "f:1"}]}, "container fetch was added"),
    (
        {"initContainers": [{"name": "fetch", "image": "f:1", "args": ["hush"], "resources": {}}]},
        {"initContainers": [{"name": "fetch", "image": "f:1", "args": ["hush2"]}]},
        "container fetch changed",
    ),
    (
        {"initContainers": [{"name": "istio-init", "image": "i"}], "serviceAccountName": "a"},
        {"serviceAccountName": "b"},
        "pod serviceAccountName changed",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), PODS)
def test_the_reason_names_what_differs_beside_the_main_container(
    old: dict[str, Any], new: dict[str, Any], words: str
) -> None:
    before, after = template(), template()
    before["spec"] |= old
    after["spec"] |= new
    result = plan(
        stateful_set(replicas=1, revision="r2", pod_template=after), [pod("my-broker-0", pod_template=before)]
    )
    assert result.candidate is not None
    assert words in result.candidate.reason
    assert "hush" not in result.candidate.reason


def test_an_asked_for_restart_carries_its_words() -> None:
    new = template()
    new["metadata"]["annotations"]["pulsaroperator.io/restart-reason"] = "certificate renewed"
    result = plan(stateful_set(replicas=1, revision="r2", pod_template=new), [pod("my-broker-0")])
    assert result.candidate is not None
    assert result.candidate.reason == "a restart was requested: certificate renewed"


def test_what_admission_adds_is_no_reason() -> None:
    old = pod("my-broker-0", pod_template=template(env=[{"name": "A", "value": "1"}]))
    old["spec"] |= {"nodeName": "n", "tolerations": [{"key": "k"}], "schedulerName": "s", "priority": 0}
    old["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-my-broker-0"}}]
    new = template(env=[{"name": "A", "value": "1"}], readinessProbe={"tcpSocket": {"port": 1}})
    result = plan(stateful_set(replicas=1, revision="r2", pod_template=new), [old])
    assert result.candidate is not None
    assert result.candidate.reason == "container readinessProbe changed"
