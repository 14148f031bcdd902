"""When a pod may be replaced: one row a check, with what it means for a repair, and which pod goes instead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.dataplane.rollout import checks
from pulsar_operator.domain.dataplane.rollout.checks import CHECKS, blocker_of, decide
from pulsar_operator.domain.dataplane.rollout.facts import BookieFacts, RolloutFacts, component_state
from pulsar_operator.domain.dataplane.rollout.order import Candidate, Urgency, next_pods
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from tests.support.cluster.stateful_sets import pod, stateful_set

Json = dict[str, Any]
ZK, BOOKIE, AUTO, BROKER, PROXY = (
    Component.ZOOKEEPER,
    Component.BOOKIE,
    Component.AUTORECOVERY,
    Component.BROKER,
    Component.PROXY,
)
ROUTINE, RESTARTED, NEVER_READY = Urgency
OLD, NEW = {"revision": "r1"}, {"revision": "r2"}
STARTING: Json = {**NEW, "ready": False, "was_ready": False}
BROKEN: Json = {**OLD, "ready": False, "was_ready": False}
AWAY: Json = {**OLD, "ready": False}
LEADER, FOLLOWER = ServerState("leader", 1, 2), ServerState("follower", 1)
IDS = tuple(f"my-bookie-{n}.x:3181" for n in range(3))
WELL = StorageFacts(
    writable=frozenset(IDS),
    readonly=frozenset(),
    cookies=frozenset(IDS),
    under_replicated=UnderReplicated(0),
    auditor="a:3181",
    disabled=False,
)
BOOKIES = BookieFacts(WELL, OwnBookies.of(IDS[0]), IDS, 2, remedy="confirm it")


def state(component: Component, *pods: Json, replicas: int = 3) -> Any:
    name = f"my-{component.value}"
    found = [pod(f"{name}-{n}", **each) for n, each in enumerate(pods)]
    return component_state(component, stateful_set(name, replicas=replicas, revision="r2"), found)


def facts(component: Component, *pods: Json, **known: Any) -> RolloutFacts:
    """A cluster in which nothing blocks a pod, but what is given."""
    states = [state(component, *(pods or (OLD, OLD, OLD)))]
    well: Json = {
        "servers": dict(zip((f"my-zookeeper-{n}" for n in range(3)), (LEADER, FOLLOWER, FOLLOWER), strict=True))
    }
    return RolloutFacts(states, **{**well, "bookies": BOOKIES, **known})


def with_storage(**changes: Any) -> BookieFacts:
    return replace(BOOKIES, storage=replace(WELL, **changes))


def held(reason: Reason) -> dict[Component, Blocker]:
    return dict.fromkeys((ZK, BOOKIE, BROKER), Blocker(reason, "why"))


SAID, GONE = Blocker(Reason.PENDING, "said"), Blocker(Reason.DECOMMISSIONING_BOOKIE, "gone")
SILENT = {"my-zookeeper-0": LEADER, "my-zookeeper-1": None, "my-zookeeper-2": FOLLOWER}
MINE_SILENT = {"my-zookeeper-0": LEADER, "my-zookeeper-1": FOLLOWER, "my-zookeeper-2": None}


@dataclass(frozen=True)
class Row:
    """One check: facts that it blocks, and for which urgencies."""

    check: str
    blocked: RolloutFacts
    reason: Reason
    repair: tuple[bool, bool]
    """Whether it blocks the repair of a pod that restarted, and of one that was never ready."""


ROWS = [
    Row(
        "decommission_in_progress",
        facts(BROKER, decommission=GONE),
        Reason.DECOMMISSIONING_BOOKIE,
        (False, False),
    ),
    Row(
        "decommission_in_progress",
        facts(BROKER, blockers=held(Reason.DECOMMISSIONING_BOOKIE)),
        Reason.DECOMMISSIONING_BOOKIE,
        (False,) * 2,
    ),
    Row("rollout_failed", facts(BROKER, blockers=held(Reason.ROLLOUT_FAILED)), Reason.ROLLOUT_FAILED, (False, False)),
    Row("rollout_failed", facts(BROKER, blockers=held(Reason.CANARY_FAILED)), Reason.CANARY_FAILED, (False, False)),
    Row(
        "maintenance_window_closed",
        facts(BROKER, blockers=held(Reason.MAINTENANCE_WINDOW)),
        Reason.MAINTENANCE_WINDOW,
        (False, False),
    ),
    Row(
        "peer_cluster_rolling",
        facts(BROKER, blockers=held(Reason.WAITING_FOR_CLUSTERS)),
        Reason.WAITING_FOR_CLUSTERS,
        (False, False),
    ),
    Row("templates_not_applied", facts(BROKER, blockers=held(Reason.PENDING)), Reason.PENDING, (False, False)),
    Row(
        "configuration_store_unavailable",
        facts(BOOKIE, blockers=held(Reason.CONFIGURATION_STORE_UNAVAILABLE)),
        Reason.CONFIGURATION_STORE_UNAVAILABLE,
        (False, False),
    ),
    Row("canary_under_observation", facts(BROKER, watched={BROKER: SAID}), Reason.PENDING, (False, False)),
    Row("metadata_store_unavailable", facts(BROKER, stores=SAID), Reason.PENDING, (True, False)),
    Row(
        "configuration_store_needed_to_start", facts(BROKER, store_readers={BROKER: SAID}), Reason.PENDING, (True, True)
    ),
    Row("component_not_settled", facts(BROKER, OLD, OLD), Reason.NOT_READY, (False, False)),
    Row("component_not_settled", facts(BROKER, OLD, OLD, OLD | {"terminating": True}), Reason.NOT_READY, (False,) * 2),
    Row("other_replica_not_ready", facts(BROKER, STARTING, OLD, OLD), Reason.NOT_READY, (False, False)),
    Row("other_replica_not_ready", facts(BROKER, AWAY, OLD, AWAY), Reason.NOT_READY, (False, False)),
    Row(
        "dependency_not_ready",
        replace(facts(BROKER), components=[state(ZK, NEW, NEW, OLD), state(BROKER, OLD, OLD, OLD)]),
        Reason.NOT_READY,
        (False, False),
    ),
    Row("ensemble_not_synced", facts(ZK, servers=SILENT), Reason.WAITING_FOR_ZOOKEEPER, (True, True)),
    Row("ensemble_not_synced", facts(ZK, servers=None), Reason.WAITING_FOR_ZOOKEEPER, (True, True)),
    Row(
        "ensemble_not_synced",
        facts(ZK, servers={**MINE_SILENT, "my-zookeeper-1": None}),
        Reason.WAITING_FOR_ZOOKEEPER,
        (False, False),
    ),
    Row("storage_not_read", facts(BOOKIE, bookies=None), Reason.METADATA_UNREACHABLE, (True, True)),
    Row(
        "storage_unknown",
        facts(BOOKIE, bookies=None, storage_problem="silent"),
        Reason.METADATA_UNREACHABLE,
        (True, False),
    ),
    Row(
        "other_bookie_missing",
        facts(BOOKIE, bookies=with_storage(writable=frozenset(IDS[1:]))),
        Reason.WAITING_FOR_BOOKIES,
        (True, True),
    ),
    Row(
        "other_bookie_read_only",
        facts(BOOKIE, bookies=with_storage(writable=frozenset(IDS[1:]), readonly=frozenset(IDS[:1]))),
        Reason.BOOKIE_READ_ONLY,
        (True, True),
    ),
    Row(
        "storage_under_replicated",
        facts(BOOKIE, bookies=with_storage(under_replicated=UnderReplicated(3))),
        Reason.UNDER_REPLICATED,
        (True, True),
    ),
    Row(
        "too_few_bookies",
        facts(BOOKIE, bookies=replace(with_storage(writable=frozenset(IDS)), ids=(*IDS, "s"), ensemble=3)),
        Reason.WAITING_FOR_BOOKIES,
        (True, True),
    ),
    Row(
        "address_not_known",
        facts(BROKER, addresses=Blocker(Reason.ADDRESS_PENDING, "Service a has no address")),
        Reason.ADDRESS_PENDING,
        (False, False),
    ),
    Row("surplus_brokers", facts(BROKER, surplus_brokers=2), Reason.DRAINING, (True, True)),
    Row("bundles_not_drained", facts(BROKER, handover={"uid-my-broker-2-r1": SAID}), Reason.PENDING, (True, True)),
    Row("volume_being_deleted", facts(ZK, deleted_claims={"u": "data-0"}), Reason.VOLUME_PENDING, (True, True)),
    Row("volume_missing", facts(ZK, missing_claims={"u": "data-0"}), Reason.VOLUME_PENDING, (True, False)),
    Row("api_server_refuses", facts(BROKER, refused={"u": SAID}), Reason.PENDING, (True, True)),
]


def candidate_of(row: Row) -> Candidate:
    """The pod of the last component that has the highest ordinal."""
    last = row.blocked.components[-1]
    uid = "u" if row.blocked.deleted_claims or row.blocked.missing_claims or row.blocked.refused else last.pods[-1].uid
    return Candidate(last.component, f"{last.name}-{last.total - 1}", uid, "image changed")


def check_named(name: str) -> Any:
    return next(each for each in CHECKS if each.find is getattr(checks, name))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.check)
def test_a_check_blocks_a_pod_and_says_which_repairs(row: Row) -> None:
    check, candidate = check_named(row.check), candidate_of(row)
    blocker = blocker_of(row.blocked, candidate, [check])
    assert blocker is not None and blocker.reason is row.reason
    assert blocker.message and blocker.message[0] != " " and not blocker.message.endswith(".")
    urgent = [blocker_of(row.blocked, replace(candidate, urgency=each), [check]) for each in (RESTARTED, NEVER_READY)]
    assert tuple(each is not None for each in urgent) == row.repair


def test_a_broker_that_advertises_an_earlier_address_is_next_and_no_other() -> None:
    found = facts(BROKER, NEW, NEW, NEW)
    assert next_pods(found) == () and found.of(BROKER).quiet
    stale = replace(found, stale={"uid-my-broker-1-r2": "listener x has another address"})
    laid = stale.observed(stale.components)
    (first,) = next_pods(laid)
    assert (first.name, first.reason, first.urgency) == ("my-broker-1", "listener x has another address", ROUTINE)
    assert (laid.of(BROKER).done, laid.of(BROKER).quiet) == (2, False)
    again = stale.observed([state(BROKER, NEW, {**NEW, "uid": "another"}, NEW)])
    assert next_pods(again) == (), "its successor is another pod"


def test_every_check_has_a_row() -> None:
    assert {row.check for row in ROWS} == {each.find.__name__ for each in CHECKS}
    assert len({each.find for each in CHECKS}) == len(CHECKS)


def test_the_page_for_on_call_lists_the_reasons() -> None:
    page = (Path(__file__).parents[3] / "docs" / "conditions.md").read_text(encoding="utf-8")
    section = page.partition("### What blocks a rollout")[2].partition("\n### ")[0]
    told = {row.reason for row in ROWS} | {
        Reason.UNSCHEDULABLE,
        Reason.NODE_UNREACHABLE,
        Reason.POD_REFUSED,
        Reason.EVICTION_REFUSED,
        Reason.DISRUPTION_BUDGET,
        Reason.CANARY_UNDER_OBSERVATION,
    }
    assert {each for each in Reason if f"`{each.value}`" in section} == told


@pytest.mark.parametrize("component", [ZK, BOOKIE, BROKER])
@pytest.mark.parametrize("urgency", list(Urgency))
def test_nothing_blocks_where_all_is_well(component: Component, urgency: Urgency) -> None:
    found = facts(component)
    (first,) = next_pods(found)
    assert blocker_of(found, replace(first, urgency=urgency), CHECKS) is None


def test_a_zookeeper_server_that_does_not_answer_is_repaired_and_replaced_once_the_others_do_without_it() -> None:
    silent = facts(ZK, servers=MINE_SILENT)
    (first,) = [replace(each, name="my-zookeeper-2") for each in next_pods(silent)]
    behind = replace(silent, servers={**MINE_SILENT, "my-zookeeper-0": replace(LEADER, synced_followers=0)})
    assert blocker_of(behind, first, CHECKS) is not None
    for urgency in (RESTARTED, NEVER_READY):
        assert blocker_of(behind, replace(first, urgency=urgency), CHECKS) is None
    assert (
        blocker_of(
            replace(silent, servers={**MINE_SILENT, "my-zookeeper-0": replace(LEADER, synced_followers=1)}),
            first,
            CHECKS,
        )
        is None
    )


# ----------------------------------------------------------------------------------------------- which pod goes instead


def several(*states: Any, **known: Any) -> RolloutFacts:
    return replace(facts(BROKER, **known), components=list(states))


def goes(found: RolloutFacts) -> str | None:
    decision = decide(found)
    return decision.candidate.name if decision.candidate is not None and decision.blocker is None else None


REFUSED = Blocker(Reason.POD_REFUSED, "refused")


def test_a_blocked_repair_holds_no_other_repair_and_all_that_serve() -> None:
    """Of two pods that were never ready the first one has a claim that is being deleted."""
    found = several(state(BOOKIE, NEW, NEW, BROKEN), state(BROKER, OLD, OLD, BROKEN), state(PROXY, OLD, OLD, OLD))
    assert goes(found) == "my-bookie-2"
    blocked = replace(found, deleted_claims={"uid-my-bookie-2-r1": "data-2"})
    assert goes(blocked) == "my-broker-2"
    both = replace(blocked, refused={"uid-my-broker-2-r1": REFUSED})
    assert goes(both) is None
    decision = decide(both)
    assert decision.candidate is not None and decision.candidate.name == "my-bookie-2", "the first speaks for all"
    assert decision.blocker is not None and decision.blocker.reason is Reason.VOLUME_PENDING


def test_a_blocked_pod_holds_all_that_serve_and_no_unready_pod_elsewhere() -> None:
    auto = state(AUTO, OLD, replicas=1)
    refused = {"uid-my-autorecovery-0-r1": REFUSED}
    assert goes(several(auto, state(BROKER, OLD, OLD, OLD))) == "my-autorecovery-0"
    assert goes(several(auto, state(BROKER, OLD, OLD, OLD), refused=refused)) is None
    assert goes(several(auto, state(BROKER, OLD, AWAY, OLD), refused=refused)) == "my-broker-1"
    closed = {each: Blocker(Reason.MAINTENANCE_WINDOW, "closed") for each in (AUTO, BROKER)}
    assert goes(several(auto, state(BROKER, OLD, AWAY, OLD), refused=refused, blockers=closed)) is None


def test_a_blocked_pod_holds_those_that_depend_on_it() -> None:
    found = several(state(BOOKIE, OLD, OLD, OLD), state(BROKER, OLD, AWAY, OLD), bookies=None)
    assert goes(found) is None


def test_a_read_only_bookie_goes_before_the_others_and_a_rack_that_has_begun_before_another() -> None:
    racks = {f"my-bookie-{n}": f"rack-{n % 2}" for n in range(4)}
    pods = [OLD, OLD, NEW, OLD]
    four = component_state(
        BOOKIE,
        stateful_set("my-bookie", replicas=4, revision="r2"),
        [pod(f"my-bookie-{n}", **each) for n, each in enumerate(pods)],
    )
    found = several(four, bookies=replace(BOOKIES, racks=racks))
    assert next_pods(found)[0].name == "my-bookie-0"
    readonly = replace(BOOKIES, racks=racks, storage=replace(WELL, readonly=frozenset(IDS[1:2])))
    assert next_pods(replace(found, bookies=readonly))[0].name == "my-bookie-1"


def test_the_emptiest_broker_goes_first_and_an_unready_one_before_it() -> None:
    assert goes(facts(BROKER, emptiest="my-broker-0")) == "my-broker-0"
    assert goes(facts(BROKER, OLD, AWAY, OLD, emptiest="my-broker-0")) == "my-broker-1"


def test_a_component_that_awaits_its_own_pods_holds_no_component_beside_it() -> None:
    auto = state(AUTO, OLD, STARTING, replicas=2)
    assert goes(several(auto, state(BROKER, OLD, OLD, OLD))) == "my-broker-2"


@pytest.mark.parametrize("known", [{"blockers": held(Reason.MAINTENANCE_WINDOW)}, {"watched": {BROKER: SAID}}])
def test_a_pod_that_restarted_is_repaired_unless_something_holds_its_component(known: Json) -> None:
    restarted: Json = {**OLD, "ready": False, "was_ready": False, "once_ready": True, "restarts": 1}
    (free,) = next_pods(facts(BROKER, OLD, restarted, OLD))
    assert (free.name, free.urgency) == ("my-broker-1", RESTARTED)
    found = facts(BROKER, OLD, restarted, OLD, **known)
    (kept,) = next_pods(found)
    assert kept.urgency is ROUTINE and goes(found) is None
    leaving = facts(BROKER, OLD, restarted, OLD, blockers=held(Reason.DECOMMISSIONING_BOOKIE))
    assert goes(leaving) == "my-broker-1", "a bookie that leaves may wait for it"
