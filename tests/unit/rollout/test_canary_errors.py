"""Errors of the first pod of another version beside those of its peers: the table of the rule, and what must hold of
any numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.objects.pods import PodFacts, pod_facts
from pulsar_operator.domain.dataplane.observed.pod_counters import Counts, Tally
from pulsar_operator.domain.dataplane.rollout.canary import (
    MIN_ERRORS,
    MOST_PEERS,
    Comparison,
    begun,
    compare,
    counted,
    peers_of,
    remembered,
    too_many,
)
from tests.support.cluster.stateful_sets import pod
from tests.unit.rollout.test_canary import OUTDATED, upgraded

BROKER = Component.BROKER
COMPARED = "are compared with those of 2 other pods"


def t(operations: int, errors: int = 0) -> Tally:
    return Tally(operations, errors)


@pytest.mark.parametrize(
    ("own", "others", "failed"),
    [
        (t(1000, 100), [t(1000), t(1000)], True),
        (t(1000, 100), [t(1000, 100), t(1000)], False),  # one of the others has it as well
        (t(1000, 100), [t(1000, 12), t(1000, 13)], True),
        (t(1000, 100), [t(1000, 40), t(100000, 40)], False),
        (t(1000, 100), [t(1000, 33)], True),
        (t(1000, 100), [t(1000, 34)], False),
        (t(50, 9), [t(1000)], False),
        (t(50, 10), [t(1000)], True),
        (t(1000, 10), [t(1000000)], True),
        (t(1001, 10), [t(1000000)], False),  # fewer than one of a hundred
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


# ---------------------------------------------------------------------------------------------- since it began


def log(operations: int, errors: int = 0) -> Counts:
    return {"log": t(operations, errors)}


GOOD, BAD = log(1000), log(1000, 100)
BAD_WORDS = (
    "has more errors than its peers: on this pod 100 of 1000 lines of the log are errors, and on its peers 0 of 2000"
)


def found(own: Counts | None = BAD, peers: list[Counts] | None = None, problem: str = "") -> Comparison:
    return compare(BROKER, own, [GOOD, GOOD] if peers is None else peers, problem)


def test_a_pod_that_errs_more_than_each_of_its_peers_fails() -> None:
    assert found() == Comparison("are too many", BAD_WORDS)
    assert found(GOOD) == Comparison(COMPARED)


@pytest.mark.parametrize(
    ("after", "since"),
    [(log(300, 4), log(200, 2)), (log(80, 3), log(80, 3)), (log(200, 1), log(200, 1)), (log(100, 2), log(0, 0))],
)
def test_a_counter_that_goes_back_began_again(after: Counts, since: Counts) -> None:
    assert counted(log(100, 2), after) == since


@given(tallies(), tallies())
def test_a_difference_is_a_tally(before: Tally, after: Tally) -> None:
    difference = counted({"log": before}, {"log": after})["log"]
    assert 0 <= difference.errors <= after.errors and 0 <= difference.operations <= after.operations


@pytest.mark.parametrize(
    ("what", "result", "said"),
    [
        ("the pod was not read", found(None, problem="no answer"), "cannot be compared, because no answer"),
        ("no peer was read", found(peers=[], problem="no answer"), "cannot be compared, because no answer"),
        ("nobody else", found(peers=[]), "cannot be compared, because its metrics or those of its peers"),
        ("another sort", found(peers=[{"web": t(900)}]), "are not compared yet"),
        ("no beginning", found({}), "are not compared yet"),
        ("idle", found(log(49, 49)), "are not compared yet, because there are too few"),
        ("idle peers", found(peers=[log(49)]), "are not compared yet, because there are too few"),
        ("one peer has enough", found(log(99), [GOOD, log(49)]), "are compared with those of 1"),
    ],
)
def test_what_cannot_be_compared_fails_nothing_and_says_so(what: str, result: Comparison, said: str) -> None:
    assert result.failed == "" and result.message.startswith(said), what


def test_a_component_without_counters_of_errors() -> None:
    result = compare(Component.AUTORECOVERY, None, [])
    assert result == Comparison("cannot be compared, because autorecovery pods have no counter of errors")


# ------------------------------------------------------------------------------------------------ what is remembered


def facts(name: str, uid: str) -> PodFacts:
    return pod_facts(pod(name, uid=uid))


FIRST, PEER, LATER = facts("b-2", "u2"), facts("b-0", "u0"), facts("b-1", "u1")


def test_counters_are_remembered_when_a_comparison_begins_and_stay() -> None:
    first = begun(BROKER, None, [FIRST, PEER], {"u2": log(10), "u0": log(500)})
    assert first is not None and (first.pod, first.uid) == ("b-2", "u2")
    assert remembered(first.counters, "u2") == log(10) and remembered(first.counters, "u0") == log(500)
    again = begun(BROKER, first, [FIRST, PEER], {"u2": log(99), "u0": log(999)})
    assert again == first
    assert begun(BROKER, first, [FIRST, PEER], {}) == first, "nothing is forgotten for an answer that did not come"


def test_a_peer_joins_with_what_it_has_counted_and_one_that_is_gone_is_dropped() -> None:
    first = begun(BROKER, None, [FIRST, PEER], {"u2": log(10), "u0": log(500)})
    second = begun(BROKER, first, [FIRST, LATER], {"u2": log(20), "u1": log(700)})
    assert second is not None and {row.uid for row in second.counters} == {"u2", "u1"}
    assert remembered(second.counters, "u2") == log(10) and remembered(second.counters, "u1") == log(700)


def test_another_first_pod_begins_again() -> None:
    first = begun(BROKER, None, [FIRST, PEER], {"u2": log(10), "u0": log(500)})
    again = begun(BROKER, first, [facts("b-2", "u9"), PEER], {"u9": log(3), "u0": log(600)})
    assert again is not None and again.uid == "u9"
    assert remembered(again.counters, "u0") == log(600), "the same time for both"
    assert begun(BROKER, first, [facts("b-2", "u9"), PEER], {"u0": log(600)}) is None


def test_peers_are_ready_and_not_replaced_and_not_too_many() -> None:
    unready = {**OUTDATED, "ready": False}
    assert [each.name for each in peers_of(upgraded(OUTDATED, unready, {}))] == ["my-bookie-0"]
    assert len(peers_of(upgraded(*[OUTDATED] * 12, {}))) == MOST_PEERS
