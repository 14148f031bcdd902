"""When a bookie may be replaced: by tables, and that nothing unknown opens the gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmationAction, UsedClusterConfirmation
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.affinity import Bound, Groups
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.dataplane.rollout.checks import (
    SERVERS,
    Decision,
    blocker_of,
    used_confirmation,
    writes_pause,
)
from pulsar_operator.domain.dataplane.rollout.facts import BookieFacts, RolloutFacts
from pulsar_operator.domain.dataplane.rollout.order import Candidate, Urgency

A, B, C = "b-0.x:3181", "b-1.x:3181", "b-2.x:3181"
WELL = StorageFacts(
    writable=frozenset({A, B, C}),
    readonly=frozenset(),
    cookies=frozenset({A, B, C}),
    under_replicated=UnderReplicated(0),
    auditor="a:3181",
    disabled=False,
)
CONFIRMED = UsedClusterConfirmation(
    action=ClusterConfirmationAction.ROLL_UNDER_REPLICATED,
    answers="x",
    expires_time="2026-05-03T00:00:00Z",
    used_time="2026-05-01T00:00:00Z",
)
REMEDY = "confirm it"
STEP = BookieFacts(WELL, OwnBookies.of(A), (A, B, C), 2, remedy=REMEDY)
"""Bookie C is to be replaced."""


def candidate(urgency: Urgency = Urgency.ROUTINE) -> Candidate:
    return Candidate(Component.BOOKIE, "b-2", "u2", "image changed", urgency)


def blocked(bookies: BookieFacts, urgency: Urgency = Urgency.ROUTINE) -> Blocker | None:
    return blocker_of(RolloutFacts((), bookies=bookies), candidate(urgency), SERVERS)


def pauses(bookies: BookieFacts) -> str | None:
    return writes_pause(RolloutFacts((), bookies=bookies), candidate())


def used(bookies: BookieFacts) -> UsedClusterConfirmation | None:
    return used_confirmation(RolloutFacts((), bookies=bookies), Decision(candidate(), blocked(bookies)))


def confirmed(bookies: BookieFacts) -> BookieFacts:
    return replace(bookies, confirmation=CONFIRMED, recorded=True)


def test_it_goes_where_all_is_well() -> None:
    assert (blocked(STEP), pauses(STEP)) == (None, None)


D, FOUR = "b-3.x:3181", frozenset({A, B, C, "b-3.x:3181"})
CASES: list[tuple[str, BookieFacts, Reason | None, str, bool]] = [
    (
        "another is gone",
        replace(STEP, storage=replace(WELL, writable=frozenset({A, C}))),
        Reason.WAITING_FOR_BOOKIES,
        f"Bookie {B} is not registered",
        False,
    ),
    (
        "another is read-only",
        replace(STEP, storage=replace(WELL, writable=frozenset({A, C}), readonly=frozenset({B}))),
        Reason.BOOKIE_READ_ONLY,
        f"Bookie {B} is read-only",
        True,
    ),
    (
        "copies are missing",
        replace(STEP, storage=replace(WELL, under_replicated=UnderReplicated(3))),
        Reason.UNDER_REPLICATED,
        "3 ledgers lack copies",
        True,
    ),
    (
        "nobody counts them",
        replace(STEP, storage=replace(WELL, auditor=None)),
        Reason.UNDER_REPLICATED,
        "is the auditor",
        True,
    ),
    (
        "nobody makes them",
        replace(STEP, storage=replace(WELL, disabled=True)),
        Reason.UNDER_REPLICATED,
        "Replication is switched off",
        True,
    ),
    (
        "a stranger's bookie is there too",
        replace(STEP, storage=replace(WELL, writable=FOUR), ensemble=2),
        None,
        "",
        False,
    ),
    (
        "enough bookies are left",
        replace(STEP, ids=(A, B, C, D), storage=replace(WELL, writable=FOUR), ensemble=3),
        None,
        "",
        False,
    ),
    (
        "enough bookies, and too few of them would be writable",
        confirmed(
            replace(
                STEP,
                ids=(A, B, C, D),
                storage=replace(WELL, writable=FOUR - {D}, readonly=frozenset({D})),
                ensemble=3,
            )
        ),
        Reason.WAITING_FOR_BOOKIES,
        "The largest ensemble requires 3 writable bookies, and only 2 would be left",
        False,
    ),
]


@pytest.mark.parametrize(("step", "reason", "text", "confirmable"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_it_waits_for(step: BookieFacts, reason: Reason | None, text: str, confirmable: bool) -> None:
    found = blocked(step)
    assert (found.reason if found is not None else None) is reason
    if found is not None:
        assert text in found.message and (REMEDY in found.message) is confirmable


def test_a_confirmation_opens_for_missing_copies_alone() -> None:
    lacking = confirmed(replace(STEP, storage=replace(WELL, under_replicated=UnderReplicated(3))))
    assert blocked(lacking) is None
    assert used(lacking) == CONFIRMED
    away = replace(lacking, storage=replace(WELL, writable=frozenset({A, C}), under_replicated=UnderReplicated(3)))
    found = blocked(away)
    assert found is not None and found.message.startswith(f"Bookie {B} is not registered")
    assert used(away) is None, "it does not help"
    assert used(confirmed(STEP)) is None, "none is needed"


def test_a_confirmation_opens_once_the_status_has_it() -> None:
    lacking = replace(STEP, storage=replace(WELL, under_replicated=UnderReplicated(3)), confirmation=CONFIRMED)
    found = blocked(lacking)
    assert found is not None and found.reason is Reason.PENDING
    assert used(lacking) == CONFIRMED


def test_as_many_bookies_as_an_ensemble_takes_go_on_and_say_that_writes_pause() -> None:
    assert blocked(replace(STEP, ensemble=3)) is None
    assert "2 writable bookies are left" in (pauses(replace(STEP, ensemble=3)) or "")


def test_an_ensemble_that_no_number_of_bookies_fills_pauses_writes_and_does_not_block() -> None:
    assert blocked(replace(STEP, ensemble=9)) is None


def test_one_that_serves_nobody_is_replaced_although_its_copies_are_missing() -> None:
    gone = replace(WELL, writable=frozenset({A, B}), under_replicated=UnderReplicated(7), auditor=None)
    assert blocked(replace(STEP, storage=gone, ensemble=3)) is None
    both = replace(STEP, storage=replace(gone, writable=frozenset({A})))
    found = blocked(both)
    assert found is not None and found.message.startswith(f"Bookie {B} is not registered")
    assert blocked(both, Urgency.RESTARTED) is blocked(both, Urgency.NEVER_READY) is None


GOLD = Groups(frozenset({"gold"}))
ORDERS = Bound("namespace shop/orders", 2, GOLD, frozenset({B, C}))


def test_a_group_that_has_as_many_bookies_as_its_namespace_takes_pauses_writes_and_does_not_block() -> None:
    step = replace(STEP, bound=(ORDERS,))
    assert blocked(step) is None
    text = "namespace shop/orders requires 2 writable bookies of affinity group gold, but only 1 are left"
    assert (pauses(step) or "").startswith(text)


def test_a_group_that_has_more_bookies_is_waited_for() -> None:
    """One of them is read-only, which somebody confirmed."""
    bound = (replace(ORDERS, bookies=frozenset({B, C, D})),)
    storage = replace(WELL, writable=FOUR - {D}, readonly=frozenset({D}))
    step = confirmed(replace(STEP, ids=(A, B, C, D), storage=storage, bound=bound))
    found = blocked(step)
    assert found is not None and found.reason is Reason.WAITING_FOR_BOOKIES
    assert f"requires 2 writable bookies of affinity group gold, and only 1 would be left without {C}" in found.message
    well = replace(step, storage=replace(WELL, writable=FOUR))
    assert (blocked(well), pauses(well)) == (None, None)


@pytest.mark.parametrize(
    "bound",
    [replace(ORDERS, bookies=frozenset({A, B})), replace(ORDERS, bookies=frozenset({C})), replace(ORDERS, size=1)],
    ids=["it is in no group of theirs", "they lack bookies in any case", "enough are left"],
)
def test_a_bookie_that_makes_no_difference_to_a_group_goes(bound: Bound) -> None:
    step = replace(STEP, bound=(bound,))
    assert (blocked(step), pauses(step)) == (None, None)


def test_groups_that_nobody_can_read_do_not_block_and_are_reported() -> None:
    step = replace(STEP, groups_unknown="znode /bookies to be readable")
    assert blocked(step) is None
    assert "znode /bookies to be readable" in (pauses(step) or "")


@given(
    st.sets(st.sampled_from([A, B, C]), max_size=3),
    st.sets(st.sampled_from([A, B, C]), max_size=3),
    st.integers(0, 2),
    st.integers(1, 5),
    st.booleans(),
)
def test_an_open_gate_takes_no_writable_bookie_beside_one_that_is_not(
    writable: set[str], readonly: set[str], lacking: int, ensemble: int, said: bool
) -> None:
    facts = replace(
        WELL,
        writable=frozenset(writable - readonly),
        readonly=frozenset(readonly),
        under_replicated=UnderReplicated(lacking),
    )
    step = replace(STEP, storage=facts, ensemble=ensemble)
    step = confirmed(step) if said else step
    if blocked(step) is not None:
        return
    assert {A, B} <= facts.registered
    assert {A, B} <= facts.writable or C not in facts.writable or said
    assert lacking == 0 or said or C not in facts.registered
    if C in facts.writable:
        assert len(facts.writable - {C}) >= ensemble or pauses(step) is not None
