"""domain/dataplane/cluster_status.py by itself."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pulsar_operator.api.constants import ConditionType
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.dataplane.cluster_status import CLUSTER_CONDITIONS, ClusterView, _accepted


@pytest.mark.parametrize(
    ("view", "status", "message"),
    [
        (ClusterView(), "True", "The specification is valid"),
        (ClusterView(refused=[f"r{n}" for n in range(7)]), "False", "r0; r1; r2; r3; r4"),
        (ClusterView(error="boom"), "Unknown", "boom"),
        (ClusterView(error="boom", refused=["r"]), "False", "r"),
        (ClusterView(name_conflict="taken", refused=["r"], error="boom"), "False", "taken"),
    ],
)
def test_the_first_refusals_are_told(view: ClusterView, status: str, message: str) -> None:
    conditions = ConditionSet(CLUSTER_CONDITIONS, [], 1, datetime(2026, 1, 1, tzinfo=UTC))
    _accepted(conditions, view)
    found = conditions.explained(ConditionType.ACCEPTED)
    assert found is not None and (found[0].value, found[2]) == (status, message)
