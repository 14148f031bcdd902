"""helm/pulsar-operator installed into a real API server: rights as they are enforced, definitions, uninstallation.

Each test has the server for itself, since definitions belong to a whole Kubernetes cluster. No controller runs, so a
test says itself when the Job of the hook has completed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from tests.support.apiserver import ApiServer, eventually, running_apiserver
from tests.support.helm import OPERATOR_CHART, ROOT, Helm
from tests.support.samples import manifest, minimal, path

Json = dict[str, Any]

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pulsartopics.pulsaroperator.io"
RELEASE = "pulsar-operator"
OWN = "ops"
NOW = "2025-01-01T00:00:00Z"

ALLOWED = [
    ("pulsaroperator.io", "pulsarclusters", "", "watch"),
    ("pulsaroperator.io", "pulsarclusters", "", "patch"),
    ("pulsaroperator.io", "pulsartopics", "status", "patch"),
    ("pulsaroperator.io", "pulsarclusters", "finalizers", "update"),
    ("apps", "statefulsets", "", "create"),
    ("", "pods", "", "delete"),
    ("", "secrets", "", "get"),
    ("", "events", "", "create"),
]
FORBIDDEN = [
    ("pulsaroperator.io", "pulsarclusters", "", "delete"),
    ("pulsaroperator.io", "pulsarclusters", "", "create"),
    ("", "secrets", "", "list"),
    ("", "secrets", "", "watch"),
    ("", "pods", "exec", "create"),
    ("", "pods", "exec", "get"),
    ("", "pods", "", "create"),
    ("", "pods", "log", "get"),
    ("", "serviceaccounts", "token", "create"),
    ("rbac.authorization.k8s.io", "roles", "", "patch"),
    ("apps", "deployments", "", "patch"),
]
CLUSTER_WIDE = [
    ("", "namespaces", "", "list"),
    ("", "nodes", "", "list"),
    ("", "persistentvolumes", "", "list"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "list"),
]
"""What a watch framework likes to have, and ours does without."""


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of its own, without our definitions."""
    with running_apiserver() as server:
        for name in (OWN, "a", "b", "other"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            assert server.request("POST", "/api/v1/namespaces", body).code == 201
        yield server


def install(
    helm: Helm, server: ApiServer, values: Json, *, chart: Path = OPERATOR_CHART, release: str = RELEASE
) -> None:
    helm.run(
        "upgrade",
        "--install",
        release,
        str(chart),
        f"--namespace={OWN}",
        kubeconfig=server.kubeconfig,
        values=values,
    )


def uninstall(helm: Helm, server: ApiServer, *more: str) -> str:
    return helm.run("uninstall", RELEASE, f"--namespace={OWN}", *more, kubeconfig=server.kubeconfig)


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
        eventually(settled, what=f"the roles in {namespace}", seconds=20)
    except RuntimeError:
        return last
    return [right for right in forbidden if may(server, token, namespace, right)]


def test_rights_end_at_the_watched_namespaces(helm: Helm, server: ApiServer) -> None:
    install(helm, server, {"watchNamespaces": ["a"]})
    token = server.service_account(OWN, RELEASE)
    for namespace in (OWN, "a"):
        assert wrong(server, token, namespace, ALLOWED, FORBIDDEN) == []
    own = [right for right in ALLOWED if right[0] == "pulsaroperator.io"]
    others = [right for right in ALLOWED if right not in own]
    for namespace in ("other", ""):
        # Only our own kinds, so that a deleted namespace can end (rbac.customResourcesClusterWide).
        assert wrong(server, token, namespace, own, others + FORBIDDEN + CLUSTER_WIDE) == []
    lease = [("coordination.k8s.io", "leases", "", "create")]
    assert wrong(server, token, OWN, lease, []) == []
    assert wrong(server, token, "a", [], lease) == []


def test_rights_without_any_outside_the_watched_namespaces(helm: Helm, server: ApiServer) -> None:
    install(helm, server, {"watchNamespaces": ["a"], "rbac": {"customResourcesClusterWide": False}})
    token = server.service_account(OWN, RELEASE)
    assert wrong(server, token, "a", ALLOWED, FORBIDDEN) == []
    assert wrong(server, token, "other", [], ALLOWED + FORBIDDEN) == []
    assert wrong(server, token, "", [], CLUSTER_WIDE + ALLOWED) == []


def test_rights_with_cluster_scope(helm: Helm, server: ApiServer) -> None:
    install(helm, server, {"clusterScope": True})
    token = server.service_account(OWN, RELEASE)
    for namespace in ("", OWN, "other"):
        assert wrong(server, token, namespace, ALLOWED, FORBIDDEN) == []
    assert wrong(server, token, "", [], CLUSTER_WIDE) == []
    assert wrong(server, token, "other", [], [("coordination.k8s.io", "leases", "", "create")]) == []


def test_definitions_are_upgraded_kept_and_taken_over_again(helm: Helm, server: ApiServer, tmp_path: Path) -> None:
    install(helm, server, {})
    installed = server.request("GET", DEFINITION).body
    assert installed["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"

    newer = tmp_path / "pulsar-operator"
    shutil.copytree(OPERATOR_CHART, newer)
    file = newer / "files" / "crds" / "pulsaroperator.io_pulsartopics.yaml"
    file.write_text(file.read_text().replace("maximum: 10000", "maximum: 20000"))
    install(helm, server, {}, chart=newer)
    upgraded = server.request("GET", DEFINITION).body
    assert upgraded["metadata"]["uid"] == installed["metadata"]["uid"]
    schema = upgraded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["partitions"]["maximum"] == 20000

    topic = manifest(Kind.TOPIC, "kept", minimal(Kind.TOPIC))
    assert server.request("POST", path(Kind.TOPIC, "a"), topic).code == 201
    uninstall(helm, server, "--no-hooks")
    assert server.request("GET", DEFINITION).body["metadata"]["uid"] == installed["metadata"]["uid"]
    assert server.request("GET", path(Kind.TOPIC, "a", "kept")).code == 200

    install(helm, server, {})
    assert server.request("GET", DEFINITION).body["metadata"]["uid"] == installed["metadata"]["uid"]


def test_definitions_of_somebody_else(helm: Helm, server: ApiServer) -> None:
    server.install_crds(ROOT / "crds")
    install(helm, server, {"crds": {"install": False}})
    assert "annotations" not in server.request("GET", DEFINITION).body["metadata"]


@pytest.mark.parametrize("values", [{"watchNamespaces": ["a", "b"]}, {"clusterScope": True}, {}], ids=str)
def test_uninstall_before_the_objects(helm: Helm, server: ApiServer, values: Json) -> None:
    """The hook frees every object, also in a namespace that is being deleted, and leaves nothing of itself behind."""
    install(helm, server, values)
    places = [OWN] if not values else [OWN, "a", "b"]
    for place in places:
        eventually(
            lambda place=place: server.request("GET", path(Kind.TENANT, place)).code == 200, what="the definitions"
        )
        tenant = manifest(Kind.TENANT, "held", minimal(Kind.TENANT))
        tenant["metadata"]["finalizers"] = [FINALIZER]
        assert server.request("POST", path(Kind.TENANT, place), tenant).code == 201
    if "b" in places:
        assert server.request("DELETE", "/api/v1/namespaces/b").code == 200
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(uninstall, helm, server)
        job_path = f"/apis/batch/v1/namespaces/{OWN}/jobs/{RELEASE}-uninstall"
        eventually(lambda: ending.done() or server.request("GET", job_path).code == 200, what="the hook's Job")
        if ending.done():
            ending.result()
        job = server.request("GET", job_path).body
        assert server.request("GET", f"/apis/apps/v1/namespaces/{OWN}/deployments/{RELEASE}").code == 404
        done = run_container(server, job)
        complete(server, job_path)
        ending.result(timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for place in places:
        held = server.request("GET", path(Kind.TENANT, place, "held")).body
        assert "finalizers" not in held["metadata"], done.stdout
    for left in (
        f"/api/v1/namespaces/{OWN}/serviceaccounts/{RELEASE}-uninstall",
        f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{OWN}-{RELEASE}-uninstall",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/roles/{RELEASE}-uninstall-lease",
    ):
        assert server.request("GET", left).code == 404, left


def run_container(server: ApiServer, job: Json) -> subprocess.CompletedProcess[str]:
    """What the kubelet would do with the Job's container: same account, arguments and environment."""
    spec = job["spec"]["template"]["spec"]
    token = server.service_account(OWN, spec["serviceAccountName"])
    (container,) = spec["containers"]
    given = {entry["name"]: entry.get("value") or "" for entry in container["env"]}
    given |= {"PULSAR_OPERATOR_NAMESPACE": OWN, "PULSAR_OPERATOR_POD_NAME": "uninstall-x"}
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
    answer = server.request(
        "PATCH", f"{job_path}/status", {"status": status}, content_type="application/merge-patch+json"
    )
    assert answer.code == 200, answer.message
