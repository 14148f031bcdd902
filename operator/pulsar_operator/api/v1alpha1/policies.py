"""Namespace and topic policies, as typed fields. Each has one row in domain/policies (the policy table)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations


class BacklogPolicy(StrEnum):
    """What a broker does when a backlog quota is exceeded (Pulsar docs, "Backlog quotas")."""

    PRODUCER_REQUEST_HOLD = "ProducerRequestHold"
    PRODUCER_EXCEPTION = "ProducerException"
    CONSUMER_BACKLOG_EVICTION = "ConsumerBacklogEviction"


class Retention(ApiModel):
    """How long acknowledged messages are kept. Both limits apply; -1 = no limit, both 0 = nothing is kept."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "(self.timeMinutes == 0) == (self.sizeMegabytes == 0)",
                "retention.timeMinutes and retention.sizeMegabytes must both be 0 or both be non-zero (-1 = no limit): "
                "with one of them 0 Pulsar keeps nothing",
            ),
        )
    )

    time_minutes: Annotated[int, Field(ge=-1, le=2147483647)]
    """Minutes; -1 = no limit."""
    size_megabytes: Annotated[int, Field(ge=-1, le=2147483647)]
    """Megabytes; -1 = no limit."""


class StorageBacklogQuota(ApiModel):
    """Quota on the size of the backlog (destination_storage)."""

    limit_bytes: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """Bytes."""
    policy: BacklogPolicy
    """What happens when the limit is exceeded."""


class AgeBacklogQuota(ApiModel):
    """Quota on the age of the oldest unacknowledged message (message_age)."""

    limit_seconds: Annotated[int, Field(ge=1, le=2147483647)]
    """Seconds."""
    policy: BacklogPolicy
    """What happens when the limit is exceeded."""


class BacklogQuotas(ApiModel):
    """Backlog quotas by type."""

    destination_storage: StorageBacklogQuota | None = None
    """Quota on size."""
    message_age: AgeBacklogQuota | None = None
    """Quota on age."""


class NamespacePolicies(ApiModel):
    """Policies of a namespace. A field that is set is managed; a field that is removed is reset to inherit."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "!has(self.retention) || self.retention.sizeMegabytes <= 0 || !has(self.backlogQuotas) || "
                "!has(self.backlogQuotas.destinationStorage) || "
                "self.backlogQuotas.destinationStorage.limitBytes < self.retention.sizeMegabytes * 1048576",
                "retention.sizeMegabytes must be larger than backlogQuotas.destinationStorage.limitBytes: "
                "Pulsar refuses a quota that retention would cut first",
            ),
        )
    )

    retention: Retention | None = None
    """How long acknowledged messages are kept."""
    message_ttl_seconds: Annotated[int, Field(ge=0, le=2147483647)] | None = Field(
        default=None, alias="messageTTLSeconds"
    )
    """Unacknowledged messages older than this are acknowledged by the broker; 0 = never."""
    backlog_quotas: BacklogQuotas | None = None
    """Limits of unacknowledged data."""
