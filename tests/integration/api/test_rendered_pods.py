"""What is rendered of pod templates before a real API server: it fits the standard, and is kept as it was applied."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.apply import foreign_entries, stamped, why_apply
from pulsar_operator.domain.render import ClusterInputs, Owner, render_cluster, spec_problems
from tests.support.cluster.pod_fields import EVERY_FIELD
from tests.support.cluster.real_world import RESTRICTED
from tests.support.cluster.rendering import IMAGES, distributed, standalone
from tests.support.processes.apiserver import ApiServer

Json = dict[str, Any]
POD: Json = {"pod": EVERY_FIELD}
SPECS: dict[str, PulsarClusterSpec] = {
    "plain": distributed(),
    "every-field": distributed(
        metadataStore={"managed": POD},
        bookkeeper={**POD, "autoRecovery": POD},
        broker={**POD, "service": {"annotations": {"a": "b"}}},
        proxy={
            **POD,
            "service": {
                "type": "LoadBalancer",
                "loadBalancerClass": "example.com/internal",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "externalTrafficPolicy": "Local",
            },
        },
        platform={"podSecurity": "Platform", "ipFamilyPolicy": "PreferDualStack"},
    ),
    "standalone": standalone(**POD),
}
COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Service": "/api/v1/namespaces/{}/services",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
}


@pytest.fixture(params=SPECS)
def manifests(request: pytest.FixtureRequest, apiserver: ApiServer) -> list[Json]:
    """All that a specification renders to, in a Kubernetes namespace that is restricted."""
    spec = SPECS[request.param]
    assert spec_problems(spec) == []
    namespace = apiserver.new_namespace(labels=RESTRICTED)
    owner = Owner(Kind.CLUSTER, "my", namespace, "uid-1", API_VERSION, part_of="prod")
    return render_cluster(ClusterInputs(owner, spec, IMAGES, super_digest_secret="my-super")).all()


def test_what_is_rendered_is_kept_and_pods_are_restricted(apiserver: ApiServer, manifests: list[Json]) -> None:
    """By the API server's own judgement of the standard. A difference would be applied again and again."""
    for manifest in manifests:
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        path = f"{COLLECTIONS[manifest['kind']].format(namespace)}/{name}"
        applied = apiserver.apply(path, stamped(manifest))
        assert applied.code == 201, applied.message
        assert why_apply(manifest, applied.body) is None, name
        assert foreign_entries(manifest, applied.body) == []
        if manifest["kind"] == "StatefulSet":
            _is_admitted(apiserver, manifest)


def _is_admitted(apiserver: ApiServer, workload: Json) -> None:
    """Its pods, with the volumes that the StatefulSet's controller would add."""
    template, meta = workload["spec"]["template"], workload["metadata"]
    claims = [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for claim in workload["spec"].get("volumeClaimTemplates", [])
    ]
    spec = {**template["spec"], "volumes": [*template["spec"]["volumes"], *claims]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": f"{meta['name']}-0"},
        "spec": spec,
    }
    path = f"/api/v1/namespaces/{meta['namespace']}/pods"
    answer = apiserver.request("POST", path, body, query={"dryRun": "All", "fieldValidation": "Strict"})
    assert answer.code == 201, answer.message
