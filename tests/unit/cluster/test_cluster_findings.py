"""domain/dataplane/cluster/findings.py: what the phases report, folded in their order."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Final

import pytest

from pulsar_operator.api.constants import Component, Reason
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
from pulsar_operator.domain.dataplane.objects.template_record import Stop
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder

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
PENDING = Blocker(Reason.PENDING, "Bookies are to be added. The store does not answer")
STORE = Blocker(Reason.CONFIGURATION_STORE_UNAVAILABLE, "The configuration store is away")
DRAIN = ScaleFact(
    DrainFact(
        DrainStatus(pods=["east-broker-2"], since="2026-01-01T00:00:00Z", bundles=4),
        Blocker(Reason.DRAINING, "4 bundles"),
    )
)
IN_PROXIES = RolloutStatus(component="proxy", reason="image", pods_done=1, pods_total=3)
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
            ClusterView(decommission=SOON, scale=ScaleFact(blockers=(PENDING,))),
            (True, Reason.DECOMMISSIONING_BOOKIE),
            id="both wait",
        ),
        pytest.param(ClusterView(scale=ScaleFact(blockers=(PENDING,))), (True, Reason.PENDING), id="to be added"),
        pytest.param(
            ClusterView(scale=ScaleFact(blockers=(STORE,))), (True, Reason.CONFIGURATION_STORE_UNAVAILABLE), id="held"
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
        pytest.param(ClusterView(scale=ScaleFact(blockers=(PENDING,))), RETRY_SECONDS, id="bookies to be added"),
        pytest.param(ClusterView(scale=ScaleFact(blockers=(STORE,))), RETRY_SECONDS, id="held"),
        pytest.param(ClusterView(scale=DRAIN), None, id="a drain alone"),
    ],
)
def test_the_earliest_pass_that_a_phase_asks_for(view: ClusterView, expected: float | None) -> None:
    assert fold(findings_of(view)).requeue == expected


def test_what_is_blocked_hides_nothing_else_that_is() -> None:
    view = ClusterView(volumes=FOREIGN, rollout=IN_A_WINDOW, scale=ScaleFact(blockers=(PENDING,)))
    found = fold(findings_of(view)).progressing
    assert found is not None and found[:2] == (False, Reason.FOREIGN_VOLUME), "a window opens by itself"
    assert "No window is open" in found[2] and "the volume of another" in found[2] and PENDING.message in found[2]


HELD = RolloutFact(
    RolloutStatus(
        component="broker",
        reason="image",
        pods_done=0,
        pods_total=3,
        blocked_by=Reason.DECOMMISSIONING_BOOKIE.value,
        message="The rollout continues when the bookie is gone",
    )
)
STUCK = DecommissionFact("b:3181", 2, "Copying", message="Bookie b is not empty", reason=Reason.DECOMMISSION_STUCK)
STOP = TemplateOrder(
    {},
    Blocker(Reason.ROLLOUT_FAILED, "The rollout of proxy pods failed"),
    Component.PROXY,
    Stop("0123", "crash", Reason.ROLLOUT_FAILED),
    stopping={Component.PROXY: Blocker(Reason.ROLLOUT_FAILED, "The rollout of proxy pods failed")},
)
PROGRESS, BLOCKED, WAITS = range(3)
REPORTS: Final = {
    "a bookie is decommissioned": (PROGRESS, ClusterView(decommission=BEGUN), "Bookie b leaves"),
    "a pod is replaced": (PROGRESS, ClusterView(rollout=ROLLOUT), "replaced 1 of 3 pods"),
    "brokers are drained": (PROGRESS, ClusterView(scale=DRAIN), "4 bundles"),
    "a foreign volume": (BLOCKED, ClusterView(volumes=FOREIGN), "the volume of another"),
    "a refused decommission": (BLOCKED, ClusterView(decommission=REFUSED), "No bookie can leave"),
    "a stuck decommission": (BLOCKED, ClusterView(decommission=STUCK), "Bookie b is not empty"),
    "no window": (BLOCKED, ClusterView(rollout=IN_A_WINDOW), "No window is open"),
    "a failed rollout": (
        BLOCKED,
        ClusterView(rollout=replace(ROLLOUT, status=IN_PROXIES), template_order=STOP),
        "The rollout of proxy pods failed",
    ),
    "a bookie cannot be added": (BLOCKED, ClusterView(scale=ScaleFact(foreign="not ours")), "not ours"),
    "a decommission is to begin": (WAITS, ClusterView(decommission=SOON), "A bookie is to be decommissioned"),
    "a rollout that a bookie holds": (WAITS, ClusterView(rollout=HELD), "when the bookie is gone"),
    "bookies are to be added": (WAITS, ClusterView(scale=ScaleFact(blockers=(PENDING,))), PENDING.message),
    "nothing is scaled": (WAITS, ClusterView(scale=ScaleFact(blockers=(STORE,))), STORE.message),
}
"""What a phase may report, alone: what it is, the view, and what its message says."""
FIELDS: Final = ("volumes", "decommission", "rollout", "template_order", "scale")


def both(first: ClusterView, second: ClusterView) -> ClusterView | None:
    """A pass that found both; None where one phase would have to report two things."""
    given = [{name: fact for name in FIELDS if (fact := getattr(each, name)) is not None} for each in (first, second)]
    return None if given[0].keys() & given[1].keys() else ClusterView(**given[0], **given[1])


PAIRS: Final = [pair for pair in itertools.combinations(REPORTS, 2) if both(*(REPORTS[name][1] for name in pair))]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_no_report_hides_another(first: str, second: str) -> None:
    """Progressing is True while any phase makes progress, and the message names both; what is blocked comes before what
    waits. What time ends comes after what a person has to see to: condition Stalled follows from the reason."""
    alone = [(REPORTS[name][0], fold(findings_of(REPORTS[name][1])).progressing) for name in (first, second)]
    view = both(REPORTS[first][1], REPORTS[second][1])
    assert view is not None
    found = fold(findings_of(view)).progressing
    assert found is not None
    rank = min(each for each, _ in alone)
    assert found[:2] in [each[:2] for at, each in alone if each is not None and at == rank]
    assert all(REPORTS[name][2] in found[2] for name in (first, second))
    only_a_window = all(name == "no window" or REPORTS[name][0] == WAITS for name in (first, second))
    assert (found[1] is Reason.MAINTENANCE_WINDOW) == ("no window" in (first, second) and only_a_window)


def test_one_phase_hides_none_of_its_own_reports() -> None:
    scale = ScaleFact(DRAIN.drain, blockers=(PENDING, STORE), foreign="not ours")
    found = fold(findings_of(ClusterView(scale=scale))).progressing
    assert found is not None and found[:2] == (True, Reason.DRAINING)
    assert all(each in found[2] for each in ("4 bundles", PENDING.message, "not ours", STORE.message))


def test_components_that_a_failed_rollout_does_not_hold_go_on() -> None:
    found = fold(findings_of(ClusterView(rollout=ROLLOUT, template_order=STOP))).progressing
    assert found is not None and found[:2] == (True, Reason.ROLLOUT_IN_PROGRESS)
    assert "replaced 1 of 3 pods" in found[2] and "The rollout of proxy pods failed" in found[2]
