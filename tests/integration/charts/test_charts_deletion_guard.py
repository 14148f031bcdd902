"""The deletion guard of helm/pulsar-operator on a real API server: who may delete a parent, and who is told why not.

No operator runs, so the tests write status.dependents themselves; no controller-manager either, so requests are made in
its name.
"""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import (
    ANNOTATION_CONFIRM_DELETE,
    ANNOTATION_DELETE_AFTER_DEPENDENTS,
    FINALIZER,
    PLURALS,
    Kind,
)
from pulsar_operator.controllers.core.index import PARENT_FIELD, SITED
from tests.support.admission.samples import manifest, minimal, path
from tests.support.processes.apiserver import ApiServer, Response
from tests.support.processes.helm import KUBE_VERSION, OPERATOR_CHART, PULSAR_CHART, Helm, of_kind

Json = dict[str, Any]

PARENTS = [Kind.INSTANCE, Kind.CLUSTER, Kind.TENANT, Kind.NAMESPACE]
NEEDED_BY = {
    **{parent: {child for child, (_, p) in PARENT_FIELD.items() if p is parent} for parent in PARENTS},
    Kind.CLUSTER: SITED,
}
"""Kinds that the message names. A PulsarRebalance is an errand that ends with its cluster."""
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
MERGE = "application/merge-patch+json"
CONTROL_PLANE = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
]


@dataclass(frozen=True)
class Guarded:
    """An API server with the operator's chart installed."""

    server: ApiServer
    release: str
    """Namespace of the release."""
    watched: str
    """Namespace in watchNamespaces."""

    def make(self, kind: Kind, *, namespace: str = "", dependents: int | None = 2, **metadata: Any) -> str:
        """An object with that many dependents in its status, None = no status. Returns its name."""
        place, name = namespace or self.watched, f"o-{uuid.uuid4().hex[:8]}"
        obj = manifest(kind, name, minimal(kind))
        obj["metadata"] |= metadata
        answer = self.server.request("POST", path(kind, place), obj)
        assert answer.code == 201, answer.message
        if dependents is not None:
            self.count(kind, place, name, dependents)
        return name

    def count(self, kind: Kind, namespace: str, name: str, dependents: int) -> None:
        """Write status.dependents as the operator does."""
        status = {"status": {"dependents": dependents}}
        answer = self.server.request("PATCH", f"{path(kind, namespace, name)}/status", status, content_type=MERGE)
        assert answer.code == 200, answer.message

    def annotate(self, kind: Kind, name: str, annotations: Json) -> None:
        """Set annotations, None = take off."""
        change = {"metadata": {"annotations": annotations}}
        answer = self.server.request("PATCH", path(kind, self.watched, name), change, content_type=MERGE)
        assert answer.code == 200, answer.message

    def delete(self, kind: Kind, name: str, *, namespace: str = "") -> Response:
        """Ask for the deletion, as an administrator."""
        return self.server.request("DELETE", path(kind, namespace or self.watched, name))

    def exists(self, kind: Kind, name: str, *, namespace: str = "") -> bool:
        """Whether the object is there and not about to go."""
        answer = self.server.request("GET", path(kind, namespace or self.watched, name))
        return answer.code == 200 and "deletionTimestamp" not in answer.body["metadata"]

    def delete_as(self, user: str, kind: Kind, name: str) -> int:
        """Status code of a deletion by another user, whom RBAC allows everything."""
        request = urllib.request.Request(
            self.server.url + path(kind, self.watched, name),
            method="DELETE",
            headers={
                "Authorization": f"Bearer {self.server.token}",
                "Impersonate-User": user,
                "Impersonate-Group": "system:masters",
            },
        )
        trusted = ssl.create_default_context(cafile=str(self.server.ca_file))
        try:
            with urllib.request.urlopen(request, context=trusted, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def dry_delete(self, kind: Kind, name: str, *, namespace: str = "") -> int:
        """What a deletion would be answered, without any."""
        place = path(kind, namespace or self.watched, name)
        return self.server.request("DELETE", place, query={"dryRun": "All"}).code


def install(helm: Helm, server: ApiServer, namespace: str, values: Json) -> None:
    chart = {"crds": {"install": False}, **values}
    helm.run(
        "upgrade",
        "--install",
        "op",
        str(OPERATOR_CHART),
        f"--namespace={namespace}",
        kubeconfig=server.kubeconfig,
        values=chart,
    )


def guard(helm: Helm, server: ApiServer, *, prefix: str = "guard") -> Guarded:
    """Install the chart and wait until the server has taken up the policy, a moment later."""
    made = Guarded(server, server.new_namespace(prefix), server.new_namespace(prefix))
    install(helm, server, made.release, {"watchNamespaces": [made.watched]})
    probe = made.make(Kind.TENANT)
    eventually(lambda: made.dry_delete(Kind.TENANT, probe) == 403, what="the policy to be in force", every=LOCAL)
    return made


@pytest.fixture(scope="module")
def guarded(helm: Helm, apiserver: ApiServer) -> Guarded:
    """Shared by the tests that leave the release alone."""
    return guard(helm, apiserver)


@pytest.mark.parametrize("kind", PARENTS)
def test_parent_with_dependents_is_refused_until_confirmed_as_the_message_says(guarded: Guarded, kind: Kind) -> None:
    name = guarded.make(kind)
    refused = guarded.delete(kind, name)
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    assert f"{kind.value} {guarded.watched}/{name} has dependents: 2 " in refused.message
    told = set(re.findall(r"Pulsar[A-Z]\w+", refused.message.split("has dependents:")[1].split("need it")[0]))
    assert told == {child.value for child in NEEDED_BY[kind]}
    assert guarded.exists(kind, name)

    command = re.search(r": kubectl -n (\S+) annotate --overwrite (\w+)/(\S+) (\S+)=(\S+)$", refused.message)
    assert command, refused.message
    assert command[1] == guarded.watched
    assert (command[2], command[3]) == (kind.value.lower(), name)
    assert command[4] == ANNOTATION_CONFIRM_DELETE
    guarded.annotate(kind, name, {command[4]: command[5]})
    assert guarded.delete(kind, name).code == 200
    assert not guarded.exists(kind, name)


@pytest.mark.parametrize("kind", PARENTS)
@pytest.mark.parametrize("dependents", [0, None])
def test_parent_without_dependents_goes(guarded: Guarded, kind: Kind, dependents: int | None) -> None:
    name = guarded.make(kind, dependents=dependents)
    assert guarded.delete(kind, name).code == 200


@pytest.mark.parametrize("kind", PARENTS)
def test_a_deletion_that_waits_for_the_dependents_is_accepted(guarded: Guarded, kind: Kind) -> None:
    name = guarded.make(kind)
    guarded.annotate(kind, name, {ANNOTATION_DELETE_AFTER_DEPENDENTS: name})
    assert guarded.delete(kind, name).code == 200


@pytest.mark.parametrize("kind", PARENTS)
@pytest.mark.parametrize(
    "annotations",
    [
        {ANNOTATION_CONFIRM_DELETE: "true"},
        {ANNOTATION_DELETE_AFTER_DEPENDENTS: "true"},
        {ANNOTATION_DELETE_AFTER_DEPENDENTS: "o-other"},
        {ANNOTATION_CONFIRM_DELETE: ""},
        {ANNOTATION_CONFIRM_DELETE: "o-other"},
        {"pulsaroperator.io/pause": "true"},
    ],
    ids=str,
)
def test_other_annotations_confirm_nothing(guarded: Guarded, kind: Kind, annotations: Json) -> None:
    name = guarded.make(kind, annotations=annotations)
    assert guarded.delete(kind, name).code == 403
    assert guarded.exists(kind, name)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in PARENTS])
def test_kinds_without_counted_dependents_go(guarded: Guarded, kind: Kind) -> None:
    assert guarded.delete(kind, guarded.make(kind)).code == 200


@pytest.mark.parametrize("kind", PARENTS)
def test_delete_collection(guarded: Guarded, kind: Kind) -> None:
    """``kubectl delete --raw`` and controllers ask for a whole collection; each object is still looked at."""
    labels = {"run": uuid.uuid4().hex}
    held, empty = guarded.make(kind, labels=labels), guarded.make(kind, labels=labels, dependents=0)
    query = {"labelSelector": f"run={labels['run']}"}
    refused = guarded.server.request("DELETE", path(kind, guarded.watched), query=query)
    assert refused.code == 403
    assert f"{ANNOTATION_CONFIRM_DELETE}={held}" in refused.message
    assert guarded.exists(kind, held)

    guarded.annotate(kind, held, {ANNOTATION_CONFIRM_DELETE: held})
    assert guarded.server.request("DELETE", path(kind, guarded.watched), query=query).code == 200
    assert not guarded.exists(kind, held) and not guarded.exists(kind, empty)


@pytest.mark.parametrize("user", CONTROL_PLANE)
def test_control_plane_is_not_held_up(guarded: Guarded, user: str) -> None:
    """A deleted namespace or owner would otherwise be Terminating for ever."""
    name = guarded.make(Kind.TENANT)
    assert guarded.delete_as(user, Kind.TENANT, name) == 200
    assert not guarded.exists(Kind.TENANT, name)


@pytest.mark.parametrize(
    "user", ["system:serviceaccount:kube-system:other", "system:serviceaccount:other:namespace-controller", "jane"]
)
def test_everybody_else_is_refused(guarded: Guarded, user: str) -> None:
    name = guarded.make(Kind.TENANT)
    assert guarded.delete_as(user, Kind.TENANT, name) == 403
    assert guarded.exists(Kind.TENANT, name)


def test_terminating_namespace(helm: Helm, apiserver: ApiServer) -> None:
    """Whoever empties it, under whatever account."""
    guarded = guard(helm, apiserver)
    names = {kind: guarded.make(kind) for kind in PARENTS}
    assert {guarded.dry_delete(kind, name) for kind, name in names.items()} == {403}
    assert apiserver.request("DELETE", f"/api/v1/namespaces/{guarded.watched}").code == 200
    for kind, name in names.items():
        # The policy sees the namespace as the server's own watch last did.
        eventually(
            lambda kind=kind, name=name: guarded.delete(kind, name).code == 200,
            what=f"the deletion of {kind.value} in the terminating namespace",
            every=LOCAL,
        )


def test_terminating_object_may_be_deleted_again(guarded: Guarded) -> None:
    name = guarded.make(Kind.TENANT, finalizers=[FINALIZER], annotations={})
    guarded.annotate(Kind.TENANT, name, {ANNOTATION_CONFIRM_DELETE: name})
    assert guarded.delete(Kind.TENANT, name).code == 200
    guarded.annotate(Kind.TENANT, name, {ANNOTATION_CONFIRM_DELETE: None})
    assert guarded.delete(Kind.TENANT, name).code == 200


def test_watched_namespaces_only(guarded: Guarded) -> None:
    other = guarded.server.new_namespace()
    elsewhere = guarded.make(Kind.TENANT, namespace=other)
    assert guarded.delete(Kind.TENANT, elsewhere, namespace=other).code == 200
    own = guarded.make(Kind.TENANT, namespace=guarded.release)
    assert guarded.delete(Kind.TENANT, own, namespace=guarded.release).code == 403


def test_switched_off_then_gone(helm: Helm, apiserver: ApiServer) -> None:
    guarded = guard(helm, apiserver)
    name = f"{guarded.release}-op-pulsar-operator-deletion-guard"
    assert apiserver.request("GET", f"{POLICIES}/{name}").code == 200
    tenant = guarded.make(Kind.TENANT)
    watched: Json = {"watchNamespaces": [guarded.watched]}
    install(helm, apiserver, guarded.release, {**watched, "deletionGuard": {"enabled": False}})
    assert apiserver.request("GET", f"{POLICIES}/{name}").code == 404
    eventually(
        lambda: guarded.dry_delete(Kind.TENANT, tenant) == 200, what="the policy to be out of force", every=LOCAL
    )

    install(helm, apiserver, guarded.release, watched)
    eventually(
        lambda: guarded.dry_delete(Kind.TENANT, tenant) == 403, what="the policy to be in force again", every=LOCAL
    )
    helm.run("uninstall", "op", f"--namespace={guarded.release}", "--no-hooks", kubeconfig=apiserver.kubeconfig)
    assert apiserver.request("GET", f"{POLICIES}/{name}").code == 404
    eventually(
        lambda: guarded.delete(Kind.TENANT, tenant).code == 200,
        what="the release's policy to be out of force",
        every=LOCAL,
    )


APPLICATION: Json = {
    "tenants": [{"name": "shop"}],
    "namespaces": [{"name": "orders", "tenant": "shop"}],
    "topics": [{"name": "payments", "namespace": "orders"}],
}
NAMED = {Kind.INSTANCE: "shop-pulsar", Kind.CLUSTER: "shop-pulsar", Kind.TENANT: "shop", Kind.NAMESPACE: "orders"}
"""Every parent that the chart makes."""


@pytest.mark.parametrize("keep", [False, True])
def test_uninstalling_the_chart_pulsar(helm: Helm, apiserver: ApiServer, keep: bool) -> None:
    """Helm waits for no child before it deletes a parent, and must not stop half-way. What it keeps is guarded."""
    guarded = guard(helm, apiserver)
    here = f"--namespace={guarded.watched}"
    values = {**APPLICATION, "keepOnUninstall": keep}
    helm.run("install", "shop-pulsar", str(PULSAR_CHART), here, kubeconfig=apiserver.kubeconfig, values=values)
    for kind, name in NAMED.items():
        guarded.count(kind, guarded.watched, name, 1)
    helm.run("uninstall", "shop-pulsar", here, kubeconfig=apiserver.kubeconfig)
    assert json.loads(helm.run("list", "--all", here, "-o=json", kubeconfig=apiserver.kubeconfig)) == []
    assert [guarded.exists(kind, name) for kind, name in NAMED.items()] == [keep] * len(NAMED)
    if keep:
        assert [guarded.delete(kind, name).code for kind, name in NAMED.items()] == [403] * len(NAMED)


VARIANTS: dict[str, Json] = {
    "default": {},
    "watched": {"watchNamespaces": ["a", "b"]},
    "everywhere": {"clusterScope": True},
}


def guards(objects: list[Json], kind: str) -> list[Json]:
    """Those of a kind that are the guard's."""
    return [each for each in of_kind(objects, kind) if each["metadata"]["name"].endswith("-deletion-guard")]


@pytest.mark.parametrize("variant", VARIANTS)
def test_rendered_policy_is_accepted(helm: Helm, apiserver: ApiServer, variant: str) -> None:
    """Strictly; and it holds where the operator counts."""
    objects = helm.template(OPERATOR_CHART, VARIANTS[variant])
    (policy,) = guards(objects, "ValidatingAdmissionPolicy")
    (binding,) = guards(objects, "ValidatingAdmissionPolicyBinding")
    for obj, plural in ((policy, POLICIES), (binding, POLICIES.replace("policies", "policybindings"))):
        query = {"fieldValidation": "Strict", "dryRun": "All"}
        answer = apiserver.request("POST", plural, obj, query=query)
        assert answer.code == 201, answer.message
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == [PLURALS[kind] for kind in PARENTS]
    if variant == "everywhere":
        assert "matchResources" not in binding["spec"]
        return
    (expression,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert expression["key"] == "kubernetes.io/metadata.name"
    assert expression["values"] == ["ops", *VARIANTS[variant].get("watchNamespaces", [])]


@pytest.mark.parametrize(("version", "wanted"), [("1.29.14", 0), ("1.30.0", 1), (KUBE_VERSION, 1)])
def test_servers_that_do_not_know_the_kind(helm: Helm, version: str, wanted: int) -> None:
    text = helm.run(
        "template",
        "rel",
        str(OPERATOR_CHART),
        f"--kube-version={version}",
        values={guard: {"enabled": False} for guard in ("replicationWarnings", "retentionWarnings", "configCheck")},
    )
    assert len(re.findall("^kind: ValidatingAdmissionPolicy$", text, re.MULTILINE)) == wanted


def test_two_releases_have_two_policies(helm: Helm) -> None:
    names = {
        policy["metadata"]["name"]
        for namespace in ("one", "two")
        for policy in of_kind(helm.template(OPERATOR_CHART, namespace=namespace), "ValidatingAdmissionPolicy")
    }
    assert len(names) == 8, "the guard, the config check and both kinds of warnings, each"
