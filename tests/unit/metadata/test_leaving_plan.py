"""What a cluster that is deleted takes out of the configuration store, and what it leaves alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.dataplane.registration.deregistration import (
    DeregistrationFacts,
    DeregistrationPlan,
    paths_of_lists,
    plan_deregistration,
)
from pulsar_operator.domain.dataplane.registration.metadata import Marker, Refusal
from pulsar_operator.domain.dataplane.registration.registration import Stored

CLAIM, ENTRY, POLICIES = "/pulsar-operator/clusters/b", "/admin/clusters/b", "/admin/policies/"
MINE = json.loads(Marker("id-b", "b", "ns/b").to_bytes())
STORE = {CLAIM: MINE, ENTRY: {"serviceUrl": "http://b:8080"}}


def facts(
    nodes: dict[str, Any], *, brokers_run: bool = False, below: tuple[str, ...] = (), **more: Any
) -> DeregistrationFacts:
    """Facts of cluster b; contents as JSON values or bytes, versions from 3 on."""
    stored: dict[str, Stored | None] = {
        path: Stored(content if isinstance(content, bytes) else json.dumps(content).encode(), version)
        for version, (path, content) in enumerate(nodes.items(), 3)
    }
    known = {"cluster_name": "b", "instance_id": "id-b", "registered": True, "store": "zk:2181", "last": False}
    under = {path: Stored(b"", 1) for path in below}
    return DeregistrationFacts(**{**known, "owner": "ns/b", **more}, brokers_run=brokers_run, nodes=stored, below=under)


def plan(given_facts: DeregistrationFacts) -> DeregistrationPlan:
    result = plan_deregistration(given_facts)
    assert isinstance(result, DeregistrationPlan), result
    assert all(each.why for each in (*result.narrowing, *result.removals))
    return result


def written(result: DeregistrationPlan) -> dict[str, Any]:
    return {write.path: json.loads(write.data) for write in result.narrowing}


def test_the_entry_goes_after_what_is_below_it_and_the_claim_last() -> None:
    below = (f"{ENTRY}/failureDomain", f"{ENTRY}/failureDomain/x", f"{ENTRY}/namespaceIsolationPolicies")
    result = plan(facts(STORE, below=below))
    assert [(each.path, each.version) for each in result.removals] == [
        (f"{ENTRY}/failureDomain/x", 1),
        (f"{ENTRY}/failureDomain", 1),
        (f"{ENTRY}/namespaceIsolationPolicies", 1),
        (ENTRY, 4),
    ]
    assert result.claim is not None and (result.claim.path, result.claim.version) == (CLAIM, 3)
    assert not result.left


def test_nothing_is_removed_while_brokers_run() -> None:
    result = plan(facts(STORE, brokers_run=True))
    assert (list(result.removals), result.claim) == ([], None)


@pytest.mark.parametrize(
    "more",
    [
        {"owner": "ns/c"},  # the record was moved, and the object that it was of is gone
        {"allowed": False},  # it was allowed once
    ],
)
def test_what_is_ours_goes_under_another_name_and_without_permission(more: dict[str, Any]) -> None:
    assert [each.path for each in plan(facts(STORE, **more)).removals] == [ENTRY]


def test_whoever_is_not_allowed_is_told_nothing() -> None:
    others = [{**STORE, CLAIM: {**MINE, **more}} for more in ({"instanceId": "id-c"}, {"owner": "ns/c"})]
    for nodes in (*others, {ENTRY: STORE[ENTRY]}, {**STORE, CLAIM: b"{"}, {}):
        assert plan(facts(nodes, allowed=False)) == DeregistrationPlan()


@pytest.mark.parametrize(
    ("nodes", "more", "left"),
    [
        ({}, {"registered": False}, True),
        ({}, {"registered": False, "instance_id": None}, True),
        ({}, {"last": True}, True),
        ({ENTRY: STORE[ENTRY]}, {}, False),
        ({**STORE, CLAIM: {**MINE, "instanceId": "id-c", "owner": "ns/c"}}, {}, False),
        (STORE, {"instance_id": None}, False),
        (STORE, {"owner": "ns/c", "claimant_there": True}, False),
    ],
)
def test_what_is_not_ours_or_not_there(nodes: dict[str, Any], more: dict[str, Any], left: bool) -> None:
    tenant = {POLICIES + "public": {"allowedClusters": ["a", "b"]}}
    result = plan(facts({**nodes, **tenant}, **more))
    assert result.left is left
    assert (list(result.narrowing), list(result.removals), result.claim) == ([], [], None)
    assert bool(result.notes) is not left


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ({}, Reason.METADATA_LOST),
        ({CLAIM: b"{", ENTRY: {}}, Reason.METADATA_CONFLICT),
        ({CLAIM: {"instanceId": 1}, ENTRY: {}}, Reason.METADATA_CONFLICT),
    ],
)
def test_what_is_not_known(nodes: dict[str, Any], reason: Reason) -> None:
    result = plan_deregistration(facts(nodes))
    assert isinstance(result, Refusal) and result.reason is reason


@pytest.mark.parametrize(
    ("allowed", "after"),
    [(["a", "b"], ["a"]), (["b", "c", "a"], ["c", "a"]), (["b"], []), (["a"], None), ([], None), (None, None)],
)
def test_tenants(allowed: list[str] | None, after: list[str] | None) -> None:
    for brokers_run in (True, False):
        tenant = {"adminRoles": ["r"], "allowedClusters": allowed, "x": 1}
        result = plan(facts({**STORE, POLICIES + "shop": tenant}, brokers_run=brokers_run))
        expected = {} if after is None else {POLICIES + "shop": {**tenant, "allowedClusters": after}}
        assert written(result) == expected
        assert [write.version for write in result.narrowing] == [5] * len(expected)


@pytest.mark.parametrize(
    ("replication", "allowed", "running", "stopped"),
    [
        # as registration leaves it, for the first cluster and for the second
        (["b"], None, None, None),
        (["b"], ["b", "a"], (["a"], ["b", "a"]), (["a"], ["a"])),
        (["a"], ["a", "b"], None, (["a"], ["a"])),
        # with the Extensible load manager
        (["a", "b"], None, (["a"], ["a", "b"]), (["a"], None)),
        (["a", "b"], ["a", "b", "c"], (["a"], ["a", "b", "c"]), (["a"], ["a", "c"])),
        (["a"], None, None, None),
        (["b"], ["b"], None, None),
        ([], ["b", "a"], None, (["a"], ["a"])),
        ([], [], None, None),
    ],
)
def test_namespaces_of_tenant_pulsar(
    replication: list[str],
    allowed: list[str] | None,
    running: tuple[list[str], list[str] | None] | None,
    stopped: tuple[list[str], list[str] | None] | None,
) -> None:
    path = POLICIES + "pulsar/system"
    found = {"replication_clusters": replication, "bundles": {"numBundles": 16}}
    found |= {} if allowed is None else {"allowed_clusters": allowed}
    for brokers_run, expected in ((True, running), (False, stopped)):
        change = written(plan(facts({**STORE, path: found}, brokers_run=brokers_run))).get(path)
        if expected is None:
            assert change is None
        else:
            lists = {"replication_clusters": expected[0]}
            lists |= {} if expected[1] is None else {"allowed_clusters": expected[1]}
            assert change == {**found, **lists}


def test_namespaces_of_users_are_left_to_them() -> None:
    result = plan(facts({**STORE, POLICIES + "public/default": {"replication_clusters": ["b"]}}))
    assert written(result) == {}
    assert any(note.startswith("public/default is a namespace of users") for note in result.notes)


def test_one_that_is_being_deleted_is_not_brought_back() -> None:
    found = {"replication_clusters": ["b"], "allowed_clusters": ["a", "b"], "deleted": True}
    assert written(plan(facts({**STORE, POLICIES + "pulsar/x": found}))) == {}


def test_the_last_cluster_leaves_lists_alone() -> None:
    lists = {
        POLICIES + "public": {"allowedClusters": ["b", "gone"]},
        POLICIES + "pulsar/system": {"replication_clusters": ["b", "gone"]},
    }
    result = plan(facts({**STORE, **lists}, last=True))
    assert written(result) == {} and result.claim is not None


def test_which_nodes_have_lists() -> None:
    assert paths_of_lists(["public", "shop"], ["system"]) == [
        POLICIES + "public", POLICIES + "shop", POLICIES + "pulsar/system", POLICIES + "public/default",
    ]  # fmt: skip


CLUSTERS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)


@given(CLUSTERS, CLUSTERS, CLUSTERS, st.booleans())
def test_the_lists_after_it(tenant: list[str], replication: list[str], allowed: list[str], brokers_run: bool) -> None:
    """Others stay as they were allowed, what allowed somebody allows somebody, and a second look finds nothing."""
    nodes = {
        **STORE,
        POLICIES + "shop": {"allowedClusters": tenant},
        POLICIES + "pulsar/system": {"replication_clusters": replication, "allowed_clusters": allowed},
    }
    result = plan(facts(nodes, brokers_run=brokers_run))
    after = {**nodes, **written(result)}
    system = after[POLICIES + "pulsar/system"]
    before = set(allowed or replication)
    now = set(system["allowed_clusters"] or system["replication_clusters"])
    assert set(after[POLICIES + "shop"]["allowedClusters"]) == set(tenant) - {"b"}
    assert not before or now
    assert (set(allowed) | set(replication)) - {"b"} >= now - {"b"}
    assert before - {"b"} <= now
    if brokers_run:
        assert now >= before, "brokers delete what is not allowed"
        assert "b" not in system["replication_clusters"] or set(replication) | set(allowed) == {"b"}
    elif before - {"b"}:
        assert "b" not in now | set(system["replication_clusters"])
    assert plan(replace(facts(after, brokers_run=brokers_run))).narrowing == []
