"""When brokers may go, and the PulsarRebalances that are made for it."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.v1alpha1.cluster import Drain
from pulsar_operator.api.v1alpha1.rebalance import PulsarRebalanceSpec
from pulsar_operator.balance.execution.drain import (
    BLIND_SECONDS,
    DrainFacts,
    broker_id,
    brokers_change,
    decide,
    drain_manifest,
    drain_name,
    fill_manifest,
    future_ids,
    outgrown,
    purpose_of,
)

DRAIN = Drain()
CLUSTER = {
    "apiVersion": "pulsaroperator.io/v1alpha1",
    "kind": "PulsarCluster",
    "metadata": {"name": "east", "namespace": "ns", "uid": "u1"},
}
LATE = BLIND_SECONDS


def rebalance(generation: int = 1, *, progress: Any = None, **conditions: tuple[str, str]) -> dict[str, Any]:
    found = [{"type": k, "status": s, "reason": r, "message": "because"} for k, (s, r) in conditions.items()]
    return {
        "metadata": {"name": "east-drain-1-abcde", "generation": 1},
        "status": {"observedGeneration": generation, "conditions": found, "progress": progress},
    }


@pytest.mark.parametrize(
    ("facts", "go", "ask", "words"),
    [
        ({"bundles": 0}, True, False, ""),
        ({"pods": ()}, True, False, ""),
        ({}, False, True, "Broker b-1 still has 4 bundles"),
        (
            {"pods": ("b-1", "b-2", "b-3", "b-4", "b-5")},
            False,
            True,
            "b-1, b-2, b-3 and 2 more still have 4",
        ),
        ({"age": 1799.0}, False, True, "4 bundles"),
        ({"age": 1800.0}, True, False, "still had 4 bundles after 1800 s"),
        ({"others": 0}, False, False, "can take the bundles"),
        ({"others": 0, "age": LATE}, True, False, "no other broker"),
        ({"mixed_managers": True}, True, False, "run two load managers"),
        ({"mixed_managers": True, "bundles": None}, True, False, "still had bundles"),
        ({"mixed_managers": True, "bundles": 0}, True, False, ""),
        ({"mixed_managers": True, "rebalance": rebalance(Ready=("False", "NoData"))}, True, False, "two load managers"),
        ({"bundles": None, "failure": "timeout"}, False, False, "not known yet (timeout)"),
        (
            {"bundles": None, "failure": "timeout", "age": LATE},
            True,
            False,
            "b-1 are not known (timeout)",
        ),
        (
            {"rebalance": rebalance(generation=0)},
            False,
            True,
            "abcde is not reconciled yet",
        ),
        (
            {"rebalance": {"metadata": {"name": "x", "generation": 1}}},
            False,
            True,
            "x is not reconciled yet",
        ),
        (
            {"rebalance": rebalance(progress={"done": 1, "total": 4}, Executing=("True", "Executing"))},
            False,
            True,
            "1 of 4 steps",
        ),
        (
            {
                "rebalance": rebalance(
                    progress={"finishedTime": "t"}, Completed=("True", "NoImprovementPossible"), Ready=("True", "N")
                )
            },
            True,
            False,
            "still had 4 bundles after the drain ended. PulsarRebalance east-drain-1-abcde reports: because",
        ),
        (
            {
                "rebalance": rebalance(
                    progress={"finishedTime": "t", "total": 0},
                    Completed=("True", "AlreadyDrained"),
                    Ready=("True", "AlreadyDrained"),
                )
            },
            False,
            False,
            "which were assigned after PulsarRebalance",
        ),
        (
            {"rebalance": rebalance(progress={"finishedTime": "t", "done": 3, "total": 3}, Completed=("True", "C"))},
            False,
            False,
            "which were assigned after PulsarRebalance",
        ),
        (
            {
                "rebalance": rebalance(
                    progress={"finishedTime": "t"}, Stopped=("True", "Surprise"), Ready=("False", "S")
                )
            },
            False,
            True,
            "because",
        ),
        ({"rebalance": rebalance(Ready=("False", "NoData"))}, False, True, "because"),
        (
            {"rebalance": rebalance(Ready=("False", "NoData")), "age": LATE},
            True,
            False,
            "no plan was found for the 4 bundles",
        ),
        ({"rebalance": rebalance(Ready=("False", "BrokersChanging")), "age": LATE}, False, True, "because"),
    ],
)
def test_whether_brokers_may_go(facts: dict[str, Any], go: bool, ask: bool, words: str) -> None:
    found = decide(DrainFacts(**{"pods": ("b-1",), "age": 0.0, "bundles": 4, "others": 2, **facts}), DRAIN)
    assert (found.go, found.ask) == (go, ask)
    assert words in found.why and bool(found.why) == bool(words)


def test_ids_of_pods() -> None:
    registered = ["east-broker-1.h.ns.svc:8080", "east-broker-10.h.ns.svc:8080"]
    assert broker_id("east-broker-1", registered) == registered[0]
    assert broker_id("east-broker-0", registered) is None
    assert future_ids(["east-broker-2"], registered) == ["east-broker-2.h.ns.svc:8080"]
    assert future_ids(["east-broker-2"], []) == []


def test_another_pod_of_the_name_is_another_drain() -> None:
    pods = [{"metadata": {"name": "east-broker-2", "uid": f"aaaa-{end}"}} for end in ("00001", "00002")]
    assert [drain_name("east", pod) for pod in pods] == ["east-drain-2-00001", "east-drain-2-00002"]


def test_manifests_are_valid_and_ours() -> None:
    drain = drain_manifest(CLUSTER, "d", ["b:1"], [], Drain(moves_per_minute=7))
    assert "excludedBrokers" not in drain["spec"]
    spec = PulsarRebalanceSpec.model_validate(drain["spec"])
    assert (spec.mode.value, spec.brokers, spec.auto_approve) == ("RemoveBrokers", ["b:1"], True)
    assert (spec.budget.moves_per_minute, spec.budget.max_traffic_moved_percent) == (7, 100)
    fill = fill_manifest(CLUSTER, "f", ["c:1", "b:1"], DRAIN)
    assert PulsarRebalanceSpec.model_validate(fill["spec"]).mode.value == "AddBrokers"
    assert (purpose_of(drain, CLUSTER), purpose_of(fill, CLUSTER)) == ("drain", "fill")
    stranger = {**CLUSTER, "metadata": {**CLUSTER["metadata"], "uid": "u2"}}
    assert purpose_of(drain, stranger) is None
    assert purpose_of({"metadata": {"name": "mine"}}, CLUSTER) is None


@pytest.mark.parametrize(
    ("brokers", "pods", "expected"),
    [
        (["b-0.h:8080"], ["b-0", "b-1"], False),
        (["b-0.h:8080", "b-1.h:8080"], ["b-0", "b-1"], False),
        (["b-1.h:8080", "b-2.h:8080"], ["b-0", "b-1"], True),
        (["b-2.h:8080", "b-1.h:8080"], ["b-0", "b-1"], True),
        (["b-2.h:8080", "b-3.h:8080"], ["b-0", "b-1"], True),
        (["b-10.h:8080"], ["b-0", "b-1"], True),
        (["b-1.h:8080"], ["b-10"], True),
        (["b-0"], ["b-0"], False),
        ([], ["b-0"], False),
        (None, ["b-0"], False),
        (["b-0.h:8080"], [], True),
    ],
)
def test_one_broker_that_is_not_to_be_makes_a_plan_wait_without_end(
    brokers: list[str] | None, pods: list[str], expected: bool
) -> None:
    spec = {} if brokers is None else {"brokers": brokers}
    assert outgrown({"spec": spec}, pods) is expected
    assert outgrown({}, pods) is False


def progressing(status: str, reason: str) -> dict[str, str]:
    return {"type": "Progressing", "status": status, "reason": reason}


@pytest.mark.parametrize(
    ("status", "changing"),
    [
        ({}, False),
        ({"rollout": {"component": "bookie"}}, False),
        ({"rollout": {"component": "broker"}}, True),
        ({"drain": {"pods": ["b-1"]}}, True),
        ({"rollout": {"component": "broker"}, "conditions": [progressing("False", "VersionRefused")]}, False),
        ({"rollout": {"component": "broker"}, "conditions": [progressing("False", "RolloutFailed")]}, True),
        ({"rollout": {"component": "broker"}, "conditions": [progressing("True", "RolloutInProgress")]}, True),
    ],
)
def test_when_other_plans_wait(status: dict[str, Any], changing: bool) -> None:
    assert brokers_change({"status": status}) is changing
