"""Topics whose replicators are connected and deliver nothing: found, loaded anew once, and told."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.instance.geo_replication import OBSERVE_SECONDS
from pulsar_operator.domain.dataplane.instance.geo_replication import (
    MOST_STILL,
    NAMES,
    Reading,
    ReplicationReadings,
    readings,
)
from pulsar_operator.domain.dataplane.instance.stuck_topics import (
    STUCK_AFTER,
    UNLOADED_AGAIN_AFTER,
    UNLOADS,
    StuckTopics,
)
from pulsar_operator.domain.dataplane.observed.pod_counters import parse
from pulsar_operator.ports import PODS, Json
from tests.support.cluster.rolls import two
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAIR = ("east", "west")
LOOK = timedelta(seconds=OBSERVE_SECONDS)
TOPIC = "persistent://shop/orders/a"
NOBODY = 'log4j2_appender_total{level="info"} 3\n'


def page(backlog: int, *, connected: int = 1, rate: float = 0.0, topic: str = TOPIC) -> str:
    labels = f'cluster="east",namespace="shop/orders",topic="{topic}",remote_cluster="west"'
    values = {"backlog": backlog, "connected_count": connected, "rate_out": rate, "rate_expired": 0.0}
    return "".join(f"pulsar_replication_{name}{{{labels}}} {value}\n" for name, value in values.items())


def seen(text: str) -> dict[str, Reading]:
    return readings(parse((NOBODY + text).splitlines(), NAMES))


@pytest.mark.parametrize(
    ("text", "still"),
    [
        (page(7), ((TOPIC, 7),)),
        (page(0), ()),
        (page(7, rate=0.1), ()),
        (page(7, connected=0), ()),
        (page(7, topic=""), ()),
        (page(3) + page(9, topic="persistent://shop/orders/b"), (("persistent://shop/orders/b", 9), (TOPIC, 3))),
    ],
)
def test_what_stands_still_on_a_page(text: str, still: tuple[tuple[str, int], ...]) -> None:
    assert seen(text)["west"].still == still


def test_those_for_which_most_waits_are_followed() -> None:
    found = seen("".join(page(number, topic=f"persistent://a/b/{number}") for number in range(1, MOST_STILL + 50)))
    assert len(found["west"].still) == MOST_STILL
    assert found["west"].still[0] == (f"persistent://a/b/{MOST_STILL + 49}", MOST_STILL + 49)


def test_a_clock_that_is_put_back_keeps_no_look_and_no_unload() -> None:
    readings, later = ReplicationReadings(), NOW + timedelta(days=1)
    readings.keep("uid", later, {}, [])
    assert not readings.due("uid", later, every=OBSERVE_SECONDS) and readings.due("uid", NOW, every=OBSERVE_SECONDS)
    topics = StuckTopics()
    topics.unloaded("east", TOPIC, later)
    at = NOW
    while at <= NOW + STUCK_AFTER:
        topics.follow(at, {PAIR: {TOPIC: 7}}, PAIR)
        at += LOOK
    assert topics.due() == {"east": [TOPIC]}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_stuck_is_what_moved_at_no_look_of_five_minutes(backlogs: list[int]) -> None:
    """0 = it delivered, or nothing waits."""
    topics, since = StuckTopics(), None
    for number, backlog in enumerate(backlogs):
        now = NOW + LOOK * number
        topics.follow(now, {PAIR: {TOPIC: backlog}} if backlog else {}, PAIR)
        if not backlog:
            since = None
        elif since is None or backlog < backlogs[number - 1]:
            since = now
        assert bool(topics.stuck()) is (since is not None and now - since >= STUCK_AFTER)


def stood_still(topics: StuckTopics, begin: datetime, *names: str, well: Collection[str] = PAIR) -> datetime:
    now = begin
    while now - begin <= STUCK_AFTER:
        topics.follow(now, {PAIR: dict.fromkeys(names, 5)}, well)
        now += LOOK
    return now


def test_each_is_unloaded_once_an_hour_and_few_at_once() -> None:
    topics, names = StuckTopics(), [f"persistent://a/b/{number}" for number in range(UNLOADS + 2)]
    now = stood_still(topics, NOW, *names)
    first = topics.due()["east"]
    assert len(first) == UNLOADS
    for name in first:
        topics.unloaded("east", name, now)
    assert topics.due() == {"east": names[UNLOADS:]}
    for name in names[UNLOADS:]:
        topics.unloaded("east", name, now)
    assert topics.due() == {} and len(topics.stuck()) == len(names)
    assert {each.unloaded for each in topics.stuck()} == {now}
    again = stood_still(topics, now + UNLOADED_AGAIN_AFTER, *names)
    assert len(topics.due()["east"]) == UNLOADS, again


def test_what_lies_between_looks_far_apart_is_not_known() -> None:
    topics = StuckTopics()
    topics.follow(NOW, {PAIR: {TOPIC: 5}}, PAIR)
    topics.follow(NOW + timedelta(minutes=10), {PAIR: {TOPIC: 5}}, PAIR)
    assert topics.stuck() == []


@pytest.mark.parametrize("away", PAIR)
def test_nothing_is_unloaded_before_both_clusters_could_store_for_as_long(away: str) -> None:
    topics, others = StuckTopics(), [each for each in PAIR if each != away]
    now = stood_still(topics, NOW, TOPIC, well=others)
    assert [each.topic for each in topics.stuck()] == [TOPIC] and topics.due() == {}
    topics.follow(now, {PAIR: {TOPIC: 5}}, PAIR)
    assert topics.due() == {}, "it goes on by itself, perhaps"
    stood_still(topics, now + LOOK, TOPIC)
    assert topics.due() == {"east": [TOPIC]}


def test_those_that_are_well_have_theirs_unloaded() -> None:
    topics = StuckTopics()
    for number in range(12):
        pairs = {pair: {TOPIC: 5} for pair in (PAIR, ("east", "north"), ("north", "east"))}
        topics.follow(NOW + LOOK * number, pairs, PAIR)
    assert topics.due() == {"east": [TOPIC]}


@pytest.mark.parametrize("west", [None, "absent"])
def test_where_those_that_receive_are_silent_or_not_ours_nothing_is_stuck(west: str | None) -> None:
    readings, number = ReplicationReadings(), 0
    for number in range(20):
        answers: dict[str, dict[str, Reading] | None] = {"east": seen(page(5))}
        if west is None:
            answers["west"] = None
        readings.keep("uid", NOW + LOOK * number, answers, PAIR)
    assert readings.topics("uid").stuck() == []
    for more in range(20):
        readings.keep("uid", NOW + LOOK * (number + more), {"east": seen(page(5)), "west": {}}, PAIR)
    assert [each.topic for each in readings.topics("uid").stuck()] == [TOPIC]


# ------------------------------------------------------------------------------------------------ the instance's pass


async def looks_at(world: ClusterWorld, east: str, number: int) -> Json:
    for cluster, text in (("east", east), ("west", "")):
        url = f"http://{cluster}-broker-0.{cluster}-broker-headless.pulsar.svc.cluster.local:8080/metrics/"
        world.counters.pages[url] = NOBODY + text
    (key,) = [each for each in await world.keys() if each.kind is Kind.INSTANCE]
    world.clock.step = 0.01  # so that looks alone are no minutes
    for _ in range(number):
        world.clock.forward(OBSERVE_SECONDS)
        await world.reconcile(key)
    status = await world.status(Kind.INSTANCE, "demo")
    (condition,) = [each for each in status["conditions"] if each["type"] == "ReplicationHealthy"]
    return {**condition, "pending": status.get("pendingActions")}


def unloads(world: ClusterWorld) -> list[str]:
    return [call.name for call in world.journal.attempts if call.name.endswith("/unload")]


async def test_a_stuck_topic_is_unloaded_once_and_told() -> None:
    world = await two(1)
    condition = await looks_at(world, page(5), 10)
    assert (condition["status"], unloads(world)) == ("True", [])
    condition = await looks_at(world, page(5), 1)
    assert len(unloads(world)) == 1 and "shop/orders/a" in unloads(world)[0]
    assert (condition["status"], condition["reason"]) == ("False", "NotDelivering")
    assert f"{TOPIC} (unloaded " in condition["message"]
    condition = await looks_at(world, page(6), 20)
    assert len(unloads(world)) == 1, "once an hour"
    condition = await looks_at(world, page(6, rate=3.0), 1)
    assert condition["status"] == "True"


@pytest.mark.parametrize("where", ["east", "west"])
async def test_none_is_unloaded_while_bookies_of_either_cluster_are_away(where: str) -> None:
    world = await two(1)
    world.workloads.troubles.append(Trouble(pod=f"{where}-bookie-*"))
    for number in range(3):
        await world.backstage.remove(PODS, world.namespace, f"{where}-bookie-{number}")
    await world.idle_steps(3)
    await world.run()
    assert (await world.condition(Kind.CLUSTER, where, "BookKeeperReady"))[0] == "False"
    condition = await looks_at(world, page(5), 60)
    assert (unloads(world), condition["reason"]) == ([], "NotDelivering")
    world.workloads.troubles.clear()
    await world.run()
    await looks_at(world, page(5), 12)
    assert len(unloads(world)) == 1


@pytest.mark.parametrize(("kind", "name"), [(Kind.INSTANCE, "demo"), (Kind.CLUSTER, "east")])
async def test_while_it_is_paused_it_is_said_what_would_be_done(kind: Kind, name: str) -> None:
    world = await two(1)
    await world.pause(kind, name)
    condition = await looks_at(world, page(5), 12)
    assert unloads(world) == []
    assert condition["pending"] == [f"Unload {TOPIC} in east, because none of its messages is replicated"]
