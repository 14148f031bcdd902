"""Attacks on the decision when a pod may be replaced: what is unknown, half done, or changes between two looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import RolloutStatus
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.storage_facts import UnderReplicated
from pulsar_operator.domain.dataplane.observed.pod_counters import Counts, Tally
from pulsar_operator.domain.dataplane.rollout.canary import compare, counted
from pulsar_operator.domain.dataplane.rollout.checks import NOT_RECORDED, decide, used_confirmation
from pulsar_operator.domain.dataplane.rollout.facts import (
    DEPENDS_ON,
    FORWARDS,
    ComponentState,
    RollOrder,
    RolloutFacts,
    component_state,
)
from pulsar_operator.domain.dataplane.rollout.order import Urgency
from pulsar_operator.domain.dataplane.rollout.rollout_status import rollout_status
from tests.support.cluster.stateful_sets import pod, stateful_set
from tests.unit.rollout.test_rollout_checks import (
    AUTO,
    AWAY,
    BOOKIE,
    BOOKIES,
    BROKEN,
    BROKER,
    FOLLOWER,
    IDS,
    LEADER,
    NEW,
    OLD,
    PROXY,
    STARTING,
    WELL,
    ZK,
    facts,
    goes,
    several,
    state,
    with_storage,
)

Json = dict[str, Any]
RESTARTED: Json = {**OLD, "ready": False, "was_ready": False, "once_ready": True, "restarts": 1}
ENDING: Json = {**OLD, "terminating": True}
LONG_AGO, LATER = datetime(2026, 1, 2, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
"""Times of giving up behind and before what the pods say."""
CLOSED = Blocker(Reason.MAINTENANCE_WINDOW, "closed")
REFUSED = Blocker(Reason.POD_REFUSED, "refused")
AWAY_STORE = Blocker(Reason.METADATA_UNREACHABLE, "silent")


def unobserved(component: Component, *pods: Json) -> ComponentState:
    """A StatefulSet whose newest spec its controller has not observed."""
    name = f"my-{component.value}"
    found = [pod(f"{name}-{n}", **each) for n, each in enumerate(pods)]
    return component_state(component, stateful_set(name, generation=2, observed=1, revision="r2"), found)


# -------------------------------------------------------------------------------------------------- unknown, not absent


@pytest.mark.parametrize("kind", [OLD, AWAY, RESTARTED, BROKEN])
def test_a_statefulset_that_is_not_observed_gives_no_pod(kind: Json) -> None:
    assert goes(several(unobserved(BROKER, OLD, OLD, kind))) is None
    assert goes(several(unobserved(ZK, NEW, NEW, NEW), state(BOOKIE, OLD, OLD, OLD))) is None, "nor those behind it"


@pytest.mark.parametrize("kind", [OLD, AWAY, RESTARTED, BROKEN])
def test_servers_and_stores_that_nobody_asked_give_no_pod(kind: Json) -> None:
    assert goes(facts(ZK, OLD, OLD, kind, servers=None)) is None
    assert goes(facts(BOOKIE, OLD, OLD, kind, bookies=None)) is None


def test_a_node_that_does_not_report_says_nothing_of_its_pod() -> None:
    """Its containers were last reported as ready, which is not known any more."""
    name, pods = "my-broker", [pod(f"my-broker-{n}", ready=n != 0) for n in range(3)]
    pods[0]["status"]["containerStatuses"][0]["ready"] = True
    broker = stateful_set(name, replicas=3, revision="r2")
    sidecar = several(component_state(BROKER, broker, pods))
    assert goes(sidecar) == "my-broker-2", "its sidecar alone is not ready, and it serves"
    pods[0]["status"]["conditions"].append({"type": "ContainersReady", "status": "True"})
    pods[0]["spec"]["nodeName"] = "n1"
    lost = several(component_state(BROKER, broker, pods))
    assert goes(lost) == "my-broker-0"
    pods[1]["status"] = pods[0]["status"]
    pods[1]["spec"]["nodeName"] = "n1"
    assert goes(several(component_state(BROKER, broker, pods))) is None


@pytest.mark.parametrize(("kind", "gone"), [(OLD, None), (AWAY, None), (RESTARTED, None), (BROKEN, "my-bookie-2")])
def test_a_store_that_does_not_answer_gives_the_bookie_alone_that_never_served(kind: Json, gone: str | None) -> None:
    assert goes(facts(BOOKIE, OLD, OLD, kind, bookies=None, storage_problem="silent")) == gone
    assert goes(facts(BOOKIE, OLD, OLD, kind, stores=AWAY_STORE)) == gone


def test_ledgers_that_nobody_counts_hold_bookies() -> None:
    for unknown in ({"auditor": None}, {"disabled": True}, {"under_replicated": UnderReplicated(0, at_least=1)}):
        assert goes(facts(BOOKIE, bookies=with_storage(**unknown))) is None, unknown


def test_two_servers_that_say_they_lead_or_nobody_hold_zookeeper() -> None:
    for first, second, third in (
        (LEADER, LEADER, FOLLOWER),
        (FOLLOWER, FOLLOWER, FOLLOWER),
        (replace(LEADER, synced_followers=None), FOLLOWER, FOLLOWER),
        (LEADER, None, None),
    ):
        servers = {"my-zookeeper-0": first, "my-zookeeper-1": second, "my-zookeeper-2": third}
        assert goes(facts(ZK, servers=servers)) is None
        assert goes(facts(ZK, OLD, OLD, AWAY, servers=servers)) is None


# ------------------------------------------------------------------------------------------------------ quorums apart


@pytest.mark.parametrize("component", [ZK, BOOKIE, BROKER])
def test_of_two_outdated_pods_that_are_unready_the_second_waits_for_the_first(component: Component) -> None:
    assert goes(facts(component, OLD, AWAY, AWAY)) is None
    for back in (ENDING, STARTING, {**NEW, "ready": False}):
        assert goes(facts(component, OLD, AWAY, back)) is None, back
    assert goes(facts(component, OLD, AWAY)) is None, "the first does not exist yet"
    assert goes(facts(component, OLD, AWAY, NEW)) == f"my-{component.value}-1"


@pytest.mark.parametrize("component", [ZK, BOOKIE, BROKER])
def test_a_pod_that_restarted_waits_for_the_one_that_took_the_place_of_another(component: Component) -> None:
    servers = dict.fromkeys((f"my-zookeeper-{n}" for n in range(3)), None)
    known: Json = {"servers": servers, "bookies": with_storage(writable=frozenset(IDS[:1]))}
    for back in (ENDING, STARTING, {**NEW, "ready": False}):
        found = facts(component, OLD, RESTARTED, back, **known)
        assert goes(found) is None, back
        assert goes(replace(found, given_up={component: LATER})) is None, "it may come back"
        assert goes(replace(found, given_up={component: LONG_AGO})) == f"my-{component.value}-1"
    failing: Json = {**STARTING, "waiting": {"reason": "ErrImagePull"}}
    found = facts(component, OLD, RESTARTED, failing, **known)
    assert goes(replace(found, given_up={component: LONG_AGO})) is None, "nor would its successor start"


def test_a_bookie_that_is_still_registered_is_not_repaired_while_another_is_missing() -> None:
    last_two = with_storage(writable=frozenset(IDS[1:]))
    assert goes(facts(BOOKIE, OLD, OLD, RESTARTED, bookies=last_two)) is None
    assert goes(facts(BOOKIE, OLD, OLD, BROKEN, bookies=last_two)) is None
    assert goes(facts(BOOKIE, BROKEN, OLD, BROKEN, bookies=last_two)) == "my-bookie-0", "this one serves nobody"


def test_a_pod_beyond_the_replicas_holds_the_pods_that_serve() -> None:
    name = "my-bookie"
    pods = [pod(f"{name}-{n}") for n in range(4)]
    found = component_state(BOOKIE, stateful_set(name, replicas=3, revision="r2"), pods)
    assert goes(several(found)) is None


# ------------------------------------------------------------------------------------- another component than the first


def test_a_blocked_repair_does_not_keep_an_unready_pod_that_is_the_cure() -> None:
    """A server hangs without ending; brokers restart for want of it and are outdated too. Its new template waits for
    nothing: were it kept until they start, neither ever did."""
    alone = state(ZK, AWAY)
    alone = replace(alone, total=1)
    found = several(alone, state(BROKER, OLD, OLD, RESTARTED), servers={"my-zookeeper-0": None}, stores=AWAY_STORE)
    assert goes(found) == "my-zookeeper-0"
    held = {each: CLOSED for each in (ZK, BROKER)}
    assert goes(replace(found, blockers=held)) is None


def test_a_blocked_repair_keeps_pods_that_serve_and_unready_ones_that_depend_on_it() -> None:
    blocked = {"uid-my-bookie-2-r1": REFUSED}
    bookies = state(BOOKIE, OLD, OLD, BROKEN)
    assert goes(several(state(ZK, OLD, OLD, OLD), bookies, refused=blocked)) is None
    assert goes(several(bookies, state(BROKER, OLD, OLD, AWAY), refused=blocked)) is None


@pytest.mark.parametrize("component", [AUTO, BROKER, PROXY])
def test_a_decommission_holds_unready_pods_of_every_component(component: Component) -> None:
    leaving = Blocker(Reason.DECOMMISSIONING_BOOKIE, "leaving")
    parts = [state(BOOKIE, NEW, NEW, NEW), state(component, OLD, OLD, AWAY)]
    assert goes(several(*parts)) is not None
    assert goes(several(*parts, decommission=leaving)) is None


@pytest.mark.parametrize("of", [ZK, BOOKIE])
def test_what_is_watched_holds_all_that_depend_on_it(of: Component) -> None:
    watched = {of: Blocker(Reason.CANARY_UNDER_OBSERVATION, "watched")}
    parts = [state(of, OLD, OLD, NEW), *(state(each, OLD, OLD, AWAY) for each in (AUTO, BROKER, PROXY))]
    assert goes(several(*parts, watched=watched)) is None


@pytest.mark.parametrize("stores", [None, AWAY_STORE])
@pytest.mark.parametrize("reason", [Reason.MAINTENANCE_WINDOW, Reason.WAITING_FOR_CLUSTERS, Reason.ROLLOUT_FAILED])
def test_a_hold_lets_a_pod_go_that_never_served_and_none_that_restarted(reason: Reason, stores: Blocker | None) -> None:
    held = dict.fromkeys((AUTO, BROKER, PROXY), Blocker(reason, "held"))
    for component in (AUTO, BROKER, PROXY):
        assert goes(facts(component, OLD, OLD, BROKEN, blockers=held, stores=stores)) == f"my-{component.value}-2"
        for kind in (AWAY, RESTARTED, OLD):
            assert goes(facts(component, OLD, OLD, kind, blockers=held, stores=stores)) is None


def test_a_reader_of_the_configuration_store_is_not_even_repaired_without_it() -> None:
    away = dict.fromkeys((BROKER, PROXY), Blocker(Reason.CONFIGURATION_STORE_UNAVAILABLE, "away"))
    for kind in (BROKEN, RESTARTED, AWAY, OLD):
        assert goes(several(state(BROKER, OLD, OLD, kind), state(PROXY, OLD, OLD, kind), store_readers=away)) is None
    parts = [state(ZK, OLD, OLD, BROKEN), state(BROKER, OLD, OLD, BROKEN)]
    silent = {"my-zookeeper-0": LEADER, "my-zookeeper-1": FOLLOWER, "my-zookeeper-2": None}
    assert goes(several(*parts, store_readers=away, servers=silent)) == "my-zookeeper-2"


# ---------------------------------------------------------------------------------------------------------- invariants

KINDS = {
    "old": OLD,
    "new": NEW,
    "away": AWAY,
    "restarted": RESTARTED,
    "broken": BROKEN,
    "starting": STARTING,
    "ending": ENDING,
}
PODS = st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=3)
HELD = st.sampled_from([None, Reason.MAINTENANCE_WINDOW, Reason.DECOMMISSIONING_BOOKIE, Reason.WAITING_FOR_CLUSTERS])
COMPONENTS = (ZK, BOOKIE, AUTO, BROKER, PROXY)


@st.composite
def clusters(draw: st.DrawFn) -> RolloutFacts:
    order = RollOrder(draw(st.booleans()))
    states = []
    for each in COMPONENTS:
        pods, observed = [KINDS[kind] for kind in draw(PODS)], draw(st.integers(0, 9)) > 0
        states.append(state(each, *pods) if observed else unobserved(each, *pods))
    by_name = {found.component: found for found in states}
    reason = draw(HELD)
    server = st.sampled_from([LEADER, FOLLOWER, None])
    some = st.sets(st.sampled_from(IDS)).map(frozenset)
    writable = draw(some)
    storage = replace(WELL, writable=writable, readonly=draw(some) - writable)
    return RolloutFacts(
        [by_name[each] for each in order.sorted(COMPONENTS)],
        order,
        blockers=dict.fromkeys(COMPONENTS, Blocker(reason, "held")) if reason is not None else {},
        watched=dict.fromkeys(draw(st.sets(st.sampled_from(COMPONENTS), max_size=1)), CLOSED),
        stores=draw(st.sampled_from([None, AWAY_STORE])),
        given_up=dict.fromkeys(COMPONENTS, draw(st.sampled_from([LATER, LONG_AGO]))),
        servers={f"my-zookeeper-{n}": draw(server) for n in range(3)} if draw(st.booleans()) else None,
        bookies=replace(BOOKIES, storage=storage) if draw(st.booleans()) else None,
        storage_problem=draw(st.sampled_from([None, "silent"])),
    )


@given(clusters())
def test_no_pod_that_serves_goes_while_anything_is_amiss(found: RolloutFacts) -> None:
    decision = decide(found)
    candidate = decision.candidate
    if candidate is None or decision.blocker is not None:
        return
    mine = found.of(candidate.component)
    assert mine.revision is not None
    (taken,) = [each for each in mine.pods if each.uid == candidate.uid]
    assert not taken.terminating and taken.revision != mine.revision
    if candidate.component is ZK:
        assert found.servers is not None
    if candidate.component is BOOKIE:
        assert found.bookies is not None or (found.storage_problem is not None and not taken.once_ready)
    if not (taken.ready or taken.serving_before):
        return
    assert candidate.urgency is Urgency.ROUTINE and not found.blockers and candidate.component not in found.watched
    assert all(each.ready or each.uid == taken.uid for each in mine.pods) and not mine.missing
    before = found.order.before(candidate.component)
    assert all(each.quiet for each in found.components if each.component in before)
    assert found.stores is None or candidate.component is ZK
    if candidate.component is BOOKIE:
        assert found.bookies is not None
        mine_id = f"{taken.name}.x:3181"
        assert set(IDS) - {mine_id} <= found.bookies.storage.registered


def test_every_component_has_its_place_in_the_order() -> None:
    assert set(DEPENDS_ON) | {ZK} == set(COMPONENTS) and FORWARDS.before(PROXY) == {ZK, BOOKIE, BROKER}


# -------------------------------------------------------------------------------------------------------------- status


def test_the_only_pod_of_the_last_component_rolls_out_until_it_was_observed() -> None:
    """Clusters of an instance follow once `status.rollout` is gone."""
    quiet = replace(state(BROKER, NEW), total=1)
    stored = RolloutStatus(component="broker", since="2026-01-01T00:00:00Z", reason="image changed")
    found = several(quiet)
    assert rollout_status(found, decide(found), stored) is None
    watched = replace(found, watched={BROKER: Blocker(Reason.CANARY_UNDER_OBSERVATION, "watched")})
    status = rollout_status(watched, decide(watched), stored)
    assert status is not None and status.blocked_by == Reason.CANARY_UNDER_OBSERVATION
    assert (status.pods_done, status.pods_total, status.reason) == (1, 1, "image changed")


def test_a_confirmation_opens_what_it_was_asked_for_and_only_once_it_is_on_record() -> None:
    by: Any = object()
    lacking = replace(with_storage(under_replicated=UnderReplicated(3)), confirmation=by)
    found = facts(BOOKIE, bookies=lacking)
    decision = decide(found)
    assert decision.blocker == NOT_RECORDED and used_confirmation(found, decision) is by
    recorded = facts(BOOKIE, bookies=replace(lacking, recorded=True))
    assert goes(recorded) == "my-bookie-2" and used_confirmation(recorded, decide(recorded)) is by
    storage = replace(WELL, writable=frozenset(IDS[1:]))
    missing = replace(recorded, bookies=replace(lacking, recorded=True, storage=storage))
    assert goes(missing) is None and used_confirmation(missing, decide(missing)) is None
    well = facts(BOOKIE, bookies=replace(BOOKIES, confirmation=by, recorded=True))
    assert used_confirmation(well, decide(well)) is None, "nothing needed it"


# -------------------------------------------------------------------------------------------------------------- canary


def tally(operations: int, errors: int) -> Counts:
    return {"lines": Tally(operations, errors)}


def test_counters_that_went_back_are_what_was_counted_since() -> None:
    assert counted(tally(1000, 900), tally(1100, 5)) == tally(1100, 5), "errors went back: another process"
    assert counted(tally(1000, 0), tally(10, 0)) == tally(10, 0)
    assert counted({}, tally(10, 5)) == {}, "nothing to compare with"


@pytest.mark.parametrize("peers", [[], [{}]])
def test_a_canary_without_peers_is_not_compared(peers: list[Mapping[str, Tally]]) -> None:
    found = compare(BROKER, tally(1000, 1000), peers)
    assert not found.failed and "compared" in found.message
