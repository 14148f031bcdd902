"""The operator under an account of its own: a watched Kubernetes namespace loses its Role, as when somebody deletes the
namespace and makes it again, and gets it back. The other namespace never notices; the process goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.eventually import eventually
from pulsar_operator.api.constants import GROUP, Kind
from tests.support.core.objects import custom
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.operator import OperatorProcess

RBAC = "/apis/rbac.authorization.k8s.io/v1"
INSTANCES = f"/apis/{GROUP}/v1alpha1/namespaces/{{}}/pulsarinstances/{{}}"
STATEFUL_SETS = "/apis/apps/v1/namespaces/{}/statefulsets/i-configuration-store"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
OWN_KINDS = [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}]


class Site:
    """Three namespaces: of the operator, and two that it watches."""

    def __init__(self, server: ApiServer, log: Path) -> None:
        self.server, self.log = server, log
        self.own, self.a, self.b = (server.new_namespace(prefix) for prefix in ("own", "a", "b"))
        self.token = server.service_account(self.own, "operator")
        self.grant(self.own)

    def grant(self, namespace: str) -> None:
        """The Role of a namespace and its binding."""
        name = {"name": "operator"}
        path = f"{RBAC}/namespaces/{namespace}"
        self._put(f"{path}/roles/operator", {"kind": "Role", "metadata": name, "rules": EVERYTHING})
        self._put(
            f"{path}/rolebindings/operator", {"kind": "RoleBinding", "metadata": name, **self._of("Role", "operator")}
        )

    def grant_own_kinds(self) -> None:
        """What the chart gives for the kinds of the operator in the whole cluster."""
        meta = {"name": self.own}
        self._put(f"{RBAC}/clusterroles/{self.own}", {"kind": "ClusterRole", "metadata": meta, "rules": OWN_KINDS})
        binding = {"kind": "ClusterRoleBinding", "metadata": meta, **self._of("ClusterRole", self.own)}
        self._put(f"{RBAC}/clusterrolebindings/{self.own}", binding)

    def revoke(self, namespace: str) -> None:
        """What deleting a namespace takes with it."""
        answer = self.server.request("DELETE", f"{RBAC}/namespaces/{namespace}/rolebindings/operator")
        assert answer.code == 200, answer.message

    def _of(self, kind: str, name: str) -> dict[str, Any]:
        return {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": self.own}],
        }

    def _put(self, path: str, manifest: dict[str, Any]) -> None:
        answer = self.server.apply(path, {"apiVersion": "rbac.authorization.k8s.io/v1", **manifest})
        assert answer.code < 300, answer.message

    def instance(self, namespace: str, name: str = "i") -> None:
        """An instance with a store of its own."""
        spec = {"configurationStore": {"managed": {"replicas": 1}}}
        answer = self.server.apply(INSTANCES.format(namespace, name), custom(Kind.INSTANCE, namespace, name, spec))
        assert answer.code < 300, answer.message

    def status(self, namespace: str, name: str = "i") -> dict[str, Any]:
        """Of an instance there."""
        path = INSTANCES.format(namespace, name)
        return dict(self.server.request("GET", path).body.get("status") or {})

    def store(self, namespace: str) -> dict[str, Any]:
        """Condition of the instance's store there."""
        found = [c for c in self.status(namespace).get("conditions") or () if c["type"] == "ConfigurationStoreReady"]
        return dict(found[0]) if found else {}

    def stateful_set(self, namespace: str) -> int:
        """HTTP status of the store's StatefulSet."""
        return self.server.request("GET", STATEFUL_SETS.format(namespace)).code

    def start(self) -> OperatorProcess:
        """The operator itself, under its account."""
        return OperatorProcess(
            self.log,
            self.server.write_kubeconfig("operator", self.token),
            self.own,
            watch_namespaces=f"{self.a},{self.b}",
        )


@pytest.fixture
def site(apiserver: ApiServer, tmp_path: Path) -> Site:
    return Site(apiserver, tmp_path / "operator.log")


@pytest.fixture
def operator(site: Site) -> Iterator[list[OperatorProcess]]:
    """Those still running are killed at the end."""
    started: list[OperatorProcess] = []
    yield started
    for each in started:
        each.kill()
        for line in each.lines:
            print(line)  # shown by pytest when the test failed


def test_a_role_that_goes_and_comes_back(site: Site, operator: list[OperatorProcess]) -> None:
    site.grant(site.a)
    site.grant(site.b)
    site.grant_own_kinds()
    site.instance(site.a)
    site.instance(site.b)
    operator.append(running := site.start())
    running.ready()
    for each in (site.a, site.b):
        eventually(lambda each=each: site.stateful_set(each) == 200, what=f"the store in {each}")

    site.revoke(site.b)
    eventually(lambda: site.store(site.b)["reason"] == "Forbidden", what="the missing right to be told")
    told = site.store(site.b)
    assert told["status"] == "Unknown" and "helm upgrade" in told["message"]
    assert f"in Kubernetes namespace {site.b}" in told["message"]
    site.server.request("DELETE", STATEFUL_SETS.format(site.a))
    eventually(lambda: site.stateful_set(site.a) == 200, what="a to be looked after")
    assert site.store(site.a)["reason"] != "Forbidden"

    site.server.request("DELETE", STATEFUL_SETS.format(site.b))
    site.grant(site.b)
    eventually(lambda: site.stateful_set(site.b) == 200, what="b to be looked after again", within=90.0)
    eventually(lambda: site.store(site.b)["reason"] != "Forbidden", what="the condition to follow")
    running.assert_runs()
    assert running.stop() == 0


def test_a_namespace_without_rights_holds_up_no_other(site: Site, operator: list[OperatorProcess]) -> None:
    site.grant(site.a)
    site.instance(site.a)
    site.instance(site.b)
    operator.append(running := site.start())
    eventually(lambda: site.stateful_set(site.a) == 200, what="a to be looked after")
    eventually(lambda: f"Kubernetes namespace {site.b}" in running.http("/readyz")[1], what="/readyz to name b")
    code, body = running.http("/readyz")
    assert code == 503 and "has no permission to list" in body and site.a not in body
    assert running.http("/healthz")[0] == 200
    assert not site.status(site.b).get("conditions")

    site.grant(site.b)
    eventually(lambda: site.stateful_set(site.b) == 200, what="b to be looked after", within=90.0)
    running.ready()
    # A new object is seen by the watch: the next list is ten minutes away.
    site.instance(site.b, name="later")
    eventually(lambda: site.status(site.b, "later").get("conditions"), what="the watch to deliver again")
    assert running.stop() == 0
