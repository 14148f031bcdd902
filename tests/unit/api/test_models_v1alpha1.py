"""The models themselves: what parses, what does not, and that samples cover every field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from pulsar_operator.api.constants import PLURALS, SHORT_NAMES, Kind
from pulsar_operator.api.v1alpha1 import MODELS, wire
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.api.v1alpha1.topic_set import TopicCount
from pulsar_operator.crdschema import structural
from tests.support.admission.samples import Json, largest, largest_status, minimal


def paths(schema: Json, prefix: str = "") -> set[str]:
    """Paths of all fields of a structural schema."""
    found: set[str] = set()
    for name, child in schema.get("properties", {}).items():
        found.add(f"{prefix}.{name}")
        found |= paths(child, f"{prefix}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            found |= paths(schema[keyword], prefix)
    return found


def used(value: Any, schema: Json, prefix: str = "") -> set[str]:
    """Paths of the fields of the schema that the value sets."""
    found: set[str] = set()
    if isinstance(value, list):
        return found.union(*(used(item, schema.get("items", {}), prefix) for item in value))
    if isinstance(value, dict):
        if "additionalProperties" in schema:
            return found.union(*(used(item, schema["additionalProperties"], prefix) for item in value.values()))
        for name, member in value.items():
            if name in schema.get("properties", {}):
                found.add(f"{prefix}.{name}")
                found |= used(member, schema["properties"][name], f"{prefix}.{name}")
    return found


@pytest.mark.parametrize("kind", Kind)
def test_largest_samples_together_set_every_field(kind: Kind) -> None:
    schema = structural(MODELS[kind].spec)
    covered: set[str] = set()
    for sample in largest(kind):
        covered |= used(sample.spec, schema)
    assert paths(schema) - covered == set()
    status = structural(MODELS[kind].status, defaults=False)
    assert paths(status) - used(largest_status(kind), status) == set()


@pytest.mark.parametrize("kind", Kind)
def test_models_and_wire_form_agree(kind: Kind) -> None:
    for sample in largest(kind):
        assert wire(MODELS[kind].spec.model_validate(sample.spec)) == sample.spec
    assert wire(MODELS[kind].status.model_validate(largest_status(kind))) == largest_status(kind)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_complete(kind: Kind) -> None:
    assert MODELS[kind].spec.__doc__
    assert kind in PLURALS
    assert kind in SHORT_NAMES


def test_unknown_fields_are_ignored_when_reading() -> None:
    """An object written by a newer operator stays readable; the API server refuses or prunes unknown fields."""
    tenant = MODELS[Kind.TENANT].spec.model_validate(minimal(Kind.TENANT) | {"fromTheFuture": 1})
    assert "fromTheFuture" not in wire(tenant)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a b", "a\n", "é", "", "t" * 129, "a%2f"])
@pytest.mark.parametrize("kind", [Kind.TENANT, Kind.NAMESPACE])
def test_names_pulsar_forbids_do_not_parse(kind: Kind, name: str) -> None:
    with pytest.raises(ValidationError):
        MODELS[kind].spec.model_validate(minimal(kind) | {"name": name})


@pytest.mark.parametrize("name", ["..", ".", "a/b", "", " ", "a ", "a. ", "a\nb", "a\x00"])
def test_topic_names_pulsar_forbids_do_not_parse(name: str) -> None:
    with pytest.raises(ValidationError):
        MODELS[Kind.TOPIC].spec.model_validate(minimal(Kind.TOPIC) | {"name": name})


def parses(spec: type[BaseModel], **fields: Any) -> bool:
    try:
        spec.model_validate(fields)
    except ValidationError:
        return False
    return True


@given(st.text(st.sampled_from("a. /\n\x7f\u00a0é-"), min_size=1, max_size=6))
@example("a ")
def test_a_prefix_is_what_a_number_makes_a_topic_name(prefix: str) -> None:
    named = parses(PulsarTopicSpec, namespaceRef={"name": "n"}, name=f"{prefix}0")
    assert parses(TopicCount, prefix=prefix, number=1) is named


@pytest.mark.parametrize("key", ["..", ".", "", "a\nb", "a\n", "a\x00", "\x7f", "k" * 257])
def test_property_keys_that_could_not_be_removed_do_not_parse(key: str) -> None:
    spec = {"namespaceRef": {"name": "n"}, "name": "t", "properties": {"ok": "", key: "x"}}
    with pytest.raises(ValidationError, match="a key of properties must have 1 to 256 characters without cont"):
        MODELS[Kind.TOPIC].spec.model_validate(spec)


def test_models_are_frozen() -> None:
    topic: BaseModel = MODELS[Kind.TOPIC].spec.model_validate(minimal(Kind.TOPIC))
    with pytest.raises(ValidationError):
        topic.partitions = 3  # type: ignore[attr-defined]
