"""Errors of the first pod of another version beside those of its peers: the table of the rule, and what must hold of
any numbers."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster_status import CanaryStatus
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.canary import (
    FRESH_SECONDS,
    MIN_ERRORS,
    MOST_PEERS,
    Comparison,
    Reading,
    Window,
    about_to_go,
    begun,
    compare,
    over,
    peers_of,
    remembered,
    replaced_soon,
    too_many,
)
from pulsar_operator.domain.dataplane.counters import Counts, Tally
from pulsar_operator.domain.dataplane.pods import PodFacts, pod_facts
from tests.support.cluster.stateful_sets import pod
from tests.unit.rollout.test_canary import AFTER, OUTDATED, upgraded

BROKER = Component.BROKER
NOW = AFTER
COMPARED = "are compared with those of 2 others"


def t(operations: int, errors: int = 0) -> Tally:
    return Tally(operations, errors)


@pytest.mark.parametrize(
    ("own", "others", "failed"),
    [
        (t(1000, 100), [t(1000), t(1000)], True),
        (t(1000, 100), [t(1000, 100), t(1000)], False),
        (t(1000, 100), [t(1000, 12), t(1000, 13)], True),
        (t(1000, 100), [t(1000, 40), t(100000, 40)], False),  # one of the others has it as well
        (t(1000, 100), [t(49, 40), t(100000, 40)], True),  # ... in 49 operations, which say nothing
        (t(3, 1), [t(1000)], False),
        (t(50, 9), [t(1000)], False),
        (t(50, 10), [t(1000)], True),
        (t(49, 49), [t(1000)], False),
        (t(50, 10), [t(25), t(25)], True),
        (t(50, 10), [t(24), t(25)], False),
        (t(50, 9), [t(25), t(25)], False),
        (t(1000, 10), [t(1000000)], True),
        (t(1001, 10), [t(1000000)], False),  # fewer than one of a hundred
        (t(100, 18), [t(50)], False),  # 50 operations without an error leave 6 % open
        (t(100, 19), [t(50)], True),
        (t(100, 10), [], False),
    ],
)
def test_the_table(own: Tally, others: list[Tally], failed: bool) -> None:
    assert too_many(own, others) is failed


def tallies(least: int = 0) -> st.SearchStrategy[Tally]:
    return st.integers(least, 10**7).flatmap(lambda n: st.builds(Tally, st.just(n), st.integers(0, n)))


others = st.lists(tallies(), max_size=8)


@given(st.integers(0, 10**7), others)
def test_without_errors_nothing_fails(operations: int, peers: list[Tally]) -> None:
    assert not too_many(t(operations), peers)


@given(tallies(1), st.integers(1, 8), st.integers(1, 1000))
def test_beside_peers_that_err_as_much_nothing_fails(own: Tally, peers: int, times: int) -> None:
    assert not too_many(own, [t(own.operations * times, own.errors * times)] * peers)


@given(tallies(), others, st.data())
def test_more_errors_never_make_it_good(own: Tally, peers: list[Tally], data: st.DataObject) -> None:
    worse = t(own.operations, data.draw(st.integers(own.errors, own.operations)))
    assert not too_many(own, peers) or too_many(worse, peers)


@given(tallies(), st.lists(tallies(), min_size=1, max_size=8), st.data())
def test_more_errors_of_a_peer_never_make_it_bad(own: Tally, peers: list[Tally], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(peers) - 1))
    peer = peers[index]
    worse = [*peers]
    worse[index] = t(peer.operations, data.draw(st.integers(peer.errors, peer.operations)))
    assert too_many(own, peers) or not too_many(own, worse)


@given(tallies(), others)
def test_fewer_than_the_floor_never_fail(own: Tally, peers: list[Tally]) -> None:
    assert own.errors >= MIN_ERRORS or not too_many(own, peers)


# ---------------------------------------------------------------------------------------------- windows of counters


def window(before: Counts, after: Counts | None, *, age: float = 0.0) -> Window:
    return Window(before, None if after is None else Reading(NOW - timedelta(seconds=age), after))


def log(operations: int, errors: int = 0) -> Counts:
    return {"log": t(operations, errors)}


GOOD = window(log(5000, 1), log(6000, 1))
BAD = window(log(100, 2), log(1100, 102))
BAD_WORDS = "errs more than its peers: 100 of its 1000 lines of the log are errors, theirs 0 of 2000"


def found(
    own: Window = BAD, peers: list[Window] | None = None, before: Counts | None = None, problem: str = ""
) -> Comparison:
    return compare(BROKER, own, [GOOD, GOOD] if peers is None else peers, before or {}, NOW, problem)


def test_what_was_counted_before_is_not_counted() -> None:
    assert found() == Comparison("are too many", BAD_WORDS)
    assert found(window(log(100, 90), log(1100, 90))) == Comparison(COMPARED)


@pytest.mark.parametrize(
    ("after", "counted"),
    [(log(300, 4), log(200, 2)), (log(80, 3), log(80, 3)), (log(200, 1), log(200, 1)), (log(100, 2), log(0, 0))],
)
def test_a_counter_that_goes_back_began_anew(after: Counts, counted: Counts) -> None:
    assert window(log(100, 2), after).counted(NOW) == counted


@given(tallies(), tallies())
def test_a_difference_is_a_tally(before: Tally, after: Tally) -> None:
    difference = (window({"log": before}, {"log": after}).counted(NOW) or {})["log"]
    assert 0 <= difference.errors <= after.errors and 0 <= difference.operations <= after.operations


@pytest.mark.parametrize(
    ("what", "result", "said"),
    [
        ("the pod was not read", found(window({}, None), problem="no answer"), "cannot be compared: no answer"),
        ("too long ago", found(window(log(100), log(1100, 100), age=61)), "cannot be compared: no metrics"),
        ("no peer was read", found(peers=[window({}, None)], problem="no answer"), "cannot be compared: no answer"),
        ("peers too long ago", found(peers=[window(log(1), log(9999), age=61)]), "cannot be compared: no metrics"),
        ("nobody else", found(peers=[]), "cannot be compared: the component has no other pod"),
        ("another sort", found(peers=[window({"web": t(0)}, {"web": t(900)})]), "are not compared yet"),
        ("no beginning", found(window({}, log(1100, 100))), "are not compared yet"),
        ("idle", found(window(log(100), log(149, 49))), "are not compared yet: too few"),
        ("idle peers", found(peers=[window(log(100), log(149))]), "are not compared yet: too few"),
        ("one peer was read", found(window(log(0), log(99)), [GOOD, window({}, None)]), "are compared with those of 1"),
        ("just in time", found(window(log(0), log(99), age=FRESH_SECONDS)), COMPARED),
    ],
)
def test_what_cannot_be_compared_fails_nothing_and_says_so(what: str, result: Comparison, said: str) -> None:
    assert result.failed == "" and result.said.startswith(said), what


def test_a_component_without_counters_of_errors() -> None:
    result = compare(Component.AUTORECOVERY, window({}, None), [], {}, NOW)
    assert result == Comparison("cannot be compared: autorecovery pods have no counter of them")


def test_without_peers_it_is_compared_with_what_was_there_before() -> None:
    assert found(peers=[], before=log(90000, 12)).failed == (
        "errs more than the pod before it: 100 of its 1000 lines of the log are errors, before 12 of 90000"
    )
    assert found(peers=[], before=log(900, 90)) == Comparison("are compared with those of the pod before it")
    assert found(before=log(900, 90)).failed == BAD_WORDS, "peers of now say more than a pod of then"


# ------------------------------------------------------------------------------------------------ what is remembered


def facts(name: str, uid: str) -> PodFacts:
    return pod_facts(pod(name, uid=uid))


FIRST, PEER, LATER = facts("b-2", "u2"), facts("b-0", "u0"), facts("b-1", "u1")


def reading(operations: int, at: datetime = NOW) -> Reading:
    return Reading(at, log(operations))


def test_counters_are_remembered_when_a_comparison_begins_and_stay() -> None:
    first = begun(BROKER, None, [FIRST, PEER], {"u2": reading(10), "u0": reading(500)})
    assert first is not None and (first.pod, first.uid, first.since) == ("b-2", "u2", timestamp(NOW))
    assert remembered(first.counters, "u2") == log(10) and remembered(first.counters, "u0") == log(500)
    later = NOW + timedelta(minutes=1)
    again = begun(BROKER, first, [FIRST, PEER], {"u2": reading(99, later), "u0": reading(999, later)})
    assert again == first
    assert begun(BROKER, first, [FIRST, PEER], {}) == first, "nothing is forgotten for an answer that did not come"


def test_a_peer_joins_with_what_it_has_counted_and_one_that_is_gone_is_dropped() -> None:
    first = begun(BROKER, None, [FIRST, PEER], {"u2": reading(10), "u0": reading(500)})
    second = begun(BROKER, first, [FIRST, LATER], {"u2": reading(20), "u1": reading(700)})
    assert second is not None and {row.uid for row in second.counters} == {"u2", "u1"}
    assert remembered(second.counters, "u2") == log(10) and remembered(second.counters, "u1") == log(700)


def test_another_first_pod_begins_anew() -> None:
    first = begun(BROKER, None, [FIRST, PEER], {"u2": reading(10), "u0": reading(500)})
    anew = begun(BROKER, first, [facts("b-2", "u9"), PEER], {"u9": reading(3), "u0": reading(600)})
    assert anew is not None and anew.uid == "u9"
    assert remembered(anew.counters, "u0") == log(600), "the same window for both"
    assert begun(BROKER, first, [facts("b-2", "u9"), PEER], {"u0": reading(600)}) is None


def test_what_the_only_pod_counted_stays_on_record() -> None:
    stored = replaced_soon(BROKER, FIRST, reading(90000))
    assert stored == CanaryStatus(component="broker", before=stored.before) and stored.uid is None
    new = facts("b-2", "u9")
    assert begun(BROKER, stored, [new], {}) == stored
    watched = begun(BROKER, stored, [new], {"u9": reading(5)})
    assert watched is not None and remembered(watched.before) == log(90000)
    assert begun(BROKER, watched, [facts("b-2", "u8")], {}) == stored, "also while another one comes up"


def test_peers_are_ready_and_not_replaced_and_not_too_many() -> None:
    unready = {**OUTDATED, "ready": False}
    assert [each.name for each in peers_of(upgraded(OUTDATED, unready, {}))] == ["my-bookie-0"]
    assert len(peers_of(upgraded(*[OUTDATED] * 12, {}))) == MOST_PEERS


def test_the_only_pod_is_read_before_it_goes() -> None:
    assert about_to_go(upgraded(OUTDATED, OUTDATED, {})) is None
    assert about_to_go(upgraded({})) is None
    assert over(upgraded({})) and not over(upgraded(OUTDATED))
