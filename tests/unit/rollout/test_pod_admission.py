"""Whether a refused dry run, a budget, an event or a pod says what it seems to: tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.objects.absent_pods import (
    absences,
    describe_lost,
    missing_names,
    missing_rows,
    refusals,
)
from pulsar_operator.domain.dataplane.objects.budgets import describe_several, selecting
from pulsar_operator.domain.dataplane.objects.pod_admission import freed, refuses, successor
from tests.support.cluster.stateful_sets import pod, stateful_set

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def old_pod(cpu: str = "500m", memory: str = "1Gi") -> Json:
    made = pod("my-broker-2")
    made["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"memory": memory},
    }
    return made


def quota(requested: str, used: str, limited: str) -> str:
    return (
        f'pods "my-broker-2-dry-run" is forbidden: exceeded quota: team, requested: {requested}, used: {used}, '
        f"limited: {limited}"
    )


REFUSALS: list[tuple[str, str, bool]] = [
    ("a PriorityClass is missing", 'pods "x" is forbidden: no PriorityClass with name gold was found', True),
    ("a LimitRange", 'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2', True),
    ("a webhook denies", 'admission webhook "policy" denied the request: image is not signed', True),
    ("a webhook that knows no dry run", 'admission webhook "old" does not support dry run', False),
    ("a quota on pods, exactly full", quota("pods=1", "pods=3", "pods=3"), False),
    ("lowered below what there is", quota("pods=1", "pods=3", "pods=2"), True),
    ("count/pods", quota("count/pods=1", "count/pods=3", "count/pods=3"), False),
    ("the same cpu in a full one", quota("requests.cpu=500m", "requests.cpu=1500m", "requests.cpu=1500m"), False),
    ("written otherwise", quota("cpu=0.5", "cpu=1500m", "cpu=1.5"), False),
    ("more cpu than the old pod frees", quota("requests.cpu=1", "requests.cpu=1500m", "requests.cpu=1500m"), True),
    ("more cpu, which there is", quota("requests.cpu=1", "requests.cpu=1500m", "requests.cpu=2"), False),
    ("more memory, to the last byte", quota("memory=1025Mi", "memory=3Gi", "memory=3073Mi"), False),
    ("one byte too much", quota("memory=1073741825", "memory=3Gi", "memory=3Gi"), True),
    ("its limit", quota("limits.memory=2Gi", "limits.memory=3Gi", "limits.memory=3Gi"), True),
    ("what the old pod has none of", quota("limits.cpu=1", "limits.cpu=3", "limits.cpu=3"), True),
    ("one of several", quota("pods=1,requests.cpu=2", "pods=3,requests.cpu=3", "pods=3,requests.cpu=3"), True),
    ("all of several fit", quota("pods=1,requests.cpu=500m", "pods=3,requests.cpu=3", "pods=3,requests.cpu=3"), False),
    ("no amount is named", 'pods "x" is forbidden: failed quota: team: must specify limits.cpu for: broker', True),
]


@pytest.mark.parametrize(("words", "refused"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_what_a_refusal_means(words: str, refused: bool) -> None:
    assert refuses(words, old_pod()) is refused


def test_what_a_pod_frees_is_what_kubernetes_counts() -> None:
    made = old_pod("1")
    made["spec"]["initContainers"] = [
        {"name": "first", "resources": {"requests": {"cpu": "5"}}},
        {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}},
    ]
    made["spec"]["overhead"] = {"cpu": "100m"}
    assert str(freed(made, "requests.cpu")) == "5.100"
    made["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] = "2"
    assert str(freed(made, "cpu")) == "3.100"
    made["spec"]["resources"] = {"requests": {"cpu": "7"}}
    assert freed(made, "cpu") == 7 and freed(made, "requests.nvidia.com/gpu") == 0


def test_a_successor_is_what_the_stateful_set_controller_makes() -> None:
    there = stateful_set(revision="r2")
    there["metadata"]["namespace"] = "ns"
    there["spec"] |= {
        "serviceName": "my-broker-headless",
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
    }
    there["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "config"}]
    made = successor(there, "my-broker-2")
    assert made["metadata"]["name"] == "my-broker-2-dry-run" and made["metadata"]["namespace"] == "ns"
    assert made["metadata"]["labels"] == {
        "app": "x",
        "controller-revision-hash": "r2",
        "statefulset.kubernetes.io/pod-name": "my-broker-2",
        "apps.kubernetes.io/pod-index": "2",
    }
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("my-broker-2", "my-broker-headless")
    assert made["spec"]["volumes"] == [
        {"name": "config"},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-my-broker-2"}},
    ]
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid-my-broker", True, False)
    made["spec"]["containers"].clear()
    assert there["spec"]["template"]["spec"]["containers"], "the StatefulSet stays as it is"


# ------------------------------------------------------------------------------------------------------------- budgets


def budget(name: str, selector: Json | None, owner: str | None = None) -> Json:
    meta: Json = {"name": name}
    if owner is not None:
        meta["ownerReferences"] = [{"controller": True, "uid": owner}]
    return {"metadata": meta, "spec": {} if selector is None else {"selector": selector}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


SELECTORS: list[tuple[Json | None, bool]] = [
    (None, False),
    ({}, True),
    ({"matchLabels": {"app": "x"}}, True),
    ({"matchLabels": {"app": "y"}}, False),
    ({"matchLabels": {"app": "x", "other": "z"}}, False),
    (expression("app", "In", "x", "y"), True),
    (expression("app", "In", "y"), False),
    (expression("app", "NotIn", "y"), True),
    (expression("other", "NotIn", "y"), True),
    (expression("app", "NotIn", "x"), False),
    (expression("app", "Exists"), True),
    (expression("other", "Exists"), False),
    (expression("other", "DoesNotExist"), True),
    (expression("app", "DoesNotExist"), False),
    ({"matchLabels": {"app": "x"}, **expression("app", "In", "y")}, False),
    (expression("app", "Unheard"), False),
]


@pytest.mark.parametrize(("selector", "selects"), SELECTORS)
def test_which_budgets_select_a_pod(selector: Json | None, selects: bool) -> None:
    assert bool(selecting([budget("b", selector)], pod("my-broker-0"))) is selects


def test_the_budget_that_is_not_ours_is_the_one_to_go() -> None:
    found = selecting([budget("theirs", {}), budget("ours", {}, "me")], pod("my-broker-0"))
    text = describe_several("my-broker-0", found, "me")
    assert "more than one PodDisruptionBudget selects it: ours, theirs" in text
    assert "Delete PodDisruptionBudget theirs," in text
    assert "Delete PodDisruptionBudget b," in describe_several(
        "p", [budget("a", {}, "me"), budget("b", {}, "me")], "me"
    )


# -------------------------------------------------------------------------------------------------------- missing pods


def event(message: str, *, ago: float = 60, reason: str = "FailedCreate", **more: Any) -> Json:
    return {"reason": reason, "message": message, "lastTimestamp": timestamp(NOW - timedelta(seconds=ago)), **more}


def failed(name: str, why: str) -> str:
    return f"create Pod {name} in StatefulSet my-broker failed error: {why}"


def test_the_newest_event_of_each_pod_explains_it() -> None:
    events = [
        event(failed("my-broker-1", "old words"), ago=300),
        event(failed("my-broker-1", "new words"), ago=30),
        event(failed("my-broker-11", "of another pod")),
        event(f"create Claim data-my-broker-2 Pod my-broker-2 in StatefulSet my-broker failed error: {'x' * 500}"),
        event(failed("my-broker-0", "hours ago"), ago=3600),
        event(failed("my-broker-0", "m"), reason="FailedDelete"),
        event("nothing that is known"),
        {"reason": "FailedCreate", "message": failed("my-broker-0", "without a time")},
    ]
    found = refusals(events, ["my-broker-0", "my-broker-1", "my-broker-2"], NOW)
    assert found["my-broker-1"] == "new words" and "my-broker-0" not in found
    assert len(found["my-broker-2"]) == 300
    later = event(failed("my-broker-1", "m"), ago=9999, series={"lastObservedTime": timestamp(NOW)})
    assert refusals([later], ["my-broker-1"], NOW) == {"my-broker-1": "m"}


def test_words_of_an_event_hold_no_refused_value() -> None:
    why = 'Pod "x" is invalid: spec.containers[0].env[0].value: Invalid value: "hunter2": must be short'
    assert "hunter2" not in str(refusals([event(failed("my-broker-1", why))], ["my-broker-1"], NOW))


def test_a_missing_pod_keeps_its_time_and_leaves_with_it() -> None:
    first = missing_rows([], ["b", "a"], NOW)
    assert [(row.name, row.since) for row in first] == [("a", timestamp(NOW)), ("b", timestamp(NOW))]
    stored = [row.model_dump(by_alias=True) for row in first]
    later = missing_rows(stored, ["b", "c"], NOW + timedelta(minutes=9))
    assert [(row.name, row.since) for row in later] == [
        ("b", timestamp(NOW)),
        ("c", timestamp(NOW + timedelta(minutes=9))),
    ]
    assert missing_rows(stored, None, NOW) == first and missing_rows(stored, [], NOW) == []
    assert len(missing_rows([], (f"p-{n}" for n in range(100)), NOW)) == 64
    assert missing_names("w", 3, [0, 2, 7]) == ("w-1",)


@pytest.mark.parametrize(("minutes", "recorded"), [(1, 0), (2, 2), (10, 10)])
def test_the_last_observation_is_written_every_two_minutes(minutes: int, recorded: int) -> None:
    stored = [row.model_dump(by_alias=True) for row in missing_rows([], ["a"], NOW)]
    (row,) = missing_rows(stored, ["a"], NOW + timedelta(minutes=minutes))
    assert (row.since, row.last_observed) == (timestamp(NOW), timestamp(NOW + timedelta(minutes=recorded)))
    assert absences(stored, {}, NOW + timedelta(minutes=minutes))["a"].since == NOW


@pytest.mark.parametrize("last", [timestamp(NOW), None])
def test_a_time_in_which_nobody_looked_ends_an_absence(last: str | None) -> None:
    """The pod may have existed in between. An operator of an older version did not record when it looked."""
    later = NOW + timedelta(minutes=11)
    stored = [{"name": "a", "since": timestamp(NOW), "lastObserved": last}]
    assert absences(stored, {}, later)["a"].since == later
    (row,) = missing_rows(stored, ["a"], later)
    assert (row.since, row.last_observed) == (timestamp(later), timestamp(later))


# ---------------------------------------------------------------------------------------------------------- lost nodes


def on_node(*conditions: Json, deleted: float | None = None, node: str = "n1", **spec: Any) -> Json:
    made = pod("my-broker-1", ready=False)
    made["spec"] |= {"nodeName": node, **spec}
    made["status"]["conditions"] = list(conditions)
    if deleted is not None:
        made["metadata"]["deletionTimestamp"] = timestamp(NOW - timedelta(seconds=deleted))
    return made


def condition(kind: str, status: str, reason: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason}


NOT_READY = condition("Ready", "False")
TAINTED = condition("DisruptionTarget", "True", "DeletionByTaintManager")
EVICTED = condition("DisruptionTarget", "True", "EvictionByEvictionAPI")
REPORTED = condition("ContainersReady", "True")
LOST: list[tuple[str, Json, bool]] = [
    ("deleted and gone beyond its grace period", on_node(NOT_READY, deleted=90), True),
    ("still in it", on_node(NOT_READY, deleted=-30), False),
    ("a moment over it", on_node(NOT_READY, deleted=30), False),
    ("deleted by the taint manager", on_node(NOT_READY, TAINTED, deleted=-30), True),
    ("deleted for another reason", on_node(EVICTED, deleted=-30), False),
    ("never bound to a node", on_node(NOT_READY, deleted=90, node=""), False),
    ("marked by the node controller", on_node(NOT_READY, REPORTED), True),
    ("its containers are not ready", on_node(NOT_READY, condition("ContainersReady", "False")), False),
    ("nothing is said of containers", on_node(NOT_READY), False),
    ("a readiness gate", on_node(NOT_READY, REPORTED, readinessGates=[{"conditionType": "x"}]), False),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "lost"), [case[1:] for case in LOST], ids=[case[0] for case in LOST])
def test_which_pods_are_on_a_lost_node(raw: Json, lost: bool) -> None:
    text = describe_lost(raw, NOW)
    assert (text is not None) is lost
    if text is not None:
        assert "Pod my-broker-1 " in text and "node n1" in text
        remedy = "kubectl taint node n1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        assert (remedy in text and "kubectl delete node n1" in text) is ("deletionTimestamp" in raw["metadata"])


def test_without_a_time_only_the_taint_manager_tells() -> None:
    assert describe_lost(on_node(deleted=90), None) is None
    assert describe_lost(on_node(TAINTED, deleted=90), None) is not None
