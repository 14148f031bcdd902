"""Warnings of the operator's chart about policies of replicated namespaces, on a real API server."""

from __future__ import annotations

import json
import ssl
import urllib.request
import uuid
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import Kind
from tests.support.admission.samples import manifest, path
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import OPERATOR_CHART, Helm

Json = dict[str, Any]
OFF: Json = {"deletionGuard": {"enabled": False}, "retentionWarnings": {"enabled": False}}

BOTH = ["east", "west"]
EXPIRES = {"messageTTLSeconds": 3600}
EVICTED = {"backlogQuotas": {"destinationStorage": {"limit": "1Gi", "policy": "ConsumerBacklogEviction"}}}
HELD = {"backlogQuotas": {"messageAge": {"limitSeconds": 60, "policy": "ProducerException"}}}


PARENTS = {Kind.NAMESPACE: "tenantRef", Kind.TOPIC: "namespaceRef", Kind.TOPIC_SET: "namespaceRef"}
PARENTS |= {Kind.TENANT: "instanceRef"}


def applied(
    server: ApiServer, namespace: str, spec: Json, *, name: str = "", dry: bool = False, kind: Kind = Kind.NAMESPACE
) -> list[str]:
    """Apply an object; the warnings that come with the answer, which takes it."""
    name = name or f"n-{uuid.uuid4().hex[:8]}"
    obj = manifest(kind, name, {PARENTS[kind]: {"name": "shop"}, **spec}, namespace=namespace)
    query = "fieldManager=user&force=true" + ("&dryRun=All" if dry else "")
    request = urllib.request.Request(
        f"{server.url}{path(kind, namespace, name)}?{query}",
        method="PATCH",
        data=json.dumps(obj).encode(),
        headers={"Authorization": f"Bearer {server.token}", "Content-Type": "application/apply-patch+yaml"},
    )
    trusted = ssl.create_default_context(cafile=str(server.ca_file))
    with urllib.request.urlopen(request, context=trusted, timeout=30) as answer:
        assert answer.status in (200, 201)
        return [text.replace('\\"', '"') for text in answer.headers.get_all("Warning") or []]


@pytest.fixture(scope="module")
def watched(helm: Helm, apiserver: ApiServer) -> str:
    """A namespace that the operator of an installed chart watches, the policy in force."""
    release, found = apiserver.new_namespace("warns"), apiserver.new_namespace("warns")
    helm.run(
        "upgrade",
        "--install",
        "op",
        str(OPERATOR_CHART),
        f"--namespace={release}",
        kubeconfig=apiserver.kubeconfig,
        values={"crds": {"install": False}, "watchNamespaces": [found], **OFF},
    )
    probe = {"replicationClusters": BOTH, "policies": EXPIRES}
    eventually(lambda: applied(apiserver, found, probe, dry=True), what="the policy to be in force", every=LOCAL)
    return found


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicationClusters": BOTH, "policies": EXPIRES}, ["messageTTLSeconds is 3600"]),
        ({"replicationClusters": BOTH, "policies": EVICTED}, ["ConsumerBacklogEviction: what waits"]),
        ({"replicationClusters": BOTH, "policies": HELD}, ["producers are held up"]),
        ({"replicationClusters": BOTH, "policies": {**EXPIRES, **EVICTED}}, ["messageTTL", "ConsumerBacklogEviction"]),
        ({"replicationClusters": BOTH}, []),
        ({"replicationClusters": BOTH, "policies": {"messageTTLSeconds": 0}}, []),
        ({"replicationClusters": ["east"], "policies": {**EXPIRES, **EVICTED}}, []),
        ({"policies": {**EXPIRES, **HELD}}, []),
        ({"replicationClusters": [*BOTH, "north"]}, ["has 3 clusters: a replicated subscription"]),
    ],
)
def test_who_applies_it_is_warned(apiserver: ApiServer, watched: str, spec: Json, words: list[str]) -> None:
    found = sorted(applied(apiserver, watched, spec))
    assert len(found) == len(words), found
    for word in words:
        assert any(word in text for text in found), found


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicationClusters": BOTH, "policies": EXPIRES}, "messageTTLSeconds is 3600"),
        ({"replicationClusters": [*BOTH, "north"], "subscriptions": [{"name": "s", "replicated": True}]}, "3 clusters"),
        ({"replicationClusters": BOTH, "subscriptions": [{"name": "s", "replicated": True}]}, ""),
        ({"replicationClusters": [*BOTH, "north"], "subscriptions": [{"name": "s"}]}, ""),
        ({"subscriptions": [{"name": "s", "replicated": True}], "policies": EXPIRES}, ""),
    ],
)
def test_so_is_who_applies_a_topic_of_clusters_of_its_own(
    apiserver: ApiServer, watched: str, spec: Json, words: str
) -> None:
    found = applied(apiserver, watched, spec, kind=Kind.TOPIC)
    assert [words in text for text in found] == ([True] if words else []), found


def test_a_cluster_that_joins_gets_what_is_published_from_then_on(apiserver: ApiServer, watched: str) -> None:
    def to(*clusters: str) -> list[str]:
        return applied(apiserver, watched, {"replicationClusters": list(clusters)}, name="joins")

    assert to("east", "west") == []
    (text,) = to("west", "south")
    assert "a cluster joins spec.replicationClusters" in text and "replicationStartAt" in text
    assert to("south", "west") == [], "another order is no change of clusters"
    assert any("a cluster joins" in text for text in to("south", "west", "east"))


def test_it_is_told_once_for_each_change(apiserver: ApiServer, watched: str) -> None:
    spec: Json = {"replicationClusters": BOTH, "policies": EXPIRES}
    assert applied(apiserver, watched, spec, name="once")
    assert applied(apiserver, watched, spec, name="once") == []
    status = {"status": {"bundleCount": 4}}
    place = f"{path(Kind.NAMESPACE, watched, 'once')}/status"
    assert apiserver.request("PATCH", place, status, content_type="application/merge-patch+json").code == 200
    assert applied(apiserver, watched, {**spec, "policies": {"messageTTLSeconds": 7200}}, name="once")


def test_elsewhere_nobody_is_warned(apiserver: ApiServer, watched: str) -> None:
    other = apiserver.new_namespace("quiet")
    assert applied(apiserver, other, {"replicationClusters": BOTH, "policies": EXPIRES}) == []


@pytest.mark.parametrize(("version", "wanted"), [("1.29.0", 0), ("1.30.0", 1), ("1.35.4", 1)])
def test_servers_that_do_not_know_the_kind(helm: Helm, version: str, wanted: int) -> None:
    values = {**OFF, "configCheck": {"enabled": False}}
    text = helm.run("template", "rel", str(OPERATOR_CHART), f"--kube-version={version}", values=values)
    assert text.count("kind: ValidatingAdmissionPolicy\n") == wanted
