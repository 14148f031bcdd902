"""The configuration store was away for longer than the sessions of brokers: they are replaced, for they learn of no
change in it any more. After less they stay."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import ANNOTATION_STORE_UNAVAILABLE, Kind
from pulsar_operator.api.v1alpha1.instance import OutageStatus
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.observed.store_sessions import (
    SESSION,
    UNSEEN,
    StoreReads,
    granted_by,
    outages,
    session_of,
    store_back,
    with_store_unavailable,
)
from pulsar_operator.ports import STATEFUL_SETS, Json
from tests.support.cluster.outages import MANAGED, away, look, pair
from tests.support.cluster.rolls import brought_up, one_of_each
from tests.support.cluster.world import ClusterWorld, quickstart

T = datetime(2026, 11, 25, 12, tzinfo=UTC)
OWN = "east-zookeeper.pulsar.svc.cluster.local"


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def test_an_outage_lasts_from_the_last_answer_to_the_next_one() -> None:
    reads = StoreReads()
    assert not reads.known("uid")
    assert reads.answered("uid", at(0), None) is None
    assert reads.answered("uid", at(900), None) is None, "nobody asked for long: that is no outage"
    reads.silent("uid", at(920))
    reads.silent("uid", at(940))
    assert reads.answered("uid", at(960), None) == timedelta(seconds=60)
    assert reads.answered("uid", at(975), None) is None
    reads.silent("other", at(980))
    assert not reads.known("other"), "one that never answered was not there yet"


def test_a_process_that_was_just_started_knows_the_outage_from_the_status() -> None:
    assert StoreReads().answered("uid", at(60), at(20)) == timedelta(seconds=40) + UNSEEN
    assert StoreReads().answered("uid", at(60), at(90)) == UNSEEN, "by another clock"


@pytest.mark.parametrize(
    ("looks", "seconds"),
    [
        pytest.param([10, 20, 30], 30, id="as it was"),
        pytest.param([7200, 7210], 25, id="it stood still before"),
        pytest.param([10, 7200, 7210], 35, id="the clock was set forward"),
        pytest.param([10, -3600, -3590], 35, id="the clock was set back"),
    ],
)
def test_how_long_it_was_away_is_no_matter_of_a_clock_that_is_set(looks: list[float], seconds: int) -> None:
    reads = StoreReads()
    reads.answered("uid", at(0), None)
    for each in looks[:-1]:
        reads.silent("uid", at(each))
    assert reads.answered("uid", at(looks[-1]), None) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        (None, 30),
        ({"metadataStoreSessionTimeoutMillis": "20000"}, 20),
        ({"metadataStoreSessionTimeoutMillis": "60000"}, 40),
        ({"zooKeeperSessionTimeoutMillis": "10000"}, 10),
        ({"metadataStoreSessionTimeoutMillis": "20000", "zooKeeperSessionTimeoutMillis": "10000"}, 10),
        ({"metadataStoreSessionTimeoutMillis": "20000", "zooKeeperSessionTimeoutMillis": "-1"}, 20),
        ({"metadataStoreSessionTimeoutMillis": "soon"}, 30),
        ({"metadataStoreSessionTimeoutMillis": "0"}, 30),
        ({"metadataStoreSessionTimeoutMillis": "9" * 30}, 30),
    ],
)
def test_sessions(config: dict[str, str] | None, seconds: int) -> None:
    assert session_of(config) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        (None, 40),
        ({"tickTime": "1000"}, 20),
        ({"tickTime": "1000", "maxSessionTimeout": "90000"}, 90),
        ({"maxSessionTimeout": "-1"}, 40),
    ],
)
def test_what_servers_grant(config: dict[str, str] | None, seconds: int) -> None:
    assert granted_by(config) == timedelta(seconds=seconds)
    assert session_of({"metadataStoreSessionTimeoutMillis": "120000"}, granted_by(config)) == granted_by(config)


@given(st.lists(st.tuples(st.integers(-500, 500), st.integers(0, 300)), max_size=20), st.integers(0, 300))
def test_everybody_finds_the_last_outage_that_was_too_long_for_him(course: list[tuple[int, int]], session: int) -> None:
    """Whatever came after it, and however the clock is set: its time is later than that of any before it."""
    known: list[OutageStatus] = []
    told: str | None = None
    for moment, lasted in course:
        known = outages(known, at(moment), timedelta(seconds=lasted))
        there = workload(-10000, told)
        found = with_store_unavailable(MANIFEST, known, there, timedelta(seconds=session))
        now = store_back(found["spec"]["template"])
        if len(known) < 8:  # then two were made one, to be on the safe side
            assert (now != told) is (lasted >= session)
        else:
            assert now != told or lasted < session
        assert outages(known, at(0)) == known and outages([*known, *known], at(0)) == known
        told = now


MANIFEST: Json = {"spec": {"template": {"metadata": {"annotations": {"other": "stays"}}}}}
LONG = OutageStatus(since=timestamp(at(0)), until=timestamp(at(60)))
SHORT = OutageStatus(since=timestamp(at(0)), until=timestamp(at(29)))
LATER = OutageStatus(since=timestamp(at(600)), until=timestamp(at(660)))


def workload(made: float, told: str | None = None) -> Json:
    annotations = {} if told is None else {ANNOTATION_STORE_UNAVAILABLE: told}
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
    found = with_store_unavailable(MANIFEST, [] if outage is None else [outage], there, SESSION)
    assert store_back(found["spec"]["template"]) == told
    assert found["spec"]["template"]["metadata"]["annotations"]["other"] == "stays"
    assert (found == MANIFEST) is (told is None)


# --------------------------------------------------------------------------------------------------------- in memory


def gone(world: ClusterWorld, mark: int) -> list[str]:
    return world.journal.pods_gone()[mark:]


async def test_brokers_are_replaced_one_after_another_and_nobody_else() -> None:
    world = await pair()
    mark = len(world.journal.pods_gone())
    await away(world, 60)
    (outage,) = (await world.status(Kind.INSTANCE, "demo"))["configurationStoreOutages"]
    length = datetime.fromisoformat(outage["until"]) - datetime.fromisoformat(outage["since"])
    assert timedelta(seconds=60) <= length < timedelta(seconds=120)
    await world.run()
    names = gone(world, mark)
    assert sorted(names) == [f"{cluster}-broker-{n}" for cluster in ("east", "west") for n in (0, 1)]
    assert {name.split("-")[0] for name in names[:2]} != {"east", "west"}, "one cluster after the other"
    reason = "the configuration store was unavailable until"
    assert any(reason in event.message for event in world.journal.events)
    world.clock.forward(3600)
    await world.run()
    assert gone(world, mark) == names, "once"


async def test_after_a_short_outage_they_stay() -> None:
    world = await pair()
    mark = len(world.journal.pods_gone())
    await away(world, 10)
    await world.run()
    assert "configurationStoreOutages" in await world.status(Kind.INSTANCE, "demo")
    assert gone(world, mark) == []


async def test_so_they_do_where_their_sessions_outlast_it() -> None:
    world = await pair()

    def granting(spec: Any) -> None:
        spec["configurationStore"]["managed"]["config"] = {"maxSessionTimeout": "120000"}

    await world.change(Kind.INSTANCE, "demo", granting)
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
