"""What is written to the configuration store, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pulsar_operator.api.constants import Reason
from pulsar_operator.balance.model.ranges import even_boundaries
from pulsar_operator.domain.dataplane.registration.metadata import Marker, Refusal
from pulsar_operator.domain.dataplane.registration.registration import (
    CLUSTER_DEFAULTS,
    COORDINATOR_PATH,
    GLOBAL_PATH,
    ClusterUrls,
    RegistrationFacts,
    RegistrationPlan,
    Stored,
    claim_path,
    claimant,
    cluster_path,
    paths_to_read,
    plan_registration,
)

BOUNDARIES = even_boundaries(16)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
URLS = ClusterUrls("http://b.ns.svc:8080", "pulsar://b.ns.svc:6650")
CLAIM = Marker("id-b", "b", "ns/b").to_bytes()
DATA = {**URLS.fields(), **CLUSTER_DEFAULTS}
NAMESPACE_OF_A = {"replication_clusters": ["a"], "bundles": {"boundaries": BOUNDARIES, "numBundles": 16}, "x": 1}

POLICIES = "/admin/policies/"


def facts(nodes: dict[str, Any], *, registered: bool = False, adopted_own_store: bool = False) -> RegistrationFacts:
    """Facts of cluster b; node contents as JSON values or bytes, versions from 5 on."""
    stored: dict[str, Stored | None] = dict.fromkeys(paths_to_read("b", registered=registered))
    for version, (path, content) in enumerate(nodes.items(), 5):
        stored[path] = Stored(content if isinstance(content, bytes) else json.dumps(content).encode(), version)
    return RegistrationFacts("b", "ns/b", "id-b", "zk:2181", URLS, registered, adopted_own_store, stored, NOW)


def plan(given: RegistrationFacts) -> RegistrationPlan:
    result = plan_registration(given, boundaries=BOUNDARIES)
    assert isinstance(result, RegistrationPlan), result
    assert all(write.why for write in result.writes)
    return result


def written(result: RegistrationPlan) -> dict[str, Any]:
    return {write.path: json.loads(write.data) for write in result.writes}


def store_of_a() -> dict[str, Any]:
    """A store in which cluster a is registered."""
    return {
        GLOBAL_PATH: dict(CLUSTER_DEFAULTS),
        POLICIES + "public": {"adminRoles": ["root"], "allowedClusters": ["a"]},
        POLICIES + "pulsar": {"adminRoles": [], "allowedClusters": ["a"]},
        POLICIES + "public/default": NAMESPACE_OF_A,
        POLICIES + "pulsar/system": NAMESPACE_OF_A,
        COORDINATOR_PATH: {"partitions": 32},
    }


def test_an_empty_store_gets_everything_the_claim_first() -> None:
    result = plan(facts({}))
    namespace = {"replication_clusters": ["b"], "bundles": {"boundaries": BOUNDARIES, "numBundles": 16}}
    assert list(written(result).items()) == [
        (claim_path("b"), {"clusterName": "b", "instanceId": "id-b", "owner": "ns/b"}),
        (cluster_path("b"), DATA),
        (GLOBAL_PATH, dict(CLUSTER_DEFAULTS)),
        (POLICIES + "public", {"allowedClusters": ["b"], "adminRoles": []}),
        (POLICIES + "pulsar", {"allowedClusters": ["b"], "adminRoles": []}),
        (POLICIES + "pulsar/system", namespace),
        (POLICIES + "public/default", namespace),
        (COORDINATOR_PATH, {"partitions": 16, "deleted": False}),
    ]
    assert all(write.version is None for write in result.writes)
    assert result.notes == []


def test_a_second_cluster_never_changes_replication_clusters() -> None:
    result = plan(facts(store_of_a()))
    changes = written(result)
    assert POLICIES + "public/default" not in changes
    assert changes[POLICIES + "pulsar/system"] == {**NAMESPACE_OF_A, "allowed_clusters": ["a", "b"]}
    assert changes[POLICIES + "public"] == {"adminRoles": ["root"], "allowedClusters": ["a", "b"]}
    assert changes[POLICIES + "pulsar"]["allowedClusters"] == ["a", "b"]
    assert COORDINATOR_PATH not in changes
    assert GLOBAL_PATH not in changes
    versions = {write.path: write.version for write in result.writes}
    assert versions[POLICIES + "pulsar/system"] == 9  # as read: compare and set
    (note,) = result.notes
    assert note.startswith("Cluster b is not added to public/default, which exists for a. To use")


@pytest.mark.parametrize(
    ("policies", "allowed_after"),
    [
        ({"replication_clusters": ["a"]}, ["a", "b"]),
        ({"replication_clusters": ["a"], "allowed_clusters": None}, ["a", "b"]),
        ({"replication_clusters": ["a"], "allowed_clusters": ["a", "c"]}, ["a", "c", "b"]),
        # allowed already
        ({"replication_clusters": ["a", "b"]}, None),
        ({"replication_clusters": ["a"], "allowed_clusters": ["a", "b"]}, None),
        # allowing b would make b replicate to the others, or undo a deletion
        ({"replication_clusters": ["a", "c"]}, None),
        ({"replication_clusters": []}, None),
        ({"replication_clusters": ["a"], "deleted": True}, None),
    ],
)
def test_pulsar_system_is_opened_only_where_that_starts_no_replication(
    policies: dict[str, Any], allowed_after: list[str] | None
) -> None:
    result = plan(facts({**store_of_a(), POLICIES + "pulsar/system": policies}))
    change = written(result).get(POLICIES + "pulsar/system")
    assert change == (None if allowed_after is None else {**policies, "allowed_clusters": allowed_after})
    served = "b" in [*policies["replication_clusters"], *(policies.get("allowed_clusters") or [])]
    left_alone = allowed_after is None and not served
    assert (
        any(note.startswith("Cluster b is not added to the allowed clusters of pulsar/system") for note in result.notes)
        == left_alone
    )


def test_a_namespace_made_as_an_empty_parent_is_filled() -> None:
    result = plan(facts({POLICIES + "public": b"", cluster_path("b"): b""}))
    assert written(result)[POLICIES + "public"] == {"allowedClusters": ["b"], "adminRoles": []}
    versions = {write.path: write.version for write in result.writes}
    assert (versions[POLICIES + "public"], versions[cluster_path("b")]) == (5, 6)


def test_a_finished_registration_changes_nothing_and_reads_two_nodes() -> None:
    assert paths_to_read("b", registered=True) == [claim_path("b"), cluster_path("b")]
    assert plan(facts({claim_path("b"): CLAIM, cluster_path("b"): DATA}, registered=True)) == RegistrationPlan([], [])


def test_changed_urls_are_put_right_and_other_fields_stay() -> None:
    found = {
        **DATA,
        "serviceUrl": "http://old:8080",
        "peerClusterNames": ["a"],
        "brokerServiceUrlTls": "pulsar+ssl://x",
    }
    result = plan(facts({claim_path("b"): CLAIM, cluster_path("b"): found}, registered=True))
    (write,) = result.writes
    assert json.loads(write.data) == {**found, "serviceUrl": URLS.service_url}
    assert write.version == 6
    assert write.why == "serviceUrl is 'http://old:8080' and should be 'http://b.ns.svc:8080'"


@pytest.mark.parametrize("ours", [True, False])
def test_what_somebody_wrote_in_front_of_a_host_is_told_nobody(ours: bool) -> None:
    found = {**DATA, "serviceUrl": "http://admin:hunter2@old:8080"}
    given = facts({**({claim_path("b"): CLAIM} if ours else {}), cluster_path("b"): found}, registered=ours)
    result = plan_registration(given, boundaries=BOUNDARIES)
    told = result.message if isinstance(result, Refusal) else result.writes[0].why
    assert "http://...@old:8080" in told and "hunter2" not in told and "admin:" not in told


def test_cluster_data_deleted_by_somebody_comes_back() -> None:
    assert written(plan(facts({claim_path("b"): CLAIM}, registered=True))) == {cluster_path("b"): DATA}


def test_a_registration_without_claim_is_taken_when_it_says_the_same() -> None:
    for registered in (False, True):
        result = plan(facts({cluster_path("b"): DATA}, registered=registered))
        assert result.writes[0].path == claim_path("b")
        assert cluster_path("b") not in written(result)


def test_an_adopted_store_may_name_other_urls_of_this_very_cluster() -> None:
    found = {**DATA, "serviceUrl": "http://before:8080"}
    result = plan(facts({cluster_path("b"): found}, adopted_own_store=True))
    assert written(result)[cluster_path("b")]["serviceUrl"] == URLS.service_url


@pytest.mark.parametrize(
    ("nodes", "registered", "reason", "words"),
    [
        ({cluster_path("b"): {"serviceUrl": "http://b.elsewhere:8080"}}, False, Reason.METADATA_CONFLICT,
         "serviceUrl 'http://b.elsewhere:8080' instead of 'http://b.ns.svc:8080'"),
        ({cluster_path("b"): {"serviceUrl": "http://b.elsewhere:8080"}}, True, Reason.METADATA_CONFLICT, "not by this"),
        ({claim_path("b"): Marker("id-x", "b", "ns2/b").to_bytes(), cluster_path("b"): DATA}, False,
         Reason.METADATA_CONFLICT, "by PulsarCluster ns2/b with instance id id-x"),
        ({claim_path("b"): Marker("id-x", "b", "ns2/b").to_bytes()}, True, Reason.METADATA_CONFLICT, "ns2/b"),
        ({}, True, Reason.METADATA_LOST, "is empty, or it is another store"),
        ({claim_path("b"): b"garbage"}, False, Reason.METADATA_CONFLICT, "/pulsar-operator/clusters/b is not readable"),
        ({cluster_path("b"): b"garbage"}, False, Reason.METADATA_CONFLICT, "/admin/clusters/b is not readable"),
        ({POLICIES + "public": ["a"]}, False, Reason.METADATA_CONFLICT, "/admin/policies/public is not a JSON object"),
        ({POLICIES + "pulsar": {"allowedClusters": "a"}}, False, Reason.METADATA_CONFLICT, "not a list of names"),
        ({POLICIES + "pulsar/system": {"replication_clusters": [1]}}, False, Reason.METADATA_CONFLICT, "not a list"),
    ],
)  # fmt: skip
def test_a_name_or_store_that_is_not_ours_is_refused_whole(
    nodes: dict[str, Any], registered: bool, reason: Reason, words: str
) -> None:
    result = plan_registration(facts(nodes, registered=registered), boundaries=BOUNDARIES)
    assert isinstance(result, Refusal)
    assert result.reason is reason
    assert words in result.message
    assert "zk:2181" in result.message


def test_after_the_writes_there_is_nothing_more_to_write() -> None:
    for start in ({}, store_of_a()):
        given = facts(start)
        done = {**given.nodes}
        for write in plan(given).writes:
            done[write.path] = Stored(write.data, 0)
        assert plan(replace(given, nodes=done)).writes == []


def test_tls_urls_are_registered_when_given() -> None:
    urls = replace(URLS, service_url_tls="https://b:8443", broker_service_url_tls="pulsar+ssl://b:6651")
    data = written(plan(replace(facts({}), urls=urls)))[cluster_path("b")]
    assert (data["serviceUrlTls"], data["brokerServiceUrlTls"]) == ("https://b:8443", "pulsar+ssl://b:6651")


@pytest.mark.parametrize(
    ("data", "other"),
    [
        (None, None),
        (CLAIM, None),
        (b"{", None),
        (Marker("id-b", "b", "ns/c").to_bytes(), ("ns", "c")),
        (Marker("id-c", "b", "ns/c").to_bytes(), None),
        (Marker("id-b", "b", "nobody").to_bytes(), None),
    ],
)
def test_whom_a_claim_names(data: bytes | None, other: tuple[str, str] | None) -> None:
    assert claimant(data, "id-b", "ns/b") == other


def test_an_id_proves_nothing_while_the_one_that_registered_is_there() -> None:
    nodes = {
        claim_path("b"): Marker("id-b", "b", "ns/c").to_bytes(),
        cluster_path("b"): {"serviceUrl": "http://c:8080"},
    }
    assert written(plan(facts(nodes, registered=True)))[cluster_path("b")]["serviceUrl"] == URLS.service_url
    refused = plan_registration(replace(facts(nodes, registered=True), claimant_there=True), boundaries=BOUNDARIES)
    assert isinstance(refused, Refusal) and refused.reason is Reason.METADATA_CONFLICT
