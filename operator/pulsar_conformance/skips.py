"""Which checks a cluster may skip, named in advance with the reason. A skip that no table names proves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsar_conformance.context import NEEDS_JAVA
from pulsar_conformance.model import Outcome, Status


@dataclass(frozen=True)
class Skip:
    """Why a check is skipped, and where it is run instead."""

    why: str
    """What the cluster lacks."""
    says: str
    """Words of the reason that the check gives."""
    elsewhere: str = ""
    """A test that runs the check, ``path::name``; empty for a promise that has no proof yet."""


_CONFIGURED = "e2e/support/promises.py::run_configured"
_ACCESS = Skip(
    "its brokers have neither authentication nor authorization",
    "the brokers run without authorization",
    "tests/standalone/test_permissions_real.py::test_promise_holds",
)
_BROKERS = "e2e/tests/test_balance.py::test_promises_that_need_several_brokers"
_TWO_BROKERS = Skip("it has one broker", "needs 2 brokers, this cluster has 1", _BROKERS)
_OTHER_MANAGER = Skip(
    "it has one broker",
    "needs 2 brokers, this cluster has 1",
    "e2e/tests/test_balance.py::test_shedding_by_what_is_not_the_default",
)
_CLUSTERS = Skip(
    "it is the only cluster of its instance",
    "needs another cluster of its instance",
    "e2e/tests/test_geo_promises.py::test_promises_of_two_clusters",
)
_WHY, _SAYS = "the suite has no rights on its pods", "requires permission to stop processes"
_FAULTS = Skip(_WHY, _SAYS, "e2e/tests/test_disturbed.py::test_promises_while_processes_fail")
_PROXIES = Skip(_WHY, _SAYS, "e2e/tests/test_proxies.py::test_promise_while_a_proxy_fails")
_OFFLOAD = Skip("there is no object store", "not proved yet: needs an object store and managedLedgerOffloadDriver")

EXPECTED_SKIPS: Mapping[str, Skip] = {
    "ack.batch_index": Skip(
        "the setting is off by default", "brokers have acknowledgmentAtBatchIndexLevelEnabled=false", _CONFIGURED
    ),
    "failures.bookie_fenced": _FAULTS,
    "failures.bookie_killed": _FAULTS,
    "failures.broker_killed": _FAULTS,
    "failures.proxy_killed": _PROXIES,
    "failures.zookeeper_leader_killed": _FAULTS,
    "failures.zookeeper_lost": _FAULTS,
    "functions.on": Skip("the operator runs no functions workers", "not proved yet: needs a functions worker"),
    "geo.configstore_outage": _CLUSTERS,
    "geo.foreign_cluster": Skip(
        "it is of the only instance",
        "needs a cluster of another instance",
        "e2e/tests/test_geo_promises.py::test_promises_of_two_clusters",
    ),
    "geo.remote_down": _CLUSTERS,
    "geo.replicated_subscription": _CLUSTERS,
    "geo.replication": _CLUSTERS,
    "geo.selective": _CLUSTERS,
    "geo.shared_policies": _CLUSTERS,
    "isolation.primary": _TWO_BROKERS,
    "key_shared.auto_split": Skip(
        "hashing is consistent by default", "set subscriptionKeySharedUseConsistentHashing=false", _CONFIGURED
    ),
    "ledger.rollover.entries": Skip(
        "by default a full ledger is used for ten minutes", "managedLedgerMinLedgerRolloverTimeMinutes", _CONFIGURED
    ),
    "offload.read_back": _OFFLOAD,
    "offload.threshold": _OFFLOAD,
    "permissions.consume": _ACCESS,
    "permissions.none": _ACCESS,
    "permissions.other_namespace": _ACCESS,
    "permissions.produce": _ACCESS,
    "permissions.revoked": _ACCESS,
    "limits.nonpersistent_off": Skip(
        "non-persistent topics are on by default", "brokers have enableNonPersistentTopics=true", _CONFIGURED
    ),
    "rebalancing.even_bundles": _TWO_BROKERS,
    "rebalancing.scale_out": Skip(
        "the suite has no rights in Kubernetes", "requires permission to change the number of brokers", _BROKERS
    ),
    "rebalancing.shedding": _TWO_BROKERS,
    "rebalancing.shedding_extensible": _OTHER_MANAGER,
    "rebalancing.shedding_overloaded": _OTHER_MANAGER,
    "rebalancing.split_by_bandwidth": _TWO_BROKERS,
    "rebalancing.split_by_rate": _TWO_BROKERS,
    "rebalancing.split_by_threshold": _TWO_BROKERS,
    "rebalancing.split_by_topics": _TWO_BROKERS,
    "rebalancing.worked_example": Skip("it has one broker", "needs 3 brokers, this cluster has 1", _BROKERS),
    "tenant.admin": _ACCESS,
    "transactions.on": Skip(
        "brokers have no transaction coordinator by default", "transactionCoordinatorEnabled=false", _CONFIGURED
    ),
}
"""What the cluster of examples/quickstart.yaml skips at its defaults, with the Java client: exactly this."""


def unexpected(outcomes: Sequence[Outcome], expected: Mapping[str, Skip] = EXPECTED_SKIPS) -> list[str]:
    """Messages for checks that were skipped unexpectedly, or for another reason than the expected one."""
    found = []
    for outcome in outcomes:
        if outcome.status is not Status.SKIPPED:
            continue
        skip = expected.get(outcome.check.id)
        if skip is None:
            found.append(f"{outcome.check.id} was skipped unexpectedly: {outcome.text}")
        elif skip.says not in outcome.text:
            found.append(f"{outcome.check.id} must be skipped with {skip.says!r}, but it reports: {outcome.text}")
    return found


def not_skipped(outcomes: Sequence[Outcome], expected: Mapping[str, Skip] = EXPECTED_SKIPS) -> list[str]:
    """In words, checks that are named and were not skipped: the table is out of date."""
    return [
        f"{outcome.check.id} was to be skipped ({expected[outcome.check.id].why}), but ended {outcome.status.value}"
        for outcome in outcomes
        if outcome.check.id in expected and outcome.status is not Status.SKIPPED
    ]


def without_java(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that were skipped since the run does without the Java client."""
    return [
        outcome
        for outcome in outcomes
        if outcome.status is Status.SKIPPED and outcome.text.startswith(f"{NEEDS_JAVA}: ")
    ]
