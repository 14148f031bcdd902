"""PulsarResourceGroup through its controller."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.controllers.core.index import RefIndex
from pulsar_operator.ports import Key
from tests.support.logical.world import DRY_RUN, NS, PAUSED, LogicalWorld

PRG = Kind.RESOURCE_GROUP
RATE = {"messagesPerSecond": 100, "bytesPerSecond": 5_000_000_000}


def group(w: LogicalWorld, name: str = "g") -> dict[str, int]:
    """Limits Pulsar has, without those that are none."""
    _, found = w.pulsar.handle("a", "GET", ["resourcegroups", name], {}, None)
    return {key: value for key, value in found.items() if value != -1}


async def world(**spec: Any) -> LogicalWorld:
    w = LogicalWorld("a", "b")
    w.group(**spec)
    await w.run()
    return w


async def test_a_group_is_made_with_its_limits_by_one_call_and_a_second_pass_writes_nothing() -> None:
    w = await world(limits={"publishRate": RATE, "dispatchRate": {"messagesPerSecond": 7}})
    assert group(w) == {
        "publishRateInMsgs": 100,
        "publishRateInBytes": 5_000_000_000,
        "dispatchRateInMsgs": 7,
    }
    assert w.admin.writes == [("PUT", "resourcegroups/g")]
    assert w.condition(PRG, "g")[:2] == ("True", "Ready")
    assert w.condition(PRG, "g", "Drifted")[:2] == ("False", "InSync")
    assert w.status(PRG, "g")["pulsarName"] == "g"
    assert w.status(PRG, "g")["managedFields"] == [
        "limits.dispatchRate.messagesPerSecond",
        "limits.publishRate.bytesPerSecond",
        "limits.publishRate.messagesPerSecond",
    ]
    assert await w.second_pass_writes() == ([], [])


async def test_a_group_without_limits_is_made_and_nothing_of_it_is_managed() -> None:
    w = await world(name="G_1")
    assert w.pulsar.resource_groups == {"G_1"}
    assert w.status(PRG, "g")["managedFields"] == []
    w.pulsar.group_limits["G_1"] = {"publishRateInMsgs": 3}
    await w.run()
    assert group(w, "G_1") == {"publishRateInMsgs": 3}


async def test_a_limit_that_leaves_the_spec_is_reset_and_what_nobody_declared_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    w = await world(limits={"publishRate": RATE})
    w.pulsar.group_limits["g"]["dispatchRateInBytes"] = 9
    w.group(limits={"publishRate": {"messagesPerSecond": 101}})
    events = len(w.kube.events)
    with caplog.at_level(logging.DEBUG, "pulsar_operator"):
        await w.run()
    assert group(w) == {"publishRateInMsgs": 101, "dispatchRateInBytes": 9}
    assert w.status(PRG, "g")["managedFields"] == ["limits.publishRate.messagesPerSecond"]
    assert w.kube.events[events:] == [], "a declared change is no event"
    logged = [each.getMessage() for each in caplog.records]
    assert any("Set spec.limits.publishRate.messagesPerSecond to 101 (was 100)" in message for message in logged)
    assert any(
        "Reset spec.limits.publishRate.bytesPerSecond" in message and "5000000000" in message for message in logged
    )


async def test_an_existing_group_is_adopted() -> None:
    w = LogicalWorld()
    w.pulsar.resource_groups.add("g")
    w.pulsar.group_limits["g"] = {"publishRateInMsgs": 1, "dispatchRateInMsgs": 2}
    w.group(limits={"publishRate": {"messagesPerSecond": 5}})
    await w.run()
    assert group(w) == {"publishRateInMsgs": 5, "dispatchRateInMsgs": 2}
    assert w.reasons(PRG) == ["Adopted"]


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_drift(policy: str) -> None:
    w = await world(limits={"publishRate": RATE}, driftPolicy=policy)
    w.pulsar.group_limits["g"]["publishRateInMsgs"] = 1
    await w.run()
    if policy == "Repair":
        assert group(w)["publishRateInMsgs"] == 100
        assert w.reasons(PRG)[-1] == "DriftRepaired"
        assert w.condition(PRG, "g", "Drifted")[0] == "False"
        return
    assert group(w)["publishRateInMsgs"] == 1
    assert w.condition(PRG, "g", "Drifted")[:2] == ("True", "DriftDetected")
    assert w.status(PRG, "g")["drift"] == [
        {"field": "limits.publishRate.messagesPerSecond", "desired": "100", "actual": "1"}
    ]


async def test_a_group_that_was_lost_is_made_again() -> None:
    w = await world(limits={"publishRate": RATE}, driftPolicy="Report")
    w.pulsar.resource_groups.clear()
    w.pulsar.group_limits.clear()
    await w.run()
    assert group(w) == {"publishRateInMsgs": 100, "publishRateInBytes": 5_000_000_000}
    assert w.reasons(PRG)[-1] == "Repaired"


async def test_a_namespace_joins_as_soon_as_the_group_is_there() -> None:
    """Pulsar refuses a group it does not have; the event of the group's object brings the namespace back."""
    w = LogicalWorld()
    w.tenant()
    w.namespace(policies={"resourceGroup": "G_1"})
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[1] == "RejectedByPulsar"

    index = RefIndex()
    for kind, name in ((Kind.TENANT, "t"), (Kind.NAMESPACE, "n")):
        index.update(kind, w.get(kind, name) or {})
    namespace = Key(Kind.NAMESPACE, NS, "n")
    for object_name, name, wakes in (("other", None, False), ("g", "G_1", True)):
        obj = w.group(object_name, **({"name": name} if name else {}))
        assert (namespace in index.update(PRG, obj).referrers) is wakes
        await w.reconcile(PRG, object_name)
        assert (namespace in index.update(PRG, w.get(PRG, object_name) or {}).referrers) is wakes, "Ready is an event"
    await w.reconcile(Kind.NAMESPACE, "n")
    assert w.condition(Kind.NAMESPACE, "n")[:2] == ("True", "Ready")
    assert w.pulsar.namespaces["t/n"]["resource_group_name"] == "G_1"
    assert index.remove(Key(PRG, NS, "g")).referrers == {namespace}


async def test_deletion_waits_for_the_namespaces_that_use_it_and_names_them() -> None:
    w = await world(limits={"publishRate": RATE}, deletionPolicy="Delete")
    w.tenant()
    w.namespace("n", policies={"resourceGroup": "g"})
    await w.run()
    w.pulsar.namespaces["t/foreign"] = {**w.pulsar.namespaces["t/n"]}
    w.delete(PRG, "g")
    outcome = await w.reconcile(PRG, "g")
    assert outcome.requeue_after == 10
    status, reason, message = w.condition(PRG, "g", "DeletionBlocked")
    assert (status, reason) == ("True", "InUse")
    assert "namespaces t/n use it" in message and "spec.policies.resourceGroup" in message
    w.namespace("n")
    await w.run()
    assert "namespaces t/foreign use it" in w.condition(PRG, "g", "DeletionBlocked")[2]
    del w.pulsar.namespaces["t/foreign"]
    await w.run()
    assert w.get(PRG, "g") is None
    assert w.pulsar.resource_groups == set()


async def test_the_deletion_of_a_group_that_is_gone_in_pulsar_ends() -> None:
    w = await world(deletionPolicy="ForceDelete")
    w.pulsar.resource_groups.clear()
    w.delete(PRG, "g")
    await w.reconcile(PRG, "g")
    assert w.get(PRG, "g") is None


async def test_retain_needs_no_finalizer_and_leaves_the_group() -> None:
    w = await world()
    obj = w.get(PRG, "g")
    assert obj is not None and FINALIZER not in (obj["metadata"].get("finalizers") or ())
    w.delete(PRG, "g")
    await w.run()
    assert w.pulsar.resource_groups == {"g"}


@pytest.mark.parametrize("annotations", [PAUSED, DRY_RUN], ids=["paused", "dry-run"])
async def test_held_objects_write_nothing(annotations: dict[str, str]) -> None:
    w = LogicalWorld()
    w.group(limits={"publishRate": RATE}, deletionPolicy="Delete", annotations=annotations)
    await w.run()
    assert w.admin.writes == []
    assert w.condition(PRG, "g")[0] == "False"
    pending = w.status(PRG, "g").get("pendingActions")
    assert (pending is None) is (annotations is PAUSED)
    if pending:
        assert pending[0].startswith("Create resource group g with")


async def test_of_two_objects_for_one_group_one_manages_it() -> None:
    w = await world(limits={"publishRate": RATE})
    w.group("again", name="g", limits={"publishRate": {"messagesPerSecond": 1}})
    await w.run()
    assert group(w)["publishRateInMsgs"] == 100
    assert w.condition(PRG, "again", "Accepted")[:2] == ("False", "Duplicate")
