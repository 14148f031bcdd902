"""Who balances all the time: Pulsar's balancer is given back while the operator cannot decide, and taken again late."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, ANNOTATION_PAUSE, Reason
from pulsar_operator.balance.execution.handover import (
    ABLE,
    CLEAR_SECONDS,
    DECIDED_SECONDS,
    FAILED,
    GAP_SECONDS,
    HOLD_SECONDS,
    NEITHER,
    RETURN_SECONDS,
    TRIAL_SECONDS,
    UNDECIDED_SECONDS,
    Handover,
    ability_of,
    balancing_condition,
    judge,
    lapsed,
    pulsar_balances_message,
    returns_at,
)
from pulsar_operator.domain.conditions import timestamp

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGO = 1e9
"""An arbitrary time in seconds at which stories begin."""


def story(*spells: tuple[float, bool | None], every: float = 60.0, known: Handover | None = None) -> list[Handover]:
    """What is known after every look; each spell lasts some minutes, in which the operator can decide or not."""
    found, now = [known or Handover()], AGO
    for minutes, decides in spells:
        for _ in range(round(minutes * 60 / every)):
            found.append(judge(found[-1], now, decides))
            now += every
    return found


def minutes_with_pulsar(found: Sequence[Handover]) -> int:
    return sum(each.restored_at is not None for each in found)


def test_an_operator_that_can_decide_has_nothing_to_remember() -> None:
    assert set(story((60, True))) == {Handover()}


@pytest.mark.parametrize(
    ("spells", "count", "with_pulsar"),
    [
        ([(15, False)], 0, 0),
        ([(16, False)], 1, 1),
        ([(8 * 60, False)], 1, 465),
        ([(14, False), (60, True)], 0, 0),
        # One good look in a quarter of an hour is no balancing.
        ([(14, False), (1, True), (4, False)], 0, 0),
        ([(14, False), (1, True), (5, False)], 1, 1),
        ([(14, False), (4, True), (1, False)], 0, 0),
        ([(14, False), (6, True), (14, False)], 0, 0),
        ([(1, False), (1, True)] * 60, 0, 0),
        # Who can decide for a quarter of the time balances as well as Pulsar, with fewer moves.
        ([(5, False), (2, True)] * 60, 0, 0),
        ([(3, False), (1, True)] * 60, 0, 0),
        ([(4, False), (1, True)] * 60, 1, 237),
        ([(9, False), (1, True)] * 60, 1, 577),
        # Ten minutes of deciding and half an hour with Pulsar, whatever comes last.
        ([(16, False), (29, True)], 1, 30),
        ([(16, False), (31, True)], 1, 30),
        ([(60, False), (10, True)], 1, 55),
        ([(60, False), (11, True)], 1, 55),
        ([(60, False), (9, True), (1, False), (10, True)], 1, 65),
        ([(16, False), (60, True), (16, False)], 2, 31),
        # What says nothing changes nothing, and what was before a long time of it counts no more.
        ([(10, False), (4, None), (6, False)], 1, 5),
        ([(10, False), (6, None), (14, False)], 0, 0),
        ([(16, False), (120, None)], 1, 121),
        ([(240, None)], 0, 0),
    ],
)
def test_when_pulsar_balances(spells: list[tuple[float, bool | None]], count: int, with_pulsar: int) -> None:
    found = story(*spells)
    assert (found[-1].count, minutes_with_pulsar(found)) == (count, with_pulsar)


def test_a_process_that_was_away_for_long_begins_to_count_again() -> None:
    before = story((14, False))[-1]
    later = judge(before, AGO + 8 * 3600, False)
    assert later.restored_at is None and later.undecided_since == AGO + 8 * 3600
    back = story((16, False), (5, True))[-1]
    assert judge(back, AGO + 8 * 3600, True).restored_at is not None


def test_a_short_restart_loses_no_time() -> None:
    before = story((13, False))[-1]
    assert judge(before, AGO + 900 + 60, False).restored_at is not None


def test_a_clock_that_was_set_back_is_not_waited_for() -> None:
    back = story((16, False))[-1]
    early, now = [back], AGO - 86400
    while early[-1].restored_at is not None:
        early.append(judge(early[-1], now, True))
        now += 60
        assert len(early) < 40
    assert now - (AGO - 86400) >= RETURN_SECONDS


class Days(RuleBasedStateMachine):
    """Any sequence of looks, gaps and lost statuses (the record keeps when it was given back, and how often)."""

    def __init__(self) -> None:
        super().__init__()
        self.known, self.now = Handover(), AGO
        self.given: list[float] = []
        self.blind = 0.0
        """Seconds for which every look said that the operator cannot decide, none more than a minute apart."""

    def _look(self, seconds: float, decides: bool | None) -> None:
        self.now += seconds
        before, self.known = self.known, judge(self.known, self.now, decides)
        if self.known.count > before.count:
            assert before.restored_at is None and decides is False
            self.given.append(self.now)
        if before.restored_at is not None and self.known.restored_at is None:
            assert decides is True
            assert self.now - before.restored_at >= RETURN_SECONDS
        self.blind = self.blind + seconds if decides is False and seconds <= 60 else 0.0

    @rule(seconds=st.floats(1, 60), decides=st.sampled_from([True, False, None]), looks=st.integers(1, 60))
    def looks(self, seconds: float, decides: bool | None, looks: int) -> None:
        for _ in range(looks):
            self._look(seconds, decides)

    @rule(seconds=st.floats(60, 86400), decides=st.sampled_from([True, False, None]))
    def gap(self, seconds: float, decides: bool | None) -> None:
        self._look(seconds, decides)

    @rule()
    def status_lost(self) -> None:
        self.known = Handover(restored_at=self.known.restored_at, count=self.known.count)
        self.blind = 0.0

    @invariant()
    def at_most_one_handover_in_half_an_hour(self) -> None:
        times = self.given
        assert all(later - earlier >= RETURN_SECONDS for earlier, later in pairwise(times))
        assert self.known.count == len(times)

    @invariant()
    def given_back_in_bounded_time(self) -> None:
        assert self.known.restored_at is not None or self.blind < UNDECIDED_SECONDS + 60

    @invariant()
    def no_time_is_to_come(self) -> None:
        kept = (self.known.undecided_since, self.known.decided_since, self.known.last_observed, self.known.restored_at)
        assert all(at is None or at <= self.now for at in kept)


TestDays = Days.TestCase
TestDays.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_constants_let_no_flapping_through() -> None:
    """A broker that answers now and then: whatever its rhythm, Pulsar's balancer changes hands every 45 min at most."""
    for off in range(1, 40):
        for on in range(1, 40):
            found = story(*[(off, False), (on, True)] * (480 // (off + on)))
            assert found[-1].count <= 480 // 45, (off, on)
    assert UNDECIDED_SECONDS + RETURN_SECONDS >= 45 * 60 and CLEAR_SECONDS <= GAP_SECONDS <= DECIDED_SECONDS


# --------------------------------------------------------------------------- what a standing PulsarRebalance says


def standing(reason: str = "Balanced", **annotations: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": reason, "message": "as it is."}
    return {
        "metadata": {"name": "east-balancer", "generation": 1, "annotations": annotations},
        "status": {"conditions": [ready]},
    }


@pytest.mark.parametrize("reason", sorted(Reason))
def test_every_reason_says_whether_it_can_decide(reason: Reason) -> None:
    found = ability_of(standing(reason.value), "east-balancer", NOW, changing=True)
    assert found.decides is (None if reason in NEITHER else reason in ABLE)
    assert reason.value in found.message and not found.message.endswith(".")


def test_it_can_decide_by_what_it_says_last() -> None:
    def decides(obj: dict[str, Any] | None, *, changing: bool = False) -> tuple[bool | None, Reason]:
        found = ability_of(obj, "east-balancer", NOW, changing=changing)
        return found.decides, found.reason

    assert decides(standing("Balanced")) == (True, Reason.BALANCED)
    assert decides(standing("NoData")) == (False, Reason.NO_DATA)
    assert decides(standing("OfALaterVersion")) == (False, Reason.UNKNOWN)
    assert decides(standing("BrokersChanging"), changing=True) == (None, Reason.BROKERS_CHANGING)
    # A rollout that waits for its maintenance window for days changes nothing.
    assert decides(standing("BrokersChanging")) == (False, Reason.BROKERS_CHANGING)
    assert decides(None) == (False, Reason.PENDING)
    assert decides({"metadata": {"name": "east-balancer", "generation": 1}}) == (None, Reason.PENDING)
    assert decides(standing(**{ANNOTATION_PAUSE: "true"})) == (False, Reason.PAUSED)
    assert decides(standing(**{ANNOTATION_DRY_RUN: "true"})) == (False, Reason.PAUSED)
    assert decides(standing(**{ANNOTATION_PAUSE: "false"})) == (True, Reason.BALANCED)
    gone = standing()
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decides(gone) == (False, Reason.PENDING)


@pytest.mark.parametrize(
    ("reason", "count", "hours", "decides"),
    [
        # One that ended says nothing of whether the next look can decide.
        ("PlanInvalidated", 1, 0.1, None),
        ("PlanInvalidated", FAILED, 0.1, False),
        ("Executing", FAILED, 0.1, False),
        ("PulsarBalances", 50, 0.1, False),
        # Nothing is to be moved, or a user decides.
        ("Balanced", 50, 0.1, True),
        ("WaitingForApproval", 50, 0.1, True),
        # It is tried again, also where the clock was set back meanwhile.
        ("PulsarBalances", 50, TRIAL_SECONDS / 3600, True),
        ("PulsarBalances", 50, -1.0, True),
        ("NoData", 50, 10.0, False),
    ],
)
def test_executions_that_move_nothing_are_no_balancing(
    reason: str, count: int, hours: float, decides: bool | None
) -> None:
    obj = standing(reason)
    last = timestamp(NOW - timedelta(hours=hours))
    obj["status"]["failedExecutions"] = {"count": count, "lastTime": last, "message": "Pulsar refused to move it."}
    found = ability_of(obj, "east-balancer", NOW, changing=False)
    assert found.decides is decides
    assert ("Pulsar refused to move it" in found.message) is (decides is False and reason != "NoData")


@pytest.mark.parametrize("failed", [{}, {"count": 9}, {"count": "9", "lastTime": timestamp(NOW)}, {"lastTime": "x"}])
def test_failed_executions_that_say_too_little_are_none(failed: dict[str, Any]) -> None:
    obj = standing("Executing")
    obj["status"]["failedExecutions"] = failed
    assert ability_of(obj, "east-balancer", NOW, changing=False).decides


def test_the_condition_says_state_cause_and_remedy() -> None:
    blind = ability_of(standing("NoData"), "east-balancer", NOW, changing=False)
    able = ability_of(standing(), "east-balancer", NOW, changing=False)
    assert balancing_condition(Handover(), able, "east-balancer")[:2] == (True, Reason.OPERATOR_BALANCES)
    undecided = balancing_condition(story((5, False))[-1], blind, "east-balancer")
    assert undecided[:2] == (False, Reason.NO_DATA)
    assert (
        "has not been able to balance since 2001-09-09T01:46:40Z" in undecided[2]
        and "until 2001-09-09T02:01:40Z" in undecided[2]
    )
    back = story((16, False))[-1]
    assert balancing_condition(story((5, False))[-1], able, "east-balancer")[:2] == (True, Reason.OPERATOR_BALANCES)
    given = balancing_condition(back, blind, "east-balancer")
    assert given[:2] == (False, Reason.PULSAR_BALANCES)
    for part in ("since 2001-09-09T02:01:40Z", "NoData: as it is. Check the", "not before 2001-09-09T02:31:40Z"):
        assert part in given[2], given[2]
    assert "since 2001-09-09T01:46:40Z" in pulsar_balances_message(back, blind)
    again = story((16, False), (5, True))[-1]
    returning = balancing_condition(again, able, "east-balancer")
    assert returning[1] is Reason.PULSAR_BALANCES and "takes over at 2001-09-09T02:31:40Z" in returning[2]
    assert (returns_at(again), returns_at(Handover())) == (AGO + 900 + RETURN_SECONDS, None)
    paused = ability_of(standing(**{ANNOTATION_PAUSE: "true"}), "east-balancer", NOW, changing=False)
    assert "Remove the annotation" in balancing_condition(back, paused, "east-balancer")[2]


# --------------------------------------------------------------------------- what holds nothing any more


def executing(ready: str = "False", changed: float = 0.0, blocked: float | None = None) -> dict[str, Any]:
    def at(seconds: float) -> str:
        return timestamp(NOW - timedelta(seconds=seconds))

    progress = {} if blocked is None else {"blockedSince": at(blocked)}
    condition = {"type": "Ready", "status": ready, "reason": "Executing", "lastTransitionTime": at(changed)}
    return {"metadata": {"name": "once"}, "status": {"progress": progress, "conditions": [condition]}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (executing(), False),
        (executing(changed=86400), False),
        (executing(blocked=HOLD_SECONDS - 1), False),
        (executing(blocked=HOLD_SECONDS), True),
        # Its passes end with an error: it cannot say since when.
        (executing("Unknown", changed=HOLD_SECONDS - 1), False),
        (executing("Unknown", changed=HOLD_SECONDS), True),
        (executing(blocked=-3600), True),
        ({"metadata": {"name": "once"}}, False),
    ],
)
def test_what_does_no_step_for_long_holds_nothing(obj: dict[str, Any], expected: bool) -> None:
    assert lapsed(obj, NOW) is expected
