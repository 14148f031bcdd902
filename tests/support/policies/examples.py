"""Specifications made of the examples of the policy table."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.domain.policies import PolicyRow
from tests.support.policies.values import values_of

PLACEHOLDERS = {
    "group": "g1",
    "other_group": "g2",
    "own": "own",
    "cluster": "a",
    "other": "b",
    "shadow": "persistent://t/n/s1",
    "other_shadow": "persistent://t/n/s2",
}
EXCEPT = (
    "replicationClusters",
    "allowedClusters",
    "policies.retention",
    "policies.messageTTL",
    "policies.backlogQuotas",
)
"""Fields left out: clusters are placeholders, and Pulsar compares the others with each other."""


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Values by path below spec as a specification."""
    spec: dict[str, Any] = {}
    for path, value in values.items():
        *outer, last = path.split(".")
        place = spec
        for step in outer:
            place = place.setdefault(step, {})
        place[last] = written(value)
    return spec


def written(value: Any) -> Any:
    """An example of the table as it is in a manifest."""
    if isinstance(value, BaseModel):
        return wire(value)
    if isinstance(value, list):
        return [written(item) for item in value]
    return value.format(**PLACEHOLDERS) if isinstance(value, str) else value


def examples(rows: tuple[PolicyRow, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the rows, each with one of its examples; those an installation may refuse are left out."""
    usable = [row for row in rows if row.refused_without is None and not row.path.startswith(EXCEPT)]
    optional = {row.path: st.sampled_from(values_of(row)) for row in usable}
    return st.fixed_dictionaries({}, optional=optional).map(lambda v: nested(v).get("policies", {}))


def topic_spec(policies: dict[str, Any], **more: Any) -> PulsarTopicSpec:
    """A topic with these policies."""
    return PulsarTopicSpec.model_validate({"namespaceRef": {"name": "n"}, "policies": policies, **more})
