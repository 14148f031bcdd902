"""Replication between clusters: what brokers' pages say of it, what counts as trouble, and what the instance tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.controllers.dataplane.instance.geo_replication import OBSERVE_SECONDS
from pulsar_operator.domain.dataplane.instance.geo_replication import (
    BEHIND_MESSAGES,
    NAMES,
    Reading,
    ReplicationReadings,
    readings,
    together,
    trouble,
)
from pulsar_operator.domain.dataplane.observed.pod_counters import parse
from pulsar_operator.ports import Json
from tests.support.cluster.leaving import again
from tests.support.cluster.rolls import two
from tests.support.cluster.world import ClusterWorld

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOBODY = 'log4j2_appender_total{level="info"} 3\n'
"""The page of a broker without replicators."""


def line(name: str, value: float, *, topic: str = "a", to: str = "west", cluster: str = "east") -> str:
    labels = f'cluster="{cluster}",namespace="shop/orders",topic="persistent://shop/orders/{topic}"'
    return f'pulsar_replication_{name}{{{labels},remote_cluster="{to}"}} {value}\n'


def replicator(backlog: float, *, connected: float = 1.0, expired: float = 0.0, **labels: str) -> str:
    values = {"backlog": backlog, "connected_count": connected, "rate_out": 5.0, "rate_expired": expired}
    return "".join(line(name, value, **labels) for name, value in values.items())  # type: ignore[arg-type]


def page(*parts: str) -> dict[str, Reading]:
    return readings(parse((NOBODY + "".join(parts)).splitlines(), NAMES))


def test_the_replicators_of_a_page_are_summed_by_where_they_go() -> None:
    found = page(
        replicator(7, topic="a"),
        replicator(5, topic="b", connected=0.0),
        line("delay_in_seconds", 12.0, topic="b"),
        line("delay_in_seconds", 3.0, topic="a"),
        replicator(0, topic="a", to="north", expired=0.5),
        line("throughput_out", 9.0),
    )
    assert found == {
        "west": Reading(
            *(2, 1, 12, 5, 12.0, 10.0),
            namespaces={"shop/orders": 12},
            topics=(("persistent://shop/orders/a", 7), ("persistent://shop/orders/b", 5)),
        ),
        "north": Reading(1, 1, rate_out=5.0, rate_expired=0.5),
    }
    assert page() == {}


def test_a_broker_that_tells_of_namespaces_alone_gives_sums() -> None:
    labels = 'cluster="east",namespace="shop/orders",remote_cluster="west"'
    values = {"backlog": 9, "connected_count": 3, "disconnected_count": 2, "rate_out": 1.5}
    lines = "".join(f"pulsar_replication_{name}{{{labels}}} {value}\n" for name, value in values.items())
    assert page(lines) == {"west": Reading(5, 3, 9, 9, rate_out=1.5, namespaces={"shop/orders": 9})}


def test_all_brokers_of_a_cluster_count_together() -> None:
    pages = [page(replicator(7)), page(replicator(5, topic="b", connected=0.0)), page()]
    assert together(pages) == page(replicator(7), replicator(5, topic="b", connected=0.0))


def up(backlog: int, rate: float = 0.0) -> Reading:
    return Reading(2, 2, backlog, rate_out=rate)


def down(stranded: int, backlog: int | None = None) -> Reading:
    return Reading(2, 1, backlog if backlog is not None else stranded, stranded)


FAR = BEHIND_MESSAGES * 10
APART, BEHIND, EXPIRING = Reason.NOT_CONNECTED, Reason.FALLING_BEHIND, Reason.EXPIRING
CASES: dict[str, tuple[list[Reading], Reason | None, Reason | None]] = {
    "never looked": ([], None, None),
    "one look tells nothing of a trend": ([down(500)], None, None),
    "apart, and nothing waits": ([down(0), down(0)], None, None),
    "apart, and what waits stays": ([down(9), down(9)], None, None),
    "apart, and more waits": ([down(9), down(10)], None, APART),
    "apart since this look": ([up(0), down(10)], None, None),
    "apart, and something begins to wait": ([down(0), down(10)], None, None),
    "still apart, nobody publishes": ([down(10), down(10), down(10)], APART, APART),
    "connected again": ([down(10), up(10)], APART, None),
    "what waited is gone": ([down(10), down(0)], APART, None),
    "ever more waits": ([up(FAR), up(FAR + 1), up(FAR + 2)], None, BEHIND),
    "ever more for two looks": ([up(FAR), up(FAR + 1)], None, None),
    "more, then less": ([up(FAR), up(FAR + 2), up(FAR + 1)], None, None),
    "little, and ever more": ([up(BEHIND_MESSAGES - 2), up(BEHIND_MESSAGES - 1), up(BEHIND_MESSAGES)], None, None),
    "ever more, delivered within a minute": ([up(FAR, 50), up(FAR + 1, 50), up(FAR + 2, 50)], None, None),
    "no more than before": ([up(FAR), up(FAR), up(FAR)], BEHIND, BEHIND),
    "catching up": ([up(FAR + 2), up(FAR + 1), up(FAR)], BEHIND, None),
    "as good as there": ([up(FAR), up(FAR), up(BEHIND_MESSAGES)], BEHIND, None),
    "far behind by itself is a start, no trouble": ([up(FAR), up(FAR), up(FAR)], None, None),
    "dropped": ([Reading(1, 1, 0, rate_expired=0.1)], None, EXPIRING),
    "dropped while apart": ([down(9), Reading(2, 1, 10, 10, rate_expired=0.1)], APART, EXPIRING),
    "dropped no more": ([Reading(1, 1, 0, rate_expired=0.1), up(0)], EXPIRING, None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_trouble(name: str) -> None:
    readings, before, expected = CASES[name]
    assert trouble(readings, before) is expected


@settings(max_examples=100)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12), st.integers(0, 2))
def test_what_is_delivered_within_its_minute_is_never_trouble(backlogs: list[int], connected: int) -> None:
    """Whatever moves, by whatever much: all connected, and the pace takes what waits."""
    readings = ReplicationReadings()
    for number, backlog in enumerate(backlogs):
        reading = Reading(connected, connected, backlog, rate_out=(backlog + 1) / 60)
        readings.keep("uid", NOW + timedelta(seconds=30 * number), {"a": {"b": reading}}, ())
        assert readings.trouble("uid", "a", "b") is None


def test_a_cluster_that_was_silent_begins_anew() -> None:
    readings = ReplicationReadings()
    for number, answer in enumerate([{"b": down(9)}, None, {"b": down(10)}]):
        readings.keep("uid", NOW + timedelta(seconds=30 * number), {"a": answer}, ())
    assert readings.trouble("uid", "a", "b") is None
    readings.keep("uid", NOW + timedelta(seconds=90), {"a": {"b": down(11)}}, ())
    assert readings.trouble("uid", "a", "b") is APART
    readings.forget("uid")
    assert readings.answers("uid") == {}


def test_where_most_waits_is_told_by_namespace_and_by_topic() -> None:
    names = [f"persistent://shop/n{number % 7}/t{number}" for number in range(70)]
    where = (f'namespace="{name[13:].rpartition("/")[0]}",topic="{name}",remote_cluster="w"' for name in names)
    text = "".join(f"pulsar_replication_backlog{{{labels}}} {number}\n" for number, labels in enumerate(where))
    found = together([page(text), page(text)])["w"]
    assert [each[0] for each in found.most_in()] == [f"shop/n{number}" for number in (6, 5, 4, 3, 2)]
    assert found.most_in()[0] == ("shop/n6", 2 * sum(range(6, 70, 7)))
    assert found.topics[0] == (names[69], 69) and len(found.topics) == 5


# ------------------------------------------------------------------------------------------------ the instance's pass


def at(cluster: str) -> str:
    return f"http://{cluster}-broker-0.{cluster}-broker-headless.pulsar.svc.cluster.local:8080/metrics/"


async def look(world: ClusterWorld, **pages: str | int) -> tuple[Json, Json]:
    """The condition and the rows after a look; pages by cluster."""
    for cluster in ("east", "west"):
        found = pages.get(cluster, NOBODY)
        world.counters.pages[at(cluster)] = found if isinstance(found, int) else NOBODY + found
    world.clock.forward(OBSERVE_SECONDS)
    (key,) = [each for each in await world.keys() if each.kind is Kind.INSTANCE]
    await world.reconcile(key)
    status = await world.status(Kind.INSTANCE, "demo")
    (condition,) = [each for each in status["conditions"] if each["type"] == "ReplicationHealthy"]
    return condition, {f"{row['from']}-{row['to']}": row for row in status.get("replication") or ()}


def back(backlog: float) -> str:
    return replicator(backlog, to="east", cluster="west")


async def test_pairs_and_trouble_are_told() -> None:
    world = await two(1)
    condition, rows = await look(world)
    assert (condition["status"], condition["reason"], rows) == ("True", "Replicating", {})
    assert condition["message"] == "No messages are replicated yet"

    condition, rows = await look(world, east=replicator(3), west=back(0))
    assert (condition["status"], condition["reason"]) == ("True", "Replicating")
    since = rows["east-west"].pop("since")
    assert rows["east-west"] == {
        "from": "east", "to": "west", "connected": True, "replicators": 1, "backlog": 3,
        "delaySeconds": 0, "rateOut": 5, "namespaces": [{"name": "shop/orders", "backlog": 3}],
        "topics": [{"name": "persistent://shop/orders/a", "backlog": 3}],
    }  # fmt: skip
    assert set(rows) == {"east-west", "west-east"}

    for backlog in (40, 1234):
        condition, rows = await look(world, east=replicator(backlog, connected=0.0), west=back(0))
    assert (condition["status"], condition["reason"]) == ("False", "NotConnected")
    assert "east to west: 1 of 1 replicators are not connected" in condition["message"]
    assert "1200 messages" in condition["message"]
    assert rows["east-west"]["connected"] is False and rows["east-west"]["since"] > since
    assert rows["west-east"]["connected"] is True
    since = rows["east-west"]["since"]
    assert (await world.condition(Kind.INSTANCE, "demo", "Ready"))[0] == "True", "clients of both are served"

    condition, rows = await look(world, east=503, west=back(0))
    assert (condition["status"], condition["reason"]) == ("Unknown", "AdminUnreachable")
    assert "The replication from east is not known" in condition["message"]
    assert "connected" not in rows["east-west"] and "backlog" not in rows["east-west"]

    condition, rows = await look(world, east=replicator(0), west=back(0))
    assert (condition["status"], rows["east-west"]["connected"]) == ("True", True)
    told = [event.reason for event in world.journal.events if event.object_kind == "PulsarInstance"]
    assert told.count("NotConnected") == 1, "one event for one trouble"


async def test_a_cluster_that_is_refused_a_name_does_not_speak_for_the_one_that_has_it() -> None:
    world = await two(1)
    second = again("xwest", await world.get(Kind.CLUSTER, "west"))
    second["spec"]["clusterName"] = "west"
    await world.apply(second)
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "xwest", "Ready"))[0] == "False"
    condition, rows = await look(world, east=replicator(3), west=back(0))
    assert (condition["status"], condition["reason"]) == ("True", "Replicating")
    assert rows["west-east"]["connected"] is True
    seen = {row["name"]: row for row in (await world.status(Kind.INSTANCE, "demo"))["clusters"]}
    assert seen["west"]["reachable"] is True and seen["west"]["objectName"] == "west"


async def test_figures_that_hardly_move_write_no_status() -> None:
    world = await two(1)
    await look(world, east=replicator(12310), west=back(0))
    writes = len(world.journal.attempts)
    await look(world, east=replicator(12320), west=back(0))
    assert len(world.journal.attempts) == writes
    await look(world, east=replicator(13400), west=back(0))
    assert len(world.journal.attempts) == writes + 1


async def test_brokers_are_asked_no_more_often_than_they_have_something_new_to_say() -> None:
    world = await two(1)
    await look(world)
    (key,) = [each for each in await world.keys() if each.kind is Kind.INSTANCE]
    asked = len(world.counters.asked)
    for _ in range(3):
        await world.reconcile(key)
    assert len(world.counters.asked) == asked
    world.clock.forward(OBSERVE_SECONDS)
    await world.reconcile(key)
    assert len(world.counters.asked) == asked + 2, "each broker of each cluster"
