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
    """What is confirmed."""

    REMOVE_CLUSTER = "RemoveCluster"
    ABANDON_BACKLOG = "AbandonBacklog"


class Confirmation(ApiModel):
    """That data may be lost, once, until a moment."""

    action: ConfirmationAction
    """RemoveCluster: all topics, subscriptions and messages of the namespace in the cluster are deleted when it leaves
    spec.allowedClusters. AbandonBacklog: what was not replicated yet between the cluster and the others is dropped
    when it leaves spec.replicationClusters."""
    cluster: ClusterName
    """The cluster, by its Pulsar name."""
    expires_time: _Time
    """When the confirmation ends, used or not (RFC 3339, such as 2026-12-01T18:00:00Z)."""


class UsedConfirmation(Confirmation):
    """A confirmation that no longer counts."""

    used_time: _Time
    """When it was seen to be used: the cluster was out of the list, or was declared to stay."""


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
    """What is confirmed of a cluster."""

    ROLL_UNDER_REPLICATED = "RollUnderReplicated"
    ADOPT_METADATA = "AdoptMetadata"
    LOSE_LEDGERS = "LoseLedgers"


class ClusterConfirmation(ApiModel):
    """The answer to one question about the data of a cluster, until a moment."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.action == 'LoseLedgers' ? has(self.bookie) : !has(self.bookie)",
                "bookie is the ordinal of the bookie whose ledgers are given up: set it with action LoseLedgers, and "
                "with no other",
            ),
            (
                "self.action != 'AdoptMetadata' || has(self.answers)",
                "answers is the instance id of the metadata store, as condition MetadataReady prints it: set it with "
                "action AdoptMetadata",
            ),
        )
    )

    action: ClusterConfirmationAction
    """RollUnderReplicated: bookies are replaced although ledgers lack copies, or nobody counts them. LoseLedgers:
    ledgers that were on the lost volume of a bookie and have no other copy are given up. AdoptMetadata: a metadata
    store that another tool initialized is used by this cluster from now on."""
    bookie: Annotated[int, Field(ge=0, le=511)] | None = None
    """Ordinal of the bookie, with action LoseLedgers."""
    answers: Annotated[str, Field(min_length=1, max_length=192, pattern=r"^[!-~]+$")] | None = None
    """What is confirmed: the rollout, the loss or the store, as the condition that asks for the confirmation prints it.
    A confirmation without it is not used."""
    expires_time: _Time
    """When the confirmation ends, used or not (RFC 3339, such as 2026-12-01T18:00:00Z)."""


class UsedClusterConfirmation(ClusterConfirmation):
    """A confirmation that was used."""

    used_time: _Time
    """When it was first used."""


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
