"""PulsarResourceGroup: limits that the namespaces of a group share."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, ObjectReference, PulsarName, immutable, validations
from pulsar_operator.api.v1alpha1.logical import LogicalSpec, LogicalStatus
from pulsar_operator.api.v1alpha1.policies.values import INT32_MAX


class GroupRate(ApiModel):
    """A rate of all topics of the namespaces in the group, over all brokers of a cluster."""

    messages_per_second: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of messages per second. If unset, the limit is not managed, and a group that this object creates
    has no limit."""
    bytes_per_second: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] | None = None
    """Maximum number of bytes per second. If unset, the limit is not managed, and a group that this object creates has
    no limit."""


class GroupLimits(ApiModel):
    """Limits of a resource group (class ResourceGroup of Pulsar 4.0)."""

    publish_rate: GroupRate | None = None
    """Maximum rate at which messages are published. If unset, the rate is not managed, and a group that this object
    creates has no limit."""
    dispatch_rate: GroupRate | None = None
    """Maximum rate at which messages are delivered. If unset, the rate is not managed, and a group that this object
    creates has no limit."""


class PulsarResourceGroupSpec(LogicalSpec):
    """A resource group. A namespace joins it with spec.policies.resourceGroup."""

    model_config = ConfigDict(json_schema_extra=validations(immutable("name"), immutable("instanceRef")))

    instance_ref: ObjectReference
    """PulsarInstance that the resource group belongs to. All its clusters share the group."""
    name: PulsarName | None = None
    """Name of the resource group in Pulsar. If unset, metadata.name is used."""
    limits: GroupLimits = Field(default=GroupLimits())
    """Limits that the namespaces of the group share. Only fields that are set are managed."""


class PulsarResourceGroupStatus(LogicalStatus):
    """Observed state of a PulsarResourceGroup."""
