"""The API server's schema and the models agree on arbitrary values: what is admitted, the operator can read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS, wire
from pulsar_operator.api.v1alpha1.quantities import quantity
from pulsar_operator.crdschema import structural
from tests.support.admission.generated import values
from tests.support.admission.rules import EXTERNAL, EXTERNAL_META, MANAGED, STANDALONE, merged, spec_of
from tests.support.admission.samples import Json, manifest, path
from tests.support.processes.apiserver import ApiServer

SCHEMAS = {kind: structural(MODELS[kind].spec) for kind in Kind}
BASES: dict[Kind, list[Json]] = {
    Kind.INSTANCE: [{}, MANAGED, EXTERNAL],
    Kind.CLUSTER: [{}, {"proxy": {}}, EXTERNAL_META, STANDALONE],
    Kind.NAMESPACE: [{}, {"bundles": {"count": 4}}],
}
"""Patches of the minimal specification, one for each way to choose between members that exclude each other."""
CHOICES = {"configurationStore", "metadataStore", "bundles"}
BY_MODE = {"mode", "bookkeeper", "broker", "proxy", "standalone"}


def _places(schema: Json, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of all members of structs, outer ones first."""
    found = []
    for name, child in schema.get("properties", {}).items():
        found.append((*prefix, name))
        found += _places(child, (*prefix, name))
    return found


def _at(schema: Json, place: tuple[str, ...]) -> Json:
    for step in place:
        schema = schema["properties"][step]
    return schema


def _keeps_the_choice(spec: Json, place: tuple[str, ...]) -> bool:
    first, *rest = place
    if first in CHOICES:
        return bool(rest) and rest[0] in spec.get(first, {})
    return first not in BY_MODE or first in spec


@st.composite
def specifications(draw: st.DrawFn, kind: Kind) -> Json:
    """A valid specification with up to three members replaced by values their own schema allows.

    Few changes at a time: most specifications then pass the rules over several fields, and the rest is still judged.
    """
    spec = spec_of(kind, draw(st.sampled_from(BASES.get(kind, [{}]))))
    places = [place for place in _places(SCHEMAS[kind]) if _keeps_the_choice(spec, place)]
    for place in draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        value = draw(values(_at(SCHEMAS[kind], place)))
        for step in reversed(place):
            value = {step: value}
        spec = merged(spec, value)
    return spec


@pytest.mark.parametrize("kind", Kind)
def test_what_the_server_admits_the_model_reads(apiserver: ApiServer, kind: Kind) -> None:
    admitted = 0

    @settings(
        max_examples=90,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(spec=specifications(kind))
    def check(spec: Json) -> None:
        nonlocal admitted
        answer = apiserver.request(
            "POST",
            path(kind, "default"),
            manifest(kind, "generated", spec),
            query={"dryRun": "All", "fieldValidation": "Strict"},
        )
        event(f"answer {answer.code}")
        if answer.code != 201:
            assert answer.code in (400, 422), answer.message
            return
        admitted += 1
        admitted_spec = answer.body["spec"]
        read = wire(MODELS[kind].spec.model_validate(admitted_spec))
        assert _without_empty(_sizes(read)) == _without_empty(_sizes(admitted_spec))

    check()
    assert admitted >= 20, f"only {admitted} specifications were admitted: the generator says little"


def _sizes(value: Any) -> Any:
    """Quantities by value: 1Ki and 1024 are the same to the operator."""
    if isinstance(value, dict):
        return {key: _sizes(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_sizes(each) for each in value]
    found = quantity(value)
    return value if found is None else found


def _without_empty(value: Json) -> Json:
    """Empty lists and absent ones are the same to the operator."""
    return {
        key: _without_empty(member) if isinstance(member, dict) else member
        for key, member in value.items()
        if member != []
    }
