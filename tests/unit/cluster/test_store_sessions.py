"""The configuration store was away for longer than the sessions of brokers: they are replaced, for they learn of no
change in it any more. After less they stay."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_STORE_AWAY, Kind
from pulsar_operator.api.v1alpha1.instance import OutageStatus
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.store_sessions import (
    SESSION,
    UNSEEN,
    StoreReads,
    session_of,
    store_back,
    with_store_away,
)
from pulsar_operator.ports import STATEFUL_SETS, Json
from tests.support.cluster.copies import made_once
from tests.support.cluster.rolls import brought_up, two
from tests.support.cluster.world import ClusterWorld, quickstart

T = datetime(2026, 11, 25, 12, tzinfo=UTC)
MANAGED, OWN = (f"{name}.pulsar.svc.cluster.local" for name in ("demo-configuration-store", "east-zookeeper"))


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def test_an_outage_lasts_from_the_last_answer_to_the_next_one() -> None:
    reads = StoreReads()
    assert not reads.known("uid")
    assert reads.answered("uid", at(0), None) is None
    assert reads.answered("uid", at(900), None) is None, "nobody asked for long: that is no outage"
    reads.silent("uid")
    reads.silent("uid")
    assert reads.answered("uid", at(960), None) == at(900)
    assert reads.answered("uid", at(975), None) is None
    reads.silent("other")
    assert not reads.known("other"), "one that never answered was not there yet"


def test_a_process_that_was_just_started_knows_the_outage_from_the_status() -> None:
    assert StoreReads().answered("uid", at(60), at(20)) == at(20) - UNSEEN


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        (None, 30),
        ({"metadataStoreSessionTimeoutMillis": "60000"}, 60),
        ({"zooKeeperSessionTimeoutMillis": "10000"}, 10),
        ({"metadataStoreSessionTimeoutMillis": "soon", "zooKeeperSessionTimeoutMillis": "10000"}, 10),
    ],
)
def test_sessions(config: dict[str, str] | None, seconds: int) -> None:
    assert session_of(config) == timedelta(seconds=seconds)


LONG = OutageStatus(since=timestamp(at(0)), until=timestamp(at(60)))
SHORT = OutageStatus(since=timestamp(at(0)), until=timestamp(at(29)))
LATER = OutageStatus(since=timestamp(at(600)), until=timestamp(at(660)))


def workload(made: float, told: str | None = None) -> Json:
    annotations = {} if told is None else {ANNOTATION_STORE_AWAY: told}
    return {
        "metadata": {"creationTimestamp": timestamp(at(made))},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }


@pytest.mark.parametrize(
    ("outage", "there", "told"),
    [
        pytest.param(None, workload(-100), None, id="none"),
        pytest.param(LONG, workload(-100), LONG.until, id="one"),
        pytest.param(SHORT, workload(-100), None, id="a short one"),
        pytest.param(LONG, None, None, id="before there were brokers"),
        pytest.param(LONG, workload(60), None, id="brokers made since"),
        pytest.param(LATER, workload(-100, LONG.until), LATER.until, id="another one"),
        pytest.param(LONG, workload(-100, LATER.until), LATER.until, id="the status is an old one"),
        pytest.param(None, workload(-100, LONG.until), LONG.until, id="the status was lost"),
        pytest.param(SHORT, workload(-100, LONG.until), LONG.until, id="a short one after it"),
        pytest.param(LONG, workload(-100, "yesterday"), LONG.until, id="what nobody can read"),
    ],
)
def test_templates(outage: OutageStatus | None, there: Json | None, told: str | None) -> None:
    manifest: Json = {"spec": {"template": {"metadata": {"annotations": {"other": "stays"}}}}}
    found = with_store_away(manifest, outage, there, SESSION)
    assert store_back(found["spec"]["template"]) == told
    assert found["spec"]["template"]["metadata"]["annotations"]["other"] == "stays"
    assert (found == manifest) is (told is None)


# --------------------------------------------------------------------------------------------------------- in memory


def one_of_each(spec: Json) -> None:
    spec["metadataStore"]["managed"]["replicas"] = spec["bookkeeper"]["replicas"] = 1


@made_once
async def pair() -> ClusterWorld:
    """East and west, two brokers each, with a configuration store of neither."""
    return await two(2, one_of_each)


async def look(world: ClusterWorld, seconds: float = 0.0) -> None:
    """The instance is looked at, after so many seconds."""
    world.clock.forward(seconds)
    (key,) = [each for each in await world.keys() if each.kind is Kind.INSTANCE]
    await world.reconcile(key)


async def away(world: ClusterWorld, seconds: float, host: str = MANAGED) -> None:
    """The store gives no answer for so long; the operator looks at it as often as it does."""
    await look(world)
    world.unreachable.add(host)
    for _ in range(int(seconds // 10)):
        await look(world, 10)
    world.unreachable.clear()
    await look(world)


def gone(world: ClusterWorld, mark: int) -> list[str]:
    return world.journal.pods_gone()[mark:]


async def test_brokers_are_replaced_one_after_another_and_nobody_else() -> None:
    world = await pair()
    mark = len(world.journal.pods_gone())
    await away(world, 60)
    outage = (await world.status(Kind.INSTANCE, "demo"))["configurationStoreOutage"]
    length = datetime.fromisoformat(outage["until"]) - datetime.fromisoformat(outage["since"])
    assert timedelta(seconds=60) <= length < timedelta(seconds=120)
    await world.run()
    names = gone(world, mark)
    assert sorted(names) == [f"{cluster}-broker-{n}" for cluster in ("east", "west") for n in (0, 1)]
    assert {name.split("-")[0] for name in names[:2]} != {"east", "west"}, "one cluster after the other"
    reason = "the configuration store was away until"
    assert any(reason in event.message for event in world.journal.events)
    world.clock.forward(3600)
    await world.run()
    assert gone(world, mark) == names, "once"


async def test_after_a_short_outage_they_stay() -> None:
    world = await pair()
    mark = len(world.journal.pods_gone())
    await away(world, 10)
    await world.run()
    assert "configurationStoreOutage" in await world.status(Kind.INSTANCE, "demo")
    assert gone(world, mark) == []


async def test_so_they_do_where_their_sessions_outlast_it() -> None:
    world = await pair()
    for name in ("east", "west"):

        def patient(spec: Any) -> None:
            spec["broker"]["config"] = {"metadataStoreSessionTimeoutMillis": "120000"}

        await world.change(Kind.CLUSTER, name, patient)
    await world.run()
    mark = len(world.journal.pods_gone())
    await away(world, 60)
    await world.run()
    assert gone(world, mark) == []


async def test_that_the_operator_was_away_says_nothing_of_the_store() -> None:
    world = await pair()
    mark = len(world.journal.pods_gone())
    await look(world, 7200)
    await world.run()
    world.restart()
    await look(world, 7200)
    await world.run()
    assert gone(world, mark) == []


async def test_an_operator_that_was_started_during_the_outage_goes_by_the_status() -> None:
    world = await pair()
    mark = len(world.journal.pods_gone())
    await look(world)
    world.unreachable.add(MANAGED)
    await look(world, 10)
    world.restart()
    world.unreachable.clear()
    await look(world, 40)
    await world.run()
    assert sorted(gone(world, mark)) == [f"{cluster}-broker-{n}" for cluster in ("east", "west") for n in (0, 1)]


async def test_a_bring_up_is_no_outage() -> None:
    world = await pair()
    for name in ("east-broker", "west-broker"):
        assert store_back((await world.get(STATEFUL_SETS, name))["spec"]["template"]) is None


async def test_brokers_watch_their_own_metadata_store_anew() -> None:
    """The store is east's: its brokers have one session for both, those of west another one for the configuration."""
    instance, east = quickstart()[:2]
    one_of_each(east["spec"])
    east["spec"]["broker"]["drain"] = {"enabled": False}
    west = copy.deepcopy(east)
    west["metadata"]["name"] = "west"
    world = await brought_up(instance, east, west)
    mark = len(world.journal.pods_gone())
    await away(world, 60, OWN)
    await world.run()
    assert gone(world, mark) == ["west-broker-0"]
