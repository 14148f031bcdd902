"""A set deletes what Pulsar names it for: not a topic it refused, nor one that somebody else has taken over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.api.v1alpha1.topic_set import OwnedTopics
from pulsar_operator.domain.logical import topic_set
from pulsar_operator.domain.logical.topic_set import digests_of
from pulsar_operator.ports import CUSTOM, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.fakes.pulsar_topics import GLOBAL
from tests.support.logical.topic_sets import SET, TTL, SetWorld, count
from tests.support.logical.world import DRY_RUN, NS, PAUSED

MINE = f"{SET.value} apps/s"


def theirs(w: SetWorld, local: str, partitions: int | None) -> str:
    """Another team's empty topic, with a policy of its own."""
    full, here = f"persistent://t/n/{local}", w.pulsar.topics.setdefault("a", {})
    if partitions:
        w.pulsar.partitioned[full] = partitions
        here.update({f"{full}-partition-{i}": FakeTopic() for i in range(partitions)})
    else:
        here[full] = FakeTopic()
    w.pulsar.topic_policies["a", full] = {"retention": {"retentionTimeInMinutes": 10080, "retentionSizeInMB": -1}}
    return full


def recorded(w: SetWorld, local: str, where: str = "a") -> str | None:
    """Whom Pulsar names for a topic."""
    return w.pulsar.topic_properties.get((where, f"persistent://t/n/{local}"), {}).get(OWNER_PROPERTY)


def selections() -> list[Any]:
    """The two ways a set makes topics: with those to begin with, and without x-1."""
    return [
        pytest.param({"names": ["x-0", "x-1"]}, {"names": ["x-0"]}, id="names"),
        pytest.param(count(2), count(1), id="count"),
    ]


@pytest.mark.parametrize("template", [{}, {"partitions": 2}])
@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize(("before", "after"), selections())
async def test_a_topic_that_was_refused_is_not_deleted_when_it_leaves(
    before: dict[str, Any], after: dict[str, Any], deleted: bool, template: dict[str, Any]
) -> None:
    w = await SetWorld.made()
    full = theirs(w, "x-1", None if template else 4)
    w.topics("s", **before, deletionPolicy="Delete", template=template)
    await w.work()
    assert w.counts() == {"desired": 2, "ready": 1, "refused": 1}
    if deleted:
        w.delete(SET, "s")
    else:
        w.topics("s", **after, deletionPolicy="Delete", template=template)
    await w.wait(120)
    assert full in w.pulsar.topics["a"] or full in w.pulsar.partitioned
    assert ("a", full) in w.pulsar.topic_policies, "with its policies"
    assert not {each for each in w.local() if each.startswith("x-0")} or not deleted
    if deleted:
        assert w.get(SET, "s") is None
    else:
        assert w.condition(SET, "s")[0] == "True"
        (text,) = [message for reason, message in w.told() if reason == "HandedOver"]
        assert text.startswith("1 topics were removed from the set, but stay in Pulsar (x-1)")


@pytest.mark.parametrize("template", [{}, {"partitions": 2}])
async def test_a_topic_of_the_set_names_it_from_the_beginning_on(template: dict[str, Any]) -> None:
    """Its record comes with its creation, at no call of its own."""
    w = await SetWorld.made()
    mark = len(w.admin.calls)
    w.topics("s", **count(3), template=template)
    await w.work()
    where = GLOBAL if template else "a"
    assert {recorded(w, f"x-{n}", where) for n in range(3)} == {MINE}
    assert w.calls_since(mark)["PUT properties"] == 0
    assert w.status(SET, "s")["ownerRecorded"] is True


async def test_a_topic_that_was_there_is_recorded_once_and_goes_with_the_set() -> None:
    w = await SetWorld.made()
    w.pulsar.topics.setdefault("a", {})["persistent://t/n/x-1"] = FakeTopic()
    w.topics("s", **count(2, deletionPolicy="Delete"))
    await w.work()
    assert recorded(w, "x-1") == MINE
    mark = len(w.admin.calls)
    w.restart()
    await w.wait(1200)
    assert not {each for each in w.calls_since(mark) if each.endswith(" properties")}
    w.delete(SET, "s")
    await w.work()
    assert w.local() == set()


async def test_topics_of_a_set_from_before_there_were_records_are_recorded_in_its_rounds() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(3, deletionPolicy="Delete"))
    await w.work()
    for held in w.pulsar.topic_properties.values():
        held.clear()
    status = w.status(SET, "s")
    del status["ownerRecorded"]
    w.kube.set_status(CUSTOM[SET], NS, "s", status)
    w.restart()
    await w.work()
    await w.wait(1200)
    await w.work()  # at the next resync
    assert {recorded(w, f"x-{n}") for n in range(3)} == {MINE}
    assert w.status(SET, "s")["ownerRecorded"] is True


async def test_one_whose_record_another_client_changed_stays() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(3, deletionPolicy="Delete"))
    await w.work()
    w.pulsar.topic_properties["a", "persistent://t/n/x-2"][OWNER_PROPERTY] = "PulsarTopic other/x-2"
    w.topics("s", **count(2, deletionPolicy="Delete"))
    await w.work()
    assert w.local() == {"x-0", "x-1", "x-2"}


@pytest.mark.parametrize("record", ["nonsense", None])
async def test_one_whose_record_cannot_be_read_stays_and_blocks(record: str | None) -> None:
    w = await SetWorld.made()
    w.topics("s", **count(3, deletionPolicy="Delete"))
    await w.work()

    def mute(call: AdminCall) -> None:
        if call.method == "GET" and call.path[-1] == "properties":
            raise UnavailableError("HTTP 500: no", status=500)

    if record is None:
        w.admin.before.append(mute)
    else:
        w.pulsar.topic_properties["a", "persistent://t/n/x-2"][OWNER_PROPERTY] = record
    w.topics("s", **count(2, deletionPolicy="Delete"))
    await w.work()
    assert w.local() == {"x-0", "x-1", "x-2"}
    assert w.counts()["pendingDeletion"] == 1
    assert w.condition(SET, "s")[0] == "False"


def aged(w: SetWorld, name: str, created: str, uid: str = "") -> None:
    """When a set was made."""

    def edit(obj: Any) -> None:
        obj["metadata"].update(creationTimestamp=created, **({"uid": uid} if uid else {}))

    w.kube.edit(CUSTOM[SET], NS, name, edit)


async def test_an_older_set_by_pattern_keeps_no_set_from_making_topics() -> None:
    w = await SetWorld.made()
    w.topics("pattern", patterns=["*"], template=TTL)
    aged(w, "pattern", "2020-01-01T00:00:00Z")
    w.topics("s", **count(3, deletionPolicy="Delete"), template={"policies": {"messageTTLSeconds": 5}})
    for _ in range(3):
        await w.work("pattern")
        await w.work("s")
    assert w.local() == {"x-0", "x-1", "x-2"}
    assert w.counts("s") == {"desired": 3, "ready": 3}
    assert w.counts("pattern") == {"desired": 3, "conflicting": 3}
    assert {w.policies(f"x-{n}")["messageTTL"] for n in range(3)} == {5}
    w.topics("s", **count(2, deletionPolicy="Delete"), template={"policies": {"messageTTLSeconds": 5}})
    await w.work("s")
    assert w.local() == {"x-0", "x-1"}, "the set made it"


@pytest.mark.parametrize("uid", ["0", "z"])
@pytest.mark.parametrize("first", ["s", "other"])
@pytest.mark.parametrize("selection", [count(2), {"names": ["x-0", "x-1"]}, {"patterns": ["x-*"]}])
async def test_who_had_the_topics_has_them_after_a_restore_without_status(
    selection: dict[str, Any], first: str, uid: str
) -> None:
    """Of two sets of the same age the smaller UID decided, and retention was cut from 7 days to 1 minute."""
    w = await SetWorld.made()
    week = {"policies": {"retention": {"timeMinutes": 10080, "size": "1Gi"}}}
    minute = {"policies": {"retention": {"timeMinutes": 1, "size": "1Mi"}}}
    w.pulsar.topics["a"] = {f"persistent://t/n/x-{n}": FakeTopic() for n in range(2)}
    w.topics("s", **selection, template=week)
    await w.work()
    for name, template in (("s", week), ("other", minute)):
        w.topics(name, **selection, template=template)
        w.kube.set_status(CUSTOM[SET], NS, name, {})
        aged(w, name, "2026-01-01T00:00:00Z", uid * 8 if name == "other" else "k" * 8)
    w.restart()
    for name in (first, "s", "other") * 2:
        await w.work(name)
        assert {w.policies(f"x-{n}")["retention"]["retentionTimeInMinutes"] for n in range(2)} == {10080}
    assert w.counts("s") == {"desired": 2, "ready": 2}
    assert w.counts("other") == {"desired": 2, "conflicting": 2}
    w.delete(SET, "s")
    await w.work("s")
    await w.work("other")
    assert w.counts("other") == {"desired": 2, "ready": 2}
    assert {recorded(w, f"x-{n}") for n in range(2)} == {"PulsarTopicSet apps/other"}


@pytest.mark.parametrize("selection", ["names", "count"])
async def test_the_record_does_not_grow_with_each_change_of_names(selection: str) -> None:
    """One topic that is used kept all names of before on record, until there was no room and no pass ended."""
    w = await SetWorld.made()

    def apply(round_: int) -> None:
        names = {"names": [f"r{round_}-{n}" for n in range(9)]} if selection == "names" else count(20 - round_)
        w.topics("s", **names, deletionPolicy="Delete")

    apply(0)
    await w.work()
    used = "r0-0" if selection == "names" else "x-19"
    w.pulsar.topics["a"][f"persistent://t/n/{used}"].producers = 1
    for round_ in range(1, 9):
        apply(round_)
        await w.wait(60)
        assert used in w.local()
        owned = w.status(SET, "s")["owned"]
        if selection == "names":
            assert len(digests_of(OwnedTopics.model_validate(owned))) == 10
        else:
            assert owned == {"number": 20}
    w.pulsar.topics["a"][f"persistent://t/n/{used}"].producers = 0
    await w.wait(1200)
    assert used not in w.local()


async def test_a_record_without_room_keeps_the_set_from_making_topics_and_from_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_set, "MAX_OWNED", 5)
    w = await SetWorld.made()
    w.topics("s", names=["a0", "a1", "a2"], deletionPolicy="Delete", template=TTL)
    await w.work()
    for topic in w.pulsar.topics["a"].values():
        topic.producers = 1
    w.topics("s", names=["a0", "b1", "b2", "b3"], deletionPolicy="Delete", template=TTL)
    await w.wait(60)
    assert w.local() == {"a0", "a1", "a2"}
    status, reason, message = w.condition(SET, "s")
    assert (status, reason) == ("False", "NotEmpty")
    assert message.startswith(
        "New topics are not created, because 2 topics that were removed from the set still exist in Pulsar"
    )
    w.topics("s", names=["a0", "b1", "b2", "b3"], deletionPolicy="Delete", template={"policies": {"maxConsumers": 3}})
    await w.wait(60)
    assert w.policies("a0")["maxConsumers"] == 3
    for topic in w.pulsar.topics["a"].values():
        topic.producers = 0
    await w.wait(1200)
    assert w.local() == {"a0", "b1", "b2", "b3"}
    assert w.condition(SET, "s")[0] == "True"


async def test_a_partition_without_its_topic_is_none_of_a_set_by_pattern() -> None:
    """Pulsar takes no policies for it, so that the set was refused for ever."""
    w = await SetWorld.made()
    names = ("x", "x-partition-3")
    w.pulsar.topics["a"] = {f"persistent://t/n/{name}": FakeTopic() for name in names}
    w.topics("s", patterns=["x*"], template=TTL)
    await w.work()
    assert w.counts() == {"desired": 1, "ready": 1}
    assert w.condition(SET, "s")[0] == "True"


@pytest.mark.parametrize("marks", [PAUSED, DRY_RUN])
@pytest.mark.parametrize("before", ["refused", "drifted"])
async def test_a_set_that_is_held_says_the_same_at_each_pass(before: str, marks: dict[str, str]) -> None:
    w = await SetWorld.made()
    if before == "refused":
        w.pulsar.refuse["messageTTL"] = "not here"
    w.topics("s", **count(5), template=TTL)
    await w.work()
    w.topics("s", **count(5), template=TTL, annotations=dict(marks))
    if before == "drifted":
        w.pulsar.topic_policies["a", "persistent://t/n/x-3"]["messageTTL"] = 9
    said = set()
    for _ in range(10):
        await w.work()
        said.add(w.condition(SET, "s")[:2])
        w.clock.time += timedelta(seconds=60)
    assert said == {("False", "Paused" if marks is PAUSED else "DryRun")}
