"""Descriptions of fields, as `kubectl explain` shows them: sentences that say the default and what unset means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.presentation import AGE, MESSAGE, PRESENTATION, READY
from pulsar_operator.crdgen import crd
from pulsar_operator.crdschema import default_sentence
from tests.support.documents import ROOT
from tests.support.scripts import script

Json = dict[str, Any]
UNSET = re.compile(r"\b(?:If (?:it is )?(?:unset|empty|removed)\b|Defaults to |Required (?:with|in|if|unless) )")
"""What says the meaning of an optional field that is not set."""
START = re.compile(r"[A-Z]|99th |[a-z]+[A-Z(]")
FINITE = re.compile(
    r"\b(?:is|are|has|have|can|cannot|may|must|do|does|appl(?:y|ies)|assumes?|becomes?|belongs?|chooses|combines|concerns|"
    r"contains|counts|creates|decides|deploys|determines|exists|expires|follows?|happens|keeps|limits|maintains|match(?:es)?|"
    r"means|mounts?|names?|needs|provides|reads|refer|replicates?|runs|serves?|sets|starts?|stays?|stores?|uses?|writes)\b|"
    r"Defaults to|[Rr]equired "
)
"""Finite verbs of descriptions. A description without one names a thing and says nothing of it."""


class Described(NamedTuple):
    """A field of a definition."""

    path: str
    schema: Json
    required: bool
    one_of: bool = False
    """Whether a rule of its struct wants exactly one of several fields: without this one another is set."""

    @property
    def text(self) -> str:
        """Its description."""
        return str(self.schema["description"])


def below(schema: Json, path: str) -> Iterator[Described]:
    """Every field below a node."""
    one_of = _exactly_one(schema)
    for name, child in schema.get("properties", {}).items():
        yield Described(f"{path}.{name}", child, name in schema.get("required", ()), name in one_of)
        inner, inner_path = child, f"{path}.{name}"
        while "items" in inner or isinstance(inner.get("additionalProperties"), dict):
            inner_path += "[]" if "items" in inner else ".*"
            inner = inner.get("items") or inner["additionalProperties"]
        yield from below(inner, inner_path)


def _exactly_one(schema: Json) -> set[str]:
    """Fields of which a rule wants exactly one: a list or a sum of has() that is 1, or two has() that differ."""
    found = set[str]()
    for rule in (each["rule"] for each in schema.get("x-kubernetes-validations", ())):
        counted = "oldSelf" not in rule and re.search(r"size\(\) == 1$|== 1$", rule)
        if counted or re.fullmatch(r"has\(self\.\w+\) != has\(self\.\w+\)", rule):
            found |= set(re.findall(r"has\(self\.(\w+)\)", rule))
    return found


@cache
def fields(kind: Kind, part: str) -> tuple[Described, ...]:
    """Every field of the spec or the status of a kind."""
    (version,) = crd(kind)["spec"]["versions"]
    return tuple(below(version["schema"]["openAPIV3Schema"]["properties"][part], part))


@cache
def words() -> Any:
    """scripts/words.toml."""
    return script("check_words").Words.read(ROOT / "scripts" / "words.toml")


def faults(field: Described) -> list[str]:
    """What is wrong with the description of a field of a spec."""
    default = default_sentence(field.schema.get("default"), field.schema)
    found = faults_of_any(field)
    if default and not field.text.endswith(default):
        found.append("does not end with its default")
    if not field.required and not field.one_of and not UNSET.search(field.text):
        found.append("does not say what unset means")
    if not FINITE.search(field.text):
        found.append("has no finite verb")
    return found


def faults_of_any(field: Described) -> list[str]:
    """What is wrong with the description of a field of a spec or a status."""
    found = [f"has {hit.match!r}" for hit in words().search("sentence", field.path, 0, field.text)]
    if not START.match(field.text) or not field.text.endswith("."):
        found.append("is no sentence")
    return found


@pytest.mark.parametrize("kind", Kind)
def test_descriptions_of_the_spec(kind: Kind) -> None:
    """What a field does, then its default, then what unset means, in sentences."""
    assert [f"{each.path}: {fault}" for each in fields(kind, "spec") for fault in faults(each)] == []


@pytest.mark.parametrize("kind", Kind)
def test_descriptions_of_the_status(kind: Kind) -> None:
    assert [f"{each.path}: {fault}" for each in fields(kind, "status") for fault in faults_of_any(each)] == []


@pytest.mark.parametrize("kind", Kind)
def test_columns_are_described(kind: Kind) -> None:
    columns = [*READY, *PRESENTATION[kind].columns, MESSAGE]
    assert [each.name for each in columns if not re.fullmatch(r"[A-Z].*\.", each.description)] == []
    assert AGE.description == "", "kubectl shows the age of every object"


@pytest.mark.parametrize(
    ("description", "schema", "fault"),
    [
        pytest.param("StorageClass; absent = the cluster's default.", {}, "has 'absent = '", id="absent"),
        pytest.param("So many failures in a row count.", {}, "has 'in a row'", id="word"),
        pytest.param("Whether pods start without it.", {}, "does not say what unset means", id="unset"),
        pytest.param(
            "Seconds after which it is stopped.", {"default": 30}, "does not end with its default", id="default"
        ),
        pytest.param("Pod settings.", {}, "has no finite verb", id="fragment"),
        pytest.param("why it is ready. If unset, it is not", {}, "is no sentence", id="no-sentence"),
    ],
)
def test_each_fault_is_found(description: str, schema: Json, fault: str) -> None:
    field = Described("spec.x", {**schema, "description": description}, required=False)
    assert fault in faults(field)


def test_a_field_of_which_one_is_required_need_not_say_what_unset_means() -> None:
    one = {"description": "Key of a Secret that has the value."}
    rule = "[has(self.a), has(self.b)].filter(x, x).size() == 1"
    struct = {"properties": {"a": one, "b": one, "c": one}, "x-kubernetes-validations": [{"rule": rule}]}
    assert [faults(each) for each in below(struct, "spec")] == [[], [], ["does not say what unset means"]]
