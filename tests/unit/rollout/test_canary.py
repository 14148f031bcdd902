"""The first pod of another version is watched: tables over what is there, and the turn of the next component."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.objects.template_record import Kept, Stop, TemplateRecord, parse_record
from pulsar_operator.domain.dataplane.rollout.canary import watch
from pulsar_operator.domain.dataplane.rollout.progress import proved
from pulsar_operator.domain.dataplane.rollout.template_order import Tier, template_order
from tests.support.cluster.stateful_sets import LATER
from tests.unit.rollout.test_turns import BOOKIE, NEW, NEW_HASH, OLD, OLD_HASH, ZK, given, tier

Json = dict[str, Any]
MINUTES = 10
READY = parse_time(LATER)
assert READY is not None
BEFORE, AFTER = READY + timedelta(minutes=MINUTES, seconds=-1), READY + timedelta(minutes=MINUTES)
OUTDATED: Json = {"revision": "r0"}
RECORD = TemplateRecord({OLD_HASH: Kept(OLD, "4.0.6"), NEW_HASH: Kept(NEW, "4.0.8")}, OLD_HASH)
SAME = TemplateRecord({OLD_HASH: Kept(OLD, "4.0.8"), NEW_HASH: Kept(NEW, "4.0.8")}, OLD_HASH)
UNKNOWN = TemplateRecord({OLD_HASH: Kept(OLD), NEW_HASH: Kept(NEW, "4.0.8")}, OLD_HASH)


def upgraded(*pods: Json, record: TemplateRecord = RECORD, changed: bool = False, of: Component = BOOKIE) -> Tier:
    """A component that has the template of the newer version."""
    return tier(of, changed=changed, pods=list(pods), record=record)


def test_the_others_wait_until_the_first_was_ready_long_enough() -> None:
    found = watch(upgraded(OUTDATED, OUTDATED, {}), BEFORE, MINUTES)
    assert found is not None and found.failed is None
    assert found.message == (
        f"Pod my-bookie-2 runs another version and is under observation until {timestamp(AFTER)} (spec.upgrade.canary)"
    )
    assert watch(upgraded(OUTDATED, OUTDATED, {}), AFTER, MINUTES) is None


@pytest.mark.parametrize(
    ("what", "found", "minutes"),
    [
        ("nothing was asked for", upgraded(OUTDATED, {}), 0),
        ("the same version", upgraded(OUTDATED, {}, record=SAME), MINUTES),
        ("the version before is not known", upgraded(OUTDATED, {}, record=UNKNOWN), MINUTES),
        ("nothing ran well before", upgraded(OUTDATED, {}, record=TemplateRecord({NEW_HASH: Kept(NEW, "2")})), MINUTES),
        ("its turn has not come", upgraded({}, {}, changed=True), MINUTES),
        ("nobody is replaced yet", upgraded(OUTDATED, OUTDATED), MINUTES),
        ("the first has not been ready yet", upgraded(OUTDATED, {"ready": False, "was_ready": False}), MINUTES),
        ("there is no workload", tier(BOOKIE, exists=False), MINUTES),
    ],
)
def test_nothing_is_watched(what: str, found: Tier, minutes: int) -> None:
    assert watch(found, BEFORE, minutes) is None, what


@pytest.mark.parametrize(
    ("canary", "words"),
    [
        ({"restarts": 1}, "restarted"),
        ({"restarts": 2}, "restarted 2 times"),
        ({"ready": False}, "was ready and is no longer ready"),
        ({"restarts": 1, "ready": False, "was_ready": False}, "restarted"),
    ],
)
def test_a_canary_that_fails_stops_the_roll_and_takes_the_template_back(canary: Json, words: str) -> None:
    found = upgraded(OUTDATED, OUTDATED, canary)
    seen = watch(found, BEFORE, MINUTES)
    assert seen is not None
    assert seen.failed == Stop(NEW_HASH, f"Pod my-bookie-2 of version 4.0.8 {words}", Reason.CANARY_FAILED)
    stopped = upgraded(OUTDATED, OUTDATED, canary, record=TemplateRecord(RECORD.kept, OLD_HASH, seen.failed))
    assert watch(stopped, BEFORE, MINUTES) is None, "said once"
    result = template_order([stopped])
    assert given(result) == {BOOKIE: "old"} and result.blocker is not None
    assert result.blocker.reason is Reason.CANARY_FAILED


@pytest.mark.parametrize(("made", "fails"), [(-1, False), (1, True)])
@pytest.mark.parametrize("canary", [{"restarts": 2}, {"ready": False}])
def test_what_befell_a_canary_while_the_configuration_store_was_away_is_not_of_its_version(
    canary: Json, made: int, fails: bool
) -> None:
    assert READY is not None
    found = replace(upgraded(OUTDATED, OUTDATED, canary), answers_since=READY)
    assert found.state is not None
    found.state.pods[2].raw["metadata"]["creationTimestamp"] = timestamp(READY + timedelta(seconds=made))
    seen = watch(found, BEFORE, MINUTES)
    assert (seen is not None and seen.failed is not None) is fails


def test_a_pod_that_restarts_after_the_watch_fails_nothing() -> None:
    assert watch(upgraded(OUTDATED, {"restarts": 3}, {}), AFTER, MINUTES) is None


def test_the_next_component_waits_for_the_end_of_the_watch() -> None:
    """It is up to date and ready: only the watch keeps the next one's turn, and the template is not proven."""
    first, second = upgraded({}, {}, {}, of=ZK), tier(BOOKIE)
    seen = watch(first, BEFORE, MINUTES)
    assert seen is not None and seen.failed is None
    assert proved(first, seen) is None and proved(first) == NEW_HASH
    watched = {ZK: Blocker(Reason.CANARY_UNDER_OBSERVATION, seen.message)}
    assert given(template_order([first, second], watched=watched)) == {ZK: "new", BOOKIE: "old"}
    assert template_order([first, second], watched=watched).of[BOOKIE].blocker is watched[ZK]
    assert given(template_order([first, second])) == {ZK: "new", BOOKIE: "new"}


def test_the_stop_of_a_canary_is_on_record() -> None:
    record = TemplateRecord(RECORD.kept, OLD_HASH, Stop(NEW_HASH, "why", Reason.CANARY_FAILED))
    assert parse_record({"data": record.to_data()}) == record
    plain = TemplateRecord(RECORD.kept, OLD_HASH, Stop(NEW_HASH, "why"))
    data = plain.to_data()
    del data["stoppedReason"]  # as written before there were canaries
    assert parse_record({"data": data}) == plain
