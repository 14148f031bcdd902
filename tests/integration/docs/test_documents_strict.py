"""Every YAML of the pages and examples through a real API server that refuses what it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, Kind
from tests.support.admission.samples import path
from tests.support.documents import EXAMPLES, PAGES, Shown, example, shown, unread, values_of
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import OPERATOR_CHART, PULSAR_CHART, Helm, helm_binary, of_kind

Json = dict[str, Any]

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
CHARTS = {"pulsar": PULSAR_CHART, "pulsar-operator": OPERATOR_CHART}
POLICIES = "/apis/admissionregistration.k8s.io/v1"


def refusal(apiserver: ApiServer, namespace: str, obj: Json) -> str:
    """What the API server says against creating an object of ours, or a core one; "" = nothing."""
    if obj["apiVersion"] == API_VERSION:
        where = path(Kind(obj["kind"]), namespace)
    else:
        assert obj["apiVersion"] == "v1", f"{obj['apiVersion']} {obj['kind']}: fence it as ```yaml other"
        plural = f"{obj['kind'].lower()}s"
        where = f"/api/v1/{plural}" if obj["kind"] == "Namespace" else f"/api/v1/namespaces/{namespace}/{plural}"
    body = {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "namespace"}}
    answer = apiserver.request("POST", where, body, query=STRICT)
    return "" if answer.code in (201, 409) else answer.message


@pytest.fixture(scope="module")
def place(apiserver: ApiServer) -> str:
    """One namespace for all: nothing is kept in it."""
    return apiserver.new_namespace()


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_binary(), tmp_path_factory.mktemp("helm"))


def everything() -> Iterator[Shown]:
    for page in PAGES:
        yield from shown(page)
    for file in EXAMPLES:
        yield from example(file)


@pytest.mark.parametrize("one", list(everything()), ids=lambda one: f"{one.where}-{one.obj['kind']}")
def test_what_is_shown_is_accepted(apiserver: ApiServer, place: str, one: Shown) -> None:
    assert refusal(apiserver, place, one.obj) == "", one.where


def test_a_field_that_does_not_exist_is_seen(apiserver: ApiServer, place: str) -> None:
    """Of a page, of a fragment and of an example: else the test above would see nothing."""
    found = list(everything())
    for one in (next(s for s in found if s.fragment), next(s for s in found if not s.fragment), found[-1]):
        spec = {**one.obj.get("spec", {}), "noSuchField": 1}
        assert "noSuchField" in refusal(apiserver, place, {**one.obj, "spec": spec}), one.where


@pytest.mark.parametrize("one", [each for page in PAGES for each in values_of(page)], ids=lambda one: one.where)
def test_values_are_taken_by_their_chart(apiserver: ApiServer, place: str, helm: Helm, one: Any) -> None:
    """By its schema, and what of ours it renders by the API server."""
    objects = helm.template(CHARTS[one.chart], one.values)
    for kind in Kind:
        for obj in of_kind(objects, kind.value):
            assert refusal(apiserver, place, obj) == "", one.where


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "/" + page.name)
def test_yaml_of_others_can_be_parsed(page: Path) -> None:
    for where, text in unread(page):
        assert API_VERSION not in text, f"{where} is ours"
