"""A policy that is removed or inherited never shortens what Pulsar keeps without a confirmation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_LOSS, Kind
from pulsar_operator.controllers.core.index import RefIndex, key_of
from pulsar_operator.domain.policies import GLOBAL_POLICIES, LOCAL_POLICIES, NAMESPACE_POLICIES, PolicyRow
from pulsar_operator.ports import CUSTOM
from tests.fakes.pulsar_parts import FakeTopic
from tests.fakes.pulsar_topics import GLOBAL
from tests.support.logical.world import NS, LogicalWorld
from tests.support.policies.examples import nested
from tests.unit.logical.test_kept_amounts import LONGER_FIRST

WEEK = {"timeMinutes": 10080, "size": -1}
DAY = {"timeMinutes": 1440, "size": -1}
TOPIC = "persistent://t/n/x"
COMMAND = re.compile(r"kubectl -n (\S+) annotate --overwrite (\S+)/(\S+) (\S+)=(\S+)")
KINDS = {f"{kind.value.lower()}": kind for kind in (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.TOPIC_SET)}


def minutes(w: LogicalWorld, name: str = "n") -> int | None:
    """The retention of a namespace in Pulsar."""
    found = w.pulsar.namespaces[f"t/{name}"].get("retention_policies")
    return found and int(found["retentionTimeInMinutes"])


def store(w: LogicalWorld, topic: str = TOPIC, *clusters: str, entries: int = 1000) -> None:
    """A topic with entries, in clusters."""
    for cluster in clusters or ("a",):
        w.pulsar.topics.setdefault(cluster, {})[topic] = FakeTopic(entries=entries)


def asked(w: LogicalWorld, kind: Kind = Kind.NAMESPACE, name: str = "n") -> str:
    """What the object asks a person."""
    state, reason, message = w.condition(kind, name, "Accepted")
    assert (state, reason) == ("False", "ConfirmationRequired"), (state, reason, message)
    return message


def commands(message: str) -> list[tuple[Kind, str, dict[str, str]]]:
    """Objects that may be annotated, and with what."""
    return [(KINDS[kind], name, {key: value}) for _, kind, name, key, value in COMMAND.findall(message)]


def document(row: PolicyRow, value: Any) -> dict[str, Any]:
    """Policies with that value alone."""
    policies: dict[str, Any] = nested({row.path: value})["policies"]
    return policies


def confirm(w: LogicalWorld, message: str, which: int = 0) -> None:
    """Type the command."""
    kind, name, annotations = commands(message)[which]
    obj = w.get(kind, name)
    assert obj is not None
    w.put(kind, name, obj["spec"], annotations=annotations)


async def kept_by(defaults: dict[str, Any] | None = None, **policies: Any) -> LogicalWorld:
    """A namespace whose policies are as given, with one topic that stores something."""
    w = LogicalWorld()
    spec: dict[str, Any] = {"namespaceDefaults": defaults} if defaults else {}
    w.tenant(**spec)
    w.namespace(policies=policies)
    await w.run()
    store(w)
    await w.run()
    return w


# ------------------------------------------------------------------------------------------------- namespaces


async def test_a_line_that_is_removed_asks_and_names_all_that_matters() -> None:
    w = await kept_by(retention=WEEK, maxTopics=5)
    w.namespace(policies={"maxTopics": 7})
    await w.run()
    assert minutes(w) == 10080
    message = asked(w)
    assert w.condition(Kind.NAMESPACE, "n")[0] == "False"
    assert "spec.policies.retention" in message and '"timeMinutes": 10080' in message and "keeps 0+0" in message
    assert re.search(r"\d+ bytes in a\)\.", message)
    assert w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] == 7, "an unrelated field waits for nothing"
    assert "policies.retention" in w.status(Kind.NAMESPACE, "n")["managedFields"]
    assert await w.second_pass_writes() == ([], [])
    confirm(w, message)
    await w.run()
    assert minutes(w) is None
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["policies.maxTopics"]


async def test_the_whole_block_is_no_other_question() -> None:
    w = await kept_by(retention=WEEK, messageTTLSeconds=0)
    w.namespace()
    await w.run()
    assert minutes(w) == 10080
    assert len(commands(asked(w))) == 1, "retention; no TTL is the default anyway, and the tenant changed nothing"


async def test_a_default_that_is_dropped_asks_each_namespace() -> None:
    w = await kept_by({"retention": WEEK})
    w.namespace("other")
    await w.run()
    store(w, "persistent://t/other/y")
    w.tenant()
    await w.run()
    assert minutes(w) == minutes(w, "other") == 10080
    confirm(w, asked(w))
    await w.run()
    assert (minutes(w), minutes(w, "other")) == (None, 10080), "one namespace answers for itself"
    message = asked(w, name="other")
    assert commands(message)[1][:2] == (Kind.TENANT, "t")
    confirm(w, message, 1)
    await w.run()
    assert minutes(w, "other") is None


async def test_a_lower_default_asks_and_a_longer_one_does_not() -> None:
    w = await kept_by({"retention": DAY})
    w.tenant(namespaceDefaults={"retention": WEEK})
    await w.run()
    assert minutes(w) == 10080
    w.tenant(namespaceDefaults={"retention": DAY, "messageTTLSeconds": 60})
    await w.run()
    message = asked(w)
    assert minutes(w) == 10080
    assert "message_ttl_in_seconds" not in w.pulsar.namespaces["t/n"], "a TTL that is new is shorter than none"
    assert "spec.namespaceDefaults of PulsarTenant t sets policies.messageTTLSeconds to 60" in message
    assert "DriftRepaired" not in w.reasons(Kind.NAMESPACE)
    confirm(w, message)
    await w.run()
    done = (minutes(w) == 1440, "message_ttl_in_seconds" in w.pulsar.namespaces["t/n"])
    assert sum(done) == 1, "one answer is to one question"
    confirm(w, asked(w))
    await w.run()
    assert (minutes(w), w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"]) == (1440, 60)
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"


async def test_several_answers_in_one_annotation() -> None:
    w = await kept_by({"retention": WEEK})
    w.tenant(namespaceDefaults={"retention": DAY, "messageTTLSeconds": 60})
    await w.run()
    answers = [value for kind, _, each in commands(asked(w)) if kind is Kind.NAMESPACE for value in each.values()]
    w.namespace(policies={}, annotations={ANNOTATION_CONFIRM_LOSS: ", ".join(answers)})
    await w.run()
    assert (minutes(w), w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"]) == (1440, 60)


async def test_a_value_of_the_object_itself_is_consent() -> None:
    w = await kept_by({"retention": WEEK})
    w.namespace(policies={"retention": DAY, "messageTTLSeconds": 60})
    await w.run()
    assert (minutes(w), w.pulsar.namespaces["t/n"]["message_ttl_in_seconds"]) == (1440, 60)
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"


async def test_a_value_that_gives_way_to_a_shorter_default_asks() -> None:
    w = await kept_by({"retention": DAY}, retention=WEEK)
    w.namespace()
    await w.run()
    assert minutes(w) == 10080
    assert "spec.namespaceDefaults of PulsarTenant t sets policies.retention to " in asked(w)
    w.tenant(namespaceDefaults={"retention": WEEK})
    await w.run()
    assert minutes(w) == 10080
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True", "the question is gone with its cause"


async def test_a_foreign_longer_value_is_not_taken_down_by_a_removal_or_a_default() -> None:
    w = await kept_by({"messageTTLSeconds": 60}, retention=DAY)
    live = w.pulsar.namespaces["t/n"]
    live["retention_policies"] = {"retentionTimeInMinutes": 99999, "retentionSizeInMB": -1}
    live["message_ttl_in_seconds"] = 7200
    w.namespace()
    await w.run()
    message = asked(w)
    assert minutes(w) == 99999 and live["message_ttl_in_seconds"] == 7200
    assert '"timeMinutes": 99999' in message and "7200" in message


async def test_a_namespace_that_is_taken_over_keeps_what_it_has() -> None:
    w = await kept_by({"retention": WEEK})
    w.delete(Kind.NAMESPACE, "n")
    w.tenant(namespaceDefaults={"retention": DAY})
    await w.run()
    w.namespace()
    await w.run()
    assert minutes(w) == 10080
    assert "bytes in a" in asked(w)


async def test_an_old_answer_answers_no_new_question() -> None:
    w = await kept_by(retention=WEEK)
    w.namespace()
    await w.run()
    _, _, old = commands(asked(w))[0]
    w.namespace(policies={"retention": WEEK}, annotations=old)
    await w.run()
    w.namespace(annotations=old)
    await w.run()
    assert minutes(w) == 10080, "the same loss by another specification"
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    w.namespace(policies={"retention": WEEK}, annotations=old)
    await w.run()
    w.namespace(annotations=old)
    await w.run()
    assert minutes(w) == 10080, "another object of the same name"


async def test_an_answer_for_another_value_does_not_count() -> None:
    w = await kept_by(retention=WEEK)
    w.namespace()
    await w.run()
    message = asked(w)
    w.pulsar.namespaces["t/n"]["retention_policies"] = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    confirm(w, message)
    await w.run()
    assert minutes(w) == -1


async def test_where_nothing_is_stored_nothing_is_asked() -> None:
    w = await kept_by({"messageTTLSeconds": 60}, retention=WEEK)
    w.pulsar.topics["a"][TOPIC].entries = 0
    w.namespace()
    await w.run()
    assert minutes(w) is None
    w.namespace("new")
    await w.run()
    assert w.pulsar.namespaces["t/new"]["message_ttl_in_seconds"] == 60, "a new namespace has its defaults at once"


async def test_what_is_inherited_is_compared_with_what_is_set() -> None:
    w = await kept_by(retention=DAY)
    w.pulsar.dynamic["a"] = {"defaultRetentionTimeInMinutes": "10080", "defaultRetentionSizeInMB": "-1"}
    w.namespace()
    await w.run()
    assert minutes(w) is None, "the brokers keep more"


async def test_what_a_cluster_does_not_report_is_said_to_be_unknown() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace(policies={"retention": WEEK})
    await w.run()
    store(w, TOPIC, "a")
    w.cluster_status("b", ready=False)
    w.namespace()
    await w.run()
    assert minutes(w) == 10080
    message = asked(w)
    assert "an unknown number of bytes in b" in message and re.search(r"\d+ bytes in a", message)
    w.pulsar.topics["a"][TOPIC].entries = 0
    await w.run()
    assert minutes(w) == 10080, "unknown is not nothing"


async def test_the_size_is_asked_for_once_in_a_while() -> None:
    w = await kept_by(retention=WEEK)
    w.namespace()
    await w.run()
    with w.admin.recording() as made:
        await w.reconcile(Kind.NAMESPACE, "n")
    assert not [path for _, path in made if path.endswith("internalStats")]


async def test_a_dry_run_shows_the_question_and_does_nothing() -> None:
    w = await kept_by(retention=WEEK)
    w.namespace(annotations={"pulsaroperator.io/dry-run": "true"})
    await w.run()
    assert minutes(w) == 10080
    assert "confirm-loss" in asked(w)


NAMESPACE_ROWS = [row for row in NAMESPACE_POLICIES if row.keeps is not None and row.unavailable is None]


@pytest.mark.parametrize("row", NAMESPACE_ROWS, ids=lambda row: row.field)
async def test_every_row_of_a_namespace_asks_before_a_default_shortens_it(row: PolicyRow) -> None:
    most, *_, less = LONGER_FIRST[row.path]
    w = LogicalWorld()
    w.tenant(namespaceDefaults=document(row, most))
    w.namespace()
    await w.run()
    store(w)
    live = row.read(w.pulsar.namespaces["t/n"], "a")
    w.tenant(namespaceDefaults=document(row, less))
    await w.run()
    assert row.read(w.pulsar.namespaces["t/n"], "a") == live
    assert f"sets {row.path} to" in asked(w)
    confirm(w, asked(w), 1)
    await w.run()
    assert row.in_sync(less, row.read(w.pulsar.namespaces["t/n"], "a"))


async def test_a_policy_that_is_no_longer_supported_asks_before_it_is_reset() -> None:
    """Set by an earlier version of the operator, and taken out."""
    (row,) = (row for row in NAMESPACE_POLICIES if row.unavailable is not None and row.keeps is not None)
    w = await kept_by(maxTopics=3)
    live = w.pulsar.namespaces["t/n"]
    live["offload_policies"] = row.encode(LONGER_FIRST[row.path][0])
    status = w.status(Kind.NAMESPACE, "n")
    managed = [*status["managedFields"], row.field]
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", {**status, "managedFields": managed})
    await w.run()
    assert "keeps 14400000" in asked(w)
    assert "offload_policies" in live
    confirm(w, asked(w))
    await w.run()
    assert "offload_policies" not in live


# ----------------------------------------------------------------------------------------------------- topics


async def topic(*clusters: str, **spec: Any) -> LogicalWorld:
    """A topic that stores something."""
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace()
    w.topic(**spec)
    await w.run()
    for cluster in clusters or ("a",):
        for each in w.pulsar.topics[cluster].values():
            each.entries = 1000
    return w


def of_topic(w: LogicalWorld, where: str = "a", name: str = TOPIC) -> int | None:
    """Its own retention in a cluster."""
    found = w.pulsar.topic_policies.get((where, name), {}).get("retention")
    return found and int(found["retentionTimeInMinutes"])


TOPIC_ROWS = [row for row in (*LOCAL_POLICIES, *GLOBAL_POLICIES) if row.keeps is not None and row.unavailable is None]


@pytest.mark.parametrize("row", TOPIC_ROWS, ids=lambda row: row.field)
async def test_every_row_of_a_topic_asks_before_it_is_reset(row: PolicyRow) -> None:
    most, *_, less = LONGER_FIRST[row.path]
    scope = "Global" if row.field.endswith("@Global") else "Local"
    w = LogicalWorld()
    w.pulsar.version = w.version = "4.2.4"
    w.cluster_status("a", ready=True)
    w.tenant()
    w.namespace(policies=document(row, less))
    w.topic(policies=document(row, most), policyScope=scope)
    await w.run()
    store(w)
    w.topic(policyScope=scope)
    await w.run()
    assert f"spec.{row.path} is no longer declared" in asked(w, Kind.TOPIC, "x")
    assert row.field in w.status(Kind.TOPIC, "x")["managedFields"]
    confirm(w, asked(w, Kind.TOPIC, "x"))
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert "managedFields" not in w.status(Kind.TOPIC, "x") or not w.status(Kind.TOPIC, "x")["managedFields"]


async def test_a_topic_falls_back_to_what_its_namespace_keeps() -> None:
    w = await topic(policies={"retention": DAY})
    w.namespace(policies={"retention": WEEK})
    w.topic()
    await w.run()
    assert of_topic(w) is None, "the namespace keeps more"


async def test_a_topic_names_the_bytes_of_its_partitions_in_each_cluster() -> None:
    w = await topic("a", "b", policies={"retention": WEEK}, partitions=2)
    w.topic(partitions=2)
    await w.run()
    message = asked(w, Kind.TOPIC, "x")
    assert re.search(r"\d+ bytes in a, \d+ bytes in b", message)
    assert (of_topic(w, "a"), of_topic(w, "b")) == (10080, 10080)


async def test_a_silent_cluster_is_unknown_for_a_policy_that_counts_there_too() -> None:
    w = await topic("a", "b", policies={"retention": WEEK}, policyScope="Global")
    w.pulsar.topics["a"][TOPIC].entries = 0
    w.cluster_status("b", ready=False)
    w.topic(policyScope="Global")
    await w.run()
    assert "an unknown number of bytes in b" in asked(w, Kind.TOPIC, "x")
    assert of_topic(w, GLOBAL) == 10080


@pytest.mark.parametrize(("old", "new"), [("Local", "Global"), ("Global", "Local")])
async def test_a_change_of_scope_is_no_question(old: str, new: str) -> None:
    w = await topic(policies={"retention": WEEK}, policyScope=old)
    w.topic(policies={"retention": WEEK}, policyScope=new)
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert w.status(Kind.TOPIC, "x")["managedFields"] == ["policies.retention" + ("@Global" if new == "Global" else "")]


# ------------------------------------------------------------------------------------------------------- sets


async def test_a_set_asks_once_for_all_of_its_topics() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topics(names=["x", "y"], template={"policies": {"retention": WEEK, "maxProducers": 3}})
    await w.run()
    for name in ("x", "y"):
        store(w, f"persistent://t/n/{name}")
    w.topics(names=["x", "y"], template={"policies": {"maxProducers": 4}})
    await w.run()
    assert [of_topic(w, "a", f"persistent://t/n/{name}") for name in ("x", "y")] == [10080, 10080]
    assert w.pulsar.topic_policies["a", TOPIC]["maxProducers"] == 4
    _, _, message = w.condition(Kind.TOPIC_SET, "s", "Accepted")
    assert "spec.template.policies.retention is no longer declared" in message
    assert "policies.retention" in w.status(Kind.TOPIC_SET, "s")["managedFields"]
    (command,) = commands(message)
    assert command[:2] == (Kind.TOPIC_SET, "s")
    confirm(w, message)
    await w.run()
    assert [of_topic(w, "a", f"persistent://t/n/{name}") for name in ("x", "y")] == [None, None]
    assert w.condition(Kind.TOPIC_SET, "s")[0] == "True"


def test_the_command_is_for_the_kubernetes_namespace_of_the_object() -> None:
    assert COMMAND.findall(f"kubectl -n {NS} annotate --overwrite pulsartopic/x k=v")[0][0] == NS


def test_a_confirmation_at_the_tenant_wakes_its_namespaces() -> None:
    index = RefIndex()
    meta = {"namespace": NS, "uid": "1", "generation": 1}
    tenant: dict[str, Any] = {"metadata": {**meta, "name": "t"}, "spec": {"instanceRef": {"name": "prod"}}}
    namespace = {"metadata": {**meta, "name": "n", "uid": "2"}, "spec": {"tenantRef": {"name": "t"}}}
    index.update(Kind.TENANT, tenant)
    index.update(Kind.NAMESPACE, namespace)
    changed = {**tenant, "metadata": {**tenant["metadata"], "annotations": {ANNOTATION_CONFIRM_LOSS: "x"}}}
    assert index.update(Kind.TENANT, changed).referrers == {key_of(Kind.NAMESPACE, namespace)}
