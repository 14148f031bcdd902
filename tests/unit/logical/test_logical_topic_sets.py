"""PulsarTopicSet through its controller: made, changed, drifted, refused, silent, shared, paused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.topicset.topic_schedule import CANARIES, SETTLE_SECONDS
from pulsar_operator.ports import CUSTOM, ConflictError, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, TTL, SetWorld, count, drift
from tests.support.logical.world import DRY_RUN, NS, PAUSED


@pytest.mark.parametrize("clusters", [("a",), ("a", "b")])
@pytest.mark.parametrize("partitions", [None, 2])
async def test_made_and_then_nothing_more_is_written(clusters: tuple[str, ...], partitions: int | None) -> None:
    w = await SetWorld.made(*clusters)
    template = {**TTL, "properties": {"k": "v"}} | ({"partitions": partitions} if partitions else {})
    w.topics("s", **count(30), template=template)
    await w.work()
    for cluster in clusters:
        names = {f"x-{n}" for n in range(30)}
        parts = {f"{name}-partition-{i}" for name in names for i in range(partitions)} if partitions else names
        # The partitions of a topic appear in another cluster when somebody uses them there.
        if cluster == "a" or partitions is None:
            assert parts <= w.local(cluster)
        assert w.policies("x-7", cluster) == {"messageTTL": 60}
    assert w.condition(SET, "s")[:2] == ("True", "Ready")
    assert w.counts() == {"desired": 30, "ready": 30}
    assert "owned" not in w.status(SET, "s")
    assert [reason for reason, _ in w.told()].count("Created") <= 2, "told together"
    await w.run()
    w.clock.time += timedelta(minutes=10)
    assert await w.second_pass_writes() == ([], [])


async def test_a_changed_template_and_a_removed_field() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template={"policies": {"messageTTLSeconds": 60, "maxProducers": 5}})
    await w.work()
    w.topics("s", **count(30), template={"policies": {"messageTTLSeconds": 90}})
    with w.admin.recording() as writes:
        await w.work()
    assert len(writes) == 60, "one to set, one to reset, for each topic"
    assert w.policies("x-29") == {"messageTTL": 90}
    assert w.status(SET, "s")["managedFields"] == ["policies.messageTTLSeconds"]
    assert "DriftRepaired" not in w.reasons(SET)


async def test_drift_is_repaired_and_counted() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    await w.work()
    await drift(w)
    assert {w.policies(f"x-{n}")["messageTTL"] for n in range(30)} == {60}
    (message,) = [message for reason, message in w.told() if reason == "DriftRepaired"]
    assert message.startswith("3 topics (x-3, x-4, x-17), such as x-3: Repair spec.template.policies.messageTTLSeconds")
    assert w.condition(SET, "s")[0] == "True"


async def test_drift_is_reported_with_examples_and_left() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL, driftPolicy="Report")
    await w.work()
    with w.admin.recording() as writes:
        await drift(w)
    assert writes == []
    status = w.status(SET, "s")
    assert w.counts() == {"desired": 30, "ready": 27, "drifted": 3}
    (entry,) = status["drift"]
    assert entry["field"] == "template.policies.messageTTLSeconds"
    assert entry["desired"] == "60"
    assert entry["actual"] == "9 in cluster a (topic x-3), and 2 more topics differ"
    assert [e["name"] for e in status["examples"]] == ["x-3", "x-4", "x-17"]
    assert status["examples"][0]["reason"] == "DriftDetected"
    assert w.condition(SET, "s", "Drifted")[:2] == ("True", "DriftDetected")
    # A change of the template is no drift.
    w.topics("s", **count(30), template={"policies": {"messageTTLSeconds": 70}}, driftPolicy="Report")
    await w.work()
    assert {w.policies(f"x-{n}")["messageTTL"] for n in range(30)} == {70}
    assert w.counts() == {"desired": 30, "ready": 30}


async def test_reported_drift_survives_a_restart_and_is_not_overwritten() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL, driftPolicy="Report")
    await w.work()
    await drift(w)
    w.restart()
    with w.admin.recording() as writes:
        await w.wait(3600)
    assert writes == []
    assert w.counts() == {"desired": 30, "ready": 27, "drifted": 3}


async def test_a_lost_topic_is_made_again() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    await w.work()
    w.pulsar._drop_topic("persistent://t/n/x-5")
    await w.work()
    assert w.policies("x-5") == {"messageTTL": 60}
    assert [reason for reason, _ in w.told() if reason == "Repaired"] == ["Repaired"]


async def test_refused_in_the_middle() -> None:
    """One topic cannot have the value; the others have it, and it is looked at ever more rarely."""
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    await w.work()
    w.pulsar.topics["a"]["persistent://t/n/x-25"] = FakeTopic()
    w.pulsar.partitioned["persistent://t/n/x-25"] = 4
    w.topics("s", **count(30), template={"policies": {"messageTTLSeconds": 70}})
    await w.work()
    assert w.counts() == {"desired": 30, "ready": 29, "refused": 1}
    status, reason, message = w.condition(SET, "s")
    assert (status, reason) == ("False", "ImmutableInPulsar")
    assert message.startswith(
        "1 topics cannot match the template, such as x-25: persistent://t/n/x-25 is a partitioned topic"
    )
    mark = len(w.admin.calls)
    assert await w.wait(3600) <= 10
    assert not any(call.is_write for call in w.admin.calls[mark:])
    del w.pulsar.partitioned["persistent://t/n/x-25"]
    await w.wait(700)
    assert w.counts() == {"desired": 30, "ready": 30}


async def test_a_template_that_is_refused_for_all_stops_at_the_first_few() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(200), template=TTL)
    await w.work()
    w.pulsar.refuse["maxProducers"] = "not here"
    w.topics("s", **count(200), template={"policies": {"messageTTLSeconds": 60, "maxProducers": 3}})
    mark = len(w.admin.calls)
    await w.work()
    assert w.counts() == {"desired": 200, "refused": CANARIES, "pending": 200 - CANARIES}
    assert w.calls_since(mark)["POST maxProducers"] <= 2 * CANARIES
    message = w.condition(SET, "s", "Accepted")[2]
    assert "spec.template.policies.maxProducers" in message and "not here" in message
    assert f"{200 - CANARIES} more topics are not tried yet" in message
    assert w.status(SET, "s")["refusedFields"] == ["policies.maxProducers"]
    del w.pulsar.refuse["maxProducers"]
    await w.wait(600)
    assert w.counts() == {"desired": 200, "ready": 200}


async def test_a_passing_error_is_only_that() -> None:
    w = await SetWorld.made()
    failures = {"x-3": 1, "x-9": 2}

    def fail(call: AdminCall) -> None:
        name = call.path[3] if len(call.path) > 4 else ""
        if call.method == "POST" and failures.get(name, 0):
            failures[name] -= 1
            raise UnavailableError("HTTP 503") if name == "x-3" else ConflictError("HTTP 409")

    w.admin.before.append(fail)
    w.topics("s", **count(30), template=TTL)
    await w.work()
    await w.wait(120)
    assert w.counts() == {"desired": 30, "ready": 30}
    assert w.condition(SET, "s")[0] == "True"


async def test_a_silent_cluster_is_named_and_gets_what_it_missed() -> None:
    w = await SetWorld.made("a", "b")
    w.topics("s", **count(150), template=TTL, driftPolicy="Report")
    await w.work()
    w.admin.down.add("b")
    w.topics("s", **count(150), template={"policies": {"messageTTLSeconds": 70}}, driftPolicy="Report")
    await w.work()
    status, reason, message = w.condition(SET, "s")
    assert (status, reason) == ("Unknown", "AdminUnreachable")
    assert "do not answer: b (since 2026-01-01T" in message
    assert "In the other clusters 150 of 150 topics are in sync" in message
    assert w.policies("x-149") == {"messageTTL": 70}
    mark = len(w.admin.calls)
    await w.wait(3600)
    asked = [call for call in w.admin.calls[mark:] if call.cluster == "b"]
    assert 10 < len(asked) < 50, "ever more rarely"
    w.restart()
    await w.work()
    w.admin.down.clear()
    await w.wait(300)
    assert w.policies("x-149", "b") == {"messageTTL": 70}, "a change of the template is no drift"
    assert w.condition(SET, "s")[0] == "True"
    assert w.counts() == {"desired": 150, "ready": 150}


async def test_no_cluster_answers() -> None:
    w = await SetWorld.made("a")
    w.topics("s", **count(30), template=TTL)
    await w.work()
    w.admin.down.add("a")
    outcome = await w.work()
    assert w.condition(SET, "s")[:2] == ("Unknown", "AdminUnreachable")
    assert outcome.requeue_after is not None
    since = w.status(SET, "s")["clusters"][0]["unreachableSince"]
    writes = len(w.kube.changes)
    await w.wait(600)
    assert len(w.kube.changes) == writes, "a silent cluster is told once"
    assert w.status(SET, "s")["clusters"][0]["unreachableSince"] == since
    w.admin.down.clear()
    await w.wait(300)
    assert w.condition(SET, "s")[0] == "True"


async def test_a_cluster_that_falls_silent_during_a_round() -> None:
    w = await SetWorld.made("a")
    made = 0

    def fall(call: AdminCall) -> None:
        nonlocal made
        made += call.method == "PUT"
        if made > 50:
            w.admin.down.add("a")

    w.admin.before.append(fall)
    w.topics("s", **count(400), template=TTL)
    mark = len(w.admin.calls)
    await w.work()
    assert len(w.admin.calls) - mark < 400, "the round ends"
    assert w.condition(SET, "s")[0] != "True"
    w.admin.before.clear()
    w.admin.down.clear()
    await w.wait(900)
    assert w.counts() == {"desired": 400, "ready": 400}


# ------------------------------------------------------------------------------------------------------- others' topics


async def test_a_topic_of_its_own_wins() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    w.topic("own", name="x-5", policies={"messageTTLSeconds": 99})
    await w.work()
    await w.run()
    await w.work()
    assert w.policies("x-5") == {"messageTTL": 99}
    assert w.counts() == {"desired": 30, "ready": 29, "conflicting": 1}
    status, reason, message = w.condition(SET, "s", "Accepted")
    assert (status, reason) == ("False", "Duplicate")
    assert "x-5: PulsarTopic apps/own manages the topic" in message
    w.delete(Kind.TOPIC, "own")
    await w.wait(60)
    assert w.policies("x-5") == {"messageTTL": 60}
    assert w.condition(SET, "s")[0] == "True"


async def test_an_older_set_wins() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    await w.work()
    w.topics("young", names=["x-3", "y"], template={"policies": {"messageTTLSeconds": 5}})
    w.kube.edit(CUSTOM[SET], NS, "young", lambda obj: obj["metadata"].update(creationTimestamp="2027-01-01T00:00:00Z"))
    await w.work("young")
    await w.work("s")
    assert w.policies("x-3") == {"messageTTL": 60}
    assert w.policies("y") == {"messageTTL": 5}
    assert w.counts("young") == {"desired": 2, "ready": 1, "conflicting": 1}
    assert "x-3: PulsarTopicSet apps/s, which " in w.condition(SET, "young", "Accepted")[2]
    assert w.condition(SET, "s")[0] == "True"


async def test_patterns_manage_what_is_there_and_make_nothing() -> None:
    w = await SetWorld.made("a", "b")
    for cluster in ("a", "b"):
        names = ("in-1", "out-1", "__change_events") if cluster == "a" else ("in-2",)
        w.pulsar.topics.setdefault(cluster, {}).update({f"persistent://t/n/{name}": FakeTopic() for name in names})
    w.pulsar.partitioned["persistent://t/n/in-p"] = 2
    w.pulsar.topics["a"].update({f"persistent://t/n/in-p-partition-{i}": FakeTopic() for i in range(2)})
    before = w.local("a"), w.local("b")
    w.topics("s", patterns=["in-*", "__*"], template=TTL)
    await w.work()
    assert (w.local("a"), w.local("b")) == before
    assert w.policies("in-1") == w.policies("in-2", "b") == w.policies("in-p") == {"messageTTL": 60}
    assert w.policies("out-1") == w.policies("__change_events") == {}
    assert w.counts() == {"desired": 3, "ready": 3}
    w.pulsar.topics["b"]["persistent://t/n/in-3"] = FakeTopic()
    w.pulsar._drop_topic("persistent://t/n/in-1")
    w.clock.time += timedelta(minutes=10)
    await w.work()
    assert w.policies("in-3", "b") == {"messageTTL": 60}
    assert "in-1" not in w.local("a")
    assert w.counts() == {"desired": 3, "ready": 3}


# --------------------------------------------------------------------------------------------------- pause and dry run


@pytest.mark.parametrize(("annotations", "reason"), [(PAUSED, "Paused"), (DRY_RUN, "DryRun")])
async def test_held(annotations: dict[str, str], reason: str) -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"), template=TTL, annotations=annotations)
    with w.admin.recording() as writes:
        await w.work()
        await w.wait(1800)
    assert writes == []
    assert w.condition(SET, "s")[:2] == ("False", reason)
    obj = w.get(SET, "s")
    assert obj is not None and not obj["metadata"].get("finalizers")
    pending = w.status(SET, "s").get("pendingActions") or []
    if reason == "DryRun":
        assert len(pending) == 60
        assert pending[0].startswith("x-0: Create topic persistent://t/n/x-0")
    w.topics("s", **count(30, deletionPolicy="Delete"), template=TTL, annotations={})
    await w.work()
    assert w.counts() == {"desired": 30, "ready": 30}
    assert w.condition(SET, "s")[0] == "True"


async def test_a_dry_run_of_many_shows_some() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(400), annotations=DRY_RUN)
    await w.work()
    pending = w.status(SET, "s")["pendingActions"]
    assert len(pending) == 200
    assert pending[-1] == "and 201 more actions"


async def test_an_invalid_specification() -> None:
    w = await SetWorld.made()
    w.topics("s", count={"prefix": 3})
    await w.work()
    assert w.condition(SET, "s")[:2] == ("False", "InvalidSpec")


async def test_the_namespace_counts_its_sets() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(2))
    w.topic("y")
    await w.run()
    assert w.status(Kind.NAMESPACE, "n")["dependents"] == 2


async def test_a_small_set_is_not_read_at_each_event() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    await w.work()
    w.clock.time += timedelta(minutes=SETTLE_SECONDS / 60 - 0.1)
    mark = len(w.admin.calls)
    await w.work()
    assert w.calls_since(mark)["GET messageTTL"] == 0
    w.clock.time += timedelta(minutes=1)
    await w.work()
    assert w.calls_since(mark)["GET messageTTL"] == 30
