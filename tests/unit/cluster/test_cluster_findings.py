"""domain/dataplane/cluster/findings.py: what the phases report, folded in their order."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.cluster_status import DrainStatus, RolloutStatus
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.cluster.cluster_view import (
    BalanceFact,
    ClusterView,
    DecommissionFact,
    DrainFact,
    PlacementFact,
    RacksFact,
    RolloutFact,
    ScaleFact,
    ScalingFact,
    VolumesFact,
)
from pulsar_operator.domain.dataplane.cluster.findings import AGAIN_SECONDS, RETRY_SECONDS, findings_of, fold

ROLLOUT = RolloutFact(RolloutStatus(component="broker", reason="image", pods_done=1, pods_total=3))
IN_A_WINDOW = RolloutFact(
    RolloutStatus(
        component="broker",
        reason="image",
        pods_done=1,
        pods_total=3,
        blocked_by=Reason.MAINTENANCE_WINDOW.value,
        message="No window is open",
    )
)
PENDING, STORE = Blocker(Reason.PENDING, "x"), Blocker(Reason.CONFIGURATION_STORE_UNAVAILABLE, "y")
DRAIN = ScaleFact(
    DrainFact(
        DrainStatus(pods=["east-broker-2"], since="2026-01-01T00:00:00Z", bundles=4),
        Blocker(Reason.DRAINING, "4 bundles"),
    )
)
BEGUN = DecommissionFact("b:3181", 2, "ReadOnly", message="Bookie b leaves")
REFUSED = DecommissionFact(message="No bookie can leave", reason=Reason.DECOMMISSION_REFUSED)
SOON = DecommissionFact(message="A bookie is to be decommissioned")
FOREIGN = VolumesFact(foreign="the volume of another")


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(ClusterView(), None, id="nothing"),
        pytest.param(
            ClusterView(decommission=DecommissionFact(), rollout=RolloutFact(), scale=ScaleFact()),
            None,
            id="all at rest",
        ),
        pytest.param(
            ClusterView(decommission=BEGUN, rollout=ROLLOUT), (True, Reason.DECOMMISSIONING_BOOKIE), id="in phase order"
        ),
        pytest.param(
            ClusterView(decommission=SOON, rollout=ROLLOUT),
            (True, Reason.ROLLOUT_IN_PROGRESS),
            id="begun before what waits",
        ),
        pytest.param(
            ClusterView(volumes=FOREIGN, rollout=ROLLOUT), (True, Reason.ROLLOUT_IN_PROGRESS), id="begun before blocked"
        ),
        pytest.param(ClusterView(rollout=IN_A_WINDOW), (False, Reason.MAINTENANCE_WINDOW), id="a window"),
        pytest.param(
            ClusterView(rollout=ROLLOUT, scale=DRAIN), (True, Reason.ROLLOUT_IN_PROGRESS), id="a rollout and a drain"
        ),
        pytest.param(ClusterView(decommission=SOON, scale=DRAIN), (True, Reason.DRAINING), id="a drain has begun"),
        pytest.param(
            ClusterView(volumes=FOREIGN, decommission=SOON), (False, Reason.FOREIGN_VOLUME), id="blocked first"
        ),
        pytest.param(
            ClusterView(decommission=SOON, scale=ScaleFact(foreign="of another")),
            (False, Reason.FOREIGN_VOLUME),
            id="added",
        ),
        pytest.param(ClusterView(decommission=REFUSED), (False, Reason.DECOMMISSION_REFUSED), id="a refusal"),
        pytest.param(
            ClusterView(decommission=SOON, scale=ScaleFact(blocker=PENDING)),
            (True, Reason.DECOMMISSIONING_BOOKIE),
            id="both wait",
        ),
        pytest.param(ClusterView(scale=ScaleFact(blocker=PENDING)), (True, Reason.PENDING), id="to be added"),
        pytest.param(
            ClusterView(scale=ScaleFact(blocker=STORE)), (True, Reason.CONFIGURATION_STORE_UNAVAILABLE), id="held"
        ),
    ],
)
def test_progress(view: ClusterView, expected: tuple[bool, Reason] | None) -> None:
    found = fold(findings_of(view)).progressing
    assert (found[:2] if found is not None else None) == expected


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(
            ClusterView(decommission=DecommissionFact(), scale=ScaleFact(), rollout=ROLLOUT, volumes=FOREIGN),
            None,
            id="none",
        ),
        pytest.param(ClusterView(racks=RacksFact(again=True), decommission=BEGUN), AGAIN_SECONDS, id="racks"),
        pytest.param(ClusterView(decommission=DecommissionFact(again=True)), AGAIN_SECONDS, id="a bookie that leaves"),
        pytest.param(ClusterView(placement=PlacementFact(again=True)), AGAIN_SECONDS, id="placement"),
        pytest.param(ClusterView(balance=BalanceFact(again=True)), AGAIN_SECONDS, id="the balancer"),
        pytest.param(ClusterView(scaling=ScalingFact(again=True), decommission=BEGUN), AGAIN_SECONDS, id="autoscaling"),
        pytest.param(ClusterView(decommission=BEGUN), RETRY_SECONDS, id="a step"),
        pytest.param(ClusterView(decommission=SOON), None, id="no step"),
        pytest.param(ClusterView(scale=ScaleFact(blocker=PENDING)), RETRY_SECONDS, id="bookies to be added"),
        pytest.param(ClusterView(scale=ScaleFact(blocker=STORE)), RETRY_SECONDS, id="held"),
        pytest.param(ClusterView(scale=DRAIN), None, id="a drain alone"),
    ],
)
def test_the_earliest_pass_that_a_phase_asks_for(view: ClusterView, expected: float | None) -> None:
    assert fold(findings_of(view)).requeue == expected


def test_what_is_blocked_hides_nothing_else_that_is() -> None:
    found = fold(findings_of(ClusterView(volumes=FOREIGN, rollout=IN_A_WINDOW, scale=DRAIN))).progressing
    assert found is not None and found[:2] == (False, Reason.MAINTENANCE_WINDOW)
    assert "No window is open" in found[2] and "the volume of another" in found[2] and "4 bundles" not in found[2]
