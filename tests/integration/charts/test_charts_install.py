"""helm/pulsar-operator installed into a real API server: rights as they are enforced, definitions, uninstallation.

The server is not the one of all tests, since definitions belong to a whole Kubernetes cluster and come and go here.
Each test finds none of them, no release, and Kubernetes namespaces of its own. No controller runs, so a test says
itself when the Job of the hook has completed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import FINALIZER, Kind
from tests.support.admission.samples import manifest, minimal, path
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.control_plane import SPARING, running_apiserver
from tests.support.processes.helm import OPERATOR_CHART, ROOT, Helm

Json = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/pulsartopics.pulsaroperator.io"
RELEASE = "pulsar-operator"
MERGE = "application/merge-patch+json"
NOW = "2025-01-01T00:00:00Z"

ALLOWED = [
    ("pulsaroperator.io", "pulsarclusters", "", "watch"),
    ("pulsaroperator.io", "pulsarclusters", "", "patch"),
    ("pulsaroperator.io", "pulsartopics", "status", "patch"),
    ("pulsaroperator.io", "pulsarclusters", "finalizers", "update"),
    ("apps", "statefulsets", "", "create"),
    ("", "pods", "", "delete"),
    ("", "pods", "", "patch"),
    ("", "pods", "eviction", "create"),
    ("", "pods", "", "create"),
    ("", "secrets", "", "get"),
    ("", "namespaces", "", "get"),
    ("", "events", "", "create"),
    ("", "events", "", "list"),
]
FORBIDDEN = [
    ("pulsaroperator.io", "pulsarclusters", "", "delete"),
    ("pulsaroperator.io", "pulsarclusters", "", "create"),
    ("", "secrets", "", "list"),
    ("", "secrets", "", "watch"),
    ("", "pods", "exec", "create"),
    ("", "pods", "exec", "get"),
    ("", "pods", "log", "get"),
    ("", "serviceaccounts", "token", "create"),
    ("rbac.authorization.k8s.io", "roles", "", "patch"),
    ("apps", "deployments", "", "patch"),
]
CLUSTER_WIDE = [
    ("", "namespaces", "", "list"),
    ("", "nodes", "", "list"),
    ("", "nodes", "", "get"),
    ("", "persistentvolumes", "", "list"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "list"),
]
"""What a watch framework likes to have, and ours does without."""


@dataclass(frozen=True)
class Place:
    """A server without definitions and releases, and four fresh Kubernetes namespaces."""

    helm: Helm
    server: ApiServer
    own: str
    """Where the release goes."""
    a: str
    b: str
    other: str

    def install(self, values: Json, *, chart: Path = OPERATOR_CHART) -> None:
        command = ["upgrade", "--install", RELEASE, str(chart), f"--namespace={self.own}"]
        self.helm.run(*command, kubeconfig=self.server.kubeconfig, values=values)

    def uninstall(self, *more: str) -> str:
        return self.helm.run("uninstall", RELEASE, f"--namespace={self.own}", *more, kubeconfig=self.server.kubeconfig)


@pytest.fixture(scope="module")
def own_server() -> Iterator[ApiServer]:
    with running_apiserver(SPARING) as server:
        yield server


@pytest.fixture
def place(helm: Helm, own_server: ApiServer) -> Place:
    """What a test before has left is removed first, however it ended."""
    listed = helm.run("list", "--all-namespaces", "--all", "--output=json", kubeconfig=own_server.kubeconfig)
    for found in json.loads(listed):
        gone = ["uninstall", found["name"], f"--namespace={found['namespace']}", "--no-hooks"]
        helm.run(*gone, kubeconfig=own_server.kubeconfig)
    remove_definitions(own_server)
    own, a, b, other = (own_server.new_namespace(prefix) for prefix in ("ops", "a", "b", "other"))
    return Place(helm, own_server, own, a, b, other)


def remove_definitions(server: ApiServer) -> None:
    """Remove the definitions with all objects of theirs, and wait until none is left."""
    for definition in server.request("GET", DEFINITIONS).body["items"]:
        name, spec = definition["metadata"]["name"], definition["spec"]
        objects = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"
        for obj in server.request("GET", f"{objects}/{spec['names']['plural']}").body.get("items", ()):
            held = f"{objects}/namespaces/{obj['metadata']['namespace']}/{spec['names']['plural']}"
            free: Json = {"metadata": {"finalizers": None}}
            answer = server.request("PATCH", f"{held}/{obj['metadata']['name']}", free, content_type=MERGE)
            assert answer.code == 200, answer.message
        assert server.request("DELETE", f"{DEFINITIONS}/{name}").code == 200
    eventually(
        lambda: server.request("GET", DEFINITIONS).body["items"] == [], what="the definitions to be gone", every=LOCAL
    )


def may(server: ApiServer, token: str, namespace: str, right: tuple[str, str, str, str]) -> bool:
    """What the API server answers the holder of the token about itself."""
    group, resource, subresource, verb = right
    attributes = {
        "namespace": namespace,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = server.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, token=token)
    assert answer.code == 201, answer.message
    return bool(answer.body["status"]["allowed"])


def wrong(server: ApiServer, token: str, namespace: str, allowed: list[Any], forbidden: list[Any]) -> list[Any]:
    """Rights that are not as they should be, once the authorizer has seen the new roles."""
    last: list[Any] = []

    def settled() -> bool:
        last[:] = [right for right in allowed if not may(server, token, namespace, right)]
        return not last

    try:
        eventually(settled, what=f"the roles in {namespace}", within=20, every=LOCAL)
    except AssertionError:
        return last
    return [right for right in forbidden if may(server, token, namespace, right)]


def test_rights_end_at_the_watched_namespaces(place: Place) -> None:
    place.install({"watchNamespaces": [place.a]})
    token = place.server.service_account(place.own, RELEASE)
    for namespace in (place.own, place.a):
        assert wrong(place.server, token, namespace, ALLOWED, FORBIDDEN) == []
    own = [right for right in ALLOWED if right[0] == "pulsaroperator.io" or right[1] == "namespaces"]
    others = [right for right in ALLOWED if right not in own]
    for namespace in (place.other, ""):
        # Only our own kinds and a look at a namespace, so that a deleted one can end (rbac.customResourcesClusterWide).
        assert wrong(place.server, token, namespace, own, others + FORBIDDEN + CLUSTER_WIDE) == []
    lease = [("coordination.k8s.io", "leases", "", "create")]
    assert wrong(place.server, token, place.own, lease, []) == []
    assert wrong(place.server, token, place.a, [], lease) == []


def test_tokens_of_its_own_account_alone(place: Place) -> None:
    """By which it identifies itself to a Pulsar that authenticates its clients."""
    place.install({"watchNamespaces": [place.a]})
    token = place.server.service_account(place.own, RELEASE)
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["pulsaroperator.io/a/b"], "expirationSeconds": 3600},
    }

    def request(namespace: str, name: str) -> int:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return place.server.request("POST", path, asked, token=token).code

    eventually(lambda: request(place.own, RELEASE) == 201, what="a token of its own account", within=20, every=LOCAL)
    assert [request(place.own, "default"), request(place.a, "default"), request(place.a, RELEASE)] == [403] * 3


def test_rights_without_any_outside_the_watched_namespaces(place: Place) -> None:
    place.install({"watchNamespaces": [place.a], "rbac": {"customResourcesClusterWide": False}})
    token = place.server.service_account(place.own, RELEASE)
    assert wrong(place.server, token, place.a, ALLOWED, FORBIDDEN) == []
    assert wrong(place.server, token, place.other, [], ALLOWED + FORBIDDEN) == []
    assert wrong(place.server, token, "", [], CLUSTER_WIDE + ALLOWED) == []


def test_rights_with_cluster_scope(place: Place) -> None:
    place.install({"clusterScope": True})
    token = place.server.service_account(place.own, RELEASE)
    for namespace in ("", place.own, place.other):
        assert wrong(place.server, token, namespace, ALLOWED, FORBIDDEN) == []
    assert wrong(place.server, token, "", [], CLUSTER_WIDE) == []
    lease = [("coordination.k8s.io", "leases", "", "create")]
    assert wrong(place.server, token, place.other, [], lease) == []


def test_definitions_are_upgraded_kept_and_taken_over_again(place: Place, tmp_path: Path) -> None:
    server = place.server
    place.install({})
    installed = server.request("GET", DEFINITION).body
    assert installed["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"

    newer = tmp_path / "pulsar-operator"
    shutil.copytree(OPERATOR_CHART, newer)
    file = newer / "files" / "crds" / "pulsaroperator.io_pulsartopics.yaml"
    file.write_text(file.read_text().replace("maximum: 10000", "maximum: 20000"))
    place.install({}, chart=newer)
    upgraded = server.request("GET", DEFINITION).body
    assert upgraded["metadata"]["uid"] == installed["metadata"]["uid"]
    schema = upgraded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["partitions"]["maximum"] == 20000

    topic = manifest(Kind.TOPIC, "kept", minimal(Kind.TOPIC))
    assert server.request("POST", path(Kind.TOPIC, place.a), topic).code == 201
    place.uninstall("--no-hooks")
    assert server.request("GET", DEFINITION).body["metadata"]["uid"] == installed["metadata"]["uid"]
    assert server.request("GET", path(Kind.TOPIC, place.a, "kept")).code == 200

    place.install({})
    assert server.request("GET", DEFINITION).body["metadata"]["uid"] == installed["metadata"]["uid"]


def test_definitions_of_somebody_else(place: Place) -> None:
    place.server.install_crds(ROOT / "crds")
    place.install({"crds": {"install": False}})
    assert "annotations" not in place.server.request("GET", DEFINITION).body["metadata"]


@pytest.mark.parametrize("scope", ["watched namespaces", "cluster", "own namespace"])
def test_uninstall_before_the_objects(place: Place, scope: str) -> None:
    """The hook frees every object, also in a namespace that is being deleted, and leaves nothing of itself behind."""
    server, own = place.server, place.own
    values: dict[str, Json] = {"watched namespaces": {"watchNamespaces": [place.a, place.b]},
                               "cluster": {"clusterScope": True}, "own namespace": {}}  # fmt: skip
    place.install(values[scope])
    namespaces = [own] if scope == "own namespace" else [own, place.a, place.b]
    for namespace in namespaces:
        tenants = path(Kind.TENANT, namespace)
        eventually(
            lambda tenants=tenants: server.request("GET", tenants).code == 200, what="the definitions", every=LOCAL
        )
        tenant = manifest(Kind.TENANT, "held", minimal(Kind.TENANT))
        tenant["metadata"]["finalizers"] = [FINALIZER]
        assert server.request("POST", tenants, tenant).code == 201
    if place.b in namespaces:
        assert server.request("DELETE", f"/api/v1/namespaces/{place.b}").code == 200
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(place.uninstall)
        job_path = f"/apis/batch/v1/namespaces/{own}/jobs/{RELEASE}-uninstall"
        eventually(
            lambda: ending.done() or server.request("GET", job_path).code == 200,
            within=180, what="the hook's Job", every=LOCAL,
        )  # fmt: skip
        if ending.done():
            ending.result()
        job = server.request("GET", job_path).body
        assert server.request("GET", f"/apis/apps/v1/namespaces/{own}/deployments/{RELEASE}").code == 404
        done = run_container(server, own, job)
        complete(server, job_path)
        ending.result(timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for namespace in namespaces:
        held = server.request("GET", path(Kind.TENANT, namespace, "held")).body
        assert "finalizers" not in held["metadata"], done.stdout
    for left in (
        f"/api/v1/namespaces/{own}/serviceaccounts/{RELEASE}-uninstall",
        f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{own}-{RELEASE}-uninstall",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{own}/roles/{RELEASE}-uninstall-lease",
    ):
        assert server.request("GET", left).code == 404, left


def run_container(server: ApiServer, own: str, job: Json) -> subprocess.CompletedProcess[str]:
    """What the kubelet would do with the Job's container: same account, arguments and environment."""
    spec = job["spec"]["template"]["spec"]
    token = server.service_account(own, spec["serviceAccountName"])
    (container,) = spec["containers"]
    given = {entry["name"]: entry.get("value") or "" for entry in container["env"]}
    given |= {"PULSAR_OPERATOR_NAMESPACE": own, "PULSAR_OPERATOR_POD_NAME": "uninstall-x"}
    return subprocess.run(
        [sys.executable, "-m", "pulsar_operator", *container["args"]],
        env={
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(ROOT / "operator"),
            "KUBECONFIG": str(server.write_kubeconfig("hook", token)),
            **given,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def complete(server: ApiServer, job_path: str) -> None:
    """Write the status of a Job that has succeeded."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": NOW, "lastProbeTime": NOW}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": NOW, "completionTime": NOW, "succeeded": 1, "conditions": conditions}
    answer = server.request("PATCH", f"{job_path}/status", {"status": status}, content_type=MERGE)
    assert answer.code == 200, answer.message
