"""Which checks may be skipped, and that others, and other reasons, are noticed."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from pulsar_conformance.catalogue import all_checks
from pulsar_conformance.context import Context, Instance
from pulsar_conformance.model import CheckSkipped, Outcome, Status, is_slot
from pulsar_conformance.runner import run_one
from pulsar_conformance.settings import at_defaults, configured
from pulsar_conformance.skips import EXPECTED_SKIPS, Skip, not_skipped, unexpected, without_java
from tests.support.checks import fails, make

ROOT = Path(__file__).resolve().parents[3]
CHECKS = {check.id: check for check in all_checks()}
DEFAULTS = {
    "acknowledgmentAtBatchIndexLevelEnabled": "false",
    "authorizationEnabled": "false",
    "delayedDeliveryEnabled": "true",
    "enableNonPersistentTopics": "true",
    "managedLedgerMaxEntriesPerLedger": "50000",
    "managedLedgerMinLedgerRolloverTimeMinutes": "10",
    "maxMessageSize": "5242880",
    "subscriptionKeySharedUseClassicPersistentImplementation": "false",
    "subscriptionKeySharedUseConsistentHashing": "true",
    "subscriptionTypesEnabled": "[Exclusive, Shared, Failover, Key_Shared]",
    "systemTopicEnabled": "true",
    "topicCompactionRetainNullKey": "false",
    "topicLevelPoliciesEnabled": "true",
    "transactionCoordinatorEnabled": "false",
}
"""Of class ServiceConfiguration of Pulsar 4.0."""
EXPECTED = {"t.named": Skip("it has one broker", "needs 2 brokers")}


def outcome(name: str, status: Status, text: str = "") -> Outcome:
    """One."""
    return Outcome(make(name, lambda _ctx: ""), status, text, 0)


def offline(*_args: object, **_options: object) -> NoReturn:
    """Nothing answers."""
    raise ConnectionError("offline")


def test_exactly_the_named_checks_are_skipped_by_what_one_broker_says_of_itself(
    found: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others get as far as their first call; a skip after a call is seen by e2e/tests/test_conformance.py."""
    found.settings = DEFAULTS
    monkeypatch.setattr(Context, "admin", property(offline))
    for name in ("client", "new_java"):
        monkeypatch.setattr(Context, name, offline)
    monkeypatch.setattr(Context, "close", lambda _self: [])
    outcomes = [run_one(found, check)[0] for check in at_defaults(list(CHECKS.values()))]
    assert [*unexpected(outcomes), *not_skipped(outcomes)] == []
    assert {one.check.id for one in outcomes if one.status is Status.SKIPPED} == set(EXPECTED_SKIPS)


def test_every_promise_without_proof_is_named() -> None:
    slots = {name for name, check in CHECKS.items() if is_slot(check)}
    assert slots == {name for name, skip in EXPECTED_SKIPS.items() if not skip.elsewhere}


def test_every_other_one_is_proved_by_a_test_that_exists() -> None:
    other_run = {check.id for check in configured(list(CHECKS.values()))}
    for name, skip in EXPECTED_SKIPS.items():
        if not skip.elsewhere:
            continue
        file, _, function = skip.elsewhere.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), name
        assert (function == "run_configured") is (name in other_run), name


def test_a_skip_that_is_not_named_is_noticed() -> None:
    found = [outcome("t.other", Status.SKIPPED, "needs 2 brokers"), outcome("t.passed", Status.PASSED)]
    assert unexpected(found, EXPECTED) == ["t.other was skipped unexpectedly: needs 2 brokers"]


def test_another_reason_is_noticed() -> None:
    assert unexpected([outcome("t.named", Status.SKIPPED, "this needs 2 brokers and more")], EXPECTED) == []
    found = unexpected([outcome("t.named", Status.SKIPPED, "needs the Java client: not built")], EXPECTED)
    assert found == ["t.named must be skipped with 'needs 2 brokers', but it reports: needs the Java client: not built"]


@pytest.mark.parametrize("status", [Status.PASSED, Status.FAILED, Status.ERROR])
def test_a_named_check_that_was_not_skipped_is_noticed(status: Status) -> None:
    found = [outcome("t.named", status), outcome("t.other", status)]
    assert unexpected(found, EXPECTED) == []
    assert not_skipped(found, EXPECTED) == [
        f"t.named was to be skipped (it has one broker), but ended {status.value}",
    ]


def test_those_without_the_java_client_are_told_from_others(found: Instance) -> None:
    found.java_missing = "this run does without"
    needing, other = make("t.java", lambda ctx: str(ctx.java)), make("t.x", fails(CheckSkipped("needs 2 brokers")))
    outcomes = [run_one(found, check)[0] for check in (needing, other)]
    assert [one.check.id for one in without_java(outcomes)] == ["t.java"]
