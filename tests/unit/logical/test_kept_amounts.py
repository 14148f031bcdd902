"""Which change of a row of the policy table lets Pulsar delete stored messages: one rule for all rows."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.policies import (
    AgeBacklogQuota,
    BacklogPolicy,
    InactiveTopicMode,
    InactiveTopics,
    Offload,
    Retention,
    StorageBacklogQuota,
)
from pulsar_operator.api.v1alpha1.policies.values import OffloadDriver
from pulsar_operator.domain.policies import POLICIES, PolicyRow, Undecodable
from pulsar_operator.domain.policies.kept import ALL, Amount, amount_text, least, shortens
from tests.support.policies.harmless import HARMLESS

EVICT, HOLD, REFUSE = (
    BacklogPolicy.CONSUMER_BACKLOG_EVICTION,
    BacklogPolicy.PRODUCER_REQUEST_HOLD,
    BacklogPolicy.PRODUCER_EXCEPTION,
)


def retention(minutes: int, size: int) -> Retention:
    return Retention(time_minutes=minutes, size=size)


def storage(limit: int, policy: BacklogPolicy = EVICT) -> StorageBacklogQuota:
    return StorageBacklogQuota(limit=limit, policy=policy)


def age(limit: int, policy: BacklogPolicy = EVICT) -> AgeBacklogQuota:
    return AgeBacklogQuota(limit_seconds=limit, policy=policy)


def lag(value: int | None) -> Offload:
    return Offload(driver=OffloadDriver.FILE_SYSTEM, deletion_lag_milliseconds=value)


def inactive(seconds: int, *, caught_up: bool = False, deletes: bool = True) -> InactiveTopics:
    modes = (InactiveTopicMode.WHEN_NO_SUBSCRIPTIONS, InactiveTopicMode.WHEN_SUBSCRIPTIONS_CAUGHT_UP)
    return InactiveTopics(delete_while_inactive=deletes, delete_mode=modes[caught_up], max_inactive_seconds=seconds)


MIB = 2**20
LONGER_FIRST: dict[str, list[Any]] = {
    # Each value keeps less than the one before it.
    "policies.retention": [
        retention(-1, -1),
        retention(1440, -1),
        retention(60, -1),
        retention(60, 10 * MIB),
        retention(60, 5 * MIB),
        retention(0, 0),
    ],
    "policies.messageTTLSeconds": [0, 3600, 60],
    "policies.subscriptionExpirationMinutes": [0, 3600, 60],
    "policies.backlogQuotas.destinationStorage": [storage(1, HOLD), storage(10), storage(5), storage(0)],
    "policies.backlogQuotas.messageAge": [age(1, REFUSE), age(10), age(5)],
    "policies.offload": [lag(-1), lag(3600), lag(0)],
    "policies.inactiveTopics": [
        inactive(1, deletes=False),
        inactive(3600),
        inactive(60),
        inactive(60, caught_up=True),
        inactive(30, caught_up=True),
    ],
}
"""By path. A row that is neither here nor among those that are harmless fails the test."""
AFRESH = {
    "policies.retention": (0.0, 0.0),
    "policies.messageTTLSeconds": (ALL,),
    "policies.subscriptionExpirationMinutes": (ALL,),
    "policies.backlogQuotas.destinationStorage": (ALL,),
    "policies.backlogQuotas.messageAge": (ALL,),
    "policies.offload": (14_400_000.0,),
    "policies.inactiveTopics": (60.0, 1.0),
}
"""What a broker keeps without a policy and without settings of its own."""
SETTINGS: dict[str, tuple[dict[str, Any], Amount]] = {
    "policies.retention": (
        {"defaultRetentionTimeInMinutes": "10", "defaultRetentionSizeInMB": "-1"},
        (10.0, ALL),
    ),
    "policies.messageTTLSeconds": ({"ttlDurationDefaultInSeconds": "7"}, (7.0,)),
    "policies.subscriptionExpirationMinutes": ({"subscriptionExpirationTimeMinutes": "7"}, (7.0,)),
    "policies.backlogQuotas.destinationStorage": (
        {"backlogQuotaDefaultLimitGB": "1", "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction"},
        (2.0**30,),
    ),
    "policies.backlogQuotas.messageAge": (
        {"backlogQuotaDefaultLimitSecond": "9", "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction"},
        (9.0,),
    ),
    "policies.offload": ({"managedLedgerOffloadDeletionLagMs": "-1"}, (ALL,)),
    "policies.inactiveTopics": ({"brokerDeleteInactiveTopicsEnabled": "false"}, (ALL, ALL)),
}
GUARDED = [row for row in POLICIES if row.keeps is not None]
UNIQUE = list({row.path: row for row in GUARDED}.values())


def test_every_row_is_compared_or_harmless_with_a_reason() -> None:
    assert {row.path for row in GUARDED} == set(LONGER_FIRST) == set(AFRESH) == set(SETTINGS)
    assert {row.path for row in POLICIES if row.keeps is None} == set(HARMLESS)
    assert all(HARMLESS.values())


@pytest.mark.parametrize("row", GUARDED, ids=lambda row: f"{row.scope}-{row.field}")
def test_less_is_told_from_more(row: PolicyRow) -> None:
    keeps = row.keeps
    assert keeps is not None
    amounts = [keeps.of(value, None) for value in LONGER_FIRST[row.path]]
    for place, before in enumerate(amounts):
        for other, after in enumerate(amounts):
            assert shortens(before, after) is (other > place), (LONGER_FIRST[row.path][place], before, after)


@pytest.mark.parametrize("row", UNIQUE, ids=lambda row: row.path)
def test_what_is_inherited_is_what_the_brokers_are_set_to(row: PolicyRow) -> None:
    keeps = row.keeps
    assert keeps is not None
    settings, amount = SETTINGS[row.path]
    assert keeps.default({}) == AFRESH[row.path]
    assert keeps.default(settings) == amount
    assert keeps.of(None, amount) == amount
    assert keeps.of(Undecodable("{}"), amount) is None, "a value that cannot be expressed is not known"


def test_a_quota_without_eviction_of_the_brokers_deletes_nothing() -> None:
    (row,) = (row for row in UNIQUE if row.path.endswith("destinationStorage"))
    assert row.keeps is not None
    assert row.keeps.default({"backlogQuotaDefaultLimitBytes": "5"}) == (ALL,)


def test_an_offload_policy_without_a_lag_has_the_brokers_lag() -> None:
    (row,) = (row for row in UNIQUE if row.path == "policies.offload")
    assert row.keeps is not None
    assert row.keeps.of(lag(None), (5.0,)) == (5.0,)


numbers = st.one_of(st.just(0.0), st.just(math.inf), st.integers(1, 2**40).map(float))
amounts = st.tuples(numbers, numbers)
maybe = st.one_of(st.none(), amounts)


@given(maybe)
def test_what_stays_the_same_shortens_nothing(amount: Amount | None) -> None:
    assert not shortens(amount, amount)


@given(amounts, amounts)
def test_of_two_different_amounts_one_direction_at_least_shortens(one: Amount, other: Amount) -> None:
    assert (shortens(one, other) or shortens(other, one)) is (one != other)
    assert shortens(one, other) is any(new < old for old, new in zip(one, other, strict=True))


@given(amounts)
def test_what_is_not_known_counts_for_the_worst(amount: Amount) -> None:
    assert shortens(amount, None) is any(amount)
    assert shortens(None, amount) is (amount != (ALL, ALL))


@given(st.lists(maybe, max_size=4))
def test_the_least_of_several_places_shortens_none_of_them_less(places: list[Amount | None]) -> None:
    found = least(places)
    if found is None:
        assert not places or None in places
    else:
        assert not any(shortens(found, each) for each in places)


@given(maybe)
def test_a_confirmation_is_one_word_of_a_shell(amount: Amount | None) -> None:
    assert set(amount_text(amount)) <= set("abcdefghijklmnopqrstuvwxyz0123456789+")
