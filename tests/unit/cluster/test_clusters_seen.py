"""Clusters that stop answering: left out after three calls, asked again ever more rarely, told in the instance's
status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.instance.reachability import (
    FIRST_PAUSE_SECONDS,
    FRESH_SECONDS,
    LONGEST_PAUSE_SECONDS,
    TIMEOUTS,
    UNLOOKED_SECONDS,
    AddressReachability,
    Reachability,
    ReachabilityFact,
    next_reachability,
)
from pulsar_operator.ports import Json
from tests.fakes.admin import AdminCall, FakeAdmin
from tests.support.cluster.copies import ready_world
from tests.support.cluster.world import ClusterWorld

START = datetime(2026, 1, 1, tzinfo=UTC)
URL = "http://a:8080"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def text(seconds: float) -> str:
    return timestamp(at(seconds))


def silent(times: int, seconds: float = 0.0) -> AddressReachability:
    found = AddressReachability()
    for _ in range(times):
        found = found.unheard(at(seconds))
    return found


@pytest.mark.parametrize("times", range(TIMEOUTS + 2))
def test_three_calls_without_an_answer_leave_a_cluster_out(times: int) -> None:
    assert (silent(times).since is not None) == (times >= TIMEOUTS)


def test_a_clock_that_is_put_back_leaves_nobody_out_until_it_has_caught_up() -> None:
    ahead, now = 86400.0, at(0)
    found = silent(TIMEOUTS, ahead)
    assert found.due(now) and found.due(now, late=UNLOOKED_SECONDS)
    found = found.unheard(now, question=True)
    assert not found.due(now) and found.due(at(LONGEST_PAUSE_SECONDS)), "from then on as ever"


def test_an_answer_between_begins_the_count_anew() -> None:
    assert silent(TIMEOUTS - 1).heard(at(1)).unheard(at(2)).since is None


def test_looks_that_were_given_up_early_are_one_call_without_an_answer() -> None:
    doubted = AddressReachability().doubted().doubted().doubted()
    assert (doubted.silent, doubted.since) == (1, None)
    assert doubted.unheard(at(1)).since is None
    assert doubted.heard(at(1)).silent == 0
    left = silent(TIMEOUTS)
    assert left.doubted() == left


def test_one_that_answers_nothing_but_the_question_is_left_out_and_comes_back_on_trial() -> None:
    """Brokers answer it from memory, also while their own metadata store is away."""
    standing, left_out = AddressReachability(), []
    for minute in range(12):
        now = at(60 * minute)
        standing = standing.heard_question(now)
        assert standing.since is None
        standing = standing.unheard(at(60 * minute + 15))
        left_out.append(standing.since is not None)
    assert left_out == [False, False] + [True] * 10
    assert standing.again is not None and standing.pause == LONGEST_PAUSE_SECONDS
    assert standing.heard_question(at(0)).heard(at(0)) == AddressReachability(answered=at(0)), (
        "any other answer ends it"
    )
    assert AddressReachability(silent=2).heard_question(at(0)) == AddressReachability(answered=at(0)), (
        "nothing but the question had none"
    )


def test_the_pauses_double_to_a_minute() -> None:
    standing, pauses = silent(TIMEOUTS), []
    for _ in range(6):
        assert standing.again is not None
        now = standing.again
        assert standing.due(now)
        assert not standing.due(now - timedelta(seconds=1))
        standing = standing.unheard(now)
        assert standing.again is not None
        pauses.append((standing.again - now).total_seconds())
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0]


def test_calls_that_were_under_way_when_it_was_left_out_prolong_nothing() -> None:
    left = silent(TIMEOUTS)
    assert left.unheard(at(FIRST_PAUSE_SECONDS - 1)) == left


def test_whoever_has_something_to_ask_does_so_only_where_nobody_looked_for_long() -> None:
    reachability = Reachability()
    for _ in range(TIMEOUTS):
        reachability.unheard(URL, START)
    late = FIRST_PAUSE_SECONDS + UNLOOKED_SECONDS
    assert reachability.left_out(URL, at(late - 1)) == START
    assert reachability.left_out(URL, at(late)) is None
    assert reachability.left_out(URL, at(late)) == START, "one call alone"
    reachability.heard(URL, at(late + 1))
    assert reachability.left_out(URL, at(late + 1)) is None
    assert reachability.left_out("http://b:8080", at(late)) is None


@settings(max_examples=150)
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=40))
def test_left_out_after_three_in_a_row_and_asked_within_a_minute(calls: list[tuple[bool, float]]) -> None:
    standing, row, now = AddressReachability(), 0, START
    for answered, pause in calls:
        now += timedelta(seconds=pause)
        standing = standing.heard(now) if answered else standing.unheard(now)
        row = 0 if answered else row + 1
        assert (standing.since is not None) == (row >= TIMEOUTS)
        if standing.again is not None:
            assert (standing.again - now).total_seconds() <= LONGEST_PAUSE_SECONDS
            assert standing.due(now + timedelta(seconds=LONGEST_PAUSE_SECONDS))


SEEN = ReachabilityFact(True, text(0), text(0))
GONE = ReachabilityFact(False, text(5), text(0))
CASES = {
    "never asked": (ReachabilityFact(), AddressReachability(), ReachabilityFact()),
    "nobody to ask": (SEEN, None, ReachabilityFact(None, text(100), text(0))),
    "still nobody to ask": (ReachabilityFact(None, text(3), text(0)), None, ReachabilityFact(None, text(3), text(0))),
    "the first answer": (
        ReachabilityFact(),
        AddressReachability(answered=at(99)),
        ReachabilityFact(True, text(100), text(99)),
    ),
    "one more answer": (SEEN, AddressReachability(answered=at(99)), SEEN),
    "an answer after long": (
        SEEN,
        AddressReachability(answered=at(FRESH_SECONDS)),
        ReachabilityFact(True, text(0), text(FRESH_SECONDS)),
    ),
    "one call without": (SEEN, silent(1, 50), SEEN),
    "one call without, by a new process": (GONE, silent(1, 50), GONE),
    "left out": (SEEN, silent(TIMEOUTS, 50), ReachabilityFact(False, text(50), text(0))),
    "left out still": (GONE, silent(TIMEOUTS, 50), GONE),
    "left out for good": (ReachabilityFact(), silent(TIMEOUTS, 50), ReachabilityFact(False, text(50), None)),
    "back": (GONE, AddressReachability(answered=at(99)), ReachabilityFact(True, text(100), text(99))),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_status_says(name: str) -> None:
    before, standing, after = CASES[name]
    now = at(max(100.0, FRESH_SECONDS if name == "an answer after long" else 0.0))
    assert next_reachability(before, standing, now) == after
    assert next_reachability(after, standing, now) == after, "said once"


# ------------------------------------------------------------------------------------------------ the instance's pass


async def brought_up() -> tuple[ClusterWorld, FakeAdmin, list[AdminCall]]:
    """The quickstart, its Pulsar, and the calls to it from now on."""
    world = await ready_world()
    admin: FakeAdmin = world.deps.admin._inner._inner  # type: ignore[attr-defined]
    admin.calls.clear()
    return world, admin, admin.calls


async def row(world: ClusterWorld) -> Json:
    (found,) = (await world.status(Kind.INSTANCE, "demo"))["clusters"]
    return dict(found)


async def look(world: ClusterWorld) -> None:
    (key,) = [each for each in await world.keys() if each.kind is Kind.INSTANCE]
    await world.reconcile(key)


async def test_a_cluster_that_hangs_is_told_and_asked_ever_more_rarely_and_comes_back() -> None:
    world, admin, calls = await brought_up()
    seen = await row(world)
    assert seen["reachable"] is True
    assert parse_time(seen["lastResponseTime"]) is not None
    admin.hanging.add("east")
    for _ in range(TIMEOUTS):
        assert (await row(world))["reachable"] is True
        await look(world)
        (outcome,) = [o for k, o in world.outcomes.items() if k.kind is Kind.INSTANCE]
        assert outcome.requeue_after is not None  # type: ignore[union-attr]
        assert outcome.requeue_after <= FIRST_PAUSE_SECONDS, "whether it fell silent is to be known soon"  # type: ignore[union-attr]
    gone = await row(world)
    assert gone["reachable"] is False
    assert (gone["since"], gone["lastResponseTime"]) > (seen["since"], seen["lastResponseTime"])
    assert [e.object_kind for e in world.journal.events if e.reason == "AdminUnreachable"] == ["PulsarInstance"]
    asked, writes = len(calls), len(world.journal.attempts)
    world.clock.step = 0.01  # so that looks alone are not its time
    await look(world)
    assert len(calls) == asked, "not before its time"
    world.clock.forward(LONGEST_PAUSE_SECONDS)
    await look(world)
    assert len(calls) == asked + 1
    assert len(world.journal.attempts) == writes, "nothing new to say"
    (outcome,) = [o for k, o in world.outcomes.items() if k.kind is Kind.INSTANCE]
    assert outcome.requeue_after is not None  # type: ignore[union-attr]
    assert outcome.requeue_after <= 15  # type: ignore[union-attr]
    admin.hanging.clear()
    world.clock.forward(LONGEST_PAUSE_SECONDS)
    await look(world)
    back = await row(world)
    assert back["reachable"] is True
    assert back["since"] == (await row(world))["since"] > gone["since"]
    await world.run()
    assert await world.all_ready() == {}


async def test_answers_alone_write_no_status() -> None:
    world, _, calls = await brought_up()
    writes = len(world.journal.attempts)
    for _ in range(20):
        world.clock.forward(60)
        await look(world)
    assert len(world.journal.attempts) == writes
    assert len(calls) == 20
    world.clock.forward(FRESH_SECONDS)
    await look(world)
    assert len(world.journal.attempts) == writes + 1


async def test_a_new_process_keeps_what_is_known_until_it_knows_better() -> None:
    world, admin, _ = await brought_up()
    admin.hanging.add("east")
    for _ in range(TIMEOUTS):
        await look(world)
    gone = await row(world)
    world.restart()
    await look(world)
    assert await row(world) == gone
    for _ in range(TIMEOUTS):
        await look(world)
    assert await row(world) == gone
