"""PulsarIsolationPolicy through its controller: the policy and the failure domains in each cluster."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from pulsar_operator.ports import RefusedError
from tests.fakes.admin import AdminCall
from tests.support.logical.isolation import PIP, SHOP, B, domain, world
from tests.support.logical.world import DRY_RUN, PAUSED, LogicalWorld

DEFAULT = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
WHOLE = {"namespaces": ["shop/.*"], "primary": [".*-broker-0\\..*"], "secondary": [], "auto_failover_policy": DEFAULT}


async def test_the_policy_is_made_in_each_cluster_and_a_second_pass_writes_nothing() -> None:
    w = await world(**SHOP)
    assert w.pulsar.isolation == {"a": {"i": WHOLE}, "b": {"i": WHOLE}}
    assert w.condition(PIP, "i")[:2] == ("True", "Ready")
    status = w.status(PIP, "i")
    assert status["clusters"] == [{"name": c, "exists": True, "brokers": 1} for c in ("a", "b")]
    assert status["managedFields"] == ["clusters[a]", "clusters[b]", "namespaces", "primary"]
    assert {c.cluster for c in w.admin.calls if c.is_write} == {"a", "b"}, "a cluster unloads its own namespaces"
    assert await w.second_pass_writes() == ([], [])


async def test_every_field_is_written_and_several_changes_are_one_call(caplog: pytest.LogCaptureFixture) -> None:
    """Each write may unload all namespaces."""
    w = await world("a", **SHOP)
    w.isolation(
        namespaces=["shop/.*", "mall/n"],
        primary=["x.*", ".*-0.*"],
        secondary=[".*-1.*"],
        autoFailover={"minLimit": 2, "usageThresholdPercent": 50},
        unloadScope="Changed",
    )
    with w.admin.recording() as writes, caplog.at_level(logging.DEBUG, "pulsar_operator"):
        await w.run()
    assert writes == [("POST", "clusters/a/namespaceIsolationPolicies/i")]
    assert w.pulsar.isolation["a"]["i"] == {
        "namespaces": ["shop/.*", "mall/n"],
        "primary": ["x.*", ".*-0.*"],
        "secondary": [".*-1.*"],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "2", "usage_threshold": "50"},
        },
        "unload_scope": "changed",
    }
    (message,) = (text for each in caplog.records if "Set spec." in (text := each.getMessage()))
    assert 'Set spec.namespaces to ["shop/.*", "mall/n"] (was ["shop/.*"] in cluster a)' in message
    assert 'Set spec.unloadScope to "Changed" (was not set in cluster a)' in message
    w.isolation(**SHOP)
    await w.run()
    assert w.pulsar.isolation["a"]["i"] == WHOLE, "what left the spec is as in a new policy"
    assert w.status(PIP, "i")["managedFields"] == ["clusters[a]", "namespaces", "primary"]


async def test_an_existing_policy_is_adopted_and_what_is_not_declared_stays() -> None:
    w = LogicalWorld()
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "3", "usage_threshold": "99"}}
    foreign = {**WHOLE, "primary": ["y"], "secondary": ["z"], "auto_failover_policy": failover, "unload_scope": "none"}
    w.pulsar.isolation["a"] = {"i": foreign, "other": WHOLE}
    w.isolation(**SHOP)
    await w.run()
    assert w.pulsar.isolation["a"] == {"i": {**foreign, "primary": SHOP["primary"]}, "other": WHOLE}
    assert w.reasons(PIP) == ["Adopted"]


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_drift(policy: str) -> None:
    w = await world(**SHOP, failureDomains=[domain("d", B[0])], driftPolicy=policy)
    w.pulsar.isolation["b"]["i"]["primary"] = ["elsewhere", ".*"]
    w.pulsar.domains["a"]["d"] = [B[1]]
    await w.run()
    if policy == "Repair":
        assert w.pulsar.isolation["b"]["i"] == WHOLE
        assert w.pulsar.domains["a"] == {"d": [B[0]]}
        assert w.reasons(PIP)[-2:] == ["DriftRepaired", "DriftRepaired"]
        return
    assert w.condition(PIP, "i", "Drifted")[:2] == ("True", "DriftDetected")
    assert w.status(PIP, "i")["drift"] == [
        {"field": "failureDomains[d]", "desired": f'["{B[0]}"]', "actual": f'["{B[1]}"] in cluster a'},
        {
            "field": "primary",
            "desired": '[".*-broker-0\\\\..*"]',
            "actual": '["elsewhere", ".*"] in cluster b',
        },
    ]


@pytest.mark.parametrize(("policy", "there"), [("Repair", True), ("Report", False)])
async def test_a_policy_that_another_writer_deleted_in_one_cluster(policy: str, there: bool) -> None:
    w = await world(**SHOP, driftPolicy=policy)
    del w.pulsar.isolation["b"]["i"]
    await w.run()
    assert ("i" in w.pulsar.isolation["b"]) is there
    drift = w.status(PIP, "i").get("drift") or []
    assert [d["field"] for d in drift] == ([] if there else ["clusters[b]"])


async def test_clusters_join_and_leave() -> None:
    w = await world(clusters=["a"], failureDomains=[domain("d", B[0])], **SHOP)
    assert (set(w.pulsar.isolation), set(w.pulsar.domains)) == ({"a"}, {"a"})
    w.isolation(clusters=["b"], failureDomains=[domain("d", B[0])], **SHOP)
    w.pulsar.domains["a"]["foreign"] = [B[3]]
    await w.run()
    assert w.pulsar.isolation == {"a": {}, "b": {"i": WHOLE}}
    assert w.pulsar.domains == {"a": {"foreign": [B[3]]}, "b": {"d": [B[0]]}}
    assert w.status(PIP, "i")["managedFields"] == ["clusters[b]", "failureDomains[d]", "namespaces", "primary"]


async def test_a_cluster_that_does_not_answer_makes_ready_unknown_and_is_not_forgotten() -> None:
    w = await world(**SHOP, secondary=["x.*"])
    w.admin.down.add("b")
    w.isolation(**SHOP)
    await w.run()
    assert w.condition(PIP, "i")[:2] == ("Unknown", "AdminUnreachable")
    assert w.pulsar.isolation["a"]["i"]["secondary"] == []
    assert "secondary" in w.status(PIP, "i")["managedFields"], "cluster b still has it"
    w.admin.down.clear()
    await w.run()
    assert w.pulsar.isolation["b"]["i"]["secondary"] == []
    assert w.condition(PIP, "i")[0] == "True"
    assert "secondary" not in w.status(PIP, "i")["managedFields"]


async def test_no_live_broker_that_matches_is_reported() -> None:
    w = await world("a", namespaces=["shop/.*"], primary=["a-broker-7.*"])
    status, reason, message = w.condition(PIP, "i")
    assert (status, reason) == ("False", "NoBrokerMatches") and "cluster a" in message
    assert w.status(PIP, "i")["clusters"] == [{"name": "a", "exists": True, "brokers": 0}]
    assert (await w.reconcile(PIP, "i")).requeue_after == 15
    w.pulsar.live_brokers["a"] = ["a-broker-6.x:8080", "a-broker-7.x:8080"]
    await w.run()
    assert w.condition(PIP, "i")[0] == "True"


LEFT = "SharedBrokersAvailable"


async def test_namespaces_outside_that_have_no_broker_left_are_reported_once() -> None:
    w = LogicalWorld("a")
    w.pulsar.tenants |= {t: {"adminRoles": [], "allowedClusters": ["a"]} for t in ("pulsar", "shop", "bank")}
    for name in ("pulsar/system", "shop/n", "bank/x", "bank/y", "pulsar/b-0.h:8080"):
        w.pulsar.namespaces[name] = {"replication_clusters": ["a"]}
    w.pulsar.live_brokers["a"] = B[:2]
    w.isolation(namespaces=["shop/.*"], primary=["b-0.*"])
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("True", "BrokersShared")
    w.isolation(namespaces=["shop/.*"], primary=["b-0.*", "b-1.*"])
    await w.run()
    status, reason, message = w.condition(PIP, "i", LEFT)
    assert (status, reason) == ("False", "NoBrokersForOthers")
    assert "In cluster a the primary expressions of i match all 2 live brokers" in message
    assert "such as bank/x, bank/y, pulsar/system, have no broker" in message and "[no-such-broker]" in message
    assert w.condition(PIP, "i")[:2] == ("True", "Ready")
    await w.run()
    (event,) = (e for e in w.kube.events if e.reason == "NoBrokersForOthers")
    assert event.kind == "Warning" and event.message == message
    assert await w.second_pass_writes() == ([], [])
    w.isolation(namespaces=["shop/.*"], primary=["no-such-broker"], secondary=[".*"])
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("True", "BrokersShared")


async def test_policies_take_all_brokers_together_and_each_that_does_says_so() -> None:
    w = LogicalWorld("a")
    w.pulsar.tenants["bank"] = {"adminRoles": [], "allowedClusters": ["a"]}
    w.pulsar.namespaces["bank/x"] = {"replication_clusters": ["a"]}
    w.pulsar.live_brokers["a"] = B[:2]
    w.pulsar.isolation["a"] = {"foreign": {**WHOLE, "primary": ["b-1.*"]}}
    w.isolation("i", namespaces=["shop/.*"], primary=["b-0.*"])
    w.isolation("j", namespaces=["mall/.*"], primary=["b-7.*"], secondary=[".*"])
    await w.run()
    assert "primary expressions of foreign, i match all" in w.condition(PIP, "i", LEFT)[2]
    assert w.condition(PIP, "j", LEFT)[0] == "True", "it takes none"


@pytest.mark.parametrize("policies", [["bank/.*"], [".*"]])
async def test_brokers_may_all_be_taken_where_nobody_is_outside(policies: list[str]) -> None:
    """Namespaces of other clusters are nobody's concern."""
    w = LogicalWorld("a", "b")
    w.pulsar.tenants |= {"bank": {"adminRoles": [], "allowedClusters": ["a"]}}
    w.pulsar.tenants |= {t: {"adminRoles": [], "allowedClusters": ["b"]} for t in ("other", "t")}
    w.pulsar.tenants["both"] = {"adminRoles": [], "allowedClusters": ["a", "b"]}
    w.pulsar.namespaces |= {"bank/x": {"replication_clusters": ["a"]}, "other/x": {"replication_clusters": ["b"]}}
    w.pulsar.namespaces["both/x"] = {"replication_clusters": ["b"]}
    w.isolation(namespaces=policies, primary=[".*"], clusters=["a"])
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("True", "BrokersShared")


async def test_who_is_outside_is_unknown_where_pulsar_does_not_say() -> None:
    w = LogicalWorld("a")

    def refuse(call: AdminCall) -> None:
        if call.path == ("tenants",):
            raise RefusedError("HTTP 403: only for superusers", status=403)

    w.admin.before.append(refuse)
    w.isolation(**SHOP)
    await w.run()
    status, reason, message = w.condition(PIP, "i", LEFT)
    assert (status, reason) == ("Unknown", "AdminUnreachable") and "superusers" in message
    assert w.condition(PIP, "i")[:2] == ("True", "Ready")
    w.isolation("d", failureDomains=[domain("x", B[0])])
    await w.run()
    assert w.condition(PIP, "d", LEFT)[:2] == ("True", "NotApplicable")


async def test_a_host_without_port_matches_though_pulsars_list_says_otherwise() -> None:
    w = await world("a", namespaces=["shop/.*"], primary=["a-broker-0.a-broker-headless.pulsar.svc.cluster.local"])
    listed = w.pulsar.handle("a", "GET", ["clusters", "a", "namespaceIsolationPolicies", "brokers"], {}, None)[1]
    assert listed[0]["namespaceRegex"] == []
    assert w.status(PIP, "i")["clusters"][0]["brokers"] == 1
    assert w.condition(PIP, "i")[0] == "True"


async def test_deletion_takes_the_policy_out_of_each_cluster() -> None:
    w = await world(**SHOP, failureDomains=[domain("d", B[0])], deletionPolicy="Delete")
    w.pulsar.isolation["a"]["other"] = WHOLE
    w.delete(PIP, "i")
    await w.run()
    assert w.pulsar.isolation == {"a": {"other": WHOLE}, "b": {}}
    assert w.pulsar.domains == {"a": {}, "b": {}}
    assert w.get(PIP, "i") is None
    assert "Deleted" in w.reasons(PIP)


@pytest.mark.parametrize("annotations", [PAUSED, DRY_RUN], ids=["paused", "dry-run"])
async def test_held_objects_write_nothing_and_show_all_drift(annotations: dict[str, str]) -> None:
    w = await world("a", **SHOP)
    w.pulsar.isolation["a"]["i"] |= {"primary": ["x"], "namespaces": ["y"]}
    w.isolation(**SHOP, annotations=annotations)
    with w.admin.recording() as writes:
        await w.run()
    assert writes == []
    assert [d["field"] for d in w.status(PIP, "i")["drift"]] == ["namespaces", "primary"]
    pending = w.status(PIP, "i").get("pendingActions")
    assert (pending is None) is (annotations is PAUSED)
    if pending:
        assert "Repair spec.namespaces" in pending[0] and "Repair spec.primary" in pending[0]


async def test_what_pulsar_refuses_is_not_taken_for_managed() -> None:
    """RE2 and Java understand almost the same; what is left is Pulsar's refusal, for all fields of the one call."""
    w = await world("a", **SHOP)
    w.pulsar.refuse["i"] = "Invalid format of input policy data. policy: i"
    w.isolation(**SHOP, secondary=["x"], unloadScope="None")
    await w.run()
    status, reason, message = w.condition(PIP, "i", "Accepted")
    assert (status, reason) == ("False", "RejectedByPulsar")
    assert "spec.secondary, spec.unloadScope: " in message and message.count("Invalid format") == 1
    assert w.status(PIP, "i")["refusedFields"] == ["secondary", "unloadScope"]
    assert w.status(PIP, "i")["managedFields"] == ["clusters[a]", "namespaces", "primary"]
    assert w.condition(PIP, "i", "Drifted")[0] == "False"
    w.pulsar.refuse.clear()
    await w.run()
    assert w.condition(PIP, "i")[0] == "True"


async def test_the_name_of_pulsars_own_list_is_refused() -> None:
    w = LogicalWorld("a")
    w.isolation("brokers", **SHOP)
    await w.run()
    assert w.condition(PIP, "brokers", "Accepted")[:2] == ("False", "InvalidSpec")
    assert w.admin.writes == []


async def test_writes_of_one_instance_follow_each_other_and_are_checked_again() -> None:
    """Pulsar loses one of two policies of a cluster that are written at the same time."""
    w = LogicalWorld("a")
    w.isolation("i", **SHOP)
    w.isolation("j", **SHOP)
    inside: list[str] = []
    call = w.admin.call

    async def slow(endpoint: Any, method: str, path: Any, **more: Any) -> Any:
        if method == "POST":
            inside.append(path[-1])
            assert len(inside) == 1, "two at once"
            for _ in range(20):
                await asyncio.sleep(0)
        try:
            return await call(endpoint, method, path, **more)
        finally:
            if method == "POST":
                inside.remove(path[-1])

    w.admin.call = slow  # type: ignore[method-assign]
    outcomes = await asyncio.gather(w.reconcile(PIP, "i"), w.reconcile(PIP, "j"))
    assert [o.requeue_after for o in outcomes] == [5, 5]
    assert set(w.pulsar.isolation["a"]) == {"i", "j"}
    del w.pulsar.isolation["a"]["i"]
    await w.reconcile(PIP, "i")
    assert set(w.pulsar.isolation["a"]) == {"i", "j"}
    assert (await w.reconcile(PIP, "i")).requeue_after is None
