"""The API server the integration tests run against: clients, rights and the audit log they count writes from."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from kubernetes import aio
from kubernetes.aio.config import load_kube_config

from pulsar_operator.api.constants import Kind
from tests.support.admission.samples import manifest, minimal, path
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.control_plane import MissingBinariesError, binaries

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}, "data": {"a": "1"}}


def test_missing_binaries_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingBinariesError, match=r"etcd is missing: run: make tools"):
        binaries({"PULSAR_OPERATOR_BIN": str(tmp_path)})


def test_writes_are_counted_by_user_agent_and_reads_are_not(apiserver: ApiServer, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    before = apiserver.audit_mark()
    assert apiserver.request("POST", maps, CONFIG_MAP, user_agent="counted/1").code == 201
    mark = apiserver.audit_mark()
    assert apiserver.request("GET", f"{maps}/probe", user_agent="counted/1").code == 200
    assert apiserver.request("DELETE", f"{maps}/probe", user_agent="other/1").code == 200
    assert apiserver.request("POST", maps, CONFIG_MAP | {"data": 5}, user_agent="counted/1").code == 400

    (created, refused) = apiserver.audit_writes(since=before, user_agent_prefix="counted/")
    assert (created.verb, created.resource, created.namespace, created.code) == ("create", "configmaps", namespace, 201)
    assert refused.code == 400
    after = apiserver.audit_events(since=mark, user_agent_prefix="counted/")
    assert [event.verb for event in after] == ["get", "create"]
    (deleted,) = apiserver.audit_writes(since=mark, user_agent_prefix="other/")
    assert (deleted.verb, deleted.name) == ("delete", "probe")


def test_status_writes_are_told_apart_with_their_field_manager(apiserver: ApiServer, namespace: str) -> None:
    target = path(Kind.TENANT, namespace, "audited")
    mark = apiserver.audit_mark()
    assert apiserver.apply(target, manifest(Kind.TENANT, "audited", minimal(Kind.TENANT)), manager="me").code == 201
    status = {k: v for k, v in manifest(Kind.TENANT, "audited", {}).items() if k != "spec"}
    assert apiserver.apply(f"{target}/status", status | {"status": {"dependents": 1}}, manager="me").code == 200
    written = [
        (event.verb, event.resource, event.field_manager)
        for event in apiserver.audit_writes(since=mark)
        if event.name == "audited"
    ]
    assert written == [("patch", "pulsartenants", "me"), ("patch", "pulsartenants/status", "me")]


def test_service_account_has_exactly_the_rights_bound_to_it(apiserver: ApiServer, namespace: str) -> None:
    token = apiserver.service_account(namespace, "reader")
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    assert apiserver.request("GET", maps, token=token).code == 403
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    mark = apiserver.audit_mark()
    assert apiserver.apply(f"{rbac}/roles/reader", role).code == 201
    assert apiserver.apply(f"{rbac}/rolebindings/reader", binding).code == 201
    apiserver.eventually_code(200, "GET", maps, token=token)
    assert apiserver.request("POST", maps, CONFIG_MAP, token=token).code == 403
    (tried,) = apiserver.audit_writes(since=mark, username=f"system:serviceaccount:{namespace}:reader")
    assert (tried.verb, tried.code) == ("create", 403)


async def test_kubeconfig_works_with_the_client_library(apiserver: ApiServer, namespace: str) -> None:
    configuration = aio.client.Configuration()
    await load_kube_config(str(apiserver.kubeconfig), client_configuration=configuration)
    async with aio.client.ApiClient(configuration) as client:
        found = await aio.client.CoreV1Api(client).read_namespace(namespace)
    assert found.metadata.name == namespace
    assert yaml.safe_load(apiserver.kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == apiserver.url
    assert apiserver.kubeconfig.stat().st_mode & 0o077 == 0


def test_pods_are_held_to_the_security_standard_of_their_namespace(apiserver: ApiServer) -> None:
    labelled = apiserver.new_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "main", "image": "any"}]},
    }
    refused = apiserver.request("POST", f"/api/v1/namespaces/{labelled}/pods", pod)
    assert refused.code == 403
    assert "violates PodSecurity" in refused.message
    plain = apiserver.new_namespace()
    assert apiserver.request("POST", f"/api/v1/namespaces/{plain}/pods", pod).code == 201
