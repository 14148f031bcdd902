"""Which images pods run, and how they are pulled."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel

ImageName = Annotated[str, Field(min_length=1, max_length=512)]


class ImagePullPolicy(StrEnum):
    """Image pull policy of a container, as in a PodSpec."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Pulling(ApiModel):
    """Image pull policy and image pull Secrets."""

    pull_policy: ImagePullPolicy = ImagePullPolicy.IF_NOT_PRESENT
    """Image pull policy of the main container of each pod."""
    pull_secrets: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=253)]],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = Field(default_factory=list)
    """Names of the image pull Secrets in the Kubernetes namespace of this object. If empty, the pods use no image pull
    Secrets."""


class Images(Pulling):
    """Images of the components."""

    broker: ImageName | None = None
    """Image of brokers and standalone pods. If unset, the operator's default for spec.version is used."""
    bookie: ImageName | None = None
    """Image of bookies, auto-recovery and ZooKeeper. If unset, the operator's default for spec.version is used."""
    proxy: ImageName | None = None
    """Image of proxies. If unset, the operator's default for spec.version is used."""


class StoreImages(Pulling):
    """Image of a managed configuration store."""

    zookeeper: ImageName | None = None
    """Image of the ZooKeeper servers. If unset, the operator's default image of bookies for spec.version is used."""
