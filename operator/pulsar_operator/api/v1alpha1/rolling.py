"""When and how a PulsarCluster's pods are replaced: maintenance windows, canaries of an upgrade."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.compaction import CRON

TIME_ZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$"
"""A name of the IANA time zone database (its file theory, "Timezone identifiers"): no offset, no path."""


class MaintenanceWindow(ApiModel):
    """A time in which the operator may begin to replace pods."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                # getHours ends with an error for a zone that the API server does not know. It knows those that
                # spec.timeZone of CronJobs takes (ValidateCronJobSpec in Kubernetes); Local would be its own one.
                "!has(self.timeZone) || (self.timeZone != 'Local' && "
                "timestamp('2026-01-01T00:00:00Z').getHours(self.timeZone) >= 0)",
                "timeZone must be a name of the IANA time zone database, such as Europe/Berlin or UTC",
            ),
        )
    )

    schedule: Annotated[str, Field(max_length=100, pattern=CRON)]
    """When it opens: minute, hour, day of the month, month and day of the week as in cron, in timeZone: "0 2 * * 6" is
    every Saturday at two. Numbers only; 0 and 7 are Sunday. Where clocks skip that time it opens right after the gap;
    a time that comes twice counts the first time."""
    minutes: Annotated[int, Field(ge=1, le=10080)]
    """How long it stays open, in minutes."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] = "UTC"
    """Time zone of the schedule, a name of the IANA database such as Europe/Berlin."""


class Canary(ApiModel):
    """A first pod that is watched before the others follow."""

    minutes: Annotated[int, Field(ge=0, le=1440)]
    """How long the first pod is watched once it is ready, in minutes; 0 = the others follow at once."""


class Upgrade(ApiModel):
    """How the pods of a cluster are changed to another version."""

    canary: Canary | None = None
    """One pod of each component is replaced first and watched for a while; absent = the others follow at once."""
