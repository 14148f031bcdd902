"""Fields the logical kinds (tenant, namespace, topic) share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel, CommonStatus, DeletionPolicy, DriftPolicy


class LogicalSpec(ApiModel):
    """Deletion policy and drift policy of an object."""

    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """What happens in Pulsar when this object is deleted. Retain keeps everything. Delete deletes the object in Pulsar
    once it is empty, and a condition shows what blocks the deletion. ForceDelete deletes the object in Pulsar with its
    content."""
    drift_policy: DriftPolicy = DriftPolicy.REPAIR
    """What happens when another writer changes a declared value in Pulsar. Repair restores the value. Report keeps the
    change and reports it in condition Drifted and in status.drift."""


class DriftEntry(ApiModel):
    """A field whose value in Pulsar differs from the declared value."""

    field: str
    """Path of the field in spec."""
    desired: str
    """Declared value."""
    actual: str
    """Value read from Pulsar."""


Drift = Annotated[
    list[DriftEntry],
    Field(
        max_length=200,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["field"]},
    ),
]


class RepairRecord(ApiModel):
    """A field whose drift was repaired recently."""

    field: str
    """Path of the field in spec. An entry of a list counts as its list."""
    times: Annotated[int, Field(ge=1)]
    """Number of repairs since the field was last unchanged for an hour. After two repairs, the next ones wait 5
    minutes, 15 minutes and 1 hour."""
    last_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time of the last repair."""
    backed_off_since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which a repair was first delayed. Unset if no repair was delayed."""


Repairs = Annotated[
    list[RepairRecord],
    Field(
        max_length=200,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["field"]},
    ),
]


FieldNames = Annotated[list[str], Field(max_length=1000, json_schema_extra={"x-kubernetes-list-type": "set"})]


class ManagedStatus(CommonStatus):
    """Status fields of objects that manage fields in Pulsar."""

    pulsar_name: str | None = None
    """Full name in Pulsar."""
    managed_fields: FieldNames = Field(default_factory=list)
    """Fields that this object has set in Pulsar. A field that is removed from the spec is reset in Pulsar only if it is
    in this list. The list is extended before the field is first written."""
    applied_generation: int | None = None
    """Value of metadata.generation that was last applied completely. A later difference is drift. Unset until a
    generation is applied completely, and while an object that disappeared from Pulsar is re-created."""
    owner_recorded: bool | None = None
    """Whether a record next to the object in Pulsar names this object as its manager. The record decides between two
    objects that declare the same, also after a restore from a backup. Unset until the record was observed."""
    refused_fields: FieldNames = Field(default_factory=list)
    """Declared fields that Pulsar refused, or that wait for another change. A field that is not in managedFields was
    never set by this object."""
    drift: Drift = Field(default_factory=list)
    """Fields whose value in Pulsar differs from the declared value."""


class LogicalStatus(ManagedStatus):
    """Status fields of the logical kinds."""

    repairs: Repairs = Field(default_factory=list)
    """Fields whose drift was repaired within the last hour, or keeps coming back."""
    dependents: int | None = None
    """Number of objects that refer to this object."""
