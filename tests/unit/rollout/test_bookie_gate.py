"""When a bookie may be replaced: by tables, and that nothing unknown opens the gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.bookkeeper.affinity import Bound, Groups
from pulsar_operator.domain.bookkeeper.facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.dataplane.bookie_roll import BookieStep, bookie_gate

A, B, C = "b-0.x:3181", "b-1.x:3181", "b-2.x:3181"
WELL = StorageFacts(
    writable=frozenset({A, B, C}),
    readonly=frozenset(),
    cookies=frozenset({A, B, C}),
    under_replicated=UnderReplicated(0),
    auditor="a:3181",
    disabled=False,
)
STEP = BookieStep(C, (A, B), WELL, 2)


def test_it_goes_where_all_is_well() -> None:
    found = bookie_gate(STEP)
    assert (found.waiting_for, found.writes_pause) == (None, None)


CASES: list[tuple[str, BookieStep, str, bool]] = [
    ("the store did not say", replace(STEP, storage=None), "the metadata store to say", False),
    ("policies are not known", replace(STEP, ensemble=None), "the metadata store to say", False),
    (
        "another is gone",
        replace(STEP, storage=replace(WELL, writable=frozenset({A, C}))),
        f"bookie {B} to be registered as writable",
        False,
    ),
    (
        "another is read-only",
        replace(STEP, storage=replace(WELL, writable=frozenset({A, C}), readonly=frozenset({B}))),
        f"bookie {B} to be writable again",
        True,
    ),
    (
        "copies are missing",
        replace(STEP, storage=replace(WELL, under_replicated=UnderReplicated(3))),
        "3 ledgers to have all copies again",
        True,
    ),
    ("nobody counts them", replace(STEP, storage=replace(WELL, auditor=None)), "an auditor", True),
    ("nobody makes them", replace(STEP, storage=replace(WELL, disabled=True)), "replication to be switched on", True),
    (
        "a stranger's bookie is read-only, and too few are left",
        replace(STEP, storage=replace(WELL, writable=frozenset({A, B, C})), ensemble=2, others=(A, B)),
        "",
        False,
    ),
    (
        "enough bookies, too few of them writable",
        BookieStep(C, (A, B, "b-3.x:3181"), replace(WELL, writable=frozenset({A, B, C, "b-3.x:3181"})), 3),
        "",
        False,
    ),
]


@pytest.mark.parametrize(("step", "text", "confirmable"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_it_waits_for(step: BookieStep, text: str, confirmable: bool) -> None:
    found = bookie_gate(step)
    if text:
        assert found.waiting_for is not None and found.waiting_for.startswith(text)
    else:
        assert found.waiting_for is None
    assert found.confirmable is confirmable


def test_a_confirmation_opens_for_missing_copies_alone() -> None:
    lacking = replace(STEP, storage=replace(WELL, under_replicated=UnderReplicated(3)), confirmed=True)
    assert bookie_gate(lacking).waiting_for is None
    away = replace(lacking, storage=replace(WELL, writable=frozenset({A, C}), under_replicated=UnderReplicated(3)))
    assert bookie_gate(away).waiting_for == f"bookie {B} to be registered as writable"


def test_as_many_bookies_as_an_ensemble_takes_go_on_and_say_that_writes_pause() -> None:
    found = bookie_gate(replace(STEP, ensemble=3))
    assert found.waiting_for is None
    assert found.writes_pause is not None and "2 writable bookies are left" in found.writes_pause


def test_an_ensemble_that_no_number_of_bookies_fills_pauses_writes_and_does_not_block() -> None:
    assert bookie_gate(replace(STEP, ensemble=9)).waiting_for is None


def test_one_that_serves_nobody_is_replaced_although_its_copies_are_missing() -> None:
    gone = replace(WELL, writable=frozenset({A, B}), under_replicated=UnderReplicated(7), auditor=None)
    assert bookie_gate(replace(STEP, storage=gone, ensemble=3)).waiting_for is None
    both = replace(gone, writable=frozenset({A}))
    assert bookie_gate(replace(STEP, storage=both)).waiting_for == f"bookie {B} to be registered as writable"


GOLD = Groups(frozenset({"gold"}))
ORDERS = Bound("namespace shop/orders", 2, GOLD, frozenset({B, C}))
D, FOUR = "b-3.x:3181", frozenset({A, B, C, "b-3.x:3181"})


def test_a_group_that_has_as_many_bookies_as_its_namespace_takes_pauses_writes_and_does_not_block() -> None:
    found = bookie_gate(replace(STEP, bound=(ORDERS,)))
    assert found.waiting_for is None
    text = "1 writable bookies of affinity group gold are left and namespace shop/orders takes 2"
    assert found.writes_pause is not None and found.writes_pause.startswith(text)


def test_a_group_that_has_more_bookies_is_waited_for() -> None:
    """One of them is read-only, which somebody confirmed."""
    step = BookieStep(
        C,
        (A, B, D),
        replace(WELL, writable=FOUR - {D}, readonly=frozenset({D})),
        2,
        (replace(ORDERS, bookies=frozenset({B, C, D})),),
        confirmed=True,
    )
    found = bookie_gate(step)
    assert found.waiting_for is not None
    assert found.waiting_for.startswith(f"2 writable bookies of affinity group gold beside {C}, for namespace shop/or")
    well = bookie_gate(replace(step, storage=replace(WELL, writable=FOUR)))
    assert (well.waiting_for, well.writes_pause) == (None, None)


@pytest.mark.parametrize(
    "bound",
    [replace(ORDERS, bookies=frozenset({A, B})), replace(ORDERS, bookies=frozenset({C})), replace(ORDERS, size=1)],
    ids=["it is in no group of theirs", "they lack bookies in any case", "enough are left"],
)
def test_a_bookie_that_makes_no_difference_to_a_group_goes(bound: Bound) -> None:
    found = bookie_gate(replace(STEP, bound=(bound,)))
    assert (found.waiting_for, found.writes_pause) == (None, None)


def test_groups_that_nobody_can_read_do_not_block_and_are_reported() -> None:
    found = bookie_gate(replace(STEP, groups_unknown="znode /bookies to be readable"))
    assert found.waiting_for is None
    assert found.writes_pause is not None and "znode /bookies to be readable" in found.writes_pause


@given(
    st.sets(st.sampled_from([A, B, C]), max_size=3),
    st.sets(st.sampled_from([A, B, C]), max_size=3),
    st.integers(0, 2),
    st.integers(1, 5),
    st.booleans(),
)
def test_an_open_gate_takes_no_writable_bookie_beside_one_that_is_not(
    writable: set[str], readonly: set[str], lacking: int, ensemble: int, confirmed: bool
) -> None:
    facts = replace(
        WELL,
        writable=frozenset(writable - readonly),
        readonly=frozenset(readonly),
        under_replicated=UnderReplicated(lacking),
    )
    found = bookie_gate(BookieStep(C, (A, B), facts, ensemble, confirmed=confirmed))
    if found.waiting_for is not None:
        return
    assert {A, B} <= facts.registered
    assert {A, B} <= facts.writable or C not in facts.writable or confirmed
    assert lacking == 0 or confirmed or C not in facts.registered
    if C in facts.writable:
        assert len(facts.writable - {C}) >= ensemble or found.writes_pause is not None
