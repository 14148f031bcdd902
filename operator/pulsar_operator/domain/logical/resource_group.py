"""The plan of a PulsarResourceGroup: created with its limits, then converged limit by limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.v1alpha1.base import DriftPolicy
from pulsar_operator.api.v1alpha1.resource_group import PulsarResourceGroupSpec
from pulsar_operator.domain.logical.plan import Action, Draft, Memory, Plan, Verb, plan_policies
from pulsar_operator.domain.logical.pulsar_names import resource_group_path
from pulsar_operator.domain.policies import Call, describe, lookup
from pulsar_operator.domain.policies.instance_rows import RESOURCE_GROUP_LIMITS


def plan_resource_group(
    name: str, spec: PulsarResourceGroupSpec, live: Mapping[str, Any] | None, memory: Memory, version: str | None
) -> Plan:
    """Returns the plan that makes the group match the spec. ``live`` is the answer of ``GET
    /resourcegroups/{name}``."""
    draft = Draft()
    desired = {row.field: lookup(spec, row.field) for row in RESOURCE_GROUP_LIMITS}
    if live is None:
        declared = {field: value for field, value in desired.items() if value is not None}
        draft.declared |= set(declared)
        body: dict[str, Any] = {}
        for row in RESOURCE_GROUP_LIMITS:
            if row.field in declared:
                body |= row.encode(declared[row.field])
        draft.actions.append(
            Action(
                Verb.CREATE,
                "",
                Call("PUT", resource_group_path(name), body=body),
                f"Create resource group {name} with {describe(declared) if declared else 'no limits'}, because "
                "Pulsar has no resource group of that name",
            )
        )
        return draft.done()
    plan_policies(
        draft,
        RESOURCE_GROUP_LIMITS,
        desired,
        {row.field: {None: row.read(live)} for row in RESOURCE_GROUP_LIMITS},
        base=resource_group_path(name),
        memory=memory,
        repair=spec.drift_policy is DriftPolicy.REPAIR,
        version=version,
    )
    return draft.done()
