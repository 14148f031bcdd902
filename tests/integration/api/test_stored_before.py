"""An object that was stored before its definition demanded more can still be let go: its finalizer can be taken off."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import PLURALS, Kind
from pulsar_operator.crdgen import crd
from tests.support.admission.samples import largest
from tests.support.processes.apiserver import ApiServer

Json = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "before.example.com"
"""Definitions of another group: those of ours are shared by all tests."""
MERGE = "application/merge-patch+json"


def definition(kind: Kind, *, lax: bool) -> Json:
    """A kind's definition in that group; lax: nothing is required, and no rule holds."""
    found = copy.deepcopy(crd(kind))
    found["metadata"] = {"name": f"{PLURALS[kind]}.{GROUP}"}
    found["spec"]["group"] = GROUP
    found["spec"]["names"].pop("categories", None)
    if lax:
        _relax(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    return found


def _relax(schema: Json, keys: Sequence[str] = ()) -> None:
    """Nothing is required but the keys of a list's entries, without which no list can have them."""
    for word in ("required", "x-kubernetes-validations"):
        schema.pop(word, None)
    if keys:
        schema["required"] = list(keys)
    for each in schema.get("properties", {}).values():
        _relax(each)
    if isinstance(schema.get("items"), dict):
        _relax(schema["items"], schema.get("x-kubernetes-list-map-keys", ()))
    if isinstance(schema.get("additionalProperties"), dict):
        _relax(schema["additionalProperties"])


def lacking(value: Any, schema: Json, keys: Sequence[str] = ()) -> Any:
    """A specification without everything that is required of it but the keys of entries."""
    if isinstance(value, dict) and "properties" in schema:
        gone = set(schema.get("required", ())) - set(keys)
        return {n: lacking(v, schema["properties"][n]) for n, v in value.items() if n not in gone}
    if isinstance(value, list):
        return [lacking(each, schema.get("items", {}), schema.get("x-kubernetes-list-map-keys", ())) for each in value]
    return value


@pytest.mark.parametrize("kind", Kind)
def test_the_finalizer_of_what_lacks_a_field_can_be_taken_off(apiserver: ApiServer, namespace: str, kind: Kind) -> None:
    lax, strict = definition(kind, lax=True), definition(kind, lax=False)
    name, plural = lax["metadata"]["name"], PLURALS[kind]
    assert apiserver.request("POST", DEFINITIONS, lax).code == 201
    place = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/{plural}"
    apiserver.eventually_code(200, "GET", place)
    schema = strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    stored = []
    for number, sample in enumerate(largest(kind)):
        obj = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": kind.value,
            "metadata": {"name": f"o-{number}", "finalizers": ["example.com/kept"]},
            "spec": lacking(sample.spec, schema, schema.get("required", ())),
        }
        answer = apiserver.request("POST", place, obj)
        assert answer.code == 201, answer.message
        stored.append(obj)
    live = apiserver.request("GET", f"{DEFINITIONS}/{name}").body
    live["spec"]["versions"] = strict["spec"]["versions"]
    assert apiserver.request("PUT", f"{DEFINITIONS}/{name}", live).code == 200
    # The new schema is served once it refuses such an object.
    again = {**stored[0], "metadata": {"name": "again"}}

    def refused() -> bool:
        return apiserver.request("POST", place, again, query={"dryRun": "All"}).code == 422

    eventually(refused, what="the new schema is served", within=30, every=LOCAL)
    for obj in stored:
        patch = {"metadata": {"finalizers": None}}
        answer = apiserver.request("PATCH", f"{place}/{obj['metadata']['name']}", patch, content_type=MERGE)
        assert answer.code == 200, answer.message
