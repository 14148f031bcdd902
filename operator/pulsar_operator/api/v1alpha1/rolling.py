"""When and how a PulsarCluster's pods are replaced: maintenance windows, canaries of an upgrade."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.compaction import CRON

TIME_ZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$"
"""A name of the IANA time zone database (its file theory, "Timezone identifiers"): no offset, no path."""


class MaintenanceWindow(ApiModel):
    """A period in which the operator may begin to replace pods."""

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
    """Time at which the window opens, in timeZone: minute, hour, day of the month, month and day of the week as in
    cron, such as "0 2 * * 6" for every Saturday at two. Only numbers are allowed; 0 and 7 are Sunday. A time that
    clocks skip is moved to the end of the gap, and a time that occurs twice counts once, the first time."""
    minutes: Annotated[int, Field(ge=1, le=10080)]
    """Minutes for which the window stays open."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] = "UTC"
    """Time zone of the schedule, as a name of the IANA database such as Europe/Berlin."""


class Canary(ApiModel):
    """Observation of the first pod before the other pods follow."""

    minutes: Annotated[int, Field(ge=0, le=1440)]
    """Minutes for which the first pod is observed once it is ready. With 0, the other pods follow immediately."""


class Upgrade(ApiModel):
    """Upgrade of the pods of a cluster to another version of Pulsar."""

    canary: Canary | None = None
    """Observation of the first upgraded pod of each component before the other pods follow. If unset, the other pods
    follow immediately."""
