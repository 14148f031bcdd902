"""Fields the logical kinds (tenant, namespace, topic) share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel, CommonStatus, DeletionPolicy, DriftPolicy


class LogicalSpec(ApiModel):
    """Policies of the object itself."""

    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """What happens in Pulsar when this object is deleted: Retain leaves everything, Delete removes it when it is empty
    and names what blocks it otherwise, ForceDelete removes it with its content."""
    drift_policy: DriftPolicy = DriftPolicy.REPAIR
    """What happens when a declared value was changed in Pulsar by another writer: Repair sets it back, Report leaves it
    and says so in condition Drifted and in status.drift."""


class DriftEntry(ApiModel):
    """One field whose value in Pulsar is not the declared one."""

    field: str
    """Path in spec."""
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
    """A field that drifted lately and was repaired."""

    field: str
    """Path in spec; an entry of a list counts as its list."""
    times: Annotated[int, Field(ge=1)]
    """Repairs since it last stayed right for an hour. After two, the next ones wait 5 minutes, 15 minutes, 1 hour."""
    last_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When it was last repaired."""
    backed_off_since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When a repair of it had to wait for the first time; absent = none had to."""


Repairs = Annotated[
    list[RepairRecord],
    Field(
        max_length=200,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["field"]},
    ),
]


FieldNames = Annotated[list[str], Field(max_length=1000, json_schema_extra={"x-kubernetes-list-type": "set"})]


class ManagedStatus(CommonStatus):
    """Status fields of everything that manages fields in Pulsar."""

    pulsar_name: str | None = None
    """Full name inside Pulsar."""
    managed_fields: FieldNames = Field(default_factory=list)
    """Fields this object has set in Pulsar; written before the first write that extends it. A field that leaves the
    spec is reset in Pulsar only when it is in this list."""
    applied_generation: int | None = None
    """metadata.generation that was last given to Pulsar completely: a difference found later is drift. Absent until
    then, and while something that had vanished from Pulsar is made again."""
    owner_recorded: bool | None = None
    """Whether a record beside the object in Pulsar names this object as the one that manages it. It decides between
    two objects that declare the same, also after a restore from a backup. Unset until the record was seen."""
    refused_fields: FieldNames = Field(default_factory=list)
    """Declared fields Pulsar refused, and those that wait for another to be changed first; one that is not in
    managedFields was never set by this object."""
    drift: Drift = Field(default_factory=list)
    """Fields whose value in Pulsar is not the declared one."""


class LogicalStatus(ManagedStatus):
    """Status fields the logical kinds share."""

    repairs: Repairs = Field(default_factory=list)
    """Fields that drifted and were repaired within the last hour, or whose drift keeps coming back. Empty otherwise."""
    dependents: int | None = None
    """Objects that refer to this one."""
