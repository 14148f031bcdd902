"""Which checks need which broker settings: what runs at Pulsar's defaults, and what where :data:`SETTINGS` are set.

A check is named by its id, or a whole theme (or part of one) by a name that ends with a dot. Names and defaults of the
settings: class ServiceConfiguration and conf/broker.conf of Pulsar 4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pulsar_conformance.model import Check

_QUOTAS = {"backlogQuotaCheckIntervalInSeconds": "2"}

INTERVALS: Mapping[str, Mapping[str, str]] = {
    "backlog_quota.age": _QUOTAS,
    "backlog_quota.eviction": _QUOTAS,
    "backlog_quota.exception": _QUOTAS,
    "backlog_quota.hold": _QUOTAS,
    "chunking.rate": {"statsUpdateFrequencyInSecs": "10"},
    "compaction.threshold": {"brokerServiceCompactionMonitorIntervalInSeconds": "2"},
    "delayed.evicted": _QUOTAS,
    # Whole minutes, so a minute is the least.
    "ttl.periodic": {"messageExpiryCheckIntervalInMinutes": "1"},
}
"""Checks that wait for periodic work of brokers, and the settings that make those short. They are right with any
interval; at Pulsar's defaults they take from one minute to five."""

CONFIGURED: Mapping[str, Mapping[str, str]] = {
    "ack.batch_index": {"acknowledgmentAtBatchIndexLevelEnabled": "true"},
    "key_shared.": {"subscriptionKeySharedUseConsistentHashing": "false"},
    "ledger.rollover.": {
        "managedLedgerMinLedgerRolloverTimeMinutes": "0",
        # Enough that other traffic of the cluster seldom comes to it, few enough to be sent in seconds.
        "managedLedgerMaxEntriesPerLedger": "5000",
    },
    "retention.broker_default": {"defaultRetentionTimeInMinutes": "60", "defaultRetentionSizeInMB": "100"},
    "limits.nonpersistent_off": {"enableNonPersistentTopics": "false"},
    "size.": {"maxMessageSize": str(8 * 2**20)},
    "transactions.on": {"transactionCoordinatorEnabled": "true"},
}
"""Checks that need settings which are not Pulsar's defaults, or whose promise must hold under them too."""

DEFAULTS_ONLY: Mapping[str, str] = {
    "key_shared.consistent_hashing": "subscriptionKeySharedUseConsistentHashing",
    "transactions.off": "transactionCoordinatorEnabled",
}
"""Checks of defaults which :data:`SETTINGS` replace, and the setting that does."""

LONG: Mapping[str, str] = {
    "failures.bookie_fenced": "the session of a broker ends",
    "failures.bookie_killed": "the session of a bookie ends, and its ledgers are copied",
    "failures.broker_killed": "the session of a broker ends",
    "geo.configstore_outage": "the sessions with the store end",
    "geo.remote_down": "brokers are started, and replicators wait up to a minute",
    "retention.time": "a retention is given in whole minutes",
    "topic.grow": "clients check for new partitions once a minute",
    "rebalancing.scale_out": "needs several brokers",
    "rebalancing.shedding": "needs several brokers",
    "rebalancing.shedding_extensible": "needs several brokers",
    "rebalancing.shedding_overloaded": "needs several brokers",
    "rebalancing.split_by_bandwidth": "needs several brokers",
    "rebalancing.split_by_rate": "needs several brokers",
    "rebalancing.split_by_threshold": "needs several brokers",
    "rebalancing.split_by_topics": "needs several brokers",
    "rebalancing.worked_example": "needs several brokers",
}
"""Checks at Pulsar's defaults that take longer than :data:`LONG_SECONDS` anyway, and why."""

LONG_SECONDS = 45.0


def merged(needs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """All settings in one. Raises ValueError when two want different values of one."""
    found: dict[str, str] = {}
    for settings in needs:
        for name, value in settings.items():
            if found.setdefault(name, value) != value:
                raise ValueError(f"{name}: {found[name]} and {value} conflict")
    return found


IN_FORCE: Mapping[str, str] = merged([*INTERVALS.values(), *CONFIGURED.values()])
"""What brokers report (``brokers/configuration/runtime``) where the configured checks can run."""

MAX_MESSAGE_SIZE = int(IN_FORCE["maxMessageSize"])
"""Bytes; declared as spec.broker.maxMessageSize of a PulsarCluster, for bookies and proxies need it too."""

SETTINGS: Mapping[str, str] = {name: value for name, value in IN_FORCE.items() if name != "maxMessageSize"}
"""The rest of them: spec.broker.config of a PulsarCluster."""


def names(table: Iterable[str], check: Check) -> bool:
    """Whether a table names the check, itself or with what its id begins with."""
    return any(check.id == name or (name.endswith(".") and check.id.startswith(name)) for name in table)


def at_defaults(checks: Iterable[Check]) -> list[Check]:
    """The checks of a run at Pulsar's defaults: all but those that wait for a broker's intervals."""
    return [check for check in checks if not names(INTERVALS, check)]


def configured(checks: Iterable[Check]) -> list[Check]:
    """The checks of a run where :data:`SETTINGS` are set; none of them may be skipped there."""
    return [
        check
        for check in checks
        if (names(INTERVALS, check) or names(CONFIGURED, check)) and not names(DEFAULTS_ONLY, check)
    ]


def not_in_force(settings: Mapping[str, str]) -> list[str]:
    """In words, what of :data:`IN_FORCE` a broker's settings at run time do not have."""
    return [
        f"{name} is {settings.get(name, 'not there')}, not {value}"
        for name, value in IN_FORCE.items()
        if settings.get(name) != value
    ]


def long_ones(checks: Sequence[Check]) -> list[Check]:
    """The checks that take longer than :data:`LONG_SECONDS` by their own account."""
    return [check for check in checks if check.seconds > LONG_SECONDS]
