"""domain/dataplane/cluster/cluster_status.py by itself."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import DrainStatus, RolloutStatus
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.dataplane.cluster.bring_up import MetadataFact
from pulsar_operator.domain.dataplane.cluster.cluster_status import (
    CLUSTER_CONDITIONS,
    _accepted,
    _metadata,
    set_conditions,
)
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView, DrainFact, RolloutFact, ScaleFact


@pytest.mark.parametrize(
    ("view", "status", "message"),
    [
        (ClusterView(), "True", "The specification is valid"),
        (ClusterView(refused=tuple(f"r{n}" for n in range(7))), "False", "r0. r1. r2. r3. r4"),
        (ClusterView(error="boom"), "Unknown", "boom"),
        (ClusterView(error="boom", refused=("r",)), "False", "r"),
        (ClusterView(name_conflict="taken", refused=("r",), error="boom"), "False", "taken"),
    ],
)
def test_the_first_refusals_are_told(view: ClusterView, status: str, message: str) -> None:
    conditions = ConditionSet(CLUSTER_CONDITIONS, [], 1, datetime(2026, 1, 1, tzinfo=UTC))
    _accepted(conditions, view)
    found = conditions.explained(ConditionType.ACCEPTED)
    assert found is not None and (found[0].value, found[2]) == (status, message)


def conditions() -> ConditionSet:
    return ConditionSet(CLUSTER_CONDITIONS, [], 1, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("local_ready", "reason", "expected"),
    [
        (True, Reason.METADATA_INITIALIZED, "True"),
        (False, Reason.METADATA_INITIALIZED, "False"),
        (True, Reason.METADATA_LOST, "False"),
        (True, Reason.METADATA_CONFLICT, "False"),
        (True, Reason.METADATA_UNREACHABLE, "Unknown"),
    ],
)
def test_metadata_is_ready_where_nothing_is_wrong_with_either_store(
    local_ready: bool, reason: Reason, expected: str
) -> None:
    found = conditions()
    fact = MetadataFact(local_ready=local_ready, registered=True, reason=reason, message="m")
    _metadata(found, ClusterView(metadata=fact))
    told = found.explained(ConditionType.METADATA_READY)
    assert told is not None and told[0].value == expected


def test_what_is_in_progress() -> None:
    spec = PulsarClusterSpec.model_validate({"instanceRef": {"name": "demo"}})
    rollout = RolloutStatus(component="broker", reason="image changed", pods_done=1, pods_total=3)
    drain = DrainStatus(pods=["east-broker-2"], since="2026-01-01T00:00:00Z", bundles=4)
    leaves = DrainFact(drain, Blocker(Reason.DRAINING, "4 bundles are left"))
    cases = [
        (
            ClusterView(rollout=RolloutFact(rollout, leaves)),
            "RolloutInProgress",
            "The rollout of the broker pods has replaced 1 of 3 pods",
        ),
        (ClusterView(scale=ScaleFact(leaves)), "Draining", "4 bundles are left"),
        (ClusterView(stopped_for="No bookie is up"), "Pending", "No bookie is up"),
    ]
    for view, reason, message in cases:
        found = conditions()
        set_conditions(found, spec, view, deleting=False, paused=False)
        told = found.explained(ConditionType.PROGRESSING)
        assert told is not None and (told[0].value, told[1].value, told[2]) == ("True", reason, message)
