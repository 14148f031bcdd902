"""How much stored data each policy keeps: which change of a policy lets Pulsar delete stored messages. Pure.

The same rule applies to all rows: a row of the policy table either has a Keeps, by which two of its values are
compared, or no change of it lets Pulsar delete data, for a reason in tests/support/policies/harmless.py. This alone
determines which changes need consent (domain/logical/consent.py). Defaults are those of class ServiceConfiguration
(Pulsar 4.0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pulsar_operator.api.v1alpha1.policies import BacklogPolicy, InactiveTopicMode, InactiveTopics, Offload, Retention
from pulsar_operator.api.v1alpha1.quantities import MEBI

Amount = tuple[float, ...]
"""The amount that a value keeps in each of its dimensions: 0 for nothing, infinity for everything, otherwise more is
longer."""
Configuration = Mapping[str, Any]
"""The configuration of the brokers in the form of GET /brokers/configuration/runtime."""
ALL: Final = math.inf
GIBI: Final = 2**30


@dataclass(frozen=True)
class Keeps:
    """Compares values of a policy."""

    amount: Callable[[Any], Amount | None]
    """Returns the amount of a value that is set; None if the value inherits it."""
    default: Callable[[Configuration], Amount]
    """Returns the amount if no value is set. May raise ValueError for an incomplete configuration."""

    def of(self, value: Any, inherited: Amount | None) -> Amount | None:
        """Returns the amount of a value if it is set, otherwise the inherited amount; None if unknown."""
        try:
            amount = self.amount(value) if value is not None else None
        except (AttributeError, TypeError, ValueError):
            return None  # a value that this version of the operator cannot express
        return inherited if amount is None else amount

    def measures(self, value: Any) -> bool:
        """Whether the amount of a set value is known, or known to be inherited."""
        try:
            self.amount(value)
        except (AttributeError, TypeError, ValueError):
            return False
        return True


def shortens(before: Amount | None, after: Amount | None) -> bool:
    """Whether a change reduces the amount in any dimension. An unknown amount counts as the worst case. If both are
    unknown, they are the same inherited amount."""
    if before is None:
        return after is not None and any(each < ALL for each in after)
    if after is None:
        return any(each > 0 for each in before)
    return any(new < old for old, new in zip(before, after, strict=True))


def least(amounts: Iterable[Amount | None]) -> Amount | None:
    """Returns the smallest of several amounts in each dimension; None if one of them is unknown."""
    found = list(amounts)
    known = [each for each in found if each is not None]
    return tuple(map(min, zip(*known, strict=True))) if known and len(known) == len(found) else None


def amount_text(amount: Amount | None) -> str:
    """Returns an amount in the form of a confirmation: letters, digits, dots and plus signs only."""
    if amount is None:
        return "unknown"
    return "+".join("unlimited" if each == ALL else f"{each:.0f}" for each in amount)


def _number(configuration: Configuration, name: str, default: int) -> int:
    value = configuration.get(name)
    return default if value is None or value == "" else int(value)


def _no_limit(value: float) -> float:
    return ALL if value < 0 else value


def _off_at_zero(value: float) -> float:
    return value if value > 0 else ALL


def _retention(minutes: float, size: float) -> Amount:
    """Returns the amount of a retention. Pulsar deletes a ledger if one limit is exceeded, so 0 in either keeps
    nothing."""
    return (_no_limit(minutes), _no_limit(size)) if minutes and size else (0.0, 0.0)


def _of_retention(value: Retention) -> Amount:
    return _retention(value.time_minutes, value.size)


def _default_retention(configuration: Configuration) -> Amount:
    size = _number(configuration, "defaultRetentionSizeInMB", 0)
    return _retention(_number(configuration, "defaultRetentionTimeInMinutes", 0), size * MEBI if size > 0 else size)


RETENTION = Keeps(_of_retention, _default_retention)
TTL = Keeps(
    lambda value: (_off_at_zero(value),),
    lambda configuration: (_off_at_zero(_number(configuration, "ttlDurationDefaultInSeconds", 0)),),
)
SUBSCRIPTION_EXPIRATION = Keeps(
    lambda value: (_off_at_zero(value),),
    lambda configuration: (_off_at_zero(_number(configuration, "subscriptionExpirationTimeMinutes", 0)),),
)

_DEFAULT_POLICY = "backlogQuotaDefaultRetentionPolicy"
_EVICTS = "consumer_backlog_eviction"


def _evicting(policy: BacklogPolicy, limit: float) -> Amount:
    """Returns the amount of a quota. A quota that holds producers back deletes nothing."""
    return (limit if policy is BacklogPolicy.CONSUMER_BACKLOG_EVICTION else ALL,)


def _default_storage(configuration: Configuration) -> Amount:
    limit = _number(configuration, "backlogQuotaDefaultLimitBytes", -1)
    if limit <= 0:
        gibibytes = float(configuration.get("backlogQuotaDefaultLimitGB") or -1)
        limit = int(gibibytes * GIBI) if gibibytes > 0 else -1
    return (_no_limit(limit) if configuration.get(_DEFAULT_POLICY) == _EVICTS else ALL,)


def _default_age(configuration: Configuration) -> Amount:
    limit = _number(configuration, "backlogQuotaDefaultLimitSecond", -1)
    return (_off_at_zero(limit) if configuration.get(_DEFAULT_POLICY) == _EVICTS else ALL,)


STORAGE_QUOTA = Keeps(lambda value: _evicting(value.policy, _no_limit(value.limit)), _default_storage)
AGE_QUOTA = Keeps(lambda value: _evicting(value.policy, _off_at_zero(value.limit_seconds)), _default_age)


def _of_offload(value: Offload) -> Amount | None:
    lag = value.deletion_lag_milliseconds
    return None if lag is None else (_no_limit(lag),)


OFFLOAD = Keeps(
    _of_offload,
    lambda configuration: (_no_limit(_number(configuration, "managedLedgerOffloadDeletionLagMs", 14_400_000)),),
)


def _inactive(*, deletes: bool, seconds: float, caught_up: bool) -> Amount:
    """Returns the amount by time and mode. A topic whose subscriptions have caught up is deleted in one mode only."""
    return (seconds, 0.0 if caught_up else 1.0) if deletes else (ALL, ALL)


def _of_inactive(value: InactiveTopics) -> Amount:
    return _inactive(
        deletes=value.delete_while_inactive,
        seconds=value.max_inactive_seconds,
        caught_up=value.delete_mode is InactiveTopicMode.WHEN_SUBSCRIPTIONS_CAUGHT_UP,
    )


def _default_inactive(configuration: Configuration) -> Amount:
    often = _number(configuration, "brokerDeleteInactiveTopicsFrequencySeconds", 60)
    return _inactive(
        deletes=str(configuration.get("brokerDeleteInactiveTopicsEnabled", True)).lower() == "true",
        seconds=_number(configuration, "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", often),
        caught_up=configuration.get("brokerDeleteInactiveTopicsMode") == "delete_when_subscriptions_caught_up",
    )


INACTIVE_TOPICS = Keeps(_of_inactive, _default_inactive)
