"""A policy chooses the code and the words of its denial: a real API server passes them on, and they are no right of the
operator's that is missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.ports import ForbiddenError, PortError, RefusedError
from tests.support.core.objects import config_map
from tests.support.core.recorder import CountingMetrics
from tests.support.processes.apiserver import ApiServer

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
WORDS = 'User "system:serviceaccount:w:w" cannot get resource "secrets" in API group "" in the namespace "w"'
"""What a policy or a webhook may say of a right of its own."""


def deny(server: ApiServer, namespace: str, reason: str) -> str:
    """No ConfigMap of a Kubernetes namespace is created any more; the name of the policy."""
    name, api = f"deny-{reason.lower()}-{namespace}", {"apiVersion": "admissionregistration.k8s.io/v1"}
    maps = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [maps], **here},
        "validations": [{"expression": "false", "message": WORDS, "reason": reason}],
    }
    meta = {"metadata": {"name": name}}
    server.apply(f"{POLICIES}/{name}", {**api, "kind": "ValidatingAdmissionPolicy", **meta, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    kind = "ValidatingAdmissionPolicyBinding"
    server.apply(f"{POLICIES.removesuffix('ies')}ybindings/{name}", {**api, "kind": kind, **meta, "spec": binding})
    return name


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)])
def test_a_denial_is_about_one_request(apiserver: ApiServer, namespace: str, reason: str, code: int) -> None:
    name = deny(apiserver, namespace, reason)

    async def answer() -> PortError | None:
        client, metrics = KubeClient(await load_configuration(apiserver.kubeconfig)), CountingMetrics()
        kube = KubeAdapter(client, metrics, EventRecorder(client, metrics, SystemClock(), reporter="tests"))
        try:
            await kube.dry_run_create(config_map(namespace, "x", {}))
        except PortError as error:
            return error
        finally:
            await client.close()
        return None

    def denied() -> PortError | None:
        found = asyncio.run(answer())
        return found if found is not None and name in str(found) else None

    error = eventually(denied, what="the policy to be in force", every=LOCAL)
    assert isinstance(error, RefusedError) and not isinstance(error, ForbiddenError)
    assert error.status == code and WORDS in str(error)
