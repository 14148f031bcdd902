"""Conditions Stalled and Reconciling: which reasons waiting heals, from when on, and how long they stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.healing import HEALING, SETS, Healing
from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.controllers.core.failures import of_denied, of_exception, report_failure
from pulsar_operator.domain.conditions import FALSE, STALLED_SECONDS, TRUE, UNKNOWN, ConditionSet, timestamp
from pulsar_operator.ports import ForbiddenError, Key
from tests.support.logical.world import DRY_RUN, LogicalWorld

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
AT_ONCE = [reason for reason, healing in HEALING.items() if healing in (Healing.CONSENT, Healing.CHANGE)]
LATER = sorted(SETS[Healing.OTHERS])


def told(ready: Any, reason: Reason, *, after: float = 0.0, before: list[Any] | None = None, **more: Any) -> list[Any]:
    """The conditions of a pass, as stored."""
    moment = BEGIN + timedelta(seconds=after)
    found = ConditionSet((ConditionType.READY,), before or [], 3, moment, **more)
    found.set(ConditionType.READY, ready, reason, "why")
    return [wire(each) for each in found.result()]


def types(conditions: list[Any]) -> list[str]:
    return [each["type"] for each in conditions]


def test_every_reason_says_what_ends_it() -> None:
    assert sorted(reason for reasons in SETS.values() for reason in reasons) == sorted(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_what_is_ready_is_not_stalled(reason: Reason) -> None:
    assert types(told(TRUE, reason, after=9999.0)) == ["Ready"]


@pytest.mark.parametrize("ready", [FALSE, UNKNOWN])
@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_stalls_at_once_or_after_a_minute_or_never(reason: Reason, ready: Any) -> None:
    first = told(ready, reason)
    assert ("Stalled" in types(first)) is (reason in AT_ONCE)
    just_before = told(ready, reason, after=STALLED_SECONDS - 1, before=first)
    assert ("Stalled" in types(just_before)) is (reason in AT_ONCE)
    later = told(ready, reason, after=STALLED_SECONDS, before=just_before)
    assert ("Stalled" in types(later)) is (HEALING[reason] is not Healing.ITSELF)


def test_stalled_says_what_ready_says_and_since_when() -> None:
    first = told(FALSE, Reason.INVALID_SPEC)
    again = told(FALSE, Reason.IMMUTABLE_IN_PULSAR, after=50.0, before=first)
    assert again[1] == {
        "type": "Stalled",
        "status": "True",
        "reason": "ImmutableInPulsar",
        "message": "why",
        "observedGeneration": 3,
        "lastTransitionTime": timestamp(BEGIN),
    }
    assert types(told(FALSE, Reason.PENDING, after=60.0, before=again)) == ["Ready"]


@pytest.mark.parametrize("reason", LATER)
def test_the_minute_counts_from_the_condition_that_has_the_reason(reason: Reason) -> None:
    """An object that waited long for its parent is not stalled the moment Pulsar refuses something."""
    conditions: list[Any] = told(FALSE, Reason.PARENT_NOT_READY)
    for after, stalled in ((600.0, False), (659.0, False), (660.0, True)):
        found = ConditionSet((ConditionType.READY,), conditions, 1, BEGIN + timedelta(seconds=after))
        found.set(ConditionType.ACCEPTED, False, reason, "no")
        found.summarize(ConditionType.ACCEPTED, ready_message="")
        conditions = [wire(each) for each in found.result()]
        assert ("Stalled" in types(conditions)) is stalled


def test_what_comes_again_by_itself_is_not_stalled() -> None:
    assert "Stalled" in types(told(FALSE, Reason.PLAN_INVALIDATED))
    assert "Stalled" not in types(told(FALSE, Reason.PLAN_INVALIDATED, heals=frozenset({Reason.PLAN_INVALIDATED})))


@pytest.mark.parametrize(
    ("ready", "progressing", "expected"),
    [(True, True, ["Reconciling"]), (True, False, []), (False, True, []), (False, False, [])],
)
def test_ready_with_something_under_way_is_reconciling(ready: bool, progressing: bool, expected: list[str]) -> None:
    found = ConditionSet((), [], 1, BEGIN)
    found.set(ConditionType.READY, ready, Reason.NOT_READY, "")
    found.set(ConditionType.PROGRESSING, progressing, Reason.ROLLOUT_IN_PROGRESS, "2 of 3 pods")
    rest = [wire(each) for each in found.result()][2:]
    assert types(rest) == expected
    assert [each["message"] for each in rest] == ["2 of 3 pods"] * len(expected)


async def test_a_missing_parent_stalls_after_a_minute_and_not_once_it_is_there() -> None:
    w = LogicalWorld()
    w.tenant("t", instanceRef={"name": "later"})
    for _ in range(5):
        await w.reconcile(Kind.TENANT, "t")
    assert w.condition(Kind.TENANT, "t")[1] == "ReferenceNotFound"
    assert w.condition(Kind.TENANT, "t", "Stalled")[0] == "absent"
    for _ in range(70):  # each looks at the clock, which goes on by a second
        await w.reconcile(Kind.TENANT, "t")
    assert w.condition(Kind.TENANT, "t", "Stalled")[:2] == ("True", "ReferenceNotFound")
    w.put(Kind.INSTANCE, "later", {"configurationStore": {"external": {"servers": "zk:2181"}}})
    await w.reconcile(Kind.TENANT, "t")
    assert w.condition(Kind.TENANT, "t", "Stalled")[0] == "absent"


async def test_what_was_checked_is_observed_and_what_was_given_is_applied() -> None:
    """Waiting tools go by observedGeneration; whether a difference is drift goes by appliedGeneration."""
    w = LogicalWorld()
    w.tenant("t", adminRoles=["one"])
    await w.run()
    w.tenant("t", annotations=DRY_RUN, adminRoles=["two"])
    await w.run()
    status = w.status(Kind.TENANT, "t")
    assert (status["observedGeneration"], status["appliedGeneration"]) == (2, 1)
    assert w.condition(Kind.TENANT, "t", "Stalled")[:2] == ("True", "DryRun")
    w.tenant("t", annotations={}, adminRoles=["two"])
    await w.run()
    status = w.status(Kind.TENANT, "t")
    assert (status["observedGeneration"], status["appliedGeneration"]) == (2, 2)
    assert w.reasons() == ["Created"], "a declared change is no event"
    assert w.condition(Kind.TENANT, "t", "Stalled")[0] == "absent"


async def test_a_specification_that_cannot_be_used_is_observed() -> None:
    w = LogicalWorld()
    w.tenant("t", adminRoles="no list")
    await w.run()
    status = w.status(Kind.TENANT, "t")
    assert status["observedGeneration"] == 1 and "appliedGeneration" not in status
    assert w.condition(Kind.TENANT, "t", "Stalled")[:2] == ("True", "InvalidSpec")


async def test_a_missing_right_that_is_not_given_stalls() -> None:
    """Of a pass that wrote no status: the same rule, and the rest of the status stays."""
    w = LogicalWorld()
    w.tenant("t")
    await w.run()
    deps = w.controllers[Kind.TENANT].deps
    key = Key(Kind.TENANT, "apps", "t")
    for failure, expected in (
        (of_denied(ForbiddenError("the operator may not get secrets")), "True"),
        (of_exception(KeyError("x")), "absent"),
    ):
        for _ in range(70):
            await report_failure(deps, key, failure, None)
        assert w.condition(Kind.TENANT, "t", "Stalled")[0] == expected
        assert w.condition(Kind.TENANT, "t", "Accepted")[0] == "True"
    await w.run()
    assert w.condition(Kind.TENANT, "t")[0] == "True"
