"""What is written to a real API server comes back whole: no field pruned, none changed, defaults as in the models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsar_operator.api.constants import API_VERSION, GROUP, PLURALS, SHORT_NAMES, Kind
from pulsar_operator.api.v1alpha1 import MODELS, wire
from tests.support.admission.samples import Json, Sample, largest, largest_status, manifest, minimal, path
from tests.support.processes.apiserver import ApiServer

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.yaml"))
LARGEST = [sample for kind in Kind for sample in largest(kind)]
STRICT = {"fieldValidation": "Strict"}


@pytest.mark.parametrize("kind", Kind)
def test_definition_is_established_without_complaint(apiserver: ApiServer, kind: Kind) -> None:
    crd = apiserver.request(
        "GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PLURALS[kind]}.{GROUP}"
    ).body
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}, crd["status"]["conditions"]
    resources = apiserver.request("GET", f"/apis/{API_VERSION}").body["resources"]
    (resource,) = [each for each in resources if each["name"] == PLURALS[kind]]
    assert (resource["shortNames"], resource["categories"]) == ([SHORT_NAMES[kind]], ["pulsar"])
    assert resource["namespaced"]


@pytest.mark.parametrize("sample", LARGEST, ids=lambda s: f"{s.kind}-{s.name}")
def test_largest_specification_survives_unchanged(apiserver: ApiServer, namespace: str, sample: Sample) -> None:
    created = apiserver.request(
        "POST",
        path(sample.kind, namespace),
        manifest(sample.kind, "largest", sample.spec),
        query=STRICT,
    )
    assert created.code == 201, created.message
    found = apiserver.request("GET", path(sample.kind, namespace, "largest")).body
    assert found["spec"] == sample.spec
    assert wire(MODELS[sample.kind].spec.model_validate(found["spec"])) == sample.spec


@pytest.mark.parametrize("sample", LARGEST, ids=lambda s: f"{s.kind}-{s.name}")
def test_server_side_apply_of_the_largest_is_idempotent(apiserver: ApiServer, namespace: str, sample: Sample) -> None:
    target = path(sample.kind, namespace, "largest")
    first = apiserver.apply(target, manifest(sample.kind, "largest", sample.spec))
    assert first.code == 201, first.message
    second = apiserver.apply(target, manifest(sample.kind, "largest", sample.spec))
    assert second.code == 200, second.message
    assert second.body["spec"] == sample.spec
    # The status of a new object is dropped before defaults are filled in, so that they are stored with the second.
    third = apiserver.apply(target, manifest(sample.kind, "largest", sample.spec))
    assert third.body["metadata"]["resourceVersion"] == second.body["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", Kind)
def test_largest_status_survives_unchanged(apiserver: ApiServer, namespace: str, kind: Kind) -> None:
    assert apiserver.request("POST", path(kind, namespace), manifest(kind, "full", minimal(kind))).code == 201
    status = largest_status(kind)
    document = {k: v for k, v in manifest(kind, "full", {}).items() if k != "spec"} | {"status": status}
    applied = apiserver.apply(path(kind, namespace, "full") + "/status", document)
    assert applied.code == 200, applied.message
    found = apiserver.request("GET", path(kind, namespace, "full")).body
    assert found["status"] == status
    assert wire(MODELS[kind].status.model_validate(found["status"])) == status


@pytest.mark.parametrize("kind", Kind)
def test_status_gets_one_default(apiserver: ApiServer, namespace: str, kind: Kind) -> None:
    """A new object does not look ready; a controller finds in status what it wrote, so that it can compare."""
    assert apiserver.request("POST", path(kind, namespace), manifest(kind, "bare", minimal(kind))).code == 201
    found = apiserver.request("GET", path(kind, namespace, "bare")).body
    assert found["status"] == {"observedGeneration": -1}
    assert MODELS[kind].status.model_validate(found["status"]).observed_generation is None
    document = manifest(kind, "bare", {}) | {"status": {"observedGeneration": 1}}
    del document["spec"]
    applied = apiserver.apply(path(kind, namespace, "bare") + "/status", document)
    assert applied.body["status"] == {"observedGeneration": 1}


@pytest.mark.parametrize("kind", Kind)
def test_server_and_model_agree_on_defaults(apiserver: ApiServer, namespace: str, kind: Kind) -> None:
    created = apiserver.request("POST", path(kind, namespace), manifest(kind, "small", minimal(kind)))
    assert created.code == 201, created.message
    model = MODELS[kind].spec
    assert model.model_validate(created.body["spec"]) == model.model_validate(minimal(kind))
    assert created.body["spec"] == _without_empty_lists(wire(model.model_validate(minimal(kind))))


def test_one_member_set_keeps_the_defaults_of_the_others(apiserver: ApiServer, namespace: str) -> None:
    spec = minimal(Kind.CLUSTER) | {
        "bookkeeper": {"journal": {"storageClassName": "fast"}, "ledgers": {"count": 2}},
        "image": {"broker": "b"},
    }
    created = apiserver.request("POST", path(Kind.CLUSTER, namespace), manifest(Kind.CLUSTER, "partial", spec))
    assert created.code == 201, created.message
    found = created.body["spec"]
    assert found["bookkeeper"]["journal"] == {"size": "10Gi", "count": 1, "storageClassName": "fast"}
    assert found["bookkeeper"]["ledgers"] == {"size": "50Gi", "count": 2}
    assert found["image"] == {"broker": "b", "pullPolicy": "IfNotPresent"}


def test_examples_are_accepted_and_kept(apiserver: ApiServer) -> None:
    """Every kind is in one of them."""
    kinds = []
    for file in EXAMPLES:
        documents = [d for d in yaml.safe_load_all(file.read_text(encoding="utf-8")) if d]
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        namespace = apiserver.new_namespace(f"example-{file.stem}", labels=labels)
        for document in documents:
            if document["kind"] == "Namespace":
                continue
            kind = Kind(document["kind"])
            document["metadata"]["namespace"] = namespace
            applied = apiserver.apply(path(kind, namespace, document["metadata"]["name"]), document)
            assert applied.code == 201, applied.message
            _assert_contains(applied.body["spec"], document["spec"], str(kind))
            MODELS[kind].spec.model_validate(applied.body["spec"])
            kinds.append(kind)
    assert set(kinds) == set(Kind)


def test_scale_subresource_reads_and_writes_broker_replicas(apiserver: ApiServer, namespace: str) -> None:
    kind, target = Kind.CLUSTER, path(Kind.CLUSTER, namespace, "scaled")
    assert apiserver.request("POST", path(kind, namespace), manifest(kind, "scaled", minimal(kind))).code == 201
    status = {"broker": {"desired": 2, "ready": 1, "selector": "app.kubernetes.io/component=broker"}}
    document = {k: v for k, v in manifest(kind, "scaled", {}).items() if k != "spec"} | {"status": status}
    assert apiserver.apply(f"{target}/status", document).code == 200

    scale = apiserver.request("GET", f"{target}/scale").body
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 2, "selector": "app.kubernetes.io/component=broker"}

    scale["spec"]["replicas"] = 5
    assert apiserver.request("PUT", f"{target}/scale", scale).code == 200
    assert apiserver.request("GET", target).body["spec"]["broker"]["replicas"] == 5

    scale = apiserver.request("GET", f"{target}/scale").body
    scale["spec"]["replicas"] = 100_000
    refused = apiserver.request("PUT", f"{target}/scale", scale)
    assert refused.code == 422, "validation of spec applies to the scale subresource too"


def test_columns_show_status_as_a_table(apiserver: ApiServer, namespace: str) -> None:
    kind = Kind.CLUSTER
    assert apiserver.request("POST", path(kind, namespace), manifest(kind, "shown", minimal(kind))).code == 201
    status = {
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "WaitingForBookies",
                "message": "1 of 3 bookies is ready.",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            },
            {
                "type": "ScalingActive",
                "status": "False",
                "reason": "NoData",
                "message": "Brokers: no decision.",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            },
        ],
        "version": "4.0.8",
        "bookkeeper": {"ready": 1, "summary": "1/3"},
        "broker": {"ready": 0, "summary": "0/2"},
        "blocker": "bookies",
    }
    document = {k: v for k, v in manifest(kind, "shown", {}).items() if k != "spec"} | {"status": status}
    assert apiserver.apply(path(kind, namespace, "shown") + "/status", document).code == 200
    table = apiserver.request("GET", path(kind, namespace), accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    (row,) = table["rows"]
    cells = dict(zip([column["name"] for column in table["columnDefinitions"]], row["cells"], strict=True))
    cells.pop("Age")
    assert cells == {
        "Name": "shown",
        "Ready": "False",
        "Reason": "WaitingForBookies",
        "Version": "4.0.8",
        "Bookies": "1/3",
        "Brokers": "0/2",
        "Proxies": None,
        "Scaling": "NoData",
        "Blocker": "bookies",
        "Message": "1 of 3 bookies is ready.",
    }


def _without_empty_lists(value: Json) -> Json:
    """Lists default to empty in the models and stay absent at the server."""
    return {
        key: _without_empty_lists(member) if isinstance(member, dict) else member
        for key, member in value.items()
        if member != []
    }


def _assert_contains(found: Any, wanted: Any, where: str) -> None:
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert key in found, f"{where}.{key} was pruned"
            _assert_contains(found[key], value, f"{where}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list):
        assert len(found) == len(wanted), where
        for index, value in enumerate(wanted):
            _assert_contains(found[index], value, f"{where}[{index}]")
    else:
        assert found == wanted, where
