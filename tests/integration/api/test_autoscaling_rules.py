"""The rules of autoscaling against a real API server, by a definition of their own: of each struct alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsar_operator.api.v1alpha1.autoscaling import BOOKKEEPER_RULES, BROKER_RULES, PROXY_RULES
from pulsar_operator.crdschema import structural
from tests.support.admission.autoscaling import CASES, OWNERS, Case
from tests.support.processes.apiserver import ApiServer

GROUP, KIND, PLURAL = "samples.pulsaroperator.io", "ScalingSample", "scalingsamples"
COLLECTION = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
RULES = {"broker": BROKER_RULES, "proxy": PROXY_RULES, "bookkeeper": BOOKKEEPER_RULES}
STRICT = {"fieldValidation": "Strict"}
Json = dict[str, Any]


def _definition() -> Json:
    parts = {owner: structural(model) for owner, model in OWNERS.items()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": parts}},
                        }
                    },
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def samples(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> ApiServer:
    folder: Path = tmp_path_factory.mktemp("samples")
    (folder / "sample.yaml").write_text(yaml.safe_dump(_definition()), encoding="utf-8")
    apiserver.install_crds(folder)
    return apiserver


def _object(name: str, case: Case, part: Json) -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": name}, "spec": {case.owner: part}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.owner}-{case.id}")
def test_rule(samples: ApiServer, case: Case) -> None:
    name = f"{case.owner}-{case.id}".lower()
    document = _object(name, case, case.after)
    if case.before is None:
        answer = samples.request("POST", COLLECTION, document, query=STRICT | {"dryRun": "All"})
    else:
        created = samples.request("POST", COLLECTION, _object(name, case, case.before), query=STRICT)
        assert created.code == 201, created.message
        document["metadata"]["resourceVersion"] = created.body["metadata"]["resourceVersion"]
        answer = samples.request("PUT", f"{COLLECTION}/{name}", document, query=STRICT | {"dryRun": "All"})
    if case.refused is None:
        assert answer.code in (200, 201), answer.message
    else:
        assert answer.code == 422, "accepted, but it must not be"
        assert case.refused in answer.message


@pytest.mark.parametrize("owner", OWNERS)
def test_every_rule_has_a_case_that_breaks_it(owner: str) -> None:
    refused = [case.refused for case in CASES if case.owner == owner and case.refused]
    schema = structural(OWNERS[owner])
    # What else they have is in the cases of their kind.
    mine = [*_messages(schema["properties"]["autoscaling"]), *(message for _, message in RULES[owner])]
    missing = [each for each in mine if not any(part in each for part in refused)]
    # A rule of every quantity of bytes; its own test is that of quantities.
    assert [each for each in missing if "number of bytes" not in each] == []


def _messages(schema: Json) -> list[str]:
    found = [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]
    children = [*schema.get("properties", {}).values()]
    children += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    for child in children:
        found += _messages(child)
    return found
