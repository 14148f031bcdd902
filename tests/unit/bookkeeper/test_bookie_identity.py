"""Ids of the incarnations of bookies, and their count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.bookkeeper.bookie_ids import (
    Count,
    OwnBookies,
    copy_text,
    highest,
    host_of,
    incarnations_data,
    parse_copy,
    parse_incarnations,
    raised,
    same_pod,
    settled,
    used_ids,
)
from pulsar_operator.domain.bookkeeper.ledgers import checked_bookie_id
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.render.child_names import pod_host
from pulsar_operator.domain.render.listeners import bookie_id

WORKLOAD = "c-bookie"
FIRST = bookie_id(WORKLOAD, 0, "ns", "cluster.local")
OWN = OwnBookies.of(FIRST)
ORDINALS, NUMBERS = st.integers(0, 10**6), st.integers(0, 10**6)
COUNTS = st.dictionaries(st.integers(0, 3), st.builds(Count, st.integers(0, 3), st.integers(-1, 3)))
IDS = st.sets(st.builds(OWN.of_incarnation, st.integers(0, 3), st.integers(0, 4)))


def of(ordinal: int, *incarnations: int) -> set[str]:
    return {OWN.of_incarnation(ordinal, each) for each in incarnations}


@given(ordinal=ORDINALS, number=NUMBERS)
def test_every_incarnation_is_recognised_and_is_an_id_of_bookkeeper(ordinal: int, number: int) -> None:
    bookie = OWN.of_incarnation(ordinal, number)
    assert OWN.slot(bookie) == (ordinal, number) and OWN.ordinal(bookie) == ordinal
    assert checked_bookie_id(bookie) == bookie and not bookie.endswith(":0")
    assert bookie.partition(".")[0] == f"{WORKLOAD}-{ordinal}"
    assert host_of(bookie) == pod_host(WORKLOAD, ordinal, "ns", "cluster.local")
    assert same_pod(bookie, OWN.of_incarnation(ordinal, number + 1))
    assert not same_pod(bookie, OWN.of_incarnation(ordinal + 1, number))
    assert (number == 0) == (bookie == bookie_id(WORKLOAD, ordinal, "ns", "cluster.local")), "clusters keep their ids"


@given(text=st.text("c-bookie01i.hns:3181local", max_size=60))
def test_what_is_not_made_so_is_no_bookie_of_the_cluster(text: str) -> None:
    slot = OWN.slot(text)
    assert slot is None or OWN.of_incarnation(*slot) == text


@pytest.mark.parametrize("text", ["", "x", "c-bookie-00.", "c-bookie-0.i0.c-bookie-headless.ns.svc.cluster.local"])
def test_a_stranger(text: str) -> None:
    assert OWN.slot(text) is None and OWN.ordinal(text) is None
    assert OWN.ordinal(f"{OWN.of_incarnation(0, 1)}:3181") is None
    with pytest.raises(ValueError, match="ordinal 0"):
        OwnBookies.of(OWN.of_incarnation(1, 0))


@pytest.mark.parametrize(
    ("count", "present", "now", "on_empty_volumes", "last"),
    [
        (None, (), 0, 0, 0),
        (None, (0,), 0, 0, 0),
        (Count(0, 0), (0,), 0, 0, 0),
        # The number was raised, and the bookie has its volumes still, or comes back with them.
        (Count(1, 0), (0,), 0, 1, 0),
        (Count(1, 0), (), 1, 1, 0),
        (Count(1, 1), (0, 1), 1, 1, 1),
        (Count(1, 1), (1,), 1, 1, 1),
        # The record is of an older backup than what is there.
        (Count(1, 1), (3,), 3, 1, 3),
    ],
)
def test_which_incarnation_an_ordinal_has(
    count: Count | None, present: tuple[int, ...], now: int, on_empty_volumes: int, last: int
) -> None:
    own = OwnBookies.of(FIRST, {} if count is None else {2: count}, of(2, *present) | of(1, 7))
    assert own.id(2) == OWN.of_incarnation(2, now)
    assert own.next_id(2) == OWN.of_incarnation(2, on_empty_volumes)
    assert own.last_id(2) == OWN.of_incarnation(2, last)
    assert own.ids(2) == of(2, now, on_empty_volumes)
    assert own.former() == sorted(of(2, *present) - of(2, now))


@pytest.mark.parametrize(
    ("before", "cookies", "registered", "after"),
    [
        ({}, (), (), {}),
        ({}, (0,), (0,), {2: Count(0, 0)}),
        ({}, (), (0,), {2: Count(0, 0)}),
        ({2: Count(0, 0)}, (0,), (), {2: Count(0, 0)}),
        # Its cookie is deleted, by whomsoever: the next one that starts empty is another.
        ({2: Count(0, 0)}, (), (), {2: Count(1, 0)}),
        ({2: Count(0, 0)}, (), (0,), {2: Count(0, 0)}),
        ({2: Count(1, 0)}, (), (), {2: Count(1, 0)}),
        ({2: Count(1, 0)}, (0, 1), (1,), {2: Count(1, 1)}),
        ({2: Count(1, 0)}, (0,), (0,), {2: Count(1, 0)}),
        ({}, (5,), (), {2: Count(5, 5)}),
        ({2: Count(1, 1)}, (), (4,), {2: Count(4, 4)}),
    ],
)
def test_the_count_after_a_look(
    before: dict[int, Count], cookies: tuple[int, ...], registered: tuple[int, ...], after: dict[int, Count]
) -> None:
    assert settled(OwnBookies.of(FIRST, before), of(2, *cookies), of(2, *registered)) == after


@given(before=COUNTS, cookies=IDS, registered=IDS)
def test_a_count_only_rises_and_no_used_id_is_handed_out(
    before: dict[int, Count], cookies: set[str], registered: set[str]
) -> None:
    own = OwnBookies.of(FIRST, before, cookies | registered)
    after = settled(own, cookies, registered)
    then = OwnBookies.of(FIRST, after, cookies | registered)
    for ordinal, count in after.items():
        old = before.get(ordinal, Count())
        assert count.number >= old.number and count.observed >= old.observed
        assert not count.spent or then.next_id(ordinal) in cookies | registered
    assert settled(then, cookies, registered) == after, "the second look changes nothing"


@given(before=COUNTS, ordinal=st.integers(0, 3), above=st.integers(0, 4))
def test_a_spent_id_is_never_the_next_one(before: dict[int, Count], ordinal: int, above: int) -> None:
    after = raised(before, ordinal, above)
    assert not after[ordinal].spent or after[ordinal].observed > above
    assert after[ordinal].number > above
    assert raised(after, ordinal, above) == after


@given(counts=COUNTS)
def test_the_record_is_read_as_it_was_written(counts: dict[int, Count]) -> None:
    assert parse_incarnations(incarnations_data(counts)) == counts
    assert parse_incarnations(b"") == {} == parse_copy("")
    assert parse_copy(copy_text(counts)) == counts


@given(one=COUNTS, other=COUNTS)
def test_the_higher_number_of_two_places_counts(one: dict[int, Count], other: dict[int, Count]) -> None:
    found = highest(one, other)
    assert found == highest(other, one) == highest(found, one) and found.keys() == one.keys() | other.keys()
    for ordinal, count in found.items():
        mine, theirs = one.get(ordinal, Count()), other.get(ordinal, Count())
        assert count == Count(max(mine.number, theirs.number), max(mine.observed, theirs.observed))


def test_an_id_proves_that_its_incarnation_was_there() -> None:
    assert used_ids(OWN, [*of(2, 0, 3), *of(1, 0), "a-stranger:3181"]) == {2: Count(0, 3), 1: Count(0, 0)}


@pytest.mark.parametrize(
    "data", [b"x", b"[]", b'{"a":{}}', b'{"1":{"number":-1,"seen":0}}', b'{"1":{"number":true,"seen":0}}']
)
def test_what_cannot_be_read_is_no_empty_record(data: bytes) -> None:
    with pytest.raises(UndecodableError, match="bookie-incarnations does not hold a count"):
        parse_incarnations(data)
