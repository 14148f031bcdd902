"""A manifest is checked before it is written, by every rule an API server would apply."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.domain.export.rules import CHECKS, check_of, problem_of, rules_of
from tests.support.admission.policies import POLICY_CREATES
from tests.support.admission.rules import CREATES, Create, spec_of

KINDS = (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC)
ELSEWHERE = ("unknown field", "Unsupported value: null")
"""Refusals that cannot happen to what is made from the models."""


def structs(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every struct a type consists of."""
    if get_origin(annotation) in (Union, types.UnionType, list, dict, Annotated):
        for inner in get_args(annotation):
            yield from structs(inner)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for info in annotation.model_fields.values():
            yield from structs(info.annotation)


MESSAGES = sorted({m for kind in KINDS for struct in structs(MODELS[kind].spec) for m in rules_of(struct)})


def test_every_rule_of_the_definitions_has_its_counterpart() -> None:
    assert len(MESSAGES) >= 10
    assert [message for message in MESSAGES if check_of(message) is None] == []
    assert [start for start in CHECKS if not any(message.startswith(start) for message in MESSAGES)] == []


def cases() -> list[Any]:
    """The cases that a real API server is asked about, as far as they are about the specification."""
    found = [
        case
        for case in (*CREATES, *POLICY_CREATES)
        if case.kind in KINDS
        and case.name == "sample"
        and not any(words in (case.refused or "") for words in ELSEWHERE)
    ]
    return [pytest.param(case, id=f"{case.kind.value}-{case.id}") for case in found]


@pytest.mark.parametrize("case", cases())
def test_the_same_is_refused_as_by_an_api_server(case: Create) -> None:
    problem = problem_of(MODELS[case.kind].spec, spec_of(case.kind, case.patch))
    assert (problem is None) == (case.refused is None), problem
