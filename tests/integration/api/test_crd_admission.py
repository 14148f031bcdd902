"""Each admission rule of the definitions against a real API server: what it refuses, with which words, and what not."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.crdgen import crd
from tests.support.admission.autoscaling import SCALING_CREATES, SCALING_UPDATES
from tests.support.admission.instance import INSTANCE_CREATES, INSTANCE_UPDATES
from tests.support.admission.policies import POLICY_CREATES, POLICY_UPDATES
from tests.support.admission.rebalances import REBALANCE_CREATES, REBALANCE_UPDATES
from tests.support.admission.rolling import ROLLING_CREATES
from tests.support.admission.rules import CREATES, PC, Create, Update, spec_of
from tests.support.admission.samples import Json, manifest, minimal, path
from tests.support.admission.topic_sets import TOPIC_SET_CREATES, TOPIC_SET_UPDATES
from tests.support.admission.updates import UPDATES
from tests.support.processes.apiserver import ApiServer, Response

STRICT = {"fieldValidation": "Strict"}
CREATED = (
    *CREATES,
    *POLICY_CREATES,
    *INSTANCE_CREATES,
    *REBALANCE_CREATES,
    *TOPIC_SET_CREATES,
    *ROLLING_CREATES,
    *SCALING_CREATES,
)
UPDATED = (*UPDATES, *POLICY_UPDATES, *INSTANCE_UPDATES, *REBALANCE_UPDATES, *TOPIC_SET_UPDATES, *SCALING_UPDATES)
DRY = STRICT | {"dryRun": "All"}


@pytest.mark.parametrize("case", CREATED, ids=lambda c: f"{c.kind}-{c.id}")
def test_create(apiserver: ApiServer, case: Create) -> None:
    answer = apiserver.request(
        "POST",
        path(case.kind, "default"),
        manifest(case.kind, case.name, spec_of(case.kind, case.patch)),
        query=DRY,
    )
    _judge(answer, case.refused)


@pytest.mark.parametrize("case", UPDATED, ids=lambda c: f"{c.kind}-{c.id}")
def test_update(apiserver: ApiServer, namespace: str, case: Update) -> None:
    created = apiserver.request(
        "POST",
        path(case.kind, namespace),
        manifest(case.kind, "sample", spec_of(case.kind, case.before)),
        query=STRICT,
    )
    assert created.code == 201, created.message
    document = manifest(case.kind, "sample", spec_of(case.kind, case.before, case.after))
    document["metadata"]["resourceVersion"] = created.body["metadata"]["resourceVersion"]
    answer = apiserver.request("PUT", path(case.kind, namespace, "sample"), document, query=DRY)
    _judge(answer, case.refused)


@pytest.mark.parametrize("kind", Kind)
def test_specification_is_required(apiserver: ApiServer, namespace: str, kind: Kind) -> None:
    """Without spec no rule of spec would run, transition rules included."""
    document = manifest(kind, "bare", minimal(kind))
    assert apiserver.request("POST", path(kind, namespace), document).code == 201
    del document["spec"]
    refused = apiserver.request("PUT", path(kind, namespace, "bare"), _current(apiserver, kind, namespace, document))
    assert refused.code == 422
    assert "spec: Required value" in refused.message


@pytest.mark.parametrize("scaled", [False, True])
def test_an_autoscaler_of_kubernetes_drives_brokers_unless_the_operator_does(
    apiserver: ApiServer, namespace: str, scaled: bool
) -> None:
    """An HPA and KEDA write the scale subresource, which the rules of the kind hold for as well."""
    limits = {"autoscaling": {"minReplicas": 2, "maxReplicas": 5}} if scaled else {}
    document = manifest(PC, "sample", spec_of(PC, {"broker": {"replicas": 2} | limits}))
    assert apiserver.request("POST", path(PC, namespace), document).code == 201
    scale = apiserver.request("GET", f"{path(PC, namespace, 'sample')}/scale").body
    scale["spec"]["replicas"] = 4
    answer = apiserver.request("PUT", f"{path(PC, namespace, 'sample')}/scale", scale)
    after = apiserver.request("GET", path(PC, namespace, "sample")).body["spec"]["broker"]["replicas"]
    _judge(answer, "replicas is then only the initial number" if scaled else None)
    assert after == (2 if scaled else 4)


def test_unknown_field_is_pruned_without_strict_validation(apiserver: ApiServer, namespace: str) -> None:
    document = manifest(Kind.TENANT, "loose", minimal(Kind.TENANT) | {"owner": "x"})
    created = apiserver.request("POST", path(Kind.TENANT, namespace), document, query={"fieldValidation": "Ignore"})
    assert created.code == 201
    assert "owner" not in created.body["spec"]


@pytest.mark.parametrize("kind", Kind)
def test_every_rule_has_a_case_that_breaks_it(kind: Kind) -> None:
    refused = [case.refused for case in (*CREATED, *UPDATED) if case.kind is kind and case.refused]
    schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    untested = [message for message in _messages(schema) if not any(fragment in message for fragment in refused)]
    assert untested == []


def _messages(schema: Json) -> list[str]:
    found = [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]
    children = [*schema.get("properties", {}).values()]
    children += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    for child in children:
        found += _messages(child)
    return found


def _current(apiserver: ApiServer, kind: Kind, namespace: str, document: Json) -> Json:
    found = apiserver.request("GET", path(kind, namespace, document["metadata"]["name"])).body
    document["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
    return document


def _judge(answer: Response, refused: str | None) -> None:
    if refused is None:
        assert answer.code in (200, 201), answer.message
    else:
        assert answer.code in (400, 422), "accepted, but it must not be"
        assert refused in answer.message
