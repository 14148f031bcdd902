"""Which images pods run, and how they are pulled."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel

ImageName = Annotated[str, Field(min_length=1, max_length=512)]


class ImagePullPolicy(StrEnum):
    """As in a container."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Pulling(ApiModel):
    """How images are pulled."""

    pull_policy: ImagePullPolicy = ImagePullPolicy.IF_NOT_PRESENT
    """Pull policy of all pods."""
    pull_secrets: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=253)]],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = Field(default_factory=list)
    """Names of image pull Secrets in the object's Kubernetes namespace."""


class Images(Pulling):
    """Image overrides; absent values come from the operator's own configuration and spec.version."""

    broker: ImageName | None = None
    """Image of brokers and standalone pods."""
    bookie: ImageName | None = None
    """Image of bookies, auto-recovery and ZooKeeper."""
    proxy: ImageName | None = None
    """Image of proxies."""


class StoreImages(Pulling):
    """Image of a managed configuration store; absent values come from the operator's own configuration and
    spec.version."""

    zookeeper: ImageName | None = None
    """Image of its servers; the default is that of bookies."""
