"""A set deletes what Pulsar names it for: not a topic it refused, nor one that somebody else has taken over."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.ports import CUSTOM, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.fakes.pulsar_topics import GLOBAL
from tests.support.logical.topic_sets import SET, SetWorld, count
from tests.support.logical.world import NS

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
        assert text.startswith("1 topics left the set and stay in Pulsar (x-1)")


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


async def test_one_whose_record_somebody_changed_stays() -> None:
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
    assert w.counts()["leaving"] == 1
    assert w.condition(SET, "s")[0] == "False"
