"""Drift that comes back, through the controllers: repaired at once, then ever more rarely, and the status says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.domain.policies import TOPIC_POLICIES
from pulsar_operator.ports import AdminEndpoint
from tests.support.logical.world import DRY_RUN, PAUSED, LogicalWorld

NAMESPACE, TOPIC, TENANT = Kind.NAMESPACE, Kind.TOPIC, Kind.TENANT
TTL = "message_ttl_in_seconds"


class Hand:
    """ports.Clock that is set by hand."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Current time."""
        return self.time

    def forward(self, **by: float) -> None:
        """Let time pass."""
        self.time += timedelta(**by)


class Fight(LogicalWorld):
    """A world with a clock of its own that survives the operator."""

    def __init__(self, *clusters: str) -> None:
        self.clock = Hand()
        super().__init__(*clusters)

    def restart(self) -> None:
        """A new operator process; time goes on."""
        super().restart()
        for controller in self.controllers.values():
            controller.deps = replace(controller.deps, clock=self.clock)

    @property
    def live(self) -> dict[str, Any]:
        """Policies of the namespace in Pulsar."""
        return self.pulsar.namespaces["t/n"]

    async def drift(self, found: int = 1) -> Outcome:
        """Another writer changes the TTL, and the operator looks."""
        self.live[TTL] = found
        return await self.reconcile(NAMESPACE, "n")

    def told(self) -> int:
        """Events about a fight."""
        return self.reasons().count("ConflictingWriter")


def _at(cluster: str) -> AdminEndpoint:
    return AdminEndpoint(cluster, f"http://{cluster}:8080")


def _roles(w: LogicalWorld) -> dict[str, Any]:
    _, live = w.pulsar.handle("a", "GET", ["namespaces", "t", "n"], {}, None)
    return dict(live["auth_policies"]["namespace_auth"])


def _rate(messages: int) -> dict[str, int]:
    return {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": -1}


async def fight(**spec: Any) -> Fight:
    """A namespace with a TTL of 60 s that drifted twice and was repaired twice, 1 s apart."""
    w = Fight()
    w.tenant()
    w.namespace(policies={"messageTTLSeconds": 60}, **spec)
    await w.run()
    for _ in range(2):
        await w.drift()
        assert w.live[TTL] == 60
        w.clock.forward(seconds=1)
    return w


async def test_the_third_repair_waits_and_status_and_one_event_say_so() -> None:
    w = await fight()
    assert w.condition(NAMESPACE, "n")[0] == "True"
    assert w.told() == 0
    outcome = await w.drift(7)
    assert w.live[TTL] == 7
    assert outcome.requeue_after == pytest.approx(299)
    status, reason, message = w.condition(NAMESPACE, "n", "Drifted")
    assert (status, reason) == ("True", "ConflictingWriter")
    assert "spec.policies.messageTTLSeconds declares 60, but Pulsar has 7" in message
    assert "repaired the field 2 times" in message
    assert "the next is not before 2026-01-01T00:05:01Z" in message
    assert "set spec.driftPolicy to Report" in message
    assert w.condition(NAMESPACE, "n") == ("False", "ConflictingWriter", message)
    assert w.condition(NAMESPACE, "n", "Accepted")[0] == "True"
    stored = w.status(NAMESPACE, "n")
    assert [d["field"] for d in stored["drift"]] == ["policies.messageTTLSeconds"]
    assert stored["repairs"] == [
        {
            "field": "policies.messageTTLSeconds",
            "times": 2,
            "lastTime": "2026-01-01T00:00:01Z",
            "backedOffSince": "2026-01-01T00:00:02Z",
        }
    ]
    w.clock.forward(seconds=50)
    assert await w.second_pass_writes() == ([], [])
    w.clock.forward(seconds=10)
    assert await w.second_pass_writes() == ([("apply_status", "PulsarNamespace", "n")], [])
    assert w.condition(NAMESPACE, "n", "Stalled") == ("True", "ConflictingWriter", message)
    assert await w.second_pass_writes() == ([], [])
    assert w.told() == 1


async def test_waits_grow_over_restarts_and_the_event_comes_once() -> None:
    w = await fight()
    for wait in (5, 15, 60, 60, 60):
        w.restart()
        outcome = await w.drift()
        seconds = outcome.requeue_after
        assert seconds is not None and 0 < seconds <= wait * 60
        w.clock.forward(seconds=seconds - 1)
        w.restart()
        await w.reconcile(NAMESPACE, "n")
        assert w.live[TTL] == 1
        w.clock.forward(seconds=1)
        assert (await w.reconcile(NAMESPACE, "n")).requeue_after is None
        assert w.live[TTL] == 60
        assert w.condition(NAMESPACE, "n")[0] == "True"
        assert w.condition(NAMESPACE, "n", "Drifted")[:2] == ("False", "InSync")
    assert w.told() == 1
    assert w.status(NAMESPACE, "n")["repairs"][0]["times"] == 7


async def test_a_repair_is_made_at_once_where_the_operator_was_away_for_the_wait() -> None:
    w = await fight()
    await w.drift()
    w.clock.forward(hours=30)
    w.restart()
    await w.reconcile(NAMESPACE, "n")
    assert w.live[TTL] == 60
    assert w.status(NAMESPACE, "n")["repairs"][0]["times"] == 3, "it did not stay right meanwhile"


async def test_a_field_that_stayed_right_is_forgotten_with_one_write() -> None:
    w = await fight()
    w.clock.forward(minutes=59)
    assert await w.second_pass_writes() == ([], [])
    w.clock.forward(minutes=1)
    kube, pulsar = await w.second_pass_writes()
    assert (len(kube), pulsar) == (1, [])
    assert "repairs" not in w.status(NAMESPACE, "n") or w.status(NAMESPACE, "n")["repairs"] == []
    assert await w.second_pass_writes() == ([], [])
    await w.drift()
    assert w.live[TTL] == 60
    assert w.status(NAMESPACE, "n")["repairs"][0]["times"] == 1


async def test_an_object_at_rest_remembers_nothing() -> None:
    w = Fight()
    w.tenant()
    w.namespace(policies={"messageTTLSeconds": 60})
    w.topic()
    await w.run()
    w.namespace(policies={"messageTTLSeconds": 61})
    await w.run()
    for kind, name in ((TENANT, "t"), (NAMESPACE, "n"), (TOPIC, "x")):
        assert not w.status(kind, name).get("repairs")
    w.clock.forward(hours=3)
    assert await w.second_pass_writes() == ([], [])


@pytest.mark.parametrize(
    "change",
    [{"policies": {"messageTTLSeconds": 90}}, {"policies": {"messageTTLSeconds": 60, "maxTopics": 5}}],
    ids=["the field", "another one"],
)
async def test_a_change_of_the_spec_starts_again(change: dict[str, Any]) -> None:
    w = await fight()
    await w.drift()
    assert w.live[TTL] == 1
    w.namespace(**change)
    await w.reconcile(NAMESPACE, "n")
    assert w.live[TTL] == change["policies"]["messageTTLSeconds"]
    assert not w.status(NAMESPACE, "n").get("repairs")
    assert w.condition(NAMESPACE, "n")[0] == "True"
    for _ in range(2):
        await w.drift()
        assert w.live[TTL] == change["policies"]["messageTTLSeconds"]


async def test_a_change_of_the_tenants_defaults_starts_again() -> None:
    w = Fight()
    w.tenant(namespaceDefaults={"messageTTLSeconds": 60})
    w.namespace()
    await w.run()
    for found in (60, 60, 1):
        await w.drift()
        assert w.live[TTL] == found
    w.tenant(namespaceDefaults={"messageTTLSeconds": 90})
    await w.run()
    assert w.live[TTL] == 90
    assert not w.status(NAMESPACE, "n").get("repairs")


async def test_a_field_that_leaves_the_spec_is_reset_at_once() -> None:
    w = await fight()
    await w.drift()
    w.namespace()
    await w.run()
    assert TTL not in w.live
    assert w.condition(NAMESPACE, "n")[0] == "True"


async def test_with_report_nothing_is_counted() -> None:
    w = await fight()
    await w.drift()
    w.namespace(policies={"messageTTLSeconds": 60}, driftPolicy="Report")
    await w.run()
    for _ in range(4):
        await w.drift()
    assert w.condition(NAMESPACE, "n", "Drifted")[:2] == ("True", "DriftDetected")
    assert not w.status(NAMESPACE, "n").get("repairs")


async def test_other_fields_are_repaired_in_the_meantime() -> None:
    w = await fight(replicationClusters=["a"])
    w.namespace(policies={"messageTTLSeconds": 60, "maxTopics": 5})
    await w.run()
    for _ in range(3):
        await w.drift()
    w.live["max_topics_per_namespace"] = 9
    await w.reconcile(NAMESPACE, "n")
    assert (w.live[TTL], w.live["max_topics_per_namespace"]) == (1, 5)
    assert {r["field"]: r["times"] for r in w.status(NAMESPACE, "n")["repairs"]} == {
        "policies.maxTopics": 1,
        "policies.messageTTLSeconds": 2,
    }
    w.live["max_topics_per_namespace"] = 9
    await w.reconcile(NAMESPACE, "n")
    w.live["max_topics_per_namespace"] = 9
    w.clock.forward(seconds=10)
    outcome = await w.reconcile(NAMESPACE, "n")
    assert outcome.requeue_after == pytest.approx(290), "the first that is due"
    message = w.condition(NAMESPACE, "n", "Drifted")[2]
    assert "spec.policies.maxTopics declares 5, but Pulsar has 9" in message and "messageTTLSeconds" in message
    assert w.told() == 2, "one for each field"


async def test_paused_and_dry_run_show_it_and_wait_for_nothing() -> None:
    w = await fight()
    await w.drift()
    for marks, reason in ((PAUSED, "Paused"), (DRY_RUN, "DryRun")):
        w.namespace(policies={"messageTTLSeconds": 60}, annotations=marks)
        outcome = await w.reconcile(NAMESPACE, "n")
        assert w.condition(NAMESPACE, "n")[:2] == ("False", reason)
        assert outcome.requeue_after is None
        assert w.live[TTL] == 1
    assert len(w.status(NAMESPACE, "n")["pendingActions"]) == 1
    w.clock.forward(hours=2)
    w.namespace(policies={"messageTTLSeconds": 60}, annotations={})
    await w.reconcile(NAMESPACE, "n")
    assert w.live[TTL] == 60
    assert w.status(NAMESPACE, "n")["repairs"][0]["times"] == 3


# ------------------------------------------------------------------------------------------------------- lists


async def test_entries_of_a_list_count_as_the_list() -> None:
    w = Fight()
    w.tenant()
    w.namespace(
        permissions=[{"role": role, "actions": ["Produce"]} for role in ("a", "b", "c")],
        policies={"messageTTLSeconds": 60},
    )
    await w.run()
    for role in ("a", "b", "c"):
        assert await w.admin.call(_at("a"), "DELETE", ["namespaces", "t", "n", "permissions", role]) is None
        await w.reconcile(NAMESPACE, "n")
    assert set(_roles(w)) == {"a", "b"}
    assert w.status(NAMESPACE, "n")["repairs"][0]["field"] == "permissions"
    assert [d["field"] for d in w.status(NAMESPACE, "n")["drift"]] == ["permissions[c]"]
    assert "spec.permissions[c]" in w.condition(NAMESPACE, "n", "Drifted")[2]
    w.namespace(
        permissions=[{"role": role, "actions": ["Produce"]} for role in ("a", "b", "c", "d")],
        policies={"messageTTLSeconds": 60},
    )
    await w.reconcile(NAMESPACE, "n")
    assert set(_roles(w)) == {"a", "b", "c", "d"}


async def test_strangers_of_a_complete_list_are_fought_over_too() -> None:
    w = Fight()
    w.tenant(adminRoles=["boss"], prune={"adminRoles": True})
    await w.run()
    for left in (False, False, True):
        w.pulsar.tenants["t"]["adminRoles"] = ["boss", "other"]
        await w.reconcile(TENANT, "t")
        assert ("other" in w.pulsar.tenants["t"]["adminRoles"]) is left
    assert w.condition(TENANT, "t")[:2] == ("False", "ConflictingWriter")
    assert w.status(TENANT, "t")["repairs"][0]["field"] == "adminRoles"
    w.clock.forward(minutes=5)
    await w.reconcile(TENANT, "t")
    assert w.pulsar.tenants["t"]["adminRoles"] == ["boss"]


async def test_clusters_of_a_tenant_go_on_while_its_roles_are_fought_over() -> None:
    w = Fight()
    w.tenant(adminRoles=["boss"])
    await w.run()
    for found in (["boss"], ["boss"], []):
        w.pulsar.tenants["t"]["adminRoles"] = []
        await w.reconcile(TENANT, "t")
        assert w.pulsar.tenants["t"]["adminRoles"] == found
    w.pulsar.clusters = ["a", "b"]
    w.cluster("b")
    await w.reconcile(TENANT, "t")
    assert w.pulsar.tenants["t"]["allowedClusters"] == ["a", "b"]
    assert w.pulsar.tenants["t"]["adminRoles"] == []


# -------------------------------------------------------------------------------------------- several clusters


async def test_a_repair_in_several_clusters_counts_once() -> None:
    w = Fight("a", "b")
    w.tenant()
    w.namespace(replicationClusters=["a", "b"], policies={"publishRate": {"messagesPerSecond": 5}})
    await w.run()
    for _ in range(2):
        for cluster in ("a", "b"):
            await w.admin.call(_at(cluster), "POST", ["namespaces", "t", "n", "publishRate"], body=_rate(9))
        await w.reconcile(NAMESPACE, "n")
    assert [(r["field"], r["times"]) for r in w.status(NAMESPACE, "n")["repairs"]] == [("policies.publishRate", 2)]
    w.admin.down.add("b")
    w.clock.forward(hours=2)
    await w.reconcile(NAMESPACE, "n")
    assert w.status(NAMESPACE, "n")["repairs"], "nobody knows whether it stayed right in b"
    w.admin.down.clear()
    await w.reconcile(NAMESPACE, "n")
    assert not w.status(NAMESPACE, "n").get("repairs")


# ------------------------------------------------------------------------------------------------------ topics


async def test_a_topics_fight_survives_a_restart_that_would_trust_it() -> None:
    """After a restart a settled topic's policies are not read at first; one that drifted lately is."""
    w = Fight()
    w.tenant()
    w.namespace()
    w.topic(partitions=2, policies={"maxProducers": 5})
    await w.run()
    path = ["persistent", "t", "n", "x", "maxProducers"]
    for _ in range(2):
        await w.admin.call(_at("a"), "POST", path, query={"isGlobal": "false"}, body=9)
        await w.reconcile(TOPIC, "x")
        assert await w.admin.call(_at("a"), "GET", path, query={"isGlobal": "false", "applied": "false"}) == 5
    w.restart()
    w.clock.forward(minutes=1)
    await w.admin.call(_at("a"), "POST", path, query={"isGlobal": "false"}, body=9)
    await w.reconcile(TOPIC, "x")
    assert w.condition(TOPIC, "x")[:2] == ("False", "ConflictingWriter")
    assert any(row.field == w.status(TOPIC, "x")["repairs"][0]["field"] for row in TOPIC_POLICIES)
