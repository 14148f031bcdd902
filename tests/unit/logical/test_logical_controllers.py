"""The controllers of the logical plane against fakes: bring-up, adoption, drift, refusals, pause."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.ports import CUSTOM
from tests.support.logical.world import DRY_RUN, NS, PAUSED, LogicalWorld

RETENTION = {"timeMinutes": 60, "size": "100Mi"}
QUOTA = {"destinationStorage": {"limit": 1048576, "policy": "ProducerException"}}


async def small_world(**policies: object) -> LogicalWorld:
    w = LogicalWorld()
    w.tenant(adminRoles=["admin"])
    w.namespace(bundles={"count": 4}, policies=policies)
    w.topic("plain")
    w.topic("parts", partitions=3)
    await w.run()
    return w


async def test_everything_is_made_and_a_second_pass_writes_nothing() -> None:
    w = await small_world(retention=RETENTION, messageTTLSeconds=3600, backlogQuotas=QUOTA)
    for kind, name in ((Kind.TENANT, "t"), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "plain"), (Kind.TOPIC, "parts")):
        assert w.condition(kind, name)[:2] == ("True", "Ready"), w.condition(kind, name)
        assert w.condition(kind, name, "Accepted")[:2] == ("True", "Valid")
        assert w.condition(kind, name, "Drifted")[:2] == ("False", "InSync")
    assert w.pulsar.tenants["t"] == {"adminRoles": ["admin"], "allowedClusters": ["a"]}
    live = w.pulsar.namespaces["t/n"]
    assert live["bundles"]["boundaries"] == ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]
    assert live["message_ttl_in_seconds"] == 3600
    assert live["retention_policies"] == {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
    assert live["backlog_quota_map"]["destination_storage"]["limitSize"] == 1048576
    assert w.pulsar.partitioned == {"persistent://t/n/parts": 3}
    assert "persistent://t/n/plain" in w.pulsar.topics["a"]
    assert w.status(Kind.TENANT, "t")["dependents"] == 1
    assert w.status(Kind.NAMESPACE, "n")["dependents"] == 2
    assert w.status(Kind.NAMESPACE, "n")["clusters"] == [{"name": "a", "exists": True, "bundles": 4}]
    assert w.status(Kind.TOPIC, "parts")["pulsarName"] == "persistent://t/n/parts"
    assert w.status(Kind.TOPIC, "parts")["partitions"] == 3
    assert await w.second_pass_writes() == ([], [])


async def test_without_deletion_there_is_no_finalizer() -> None:
    w = await small_world()
    assert all(not (o["metadata"].get("finalizers")) for o in w.kube.all())


async def test_what_exists_is_adopted_and_never_made_again() -> None:
    w = LogicalWorld()
    w.pulsar.tenants["t"] = {"adminRoles": ["theirs"], "allowedClusters": ["a"]}
    w.pulsar.handle("a", "PUT", ("namespaces", "t", "n"), {}, {"bundles": {"numBundles": 8}})
    w.pulsar.handle("a", "POST", ("namespaces", "t", "n", "messageTTL"), {}, 7)
    w.tenant(adminRoles=["ours"])
    w.namespace(policies={"retention": RETENTION})
    await w.run()
    assert w.reasons().count("Adopted") == 2
    # Nothing is made; who manages it from now on is recorded.
    assert [path for method, path in w.admin.writes if method == "PUT"] == ["namespaces/t/n/properties"]
    assert sorted(w.pulsar.tenants["t"]["adminRoles"]) == ["ours", "theirs"]
    assert w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] == 7, "never declared, never touched"
    w.tenant(adminRoles=[])
    await w.run()
    assert w.pulsar.tenants["t"]["adminRoles"] == ["theirs"], "only the declared role is revoked"


async def test_a_removed_field_is_reset_and_undeclared_ones_stay() -> None:
    w = await small_world(retention=RETENTION, messageTTLSeconds=3600)
    w.pulsar.namespaces["t/n"]["backlog_quota_map"]["message_age"] = {
        "limitSize": 0,
        "limitTime": 5,
        "policy": "producer_exception",
    }
    w.namespace(bundles={"count": 4}, policies={"messageTTLSeconds": 3600})
    await w.run()
    live = w.pulsar.namespaces["t/n"]
    assert "retention_policies" not in live
    assert live["message_ttl_in_seconds"] == 3600
    assert "message_age" in live["backlog_quota_map"]
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["bundles", "policies.messageTTLSeconds"]


async def test_with_an_empty_status_nothing_is_reset() -> None:
    w = await small_world(retention=RETENTION, messageTTLSeconds=3600)
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", {})
    w.namespace(bundles={"count": 4}, policies={"messageTTLSeconds": 3600})
    await w.run()
    assert "retention_policies" in w.pulsar.namespaces["t/n"]


async def test_there_and_back_again_is_where_it_was() -> None:
    w = await small_world(messageTTLSeconds=60)
    before = w.pulsar.snapshot()
    w.namespace(bundles={"count": 4}, policies={"messageTTLSeconds": 5, "retention": RETENTION, "backlogQuotas": QUOTA})
    w.tenant(adminRoles=["admin", "second"])
    await w.run()
    assert w.pulsar.snapshot() != before
    w.namespace(bundles={"count": 4}, policies={"messageTTLSeconds": 60})
    w.tenant(adminRoles=["admin"])
    await w.run()
    assert w.pulsar.snapshot() == before


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_drift(policy: str) -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace(policies={"messageTTLSeconds": 60}, driftPolicy=policy)
    await w.run()
    w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] = 1
    await w.run()
    if policy == "Repair":
        assert w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] == 60
        event = next(e for e in w.kube.events if e.reason == "DriftRepaired")
        assert event.kind == "Warning", "somebody else writes"
        assert "60" in event.message
        assert "1" in event.message
        assert w.condition(Kind.NAMESPACE, "n", "Drifted")[:2] == ("False", "InSync")
    else:
        assert w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] == 1
        assert w.condition(Kind.NAMESPACE, "n", "Drifted")[:2] == ("True", "DriftDetected")
        assert w.status(Kind.NAMESPACE, "n")["drift"] == [
            {"field": "policies.messageTTLSeconds", "desired": "60", "actual": "1"}
        ]
        assert await w.second_pass_writes() == ([], [])
        w.namespace(policies={"messageTTLSeconds": 61}, driftPolicy=policy)
        await w.run()
        assert w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] == 61, "a change of the spec is no drift"


async def test_a_role_taken_away_by_others_is_drift() -> None:
    w = LogicalWorld()
    w.tenant(adminRoles=["r"], driftPolicy="Report")
    await w.run()
    w.pulsar.tenants["t"]["adminRoles"] = []
    await w.run()
    assert w.condition(Kind.TENANT, "t", "Drifted")[0] == "True"
    assert w.pulsar.tenants["t"]["adminRoles"] == []
    w.tenant(adminRoles=["r"], driftPolicy="Repair")
    await w.run()
    assert w.pulsar.tenants["t"]["adminRoles"] == ["r"]


async def test_one_refused_field_does_not_stop_the_others_and_is_not_reset_later() -> None:
    w = LogicalWorld()
    w.pulsar.refuse["retention"] = "no retention today"
    w.tenant()
    w.namespace(policies={"messageTTLSeconds": 60, "retention": RETENTION})
    await w.run()
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "Accepted")
    assert (status, reason) == ("False", "RejectedByPulsar")
    assert "no retention today" in message
    assert "policies.retention" in message
    assert w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] == 60
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["policies.messageTTLSeconds"]
    kube_writes, admin_writes = await w.second_pass_writes()
    assert kube_writes == [], "no status write per pass, or the object would wake itself for ever"
    del admin_writes
    w.pulsar.refuse.clear()
    w.pulsar.namespaces["t/n"]["retention_policies"] = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
    w.namespace(policies={"messageTTLSeconds": 60})
    await w.run()
    assert "retention_policies" in w.pulsar.namespaces["t/n"], "it was never ours"


async def test_a_refused_field_is_applied_once_pulsar_accepts_it() -> None:
    w = LogicalWorld()
    w.pulsar.refuse["retention"] = "no"
    w.tenant()
    w.namespace(policies={"retention": RETENTION}, driftPolicy="Report")
    await w.run()
    w.pulsar.refuse.clear()
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["policies.retention"]
    assert "refusedFields" not in {k: v for k, v in w.status(Kind.NAMESPACE, "n").items() if v}


@pytest.mark.parametrize(("first", "second"), [((10, 5), (2, 1)), ((2, 1), (10, 5))])
async def test_retention_and_quota_change_together_in_either_direction(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    w = LogicalWorld()
    w.tenant()
    for size, quota in (first, second):
        w.namespace(
            policies={
                "retention": {"timeMinutes": 60, "size": f"{size}Mi"},
                "backlogQuotas": {"destinationStorage": {"limit": quota * 1048576, "policy": "ProducerException"}},
            }
        )
        await w.run()
        assert w.condition(Kind.NAMESPACE, "n")[0] == "True", w.condition(Kind.NAMESPACE, "n")
        assert w.pulsar.namespaces["t/n"]["retention_policies"]["retentionSizeInMB"] == size
    assert await w.second_pass_writes() == ([], [])


async def test_a_lost_topic_is_made_again() -> None:
    w = await small_world()
    w.pulsar.topics["a"].clear()
    w.pulsar.partitioned.clear()
    await w.run()
    assert "persistent://t/n/plain" in w.pulsar.topics["a"]
    assert w.pulsar.partitioned == {"persistent://t/n/parts": 3}
    assert w.reasons().count("Repaired") == 2


async def test_partitions_grow_and_never_shrink() -> None:
    w = await small_world()
    w.topic("parts", partitions=5)
    await w.run()
    assert w.pulsar.partitioned["persistent://t/n/parts"] == 5
    w.pulsar.partitioned["persistent://t/n/parts"] = 9
    await w.run()
    assert w.pulsar.partitioned["persistent://t/n/parts"] == 9
    assert w.condition(Kind.TOPIC, "parts", "Drifted")[:2] == ("True", "ImmutableInPulsar")
    assert w.condition(Kind.TOPIC, "parts")[0] == "True"


@pytest.mark.parametrize("declared", [None, 4])
async def test_a_topic_of_the_other_kind_is_left_alone(declared: int | None) -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    await w.run()
    path = ("persistent", "t", "n", "x")
    if declared is None:
        w.pulsar.handle("a", "PUT", (*path, "partitions"), {}, 2)
    else:
        w.pulsar.handle("a", "PUT", path, {}, None)
    before = w.pulsar.snapshot()
    w.topic("x", **({} if declared is None else {"partitions": declared}))
    await w.run()
    assert w.pulsar.snapshot() == before
    assert w.condition(Kind.TOPIC, "x")[:2] == ("False", "ImmutableInPulsar")


@pytest.mark.parametrize(("live", "differ"), [(2, True), (6, True), (8, False)], ids=["fewer", "others", "refined"])
async def test_bundles_of_an_existing_namespace_are_reported_and_never_changed(live: int, differ: bool) -> None:
    w = LogicalWorld()
    w.pulsar.tenants["t"] = {"adminRoles": [], "allowedClusters": ["a"]}
    w.pulsar.handle("a", "PUT", ("namespaces", "t", "n"), {}, {"bundles": {"numBundles": live}})
    w.tenant()
    w.namespace(bundles={"count": 4})
    await w.run()
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "Drifted")
    assert (status, reason) == (("True", "ImmutableInPulsar") if differ else ("False", "InSync"))
    assert (f"{live} bundles" in message) is differ
    assert w.pulsar.namespaces["t/n"]["bundles"]["numBundles"] == live


async def test_a_split_after_creation_is_no_drift() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace(bundles={"count": 2})
    await w.run()
    live = w.pulsar.namespaces["t/n"]
    live["bundles"] = {"boundaries": ["0x00000000", "0x40000000", "0x80000000", "0xffffffff"], "numBundles": 3}
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n", "Drifted")[0] == "False"
    assert w.status(Kind.NAMESPACE, "n")["bundleCount"] == 3


async def test_pulsar_away_is_unknown_and_backs_off() -> None:
    w = await small_world(messageTTLSeconds=60)
    w.admin.down = {"a"}
    outcome = await w.reconcile(Kind.NAMESPACE, "n")
    assert outcome.backoff
    assert w.condition(Kind.NAMESPACE, "n")[:2] == ("Unknown", "AdminUnreachable")
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["bundles", "policies.messageTTLSeconds"]
    w.admin.down = set()
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"


async def test_paused_observes_and_acts_on_nothing() -> None:
    w = await small_world(messageTTLSeconds=60)
    w.namespace(bundles={"count": 4}, policies={"messageTTLSeconds": 61}, annotations=PAUSED, deletionPolicy="Delete")
    w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] = 5
    with w.admin.recording() as made:
        await w.run()
    assert made == []
    assert w.condition(Kind.NAMESPACE, "n")[:2] == ("False", "Paused")
    assert FINALIZER not in (w.get(Kind.NAMESPACE, "n") or {})["metadata"].get("finalizers", [])
    w.namespace(bundles={"count": 4}, policies={"messageTTLSeconds": 61}, annotations={}, driftPolicy="Report")
    await w.run()
    assert w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"] == 61, "the spec changed while paused: no drift"


async def test_dry_run_says_what_it_would_do() -> None:
    w = LogicalWorld()
    w.tenant(annotations=DRY_RUN)
    await w.run()
    assert w.pulsar.tenants == {}
    assert w.status(Kind.TENANT, "t")["pendingActions"] == [
        "Create tenant t with clusters a, because Pulsar has no tenant of that name"
    ]
    w.tenant(annotations={})
    await w.run()
    assert "pendingActions" not in w.status(Kind.TENANT, "t")
    assert "t" in w.pulsar.tenants


@pytest.mark.parametrize("name", ["a-partition-3"])
async def test_names_pulsar_would_misread_are_refused(name: str) -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic(name)
    await w.run()
    assert w.condition(Kind.TOPIC, name)[:2] == ("False", "InvalidSpec")
    assert all(name not in path for _, path in w.admin.writes)
