"""What has no place in the manifests is named, never dropped, and never tells a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from pulsar_operator.domain.policies import TOPIC_POLICIES
from tests.fakes.admin import AdminCall, FakeAdmin
from tests.support.export.memory import ExportPulsar, dry_run, exported, manifests, notes, plain, text_of


@pytest.fixture
async def admin() -> FakeAdmin:
    """A Pulsar with a tenant, a namespace and a topic."""
    found = FakeAdmin(ExportPulsar())
    await plain(found, "PUT", "tenants", "t", body={"adminRoles": [], "allowedClusters": ["a"]})
    await plain(found, "PUT", "namespaces", "t", "n")
    await plain(found, "PUT", "persistent", "t", "n", "x")
    return found


def live(admin: FakeAdmin) -> dict[str, Any]:
    """The namespace's policies."""
    return admin.pulsar.namespaces["t/n"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "auth_policies",
            {"namespace_auth": {"r": [None]}},
            'permissions is {"r": "[None]"} in Pulsar, which the field cannot express',
        ),
        (
            "properties",
            {"..": "ops"},
            "entry \"..\" is not exported, because the API server would refuse it: properties: '..' is not allowed, "
            "because a key of properties",
        ),
        ("offload_deletion_lag_ms", 0, "offload_deletion_lag_ms 0 is not exported, because there is no field"),
        ("brand_new_policy", {"limit": 3}, 'brand_new_policy {"limit": 3} is not exported, because there is no field'),
        ("clusterDispatchRate", {"a": {"dispatchThrottlingRateInMsg": 1}}, "clusterDispatchRate"),
        ("schema_compatibility_strategy", "SIDEWAYS", 'policies.schema.compatibilityStrategy is "SIDEWAYS" in Pulsar'),
        ("message_ttl_in_seconds", -5, "policies.messageTTLSeconds"),
        (
            "retention_policies",
            {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5},
            "which the API server would refuse",
        ),
        ("backlog_quota_map", {"message_age": {"limitTime": 0, "policy": "producer_exception"}}, "messageAge"),
        ("topicDispatchRate", {"a": {"dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 0}}, "dispatchRate"),
        ("offload_policies", {"managedLedgerOffloadThresholdInBytes": 7}, "ThresholdInBytes"),
        ("autoTopicCreationOverride", {"allowAutoTopicCreation": True}, "autoTopicCreation"),
        ("persistence", dict(bookkeeperEnsemble=1, bookkeeperWriteQuorum=2, bookkeeperAckQuorum=1), "persistence"),
    ],
)
async def test_is_named_and_the_rest_is_exported(admin: FakeAdmin, key: str, value: Any, said: str) -> None:
    live(admin)[key] = value
    live(admin)["max_topics_per_namespace"] = 7
    found = await exported(admin)
    assert [note for note in notes(found) if note.startswith("namespace t/n: ") and said in note], notes(found)
    assert f"# NOT EXPORTED: {notes(found)[0][:40]}" in text_of(found)
    spec = next(m["spec"] for m in manifests(found) if m["kind"] == "PulsarNamespace")
    assert spec["policies"] == {"maxTopics": 7}
    assert not found.failed
    assert await dry_run(admin, found) == []


async def test_of_two_policies_that_do_not_go_together_one_is_left_out(admin: FakeAdmin) -> None:
    live(admin)["retention_policies"] = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 1}
    quota = {"limitSize": 2**30, "limitTime": -1, "policy": "producer_exception"}
    live(admin)["backlog_quota_map"] = {"destination_storage": quota}
    found = await exported(admin)
    (note,) = notes(found)
    assert "policies.retention is" in note and "must be larger than" in note
    assert await dry_run(admin, found) == []


async def test_secrets_are_not_reported_but_their_presence_is(admin: FakeAdmin) -> None:
    offload = {"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": "b", "newMember": 3}
    offload |= {"s3ManagedLedgerOffloadCredentialId": "AKIA", "s3ManagedLedgerOffloadCredentialSecret": "s3cr3t"}
    live(admin)["offload_policies"] = dict(offload)
    live(admin)["properties"] = {"db-password": "s3cr3t"}
    await plain(admin, "PUT", "namespaces", "t", "m")
    admin.pulsar.namespaces["t/m"]["offload_policies"] = offload | {"managedLedgerOffloadDriver": "tape"}
    found = await exported(admin)
    text = text_of(found) + json.dumps(notes(found))
    assert "s3cr3t" not in text and "AKIA" not in text
    (note,) = (n for n in notes(found) if n.startswith("namespace t/n: policies.offload"))
    assert '"managedLedgerOffloadBucket": "b"' in note and '"newMember": 3' in note
    assert '"s3ManagedLedgerOffloadCredentialSecret": "(not shown)"' in note
    assert note.endswith(
        "but is not managed, because no image of this version has an offload driver, which tiered storage requires"
    )
    spec = next(m["spec"] for m in manifests(found) if m["metadata"]["name"] == "t.n")
    assert "offload" not in (spec.get("policies") or {})
    assert await dry_run(admin, found) == []


HOSTILE = ("..", "-", "A", "a b", "a\nkind: Secret", "é", "a%2Fb", "x" * 65536, "t" * 129, "1e3", "yes", "#a", "a: b")


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_names_are_exported_exactly_or_listed(admin: FakeAdmin, name: str) -> None:
    pulsar = admin.pulsar
    pulsar.tenants[name] = {"adminRoles": [name], "allowedClusters": ["a"]}
    pulsar.namespaces[f"t/{name}"] = live(admin) | {}
    for domain in ("persistent", "non-persistent"):
        pulsar.topics["a"][f"{domain}://t/n/{name}"] = pulsar.topics["a"]["persistent://t/n/x"]
    found = await exported(admin)
    text = text_of(found)
    documents = [d for d in yaml.safe_load_all(text) if d is not None]
    for entry in found.entries:
        assert (entry.manifest is None) <= bool(entry.notes)
        assert entry.manifest is None or entry.manifest in documents
    whole = {d["kind"]: [d["spec"].get("name", d["metadata"]["name"]) for d in documents] for d in documents}
    whole = {k: [d["spec"].get("name", d["metadata"]["name"]) for d in documents if d["kind"] == k] for k in whole}
    listed = " ".join(notes(found))
    for kind, expected in (("PulsarTenant", 1), ("PulsarNamespace", 1), ("PulsarTopic", 2)):
        # A part of a path that is ".." is refused before anything is read.
        assert whole[kind].count(name) in {0, expected}
        assert whole[kind].count(name) == expected or name[:50] in listed or json.dumps(name)[1:50] in listed
    assert all(line.startswith("#") for line in text.splitlines() if "NOT EXPORTED" in line)
    assert await dry_run(admin, found) == []


async def test_numbers_and_words_stay_text(admin: FakeAdmin) -> None:
    """Kubernetes' YAML parser takes 1e3 for a number and y for true; PyYAML alone would not quote the first."""
    for name in ("1e3", "y", "0x1F", "0o7", "1_000", "~", "null", "12:30"):
        await plain(admin, "PUT", "persistent", "t", "n", name)
    text = text_of(await exported(admin))
    for name in ("1e3", "y", "0x1F", "0o7", "1_000", "~", "null", "12:30"):
        assert f'  name: "{name}"\n' in text


async def test_partitions_without_their_topic_are_listed(admin: FakeAdmin) -> None:
    admin.pulsar.topics["a"]["persistent://t/n/lost-partition-3"] = admin.pulsar.topics["a"]["persistent://t/n/x"]
    await plain(admin, "PUT", "persistent", "t", "n", "kept", "partitions", body=2)
    found = await exported(admin)
    (note,) = notes(found)
    assert note.startswith("topic persistent://t/n/lost-partition-3: ") and "ends with -partition-N" in note
    assert sorted(m["spec"]["name"] for m in manifests(found) if m["kind"] == "PulsarTopic") == ["kept", "x"]


async def test_local_and_global_policies_of_one_topic(admin: FakeAdmin) -> None:
    path = ("persistent", "t", "n", "x")
    await plain(admin, "POST", *path, "maxProducers", body=3, isGlobal="false")
    await plain(admin, "POST", *path, "maxConsumers", body=4, isGlobal="true")
    found = await exported(admin)
    assert notes(found) == [
        "topic persistent://t/n/x: policies.maxConsumers: the global value 4 is not exported, because a PulsarTopic "
        "sets policies in one scope only"
    ]
    spec = next(m["spec"] for m in manifests(found) if m["kind"] == "PulsarTopic")
    assert spec["policies"] == {"maxProducers": 3} and "policyScope" not in spec
    assert await dry_run(admin, found) == []


async def test_system_objects_are_left_out_unless_asked_for(admin: FakeAdmin) -> None:
    for tenant, namespace, topic in (("pulsar", "system", "lb"), ("public", "functions", "meta")):
        await plain(admin, "PUT", "tenants", tenant, body={"adminRoles": [], "allowedClusters": ["a"]})
        await plain(admin, "PUT", "namespaces", tenant, namespace)
        await plain(admin, "PUT", "persistent", tenant, namespace, topic)
    await plain(admin, "PUT", "persistent", "t", "n", "a-sub__transaction_pending_ack")
    await plain(admin, "PUT", "persistent", "t", "n", "orders-sub-RETRY")
    names = [m["metadata"]["name"] for m in manifests(await exported(admin))]
    assert names == ["public", "t", "t.n", "t.n.orders-sub-retry." + names[3][-12:], "t.n.x"]
    whole = await exported(admin, exclude_system=False)
    kinds = [m["kind"] for m in manifests(whole)]
    assert {k: kinds.count(k) for k in set(kinds)} == {"PulsarTenant": 3, "PulsarNamespace": 3, "PulsarTopic": 3}
    told = [note for note in notes(whole) if "system topic" in note]
    assert len(told) == 5, "system topics are told, and no object can manage them"


async def test_what_is_going_away_or_of_an_old_form(admin: FakeAdmin) -> None:
    await plain(admin, "PUT", "namespaces", "t", "going")
    admin.pulsar.namespaces["t/going"]["deleted"] = True
    admin.pulsar.namespaces["t/a/old"] = {}
    admin.pulsar.tenants["none"] = {"adminRoles": [], "allowedClusters": []}
    found = await exported(admin)
    assert {n.split(":")[0] for n in notes(found)} == {"namespace t/going", "namespace t/a/old", "tenant none"}
    assert not found.failed


async def test_what_cannot_be_read_is_a_failure_and_the_rest_is_exported(admin: FakeAdmin) -> None:
    admin.pulsar.refuse_reads = {"retention": "no permission", "maxProducers": "no permission"}
    path = ("persistent", "t", "n", "x")
    await plain(admin, "POST", *path, "maxConsumers", body=4, isGlobal="false")
    found = await exported(admin)
    assert found.failed
    (note,) = notes(found)
    assert note.startswith("topic persistent://t/n/x: policies.retention, policies.maxProducers could not be read: ")
    spec = next(m["spec"] for m in manifests(found) if m["kind"] == "PulsarTopic")
    assert spec["policies"] == {"maxConsumers": 4}


async def test_policies_of_topics_are_read_only_where_there_are_any(admin: FakeAdmin) -> None:
    await plain(admin, "PUT", "namespaces", "t", "quiet")
    for number in range(20):
        await plain(admin, "PUT", "persistent", "t", "quiet", f"x{number}")
    await plain(admin, "POST", "persistent", "t", "n", "x", "maxConsumers", body=0, isGlobal="false")
    found, calls = await counted(admin)
    assert not [c for c in calls if "quiet" in c.path and c.path[-1] == "maxConsumers"]
    assert len([c for c in calls if c.path[:4] == ("persistent", "t", "n", "x")]) <= len(TOPIC_POLICIES)
    specs = {m["spec"].get("name"): m["spec"] for m in manifests(found)}
    assert specs["x"]["policies"] == {"maxConsumers": 0}
    without, calls = await counted(admin, topic_policies=False)
    assert not [c for c in calls if c.path[-1] in {"maxConsumers", "internalStats"}]
    assert "policies" not in next(m["spec"] for m in manifests(without) if m["spec"].get("name") == "x")
    admin.pulsar.emptied.add("persistent://t/quiet/x1")
    _, calls = await counted(admin)
    assert [c for c in calls if "quiet" in c.path and c.path[-1] == "maxConsumers"]


async def counted(admin: FakeAdmin, **options: Any) -> tuple[Any, list[AdminCall]]:
    """An export and the calls it made."""
    start = len(admin.calls)
    found = await exported(admin, **options)
    return found, admin.calls[start:]


async def test_an_older_pulsar_is_not_asked_for_what_it_lacks(admin: FakeAdmin) -> None:
    await plain(admin, "POST", "persistent", "t", "n", "x", "maxConsumers", body=1, isGlobal="false")
    admin.pulsar.version = "3.0.1"
    _, calls = await counted(admin)
    assert not [c for c in calls if c.path[-1] == "maxConsumers"]


async def test_every_row_is_read_somewhere(admin: FakeAdmin) -> None:
    """The export knows no policy by name: every row's value is where the specification has its field."""
    admin.pulsar.version = "4.2.0"
    await plain(admin, "POST", "persistent", "t", "n", "x", "maxConsumers", body=1, isGlobal="false")
    _, calls = await counted(admin)
    asked = {(c.path[-1]) for c in calls}
    assert {(row.read_endpoint or row.endpoint)[-1] for row in TOPIC_POLICIES} <= asked


async def test_two_thousand_topics() -> None:
    """What is asked grows with the topics, and no faster; how long that takes is no matter of this test."""
    pulsar = ExportPulsar()
    admin = FakeAdmin(pulsar)
    await plain(admin, "PUT", "tenants", "t", body={"adminRoles": [], "allowedClusters": ["a"]})
    for number in range(4):
        await plain(admin, "PUT", "namespaces", "t", f"n{number}")
    for number in range(2_000):
        await plain(admin, "PUT", "persistent", "t", f"n{number % 4}", f"x{number}")
    found, calls = await counted(admin, subscriptions=False, schemas=False)
    assert len(manifests(found)) == 2_005 and notes(found) == []
    assert len(calls) < 60, "nothing is asked of a topic without partitions in a namespace without topic policies"
    found, calls = await counted(admin)
    assert len(manifests(found)) == 2_005 and notes(found) == []
    assert len(calls) < 4_060, "but for its subscriptions and its schema"
