"""PulsarResourceGroup: limits that the namespaces of a group share."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, ObjectReference, PulsarName, immutable, validations
from pulsar_operator.api.v1alpha1.logical import LogicalSpec, LogicalStatus
from pulsar_operator.api.v1alpha1.policies.values import INT32_MAX


class GroupRate(ApiModel):
    """How fast messages go, all topics of the group's namespaces on all brokers of a cluster together."""

    messages_per_second: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Messages; absent = not managed, and no limit in a group that this object creates."""
    bytes_per_second: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] | None = None
    """Bytes; absent = not managed, and no limit in a group that this object creates."""


class GroupLimits(ApiModel):
    """All that Pulsar 4.0 keeps of a resource group (class ResourceGroup)."""

    publish_rate: GroupRate | None = None
    """How fast messages come in."""
    dispatch_rate: GroupRate | None = None
    """How fast messages go out."""


class PulsarResourceGroupSpec(LogicalSpec):
    """A resource group. A namespace joins it with spec.policies.resourceGroup."""

    model_config = ConfigDict(json_schema_extra=validations(immutable("name"), immutable("instanceRef")))

    instance_ref: ObjectReference
    """The PulsarInstance the group lives in; all its clusters share it."""
    name: PulsarName | None = None
    """Name inside Pulsar; absent = metadata.name."""
    limits: GroupLimits = Field(default=GroupLimits())
    """Limits; only fields that are set are managed."""


class PulsarResourceGroupStatus(LogicalStatus):
    """Observed state of a PulsarResourceGroup."""
