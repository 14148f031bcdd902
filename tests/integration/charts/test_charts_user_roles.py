"""What people may do who have one of Kubernetes' roles view, edit and admin in a namespace, once the chart is there.

The real API server has those roles with their selectors. The controller that adds the rules is another process and is
played: it takes the rules of every ClusterRole that a selector matches, of aggregated ones too.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, GROUP, PLURALS, Kind
from tests.support.admission.samples import manifest, minimal, path
from tests.support.core.objects import custom
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import OPERATOR_CHART, Helm, for_people, of_kind

Json = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")
ROLES = ("view", "edit", "admin")


def user_roles(helm: Helm, values: Json | None = None) -> list[Json]:
    """ClusterRoles of the chart that are added to those of Kubernetes."""
    found = of_kind(helm.template(OPERATOR_CHART, values or {}), "ClusterRole")
    return [role for role in found if for_people(role)]


def aggregated(server: ApiServer, name: str) -> list[Json]:
    """The rules of a role of Kubernetes, as its selectors say now."""
    roles = {each["metadata"]["name"]: each for each in server.request("GET", f"{RBAC}/clusterroles").body["items"]}

    def rules(role: Json) -> list[Json]:
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
        if selectors is None:
            return list(role.get("rules") or ())
        chosen = [
            each
            for each in roles.values()
            if any(s["matchLabels"].items() <= (each["metadata"].get("labels") or {}).items() for s in selectors)
        ]
        return [rule for each in chosen for rule in rules(each)]

    return rules(roles[name])


class People:
    """A user for each role, in a namespace of its own."""

    def __init__(self, server: ApiServer, chart: list[Json]) -> None:
        self.server, self.namespace = server, server.new_namespace("people")
        for role in chart:
            answer = server.apply(f"{RBAC}/clusterroles/{role['metadata']['name']}", role)
            assert answer.code < 300, answer.message
        self.tokens = {role: server.service_account(self.namespace, role) for role in ROLES}
        for role in ROLES:
            self._bind(role, f"{self.namespace}-{role}", aggregated(server, role))

    def _bind(self, role: str, name: str, rules: list[Json]) -> None:
        for target, body in (
            (f"clusterroles/{name}", {"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
            (
                f"namespaces/{self.namespace}/rolebindings/{name}",
                {
                    "kind": "RoleBinding",
                    "metadata": {"name": name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                    "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": self.namespace}],
                },
            ),
        ):
            answer = self.server.apply(f"{RBAC}/{target}", {"apiVersion": "rbac.authorization.k8s.io/v1", **body})
            assert answer.code < 300, answer.message

    def may(self, role: str, verb: str, resource: str, *, group: str = GROUP, namespace: str | None = None) -> bool:
        """What the API server says of the user with the role."""
        resource, _, part = resource.partition("/")
        asked = {
            "namespace": namespace or self.namespace,
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": part,
        }
        spec = {"user": f"system:serviceaccount:{self.namespace}:{role}", "resourceAttributes": asked}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = self.server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        assert answer.code == 201, answer.message
        return bool(answer.body["status"]["allowed"])


@pytest.fixture(scope="module")
def people(apiserver: ApiServer, helm: Helm) -> People:
    found = People(apiserver, user_roles(helm))
    # RBAC takes effect a moment after it is written; the last binding is the admin's.
    listing = f"/apis/{API_VERSION}/namespaces/{found.namespace}/pulsarinstances"
    for role in ROLES:
        apiserver.eventually_code(200, "GET", listing, token=found.tokens[role])
    return found


@pytest.mark.parametrize("kind", Kind)
def test_what_each_role_may_do(people: People, kind: Kind) -> None:
    plural = PLURALS[kind]
    writers = {"admin"} if kind is Kind.INSTANCE else {"edit", "admin"}
    for role, verb in itertools.product(ROLES, (*READ, *WRITE)):
        assert people.may(role, verb, plural) is (verb in READ or role in writers), (role, verb)
    for role, verb in itertools.product(ROLES, ("get", "update", "patch")):
        assert people.may(role, verb, f"{plural}/status") is (verb == "get"), (role, verb)
        assert not people.may(role, verb, f"{plural}/finalizers"), (role, verb)
    assert not people.may("admin", "get", plural, namespace="default")


def test_secrets_and_the_scale_of_a_cluster(people: People) -> None:
    for verb in READ:
        assert not people.may("view", verb, "secrets", group="")
    for role in ROLES:
        assert people.may(role, "get", "pulsarclusters/scale")
        assert people.may(role, "update", "pulsarclusters/scale") is (role != "view")


def test_requests_of_people(people: People, apiserver: ApiServer) -> None:
    """The same by what they send: objects, an annotation that consents, a status, a Secret."""
    namespace, token = people.namespace, people.tokens
    tenant = manifest(Kind.TENANT, "t", minimal(Kind.TENANT))
    instance = manifest(Kind.INSTANCE, "i", minimal(Kind.INSTANCE))
    tenants, instances = path(Kind.TENANT, namespace), path(Kind.INSTANCE, namespace)
    assert apiserver.request("POST", tenants, tenant, token=token["view"]).code == 403
    assert apiserver.request("POST", tenants, tenant, token=token["edit"]).code == 201
    assert apiserver.request("POST", instances, instance, token=token["edit"]).code == 403
    assert apiserver.request("POST", instances, instance, token=token["admin"]).code == 201
    consent = {"metadata": {"annotations": {f"{GROUP}/confirm-delete": "t"}}}
    patch = "application/merge-patch+json"
    for role, code in (("view", 403), ("edit", 200)):
        answer = apiserver.request("PATCH", f"{tenants}/t", consent, content_type=patch, token=token[role])
        assert answer.code == code, answer.message
    status = {**custom(Kind.TENANT, namespace, "t", {}), "status": {"observedGeneration": 1}}
    answer = apiserver.request("PATCH", f"{tenants}/t/status", status, content_type=patch, token=token["admin"])
    assert answer.code == 403
    assert apiserver.request("GET", f"{tenants}/t", token=token["view"]).code == 200
    assert apiserver.request("GET", f"/api/v1/namespaces/{namespace}/secrets", token=token["view"]).code == 403


def test_they_can_be_left_out(helm: Helm) -> None:
    assert len(user_roles(helm)) == 3
    assert user_roles(helm, {"rbac": {"aggregateToUserRoles": False}}) == []
    assert user_roles(helm, {"rbac": {"create": False}}) == []
