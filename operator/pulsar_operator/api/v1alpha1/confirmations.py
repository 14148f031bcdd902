"""Confirmations that data may be lost: answers to one question each, not settings. See domain/consent.py."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, ClusterName, validations


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


RFC3339 = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
_Time = Annotated[
    str,
    Field(max_length=64, pattern=RFC3339, json_schema_extra={"format": "date-time"}),
    AfterValidator(_moment),
]


class ConfirmationAction(StrEnum):
    """Operation that is confirmed."""

    REMOVE_CLUSTER = "RemoveCluster"
    ABANDON_BACKLOG = "AbandonBacklog"


class Confirmation(ApiModel):
    """A one-time confirmation that data may be lost."""

    action: ConfirmationAction
    """Operation that is confirmed. RemoveCluster deletes all topics, subscriptions and messages of the namespace in a
    cluster that is removed from spec.allowedClusters. AbandonBacklog drops what was not replicated yet between a
    cluster that is removed from spec.replicationClusters and the others."""
    cluster: ClusterName
    """Name in Pulsar of the cluster that the operation concerns."""
    expires_time: _Time
    """Time at which the confirmation expires, whether it was used or not, such as 2026-12-01T18:00:00Z."""


class UsedConfirmation(Confirmation):
    """A confirmation that no longer applies."""

    used_time: _Time
    """Time at which the operator observed that the cluster had been removed from the list, or is declared to stay."""


MAX_CONFIRMATIONS = 64
"""Of a namespace, in its specification and in its status."""

Confirmations = Annotated[
    list[Confirmation],
    Field(
        max_length=MAX_CONFIRMATIONS,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["action", "cluster"]},
    ),
]
UsedConfirmations = Annotated[
    list[UsedConfirmation],
    Field(
        max_length=MAX_CONFIRMATIONS,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["action", "cluster", "expiresTime"],
        },
    ),
]


class ClusterConfirmationAction(StrEnum):
    """Operation on a cluster that is confirmed."""

    ROLL_UNDER_REPLICATED = "RollUnderReplicated"
    ADOPT_METADATA = "AdoptMetadata"
    LOSE_LEDGERS = "LoseLedgers"


class ClusterConfirmation(ApiModel):
    """A confirmation of one operation that may lose data."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.action == 'LoseLedgers' ? has(self.bookie) : !has(self.bookie)",
                "bookie must be set with action LoseLedgers and with no other action. Set it to the ordinal of "
                "the bookie whose ledgers are given up",
            ),
            (
                "self.action != 'AdoptMetadata' || has(self.answers)",
                "answers must be set with action AdoptMetadata. Set it to the instance id of the metadata store "
                "that condition MetadataReady reports",
            ),
        )
    )

    action: ClusterConfirmationAction
    """Operation that is confirmed. RollUnderReplicated restarts bookies although ledgers lack copies, or their copies
    are not counted. LoseLedgers gives up ledgers that only the lost volume of a bookie had. AdoptMetadata lets the
    cluster use a metadata store that another tool initialized."""
    bookie: Annotated[int, Field(ge=0, le=511)] | None = None
    """Ordinal of the bookie whose ledgers are given up. Required with action LoseLedgers, and must not be set
    otherwise."""
    answers: Annotated[str, Field(min_length=1, max_length=192, pattern=r"^[!-~]+$")] | None = None
    """What is confirmed, as printed by the condition that asks for the confirmation. Required with action
    AdoptMetadata. If unset, the confirmation has no effect."""
    expires_time: _Time
    """Time at which the confirmation expires, whether it was used or not, such as 2026-12-01T18:00:00Z."""


class UsedClusterConfirmation(ClusterConfirmation):
    """A confirmation that was used."""

    used_time: _Time
    """Time at which the confirmation was first used."""


ClusterConfirmations = Annotated[
    list[ClusterConfirmation],
    Field(
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["action"]},
    ),
]
UsedClusterConfirmations = Annotated[
    list[UsedClusterConfirmation],
    Field(
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["action", "expiresTime"]},
    ),
]
