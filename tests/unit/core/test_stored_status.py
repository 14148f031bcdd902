"""A status that another version wrote: what cannot be read counts as never said, and nothing fails on it."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Component, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.base import Condition
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.rebalance import PulsarRebalanceStatus
from pulsar_operator.api.v1alpha1.scaling_status import ComponentScalingStatus
from pulsar_operator.balance.execution.custom_resource import own_rebalance
from pulsar_operator.domain.apply import left_over
from pulsar_operator.domain.conditions import TRUE, UNKNOWN, ConditionSet, abnormal
from pulsar_operator.domain.dataplane.scaling.scaling_status import scaling_condition
from pulsar_operator.domain.stored import parsed, readable, unreadable
from pulsar_operator.ports import CUSTOM, ConflictError, PortError, RefusedError
from tests.fakes.kube_calls import Call
from tests.support.balancing.world import NS, BalancingWorld, SetClock
from tests.unit.rebalance.test_rebalance_attacked import edit_status, half_way

PROPOSAL = {"id": "x", "createdTime": "2026-11-01T00:00:00Z", "before": {"ratio": "1.00"}, "after": {"ratio": "1.00"}}
"""As the first build wrote it: ``ratio`` where ``imbalance`` is now."""


@pytest.mark.parametrize(
    ("stored", "left"),
    [
        (None, {}),
        ({}, {}),
        ({"observedGeneration": 3}, {"observedGeneration": 3}),
        ({"observedGeneration": 3, "proposal": PROPOSAL}, {"observedGeneration": 3}),
        ({"observedGeneration": "three", "conditions": 7}, {}),
        ({"observedGeneration": 3, "ofAnotherVersion": {}}, {"observedGeneration": 3, "ofAnotherVersion": {}}),
    ],
    ids=["none", "empty", "whole", "one member", "nothing", "unknown members are ignored as everywhere"],
)
def test_what_the_model_refuses_is_left_out(stored: Any, left: Any) -> None:
    assert readable(PulsarRebalanceStatus, stored) == left
    assert unreadable(PulsarRebalanceStatus, stored) == set(stored or {}) - set(left)


ROW = {"current": 5, "desired": 5, "replicas": 3}
BOOKIE = {"id": "b:3181", "state": "Writable", "step": "Copying"}


@pytest.mark.parametrize(
    ("stored", "left", "lost"),
    [
        ({"autoscaling": {"broker": ROW, "proxy": {**ROW, "desired": "odd"}}}, {"autoscaling": {"broker": ROW}},
         {"autoscaling.proxy"}),
        ({"autoscaling": {"broker": {"desired": 5}, "proxy": 7, "bookkeeper": ROW}},
         {"autoscaling": {"bookkeeper": ROW}}, {"autoscaling.broker", "autoscaling.proxy"}),
        ({"autoscaling": {"broker": {**ROW, "history": {"highs": [{"odd": 1}]}}}}, {"autoscaling": {}},
         {"autoscaling.broker"}),
        ({"autoscaling": {"broker": ROW, "functionWorker": 7}}, {"autoscaling": {"broker": ROW, "functionWorker": 7}},
         set()),
        ({"autoscaling": [ROW]}, {}, {"autoscaling"}),
        ({"autoscaling": {"broker": ROW, "unreadable": "odd"}}, {"autoscaling": {"broker": ROW}},
         {"autoscaling.unreadable"}),
        ({"bookies": [{"id": 7}, BOOKIE, "odd", {**BOOKIE, "usage": 101}]}, {"bookies": [BOOKIE]}, {"bookies"}),
        ({"bookies": [BOOKIE] * 513}, {}, {"bookies"}),
        ({"bookies": {"b": BOOKIE}, "version": "4.0.8"}, {"version": "4.0.8"}, {"bookies"}),
        ({"drain": {"since": 7, "pods": ["a"]}, "balancer": {"saved": [{"name": 7}]}}, {}, {"drain", "balancer"}),
    ],
    ids=["one row", "two rows", "deep in a row", "unknown row", "not rows", "names of rows", "entries",
         "too many entries", "no list", "other structs go whole"],
)  # fmt: skip
def test_rows_and_entries_affect_only_themselves(stored: Any, left: Any, lost: set[str]) -> None:
    """The settings of Pulsar's balancer are one whole: a part of them would be restored as if it were all."""
    assert readable(PulsarClusterStatus, stored) == left
    assert unreadable(PulsarClusterStatus, stored) == lost
    parsed(PulsarClusterStatus, stored)


@pytest.mark.parametrize("kind", Kind)
def test_any_member_may_be_of_another_type(kind: Kind) -> None:
    model = MODELS[kind].status
    for name, field in model.model_fields.items():
        for odd in ("odd", 7, [{"odd": []}], {"odd": 1}):
            model.model_validate(readable(model, {field.alias or name: odd}))


@pytest.mark.parametrize("reason", ["Completed", "Executing", "Stopped"])
async def test_a_rebalance_of_another_version_begins_again(reason: str) -> None:
    """Whatever it was about: what was to be executed then is not what would be read now."""
    world = BalancingWorld()
    world.skewed()
    world.rebalance()

    def written_before(obj: Any) -> None:
        condition = {
            "type": reason, "status": "True", "reason": "Completed", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-11-01T00:00:00Z",
        }  # fmt: skip
        progress = {"total": 3, "done": 1, "current": "move shop/orders/0x0_0x1"}
        obj["status"] = {"proposal": PROPOSAL, "progress": progress, "conditions": [condition]}

    world.kube.edit(CUSTOM[Kind.REBALANCE], NS, "once", written_before)
    await world.run(seconds=5)
    assert world.condition("ProposalReady") == ("True", "Proposed")
    assert world.condition("Executing")[0] == "False" and world.pulsar.writes == []


def odd(world: BalancingWorld, name: str = "once") -> None:
    """A member of the stored status is of another version."""
    status = world.status(name)
    world.kube.set_status(CUSTOM[Kind.REBALANCE], NS, name, {**status, "measured": {"ratio": "1.00"}})


async def completed(world: BalancingWorld, **spec: Any) -> int:
    """One that was executed; how many writes that took."""
    world.skewed()
    world.rebalance(autoApprove=True, **spec)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
    return len(world.pulsar.writes)


@pytest.mark.parametrize("restart", [False, True])
async def test_what_was_executed_is_not_executed_again_without_a_person(restart: bool) -> None:
    """Another placement since then is no reason either: the object was to do it once."""
    world = BalancingWorld()
    writes = await completed(world)
    world.skewed()
    odd(world)
    for _ in range(3):
        if restart:
            world.restart()
        await world.run(seconds=600)
        assert len(world.pulsar.writes) == writes
    assert world.condition("ProposalReady")[0] == "True" and world.condition("Executing")[0] == "False"
    assert world.condition("Ready") == world.condition("Approved") == ("False", "StatusUnreadable")
    message = next(each["message"] for each in world.status()["conditions"] if each["type"] == "Ready")
    ident = world.status()["proposal"]["id"]
    assert "could not read the status" in message and f"approve-{ident}" in message, message
    world.command(f"approve-{ident}")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed") and len(world.pulsar.writes) > writes
    assert "approvalRequired" not in world.status()


@pytest.mark.parametrize("disturbance", ["expired", "refreshed", "changed", "invalid", "no cluster"])
async def test_approval_stays_required_until_a_person_gives_it(disturbance: str) -> None:
    world = BalancingWorld()
    writes = await completed(world)
    world.skewed()
    odd(world)
    kind = CUSTOM[Kind.REBALANCE]
    if disturbance == "invalid":
        world.kube.edit(kind, NS, "once", lambda obj: obj["spec"].update(mode="Odd"))
    if disturbance == "no cluster":
        world.kube.edit(kind, NS, "once", lambda obj: obj["spec"]["clusterRef"].update(name="west"))
    await world.once()
    if disturbance == "invalid":
        world.kube.edit(kind, NS, "once", lambda obj: obj["spec"].update(mode="Full"))
    if disturbance == "no cluster":
        world.kube.edit(kind, NS, "once", lambda obj: obj["spec"]["clusterRef"].update(name="east"))
    if disturbance == "refreshed":
        world.command("refresh")
    if disturbance == "changed":
        world.kube.edit(kind, NS, "once", lambda obj: obj["spec"].update(tolerancePercent=11))
    await world.run(seconds=2 * 3600 if disturbance == "expired" else 60)
    assert world.condition("Ready") == ("False", "StatusUnreadable") and len(world.pulsar.writes) == writes


async def test_a_rebalance_that_a_person_stopped_stays_stopped() -> None:
    world = BalancingWorld()
    world.skewed()
    world.rebalance(autoApprove=True)
    world.command("stop")
    await world.run(seconds=120)
    assert world.condition("Stopped") == ("True", "StoppedByUser")
    odd(world)
    await world.run(seconds=600)
    assert world.condition("Ready") == ("False", "StatusUnreadable") and world.pulsar.writes == []


@pytest.mark.parametrize("stopped", [False, True])
async def test_the_operator_goes_on_with_its_own_rebalances(stopped: bool) -> None:
    """Nobody would approve a drain or the standing rebalance, which are done again and again anyway."""
    world = BalancingWorld()
    world.skewed()
    cluster = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert cluster is not None
    spec = {"autoApprove": True, "repeatSeconds": 60, "mode": "RemoveBrokers", "brokers": [world.pulsar.brokers[0]]}
    world.kube.put(own_rebalance(cluster, "own", spec))
    if stopped:
        world.command("stop", "own")
        await world.once("own")
        await world.once("own")
        assert world.condition("Stopped", "own") == ("True", "StoppedByUser")
    else:
        await world.once("own")
    odd(world, "own")
    for _ in range(4):
        await world.once("own")
    assert (world.condition("Executing", "own")[0] == "True") is not stopped


def of_a_newer_version(kind: str = "Ready", status: str = "True") -> Any:
    return {
        "type": kind, "status": status, "reason": "NewReason", "message": "as it was", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip


async def test_an_execution_goes_on_after_a_newer_version_wrote_its_conditions() -> None:
    world = BalancingWorld()
    world.skewed()
    await half_way(world)

    def newer(status: Any) -> None:
        for each in status["conditions"]:
            each["reason"] = "NewReason"

    edit_status(world, newer)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed") and world.pulsar.dynamic == {}


def test_a_reason_of_a_newer_version_fails_no_pass() -> None:
    """Wherever a stored one is read: what is carried, what follows from it, and a row of autoscaling."""
    now = SetClock().now()
    conditions = ConditionSet([ConditionType.REPLICATED], [of_a_newer_version("Replicated")], 1, now)
    assert conditions.carry(ConditionType.REPLICATED)
    assert conditions.explained(ConditionType.REPLICATED) == (TRUE, Reason.UNKNOWN, "as it was")
    stored = [of_a_newer_version(), of_a_newer_version("Progressing", "False")]
    assert abnormal([Condition.model_validate(each) for each in stored], {}, now) == []
    row = ComponentScalingStatus(current=3, desired=3, replicas=3, reason="NewReason", message="as it was")
    told = scaling_condition({Component.BROKER: row})
    assert told is not None and told[1] is Reason.UNKNOWN
    assert conditions.status(ConditionType.READY) is UNKNOWN


@pytest.mark.parametrize(
    ("written", "stored", "left"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1, "b": 2}, ["/s/b"]),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c/d": 2, "e~f": {"g": 1}}}, ["/s/a/c~1d", "/s/a/e~0f"]),
        ({"a": None, "b": []}, {"a": {"c": 1}, "b": [1]}, ["/s/a", "/s/b"]),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": None, "d": [], "e": {}}}, []),
        ({"a": [1, 2]}, {"a": [3, 1, 4, 2]}, ["/s/a/2", "/s/a/0"]),
        ({"a": [{"type": "X"}]}, {"a": [{"type": "X", "odd": 1}, {"type": "Y"}]}, ["/s/a/1", "/s/a/0"]),
        ({"a": [{"type": "X"}, {"type": "Y"}]}, {"a": [{"type": "Y"}, {"type": "X"}]}, []),
    ],
    ids=["nothing", "member", "deep", "not written", "empty", "entries", "conditions", "order of conditions"],
)
def test_what_is_stored_and_was_not_written(written: Any, stored: Any, left: list[str]) -> None:
    assert left_over(written, stored, "/s") == left


@pytest.mark.parametrize("error", [None, ConflictError("changed"), RefusedError("is invalid")])
async def test_members_that_another_client_wrote_go(error: PortError | None) -> None:
    """Server-side apply leaves them. Where they cannot be taken the pass goes on, and the next one tries again."""
    world = BalancingWorld()
    world.skewed()
    world.rebalance()
    await world.run(seconds=5)
    there = world.kube.live(CUSTOM[Kind.REBALANCE], NS, "once")
    assert there is not None
    odd = {**there["status"]["conditions"][0], "type": "Odd"}
    strange = {**there["status"], "pendingActions": ["odd"], "conditions": [*there["status"]["conditions"], odd]}
    world.kube.set_status(CUSTOM[Kind.REBALANCE], NS, "once", strange)
    tries: list[Call] = []

    def fails(call: Call) -> None:
        if call.verb == "remove_entries" and call.kind == Kind.REBALANCE:
            tries.append(call)
            if error is not None and len(tries) == 1:
                raise error

    world.kube.before.append(fails)
    for _ in range(2):
        await world.run(seconds=5)
    found = world.kube.live(CUSTOM[Kind.REBALANCE], NS, "once")
    assert found is not None and "pendingActions" not in found["status"]
    assert "Odd" not in {each["type"] for each in found["status"]["conditions"]}
    assert len(tries) == (1 if error is None else 2)
